"""To a type checker the typed messages are the declared ones. Written by tools/typed_messages.py; not to be edited."""

from tidelog.wire.messages.fetch import (
    ReplicaState as ReplicaState,
    FetchPartition as FetchPartition,
    FetchTopic as FetchTopic,
    ForgottenTopic as ForgottenTopic,
    FetchRequest as FetchRequest,
    EpochEndOffset as EpochEndOffset,
    LeaderIdAndEpoch as LeaderIdAndEpoch,
    SnapshotId as SnapshotId,
    AbortedTransaction as AbortedTransaction,
    PartitionData as PartitionData,
    FetchableTopicResponse as FetchableTopicResponse,
    NodeEndpoint as NodeEndpoint,
    FetchResponse as FetchResponse,
)
