"""The hand-over of slow work: an fsync, the removal of a large file, a read that misses the page cache.

The data path never waits for the disk. What must wait is submitted here; `then` receives the outcome. The real one runs
work on threads; the simulator's, and most tests', run it at once on the caller's own stack.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class SlowWork(Protocol):
    """Runs `work` away from the data path. `then` gets what it returned, or the exception that it raised."""

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None: ...


class InlineSlowWork:
    """Runs everything at once, in order: deterministic, and right where nothing else could run meanwhile.

    Without a `then` there is nobody to tell of a failure, so it is raised to the submitter.
    """

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None:
        if then is None:
            work()
            return
        try:
            outcome: T | BaseException = work()
        except Exception as error:  # noqa: BLE001 - the outcome, whatever it is, belongs to `then`
            outcome = error
        then(outcome)


class ThreadSlowWork:
    """Runs work on a few threads. `then` is called through `deliver`, which brings it back to the owner's thread.

    An event loop passes its `call_soon_threadsafe`. `close` waits for all that was submitted.
    """

    # Begun only as they are needed. A journalling file system commits together what several threads force to disk at once, until
    # there are enough of them: on ext4 (a virtual disk, 2 cores, 256 files that each got 4 KB) it takes 0.39 ms a file with one
    # thread, 0.17 with 4, 0.13 with 8, 0.14 with 16 and 0.15 to 0.25 with 32.
    THREADS_MAX = 8

    def __init__(self, deliver: Callable[[Callable[[], None]], object]) -> None:
        self._deliver = deliver
        self._threads = ThreadPoolExecutor(self.THREADS_MAX, thread_name_prefix="tidelog-slow-work")

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None:
        self._threads.submit(self._run, work, then)

    def _run(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None) -> None:
        try:
            outcome: T | BaseException = work()
        except BaseException as error:  # noqa: BLE001 - a thread has no caller to raise to; the owner's thread decides
            if then is None:
                self._deliver(_raiser(error))
                return
            outcome = error
        if then is not None:
            answer = then
            self._deliver(lambda: answer(outcome))

    def close(self) -> None:
        self._threads.shutdown(wait=True)


def _raiser(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it
