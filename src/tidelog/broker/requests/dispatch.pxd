# The types of `dispatch`, for compiled modules.

cimport cython

from tidelog.broker.data.produce_answer cimport ProduceAnswer
from tidelog.broker.data.produce_gather cimport ProduceGather
from tidelog.broker.quotas.meter cimport Meter, MeteredAnswer, meter_of
from tidelog.broker.quotas.node_quotas cimport NodeQuotas
from tidelog.broker.metrics.request_counts cimport RequestCounts
from tidelog.broker.requests.answering cimport Served
from tidelog.broker.requests.caller cimport Caller
from tidelog.wire.typed.headers cimport RequestHeader
from tidelog.wire.typed.message cimport TypedMessage

cdef long long _PRODUCE_KEY
cdef long long _KEYS
cdef long long _VERSIONS


cdef class Dispatcher:
    cdef readonly ProduceGather _gather
    cdef readonly object _node
    cdef readonly object _authorizer
    cdef readonly object _listener_kind
    cdef readonly object _now_ns
    cdef object _counts
    cdef NodeQuotas _quotas
    cdef readonly list _served
    cdef object _interposer
    cdef RequestHeader _header
    cdef Caller _caller
    cdef long long _begun_ns
    cdef public bint is_ready
    cdef public object on_closed

    @cython.locals(
        served=Served, gather=ProduceGather, begun_ns=cython.longlong, correlation_id=cython.longlong, request_bytes=Py_ssize_t,
        meter=Meter, counts=RequestCounts, done_ns=cython.longlong, sent_bytes=Py_ssize_t, gathered=ProduceAnswer, caller=Caller)
    cpdef object frame(self, object connection, memoryview frame)
    cdef Meter _meter_of(self, object connection, Served served, long long begun_ns)
    @cython.locals(gather=ProduceGather)
    cdef object _gathered(self, ProduceAnswer gathered, Meter meter)
    @cython.locals(key=cython.longlong, version=cython.longlong, data="const unsigned char *")
    cdef Served _known(self, memoryview frame)
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, data="const unsigned char *", typed=TypedMessage)
    cdef object _read(self, Served served, memoryview frame)
    @cython.locals(key=cython.longlong, version=cython.longlong)
    cdef Served _serve(self, long long key, long long version)
    @cython.locals(caller=Caller)
    cdef Caller _caller_of(self, object connection, Served served)
