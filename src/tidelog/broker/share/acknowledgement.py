"""What a member says of the records that it has in hand, and what becomes of them when it leaves.

    acknowledge(partition, member, said, now_ms)     a `Change` to be written, or a `Refusal`: then nothing has changed
    release(partition, member)                       the same for everything that a member has in hand

A change that begins nothing (all of it lies below the start, or locks were renewed) has nothing to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.broker.share.delivery import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, NOBODY, Delivery, RecordState
from tidelog.broker.share.in_flight import InFlightBatch
from tidelog.broker.share.share_partition import Change, SharePartition
from tidelog.model.errors import ErrorCode


class AcknowledgeType(IntEnum):
    """What a member says of a record. GAP: there is none at this offset."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


GAP = AcknowledgeType.GAP
RENEW = AcknowledgeType.RENEW

_BECOMES: dict[int, RecordState] = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


class Acknowledged(NamedTuple):
    """What is said of a range of offsets: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def type_of(self, offset: int) -> int:
        return self.types[offset - self.first_offset] if len(self.types) > 1 else self.types[0]


class Refusal(NamedTuple):
    """Why an acknowledgement is not taken."""

    error: ErrorCode
    message: str


def _invalid_state(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD_STATE, message)


_NOT_FOUND = _invalid_state("Batch record not found. The request batch offsets are not found in the cache.")
_FIRST_PAST = Refusal(
    ErrorCode.INVALID_REQUEST, "Batch record not found. The first offset in request is past acquired records."
)
_LAST_PAST = Refusal(
    ErrorCode.INVALID_REQUEST, "Batch record not found. The last offset in request is past acquired records."
)
_NOT_ACQUIRED = _invalid_state("The batch cannot be acknowledged. The batch is not in the acquired state.")
_SUBSET_NOT_ACQUIRED = _invalid_state(
    "The batch cannot be acknowledged. The subset batch is not in the acquired state."
)
_OFFSET_NOT_ACQUIRED = _invalid_state("The offset cannot be acknowledged. The offset is not acquired.")
_CHANGING = _invalid_state("The record state is invalid. The acknowledgement of delivery could not be completed.")
_OTHERS_BATCH = _invalid_state("Member is not the owner of batch record")
_OTHERS_OFFSET = _invalid_state("Member is not the owner of offset")
_NO_RENEWAL = _invalid_state("Renewing acquisition locks is not enabled for the group.")


def acknowledge(
    partition: SharePartition, member_id: str, said: Sequence[Acknowledged], now_ms: int
) -> Change | Refusal:
    """Begin what a member says of its records: all of it or, where something of it is wrong, nothing."""
    acknowledgement = _Acknowledgement(partition, member_id, now_ms)
    for each in said:
        refusal = acknowledgement.take(each)
        if refusal is not None:
            partition.settle(acknowledgement.change, False, now_ms)
            return refusal
    return acknowledgement.change


class _Acknowledgement:
    """One call of `acknowledge`."""

    def __init__(self, partition: SharePartition, member_id: str, now_ms: int) -> None:
        self.change = Change()
        self._partition = partition
        self._member_id = member_id
        self._now_ms = now_ms
        self._deliveries_max = partition.settings.deliveries_max

    def take(self, said: Acknowledged) -> Refusal | None:
        start = self._partition.start_offset
        if said.last_offset < start:
            # Settled already, or gone from the log.
            return None
        found = self._batches(said)
        if isinstance(found, Refusal):
            return found
        for batch in found:
            if batch.last < start:
                continue
            refusal = self._take_batch(said, batch)
            if refusal is not None:
                return refusal
        return None

    def _batches(self, said: Acknowledged) -> list[InFlightBatch] | Refusal:
        """What is in flight of the offsets."""
        batches, start = self._partition.batches, self._partition.start_offset
        floor = batches.floor(said.first_offset)
        if floor is None and said.first_offset < start <= said.last_offset:
            # What lies before the start is forgotten.
            floor = batches.floor(start)
        if floor is None:
            return _NOT_FOUND
        found = batches.starting_in(floor.first, said.last_offset)
        if found[-1].last < said.first_offset:
            return _FIRST_PAST
        if found[-1].last < said.last_offset:
            return _LAST_PAST
        return found

    def _take_batch(self, said: Acknowledged, batch: InFlightBatch) -> Refusal | None:
        whole = batch.whole
        if whole is not None:
            if whole.member_id != self._member_id:
                return _NOT_ACQUIRED if whole.member_id == NOBODY else _OTHERS_BATCH
            if whole.is_changing:
                return _CHANGING
            is_whole = said.first_offset <= batch.first and batch.last <= said.last_offset
            has_start = batch.first < self._partition.start_offset
            if is_whole and not has_start and len(said.types) == 1:
                return self._take_whole(said.types[0], batch, whole)
            if whole.state is not ACQUIRED:
                return _SUBSET_NOT_ACQUIRED
            batch.split()
        first = max(said.first_offset, self._partition.start_offset)
        for offset, delivery in batch.between(first, said.last_offset):
            refusal = self._take_offset(said.type_of(offset), batch, offset, delivery)
            if refusal is not None:
                return refusal
        return None

    def _take_whole(self, acknowledge_type: int, batch: InFlightBatch, delivery: Delivery) -> Refusal | None:
        if delivery.state is not ACQUIRED:
            return _NOT_ACQUIRED
        return self._begin(acknowledge_type, batch, batch.first, batch.last, delivery)

    def _take_offset(
        self, acknowledge_type: int, batch: InFlightBatch, offset: int, delivery: Delivery
    ) -> Refusal | None:
        if delivery.state is not ACQUIRED:
            return _OFFSET_NOT_ACQUIRED
        if delivery.is_changing:
            return _CHANGING
        if delivery.member_id != self._member_id:
            return _OTHERS_OFFSET
        return self._begin(acknowledge_type, batch, offset, offset, delivery)

    def _begin(
        self, acknowledge_type: int, batch: InFlightBatch, first: int, last: int, delivery: Delivery
    ) -> Refusal | None:
        partition = self._partition
        if acknowledge_type == RENEW:
            if not partition.settings.may_renew:
                return _NO_RENEWAL
            delivery.locked_until_ms = partition.lock_until(self._now_ms)
            return None
        state = _BECOMES.get(acknowledge_type)
        if state is None:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {acknowledge_type}")
        begin(partition, self.change, batch, first, last, delivery, state)
        return None


def release(partition: SharePartition, member_id: str) -> Change:
    """Begin to take back everything that a member has in hand: it has left."""
    change = Change()
    start = partition.start_offset
    for batch in list(partition.batches):
        whole = batch.whole
        if whole is not None:
            if whole.state is not ACQUIRED or whole.member_id != member_id:
                continue
            if not batch.first < start <= batch.last:
                state = ARCHIVED if batch.last < start else AVAILABLE
                begin(partition, change, batch, batch.first, batch.last, whole, state)
                continue
            # Some of it is below the start, and archived whatever its count.
            batch.split()
        for offset, delivery in batch.between(batch.first, batch.last):
            if delivery.state is ACQUIRED and delivery.member_id == member_id:
                state = ARCHIVED if offset < start else AVAILABLE
                begin(partition, change, batch, offset, offset, delivery, state)
    return change


def begin(
    partition: SharePartition,
    change: Change,
    batch: InFlightBatch,
    first: int,
    last: int,
    delivery: Delivery,
    state: RecordState,
) -> None:
    """Begin to make these offsets, which are ACQUIRED, something else."""
    delivery.begin(state, partition.settings.deliveries_max)
    change.add(batch, first, last, delivery)
    if delivery.is_terminal:
        partition.completed_count += partition.count_from_start(first, last)
