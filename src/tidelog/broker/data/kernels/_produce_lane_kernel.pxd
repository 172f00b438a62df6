# The types of `produce_lane_kernel`, for its compiled twin.

cimport cython
from tidelog.storage.checked_batches cimport CheckedBatch, checked_in

cdef long long _FLEXIBLE_VERSION
cdef long long _RECORD_ERRORS_VERSION
cdef long long _TOPIC_ID_VERSION
cdef long long _ACKS_OF_ALL
cdef long long _CODEC_MASK
cdef long long _TRANSACTIONAL_BIT
cdef object _LEADER


@cython.final
cdef class TakenProduce:
    cdef readonly long long version
    cdef readonly long long correlation_id
    cdef readonly long long acks
    cdef readonly long long timeout_ms
    cdef readonly list placed
    cdef readonly long long size_bytes


cdef class ProduceLaneCore:
    cdef readonly object _node
    cdef readonly object _authorizer
    cdef object _read_produce
    cdef object _write_produced
    cdef readonly object _now_ns
    cdef object _clock_ms
    cdef object _requests
    cdef object _topic_counts
    cdef list _taken
    cdef dict _runs
    cdef object _topic
    cdef bint _is_by_id
    cdef object _hosted
    cdef bytes _head
    cdef object _head_topic
    cdef long long _head_version
    cdef object _counts
    cdef long long _counts_version
    cdef readonly bint is_open
    cdef long long _now_ms
    cdef readonly long long _begun_ns
    cdef long long _request_bytes

    @cython.locals(
        version=cython.longlong, acks=cython.longlong, stretches=list, special=cython.longlong, batches=list, batch=CheckedBatch, by_id=bint, partitions=list, start=Py_ssize_t, stop=Py_ssize_t,
        max_timestamp=cython.longlong, placed=list, run=list, runs=dict, number=Py_ssize_t, size=Py_ssize_t,
        bytes_max=cython.longlong, ahead_max_ms=cython.longlong, taken=TakenProduce)
    cdef bint _take(self, object connection, memoryview frame) except -1
    @cython.locals(
        taken=list, runs=dict, first=TakenProduce, each=TakenProduce, request_bytes=cython.longlong, outcomes=dict, is_committed=bint,
        answers=list, answer=bytes, response_bytes=cython.longlong)
    cdef object _finish(self, object connection)
    cdef object _look_up(self, bytes topic, bint by_id, object connection)
    cdef bytes _head_of(self, long long version, bytes topic)
    cdef object _counts_of(self, long long version)
    @cython.locals(
        run=list, batch=CheckedBatch, delta=cython.longlong, version=cython.longlong, answer=bytes)
    cdef object _finish_one(self, object connection, TakenProduce taken, dict runs)
    @cython.locals(
        version=cython.longlong, placed=list, parts=list, at=Py_ssize_t, count=Py_ssize_t, place=Py_ssize_t)
    cdef bytes _answer(self, TakenProduce taken, dict outcomes)


@cython.locals(messages=cython.longlong, total_bytes=cython.longlong, number=Py_ssize_t, batch=CheckedBatch)
cpdef object count_run(object counts, list run, object outcomes)

@cython.locals(first=CheckedBatch, batch=CheckedBatch)
cdef bint _of_one_producer(list batches) except -1
cdef object _packed(long long version, object index, object first_offset, object log_start_offset)
@cython.locals(count=Py_ssize_t, at=Py_ssize_t)
cdef Py_ssize_t _topic_count(list placed) except -1
