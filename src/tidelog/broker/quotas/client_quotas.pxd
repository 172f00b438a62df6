# The types of `client_quotas`, for compiled modules: every request of a client with quotas looks at `generation`.

cimport cython


@cython.final
cdef class ClientQuotas:
    cdef long long _windows
    cdef long long _window_ms
    cdef object _limits
    cdef object _kinds
    cdef dict _accounts
    cdef object _expired_ms
    cdef readonly long long generation
    cdef readonly bint is_on
