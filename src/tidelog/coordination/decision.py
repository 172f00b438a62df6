"""What a coordinator decides: records for its partition of the log, and an answer that waits until they are committed.

    decision = groups.join(request, caller, now_ms)        pure: no I/O, no clock, no chance of its own
    append decision.records                                by `CoordinatorHost`, all or none
    replay each record                                     the one way in which recorded state changes
    decision.answer                                        once the records are committed

State that no record holds (who has joined a classic group since its last generation) changes in the decision itself, as in
Kafka. A decision about such state says `replays=False`: its records only write down what is in memory already.

Records that belong to a producer's transaction (offsets that it commits) are appended as its batch, and replayed as pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.schema import CoordinatorKey, CoordinatorValue

A = TypeVar("A")


class TransactionalProducer(NamedTuple):
    """Whose transaction the records belong to. `guard` is the one that its coordinator was asked with (None: nobody asked)."""

    producer_id: int
    producer_epoch: int
    guard: int | None


class Records(Protocol):
    """The records of a decision, of which there may be none: a sequence, or what makes them only where somebody looks."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[CoordinatorRecord]: ...


class PackedRecords(Protocol):
    """Records that make their whole batch themselves, which is cheaper."""

    def to_batch(self, timestamp_ms: int) -> bytearray | None:
        """The batch of this time; None if it has to be made of the records."""
        ...


class TakesIn(Protocol):
    """A part of a shard that takes in records as a whole."""

    def take_in(self, records: Any, first_offset: int, is_committed: bool) -> None:
        """`first_offset` is that of the first one; `is_committed` says whether all are already."""
        ...


class Decision(msgspec.Struct, Generic[A], frozen=True):
    """Without records the answer holds at once; it may be pending still (a member that waits for the others)."""

    answer: A | Pending[A]
    records: Records = ()
    replays: bool = True
    """Whether the host replays the records once they are appended, before anything else is decided."""
    settled: Callable[[ErrorCode], None] | None = None
    """Called once: with NONE when the records are committed, otherwise with the reason why they are not. Before the answer."""
    producer: TransactionalProducer | None = None
    packed: PackedRecords | None = None
    """The records once more, where they can be written as a whole."""
    taken_in_by: TakesIn | None = None
    """Who takes in all records in one go, as a replay of each would, where that is cheaper."""


def record(key: CoordinatorKey, value: CoordinatorValue, version: int) -> CoordinatorRecord:
    """A record in the version of its value that Kafka 4.3 writes."""
    return CoordinatorRecord(key, value, version)


def tombstone(key: CoordinatorKey) -> CoordinatorRecord:
    """The end of what was recorded under a key."""
    return CoordinatorRecord(key, None, -1)


def every_topic(_name: TopicName) -> bool:
    """The visibility of a caller without restrictions."""
    return True


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Who asks a coordinator, as far as its decisions depend on it."""

    client_id: str
    client_host: str
    """As Kafka shows it, with a slash: `/127.0.0.1`."""
    api_version: int
    may_describe: Callable[[TopicName], bool] = every_topic
    """Which topics the caller may know of: an expression stands for no others."""
