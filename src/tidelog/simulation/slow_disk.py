"""The hand-over of slow work, on virtual time: each piece takes a moment, one after another, as on a disk's own thread."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from tidelog.model.slow_work import SlowWork
from tidelog.simulation.loop import VirtualTimeLoop

T = TypeVar("T")

# About what a solid-state disk takes to sync.
LATENCY_MS_MAX = 4.0


class SlowDisk(SlowWork):
    """Does work in order, each piece after a time that chance decides; none after the process has died."""

    def __init__(self, loop: VirtualTimeLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._free_at_s = 0.0
        self.latency_ms_max = LATENCY_MS_MAX
        """How long a piece of work may take from now on."""
        self.is_dead = False

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None:
        took_s = self._random.uniform(0, self.latency_ms_max) / 1000
        self._free_at_s = max(self._free_at_s, self._loop.time()) + took_s
        self._loop.call_at(self._free_at_s, self._run, work, then)

    def _run(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None) -> None:
        if self.is_dead:
            return
        try:
            outcome: T | BaseException = work()
        except Exception as error:
            if then is None:
                raise
            outcome = error
        if then is not None:
            then(outcome)
