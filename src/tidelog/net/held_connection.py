"""A connection of an address that makes too many: accepted, not served, and closed after a while.

To close it at once would only make the peer try again at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class HeldConnection(asyncio.Protocol):
    """Reads nothing and says nothing."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, held_ms: float, on_closed: Callable[[HeldConnection], None]
    ) -> None:
        self._loop = loop
        self._held_ms = held_ms
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports behave like asyncio's without being of that class.
        self._transport = cast("asyncio.Transport", transport)
        if self._is_closed:
            self._transport.abort()
            return
        self._transport.pause_reading()
        self._timer = self._loop.call_later(self._held_ms / 1000, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._end()

    def abort(self) -> None:
        """Closes it now."""
        transport = self._transport
        self._end()
        if transport is not None:
            transport.abort()

    def _end(self) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_closed:
            self._is_closed = True
            self._on_closed(self)
