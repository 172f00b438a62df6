# The types of `partition_kernel`, for its compiled twin: what is a C number, which class an attribute holds, what is called as a C
# function. A `cpdef` method is for Python as well. Where its class is not final, a call from C first looks whether a subclass has
# another; one from Python does not, and nearly all of these are called from Python.
#
# Epochs, `acks` and numbers of replicas come from fields of at most 4 bytes, offsets that are compared here from fields of 8.
# Those that only pass through, from the log or to it, stay Python's.

cimport cython

cdef object _NONE
cdef object _NOT_ENOUGH_REPLICAS_AFTER_APPEND
cdef object _LOG_END
cdef object _FOLLOWER
cdef long long _ALL_IN_SYNC
cdef long long _NO_LEADER_EPOCH
cdef dict _NOTHING


@cython.final
cdef class OffsetWaiters:
    cdef readonly list heap
    cdef long long _number

    cpdef object wait_for(self, object offset)
    @cython.locals(heap=list)
    cpdef object reached(self, object offset, object error=*)
    @cython.locals(heap=list)
    cpdef object fail(self, object error)


@cython.final
cdef class Wakeups:
    cdef dict _changed
    cdef Py_ssize_t _holds
    cdef public object on_caught_up

    cpdef object changed(self, PartitionCore partition)
    cpdef object hold(self)
    @cython.locals(partition=PartitionCore)
    cpdef object release(self)


@cython.final
cdef class FetchClock:
    cdef public long long last_fetch_ms


@cython.final
cdef class FollowerProgress:
    cdef readonly long long log_end_offset
    cdef readonly long long log_start_offset
    cdef readonly long long broker_epoch
    cdef long long _caught_up_ms
    cdef long long _last_fetch_ms
    cdef long long _leader_end_at_last_fetch
    cdef FetchClock _clock

    cpdef object fetched(
        self,
        long long offset,
        long long log_start_offset,
        long long leader_log_end_offset,
        long long broker_epoch,
        long long now_ms,
    )
    cpdef object rest(self, FetchClock clock)
    @cython.locals(clock=FetchClock)
    cpdef object rouse(self)


@cython.final
cdef class Leading:
    cdef public object log
    cdef public object epoch_start_offset
    cdef public tuple isr
    cdef public dict followers
    cdef public Py_ssize_t min_in_sync
    cdef public tuple joining


cdef class PartitionCore:
    cdef readonly object topic_partition
    cdef readonly object topic_id
    cdef public object config
    cdef public long long leader_epoch
    cdef public long long partition_epoch
    cdef public object replicas
    cdef public object adding_replicas
    cdef public object removing_replicas
    cdef public object role
    cdef readonly object _node_id
    cdef readonly Wakeups _wakeups
    cdef readonly object _clock
    cdef readonly OffsetWaiters _committed
    cdef readonly OffsetWaiters _deleted
    cdef readonly dict _watchers

    @cython.locals(leading=Leading)
    cpdef bint takes_writes(self, long long required_acks) except -1
    @cython.locals(leading=Leading)
    cpdef bint commits_at_once(self, long long required_acks) except -1
    @cython.locals(leading=Leading)
    cpdef object append(self, list batches, object rule, long long required_acks=*)
    @cython.locals(leading=Leading)
    cpdef object when_committed(self, object offset)
    cpdef object _advance_high_watermark(self, Leading leading)
    cdef object _advance(self, Leading leading)
    @cython.locals(isr=tuple, joining=tuple, follower=FollowerProgress)
    cpdef long long _replicated(self, Leading leading, long long end) except? -2
    @cython.locals(leading=Leading)
    cpdef object read(
        self,
        object offset,
        object bytes_max,
        object isolation,
        long long current_leader_epoch=*,
        object min_one_batch=*,
        object leader_only=*,
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
        object offset,
        object bytes_max,
        object broker_epoch,
        object log_start_offset,
        long long current_leader_epoch=*,
        long long last_fetched_epoch=*,
        object min_one_batch=*,
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
    cpdef bint _has_committed(self, Leading leading, FollowerProgress follower) except -1
    cpdef object watch(self, object watcher)
    cpdef object unwatch(self, object watcher)
    cdef bint _is_awaited(self) except -1
    @cython.locals(watchers=dict, leading=Leading)
    cdef object _tell_watchers(self)


cdef class PartitionsCore:
    cdef readonly dict _by_name
    cdef readonly dict _by_id

    cpdef object named(self, object topic)
    cpdef object identified(self, object topic_id)


cdef object _commit_error(Leading leading)
