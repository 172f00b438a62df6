"""How old the oldest record is that a query has not read: what nobody says in time, from where logs ended when. Pure.

Whenever Spark plans a batch it asks where the logs end. A position that is at least such an end has read all that was there then;
one between two ends is taken to lie between the two moments as it does between the two ends, as if records had come evenly. The
worst partition counts. Before the first look nothing is known: a position that is behind it is at least as old as that.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias

# What a position is one of: the source among those of its query, and the partition of it.
PartitionKey: TypeAlias = tuple[int, str, int]
Offsets: TypeAlias = Mapping[PartitionKey, int]

# A query that is behind needs what was seen since then: as many moments as give a time to one part in a hundred or so.
LOOKS_MAX = 128
# All in all, some ten megabytes; with many partitions there are fewer moments.
ENDS_MAX = 200_000
_LOOKS_MIN = 4


class Look(NamedTuple):
    """Where logs ended at a moment."""

    at_ms: int
    ends: Offsets


class LogEnds:
    """The ends that one query has seen, as far back as its position needs them."""

    def __init__(self) -> None:
        self._looks: list[Look] = []

    def look(self, at_ms: int, ends: Offsets) -> None:
        """Take in what was seen. Looks come in the order of time; an earlier one, of a clock set back, takes the place of later
        ones."""
        self._looks = [each for each in self._looks if each.at_ms < at_ms]
        self._looks.append(Look(at_ms, ends))
        most = max(_LOOKS_MIN, min(LOOKS_MAX, ENDS_MAX // max(1, len(ends))))
        while len(self._looks) > most:
            # Every second one, with the first and the last.
            self._looks = [*self._looks[:-1:2], self._looks[-1]]

    def caught_up_at_ms(self, position: Offsets) -> int | None:
        """The moment up to which all records are read that were there; None before the first look. What no later position
        needs is forgotten."""
        if not self._looks:
            return None
        found = min((self._moment(key, offset) for key, offset in position.items()), default=self._looks[-1].at_ms)
        earlier = [index for index, each in enumerate(self._looks) if each.at_ms <= found]
        del self._looks[: earlier[-1] if earlier else 0]
        return found

    @property
    def last(self) -> Look | None:
        return self._looks[-1] if self._looks else None

    def _moment(self, key: PartitionKey, offset: int) -> int:
        """From the newest look back, since a log that was deleted and made again has ended later before."""
        last = self._looks[-1]
        if last.ends.get(key, 0) <= offset:
            return last.at_ms
        for later, earlier in pairwise(reversed(self._looks)):
            # A partition that nobody knew had nothing.
            before, after = earlier.ends.get(key, 0), later.ends.get(key, 0)
            if before <= offset:
                return earlier.at_ms + (later.at_ms - earlier.at_ms) * (offset - before) // (after - before)
        return self._looks[0].at_ms
