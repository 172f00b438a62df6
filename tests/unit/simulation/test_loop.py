from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable

import pytest

from tidelog.simulation.loop import (
    START_MS,
    RealInputOutputError,
    SimulationFailedError,
    StalledError,
    VirtualClock,
    VirtualTimeLoop,
    owned_by,
)


def test_an_hour_passes_in_a_moment_and_only_by_timers() -> None:
    loop = VirtualTimeLoop()

    async def main() -> list[float]:
        seen = [loop.time()]
        for delay in (0.001, 3600, 0):
            await asyncio.sleep(delay)
            seen.append(loop.time())
        return seen

    assert loop.run_until_complete(main()) == [0, 0.001, 3600.001, 3600.001]


def test_ready_callbacks_come_before_timers_and_ties_in_the_order_of_asking() -> None:
    loop = VirtualTimeLoop()
    order: list[str] = []
    loop.call_later(0.2, order.append, "late")
    for name in ("first", "second", "third"):
        loop.call_later(0.1, order.append, name)
    cancelled = loop.call_later(0.05, order.append, "cancelled")
    cancelled.cancel()
    loop.call_soon(order.append, "now")
    loop.call_at(0.15, order.append, "between")
    loop.call_later(0.3, loop.stop)

    loop.run_forever()

    assert order == ["now", "first", "second", "third", "between", "late"]
    assert loop.time() == 0.3


def test_asyncio_works_on_it() -> None:
    async def child(number: int) -> int:
        await asyncio.sleep(number)
        return number

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child(number)) for number in (3, 1, 2)]
        assert [task.result() for task in tasks] == [3, 1, 2]
        assert loop.time() == 3
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(100)
        assert loop.time() == 8
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 2)
        event = asyncio.Event()
        loop.call_later(1, event.set)
        await event.wait()
        assert loop.time() == 11
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        producer = asyncio.ensure_future(queue.put(7))
        assert await queue.get() == 7
        await producer

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


def test_work_for_a_thread_is_done_at_once() -> None:
    loop = VirtualTimeLoop()

    def fail() -> None:
        raise OSError("disk")

    async def main() -> None:
        worker = await loop.run_in_executor(None, threading.get_ident)
        assert worker == threading.get_ident()
        with pytest.raises(OSError, match="disk"):
            await loop.run_in_executor(None, fail)
        assert await asyncio.to_thread(lambda: 7) == 7

    loop.run_until_complete(main())


def test_waiting_for_what_never_comes_is_an_error_not_a_hang() -> None:
    loop = VirtualTimeLoop()
    never = loop.create_future()

    with pytest.raises(StalledError, match="never come"):
        loop.run_until_complete(never)


def test_an_error_that_nobody_waits_for_ends_the_run() -> None:
    loop = VirtualTimeLoop()

    def fail() -> None:
        raise ValueError("hidden")

    async def main() -> None:
        loop.call_later(1, fail)
        await asyncio.sleep(10)

    with pytest.raises(SimulationFailedError) as caught:
        loop.run_until_complete(main())
    assert isinstance(caught.value.__cause__, ValueError)
    assert loop.time() == 1


def test_what_a_failed_run_leaves_in_the_middle_ends_with_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = VirtualTimeLoop()
    complaints: list[object] = []
    ended: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    def fail() -> None:
        raise ValueError("hidden")

    async def other() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            loop.call_later(1, print)
            ended.append("other")
            raise OSError("nobody listens any more")

    async def main() -> None:
        waiting = loop.create_task(other())
        loop.call_later(1, fail)
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.wait([waiting])
            ended.append("unreachable")

    with pytest.raises(SimulationFailedError):
        loop.run_until_complete(main())
    loop.close()
    gc.collect()

    assert ended == ["other"]
    assert complaints == []


@pytest.mark.parametrize(
    "reach",
    [
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.add_writer(0, print),
        lambda loop: loop.run_until_complete(asyncio.open_connection("127.0.0.1", 9)),
        lambda loop: loop.run_until_complete(asyncio.start_server(lambda *_: None, "127.0.0.1", 0)),
        lambda loop: loop.sock_recv(None, 1),
        lambda loop: loop.getaddrinfo("localhost", 80),
        lambda loop: loop.run_until_complete(asyncio.create_subprocess_exec("true")),
        lambda loop: loop.add_signal_handler(2, print),
    ],
)
def test_the_real_world_is_refused(reach: Callable[[VirtualTimeLoop], object]) -> None:
    with pytest.raises(RealInputOutputError, match="virtual time"):
        reach(VirtualTimeLoop())


def test_another_thread_is_refused() -> None:
    loop = VirtualTimeLoop()
    caught: list[BaseException] = []

    def intrude() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except RealInputOutputError as error:
            caught.append(error)

    async def main() -> None:
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()

    loop.run_until_complete(main())
    assert len(caught) == 1


def test_the_clock_moves_with_the_loop() -> None:
    loop = VirtualTimeLoop()
    clock = VirtualClock(loop)
    assert (clock.now_ms(), clock.monotonic_ms()) == (START_MS, 0)

    loop.run_until_complete(asyncio.sleep(1.5))

    assert (clock.now_ms(), clock.monotonic_ms()) == (START_MS + 1500, 1500)


def test_a_closed_loop_takes_nothing() -> None:
    loop = VirtualTimeLoop()
    loop.close()
    assert loop.is_closed()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)


def test_a_clock_may_be_set_but_elapsed_time_stays_true() -> None:
    clock = VirtualClock(VirtualTimeLoop())
    clock.skew_ms = -5000
    assert (clock.now_ms(), clock.monotonic_ms()) == (START_MS - 5000, 0)


def test_what_belongs_to_a_stalled_owner_waits_and_the_rest_goes_on() -> None:
    loop = VirtualTimeLoop()
    seen: list[tuple[str, float]] = []

    async def count(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append((name, loop.time()))

    async def main() -> None:
        tasks = [loop.create_task(count(name), context=owned_by(name)) for name in ("one", "two")]
        await asyncio.sleep(0.5)
        loop.stall("one")
        assert loop.is_stalled("one")
        await asyncio.sleep(4)
        loop.resume("one")
        await asyncio.gather(*tasks)

    loop.run_until_complete(main())
    assert seen == [("two", 1), ("two", 2), ("two", 3), ("one", 4.5), ("one", 5.5), ("one", 6.5)]
