"""The time, as a thing that is passed in: a node on virtual time must not notice the difference."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from tidelog.kernel_choice import load
from tidelog.model.ids import TimestampMs

_kernel = load("tidelog.model.kernels", "timer_kernel")


class Clock(Protocol):
    """Two readings, as every system has them: one that people agree on, and one that never goes back."""

    def now_ms(self) -> TimestampMs:
        """Milliseconds since 1970, for timestamps that others read. May jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment, for time-outs and intervals. Never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, to measure how long something takes."""
        ...


class SystemClock:
    """The machine's own."""

    # Read for every write, and twice by every request: nothing of ours is around them.
    now_ms: Callable[[], TimestampMs] = staticmethod(_kernel.now_ms)
    monotonic_ns = staticmethod(time.monotonic_ns)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
