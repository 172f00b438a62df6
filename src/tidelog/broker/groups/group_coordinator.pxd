# The types of `group_coordinator`, for compiled modules.

cimport cython

from tidelog.broker.requests.caller cimport Caller
from tidelog.coordination.active_shard cimport ActiveShard


@cython.final
cdef class GroupCoordinator:
    cdef readonly object settings
    cdef public object begin_states
    cdef object _node
    cdef object _config
    cdef object _config_now
    cdef bint _allows_consumer_protocol
    cdef bint _allows_streams_protocol
    cdef object _random
    cdef object _limits
    cdef readonly object _elections
    cdef readonly object _host
    cdef dict _shards
    cdef readonly dict traces

    cpdef object active(self, object group_id)


cpdef object member_of(Caller caller)
