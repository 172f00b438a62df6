"""AlterPartition (56): a leader asks the controller for another in-sync set.

v2 topics by id (KIP-841) · v3 broker epochs of the new set (KIP-903)
"""

from tidelog.wire.schema import Array, Int8, Int16, Int32, Int64, Request, Response, Struct, Uuid, since, until


class BrokerState(Struct):
    broker_id: Int32
    broker_epoch: Int64 = -1


class PartitionData(Struct):
    partition_index: Int32
    leader_epoch: Int32
    new_isr: Array[Int32] = until(2, default=[])
    new_isr_with_epochs: Array[BrokerState] = since(3)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


class TopicData(Struct):
    topic_id: Uuid
    partitions: Array[PartitionData]


class AlterPartitionRequest(Request, api_key=56, versions="2-3", flexible="2+", listeners="controller"):
    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: Array[TopicData]


class AlterPartitionPartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    isr: Array[Int32]
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


class AlterPartitionTopicData(Struct):
    topic_id: Uuid
    partitions: Array[AlterPartitionPartitionData]


class AlterPartitionResponse(Response, api_key=56, versions="2-3", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16
    topics: Array[AlterPartitionTopicData]
