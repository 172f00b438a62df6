"""The reading behind one Fetch: what is there now, and the wait for more where that is too little.

A fetch is answered at once if it will not wait, if it has `min_bytes`, or if something is wrong with a partition. Otherwise it
watches its partitions. A change makes it read that one partition again; it completes when that was enough, when something went
wrong, or when `max_wait_ms` is over, and watches nothing any more then.

While it waits it holds what it has read so far: as long as it was not told of a change, that is still the answer. Only stretches
of files are read anew in the end, since the log may have been cut under them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

import msgspec

from tidelog.broker.data.fetch_sessions import FetchEntry
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NodeId
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.replication.partition import Diverged, Partition
from tidelog.replication.throttles import ReplicationThrottles
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.wire.messages.fetch import FetchResponse

# A client that is gone is noticed when its answer is sent. One that asked to wait for weeks must not be kept for weeks.
WAIT_MS_MAX = 5 * 60 * 1000


class Unchanged(Enum):
    """Says that a session's client knows all there is to know of a partition."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED

ReadResult: TypeAlias = Fetched | Diverged | ErrorCode | Unchanged
# What to read, or the error where this node has no replica.
Target: TypeAlias = Partition | ErrorCode


class FetchLimits(msgspec.Struct, frozen=True, gc=False):
    """How a fetch reads, the same for all of its partitions."""

    isolation: FetchIsolation
    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    leader_only: bool
    is_incremental: bool = False
    """Whether the answer may leave out what the client knows."""
    follower: NodeId | None = None
    """The replica that asks; None for a consumer."""
    follower_epoch: int = -1


class FetchReading:
    """One fetch, as a watcher of its partitions. `answer_of` makes the response of what was read, once.

    `entries` and `targets` belong together, place by place. What `throttles` hold back from a follower is not there for it: it
    waits as for anything else.
    """

    __slots__ = (
        "_answer_of",
        "_entries",
        "_limits",
        "_pending",
        "_places",
        "_results",
        "_sizes",
        "_targets",
        "_throttles",
        "_timer",
        "_total",
    )

    def __init__(
        self,
        entries: Sequence[FetchEntry],
        targets: Sequence[Target],
        limits: FetchLimits,
        answer_of: Callable[[Sequence[ReadResult]], FetchResponse],
        throttles: ReplicationThrottles | None = None,
    ) -> None:
        self._entries = entries
        self._targets = targets
        self._limits = limits
        self._answer_of = answer_of
        self._throttles = throttles
        self._results: list[ReadResult] = []
        self._sizes: list[int] = []
        self._total = 0
        self._places: dict[Partition, int] = {}
        self._pending: Pending[FetchResponse] = Pending()
        self._timer: Timer | None = None

    def start(self, timers: Timers) -> FetchResponse | Pending[FetchResponse]:
        """Read, and answer now or later."""
        limits = self._limits
        is_settled = self._read_all(note_progress=True)
        if is_settled or limits.max_wait_ms <= 0 or not self._targets or self._total >= limits.min_bytes:
            return self._answer_of(self._results)
        for place, partition in enumerate(self._targets):
            if isinstance(partition, Partition):
                self._places[partition] = place
                partition.watch(self)
        self._timer = timers.after(min(limits.max_wait_ms, WAIT_MS_MAX), self._expired)
        if limits.follower is not None:
            self._look_for_missed()
        return self._pending

    def answer_now(self) -> FetchResponse:
        """Read, and answer with what is there. Says nothing about how far a follower is: that was said when it asked."""
        self._read_all(note_progress=False)
        return self._answer_of(self._results)

    def _look_for_missed(self) -> None:
        """A follower's progress commits records, on which a coordinator may append at once to a partition that this fetch has
        read already and did not watch yet."""
        for partition, place in tuple(self._places.items()):
            result, log = self._results[place], partition.log
            if type(result) is Fetched and log is not None and log.log_end_offset != result.log_end_offset:
                self.partition_changed(partition)

    def partition_changed(self, partition: Partition) -> None:
        """A partition that is waited for has more, or nothing any more."""
        place = self._places.get(partition)
        if place is None:
            return
        others = self._total - self._sizes[place]
        is_settled = self._read(place, self._limits.max_bytes - others, is_first=not others, note_progress=False)
        if is_settled or self._total >= self._limits.min_bytes:
            self._complete(read_again=others > 0)

    def _expired(self) -> None:
        self._complete(read_again=self._total > 0)

    def _complete(self, *, read_again: bool) -> None:
        for partition in self._places:
            partition.unwatch(self)
        self._places = {}
        if self._timer is not None:
            self._timer.cancel()
        if read_again:
            self._read_all(note_progress=False)
        self._pending.complete(self._answer_of(self._results))

    def _read_all(self, *, note_progress: bool) -> bool:
        """Read every partition. Whether one of them is reason enough to answer, whatever was found."""
        count = len(self._targets)
        self._results = [UNCHANGED] * count
        self._sizes = [0] * count
        self._total = 0
        may_skip = self._limits.is_incremental and self._limits.follower is None
        is_settled = False
        for place, partition in enumerate(self._targets):
            if may_skip and type(partition) is Partition:
                entry = self._entries[place]
                asked = entry.asked
                if asked.last_fetched_epoch == NO_LEADER_EPOCH and partition.has_nothing_new(
                    asked.fetch_offset, asked.current_leader_epoch, entry.high_watermark, entry.log_start_offset
                ):
                    continue
            left = max(0, self._limits.max_bytes - self._total)
            if self._read(place, left, is_first=not self._total, note_progress=note_progress):
                is_settled = True
        return is_settled

    def _read(self, place: int, bytes_max: int, *, is_first: bool, note_progress: bool) -> bool:
        """Read one partition. However small the limits, the first that has anything gives a whole batch."""
        partition, asked = self._targets[place], self._entries[place].asked
        limits = self._limits
        if isinstance(partition, ErrorCode):
            self._results[place] = partition
            return True
        bytes_max = max(0, min(bytes_max, asked.partition_max_bytes))
        if limits.follower is None:
            result = partition.read(
                asked.fetch_offset,
                bytes_max,
                limits.isolation,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                min_one_batch=is_first,
                leader_only=limits.leader_only,
            )
        else:
            result = partition.read_as_follower(
                limits.follower,
                asked.fetch_offset,
                bytes_max,
                broker_epoch=limits.follower_epoch,
                log_start_offset=asked.log_start_offset,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                min_one_batch=is_first,
                note_progress=note_progress,
            )
            if type(result) is Fetched and result.regions and self._is_held_back(partition, limits.follower):
                result = msgspec.structs.replace(result, regions=())
        self._results[place] = result
        if type(result) is not Fetched:
            return True
        size = result.size_bytes
        self._total += size - self._sizes[place]
        self._sizes[place] = size
        return False

    def _is_held_back(self, partition: Partition, follower: NodeId) -> bool:
        return self._throttles is not None and self._throttles.holds_back(partition, follower)
