"""To a type checker the typed messages are the declared ones. Written by tools/typed_messages.py; not to be edited."""

from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequestPartition as OffsetCommitRequestPartition,
    OffsetCommitRequestTopic as OffsetCommitRequestTopic,
    OffsetCommitRequest as OffsetCommitRequest,
    OffsetCommitResponsePartition as OffsetCommitResponsePartition,
    OffsetCommitResponseTopic as OffsetCommitResponseTopic,
    OffsetCommitResponse as OffsetCommitResponse,
)
