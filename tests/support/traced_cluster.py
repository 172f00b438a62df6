"""What a leader and its followers would tell of a partition, with clocks that are wrong and lines that come when they come.

story = TracedCluster(Random(7)).run(batches=20)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

NS_PER_S = 1_000_000_000
LEADER = 1


@dataclass
class SkewedClock:
    """Of one node: where it begins, how fast it goes, and what people have set it to."""

    begin_ns: int
    drift: float
    wall_error_ms: float

    def mono_ns(self, true_ns: int) -> int:
        return self.begin_ns + int(true_ns * (1 + self.drift))

    def wall_ms(self, true_ns: int) -> float:
        return 1_700_000_000_000 + true_ns / 1e6 + self.wall_error_ms


@dataclass
class ToldLine:
    true_ns: int
    arrives_s: float
    line: dict[str, Any]


@dataclass
class TracedCluster:
    """Three nodes. The true time of everything is known here alone."""

    random: Random
    drift_max: float = 1e-4
    skew_max_s: float = 1000.0
    told: list[ToldLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clocks = {
            node: SkewedClock(
                int(self.random.uniform(0, self.skew_max_s) * NS_PER_S),
                self.random.uniform(-self.drift_max, self.drift_max),
                self.random.uniform(-5000, 5000),
            )
            for node in (1, 2, 3)
        }
        self._numbers = dict.fromkeys(self.clocks, 0)
        self._lines: list[tuple[int, int, dict[str, Any]]] = []

    def tell(self, node: int, true_ns: int, kind: str, **fields: Any) -> None:
        self._lines.append((true_ns, node, {"type": kind, **fields}))

    def run(self, batches: int, *, round_trip_ms: float = 2.0, pause_ms: float = 20.0) -> list[ToldLine]:
        """So many batches, each copied by both followers; in the order in which the lines arrive."""
        random = self.random
        now = NS_PER_S

        def later(most_ms: float) -> int:
            return 1000 + int(random.uniform(0, most_ms) * 1e6)

        for node in self.clocks:
            role = "leader" if node == LEADER else "follower"
            self.tell(node, now, "hello", role=role, topic="t", partition=0, leader=LEADER, leo=0, hw=0)
        for offset in range(batches):
            now += later(pause_ms)
            self.tell(1, now, "produce_received", client_id="p", acks=-1, records=1, bytes=70, producer_id=-1)
            now += later(0.2)
            self.tell(1, now, "appended", by="leader", base_offset=offset, last_offset=offset, leo=offset + 1)
            fetched = {}
            for node in (2, 3):
                answered = now + later(0.1)
                self.tell(
                    1,
                    answered,
                    "follower_fetch_answered",
                    replica=node,
                    from_offset=offset,
                    to_offset=offset + 1,
                    bytes=70,
                )
                copied = answered + later(round_trip_ms / 2)
                self.tell(
                    node, copied, "appended", by="follower", base_offset=offset, last_offset=offset, leo=offset + 1
                )
                fetched[node] = copied + later(round_trip_ms / 2)
            last = max(fetched, key=lambda node: fetched[node])
            for node, at in fetched.items():
                self.tell(1, at, "follower_fetch", replica=node, fetch_offset=offset + 1)
            now = fetched[last] + 10
            self.tell(1, now, "hw_moved", hw=offset + 1, by=last)
            self.tell(1, now + 10, "produce_answered", client_id="p", base_offset=offset, error="NONE")
            for node in (2, 3):
                self.tell(node, now + later(round_trip_ms), "hw_moved", hw=offset + 1, by="leader")
            given = now + later(1)
            self.tell(1, given, "fetch_answered", client_id="c", from_offset=offset, to_offset=offset + 1, bytes=70)
            now = given + later(3)
            self.tell(2, now, "offset_committed", topic="t", partition=0, offset=offset + 1, client_id="c", member="m")
        return self._delivered()

    def _delivered(self) -> list[ToldLine]:
        arrived: dict[int, float] = {}
        for true_ns, node, line in sorted(self._lines, key=lambda each: each[0]):
            clock = self.clocks[node]
            number = self._numbers[node]
            self._numbers[node] += 1
            # One stream is in order, whatever its network does.
            arrives_s = max(true_ns / NS_PER_S + self.random.uniform(0, 0.1), arrived.get(node, 0.0))
            arrived[node] = arrives_s
            self.told.append(
                ToldLine(
                    true_ns,
                    arrives_s,
                    {
                        **line,
                        "node": node,
                        "boot": f"boot {node}",
                        "seq": number,
                        "mono_ns": clock.mono_ns(true_ns),
                        "wall_ms": clock.wall_ms(true_ns),
                    },
                )
            )
        return sorted(self.told, key=lambda each: each.arrives_s)
