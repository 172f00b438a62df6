"""Who keeps readers of committed records waiting: the open transactions that hold a last stable offset back.

Looked for when somebody asks, and at no other time: a transaction is known to be open from the last look that did not see it,
or from the newest record of its producer, whichever is later. So it is as exact as metrics are read often, and needs nothing
while records are written.

A producer's id is a label, which must not grow without bounds: the oldest are shown, and all are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest

from tidelog.model.clock import Clock
from tidelog.model.metrics import Kind, Reading, Registry
from tidelog.replication.partitions import Partitions
from tidelog.replication.roles import Leading

# Most transactions are over within seconds; what takes longer is worth a look.
HELD_MS_MIN = 10_000
SHOWN_MAX = 20

_Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Holder:
    """The oldest open transaction of a partition that this node leads."""

    topic: str
    partition: int
    producer_id: int
    since_ms: int
    lag: int
    """Offsets that others may read, and readers of committed records may not."""


class StableOffsetHolders:
    """Of one node. What it remembers is of partitions that have something open, from one look to the next."""

    def __init__(self, partitions: Partitions, clock: Clock) -> None:
        self._partitions = partitions
        self._clock = clock
        self._since_ms: dict[_Key, int] = {}
        self._looked_ms: int | None = None

    def look(self) -> list[Holder]:
        """Those that have held a last stable offset back for HELD_MS_MIN or longer."""
        now_ms = self._clock.now_ms()
        since: dict[_Key, int] = {}
        found = []
        for each in self._partitions:
            role = each.role
            if not isinstance(role, Leading):
                continue
            log = role.log
            producers = log.producers
            first = producers.first_undecided_offset
            if first is None:
                continue
            topic, partition = each.topic_partition
            key = (topic, partition, first)
            began_ms = self._since_ms.get(key)
            if began_ms is None:
                # A producer may date its records as it likes: what no look has seen is newer than that look.
                began_ms = min(now_ms, max(producers.oldest_transaction_ms or 0, self._looked_ms or 0))
            since[key] = began_ms
            lag = log.high_watermark - log.last_stable_offset
            if lag > 0 and now_ms - began_ms >= HELD_MS_MIN:
                found.append(Holder(topic, partition, producers.ongoing[first], began_ms, lag))
        self._since_ms, self._looked_ms = since, now_ms
        return found

    def register(self, registry: Registry) -> None:
        """Declare the families."""

        def of_oldest(value: Callable[[Holder], float]) -> Callable[[], Iterable[Reading]]:
            return lambda: [
                ((each.topic, str(each.partition), str(each.producer_id)), value(each))
                for each in nsmallest(
                    SHOWN_MAX, self.look(), key=lambda held: (held.since_ms, held.topic, held.partition)
                )
            ]

        labels = ("topic", "partition", "producer_id")
        registry.gauge(
            "tidelog_transactions_stable_offset_held_partitions",
            "Partitions that this node leads where a transaction has been open for 10 seconds or longer, with records behind it.",
            lambda: len(self.look()),
        )
        registry.family(
            Kind.GAUGE,
            "tidelog_transactions_stable_offset_lag_records",
            f"Offsets that readers of committed records wait for there, and who has it open; of the {SHOWN_MAX} oldest.",
            labels,
            of_oldest(lambda held: held.lag),
        )
        registry.family(
            Kind.GAUGE,
            "tidelog_transactions_stable_offset_held_seconds",
            "For how long, in seconds, as far as has been seen.",
            labels,
            of_oldest(lambda held: (self._clock.now_ms() - held.since_ms) / 1000),
        )
