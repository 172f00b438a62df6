"""The ways out of a connection.

`SocketChannel` writes to the transport's own socket, past the transport. `TransportChannel` writes through the transport, where
there is no plain socket, as in memory. `TlsChannel` encrypts and writes to either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tidelog.model.slow_work import SlowWork
from tidelog.net.parts import WOULD_BLOCK, Bytes, Channel
from tidelog.net.socket_channel import SocketChannel

# What a transport that brings a channel of its own has it under in its `get_extra_info`.
OWN_CHANNEL = "tidelog.channel"


class WatchedChannel(Channel, Protocol):
    """A channel that says when it takes bytes again."""

    def watch(self, writable: Callable[[], None]) -> None:
        """Calls `writable` from the loop once bytes would be taken. Asked again after each call that did not suffice."""
        ...

    def unwatch(self) -> None: ...

    def pause(self) -> None:
        """The transport has bytes that wait for the socket."""
        ...

    def resume(self) -> None:
        """The transport has sent them."""
        ...

    def is_broken(self) -> bool:
        """Whether the peer has reset the connection, as far as can be known without reading or writing."""
        ...

    def half_close(self) -> None:
        """Tells the peer that nothing more will come, behind what was sent."""
        ...

    def close(self) -> None: ...


class TransportChannel:
    """Writes through a transport. The protocol passes `pause_writing` and `resume_writing` on to it."""

    __slots__ = ("_loop", "_transport", "_writable", "is_held", "sends_files")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.WriteTransport) -> None:
        self._loop = loop
        self._transport = transport
        self.is_held = False
        self._writable: Callable[[], None] | None = None
        self.sends_files = False

    def send(self, data: Bytes, *, more_follows: bool) -> int:  # noqa: ARG002 - the transport gathers on its own
        if self.is_held:
            return WOULD_BLOCK
        self._transport.write(data)
        return len(data)

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        raise NotImplementedError("this channel does not send files")

    def pause(self) -> None:
        self.is_held = True

    def resume(self) -> None:
        self.is_held = False
        if self._writable is not None:
            self._loop.call_soon(self._tell)

    def watch(self, writable: Callable[[], None]) -> None:
        self._writable = writable
        if not self.is_held:
            self._loop.call_soon(self._tell)

    def unwatch(self) -> None:
        self._writable = None

    def is_broken(self) -> bool:
        return False

    def half_close(self) -> None:
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        self.unwatch()

    def _tell(self) -> None:
        if self._writable is not None and not self.is_held:
            self._writable()


def open_channel(
    loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, slow_work: SlowWork | None = None
) -> WatchedChannel:
    """The best way out that a transport allows."""
    own: WatchedChannel | None = transport.get_extra_info(OWN_CHANNEL)
    if own is not None:
        return own
    if transport.get_extra_info("socket") is None or transport.get_extra_info("sslcontext") is not None:
        return TransportChannel(loop, transport)
    return SocketChannel(loop, transport, slow_work)
