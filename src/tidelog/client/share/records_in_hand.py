"""What the application has been given and has not settled, and what it says of it: pure state.

    delivered ──acknowledged──> said ──taken──> with the fetcher
        ^                        │ renew
        └──── renewed <── renewing: the leader is asked

A renewed record is in hand again once its leader has begun its lock anew, and the next poll returns it. Records of a partition
belong to the leader that gave them: another one knows nothing of their locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tidelog.client.consumer.errors import ConsumerStateError
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.share.acknowledgements import GAP, Acknowledgements, AcknowledgeType
from tidelog.client.share.acquired_partition import Range
from tidelog.client.share.places import Place
from tidelog.client.share.records import SharedRow

if TYPE_CHECKING:
    import pyarrow as pa


class Origin(NamedTuple):
    """Whose locks they are: a partition at one leader."""

    node_id: int
    place: Place


class ColumnRow(NamedTuple):
    """A record that was delivered as a row of columns."""

    batch: pa.RecordBatch
    row: int


Said = dict[Origin, Acknowledgements]
_Held = SharedRow | ColumnRow


class _HeldPartition:
    __slots__ = ("exceptional", "held", "renewed", "renewing", "said")

    def __init__(self) -> None:
        self.held: dict[int, _Held] = {}
        self.said = Acknowledgements()
        self.exceptional: list[Range] = []
        """What an error has named: not delivered, yet the application may say something else of it."""
        self.renewing: dict[int, _Held] = {}
        self.renewed: dict[int, _Held] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.held or self.said or self.renewing or self.renewed)


class RecordsInHand:
    """Of one consumer."""

    def __init__(self) -> None:
        self._partitions: dict[Origin, _HeldPartition] = {}

    # What comes.

    def _at(self, origin: Origin) -> _HeldPartition:
        return self._partitions.setdefault(origin, _HeldPartition())

    def add_rows(self, origin: Origin, rows: Iterable[SharedRow], gaps: Iterable[Range] = ()) -> None:
        at = self._at(origin)
        at.held.update({row.offset: row for row in rows})
        _add_gaps(at, gaps)

    def add_columns(self, origin: Origin, batch: pa.RecordBatch | None, gaps: Iterable[Range] = ()) -> None:
        at = self._at(origin)
        if batch is not None:
            at.held.update({offset: ColumnRow(batch, row) for row, offset in enumerate(offsets_of(batch))})
        _add_gaps(at, gaps)

    def add_failed(self, origin: Origin, ranges: Iterable[Range], kind: AcknowledgeType) -> None:
        """Records that cannot be delivered, and what becomes of them unless the application says something else."""
        at = self._at(origin)
        for first, last in ranges:
            at.said.add_range(first, last, kind)
            at.exceptional.append((first, last))

    # What is said.

    def acknowledge(self, partition: TopicPartition, offsets: Iterable[int], kind: AcknowledgeType) -> None:
        """Of records that were delivered. ConsumerStateError, and nothing said, where one of them is not in hand."""
        wanted = list(offsets)
        found = [
            at
            for (_node_id, place), at in self._partitions.items()
            if place.partition == partition and all(offset in at.held for offset in wanted)
        ]
        if not found:
            raise ConsumerStateError(f"the record cannot be acknowledged: {_named(partition, wanted)} is not in hand")
        for offset in wanted:
            found[0].said.add(offset, kind)

    def acknowledge_failed(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Of a record that an error has named."""
        for (_node_id, place), at in self._partitions.items():
            if place.partition == partition and any(first <= offset <= last for first, last in at.exceptional):
                at.said.add(offset, kind)
                return
        raise ConsumerStateError(
            f"the record cannot be acknowledged: no error has named {_named(partition, [offset])} since the last poll"
        )

    def accept_all(self) -> None:
        for at in self._partitions.values():
            at.said.add_all_others(at.held, AcknowledgeType.ACCEPT)

    @property
    def is_settled(self) -> bool:
        """Whether something was said of every record."""
        return all(at.said.kind_of(offset) is not None for at in self._partitions.values() for offset in at.held)

    def take_said(self) -> Said:
        """What was said since the last time. The records leave the hand; those to be renewed come back."""
        taken: Said = {}
        for origin, at in list(self._partitions.items()):
            at.exceptional.clear()
            if at.said:
                for offset in at.said.renewed:
                    record = at.held.get(offset)
                    if record is not None:
                        at.renewing[offset] = record
                for offset in at.said.offsets:
                    at.held.pop(offset, None)
                taken[origin] = at.said
                at.said = Acknowledgements()
            if at.is_empty:
                del self._partitions[origin]
        return taken

    # Renewals.

    def answered(self, origin: Origin, said: Acknowledgements, *, is_refused: bool) -> None:
        """The leader has taken what was said, or not: what was to be renewed is, or is lost."""
        at = self._partitions.get(origin)
        if at is None or not at.renewing:
            return
        for offset in said.renewed:
            record = at.renewing.pop(offset, None)
            if record is not None and not is_refused:
                at.renewed[offset] = record
        if at.is_empty:
            del self._partitions[origin]

    @property
    def has_renewals(self) -> bool:
        return any(at.renewing or at.renewed for at in self._partitions.values())

    def take_renewed(self) -> None:
        """Those whose locks have begun anew are in hand again."""
        for at in self._partitions.values():
            at.held.update(at.renewed)
            at.renewed.clear()

    # What is there.

    def __len__(self) -> int:
        return sum(len(at.held) for at in self._partitions.values())

    def rows(self) -> list[SharedRow]:
        """All records in hand. ConsumerStateError where one was delivered in columns."""
        rows = [each for at in self._partitions.values() for _offset, each in sorted(at.held.items())]
        if any(isinstance(each, ColumnRow) for each in rows):
            raise ConsumerStateError("what was renewed is returned as it came: by poll_arrow")
        return rows  # type: ignore[return-value]  # as was just looked at

    def columns(self) -> pa.RecordBatch | None:
        """All records in hand of one of the batches that were delivered. ConsumerStateError where one was delivered as a row."""
        for at in self._partitions.values():
            rows = [each for _offset, each in sorted(at.held.items())]
            if not rows:
                continue
            first = rows[0]
            if not isinstance(first, ColumnRow):
                raise ConsumerStateError("what was renewed is returned as it came: by poll")
            indices = [each.row for each in rows if isinstance(each, ColumnRow) and each.batch is first.batch]
            return first.batch.take(indices)
        return None


def offsets_of(batch: pa.RecordBatch) -> list[int]:
    """Of records in columns."""
    offsets: list[int] = batch.column("offset").to_numpy().tolist()
    return offsets


def _add_gaps(at: _HeldPartition, gaps: Iterable[Range]) -> None:
    for first, last in gaps:
        at.said.add_range(first, last, GAP)


def _named(partition: TopicPartition, offsets: list[int]) -> str:
    return f"offset {offsets[0] if len(offsets) == 1 else f'{offsets[0]} to {offsets[-1]}' if offsets else '-'} of {partition}"


def merged(older: Said, newer: Mapping[Origin, Acknowledgements]) -> Said:
    """Both, as one."""
    made = dict(older)
    for origin, said in newer.items():
        if origin in made:
            made[origin].merge(said)
        else:
            made[origin] = said
    return made
