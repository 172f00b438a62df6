# The types of `answering`, for compiled modules.

cimport cython

from tidelog.broker.metrics.request_counts cimport RequestCounts


@cython.final
cdef class Served:
    cdef readonly long long key
    cdef readonly long version
    cdef readonly object request
    cdef readonly bint is_typed
    cdef readonly object answer
    cdef readonly bint wakes
    cdef readonly int metering
    cdef readonly RequestCounts counts
    cdef readonly long header_version
    cdef readonly int response_header_version


@cython.final
cdef class LaterAnswer:
    cdef Served _served
    cdef object _slot
    cdef long long _correlation_id
    cdef long long _request_bytes
    cdef long long _begun_ns
    cdef long long _done_ns
    cdef object _now_ns


@cython.locals(parts=list)
cdef object encoded_frame(Served served, object answer, long long correlation_id)

@cython.locals(parts=list)
cdef Py_ssize_t send_now(object connection, Served served, object answer, long long correlation_id) except -1

@cython.locals(parts=list)
cdef Py_ssize_t _send(object slot, Served served, object answer, object correlation_id, bint at_once) except -1
