# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Keeps connections that send many requests at once from holding up the others: a budget for each round of the event loop.

A round is one look at all sockets. Whoever has sent a single request is answered in it, whatever else goes on. What several
requests of one connection take is counted, in time and in requests, and so are large answers; once the round's budget is spent,
connections with more than one request are put off: what has arrived is put aside, nothing more is read from them (the peer's
sends block in the end), and they join one queue. After the sockets have been looked at, the queue gets a budget of its own:

    sockets      single requests, and several while the budget lasts        one write for each connection at its end
    queue        a slice of the first connection, of the second, ...        one write for each connection at its end
    sockets      ...

A slice is a few requests, or a piece of a large answer; who has more goes to the end of the queue. A connection reads again when
everything that was put aside has been taken. One that cannot take more answers (`ConnectionLimits`) is not in the queue: it waits
for its peer to read, and then comes through here.

The budget is never asked between `frame` and `frames_done` of the same read but for cutting it: what was taken before the cut is
finished with it, while its bytes are still there. Requests of one connection stay in order, and so do their answers.

What was put aside on a connection that is reset meanwhile, or to which a write fails, is dropped. After an orderly close it is
all handled: the end is only read behind it.

Connections that never wait (`is_exempt`): those to other nodes, those of a controller's listener, those of followers that fetch.
Time is the caller's clock. In a simulation it stands still during a round, so the number of requests alone decides.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.net.turn import Turn

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.posix.time import CLOCK_MONOTONIC, clock_gettime, timespec

if TYPE_CHECKING:
    from tidelog.net.limits import BacklogLimits

log = logging.getLogger(__name__)

# So many requests, each a sixteenth of a round at most so far, may pass until the clock is looked at again.
_STRIDE_MAX = 8


class Waiting:
    """A connection, as far as the backlog is concerned."""

    __slots__ = ("_is_queued",)

    def __init__(self) -> None:
        # It has a place in the backlog.
        self._is_queued = False

    def _proceed(self) -> None:
        """A slice of the round: sends some of what is to be sent, and takes some of what has arrived."""
        raise NotImplementedError

    def abort(self, error: BaseException | None = None) -> None:
        """Ends the connection now. What was not sent is lost."""
        raise NotImplementedError


class Backlog:
    """One for all connections of an event loop."""

    __slots__ = (
        "_bytes_max",
        "_clock_ns",
        "_elapsed_max_ns",
        "_elapsed_ns",
        "_is_scheduled",
        "_loop",
        "_queue",
        "_requests",
        "_requests_max",
        "_slice_requests_max",
        "_stride",
        "_turn",
        "held_bytes",
        "is_full",
        "is_spent",
        "little_bytes",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, turn: Turn, now_ns: Callable[[], int], limits: BacklogLimits
    ) -> None:
        self._loop = loop
        self._turn = turn
        # Asked after every one of many requests: the system's own clock without a call of Python's.
        self._clock_ns = None if now_ns is time.monotonic_ns else now_ns
        self._requests_max = limits.round_requests_max
        self._elapsed_max_ns = limits.round_us_max * 1000
        self._slice_requests_max = limits.slice_requests_max
        self._bytes_max = limits.bytes_max
        self.little_bytes = limits.little_read_bytes
        self._queue: deque[Waiting] = deque()
        self._is_scheduled = False
        # What connections with more than one request have used since the round began.
        self._requests = 0
        self._elapsed_ns = 0
        # After so many requests the clock is looked at: fewer where they take long.
        self._stride = 1
        self.is_spent = False
        """Whether whoever has more than one request is to wait for a later round."""
        self.held_bytes = 0
        """What has arrived on the connections that wait."""
        self.is_full = False
        """Whether no more of it than needs be is to be read."""

    def __len__(self) -> int:
        return len(self._queue)

    def _now_ns(self) -> int:
        clock_ns = self._clock_ns
        if clock_ns is not None:
            return clock_ns()
        if cython.compiled:
            now = cython.declare(timespec)
            clock_gettime(CLOCK_MONOTONIC, cython.address(now))
            return now.tv_sec * 1_000_000_000 + now.tv_nsec  # type: ignore[no-any-return]
        return time.monotonic_ns()

    def _add(self, connection: Waiting) -> None:
        if not connection._is_queued:  # noqa: SLF001 - a connection's place is a part of it
            connection._is_queued = True  # noqa: SLF001
            self._queue.append(connection)
            self._schedule()

    def hold(self, added_bytes: int) -> None:
        """Counts what is held for a connection elsewhere: encrypted bytes, say."""
        self._hold(added_bytes)

    def _hold(self, added_bytes: int) -> None:
        self.held_bytes += added_bytes
        self.is_full = self.held_bytes >= self._bytes_max

    def _charge(self, requests: int, elapsed_ns: int) -> None:
        self._requests += requests
        self._elapsed_ns += elapsed_ns
        # To ask the clock after each of many small requests would take a tenth of their time, where it is a system call.
        if elapsed_ns * 16 > self._elapsed_max_ns:
            self._stride = 1
        elif elapsed_ns and self._stride < _STRIDE_MAX:
            self._stride *= 2
        if self._requests >= self._requests_max or self._elapsed_ns >= self._elapsed_max_ns:
            self.is_spent = True
        # A little may add up over several rounds: to note the end of each would cost more.
        if self._requests * 8 >= self._requests_max or self._elapsed_ns * 8 >= self._elapsed_max_ns:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._run_round()

    def _run_round(self) -> None:
        """The loop has looked at all sockets once: those that wait are next, then the sockets again."""
        self._begin_round()
        queue = self._queue
        turn = self._turn
        try:
            if queue:
                turn._begin()  # noqa: SLF001
                try:
                    while queue and not self.is_spent:
                        connection = queue.popleft()
                        connection._is_queued = False  # noqa: SLF001
                        try:
                            connection._proceed()  # noqa: SLF001
                        except Exception as error:
                            # Those behind it are not to be left out for it.
                            log.exception("%s: closed: what has arrived could not be handled", connection)
                            connection.abort(error)
                finally:
                    turn._end()  # noqa: SLF001
        finally:
            self._begin_round()
            self._is_scheduled = False
            if queue:
                self._schedule()

    def _begin_round(self) -> None:
        self._requests = 0
        self._elapsed_ns = 0
        self.is_spent = False
