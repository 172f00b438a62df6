# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Many time-outs behind one timer.

Nearly every time-out is cancelled: what was waited for came before. A timer of the loop costs more to start and to stop than the
whole rest of such a wait, so these are kept in a heap here and the loop is asked for one timer, the next that is due. A cancelled
one stays in the heap until its time or until there are too many of them.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.model.clock import Clock
    from tidelog.model.timers import Timer, Timers

_NS_PER_MS = 1_000_000

# Cancelled ones are thrown out when there are more of them than this, and than of the others.
CANCELLED_MAX = 256


class SharedTimer:
    """A time-out. It keeps nothing alive once it is cancelled."""

    __slots__ = ("_callback", "_owner")

    def __init__(self, owner: SharedTimers, callback: Callable[[], None]) -> None:
        self._owner = owner
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        if self._callback is not None:
            self._callback = None
            self._owner._one_cancelled()  # noqa: SLF001 - a timer is a part of its owner


class SharedTimers:
    """`Timers` over other timers, for waits that mostly end early."""

    __slots__ = ("_armed", "_armed_ns", "_cancelled", "_heap", "_now_ns", "_number", "_on_failure", "_timers")

    def __init__(self, timers: Timers, clock: Clock, on_failure: Callable[[Exception], None] | None = None) -> None:
        """`on_failure` hears of what a callback raised, which otherwise goes to the timers below."""
        self._timers = timers
        self._on_failure = on_failure
        self._now_ns = clock.monotonic_ns
        # The number keeps those of one moment in their order, and timers from being compared.
        self._heap: list[tuple[int, int, SharedTimer]] = []
        self._number = 0
        # How many of them will not go off.
        self._cancelled = 0
        self._armed: Timer | None = None
        self._armed_ns = 0

    def __len__(self) -> int:
        """How many are still to go off."""
        return len(self._heap) - self._cancelled

    def after(self, delay_ms: float, callback: Callable[[], None]) -> SharedTimer:
        """Call `callback` once, `delay_ms` from now or a little later; never from within this call."""
        due_ns = self._now_ns()
        if delay_ms > 0:
            due_ns += int(delay_ms * _NS_PER_MS)
        timer = SharedTimer(self, callback)
        self._number += 1
        heappush(self._heap, (due_ns, self._number, timer))
        if self._armed is None or due_ns < self._armed_ns:
            self._arm(due_ns)
        return timer

    def _one_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > CANCELLED_MAX and self._cancelled * 2 > len(self._heap):
            kept: list[tuple[int, int, SharedTimer]] = []
            for entry in self._heap:
                timer = entry[2]
                if timer._callback is not None:  # noqa: SLF001
                    kept.append(entry)
            heapify(kept)
            self._heap = kept
            self._cancelled = 0

    def _arm(self, due_ns: int) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed_ns = due_ns
        # In whole milliseconds, as loops count: a fraction would go off too early, again and again.
        self._armed = self._timers.after(max(0, ceil((due_ns - self._now_ns()) / _NS_PER_MS)), self._go_off)

    def _go_off(self) -> None:
        self._armed = None
        try:
            now_ns = self._now_ns()
            while self._heap:
                due_ns, _, timer = self._heap[0]
                callback = timer._callback  # noqa: SLF001
                if callback is not None and due_ns > now_ns:
                    break
                heappop(self._heap)
                if callback is None:
                    self._cancelled -= 1
                    continue
                timer._callback = None  # noqa: SLF001
                try:
                    callback()
                except Exception as error:
                    if self._on_failure is None:
                        raise
                    self._on_failure(error)
        finally:
            # Also where a callback has failed: the others are not to wait for ever.
            self._arm_for_first()

    def _arm_for_first(self) -> None:
        """A callback may have set a timer meanwhile, which is early enough or not."""
        if self._heap and (self._armed is None or self._heap[0][0] < self._armed_ns):
            self._arm(self._heap[0][0])
