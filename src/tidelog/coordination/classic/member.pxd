# The types of `member`, for compiled modules.

cimport cython


@cython.final
cdef class ParkedJoin:
    cdef public object answer
    cdef public object api_version


@cython.final
cdef class ClassicMember:
    cdef public object member_id
    cdef public object instance_id
    cdef public object client_id
    cdef public object client_host
    cdef public object rebalance_timeout_ms
    cdef public object session_timeout_ms
    cdef public object protocol_type
    cdef public object protocols
    cdef public object assignment
    cdef public object parked_join
    cdef public object parked_sync
    cdef public bint is_new
    cdef public object session_key
    cdef public object session_action
