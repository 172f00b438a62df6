# The types of `caller`, for compiled modules.

cimport cython


@cython.final
cdef class AllowAll:
    pass


@cython.final
cdef class Caller:
    cdef readonly object connection
    cdef readonly object client_id
    cdef readonly long long api_key
    cdef readonly long long api_version
    cdef readonly object authorizer
    cdef readonly object gather
    cdef public object member

    cpdef bint may(self, object operation, object resource_type, object name) except -1
