"""To a type checker the typed messages are the declared ones. Written by tools/typed_messages.py; not to be edited."""

from tidelog.wire.messages.consumer_groups import (
    TopicPartitions as TopicPartitions,
    ConsumerGroupHeartbeatRequest as ConsumerGroupHeartbeatRequest,
    Assignment as Assignment,
    ConsumerGroupHeartbeatResponse as ConsumerGroupHeartbeatResponse,
)
