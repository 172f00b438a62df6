# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The numbers of one topic on this node: every partition of a Produce or Fetch adds to them."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode

# Kafka takes these for the client's affair, not for failures of the broker.
_NO_FAILURES_OF_PRODUCE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_NO_FAILURES_OF_FETCH = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

COUNTERS = {
    "messages_in": "Records that producers wrote.",
    "bytes_in": "Bytes of record batches that producers wrote.",
    "bytes_out": "Bytes of record batches that consumers were answered.",
    "bytes_rejected": "Bytes of record batches that were larger than allowed.",
    "replication_bytes_out": "Bytes of record batches that followers were answered.",
    "total_produce_requests": "Partitions in Produce requests.",
    "total_fetch_requests": "Partitions in Fetch requests.",
    "failed_produce_requests": "Partitions in Produce requests that failed, other than by a client that was out of date.",
    "failed_fetch_requests": "Partitions in Fetch requests that failed, other than by a client that was out of date.",
}


class TopicCounts:
    """The numbers of one topic on this node."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "messages_in",
        "replication_bytes_out",
        "total_fetch_requests",
        "total_produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.replication_bytes_out = 0
        self.total_produce_requests = 0
        self.total_fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0

    def produced(self, requests: int, messages: int, record_bytes: int) -> None:
        """So many batches have come, of which so much was written."""
        self.total_produce_requests += requests
        self.messages_in += messages
        self.bytes_in += record_bytes

    def produce_refused(self, error: int, record_bytes: int) -> None:
        """Records for a partition were not written."""
        if error not in _NO_FAILURES_OF_PRODUCE:
            self.failed_produce_requests += 1
        if error in _TOO_LARGE:
            self.bytes_rejected += record_bytes

    def fetch_refused(self, error: int) -> None:
        """A partition could not be read."""
        self.total_fetch_requests += 1
        if error not in _NO_FAILURES_OF_FETCH:
            self.failed_fetch_requests += 1

    def add(self, other: TopicCounts) -> None:
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
