"""An event loop on virtual time: when nothing is left to do, the time jumps to the next timer.

    loop = VirtualTimeLoop()
    loop.run_until_complete(main())          # an hour of time-outs in a moment, and the same order every time

Callbacks run in the order in which they were asked for, timers in the order of their time and then of asking. Nothing here
depends on the machine: no clock, no selector, no thread. Real I/O is refused with `RealInputOutputError`; `run_in_executor` runs
its work at once. Whatever escapes from a callback or an unobserved task ends the run: a simulation that hides an error proves
nothing.

    loop.stall("node-1")                     # as SIGSTOP: what belongs to that owner waits until `resume`
    loop.create_task(main(), context=owned_by("node-1"))

Whatever is asked for in an owner's context belongs to that owner, and so does all that comes of it.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import threading
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from tidelog.model.ids import TimestampMs

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# 2024-01-01T00:00:00Z: any fixed moment would do, but timestamps near 0 hide mistakes of sign and unit.
START_MS = 1_704_067_200_000


# How often a coroutine may wait for something while it is closed, or others be begun: a clean-up that goes on and on must not
# hold anybody up.
CLOSINGS_MAX = 10


OWNER: contextvars.ContextVar[str] = contextvars.ContextVar("owner")


def owned_by(owner: str) -> contextvars.Context:
    """A context whose callbacks and tasks belong to an owner, who can be stalled."""
    context = contextvars.copy_context()
    context.run(OWNER.set, owner)
    return context


class RealInputOutputError(RuntimeError):
    """Something tried to reach the real world from virtual time."""


class StalledError(RuntimeError):
    """Nothing is left to run and no timer is set: what is awaited can never come."""


class SimulationFailedError(RuntimeError):
    """A callback raised, or a task failed that nobody waited for. The cause is attached."""


def _refusing(name: str) -> Any:  # it stands in for methods of every signature
    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        raise RealInputOutputError(f"{name} reaches the real world, and this loop runs on virtual time")

    return refuse


def _close(coroutine: Generator[Any, Any, Any] | Coroutine[Any, Any, Any] | None) -> None:
    """Close a coroutine and ignore its errors, since the run has failed already. One that awaits something while it closes is
    closed again.
    """
    for _ in range(CLOSINGS_MAX):
        with suppress(Exception):
            if coroutine is not None:
                coroutine.close()
            return


class VirtualTimeLoop(events.AbstractEventLoop):
    """A deterministic asyncio loop. `time` starts at 0 and moves only by timers."""

    def __init__(self) -> None:
        self._time_ns = 0
        self._ready: deque[asyncio.Handle] = deque()
        # (when, order of asking, timer): ties are first come, first served.
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._timer_number = 0
        self._stopping = False
        self._closed = False
        self._thread_id: int | None = None
        self._debug = False
        self._failure: BaseException | None = None
        self._task_factory: Callable[..., asyncio.Future[Any]] | None = None
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._stalled: dict[str, list[asyncio.Handle]] = {}
        self.callbacks_run = 0

    # Stalls.

    def stall(self, owner: str) -> None:
        """Run nothing of an owner until it resumes. Its timers pass meanwhile, and go off then."""
        self._stalled.setdefault(owner, [])

    def resume(self, owner: str) -> None:
        """What has become due meanwhile runs now, in its order."""
        self._ready.extend(self._stalled.pop(owner, ()))

    def is_stalled(self, owner: str) -> bool:
        return owner in self._stalled

    # Time.

    def time(self) -> float:
        return self._time_ns / 1e9

    @property
    def time_ms(self) -> int:
        return self._time_ns // 1_000_000

    # Running.

    def run_forever(self) -> None:
        self._check_open()
        if self.is_running():
            raise RuntimeError("This event loop is already running")
        if events._get_running_loop() is not None:  # noqa: SLF001 - how a loop makes itself known
            raise RuntimeError("Cannot run the event loop while another loop is running")
        self._thread_id = threading.get_ident()
        events._set_running_loop(self)  # noqa: SLF001
        try:
            while True:
                self._run_once()
                if self._failure is not None:
                    failure, self._failure = self._failure, None
                    raise SimulationFailedError("something failed where nobody was waiting for it") from failure
                if self._stopping:
                    break
        finally:
            self._stopping = False
            self._thread_id = None
            events._set_running_loop(None)  # noqa: SLF001

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        self._check_open()
        is_own = not asyncio.isfuture(future)
        main: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        main.add_done_callback(self._stop_for)
        try:
            self.run_forever()
        except BaseException:
            if is_own and main.done() and not main.cancelled():
                # Already on its way to the caller as something else.
                main.exception()
            raise
        finally:
            main.remove_done_callback(self._stop_for)
        if not main.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return main.result()

    def _stop_for(self, _future: asyncio.Future[Any]) -> None:
        self.stop()

    def _run_once(self) -> None:
        if not self._ready:
            self._advance()
        # Only what is ready now: what these ask for comes after the timers that are due.
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled() and not (self._stalled and self._holds(handle)):
                self.callbacks_run += 1
                handle._run()  # noqa: SLF001 - every loop but asyncio's own has to

    def _holds(self, handle: asyncio.Handle) -> bool:
        context: contextvars.Context = handle._context  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else tells it
        held = self._stalled.get(context.get(OWNER, ""))
        if held is None:
            return False
        held.append(handle)
        return True

    def _advance(self) -> None:
        """Jumps to the next timer and makes everything ready that is due then."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            if self._stopping:
                return
            raise StalledError("nothing is left to run: what is being waited for will never come")
        self._time_ns = max(self._time_ns, timers[0][0])
        while timers and timers[0][0] <= self._time_ns:
            self._ready.append(heapq.heappop(timers)[2])

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._thread_id is not None

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self.is_running():
            raise RuntimeError("Cannot close a running event loop")
        if not self._closed:
            self._end_tasks()
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def _end_tasks(self) -> None:
        """End what a run that failed has left in the middle. Else the collector does, whenever it comes: each of them cleans up
        behind itself, finds its loop closed, and complains to whatever runs by then.
        """
        outer = events._get_running_loop()  # noqa: SLF001
        events._set_running_loop(self)  # noqa: SLF001
        ended: set[asyncio.Task[Any]] = set()
        try:
            # A clean-up may begin others.
            for _ in range(CLOSINGS_MAX):
                left = asyncio.all_tasks(self) - ended
                for task in left:
                    _close(task.get_coro())
                ended |= left
        finally:
            events._set_running_loop(outer)  # noqa: SLF001

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: generators are left to the collector, as the loop holds none."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the signature is given
        """Nothing to do: there is no executor."""

    # Callbacks.

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._thread_id not in {None, threading.get_ident()}:
            raise RealInputOutputError(
                "a thread of its own has no place on virtual time: its order is not reproducible"
            )
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._call_at_ns(self._time_ns + round(max(0.0, delay) * 1e9), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        when_ns = max(self._time_ns, round(when * 1e9))
        # Never a fraction too early: whoever compares the time with `when` would find nothing due, and ask again, for ever.
        while when_ns / 1e9 < when:
            when_ns += 1
        return self._call_at_ns(when_ns, callback, args, context)

    def _call_at_ns(
        self,
        when_ns: int,
        callback: Callable[[*Ts], object],
        args: tuple[*Ts],
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        self._check_open()
        timer = asyncio.TimerHandle(when_ns / 1e9, callback, args, self, context)
        self._timer_number += 1
        heapq.heappush(self._timers, (when_ns, self._timer_number, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    # Futures and tasks.

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        self._check_open()
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def set_task_factory(self, factory: Callable[..., asyncio.Future[Any]] | None) -> None:
        if factory is not None:
            raise NotImplementedError("tasks on virtual time are plain tasks")

    def get_task_factory(self) -> None:
        return None

    def run_in_executor(
        self,
        executor: object,  # noqa: ARG002 - whichever
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Runs it here and now: a thread would bring the machine's own timing back."""
        outcome: asyncio.Future[T] = self.create_future()
        try:
            outcome.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the outcome
            outcome.set_exception(error)
        return outcome

    # Errors.

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is not None:
            self._exception_handler(self, context)
            return
        self.default_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        if self._failure is None:
            error = context.get("exception")
            self._failure = error if isinstance(error, BaseException) else RuntimeError(str(context.get("message")))

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._exception_handler

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    # The real world.

    add_reader = _refusing("add_reader")
    remove_reader = _refusing("remove_reader")
    add_writer = _refusing("add_writer")
    remove_writer = _refusing("remove_writer")
    add_signal_handler = _refusing("add_signal_handler")
    remove_signal_handler = _refusing("remove_signal_handler")
    sock_recv = _refusing("sock_recv")
    sock_recv_into = _refusing("sock_recv_into")
    sock_recvfrom = _refusing("sock_recvfrom")
    sock_recvfrom_into = _refusing("sock_recvfrom_into")
    sock_sendall = _refusing("sock_sendall")
    sock_sendto = _refusing("sock_sendto")
    sock_connect = _refusing("sock_connect")
    sock_accept = _refusing("sock_accept")
    sock_sendfile = _refusing("sock_sendfile")
    getaddrinfo = _refusing("getaddrinfo")
    getnameinfo = _refusing("getnameinfo")
    create_connection = _refusing("create_connection")
    create_server = _refusing("create_server")
    create_unix_connection = _refusing("create_unix_connection")
    create_unix_server = _refusing("create_unix_server")
    create_datagram_endpoint = _refusing("create_datagram_endpoint")
    connect_accepted_socket = _refusing("connect_accepted_socket")
    connect_read_pipe = _refusing("connect_read_pipe")
    connect_write_pipe = _refusing("connect_write_pipe")
    sendfile = _refusing("sendfile")
    start_tls = _refusing("start_tls")
    subprocess_shell = _refusing("subprocess_shell")
    subprocess_exec = _refusing("subprocess_exec")
    set_default_executor = _refusing("set_default_executor")


class VirtualClock:
    """The node's clock, driven by the loop. Dates begin at `START_MS`."""

    def __init__(self, loop: VirtualTimeLoop, start_ms: int = START_MS) -> None:
        self._loop = loop
        self._start_ms = start_ms
        self.skew_ms = 0
        """How wrong the date is. It may change at any time, as if somebody set the clock; elapsed time stays true."""

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self._start_ms + self._loop.time_ms + self.skew_ms)

    def monotonic_ms(self) -> int:
        return self._loop.time_ms

    def monotonic_ns(self) -> int:
        return self._loop.time_ms * 1_000_000
