"""Timers over an event loop, on virtual time."""

from __future__ import annotations

import asyncio

from tidelog.model.timers import LoopTimers
from tidelog.simulation.loop import VirtualTimeLoop


def test_a_timer_goes_off_at_its_time_and_a_cancelled_one_never() -> None:
    loop = VirtualTimeLoop()
    timers = LoopTimers(loop)
    gone_off: list[tuple[str, int]] = []
    timers.after(500, lambda: gone_off.append(("second", loop.time_ms)))
    timers.after(20, lambda: gone_off.append(("first", loop.time_ms)))
    cancelled = timers.after(100, lambda: gone_off.append(("cancelled", loop.time_ms)))
    cancelled.cancel()
    cancelled.cancel()

    assert gone_off == []
    loop.run_until_complete(asyncio.sleep(1))

    assert gone_off == [("first", 20), ("second", 500)]


def test_a_negative_delay_is_now_but_not_within_the_call() -> None:
    loop = VirtualTimeLoop()
    gone_off: list[int] = []
    LoopTimers(loop).after(-5, lambda: gone_off.append(loop.time_ms))

    assert gone_off == []
    loop.run_until_complete(asyncio.sleep(0.001))

    assert gone_off == [0]
