# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The watch over the partitions of one fetch session: what its next answer has to look at.

    watch.note(entry)                       the next answer looks at it: it was named, or something has happened to it
    entries = watch.noted_entries()         all of those, in the order of the session
    watch.settle(entries)                   an answer was given: what has nothing more to tell is left alone until it changes

A session may hold thousands of partitions of which one has news. An answer looks at the partitions that its request names and at
those that are noted, so that it costs what has changed and not what there is. This serves the sessions of consumers and of
followers alike.

A partition that is left alone is linked: the partition has the watch among its watchers, and tells it of the next change. It is
told of one change only: the watch notes the partition and is taken off it, until an answer has looked at it again. So a write to
a partition costs something for each session once, and nothing as long as the session is idle. While a fetch of the session waits
the watch stays, and hands each change on to that fetch; this alone makes a partition an awaited one (`is_waiting`).

What is left alone depends on more than the partition: on how far the reader may see, who it is, what it may read, and where it
is. Where a request differs in any of these from the one before, everything is looked at again (`sees_as`).

All watches of a node together link at most `LINKS_MAX` partitions. Whatever is beyond that stays noted: each answer of its
session looks at it, as if there were no watch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.model.errors import ErrorCode
from tidelog.replication.follower_progress import FetchClock
from tidelog.storage.fetched import Fetched

if TYPE_CHECKING:
    from tidelog.broker.data.delayed_fetch import DelayedFetch
    from tidelog.broker.data.fetch_entry import FetchEntry
    from tidelog.model.ids import NodeId
    from tidelog.replication.partition import Partition
    from tidelog.storage.fetched import FetchIsolation

# A link costs about 200 bytes: 200 MB at the most, which takes a thousand sessions of a thousand partitions each.
LINKS_MAX = 1_000_000


class LinkBudget:
    """How many partitions the watches of a node have linked, and how many they may."""

    __slots__ = ("count", "most")

    def __init__(self, most: int = LINKS_MAX) -> None:
        self.count = 0
        self.most = most


class SessionWatch:
    """Of one session. A `Watcher` of its partitions."""

    __slots__ = (
        "_budget",
        "_by_partition",
        "_clock",
        "_follower",
        "_follower_epoch",
        "_has_stale",
        "_is_closed",
        "_is_reading",
        "_isolation",
        "_leader_only",
        "_noted",
        "_seen_by",
        "_waiting",
        "is_waiting",
    )

    def __init__(self, entries: Iterable[FetchEntry], budget: LinkBudget) -> None:
        self._budget = budget
        self._noted: list[FetchEntry] = []
        self._by_partition: dict[Partition, FetchEntry] = {}
        self._waiting: DelayedFetch | None = None
        self.is_waiting = False
        self._is_closed = False
        self._is_reading = False
        self._has_stale = False
        # How the last request has looked at its partitions.
        self._isolation: FetchIsolation | None = None
        self._leader_only = False
        self._follower: NodeId | None = None
        self._follower_epoch = -1
        self._seen_by: tuple[object, ...] = ()
        # When the follower fetched last, for all of the partitions that rest (`FollowerProgress`).
        self._clock = FetchClock(0)
        for entry in entries:
            entry.result = None
            self.note(entry)

    @property
    def link_count(self) -> int:
        return len(self._by_partition)

    # --- a request ---------------------------------------------------------------------------------------------------------

    def note(self, entry: FetchEntry) -> None:
        """The next answer has to look at `entry`."""
        if not entry.is_noted:
            entry.is_noted = True
            self._noted.append(entry)

    def forget(self, entry: FetchEntry) -> None:
        """It does not belong to the session any more."""
        entry.rank = -1
        if entry.is_linked:
            self._rouse(entry)
            self.unlink(entry)

    def sees_as(
        self,
        isolation: FetchIsolation,
        leader_only: bool,
        follower: NodeId | None,
        follower_epoch: int,
        seen_by: tuple[object, ...],
    ) -> bool:
        """Whether this request looks at the session's partitions as the one before did: then what was left alone still is.

        `seen_by` is who asks and what else decides what it is told.
        """
        is_same = (
            isolation is self._isolation
            and leader_only == self._leader_only
            and follower == self._follower
            and follower_epoch == self._follower_epoch
            and seen_by == self._seen_by
        )
        if not is_same:
            for entry in self._by_partition.values():
                self._rouse(entry)
            self._isolation = isolation
            self._leader_only = leader_only
            self._follower = follower
            self._follower_epoch = follower_epoch
            self._seen_by = seen_by
        return is_same

    def noted_entries(self) -> list[FetchEntry]:
        """What an answer has to look at, in the order of the session."""
        noted = self._noted
        if len(noted) > 1:
            noted = self._noted = [entry for entry in noted if entry.rank >= 0]
            noted.sort(key=_rank_of)
        elif noted and noted[0].rank < 0:
            noted = self._noted = []
        return list(noted)

    def begin_reading(self, entries: list[FetchEntry]) -> None:
        """These are read from now on. Reading what a follower asks for may commit records, and so change any of them: what has
        changed by then is to be found in `stale_entries`."""
        self._is_reading = True
        for entry in entries:
            if entry.partition is not None and not entry.is_linked:
                self._link(entry, is_bounded=True)

    def fetched_at(self, now_ms: int, entries: list[FetchEntry]) -> None:
        """The follower has fetched: what rests is caught up as of now, unless it is among `entries` and could not be read."""
        for entry in entries:
            if type(entry.result) is not Fetched:
                self._rouse(entry)
        self._clock.last_fetch_ms = now_ms

    def end_reading(self) -> list[FetchEntry]:
        """All are read. Those that have changed since they were."""
        self._is_reading = False
        if not self._has_stale:
            return []
        self._has_stale = False
        return [entry for entry in self._noted if entry.is_stale]

    def wait(self, fetch: DelayedFetch) -> None:
        """`fetch` waits for a change, and is told of each until `wait_is_over`."""
        self._waiting = fetch
        self.is_waiting = True
        for entry in self._noted:
            if entry.partition is not None and not entry.is_linked:
                self._link(entry, is_bounded=False)

    def note_all(self, partitions: Iterable[object]) -> None:
        """Something has happened to these, of which the watch will only be told later."""
        for partition in partitions:
            entry = self._by_partition.get(partition)  # type: ignore[call-overload]
            if entry is not None:
                self.note(entry)

    def wait_is_over(self) -> None:
        self._waiting = None
        self.is_waiting = False

    def supersede(self) -> None:
        """Another request of the session has come. The one that waits, if one does, is answered now."""
        waiting = self._waiting
        if waiting is not None:
            waiting.give_up()

    # --- an answer ---------------------------------------------------------------------------------------------------------

    def settle(self, entries: list[FetchEntry]) -> None:
        """An answer has told all that was read of `entries`, which are all that were noted."""
        noted: list[FetchEntry] = []
        budget = self._budget
        for entry in entries:
            if entry.rank < 0:
                continue
            if entry.is_linked and (budget.count > budget.most or type(entry.result) is ErrorCode):
                # It was linked only to be waited for; or the next answer looks at it anyway, perhaps as another partition.
                self.unlink(entry)
            if entry.is_stale or not self._is_quiet(entry):
                entry.is_stale = False
                noted.append(entry)
            else:
                entry.is_noted = False
            entry.result = None
        self._noted = noted
        if self._is_closed:
            self.close()

    def nothing_told(self, entries: list[FetchEntry]) -> None:
        """An answer has told nothing of `entries`: the next one is to look at all of them again."""
        for entry in entries:
            entry.is_stale = False
            entry.result = None
        if self._is_closed:
            self.close()

    def _is_quiet(self, entry: FetchEntry) -> bool:
        """Whether there is nothing to tell of a partition until it changes."""
        partition = entry.partition
        if partition is None or not entry.is_linked or entry.stays_noted:
            return False
        result = entry.result
        if result is not None and (type(result) is not Fetched or result.regions or result.first_batch_too_large):
            return False
        follower = self._follower
        return follower is None or partition.rest_follower(follower, self._clock)

    def close(self) -> None:
        """The session is at an end. A fetch of it that waits is still answered."""
        self._is_closed = True
        if self._waiting is not None:
            return
        for entry in list(self._by_partition.values()):
            self._rouse(entry)
            self.unlink(entry)

    # --- links -------------------------------------------------------------------------------------------------------------

    def _link(self, entry: FetchEntry, is_bounded: bool) -> None:
        budget = self._budget
        partition = entry.partition
        if (is_bounded and budget.count >= budget.most) or self._is_closed or partition is None:
            return
        budget.count += 1
        entry.is_linked = True
        self._by_partition[partition] = entry
        partition.watch(self)

    def unlink(self, entry: FetchEntry) -> None:
        """The partition, which is linked, tells of no change any more."""
        partition = entry.partition
        assert partition is not None
        entry.is_linked = False
        self._budget.count -= 1
        del self._by_partition[partition]
        partition.unwatch(self)

    def _rouse(self, entry: FetchEntry) -> None:
        """What is known of the follower no longer counts by the session's fetches."""
        if self._follower is not None and entry.partition is not None:
            entry.partition.rouse_follower(self._follower)

    def partition_changed(self, partition: Partition) -> None:
        """Something was written or committed, the replica's role is another one, or the log starts elsewhere."""
        entry = self._by_partition.get(partition)
        if entry is None:
            return
        if self._follower is not None:
            partition.rouse_follower(self._follower)
        if not entry.is_noted:
            entry.is_noted = True
            self._noted.append(entry)
        if self._is_reading:
            entry.is_stale = self._has_stale = True
        elif self._waiting is not None:
            self._waiting.entry_changed(entry)
        else:
            self.unlink(entry)


def _rank_of(entry: FetchEntry) -> int:
    return entry.rank
