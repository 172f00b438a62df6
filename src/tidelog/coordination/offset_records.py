# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=False
# mypy: disable-error-code="valid-type, index, attr-defined"
"""Committed offsets as records of `__consumer_offsets`, byte for byte as Apache Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.coordination.coordinator_batch import HEADER_BYTES
from tidelog.coordination.decision import record, tombstone
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ZERO_UUID
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.offset_records import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.coordination.coordinator_batch import (
        begin_record,
        begin_value,
        compact_bytes,
        put_compact,
        put_name,
        record_bytes,
        seal,
    )
    from cython.cimports.tidelog.wire.record_fields_inline import put_bytes
    from cython.cimports.tidelog.wire.typed.fields_inline import put16, put32, put64, room_in
else:
    from tidelog.coordination.coordinator_batch import (
        begin_record,
        begin_value,
        compact_bytes,
        put_compact,
        put_name,
        record_bytes,
        seal,
    )
    from tidelog.wire.record_fields import put_bytes
    from tidelog.wire.typed.fields import put16, put32, put64, room_in

NO_EXPIRY = -1
NOT_WRITTEN = -1

# Kafka writes the oldest version that holds what it has to say: a time of expiry is in version 1 alone.
_VERSION = 4
_VERSION_WITH_EXPIRY = 1

# The same for this module alone: what C knows by its type, Python does not see.
_HEADER_BYTES = HEADER_BYTES
# What a key's length can say.
_NAME_BYTES_MAX = 2**15 - 1

# Without metadata, names and topic id: type, two lengths, partition; version, offset, epoch, commit time, tagged fields.
_KEY_BYTES = 10
_VALUE_BYTES = 23
_TOPIC_ID_BYTES = 18


class Committed:  # noqa: PLW1641 - it changes
    """One committed offset. `record_offset` is where it stands in the coordinator's log, once it does."""

    __slots__ = (
        "commit_timestamp_ms",
        "expire_timestamp_ms",
        "leader_epoch",
        "metadata",
        "offset",
        "record_offset",
        "topic_id",
    )

    def __init__(
        self,
        offset: int,
        leader_epoch: int,
        metadata: str,
        commit_timestamp_ms: int,
        expire_timestamp_ms: int,
        topic_id: bytes,
        record_offset: int = NOT_WRITTEN,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topic_id = topic_id
        self.record_offset = record_offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Committed) and _fields(self) == _fields(other)

    def __repr__(self) -> str:
        return f"Committed({self.offset}, {self.metadata!r}, at {self.record_offset})"


class OffsetCommits:
    """What one request commits: of each partition the topic, the index and the offset. `Records` of a decision.

    A record is made for whoever looks at it: the log takes all as a batch, and memory the offsets.
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

    def __iter__(self) -> Iterator[CoordinatorRecord]:
        return iter([_offset_record(self.group_id, *row) for row in self.rows])

    def to_batch(self, timestamp_ms: int) -> bytearray | None:
        """What `records.build_batch` makes of the records, byte for byte, in one pass.

        None where one of them is in another version than nearly all are, or cannot hold a name.
        """
        if self.rows[0][2].expire_timestamp_ms != NO_EXPIRY:
            return None
        group = self.group_id.encode()
        if len(group) > _NAME_BYTES_MAX:
            return None
        name = b""
        last = None
        size = _HEADER_BYTES
        count = len(self.rows)
        encoded = []
        for number in range(count):
            row = self.rows[number]
            topic = row[0]
            committed = row[2]
            if topic is not last:
                last = topic
                name = topic.encode()
                if len(name) > _NAME_BYTES_MAX:
                    return None
            text = committed.metadata.encode()
            topic_id = committed.topic_id
            has_topic_id = topic_id != ZERO_UUID
            key_bytes = _KEY_BYTES + len(group) + len(name)
            value_bytes = _VALUE_BYTES + compact_bytes(text)
            if has_topic_id:
                value_bytes += _TOPIC_ID_BYTES
            encoded.append((name, text, key_bytes, value_bytes))
            size += record_bytes(number, key_bytes, value_bytes)
        batch = bytearray(size)
        out = room_in(batch)
        at = _HEADER_BYTES
        for number in range(count):
            row = self.rows[number]
            partition = row[1]
            committed = row[2]
            name, text, key_bytes, value_bytes = encoded[number]
            at = begin_record(out, at, number, key_bytes, value_bytes)
            put16(out, at, 1)
            at = put_name(out, put_name(out, at + 2, group), name)
            put32(out, at, partition)
            at = begin_value(out, at + 4, value_bytes)
            put16(out, at, _VERSION)
            put64(out, at + 2, committed.offset)
            put32(out, at + 10, committed.leader_epoch)
            at = put_compact(out, at + 14, text)
            put64(out, at, committed.commit_timestamp_ms)
            topic_id = committed.topic_id
            if topic_id == ZERO_UUID:
                at += 9
            else:
                # One tagged field, the first, of 16 bytes.
                out[at + 8] = 1
                out[at + 10] = 16
                at = put_bytes(out, at + 11, topic_id)
            # No headers.
            at += 1
        seal(batch, count, timestamp_ms, self.producer_id, self.producer_epoch)
        return batch


def _fields(committed: Committed) -> tuple[object, ...]:
    return (
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        committed.commit_timestamp_ms,
        committed.expire_timestamp_ms,
        committed.topic_id,
        committed.record_offset,
    )


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
