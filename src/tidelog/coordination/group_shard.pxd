# The types of `group_shard`, for compiled modules.

cimport cython

from tidelog.coordination.classic.groups cimport ClassicGroups
from tidelog.coordination.consumer.group cimport ConsumerGroup
from tidelog.coordination.consumer.groups cimport ConsumerGroups
from tidelog.coordination.deadlines cimport Deadlines
from tidelog.coordination.offsets cimport Offsets
from tidelog.wire.typed.consumer_groups cimport ConsumerGroupHeartbeatRequest
from tidelog.wire.typed.group_offsets cimport OffsetCommitRequest
from tidelog.wire.typed.groups_classic cimport HeartbeatRequest


@cython.final
cdef class GroupShard:
    cdef readonly Deadlines deadlines
    cdef readonly object timeline
    cdef readonly object groups
    cdef readonly ClassicGroups classic
    cdef readonly ConsumerGroups consumer
    cdef readonly object share
    cdef readonly object streams
    cdef readonly Offsets offsets
    cdef object _settings
    cdef object _topics

    cpdef object heartbeat(self, HeartbeatRequest request, object now_ms)
    cpdef object consumer_heartbeat(self, ConsumerGroupHeartbeatRequest request, object caller, object now_ms)
    @cython.locals(epoch=cython.longlong, is_new=bint)
    cpdef object commit_offsets(self, OffsetCommitRequest request, long api_version, long long now_ms, object refuse)
