"""What storage is given from outside: the disk, the time, a place for slow work, and chance.

A node passes the real ones, the simulator its own. Nothing else in this package reaches the operating system.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tidelog.model.clock import Clock
from tidelog.model.metrics import LATENCY_BOUNDS_MS, Histogram
from tidelog.model.slow_work import SlowWork
from tidelog.storage.files import Files


@dataclass(frozen=True, slots=True)
class Seams:
    """Passed down from the composition root to every log."""

    files: Files
    clock: Clock
    slow_work: SlowWork
    random: Random
    flush_times_ms: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS_MS), compare=False)
    """Where every flush of a log counts how long it took."""
