# The types of `dispatch`, for compiled modules.

cimport cython

from tidelog.broker.metrics.request_counts cimport RequestCounts
from tidelog.broker.requests.caller cimport Caller
from tidelog.wire.typed.headers cimport RequestHeader
from tidelog.wire.typed.message cimport TypedMessage

cdef long long _PRODUCE_KEY
cdef long long _KEYS
cdef long long _VERSIONS


@cython.final
cdef class Served:
    cdef readonly long long key
    cdef readonly long version
    cdef readonly object request
    cdef readonly bint is_typed
    cdef readonly object answer
    cdef readonly bint wakes
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


cdef class Dispatcher:
    cdef public object _lane
    cdef readonly object _node
    cdef readonly object _authorizer
    cdef readonly object _listener_kind
    cdef readonly object _now_ns
    cdef object _counts
    cdef readonly list _served
    cdef RequestHeader _header
    cdef Caller _caller
    cdef long long _begun_ns
    cdef public bint is_ready

    @cython.locals(
        served=Served, correlation_id=cython.longlong, request_bytes=Py_ssize_t, counts=RequestCounts, done_ns=cython.longlong,
        sent_bytes=Py_ssize_t)
    cdef object _handle(self, object connection, memoryview frame, long long begun_ns)
    @cython.locals(key=cython.longlong, version=cython.longlong, data="const unsigned char *")
    cdef Served _known(self, memoryview frame)
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, data="const unsigned char *", typed=TypedMessage)
    cdef object _read(self, Served served, memoryview frame)
    @cython.locals(key=cython.longlong, version=cython.longlong)
    cdef Served _serve(self, long long key, long long version)
    @cython.locals(caller=Caller)
    cdef Caller _caller_of(self, object connection, Served served)


@cython.locals(parts=list)
cdef Py_ssize_t _send_now(object connection, Served served, object answer, long long correlation_id) except -1

@cython.locals(parts=list)
cdef Py_ssize_t _send(object slot, Served served, object answer, object correlation_id, bint at_once) except -1
