"""What of a partition is in flight for a share group: batches in the order of their offsets.

A batch is what one fetch has acquired in one piece. Its records have one fate, and one `Delivery`, until a part of them is
treated otherwise: then each offset has its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidelog.broker.share.delivery import Delivery
from tidelog.model.bugs import BugError


class InFlightBatch:
    """The offsets from `first` to `last`. Either `whole` or `offsets` has their fate."""

    __slots__ = ("first", "last", "offsets", "whole")

    def __init__(self, first: int, last: int, delivery: Delivery) -> None:
        self.first = first
        self.last = last
        self.whole: Delivery | None = delivery
        self.offsets: list[Delivery] | None = None

    def __repr__(self) -> str:
        return f"InFlightBatch({self.first}-{self.last}, {self.whole or self.offsets})"

    def __len__(self) -> int:
        return self.last - self.first + 1

    def split(self) -> list[Delivery]:
        """From now on each offset by itself."""
        if self.offsets is None:
            assert self.whole is not None
            whole = self.whole
            self.offsets = [whole.copy() for _ in range(len(self))]
            self.whole = None
        return self.offsets

    def between(self, first: int, last: int) -> Iterator[tuple[int, Delivery]]:
        """The offsets of a split batch that lie in a range, with their deliveries."""
        assert self.offsets is not None
        offset = max(first, self.first)
        stop = min(last, self.last)
        while offset <= stop:
            yield offset, self.offsets[offset - self.first]
            offset += 1

    def deliveries(self) -> list[Delivery]:
        """Each fate in the batch: one, or one for each offset."""
        if self.offsets is not None:
            return self.offsets
        assert self.whole is not None
        return [self.whole]

    def delivery_of(self, offset: int) -> Delivery:
        """The fate of an offset; of one behind the batch, that of its last."""
        if self.offsets is None:
            assert self.whole is not None
            return self.whole
        return self.offsets[min(offset, self.last) - self.first]


class InFlightBatches:
    """The batches of a share partition, none of which overlap. As many as there are offsets in flight at most."""

    __slots__ = ("_batches", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch that overlaps none."""
        if batch.first > batch.last:
            raise BugError(f"a batch from {batch.first} to {batch.last} is to be in flight")
        if not self._firsts or batch.first > self._firsts[-1]:
            self._firsts.append(batch.first)
            self._batches.append(batch)
            return
        place = bisect_left(self._firsts, batch.first)
        self._firsts.insert(place, batch.first)
        self._batches.insert(place, batch)

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before an offset."""
        place = bisect_right(self._firsts, offset)
        return self._batches[place - 1] if place else None

    def following(self, offset: int) -> InFlightBatch | None:
        """The first batch that begins behind an offset."""
        place = bisect_right(self._firsts, offset)
        return self._batches[place] if place < len(self._batches) else None

    def starting_in(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin from `first` to `last`."""
        return self._batches[bisect_left(self._firsts, first) : bisect_right(self._firsts, last)]

    def drop_below(self, offset: int) -> None:
        """Forget the batches that begin before an offset."""
        place = bisect_left(self._firsts, offset)
        del self._firsts[:place], self._batches[:place]

    def clear(self) -> None:
        self._firsts.clear()
        self._batches.clear()
