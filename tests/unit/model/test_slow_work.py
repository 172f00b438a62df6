from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from tidelog.model.slow_work import InlineSlowWork, ThreadSlowWork


def test_inline_work_is_done_when_submit_returns() -> None:
    outcomes: list[object] = []

    InlineSlowWork().submit(lambda: 7, outcomes.append)

    assert outcomes == [7]


def test_inline_failure_reaches_then_or_the_submitter() -> None:
    outcomes: list[object] = []

    InlineSlowWork().submit(_fail, outcomes.append)

    assert isinstance(outcomes[0], OSError)
    with pytest.raises(OSError, match="disk"):
        InlineSlowWork().submit(_fail)


def test_threads_bring_the_outcome_back_to_the_owner() -> None:
    deliveries: queue.Queue[Callable[[], None]] = queue.Queue()
    work = ThreadSlowWork(deliveries.put)
    owner, worker, outcomes = threading.get_ident(), [], []
    try:
        work.submit(lambda: worker.append(threading.get_ident()), lambda _: outcomes.append(threading.get_ident()))
        deliveries.get(timeout=10)()
    finally:
        work.close()

    assert worker != [owner]
    assert outcomes == [owner]


def test_a_failure_nobody_waits_for_is_raised_on_the_owners_thread() -> None:
    deliveries: queue.Queue[Callable[[], None]] = queue.Queue()
    work = ThreadSlowWork(deliveries.put)
    try:
        work.submit(_fail)
        with pytest.raises(OSError, match="disk"):
            deliveries.get(timeout=10)()
    finally:
        work.close()


def test_close_waits_for_what_was_submitted() -> None:
    deliveries: queue.Queue[Callable[[], None]] = queue.Queue()
    work = ThreadSlowWork(deliveries.put)
    for number in range(20):
        work.submit(lambda n=number: n, lambda _: None)  # type: ignore[misc]

    work.close()

    assert deliveries.qsize() == 20


def _fail() -> int:
    raise OSError("disk")
