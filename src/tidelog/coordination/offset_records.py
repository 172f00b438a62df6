"""Committed offsets as records of `__consumer_offsets`, byte for byte as Apache Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import msgspec

from tidelog.coordination.decision import record, tombstone
from tidelog.kernel_choice import load
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.offset_records import OffsetCommitKey, OffsetCommitValue

_kernel = load("tidelog.wire.kernels", "group_kernel")

NO_EXPIRY = -1
NOT_WRITTEN = -1

# Kafka writes the oldest version that holds what it has to say: a time of expiry is in version 1 alone.
_VERSION = 4
_VERSION_WITH_EXPIRY = 1


class Committed(msgspec.Struct, gc=False):
    """One committed offset. `record_offset` is where it stands in the coordinator's log, once it does."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    record_offset: int = NOT_WRITTEN


class OffsetCommits(Sequence[CoordinatorRecord]):
    """What one request commits: of each partition the topic, the index and the offset.

    A sequence of records, each of which is made for whoever looks at it: the log takes all as a batch, and memory the offsets.
    """

    __slots__ = ("group_id", "producer_epoch", "producer_id", "rows")

    def __init__(
        self, group_id: str, producer_id: int = NO_PRODUCER_ID, producer_epoch: int = NO_PRODUCER_EPOCH
    ) -> None:
        """With a producer they belong to its transaction."""
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.rows: list[tuple[str, int, Committed]] = []

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> CoordinatorRecord: ...

    @overload
    def __getitem__(self, place: slice) -> list[CoordinatorRecord]: ...

    def __getitem__(self, place: int | slice) -> CoordinatorRecord | list[CoordinatorRecord]:
        if isinstance(place, slice):
            return [_offset_record(self.group_id, *row) for row in self.rows[place]]
        return _offset_record(self.group_id, *self.rows[place])

    def to_batch(self, timestamp_ms: int) -> bytearray | None:
        """All of them as one batch; None where a record needs another version than nearly all have, or a name does not fit into
        it.
        """
        if self.rows[0][2].expire_timestamp_ms != NO_EXPIRY:
            return None
        batch: bytearray | None = _kernel.offset_commit_batch(
            self.group_id, self.rows, timestamp_ms, self.producer_id, self.producer_epoch
        )
        return batch


def _offset_record(group_id: str, topic: str, partition: int, committed: Committed) -> CoordinatorRecord:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    has_expiry = committed.expire_timestamp_ms != NO_EXPIRY
    return record(_key(group_id, topic, partition), value, _VERSION_WITH_EXPIRY if has_expiry else _VERSION)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return tombstone(_key(group_id, topic, partition))


def committed_of(value: OffsetCommitValue, record_offset: int) -> Committed:
    """What a record says."""
    return Committed(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )


def _key(group_id: str, topic: str, partition: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition)
