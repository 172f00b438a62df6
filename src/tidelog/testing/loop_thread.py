"""An event loop on a thread of its own, where an embedded cluster lives: a test that blocks does not stop it.

thread = LoopThread.start()
thread.call(coroutine)        from any other thread: its result, or what it raised
thread.end()
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from tidelog.broker.node.hosting import new_event_loop
from tidelog.testing.errors import ClusterError

T = TypeVar("T")

# A start or stop that takes this long will never end; a test should fail then, not hang.
TIMEOUT_S = 30.0


class LoopThread:
    """One loop, one thread."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tidelog-node", daemon=True)

    @classmethod
    def start(cls) -> Self:
        made = cls()
        made._thread.start()
        return made

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float = TIMEOUT_S) -> T:
        """Run a coroutine on the loop. ClusterError where it does not end in time."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if not future.done():
                future.cancel()
                raise ClusterError(f"the embedded cluster did nothing for {timeout_s:g} s") from None
            raise

    def end(self) -> None:
        """Nothing runs any more on return."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(TIMEOUT_S)
        if not self._thread.is_alive():
            self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
