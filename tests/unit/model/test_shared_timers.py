"""Time-outs that share one timer of the loop, on virtual time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from tests.support.data_node import ManualTimer
from tidelog.model.shared_timers import CANCELLED_MAX, SharedTimers
from tidelog.model.timers import LoopTimers, Timer
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop


class CountedTimers(LoopTimers):
    """Counts what is asked of the loop."""

    asked = 0

    def after(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        self.asked += 1
        return super().after(delay_ms, callback)


class AskedTimers:
    """Keeps in mind how long it was asked to wait."""

    def __init__(self) -> None:
        self.delays_ms: list[float] = []

    def after(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        self.delays_ms.append(delay_ms)
        return ManualTimer(delay_ms, callback)


class Scene:
    def __init__(self) -> None:
        self.loop = VirtualTimeLoop()
        self.below = CountedTimers(self.loop)
        self.timers = SharedTimers(self.below, VirtualClock(self.loop))
        self.gone_off: list[tuple[object, int]] = []

    def after(self, delay_ms: float, name: object) -> Timer:
        return self.timers.after(delay_ms, partial(_note, self, name))

    def run(self, ms: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(ms / 1000))


def _note(scene: Scene, name: object) -> None:
    scene.gone_off.append((name, scene.loop.time_ms))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_each_goes_off_at_its_time_and_a_cancelled_one_never(scene: Scene) -> None:
    scene.after(500, "second")
    scene.after(20, "first")
    scene.after(500, "third")
    cancelled = scene.after(100, "cancelled")
    cancelled.cancel()
    cancelled.cancel()

    assert scene.gone_off == []
    assert len(scene.timers) == 3
    scene.run(1000)

    assert scene.gone_off == [("first", 20), ("second", 500), ("third", 500)]
    assert len(scene.timers) == 0


def test_no_delay_is_now_but_not_within_the_call(scene: Scene) -> None:
    scene.after(-5, "now")

    assert scene.gone_off == []
    scene.run(1)

    assert scene.gone_off == [("now", 0)]


def test_waits_that_end_early_share_a_timer_of_the_loop_and_leave_nothing_behind(scene: Scene) -> None:
    for _ in range(100 * CANCELLED_MAX):
        scene.after(500, "never").cancel()

    assert scene.below.asked == 1
    assert len(scene.timers._heap) <= CANCELLED_MAX + 1
    assert len(scene.timers) == 0
    scene.run(1000)
    assert scene.gone_off == []


def test_what_was_cancelled_keeps_nothing_alive(scene: Scene) -> None:
    class Waiter:
        def expired(self) -> None: ...

    waiter = Waiter()
    gone = weakref.ref(waiter)
    timer = scene.timers.after(500, waiter.expired)
    timer.cancel()
    del waiter

    assert gone() is None


def test_a_time_that_no_clock_will_see_is_taken() -> None:
    asked = AskedTimers()

    SharedTimers(asked, VirtualClock(VirtualTimeLoop())).after(2**63, lambda: None)

    assert asked.delays_ms == [2**63]


def test_one_may_start_and_cancel_others_when_it_goes_off(scene: Scene) -> None:
    doomed = scene.after(10, "doomed")

    def first() -> None:
        doomed.cancel()
        scene.after(0, "next")
        scene.after(5, "later")

    # Before the other by its time.
    scene.timers.after(9, first)
    scene.run(100)

    assert scene.gone_off == [("next", 9), ("later", 14)]


def test_a_callback_that_fails_keeps_none_of_the_others_from_theirs(scene: Scene) -> None:
    failures: list[object] = []
    scene.loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail() -> None:
        raise LookupError("a bug")

    scene.timers.after(10, fail)
    scene.after(10, "same moment")
    scene.after(30, "later")
    scene.run(100)

    assert [type(each) for each in failures] == [LookupError]
    assert scene.gone_off == [("same moment", 10), ("later", 30)]


def test_whoever_counts_failures_hears_of_each_of_them(scene: Scene) -> None:
    failures: list[Exception] = []
    timers = SharedTimers(scene.below, VirtualClock(scene.loop), failures.append)

    def fail() -> None:
        raise LookupError("a bug")

    timers.after(10, fail)
    timers.after(10, fail)
    timers.after(30, partial(_note, scene, "later"))
    scene.run(100)

    assert [str(each) for each in failures] == ["a bug", "a bug"]
    assert scene.gone_off == [("later", 30)]


@pytest.mark.parametrize("seed", range(20))
def test_any_mixture_goes_off_as_timers_of_the_loop_would(seed: int) -> None:
    random = Random(seed)
    shared, plain = Scene(), Scene()
    for step in range(60):
        delay_ms, cancels = random.choice([0, 3, 50, 50, 50, 200]), random.random() < 0.6
        started = (
            shared.after(delay_ms, step),
            plain.below.after(delay_ms, partial(_note, plain, step)),
        )
        for timer in started:
            if cancels:
                timer.cancel()
        pause_ms = random.choice([0, 0, 0, 10, 60])
        for scene in (shared, plain):
            scene.run(pause_ms)
    for scene in (shared, plain):
        scene.run(1000)

    assert shared.gone_off == plain.gone_off
