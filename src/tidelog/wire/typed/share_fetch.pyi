"""To a type checker the typed messages are the declared ones. Written by tools/typed_messages.py; not to be edited."""

from tidelog.wire.messages.share_fetch import (
    AcknowledgementBatch as AcknowledgementBatch,
    FetchPartition as FetchPartition,
    FetchTopic as FetchTopic,
    ForgottenTopic as ForgottenTopic,
    ShareFetchRequest as ShareFetchRequest,
    LeaderIdAndEpoch as LeaderIdAndEpoch,
    AcquiredRecords as AcquiredRecords,
    PartitionData as PartitionData,
    ShareFetchableTopicResponse as ShareFetchableTopicResponse,
    NodeEndpoint as NodeEndpoint,
    ShareFetchResponse as ShareFetchResponse,
    AcknowledgePartition as AcknowledgePartition,
    AcknowledgeTopic as AcknowledgeTopic,
    ShareAcknowledgeRequest as ShareAcknowledgeRequest,
    ShareAcknowledgePartitionData as ShareAcknowledgePartitionData,
    ShareAcknowledgeTopicResponse as ShareAcknowledgeTopicResponse,
    ShareAcknowledgeResponse as ShareAcknowledgeResponse,
)
