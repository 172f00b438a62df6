"""The time, as a thing that is passed in: a node on virtual time must not notice the difference."""

from __future__ import annotations

import time
from typing import Protocol

from tidelog.model.ids import TimestampMs


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

    def now_ms(self) -> TimestampMs:
        # Read for every record of a producer: without the call that only a type checker needs.
        return time.time_ns() // 1_000_000  # type: ignore[return-value]

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    # Read twice by every request: the machine's own function, without one of ours around it.
    monotonic_ns = staticmethod(time.monotonic_ns)
