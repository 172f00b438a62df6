# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""How far one follower is, as its leader knows from the follower's fetches.

A fetch from offset n says that the follower has everything before n. A follower counts as caught up at the moment of a fetch that
reaches the leader's log end; and, since a leader that is written to all the time has a moving end, at the moment of its
previous fetch once it reaches the end that the leader had then.

A follower that has everything rests: its fetches need not name the partition until something happens to it, and each of them says
once more that it is caught up. The time of the last one is in the `FetchClock` of its session, so that nobody has to go through
all partitions for a fetch that names none.
"""

from __future__ import annotations

from tidelog.model.bugs import BugError
from tidelog.model.ids import NO_OFFSET


class FetchClock:
    """When a follower's session fetched last, for all of the partitions that rest in it."""

    __slots__ = ("last_fetch_ms",)

    def __init__(self, last_fetch_ms: int) -> None:
        self.last_fetch_ms = last_fetch_ms


class FollowerProgress:
    """One follower. Begins as unknown: nothing is taken for replicated before its first fetch in this leader epoch."""

    __slots__ = (
        "_caught_up_ms",
        "_clock",
        "_last_fetch_ms",
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, last_caught_up_ms: int = 0) -> None:
        self.log_end_offset: int = NO_OFFSET
        self.log_start_offset: int = NO_OFFSET
        # Of the broker that fetched last: one that has registered again since is not the replica it was.
        self.broker_epoch = -1
        self._caught_up_ms = last_caught_up_ms
        self._last_fetch_ms = 0
        self._leader_end_at_last_fetch = 0
        # While it rests.
        self._clock: FetchClock | None = None

    @property
    def last_caught_up_ms(self) -> int:
        clock = self._clock
        return self._caught_up_ms if clock is None else max(self._caught_up_ms, clock.last_fetch_ms)

    def fetched(
        self, offset: int, log_start_offset: int, leader_log_end_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """The follower has fetched from `offset`, when the leader's log ended at `leader_log_end_offset`."""
        if offset < 0 or offset > leader_log_end_offset:
            raise BugError(
                f"a follower has fetched from {offset}, and the leader's log ends at {leader_log_end_offset}"
            )
        if self._clock is not None:
            self.rouse()
        if offset >= leader_log_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif offset >= self._leader_end_at_last_fetch:
            self._caught_up_ms = max(self._caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._last_fetch_ms = now_ms
        self._leader_end_at_last_fetch = leader_log_end_offset

    def rest(self, clock: FetchClock) -> None:
        """It has all that the leader has. Until `rouse`, every fetch of its session, by that clock, says so again."""
        self._clock = clock

    def rouse(self) -> None:
        """The leader's log may end elsewhere from now on. Up to its session's last fetch the follower had all of it."""
        clock = self._clock
        self._clock = None
        if clock is not None:
            self._caught_up_ms = max(self._caught_up_ms, clock.last_fetch_ms)
            self._last_fetch_ms = max(self._last_fetch_ms, clock.last_fetch_ms)
