"""A consumer for threads: its asynchronous core on the background loop, the application's callbacks on the thread that calls.

Every call runs on the loop while its thread waits. Meanwhile the loop may ask for a callback, which runs on the waiting thread
and may itself use the consumer.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

from tidelog.client.background import Background
from tidelog.client.closing import ClosedAtExit
from tidelog.client.consumer.errors import ConsumerStateError
from tidelog.client.errors import ClientError, ClosedError

T = TypeVar("T")

_Item = Callable[[], None] | None
CLOSE_TIMEOUT_MS = 30_000


class BlockingConsumer(ClosedAtExit):
    """What the blocking consumers have in common. One thread at a time may use one."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`start` makes the core, on the loop."""
        self._lock = threading.RLock()
        self._waits: list[SimpleQueue[_Item]] = []
        self._background = Background.acquire()
        self._is_closed = False
        try:
            self._run(start())
        except BaseException:
            self._background.release()
            self._is_closed = True
            raise

    def _close(self, closing: Coroutine[Any, Any, None]) -> None:
        """The end, whatever comes of `closing`."""
        try:
            if self._background.process_id == os.getpid():
                self._run(closing)
            else:
                closing.close()
        finally:
            self._is_closed = True
            self._background.release()

    @contextmanager
    def _acquired(self) -> Iterator[None]:
        if self._is_closed:
            raise ClosedError("the consumer is closed")
        if self._background.process_id != os.getpid():
            # What was fetched before the fork is the parent's to read.
            raise ClosedError("a client does not survive a fork: make a new one in the child")
        if not self._lock.acquire(blocking=False):
            raise ConsumerStateError("another thread is using the consumer; a consumer is for one thread at a time")
        try:
            yield
        finally:
            self._lock.release()

    def _call(self, work: Callable[[], T]) -> T:
        """Something that takes no time, done on the loop: nothing else changes what it changes."""

        async def called() -> T:
            return work()

        return self._run(called())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and whatever callbacks it asks for on this thread."""
        background = self._background
        if self._is_closed or background.process_id != os.getpid() or background.is_here:
            work.close()
            if background.is_here:
                raise RuntimeError("the consumer cannot be waited for in a callback of its own loop")
            raise ClosedError(
                "the consumer is closed"
                if self._is_closed
                else "a client does not survive a fork: make a new one in the child"
            )
        try:
            acquired = self._acquired()
            acquired.__enter__()
        except ClientError:
            work.close()
            raise
        try:
            return self._wait_for(work)
        finally:
            acquired.__exit__(None, None, None)

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        items: SimpleQueue[_Item] = SimpleQueue()
        self._waits.append(items)
        future = asyncio.run_coroutine_threadsafe(work, self._background.loop)
        future.add_done_callback(lambda _done: items.put(None))
        try:
            while True:
                callback = items.get()
                if callback is None:
                    return future.result()
                callback()
        except BaseException:
            future.cancel()
            raise
        finally:
            self._waits.remove(items)

    async def _run_callback(self, callback: Callable[[], object]) -> object:
        """On the loop: have the waiting thread run a callback of the application, and wait for it."""
        loop = self._background.loop
        outcome: asyncio.Future[object] = loop.create_future()

        def run() -> None:
            try:
                made = callback()
                if inspect.isawaitable(made):
                    made = self._run(_awaited(made))
            except Exception as error:  # noqa: BLE001 - anything that an application may raise
                loop.call_soon_threadsafe(_settle, outcome, None, error)
            else:
                loop.call_soon_threadsafe(_settle, outcome, made, None)

        self._waits[-1].put(run)
        return await outcome


async def _awaited(made: Awaitable[object]) -> object:
    return await made


def _settle(outcome: asyncio.Future[object], value: object, error: Exception | None) -> None:
    if outcome.done():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(value)
