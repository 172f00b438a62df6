# The types of `produce_answer`, for compiled modules.

cimport cython

from tidelog.broker.metrics.topic_counts cimport TopicCounts
from tidelog.broker.requests.answering cimport Served
from tidelog.replication.partition cimport Partition
from tidelog.storage.checked_batches cimport CheckedBatch
from tidelog.storage.partition_log cimport PartitionLog
from tidelog.wire.typed.produce cimport PartitionProduceResponse, ProduceResponse, TopicProduceResponse

cdef object _LEADER
cdef object _NONE
cdef long long _ALL_IN_SYNC
cdef long long _LEADER_HINT_VERSION
cdef long long _NO_OFFSET
cdef long long _NO_TIMESTAMP


@cython.final
@cython.freelist(64)
cdef class ProduceAnswer:
    cdef readonly long long acks
    cdef readonly long long timeout_ms
    cdef readonly long long version
    cdef readonly ProduceResponse response
    cdef public bint has_errors
    cdef public list waiting
    cdef public object traced
    cdef public Served served
    cdef public long long correlation_id
    cdef public long long request_bytes
    cdef public long long sent_bytes

    @cython.locals(topic=TopicProduceResponse, entries=list)
    cpdef list add_topic(self, object name, object topic_id)
    @cython.locals(entry=PartitionProduceResponse)
    cpdef object refuse(self, list entries, long long index, object refused, object partition)
    cpdef object finished(self, object listener_name, object node)


@cython.final
@cython.freelist(64)
cdef class ProducedBatch:
    cdef readonly ProduceAnswer answer
    cdef readonly PartitionProduceResponse entry
    cdef readonly CheckedBatch batch
    cdef readonly Partition partition


@cython.locals(produced=ProducedBatch)
cpdef ProducedBatch produced_batch(
    ProduceAnswer answer, list entries, long long index, CheckedBatch batch, Partition partition)
@cython.locals(produced=ProducedBatch, answer=ProduceAnswer)
cpdef object trace_received(list batches, object client_id, long long correlation_id)
@cython.locals(
    first=ProducedBatch, partition=Partition, log=PartitionLog, produced=ProducedBatch, place=Py_ssize_t, outcomes=list, counts=TopicCounts, log_start_offset=cython.longlong)
cpdef object append_run(list run, long long required_acks, object topics)
@cython.locals(
    answer=ProduceAnswer, entry=PartitionProduceResponse, batch=CheckedBatch, is_duplicate=bint,
    first_offset=cython.longlong, last_offset=cython.longlong)
cdef object _tell(ProducedBatch produced, object outcome, long long log_start_offset, TopicCounts counts)
@cython.locals(entry=PartitionProduceResponse)
cdef PartitionProduceResponse _next_entry(list entries, long long index)
