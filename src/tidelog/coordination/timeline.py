"""A shard's state as of the records that are committed, beside the one as of all that are written.

    timeline.note(earlier, key, before)    by whoever changes something that records hold, before the change
    timeline.trim()                        first of all by a reader: forget what committed records have replaced
    as_committed(earlier, key, now)        what the committed records say, where `now` is what all of them say

Decisions go by everything that is written. Whoever only reads must not be told of what may yet be lost, and need not wait for it:
a value that an uncommitted record has replaced is kept until that record is committed. Where every append is committed at once,
nothing is kept.

A partition may stay below `min.insync.replicas` for as long as its replicas are away, while the same offsets are committed again
and again. Beyond `CHANGES_MAX` only the oldest value of each key is kept, which is then read until the newest one is committed:
values of committed records still, though not the latest ones while the replicas catch up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from tidelog.coordination.coordinator_log import CoordinatorPartition

# Before the values between the committed and the newest ones are given up: some ten MB.
CHANGES_MAX = 100_000

K = TypeVar("K")
V = TypeVar("V")


class Change(Generic[K, V]):
    """One value that was replaced. Changes of the same key are linked, from the first to the last."""

    __slots__ = ("before", "earlier", "end_offset", "key", "last", "later")

    def __init__(self, end_offset: int, earlier: Earlier[K, V], key: K, before: V | None) -> None:
        self.end_offset = end_offset
        self.earlier = earlier
        self.key = key
        self.before = before
        self.later: Change[K, V] | None = None
        self.last: Change[K, V] | None = None
        """Of the first one: the last one, where that is another."""


Earlier: TypeAlias = dict[K, Change[K, V]]
"""The first uncommitted change of each key of some table."""


class Timeline:
    """What a shard has replaced and may have to be read still. Without a partition everything counts as committed."""

    __slots__ = ("_changes", "_changes_max", "_partition", "_replayed_end", "is_noting")

    def __init__(self, partition: CoordinatorPartition | None = None) -> None:
        self._partition = partition
        self._changes: deque[Change[Any, Any]] = deque()
        self._changes_max = CHANGES_MAX
        self._replayed_end = 0
        self.is_noting = partition is not None
        """Whether changes made now may be uncommitted, and so have to be noted."""

    def begin_replay(self, offset: int) -> None:
        """Changes from now on come from the record at this offset."""
        self.is_noting = self._partition is not None and offset >= self._high_watermark()
        self._replayed_end = offset + 1

    def end_replay(self) -> None:
        """Changes from now on come from a decision, whose records are appended next."""
        self.is_noting = self._partition is not None
        self._replayed_end = 0

    def note(self, earlier: Earlier[K, V], key: K, before: V | None) -> None:
        """`key` is about to change. `before` is its value, None where it has none."""
        if self.is_noting:
            self.note_at(self._replayed_end or self._log_end() + 1, earlier, key, before)

    def note_at(self, end_offset: int, earlier: Earlier[K, V], key: K, before: V | None) -> None:
        """The same, for a change by a record that ends there and is not committed yet."""
        self.trim()
        change = Change(end_offset, earlier, key, before)
        first = earlier.get(key)
        if first is None:
            earlier[key] = change
        else:
            (first.last or first).later = change
            first.last = change
        self._changes.append(change)
        if len(self._changes) > self._changes_max:
            self._merge()

    def _merge(self) -> None:
        """Merge the changes of each key into one: from the value before the first to the end of the last."""
        merged = []
        for change in self._changes:
            if change.earlier.get(change.key) is change:
                if change.last is not None:
                    change.end_offset = change.last.end_offset
                    change.last = change.later = None
                merged.append(change)
        merged.sort(key=lambda change: change.end_offset)
        self._changes = deque(merged)
        # Where most keys have changed only once there is little to merge: do not try again at the next change.
        self._changes_max = max(CHANGES_MAX, 2 * len(merged))

    def trim(self) -> None:
        """Forget what was replaced by records that are committed by now."""
        changes = self._changes
        if not changes:
            return
        high_watermark = self._high_watermark()
        while changes and changes[0].end_offset <= high_watermark:
            change = changes.popleft()
            later = change.later
            if later is None:
                del change.earlier[change.key]
            else:
                later.last = None if change.last is later else change.last
                change.earlier[change.key] = later

    @property
    def change_count(self) -> int:
        """How many changes are kept."""
        return len(self._changes)

    def _high_watermark(self) -> int:
        log = None if self._partition is None else self._partition.log
        # Offline: nothing more is committed, and the shard is about to be dropped.
        return 0 if log is None else log.high_watermark

    def _log_end(self) -> int:
        log = None if self._partition is None else self._partition.log
        return 0 if log is None else log.log_end_offset


def as_committed(earlier: Earlier[K, V], key: K, now: V | None) -> V | None:
    """What committed records say of a key. None: nothing. The timeline is trimmed already."""
    change = earlier.get(key)
    return now if change is None else change.before


def all_as_committed(now: Mapping[K, V], earlier: Earlier[K, V]) -> dict[K, V]:
    """A whole table, likewise."""
    committed = {**now}
    for key, change in earlier.items():
        if change.before is None:
            committed.pop(key, None)
        else:
            committed[key] = change.before
    return committed
