"""What a node counts: families of numbers under Kafka's metric names in Prometheus spelling.

    registry = Registry()
    flushes = registry.histogram("kafka_log_log_flush_stats_log_flush_time_ms", "How long a flush took.", LATENCY_BOUNDS_MS)
    flushes.observe(0.8)
    registry.gauge("kafka_server_replica_manager_leader_count", "...", lambda: partitions.leader_count)
    registry.family(Kind.COUNTER, "..._bytes_in_total", "...", ("topic",), read_bytes_in)

Counting costs an addition: no lock, since everything of a node runs on one thread, and no lookup, since whoever counts holds what
it counts in. Whatever can be read when somebody asks is not counted at all: a family is read by its callback, at the scrape.
`metrics_text` writes it down.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

LATENCY_BOUNDS_MS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000)
"""From what a request from memory takes to Kafka's usual time-outs."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class MetricError(Exception):
    """A family that cannot be: a bug of whoever declares it."""


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class Histogram:
    """How often a value was at most each bound. `counts` has one place more than `bounds`, for what lies above all of them."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Take in what another one of the same bounds has seen."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


Value: TypeAlias = int | float | Histogram
# The values of a family's labels, in the order of their names, and what was counted under them.
Reading: TypeAlias = tuple[tuple[str, ...], Value]


class Family(Struct, frozen=True):
    """One metric with all of its labels. `read` gives what it is now; a Histogram's counters must not change under the reader."""

    kind: Kind
    name: str
    help: str
    label_names: tuple[str, ...]
    read: Callable[[], Iterable[Reading]]


class Registry:
    """All families of a node, in the order in which they were declared."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())

    def __len__(self) -> int:
        return len(self._families)

    def family(
        self, kind: Kind, name: str, help_text: str, label_names: tuple[str, ...], read: Callable[[], Iterable[Reading]]
    ) -> None:
        """Declare a family that its callback reads."""
        if not _NAME.fullmatch(name) or not all(map(_LABEL.fullmatch, label_names)):
            raise MetricError(f"{name}{list(label_names)} is not a name of a metric with its labels")
        if name in self._families:
            raise MetricError(f"{name} is declared twice")
        if (kind is Kind.COUNTER) != name.endswith("_total"):
            raise MetricError(f"{name}: a counter, and nothing else, ends in _total")
        self._families[name] = Family(kind, name, help_text, label_names, read)

    def counter(self, name: str, help_text: str) -> Counter:
        """A counter without labels."""
        counter = Counter()
        self.family(Kind.COUNTER, name, help_text, (), lambda: [((), counter.value)])
        return counter

    def histogram(self, name: str, help_text: str, bounds: Sequence[float]) -> Histogram:
        """A histogram without labels."""
        histogram = Histogram(bounds)
        self.family(Kind.HISTOGRAM, name, help_text, (), lambda: [((), histogram)])
        return histogram

    def gauge(self, name: str, help_text: str, read: Callable[[], int | float]) -> None:
        """A number without labels, as it is at the moment of the reading."""
        self.family(Kind.GAUGE, name, help_text, (), lambda: [((), read())])

    def counted(self, name: str, help_text: str, read: Callable[[], int | float]) -> None:
        """A number without labels that somebody else counts, and that only grows."""
        self.family(Kind.COUNTER, name, help_text, (), lambda: [((), read())])
