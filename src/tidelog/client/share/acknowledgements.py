"""What a member says of records of one partition, and how requests say it: as few batches as that takes.

Records are acknowledged one by one, and what was acquired without a record in it (compacted away, or a control record) as a gap.
A request has batches of neighbouring offsets: with one type for all of them, or with one for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from tidelog.wire.messages.share_fetch import AcknowledgementBatch

GAP = 0

# Neighbours of one type become a batch of their own from here on; shorter ones are cheaper with a type for each offset.
_LONG_RUN = 10


class AcknowledgeType(IntEnum):
    """What becomes of a record."""

    ACCEPT = 1
    """It is done, and delivered to nobody again."""
    RELEASE = 2
    """It is given back, to be delivered again: to whom is open, and not more often than the group allows."""
    REJECT = 3
    """It cannot be processed, and is delivered to nobody again."""
    RENEW = 4
    """It is still being worked on: its lock begins anew, and the next poll returns it again (KIP-1222)."""


class Run(NamedTuple):
    """Neighbouring offsets that are acknowledged alike."""

    first: int
    last: int
    kind: int


class Acknowledgements:
    """Of one partition, until they are sent. What is said last of an offset counts."""

    __slots__ = ("_kinds", "_ranges")

    def __init__(self) -> None:
        self._kinds: dict[int, int] = {}
        self._ranges: list[Run] = []

    def __bool__(self) -> bool:
        return bool(self._kinds or self._ranges)

    def add(self, offset: int, kind: int) -> None:
        self._kinds[offset] = kind

    def add_all_others(self, offsets: Iterable[int], kind: int) -> None:
        """Those of these offsets of which nothing has been said."""
        kinds = self._kinds
        if kinds:
            for offset in offsets:
                kinds.setdefault(offset, kind)
        else:
            self._kinds = dict.fromkeys(offsets, kind)

    def add_range(self, first: int, last: int, kind: int) -> None:
        """Offsets of which no record was delivered: a gap, or a batch that cannot be read. Ranges do not overlap."""
        self._ranges.append(Run(first, last, kind))

    def merge(self, newer: Acknowledgements) -> None:
        self._kinds.update(newer._kinds)
        self._ranges += newer._ranges

    def kind_of(self, offset: int) -> int | None:
        return self._kinds.get(offset)

    def in_range(self, offset: int) -> bool:
        """Whether a range was added that holds the offset."""
        return any(first <= offset <= last for first, last, _kind in self._ranges)

    @property
    def offsets(self) -> frozenset[int]:
        """The records, without ranges."""
        return frozenset(self._kinds)

    @property
    def renewed(self) -> list[int]:
        return [offset for offset, kind in self._kinds.items() if kind == AcknowledgeType.RENEW]

    def runs(self) -> list[Run]:
        """All that is said, in order."""
        kinds = self._kinds
        if kinds and not self._ranges:
            first, last = min(kinds), max(kinds)
            kind = kinds[first]
            # Nearly always: all that was acquired, and all of it alike.
            if last - first + 1 == len(kinds) and (len(kinds) == 1 or set(kinds.values()) == {kind}):
                return [Run(first, last, kind)]
        return _joined(sorted([*(Run(offset, offset, kind) for offset, kind in kinds.items()), *self._cut_ranges()]))

    def _cut_ranges(self) -> Iterator[Run]:
        """The ranges, without the offsets of which something else was said."""
        said = sorted(self._kinds)
        for first, last, kind in self._ranges:
            begin = first
            for offset in said:
                if first <= offset <= last:
                    if begin < offset:
                        yield Run(begin, offset - 1, kind)
                    begin = offset + 1
            if begin <= last:
                yield Run(begin, last, kind)

    def batches(self) -> list[AcknowledgementBatch]:
        """As requests have them."""
        made: list[AcknowledgementBatch] = []
        mixed: list[Run] = []
        for run in self.runs():
            is_long = run.last - run.first >= _LONG_RUN
            if mixed and (is_long or run.first != mixed[-1].last + 1):
                made.append(_batch(mixed))
                mixed = []
            if is_long:
                made.append(_batch([run]))
            else:
                mixed.append(run)
        if mixed:
            made.append(_batch(mixed))
        return made


def _joined(runs: list[Run]) -> list[Run]:
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].kind == run.kind and joined[-1].last + 1 == run.first:
            joined[-1] = Run(joined[-1].first, run.last, run.kind)
        else:
            joined.append(run)
    return joined


def _batch(runs: list[Run]) -> AcknowledgementBatch:
    """Of neighbouring runs."""
    kinds = [runs[0].kind] if len(runs) == 1 else [run.kind for run in runs for _ in range(run.last - run.first + 1)]
    return AcknowledgementBatch(first_offset=runs[0].first, last_offset=runs[-1].last, acknowledge_types=kinds)
