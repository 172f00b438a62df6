"""How a call of a consumer waits: for news, for a time, for another thread that wakes it, and not for ever for a cluster that is
not there."""

from __future__ import annotations

import asyncio
import math

from tidelog.client.connections import Connections
from tidelog.client.consumer.errors import WakeupError
from tidelog.client.errors import TimedOutError


class PollWaiting:
    """Of one consumer, of which one call at a time waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: Connections, gives_up_after_ms: int) -> None:
        self._loop = loop
        self._connections = connections
        self._gives_up_after_ms = gives_up_after_ms
        self._waiter: asyncio.Future[None] | None = None
        self._has_news = False
        self._was_woken = False
        # Set by the first poll, as long as no node has answered.
        self._gives_up_s: float | None = None

    @property
    def was_woken(self) -> bool:
        return self._was_woken

    def news(self) -> None:
        """Something that a waiting call may act on."""
        self._has_news = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def begin_round(self) -> None:
        """What is news from now on is waited for no more."""
        self._has_news = False

    async def wait(self, deadline_s: float) -> None:
        """Until there is news, or the time is over."""
        if self._has_news:
            return
        self._waiter = self._loop.create_future()
        timer = self._loop.call_at(deadline_s, self.news)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def wake_up(self) -> None:
        self._was_woken = True
        self.news()

    def raise_if_woken(self) -> None:
        if self._was_woken:
            self._was_woken = False
            raise WakeupError("the consumer was woken up")

    def gives_up_s(self) -> float:
        """When polls give up on bootstrap servers of which none has answered: after `default_api_timeout_ms`, with TimedOutError,
        and again after as long. A node that was reached once and is gone is waited for instead."""
        if self._connections.reachability.was_reached:
            return math.inf
        now_s = self._loop.time()
        limit_ms = self._gives_up_after_ms
        if self._gives_up_s is None:
            self._gives_up_s = now_s + limit_ms / 1000
        if now_s >= self._gives_up_s:
            self._gives_up_s = None
            reason = self._connections.because(None)
            raise TimedOutError(f"the cluster was not found within the {limit_ms} ms of default_api_timeout_ms{reason}")
        return self._gives_up_s
