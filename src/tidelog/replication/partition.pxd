# Epochs, `acks` and numbers of replicas come from fields of at most 4 bytes, offsets and sizes from fields of 8: all are C's where
# they are compared or handed on to the log.

cimport cython


# `waiting` knows this class, and this one its classes: each is named before the other's file is read.
cdef class Partition

from tidelog.replication.follower_progress cimport FetchClock, FollowerProgress
from tidelog.replication.roles cimport Leading
from tidelog.replication.waiting cimport OffsetWaiters, Wakeups
from tidelog.storage.partition_log cimport PartitionLog

cdef long long _ALL_IN_SYNC
cdef long long _NO_LEADER_EPOCH
cdef object _LOG_END
cdef object _FOLLOWER
cdef object _BY_LEADER
cdef object _BY_IN_SYNC_SET


@cython.final
cdef class Partition:
    cdef readonly object topic_partition
    cdef readonly object topic_id
    cdef public object config
    cdef public long long leader_epoch
    cdef public long long partition_epoch
    cdef public object replicas
    cdef public object adding_replicas
    cdef public object removing_replicas
    cdef readonly object role
    cdef readonly Leading leading
    cdef object _node_id
    cdef Wakeups _wakeups
    cdef object _clock
    cdef readonly OffsetWaiters _committed
    cdef readonly OffsetWaiters _deleted
    cdef dict _watchers
    # A `PartitionTrace` while somebody listens; None otherwise, which is all that the data path looks at.
    cdef public object trace

    @cython.locals(leading=Leading)
    cpdef bint takes_writes(self, long long required_acks) except -1
    @cython.locals(leading=Leading)
    cpdef bint commits_at_once(self, long long required_acks) except -1
    @cython.locals(leading=Leading, log=PartitionLog)
    cpdef list append(self, list batches, object rule, long long required_acks=*)
    cdef list _append_as_follower(self, list batches, object rule)
    @cython.locals(leading=Leading)
    cpdef object when_committed(self, object offset)
    @cython.locals(log=PartitionLog)
    cpdef object _advance_high_watermark(self, Leading leading, object by)
    @cython.locals(leading=Leading, log=PartitionLog)
    cpdef object read(
        self,
        long long offset,
        long long bytes_max,
        object isolation,
        long long current_leader_epoch=*,
        bint min_one_batch=*,
        bint leader_only=*,
        long long last_fetched_epoch=*,
    )
    @cython.locals(leading=Leading, high_watermark=cython.longlong, log_start_offset=cython.longlong)
    cpdef bint has_nothing_new(
        self,
        long long offset,
        long long current_leader_epoch,
        long long known_high_watermark,
        long long known_log_start_offset,
    ) except -1
    @cython.locals(leading=Leading)
    cpdef object read_as_follower(
        self,
        object node,
        long long offset,
        long long bytes_max,
        long long broker_epoch,
        long long log_start_offset,
        long long current_leader_epoch=*,
        long long last_fetched_epoch=*,
        bint min_one_batch=*,
        bint note_progress=*,
    )
    @cython.locals(follower=FollowerProgress)
    cdef object _note_progress(
        self,
        Leading leading,
        object node,
        long long offset,
        long long log_start_offset,
        long long leader_end,
        long long broker_epoch,
    )
    @cython.locals(leading=Leading, follower=FollowerProgress)
    cpdef bint rest_follower(self, object node, FetchClock clock) except -1
    @cython.locals(leading=Leading, follower=FollowerProgress)
    cpdef object rouse_follower(self, object node)
    cpdef object watch(self, object watcher)
    cpdef object unwatch(self, object watcher)
    cpdef object changed(self)
    @cython.locals(watchers=dict, leading=Leading)
    cpdef object tell_watchers(self)
    cdef bint _is_awaited(self) except -1
