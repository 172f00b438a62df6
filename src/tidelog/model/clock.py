# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The time, as a thing that is passed in: a node on virtual time must not notice the difference."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns
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


def system_now_ms() -> TimestampMs:
    nanoseconds: int = time_ns()
    return nanoseconds // 1_000_000  # type: ignore[return-value] # a `NewType` is a call


class SystemClock:
    """The machine's own."""

    # Read for every write, and twice by every request: nothing of ours is around them.
    now_ms: Callable[[], TimestampMs] = staticmethod(system_now_ms)
    monotonic_ns = staticmethod(monotonic_ns)

    def monotonic_ms(self) -> int:
        return monotonic_ns() // 1_000_000
