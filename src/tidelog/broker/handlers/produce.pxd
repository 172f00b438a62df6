# The types of `produce`, for its compiled twin.

cimport cython

from tidelog.broker.data.produce_answer cimport ProduceAnswer, ProducedBatch, append_run, produced_batch, trace_received
from tidelog.broker.data.produce_gather cimport ProduceGather
from tidelog.broker.requests.caller cimport Caller
from tidelog.replication.partition cimport Partition
from tidelog.storage.checked_batches cimport CheckedBatch, checked_in
from tidelog.wire.typed.produce cimport PartitionProduceData, ProduceRequest, TopicProduceData

cdef long long _ALL_IN_SYNC
cdef long long _TOPIC_ID_VERSION
cdef long long _ANY_CODEC_VERSION
cdef long long _CODEC_MASK
cdef long long _TRANSACTIONAL_BIT


@cython.locals(
    acks=cython.longlong, version=cython.longlong, attributes=cython.longlong, answer=ProduceAnswer, batches=list, topic=TopicProduceData,
    hosted=dict, partition=Partition, entries=list, data=PartitionProduceData, batch=CheckedBatch, is_traced=bint)
cdef ProduceAnswer _gather(ProduceRequest request, Caller caller, object node, ProduceGather gather)
cdef object _look_up(object asked, TopicProduceData topic, Caller caller, object node, ProduceGather gather)
@cython.locals(topic=TopicProduceData)
cdef object _note_rights(ProduceRequest request, Caller caller, object node)
@cython.locals(size_max=cython.longlong, ahead_max_ms=cython.longlong, timestamp=cython.longlong, is_too_new=bint)
cdef bint _is_taken_as_it_is(CheckedBatch batch, object config, long long now_ms) except -1
@cython.locals(
    first=CheckedBatch, produced=ProducedBatch, batch=CheckedBatch, producer_id=cython.longlong, producer_epoch=cython.longlong,
    place=Py_ssize_t)
cdef bint _is_admitted(object transactional_id, list batches, Caller caller, object node) except -1
cdef object _name_of(TopicProduceData topic, Caller caller, object node)
cdef object _known_name(TopicProduceData topic, Caller caller, object node)
