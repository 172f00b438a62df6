"""The state of a transactional id as a record of `__transaction_state`, byte for byte as Apache Kafka 4.3 writes it.

Version 1 of the value, from `transaction.version` 1 on, adds what version 2 of transactions and two-phase commit need. The list
of partitions is null in the state Empty alone, as in Kafka; their order, which there is a hash map's, is ascending here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import overload

from tidelog.coordination.coordinator_log import UnreadableLogError
from tidelog.coordination.decision import record, tombstone
from tidelog.coordination.transaction.metadata import TransactionMetadata
from tidelog.coordination.transaction.states import RECORDED_STATES, TransactionState
from tidelog.kernel_choice import load
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

_kernel = load("tidelog.wire.kernels", "transaction_kernel")

# What a key's length can say.
_ID_BYTES_MAX = 2**15 - 1


class TransactionRecords(Sequence[CoordinatorRecord]):
    """The states that one id goes through, as records. Each is made for whoever looks at it: the log takes all as a batch."""

    __slots__ = ("_steps", "_transaction_version")

    def __init__(self, steps: Sequence[TransactionMetadata], transaction_version: int) -> None:
        self._steps = steps
        self._transaction_version = transaction_version

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, place: int) -> CoordinatorRecord: ...

    @overload
    def __getitem__(self, place: slice) -> list[CoordinatorRecord]: ...

    def __getitem__(self, place: int | slice) -> CoordinatorRecord | list[CoordinatorRecord]:
        if isinstance(place, slice):
            return [transaction_record(each, self._transaction_version) for each in self._steps[place]]
        return transaction_record(self._steps[place], self._transaction_version)

    def to_batch(self, timestamp_ms: int) -> bytearray | None:
        """All of them; None for an id that no record can name."""
        transactional_id = self._steps[0].transactional_id.encode()
        if len(transactional_id) > _ID_BYTES_MAX:
            return None
        value_version = 1 if self._transaction_version >= 1 else 0
        batch: bytearray = _kernel.transaction_state_batch(
            transactional_id, [_packed(each) for each in self._steps], value_version, timestamp_ms
        )
        return batch


def _packed(metadata: TransactionMetadata) -> tuple[object, ...]:
    """The fields as the kernel packs them."""
    topics: list[tuple[bytes, list[int]]] | None = None
    if metadata.state is not TransactionState.EMPTY:
        topics = []
        last: str | None = None
        for topic, partition in sorted(metadata.partitions):
            if topic != last:
                last = topic
                topics.append((topic.encode(), []))
            topics[-1][1].append(partition)
    return (
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.timeout_ms,
        metadata.state,
        topics,
        metadata.last_update_ms,
        metadata.start_ms,
        metadata.previous_producer_id,
        metadata.next_producer_id,
        metadata.next_producer_epoch,
        metadata.client_transaction_version,
    )


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
