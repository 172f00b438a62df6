# The types of `groups`, for compiled modules.

cimport cython

from tidelog.coordination.consumer.context cimport GroupContext
from tidelog.coordination.consumer.heartbeats cimport Heartbeats
from tidelog.wire.typed.consumer_groups cimport ConsumerGroupHeartbeatRequest


@cython.final
cdef class ConsumerGroups:
    cdef object _timeline
    cdef readonly GroupContext _context
    cdef object _fencing
    cdef Heartbeats _heartbeats
    cdef object _classic_members

    cpdef object heartbeat(self, ConsumerGroupHeartbeatRequest request, object caller, object now_ms)
