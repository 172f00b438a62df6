# The types of `node_quotas`, for compiled modules: every request looks at `is_on`.

cimport cython


@cython.final
cdef class NodeQuotas:
    cdef object _clock
    cdef object _followed
    cdef readonly object produce
    cdef readonly object fetch
    cdef readonly object request
    cdef readonly object mutations
    cdef readonly long long request_throttle_ms_max
    cdef readonly object exempt
    cdef readonly bint is_on
