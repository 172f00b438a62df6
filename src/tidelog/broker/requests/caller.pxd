# The types of `caller`, for compiled modules.

cimport cython

from tidelog.broker.quotas.meter cimport Meter


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
    cdef public Meter meter

    cpdef bint may(
        self, object operation, object resource_type, object name, long long count=*, bint logs_denied=*, bint logs_allowed=*
    ) except -1
    cpdef bint might(self, object operation, object resource_type, object name) except -1
    cdef object _audit(self, object level, object operation, object resource_type, object name, long long count)
