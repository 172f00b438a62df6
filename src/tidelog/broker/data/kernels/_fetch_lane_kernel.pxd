# The types of `fetch_lane_kernel`, for its compiled twin.

cimport cython

cdef long long _NO_SESSION
cdef long long _FINAL_EPOCH
cdef long long _COMMITTED_LEVEL
cdef long long _TOPIC_ID_VERSION
cdef long long _WAIT_MS_MAX
cdef long long _SENDFILE_BYTES_MIN


cdef class FetchLaneCore:
    cdef readonly object _node
    cdef readonly object _authorizer
    cdef object _read_fetch
    cdef object _write_fetched
    cdef object _now_ns
    cdef object _timers
    cdef object _requests
    cdef object _topics
    cdef object _counts
    cdef long long _counts_version
    cdef bytes _head
    cdef object _head_topic
    cdef long long _head_version
    cdef bint _looks_at_racks
    cdef long long _max_bytes

    @cython.locals(
        size=Py_ssize_t, version=cython.longlong, max_wait_ms=cython.longlong, min_bytes=cython.longlong, max_bytes=cython.longlong,
        level=cython.longlong, session_id=cython.longlong, session_epoch=cython.longlong, asked=list, partitions=list, results=list,
        total=cython.longlong, number=Py_ssize_t, bytes_max=cython.longlong, sent_bytes=cython.longlong, waiting=WaitingFetch)
    cdef bint _take(self, object connection, memoryview frame, long long begun_ns) except -1
    @cython.locals(partitions=list)
    cdef list _partitions_of(self, list asked, bint by_id, object connection)
    @cython.locals(parts=list, size=cython.longlong, count=cython.longlong, number=Py_ssize_t)
    cdef long long _answer(
        self, object slot, long long version, object correlation_id, list asked, list partitions, list results, bint has_waited
    ) except -1
    cdef bytes _head_of(self, long long version, bytes topic)
    cdef object _counts_of(self, long long version)
    @cython.locals(sent_bytes=cython.longlong, elapsed_ns=cython.longlong, without_error=Py_ssize_t)
    cdef object _complete(self, WaitingFetch fetch)


@cython.final
cdef class WaitingFetch:
    cdef FetchLaneCore lane
    cdef object isolation
    cdef long long max_bytes
    cdef readonly object connection
    cdef readonly object slot
    cdef readonly long long version
    cdef readonly object correlation_id
    cdef readonly list asked
    cdef readonly list partitions
    cdef readonly list results
    cdef object timer
    cdef long long begun_ns
    cdef long long local_ns
    cdef Py_ssize_t request_bytes

    @cython.locals(place=Py_ssize_t, bytes_max=cython.longlong)
    cdef object _partition_changed(self, object partition)
    cdef object _complete(self)


@cython.locals(count=cython.longlong)
cdef object _copied_records(object region, long long copied_bytes)
@cython.locals(count=Py_ssize_t, at=Py_ssize_t)
cdef Py_ssize_t _topic_count(list asked) except -1
