"""The events of several nodes in one order: that in which one has led to the other.

    merge = TraceMerge()
    merge.feed("node 1", lines, now_s)      what has come from one stream; what is old enough comes out, in order
    merge.advance(now_s)                    the same while nothing comes
    merge.flush()                           everything

No two machines agree on the time, so clocks alone cannot say what came first. But some things cannot be otherwise:

    what one node tells                     in the order of its own clock
    leader answers a follower from 7        before the follower appends what begins at 7
    leader appends 7                        before a follower does
    follower appends up to 8                before it asks the leader from 9 on
    leader moves the high watermark to 9    before a follower hears of it
    a consumer is given records             before its group commits them
    a transaction is to be committed        before its marker, which is before it is complete

Between these bounds the clocks decide (`trace_clocks`), and each event has its place on the leader's clock with what that may be
wrong by. Lines of different nodes come at different times: an event is held for a moment, so that what led to it can come in.
What comes later all the same has its place in time, and is marked as late.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec

from tidelog.console.trace_clocks import ClockView, TraceClocks
from tidelog.console.trace_story import story

HOLD_S = 0.25
# What is held at most: beyond it the oldest come out, whether or not others can still come before them.
HELD_MAX = 20_000


class Merged(msgspec.Struct, frozen=True):
    """An event in its place."""

    node: int
    type: str
    at_us: float
    """Microseconds since 1970, on the leader's clock."""
    uncertainty_us: float
    """By how much `at_us` may be wrong, to either side; 0 for the leader's own."""
    line: Mapping[str, object]
    sentence: str
    is_gap: bool = False
    """Nobody knows what happened here."""
    is_late: bool = False
    """It came after its place had been told."""


class _Held:
    """An event that waits for what may come before it."""

    __slots__ = ("arrived_s", "causes", "effects", "line", "mono_ns", "node", "number", "place_us", "type", "unsure_us")

    def __init__(self, number: int, arrived_s: float, line: Mapping[str, object]) -> None:
        self.number = number
        self.arrived_s = arrived_s
        self.line = line
        self.node = _int(line, "node")
        self.type = str(line.get("type"))
        self.mono_ns = _int(line, "mono_ns")
        self.place_us = self.unsure_us = 0.0
        self.causes = 0
        self.effects: list[_Held] = []

    def leads_to(self, other: _Held) -> None:
        self.effects.append(other)
        other.causes += 1


class TraceMerge:
    """Of one partition, with the coordinators of its groups and transactions."""

    def __init__(self, hold_s: float = HOLD_S) -> None:
        self._hold_s = hold_s
        self._clocks = TraceClocks()
        self._held: list[_Held] = []
        self._number = 0
        # The number that each stream's next line should have, with the boot of its node.
        self._expected: dict[str, tuple[str, int]] = {}
        # Where each node was last told of.
        self._told_us: dict[int, float] = {}
        self._latest_us = 0.0
        self._stream_node: dict[str, tuple[int, str]] = {}

    # --- what comes --------------------------------------------------------------------------------------------------------

    def feed(self, source: str, lines: Iterable[Mapping[str, object]], now_s: float) -> list[Merged]:
        """Lines of one stream, in the order of that stream."""
        for line in lines:
            if isinstance(line.get("node"), int) and isinstance(line.get("mono_ns"), int):
                self._take(source, line, now_s)
        return self.advance(now_s)

    def lost(self, source: str, reason: str, now_s: float) -> list[Merged]:
        """A stream has broken off: nobody knows what its node does from here on."""
        self._expected.pop(source, None)
        known = self._stream_node.pop(source, None)
        if known is not None:
            node, boot = known
            mono_ns = self._clocks.latest_ns(node)
            self._hold(
                {"type": "gap", "node": node, "boot": boot, "mono_ns": mono_ns, "count": 0, "reason": reason}, now_s
            )
        return self.advance(now_s)

    def clocks(self) -> dict[int, ClockView]:
        """How each node's clock is held against the leader's."""
        return self._clocks.views()

    @property
    def leader(self) -> int | None:
        """The node whose clock the others are held against."""
        return self._clocks.leader

    def _take(self, source: str, line: Mapping[str, object], now_s: float) -> None:
        node, boot, mono_ns = _int(line, "node"), str(line.get("boot")), _int(line, "mono_ns")
        wall_ms = line.get("wall_ms")
        self._clocks.seen(node, boot, mono_ns, float(wall_ms) if isinstance(wall_ms, int | float) else 0.0)
        self._stream_node[source] = (node, boot)
        number = _int(line, "seq")
        expected = self._expected.get(source)
        if expected is not None and expected != (boot, number):
            restarted = expected[0] != boot
            reason = "the node was started again" if restarted else f"{number - expected[1]} lines were lost"
            count = 0 if restarted else number - expected[1]
            self._hold(
                {"type": "gap", "node": node, "boot": boot, "mono_ns": mono_ns, "count": count, "reason": reason}, now_s
            )
        # The numbers of what a node had to drop are not given again.
        following = number + 1 + (_int(line, "count") if line.get("type") == "dropped" else 0)
        self._expected[source] = (boot, following)
        self._compare_clocks(line, node, mono_ns)
        self._hold(line, now_s)

    def _hold(self, line: Mapping[str, object], now_s: float) -> None:
        self._number += 1
        self._held.append(_Held(self._number, now_s, line))

    def _compare_clocks(self, line: Mapping[str, object], node: int, mono_ns: int) -> None:
        clocks = self._clocks
        match line:
            case {"type": "hello", "role": "leader"} | {"type": "role_changed", "role": "leader"}:
                clocks.lead(node)
            case {"type": "appended", "by": "follower", "base_offset": int(base), "last_offset": int(last)}:
                if node != clocks.leader:
                    clocks.follower(node).appended(base, last, mono_ns)
            case {"type": "appended", "by": "leader"} if clocks.leader is None:
                clocks.lead(node)
            case {"type": "follower_fetch_answered", "replica": int(replica), "from_offset": int(offset)}:
                if node == clocks.leader and _int(line, "bytes") > 0:
                    clocks.follower(replica).answered(offset, mono_ns)
            case {"type": "follower_fetch", "replica": int(replica), "fetch_offset": int(offset)}:
                if node == clocks.leader:
                    clocks.follower(replica).asked(offset, mono_ns)
            case {"type": "truncated"} if node != clocks.leader:
                clocks.follower(node).truncated()

    # --- what comes out ----------------------------------------------------------------------------------------------------

    def advance(self, now_s: float) -> list[Merged]:
        """What has been held long enough, and what came before it."""
        until = now_s - self._hold_s
        due = sum(held.arrived_s <= until for held in self._held)
        crowd = len(self._held) - HELD_MAX
        return self._come_out(until, crowd) if due or crowd > 0 else []

    def flush(self) -> list[Merged]:
        """Everything: nothing more will come."""
        return self._come_out(float("inf"), len(self._held))

    def _come_out(self, until: float, at_least: int) -> list[Merged]:
        held = self._held
        for each in held:
            each.place_us, each.unsure_us = self._clocks.place(each.node, each.mono_ns)
            each.causes, each.effects = 0, []
        _relate(held)
        due = sum(each.arrived_s <= until for each in held)
        ready = [(each.place_us, each.number, each) for each in held if not each.causes]
        heapq.heapify(ready)
        left = {each.number: each for each in held}
        told: list[Merged] = []
        while left and (due > 0 or len(told) < at_least):
            if not ready:
                # What says that it is its own cause: the clocks decide.
                first = min(left.values(), key=lambda each: (each.place_us, each.number))
                ready.append((first.place_us, first.number, first))
            _, number, event = heapq.heappop(ready)
            if left.pop(number, None) is None:
                continue
            due -= event.arrived_s <= until
            told.append(self._told(event))
            for effect in event.effects:
                effect.causes -= 1
                # An effect is not before its cause, whatever its clock says.
                effect.place_us = max(effect.place_us, event.place_us)
                if effect.causes == 0 and effect.number in left:
                    heapq.heappush(ready, (effect.place_us, effect.number, effect))
        self._held = list(left.values())
        return told

    def _told(self, event: _Held) -> Merged:
        at_us = max(event.place_us, self._told_us.get(event.node, event.place_us))
        is_late = at_us < self._latest_us
        self._told_us[event.node] = at_us
        self._latest_us = max(self._latest_us, at_us)
        is_gap = event.type in {"gap", "dropped"}
        line = event.line
        if event.type == "hw_moved" and self._clocks.leader is not None:
            line = {**line, "leader": self._clocks.leader}
        return Merged(event.node, event.type, at_us, event.unsure_us, event.line, story(line), is_gap, is_late)


def _relate(held: list[_Held]) -> None:
    """Find what has led to what among events that are held."""
    by_node: dict[int, list[_Held]] = {}
    for each in held:
        by_node.setdefault(each.node, []).append(each)
    for events in by_node.values():
        # By the node's own clock, also where it was heard in several streams; that begins anew with each start.
        boots: dict[object, int] = {}
        for each in events:
            boots.setdefault(each.line.get("boot"), len(boots))
        for before, after in pairwise(
            sorted(events, key=lambda each: (boots[each.line.get("boot")], each.mono_ns, each.number))
        ):
            before.leads_to(after)
    leaders = _LeaderEvents(held)
    for each in held:
        match each.line:
            case {"type": "appended", "by": "follower", "base_offset": int(base), "last_offset": int(last)}:
                leaders.relate_copy(each, base, last)
            case {"type": "hw_moved", "hw": int(high_watermark), "by": "leader"}:
                leaders.relate_told(each, high_watermark)
            case {"type": "offset_committed", "offset": int(offset), "client_id": str(client)}:
                leaders.relate_commit(each, offset, client)
    leaders.relate_markers()


class _LeaderEvents:
    """What happens on the leader, to be found by those who have part in it."""

    def __init__(self, held: list[_Held]) -> None:
        self._appended: dict[int, _Held] = {}
        self._answered: dict[tuple[int, int], _Held] = {}
        self._asked: dict[tuple[int, int], _Held] = {}
        self._high_watermarks: list[tuple[int, _Held]] = []
        self._given: dict[str, list[tuple[int, _Held]]] = {}
        # Of a producer's transactions, in turn: what was decided, its marker, and that it is complete.
        self._decided: dict[int, list[_Held]] = {}
        self._marked: dict[int, list[_Held]] = {}
        self._completed: dict[int, list[_Held]] = {}
        for each in sorted(held, key=lambda each: each.number):
            match each.line:
                case {"type": "appended", "base_offset": int(base), "by": by} if by != "follower":
                    self._appended.setdefault(base, each)
                case {"type": "follower_fetch_answered", "replica": int(replica), "from_offset": int(offset)}:
                    if _int(each.line, "bytes") > 0:
                        self._answered.setdefault((replica, offset), each)
                case {"type": "follower_fetch", "replica": int(replica), "fetch_offset": int(offset)}:
                    self._asked.setdefault((replica, offset), each)
                case {"type": "hw_moved", "hw": int(high_watermark)}:
                    self._high_watermarks.append((high_watermark, each))
                case {"type": "fetch_answered", "to_offset": int(offset), "client_id": str(client)}:
                    self._given.setdefault(client, []).append((offset, each))
                case {"type": "marker", "producer_id": int(producer)}:
                    self._marked.setdefault(producer, []).append(each)
                case {"type": "transaction_state", "state": str(state), "producer_id": int(producer)}:
                    if state.startswith("Prepare"):
                        self._decided.setdefault(producer, []).append(each)
                    elif state.startswith("Complete"):
                        self._completed.setdefault(producer, []).append(each)

    def relate_copy(self, copy: _Held, base: int, last: int) -> None:
        for cause in (self._appended.get(base), self._answered.get((copy.node, base))):
            if cause is not None and cause.node != copy.node:
                cause.leads_to(copy)
        asked = self._asked.get((copy.node, last + 1))
        if asked is not None and asked.node != copy.node:
            copy.leads_to(asked)
            # Its clock may be anywhere within what is known of it; this is certain.
            copy.place_us = min(copy.place_us, asked.place_us)

    def relate_told(self, told: _Held, high_watermark: int) -> None:
        for reached, cause in self._high_watermarks:
            if reached >= high_watermark and cause.node != told.node and cause.line.get("by") != "leader":
                cause.leads_to(told)
                return

    def relate_commit(self, commit: _Held, offset: int, client: str) -> None:
        for given, cause in self._given.get(client, ()):
            if given >= offset and cause.node != commit.node:
                cause.leads_to(commit)
                return

    def relate_markers(self) -> None:
        for producer, decided in self._decided.items():
            marked, completed = self._marked.get(producer, []), self._completed.get(producer, [])
            # Only where it is plain which belong together: all of them are here.
            if len(decided) == len(marked) == len(completed):
                for first, marker, last in zip(decided, marked, completed, strict=True):
                    if first.node != marker.node:
                        first.leads_to(marker)
                        marker.leads_to(last)


def _int(line: Mapping[str, object], name: str) -> int:
    value = line.get(name)
    return value if isinstance(value, int) else 0
