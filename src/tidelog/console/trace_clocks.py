"""How far the clocks of nodes are from the leader's, as far as fetches tell.

A follower appends what it was sent after the leader has answered it, and before it asks for what follows:

    leader     answered, from offset 7 ----------------------------- asked again, from offset 9
    follower                             appended 7 to 8

So the follower's append lies between two moments of the leader's clock, and its clock can be no further ahead and no further
behind than that. Each fetch narrows it; since clocks drift, what was seen long ago says less and less.

    clocks.answered(replica, 7, leader_ns); clocks.appended(replica, 7, 8, follower_ns); clocks.asked(replica, 9, leader_ns)
    clocks.view(replica, leader_ns)         the difference, and how sure it is
"""

from __future__ import annotations

from collections import deque

import msgspec

# Twice what a clock may be adjusted by while it is corrected (NTP slews by up to 500 millionths), two clocks against each other.
DRIFT_MAX = 1e-3

# Fetches that are still to be matched, and bounds that are still of use.
UNMATCHED_MAX = 512
BOUNDS_MAX = 64

_NS_PER_US = 1000


class ClockView(msgspec.Struct, frozen=True):
    """What is to be added to a node's clock to get the leader's."""

    offset_us: float
    uncertainty_us: float
    is_measured: bool
    """False: nothing but what people set the clocks to, which is as good as that."""


class _Bounds:
    """One side of what a difference can be: values with the leader's time at which they were seen."""

    def __init__(self, sign: int) -> None:
        # 1: the difference is at least this; -1: at most.
        self._sign = sign
        self._seen: deque[tuple[int, int]] = deque(maxlen=BOUNDS_MAX)

    def add(self, at_ns: int, value_ns: int) -> None:
        self._seen.append((at_ns, value_ns))

    def at(self, at_ns: int) -> float | None:
        """The tightest of them, each loosened by what the clocks may have drifted since."""
        sign = self._sign
        found = [sign * value - DRIFT_MAX * abs(at_ns - seen) for seen, value in self._seen]
        return sign * max(found) if found else None

    def forget_older(self) -> bool:
        """Let go of the oldest half. False: there is one at most."""
        if len(self._seen) < 2:
            return False
        for _ in range(len(self._seen) // 2):
            self._seen.popleft()
        return True


class FollowerClock:
    """One follower against one leader, for as long as neither starts anew."""

    def __init__(self) -> None:
        self._answered: dict[int, int] = {}
        self._asked: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._at_least = _Bounds(1)
        self._at_most = _Bounds(-1)

    def answered(self, from_offset: int, leader_ns: int) -> None:
        """The leader has answered a fetch from that offset, with records."""
        _keep(self._answered, from_offset, leader_ns)
        self._match_answer(from_offset)

    def asked(self, fetch_offset: int, leader_ns: int) -> None:
        """The follower has asked from that offset, and so has everything before it."""
        if fetch_offset not in self._asked:
            _keep(self._asked, fetch_offset, leader_ns)
            self._match_ask(fetch_offset)

    def appended(self, base_offset: int, last_offset: int, follower_ns: int) -> None:
        """By the follower's own clock."""
        _keep(self._first, base_offset, follower_ns)
        _keep(self._last, last_offset + 1, follower_ns)
        self._match_answer(base_offset)
        self._match_ask(last_offset + 1)

    def truncated(self) -> None:
        """The follower goes through offsets that it has been through before: what is not matched yet is of the time before."""
        for moments in (self._answered, self._asked, self._first, self._last):
            moments.clear()

    def follows(self, leader_ns: int, follower_ns: int) -> None:
        """What happened on the follower at one moment is the effect of what happened on the leader at the other."""
        self._at_least.add(leader_ns, leader_ns - follower_ns)

    def view(self, leader_ns: int) -> tuple[float, float] | None:
        """The difference in nanoseconds at a time of the leader's clock, and by how much it may be wrong; None: unknown."""
        while True:
            low, high = self._at_least.at(leader_ns), self._at_most.at(leader_ns)
            if low is None or high is None:
                return None
            if low <= high:
                return (low + high) / 2, (high - low) / 2
            # A clock has jumped: a machine was asleep. What was before says nothing any more.
            can_forget = self._at_least.forget_older()
            if not (self._at_most.forget_older() or can_forget):
                return (low + high) / 2, (low - high) / 2

    def _match_answer(self, offset: int) -> None:
        if offset in self._answered and offset in self._first:
            leader_ns = self._answered.pop(offset)
            self._at_least.add(leader_ns, leader_ns - self._first.pop(offset))

    def _match_ask(self, offset: int) -> None:
        if offset in self._asked and offset in self._last:
            leader_ns = self._asked.pop(offset)
            self._at_most.add(leader_ns, leader_ns - self._last.pop(offset))


def _keep(moments: dict[int, int], offset: int, at_ns: int) -> None:
    moments[offset] = at_ns
    if len(moments) > UNMATCHED_MAX:
        del moments[next(iter(moments))]


class TraceClocks:
    """The clocks of all nodes whose events are put together, on one line of time: microseconds since 1970, as the first leader
    counted them. With another leader the line goes on, by what was known of its clock then."""

    # Between clocks that nobody has compared: people agree on the time to about that.
    UNMEASURED_US = 1_000_000.0

    def __init__(self) -> None:
        self.leader: int | None = None
        self._wall_ahead_us: dict[int, float] = {}
        self._boots: dict[int, str] = {}
        self._latest_ns: dict[int, int] = {}
        self._followers: dict[int, FollowerClock] = {}
        # Of the leader: what its clock is behind the line of time.
        self._leader_ahead_us = 0.0

    def seen(self, node: int, boot: str, mono_ns: int, wall_ms: float) -> None:
        """An event of a node, which comes with both of its clocks."""
        if self._boots.get(node) != boot:
            # Another process: its clock begins anew, or it is another machine's.
            self._boots[node] = boot
            self._latest_ns[node] = mono_ns
            self._followers.pop(node, None)
            self._wall_ahead_us[node] = wall_ms * 1000 - mono_ns / _NS_PER_US
            if node == self.leader:
                self._followers.clear()
                self._leader_ahead_us = self._wall_ahead_us[node]
        self._latest_ns[node] = max(mono_ns, self._latest_ns[node])

    def latest_ns(self, node: int) -> int:
        """A node's clock at the last event that came of it."""
        return self._latest_ns.get(node, 0)

    def lead(self, node: int) -> None:
        """This node leads from now on: the others are held against it."""
        if node == self.leader:
            return
        ahead = self._wall_ahead_us.get(node, 0.0)
        if self.leader is not None and (view := self._measured(node)) is not None:
            ahead = self._leader_ahead_us + view[0] / _NS_PER_US
        self._leader_ahead_us = ahead
        self._followers.clear()
        self.leader = node

    def follower(self, node: int) -> FollowerClock:
        return self._followers.setdefault(node, FollowerClock())

    def place(self, node: int, mono_ns: int) -> tuple[float, float]:
        """Where a moment of a node's clock lies on the line of time, and by how much that may be wrong; both in microseconds."""
        view = self.view(node)
        return mono_ns / _NS_PER_US + self._leader_ahead_us + view.offset_us, view.uncertainty_us

    def view(self, node: int) -> ClockView:
        """How a node's clock is held against the leader's."""
        if node == self.leader:
            return ClockView(0.0, 0.0, is_measured=True)
        measured = self._measured(node)
        if measured is not None:
            return ClockView(measured[0] / _NS_PER_US, measured[1] / _NS_PER_US, is_measured=True)
        return ClockView(
            self._wall_ahead_us.get(node, 0.0) - self._leader_ahead_us, self.UNMEASURED_US, is_measured=False
        )

    def views(self) -> dict[int, ClockView]:
        return {node: self.view(node) for node in sorted(self._boots)}

    def _measured(self, node: int) -> tuple[float, float] | None:
        clock = self._followers.get(node)
        if clock is None or self.leader is None or self.leader not in self._latest_ns:
            return None
        return clock.view(self._latest_ns[self.leader])
