"""Timers, as a thing that is passed in: a node on virtual time must not notice the difference.

    timer = timers.after(500, self._write_no_op)
    timer.cancel()                # harmless where it has gone off already

Callbacks run on the thread of the node's event loop, like everything else in it.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that is still to come."""

    def cancel(self) -> None:
        """Do not call it. A second cancel, or one that comes too late, does nothing."""
        ...


class Timers(Protocol):
    """Calls back later."""

    def after(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, `delay_ms` from now or a little later; never from within this call."""
        ...


class LoopTimers:
    """Timers of an asyncio loop: a real one, or the simulator's."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    def after(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, delay_ms) / 1000, callback)
