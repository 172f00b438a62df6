"""Where a coroutine has to wait for what the node answers later: at its start and its stop, and nowhere between."""

from __future__ import annotations

import asyncio
from typing import Any

from tidelog.model.pending import Pending


async def wait(loop: asyncio.AbstractEventLoop, pending: Pending[Any], *, timeout_ms: float | None = None) -> None:
    """Until an answer is there, or the time is up."""
    done: asyncio.Future[None] = loop.create_future()

    def answered(_value: object) -> None:
        if not done.done():
            done.set_result(None)

    pending.then(answered)
    timer = None if timeout_ms is None else loop.call_later(timeout_ms / 1000, answered, None)
    try:
        await done
    finally:
        if timer is not None:
            timer.cancel()
