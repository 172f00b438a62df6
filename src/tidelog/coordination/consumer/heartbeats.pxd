# The types of `heartbeats`, for compiled modules.

cimport cython

from tidelog.coordination.consumer.context cimport GroupContext
from tidelog.coordination.consumer.group cimport ConsumerGroup
from tidelog.wire.typed.consumer_groups cimport ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


@cython.final
cdef class Heartbeats:
    cdef GroupContext _context
    cdef object _fencing
    cdef object _classic

    cpdef object heartbeat(self, ConsumerGroupHeartbeatRequest request, object caller, object now_ms)
    @cython.locals(answer=ConsumerGroupHeartbeatResponse)
    cdef ConsumerGroupHeartbeatResponse _stay(self, ConsumerGroup group, object member, object now_ms)


@cython.locals(epoch=cython.longlong)
cdef bint _has_nothing_new(
    ConsumerGroup group, object member, ConsumerGroupHeartbeatRequest request, object caller) except -1
