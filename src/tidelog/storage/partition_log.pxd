# Offsets stay the objects that they came as where they are handed on, and are C's numbers, of 64 bits, where they are compared: they
# come from headers that have been checked, or from the log itself.

cimport cython
from tidelog.storage.checked_batches cimport CheckedBatch
from tidelog.storage.log_reader cimport FreshRun, LogReader
from tidelog.storage.producer cimport ProducerState
from tidelog.storage.producer_state cimport ProducerStateTable
from tidelog.storage.segment cimport Segment
from tidelog.storage.segment_list cimport SegmentList

cdef long long _OFFSET_MAX
cdef long long _FRESH_BYTES_MAX
cdef long long _CONTROL_BIT
cdef long long _NO_LEADER_EPOCH
cdef long long _NO_TIMESTAMP
cdef object _LEADER
cdef object _FOLLOWER
cdef object _MARKER
cdef object _RAFT
cdef object _LOG_END
cdef object _HIGH_WATERMARK
cdef object _OFFSET_OUT_OF_RANGE
cdef object _LOG_APPEND_TIME


@cython.final
cdef class PartitionLog:
    cdef readonly object topic_partition
    cdef readonly object directory
    cdef readonly object topic_id
    cdef readonly object leader_epochs
    cdef readonly ProducerStateTable producers
    cdef public object log_start_offset
    cdef public object log_end_offset
    cdef public object high_watermark
    cdef public object fault
    cdef readonly object config
    cdef readonly object host
    cdef readonly object seams
    cdef readonly SegmentList segments
    cdef readonly LogReader reader
    cdef readonly object durability
    cdef public bint is_durable
    cdef readonly bint is_settled
    cdef readonly long long _assigned_epoch
    cdef object _saved_log_start_offset
    cdef object _abandon_cleaning
    cdef long long _segment_bytes
    cdef long long _roll_ms
    cdef long long _flush_messages
    cdef bint _gives_append_time

    cpdef object commit_up_to(self, object offset)
    cpdef bint reaches(self, long long offset, long long leader_epoch) except -1
    cpdef object append(self, list batches, object rule, long long leader_epoch=*, bint is_awaited=*)
    @cython.locals(
        outcomes=list,
        gathered=list,
        gathered_bytes=cython.longlong,
        aborted=list,
        segment=Segment,
        end=cython.longlong,
        batch=CheckedBatch,
        size=cython.longlong,
        delta=cython.longlong,
        offset=cython.longlong,
        epoch=cython.longlong,
        last_offset=cython.longlong,
        state=ProducerState,
    )
    cdef list _append(self, list batches, object rule, long long leader_epoch, bint has_places, bint keeps_fresh)
    @cython.locals(offset=object, position=cython.longlong, first=CheckedBatch)
    cdef object _write(self, Segment segment, list batches, long long end, list aborted, bint keeps_fresh)
    @cython.locals(following=cython.longlong, offset=cython.longlong, batch=CheckedBatch)
    cdef object _refuse_given(self, list batches, object rule)
    @cython.locals(
        start=cython.longlong, end=cython.longlong, bound=cython.longlong, producers=ProducerStateTable, fresh=FreshRun, records=bytes
    )
    cpdef object read(self, long long offset, long long bytes_max, object upper_bound=*, bint min_one_batch=*)


@cython.locals(first=CheckedBatch, last=CheckedBatch, batch=CheckedBatch, each=CheckedBatch, size=Py_ssize_t, buffer=memoryview)
cdef object _buffers_of(list batches)
