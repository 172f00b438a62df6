"""To a type checker the typed messages are the declared ones. Written by tools/typed_messages.py; not to be edited."""

from tidelog.wire.messages.produce import (
    PartitionProduceData as PartitionProduceData,
    TopicProduceData as TopicProduceData,
    ProduceRequest as ProduceRequest,
    BatchIndexAndErrorMessage as BatchIndexAndErrorMessage,
    LeaderIdAndEpoch as LeaderIdAndEpoch,
    PartitionProduceResponse as PartitionProduceResponse,
    TopicProduceResponse as TopicProduceResponse,
    NodeEndpoint as NodeEndpoint,
    ProduceResponse as ProduceResponse,
)
