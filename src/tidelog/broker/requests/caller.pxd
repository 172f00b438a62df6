# The types of `caller`, for compiled modules.

cimport cython

from tidelog.broker.quotas.meter cimport Meter
from tidelog.security.authorizer cimport StandardAuthorizer


cdef dict _known_levels

cdef bint _is_logged(object level) except -1


@cython.final
cdef class AllowAll:
    pass


@cython.final
cdef class Caller:
    cdef readonly object connection
    cdef readonly object client_id
    cdef public long long correlation_id
    cdef readonly long long api_key
    cdef readonly long long api_version
    cdef readonly object authorizer
    cdef readonly object gather
    cdef public object member
    cdef public Meter meter

    cdef readonly bint is_free
    cdef StandardAuthorizer _standard
    cdef object _rule
    cdef object _operation
    cdef object _resource_type
    cdef object _name
    cdef object _principal
    cdef long long _revision

    cpdef Py_ssize_t revision(self) except -1
    cpdef bint may(
        self, object operation, object resource_type, object name, long long count=*, bint logs_denied=*, bint logs_allowed=*
    ) except -1
    cpdef bint might(self, object operation, object resource_type, object name) except -1
    cpdef bint decide(self, object operation, object resource_type, object name) except -1
    cpdef bint is_audited(self, bint is_allowed) except -1
    cpdef object audit(self, bint is_allowed, object operation, object resource_type, object name, long long count)
    cdef object _rule_of(self, StandardAuthorizer standard, object operation, object resource_type, object name)
    cdef object _audit(self, object level, object operation, object resource_type, object name, long long count)
