# The types of `produce_gather`, for compiled modules.

cimport cython

from tidelog.broker.data.produce_answer cimport ProduceAnswer, ProducedBatch, append_run
from tidelog.broker.quotas.meter cimport Meter
from tidelog.broker.requests.answering cimport Served

cdef long long _REQUIRED_ACKS
cdef long long _SIZE_BYTES


@cython.final
cdef class ProduceGather:
    cdef object _node
    cdef object _topics
    cdef object _now_ns
    cdef object _connection
    cdef list _answers
    cdef list _batches
    cdef readonly bint is_open
    cdef public long long begun_ns
    cdef readonly long long done_ns
    cdef readonly long long now_ms
    cdef public Meter meter
    cdef public object topic
    cdef public dict hosted

    cpdef object begin(self)
    cpdef object add(self, ProduceAnswer answer, list batches, object connection)
    @cython.locals(answers=list, batches=list)
    cpdef object close(self)
    @cython.locals(runs=dict, run=list, produced=ProducedBatch)
    cdef object _append(self, list batches)
    @cython.locals(answer=ProduceAnswer, frames=list, meter=Meter, served=Served, elapsed_ns=cython.longlong)
    cdef object _send(self, list answers, object connection)
