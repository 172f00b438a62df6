# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=False
# mypy: disable-error-code="valid-type, index, attr-defined"
"""The state of a transactional id as a record of `__transaction_state`, byte for byte as Apache Kafka 4.3 writes it.

Version 1 of the value, from `transaction.version` 1 on, adds what version 2 of transactions and two-phase commit need. The list
of partitions is null in the state Empty alone, as in Kafka; their order, which there is a hash map's, is ascending here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from tidelog.coordination.coordinator_batch import HEADER_BYTES
from tidelog.coordination.coordinator_log import UnreadableLogError
from tidelog.coordination.decision import record, tombstone
from tidelog.coordination.transaction.metadata import TransactionMetadata
from tidelog.coordination.transaction.states import RECORDED_STATES, TransactionState
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

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
    from cython.cimports.tidelog.wire.typed.fields_inline import (
        put16,
        put32,
        put64,
        put_uvarint,
        room_in,
        uvarint_bytes,
    )
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
    from tidelog.wire.typed.fields import put16, put32, put64, put_uvarint, room_in, uvarint_bytes

# The same for this module alone: what C knows by its type, Python does not see.
_HEADER_BYTES = HEADER_BYTES
# What a key's length can say.
_ID_BYTES_MAX = 2**15 - 1

# Version and length of the id. Version, producer's id and epoch, time-out, state; then the partitions; two times.
_KEY_BYTES = 4
_VALUE_BYTES = 33

# An enum member as a module constant, since every record needs it: see docs/style.md.
_EMPTY = TransactionState.EMPTY


class TransactionRecords:
    """The states that one id goes through: `Records` of a decision.

    A record is made for whoever looks at it: the log takes all as a batch.
    """

    __slots__ = ("_steps", "_transaction_version")

    def __init__(self, steps: list[TransactionMetadata], transaction_version: int) -> None:
        self._steps = steps
        self._transaction_version = transaction_version

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[CoordinatorRecord]:
        return iter([transaction_record(each, self._transaction_version) for each in self._steps])

    def to_batch(self, timestamp_ms: int) -> bytearray | None:
        """What `records.build_batch` makes of the records, byte for byte, in one pass. None for an id that no record can name."""
        transactional_id = self._steps[0].transactional_id.encode()
        if len(transactional_id) > _ID_BYTES_MAX:
            return None
        is_tagged = self._transaction_version >= 1
        key_bytes = _KEY_BYTES + len(transactional_id)
        count = len(self._steps)
        by_topic = [_by_topic_bytes(each) for each in self._steps]
        size = _HEADER_BYTES
        for number in range(count):
            size += record_bytes(number, key_bytes, _value_bytes(self._steps[number], by_topic[number], is_tagged))
        batch = bytearray(size)
        out = room_in(batch)
        at = _HEADER_BYTES
        for number in range(count):
            value_bytes = _value_bytes(self._steps[number], by_topic[number], is_tagged)
            at = begin_record(out, at, number, key_bytes, value_bytes)
            # Version 0 of the key.
            at = begin_value(out, put_name(out, at + 2, transactional_id), value_bytes)
            # No headers.
            at = _put_value(out, at, self._steps[number], by_topic[number], is_tagged) + 1
        seal(batch, count, timestamp_ms, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        return batch


def _by_topic_bytes(metadata: TransactionMetadata) -> list[tuple[bytes, list[int]]] | None:
    """The partitions as a record has them: by topic, in ascending order."""
    if metadata.state is _EMPTY:
        return None
    topics: list[tuple[bytes, list[int]]] = []
    last: str | None = None
    partitions: list[int] = []
    for topic, partition in sorted(metadata.partitions):
        if topic != last:
            last = topic
            partitions = []
            topics.append((topic.encode(), partitions))
        partitions.append(partition)
    return topics


def _value_bytes(metadata: TransactionMetadata, topics: list[tuple[bytes, list[int]]] | None, is_tagged: bool) -> int:
    size = _VALUE_BYTES
    if not is_tagged:
        size += 4
        if topics is not None:
            for name, partitions in topics:
                size += 6 + len(name) + 4 * len(partitions)
        return size
    size += 1 if topics is None else uvarint_bytes(len(topics) + 1)
    if topics is not None:
        for name, partitions in topics:
            count = len(partitions)
            size += compact_bytes(name) + uvarint_bytes(count + 1) + 4 * count + 1
    # How many tagged fields there are; of each the tag and the size.
    size += 1
    if metadata.previous_producer_id != -1:
        size += 10
    if metadata.next_producer_id != -1:
        size += 10
    if metadata.client_transaction_version != 0:
        size += 4
    if metadata.next_producer_epoch != -1:
        size += 4
    return size


def _put_value(
    out: bytearray,
    at: int,
    metadata: TransactionMetadata,
    topics: list[tuple[bytes, list[int]]] | None,
    is_tagged: bool,
) -> int:
    """Where it ends."""
    put16(out, at, 1 if is_tagged else 0)
    put64(out, at + 2, metadata.producer_id)
    put16(out, at + 10, metadata.producer_epoch)
    put32(out, at + 12, metadata.timeout_ms)
    out[at + 16] = metadata.state
    at += 17
    if topics is None:
        if is_tagged:
            # Null, as the byte is already.
            at += 1
        else:
            put32(out, at, -1)
            at += 4
    else:
        if is_tagged:
            at = put_uvarint(out, at, len(topics) + 1)
        else:
            put32(out, at, len(topics))
            at += 4
        for name, partitions in topics:
            if is_tagged:
                at = put_uvarint(out, put_compact(out, at, name), len(partitions) + 1)
            else:
                at = put_name(out, at, name)
                put32(out, at, len(partitions))
                at += 4
            for index in partitions:
                put32(out, at, index)
                at += 4
            if is_tagged:
                at += 1
    put64(out, at, metadata.last_update_ms)
    put64(out, at + 8, metadata.start_ms)
    at += 16
    if not is_tagged:
        return at
    tags_at = at
    at += 1
    if metadata.previous_producer_id != -1:
        out[tags_at] += 1
        at = _put_tagged(out, at, 0, 8)
        put64(out, at - 8, metadata.previous_producer_id)
    if metadata.next_producer_id != -1:
        out[tags_at] += 1
        at = _put_tagged(out, at, 1, 8)
        put64(out, at - 8, metadata.next_producer_id)
    if metadata.client_transaction_version != 0:
        out[tags_at] += 1
        at = _put_tagged(out, at, 2, 2)
        put16(out, at - 2, metadata.client_transaction_version)
    if metadata.next_producer_epoch != -1:
        out[tags_at] += 1
        at = _put_tagged(out, at, 3, 2)
        put16(out, at - 2, metadata.next_producer_epoch)
    return at


def _put_tagged(out: bytearray, at: int, tag: int, count: int) -> int:
    """A tagged field without its bytes. Where those end."""
    out[at] = tag
    out[at + 1] = count
    return at + 2 + count


def transaction_record(metadata: TransactionMetadata, transaction_version: int) -> CoordinatorRecord:
    """In the version that goes with this level of the feature `transaction.version`."""
    is_tagged = transaction_version >= 1
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id if is_tagged else -1,
        next_producer_id=metadata.next_producer_id if is_tagged else -1,
        producer_epoch=metadata.producer_epoch,
        next_producer_epoch=metadata.next_producer_epoch if is_tagged else -1,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None if metadata.state is TransactionState.EMPTY else _by_topic(metadata),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_transaction_version if is_tagged else 0,
    )
    return record(_key(metadata.transactional_id), value, 1 if is_tagged else 0)


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    return tombstone(_key(transactional_id))


def metadata_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """What a record says. UnreadableLogError where it has a state that there is not."""
    if value.transaction_status not in RECORDED_STATES:
        raise UnreadableLogError(
            f"the transactional id {transactional_id} is recorded in the unknown state {value.transaction_status}"
        )
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        last_update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset(
            TopicPartition(TopicName(topic.topic), PartitionIndex(partition))
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        client_transaction_version=value.client_transaction_version,
    )


def _key(transactional_id: str) -> TransactionLogKey:
    return TransactionLogKey(transactional_id=transactional_id)


def _by_topic(metadata: TransactionMetadata) -> list[PartitionsSchema]:
    return [
        PartitionsSchema(topic=topic, partition_ids=[each.partition for each in partitions])
        for topic, partitions in groupby(sorted(metadata.partitions), key=lambda each: each.topic)
    ]
