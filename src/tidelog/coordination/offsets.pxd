# The types of `offsets`, for compiled modules.

cimport cython

from tidelog.coordination.offset_records cimport Committed, OffsetCommits
from tidelog.wire.typed.group_offsets cimport (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


@cython.final
cdef class _Table:
    cdef readonly dict by_group

    @cython.locals(topics=dict, partitions=dict)
    cpdef object get(self, object group_id, object topic, object partition)
    @cython.locals(topics=dict, partitions=dict)
    cpdef object put(self, object group_id, object topic, object partition, object committed)
    @cython.locals(topics=dict, partitions=dict)
    cpdef object remove(self, object group_id, object topic, object partition)


@cython.final
cdef class Offsets:
    cdef object _settings
    cdef Py_ssize_t _metadata_max
    cdef readonly object _timeline
    cdef dict _earlier
    cdef _Table _committed
    cdef dict _pending

    @cython.locals(
        retention_ms=cython.longlong, expire_ms=cython.longlong, commits=OffsetCommits, answer=OffsetCommitResponse,
        topics=list, topic=OffsetCommitRequestTopic, answered=OffsetCommitResponseTopic, partitions=list,
        asked=OffsetCommitRequestPartition, outcome=OffsetCommitResponsePartition)
    cpdef object commit(self, OffsetCommitRequest request, long long now_ms)
    @cython.locals(committed=Committed, text=str)
    cdef long long _add(
        self, OffsetCommits commits, object topic, object topic_id, object partition, long long offset, long long leader_epoch,
        object metadata, long long now_ms, long long expire_ms) except *
    cdef object _decision(self, object answer, OffsetCommits commits, object producer)
    @cython.locals(is_pending=bint, is_noting=bint, table=_Table, row=tuple, committed=Committed)
    cpdef object take_in(self, OffsetCommits records, long long first_offset, bint is_committed)
