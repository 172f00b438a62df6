# The types of `dispatch_kernel`, for its compiled twin.

cimport cython

cdef long long _PRODUCE_KEY
cdef long long _SUM_MAX
cdef tuple _BOUNDS


cdef class DispatcherCore:
    cdef readonly object _now_ns
    cdef public object _lane
    cdef public dict _takers
    cdef public long long _begun_ns

    @cython.locals(key=cython.longlong, begun_ns=cython.longlong, takers=tuple)
    cdef object _frame(self, object connection, memoryview frame)


@cython.final
cdef class Times:
    cdef readonly list counts
    cdef long long _sum
    cdef object _carried

    @cython.locals(bounds=tuple, bound=cython.longlong, place=Py_ssize_t, end=Py_ssize_t, middle=Py_ssize_t)
    cpdef object observe(self, long long elapsed_ns, long long count)


@cython.final
cdef class RequestCounts:
    cdef readonly Times at_once
    cdef readonly Times local
    cdef readonly Times remote
    cdef readonly Times total
    cdef public long long request_bytes
    cdef public long long response_bytes
    cdef public long long waiting
    cdef readonly object errors
    cdef object _count_errors

    cpdef object answered_together(
        self, long long count, long long elapsed_ns, long long request_bytes, long long response_bytes,
        long long without_error=*)
    cpdef object waited(
        self, long long local_ns, long long elapsed_ns, long long request_bytes, long long response_bytes, long long without_error=*)


cdef class TopicCountsCore:
    cdef public long long messages_in
    cdef public long long bytes_in
    cdef public long long bytes_out
    cdef public long long bytes_rejected
    cdef public long long replication_bytes_out
    cdef public long long total_produce_requests
    cdef public long long total_fetch_requests
    cdef public long long failed_produce_requests
    cdef public long long failed_fetch_requests


@cython.final
cdef class AllowAll:
    pass
