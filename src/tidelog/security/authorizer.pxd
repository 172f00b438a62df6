# The types of `authorizer`, for compiled modules.

cimport cython


@cython.final
cdef class StandardAuthorizer:
    cdef object _super_users
    cdef object _default
    cdef object _acls
    cdef object _followed
    cdef readonly dict _decisions
    cdef public bint is_ready
    cdef readonly long long revision
    cdef public long long allowed_count
    cdef public long long denied_count

    cpdef bint allows(self, object principal, object host, object operation, object resource_type, object name) except -1
    cpdef object rule(self, object principal, object host, object operation, object resource_type, object name)
