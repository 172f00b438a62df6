"""The event loop behind the blocking clients: one thread for all of them in a process.

    background = Background.acquire()
    background.call(client.close())         # runs a coroutine there, and waits for it
    background.release()

The thread starts with the first client and ends with the last. It is a daemon: a program that forgets to close a client still
ends. After a fork the child has no such thread; its first client gets a new one, and clients of the parent cannot be used there.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, ClassVar, TypeVar

from tidelog.client.errors import ClosedError, TimedOutError

T = TypeVar("T")

# To notice that the thread does not end. Every other wait has its own time-out.
_JOIN_TIMEOUT_S = 5.0


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop that there is."""
    try:
        import uvloop  # noqa: PLC0415 - not built for every interpreter
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Background:
    """A loop on a thread of its own, counted by those who use it."""

    _shared: ClassVar[Background | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self.process_id = os.getpid()
        self._users = 0
        self._thread = threading.Thread(target=self._run, name="tidelog-client", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> Background:
        """The process's own, started where there is none. Give it back with `release`."""
        with cls._lock:
            shared = cls._shared
            if shared is None or shared.process_id != os.getpid():
                shared = cls._shared = Background()
            shared._users += 1
            return shared

    def release(self) -> None:
        """The last one to release ends the thread."""
        with Background._lock:
            self._users -= 1
            if self._users > 0:
                return
            if Background._shared is self:
                Background._shared = None
        if self.process_id == os.getpid() and threading.current_thread() is not self._thread:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_JOIN_TIMEOUT_S)
            if not self._thread.is_alive():
                self.loop.close()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on this thread: it must not wait for itself."""
        return threading.current_thread() is self._thread

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its outcome. An interrupted wait cancels it."""
        if self.process_id != os.getpid():
            work.close()
            raise ClosedError("a client does not survive a fork: make a new one in the child")
        if self.is_here:
            work.close()
            raise RuntimeError("a blocking client cannot be waited for in its own callbacks: use the async one")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise TimedOutError(f"there was no outcome within {timeout_s:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            asyncio.set_event_loop(None)


def _forked() -> None:
    # A thread that is not in the child may have held the lock, and the loop is the parent's.
    Background._lock = threading.Lock()  # noqa: SLF001 - the class's own
    Background._shared = None  # noqa: SLF001


os.register_at_fork(after_in_child=_forked)
