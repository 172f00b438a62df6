"""The two ways out of a connection.

`SocketChannel` writes to the transport's own socket, past the transport, so that files leave by `sendfile`. `TransportChannel`
writes through the transport, where there is no plain socket: in memory, or under TLS.

Neither uvloop nor asyncio lets anyone else wait for a transport's descriptor, and a duplicate of it would make every connection
cost two. So where the socket takes nothing, `SocketChannel` hands the next few bytes to the transport: that waits for the socket,
sends them, and says when they have left (`resume_writing`). Until then nothing else is written, so nothing overtakes them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidelog.kernel_choice import load
from tidelog.model.slow_work import SlowWork
from tidelog.net.output_queue import WOULD_BLOCK, Bytes, Channel

if TYPE_CHECKING:
    from tidelog.net.kernels.stream_kernel import SocketSender
else:
    SocketSender = load("tidelog.net.kernels", "stream_kernel").SocketSender

# Reads only what is in memory already, or fails; Linux. Where it is missing, a read of a cold file is waited for.
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)

_ONE_BYTE = [bytearray(1)]

# What a thread brings into memory in one go before the sending goes on.
WARMED_BYTES_MAX = 1024 * 1024

# What the transport is given to wait with. It is copied, so it is little.
HANDED_OVER_BYTES_MAX = 16 * 1024


class WatchedChannel(Channel, Protocol):
    """A channel that says when it takes bytes again."""

    is_held: bool
    """Whether the transport has bytes that wait for the socket."""

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


class SocketChannel(SocketSender):
    """Writes to the socket of a transport, through which nobody else writes.

    A file whose bytes are not in memory would hold up every connection of the loop while the disk is read. So the first and
    last byte of a region are looked at first, without waiting; if they are cold, `slow_work` reads the region ahead.
    """

    __slots__ = ("_loop", "_slow_work", "_transport", "_warm_end", "_warm_file", "_warming", "_writable", "sends_files")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, slow_work: SlowWork | None = None
    ) -> None:
        super().__init__(transport.get_extra_info("socket").fileno())
        # However little waits in the transport, we are told when it has left.
        transport.set_write_buffer_limits(high=0)
        self._loop = loop
        self._transport: asyncio.Transport | None = transport
        self._slow_work = slow_work
        self._writable: Callable[[], None] | None = None
        self._warming = False
        # What was found or made warm, up to which byte, so that each region is looked at once.
        self._warm_file = -1
        self._warm_end = 0
        self.sends_files = True

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        if self.is_held:
            return WOULD_BLOCK
        if (descriptor != self._warm_file or position + count > self._warm_end) and self._slow_work is not None:
            count = self._warm_count(self._slow_work, descriptor, position, count)
            if not count:
                return WOULD_BLOCK
        try:
            return os.sendfile(self._descriptor, descriptor, position, count)
        except BlockingIOError:
            return self.hand_over(os.pread(descriptor, min(count, HANDED_OVER_BYTES_MAX), position))

    def hand_over(self, data: Bytes) -> int:
        transport = self._transport
        if self.is_held or transport is None:
            return WOULD_BLOCK
        taken = bytes(memoryview(data)[:HANDED_OVER_BYTES_MAX])
        transport.write(taken)
        self.is_held = transport.get_write_buffer_size() > 0
        return len(taken)

    def pause(self) -> None: ...

    def resume(self) -> None:
        self.is_held = False
        if self._writable is not None:
            self.watch(self._writable)

    def watch(self, writable: Callable[[], None]) -> None:
        self._writable = writable
        if not self.is_held and not self._warming:
            self._loop.call_soon(self._tell)

    def unwatch(self) -> None:
        self._writable = None

    def is_broken(self) -> bool:
        transport = self._transport
        if transport is None:
            return True
        return bool(transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def half_close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        self.unwatch()
        self._descriptor = -1
        self._transport = None

    def _tell(self) -> None:
        if self._writable is not None and not self.is_held and not self._warming:
            self._writable()

    def _warm_count(self, slow_work: SlowWork, descriptor: int, position: int, count: int) -> int:
        """How much of the region can be sent without waiting for the disk. 0: it is being read now."""
        if self._warming:
            return 0
        if self._warm_file == descriptor and position < self._warm_end:
            return min(count, self._warm_end - position)
        if _is_warm(descriptor, position) and _is_warm(descriptor, position + count - 1):
            self._warm_file, self._warm_end = descriptor, position + count
            return count
        self._warming = True
        # Whoever asks meanwhile is to be told to wait.
        self._warm_file = -1
        count = min(count, WARMED_BYTES_MAX)
        # A duplicate, because the region may be dropped, and its file closed, while the thread reads.
        duplicate = os.dup(descriptor)
        slow_work.submit(
            lambda: _read_ahead(duplicate, position, count), lambda _outcome: self._warmed(descriptor, position + count)
        )
        return 0

    def _warmed(self, descriptor: int, end: int) -> None:
        """The region is in memory, or could not be read, which `sendfile` will find out and say."""
        self._warming = False
        self._warm_file, self._warm_end = descriptor, end
        if self._writable is not None:
            self.watch(self._writable)


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
) -> SocketChannel | TransportChannel:
    """The better way out that a transport allows."""
    if transport.get_extra_info("socket") is None or transport.get_extra_info("sslcontext") is not None:
        return TransportChannel(loop, transport)
    return SocketChannel(loop, transport, slow_work)


def _is_warm(descriptor: int, position: int) -> bool:
    """Whether a byte can be read without waiting for the disk."""
    if _NO_WAIT is None:
        return True
    try:
        os.preadv(descriptor, _ONE_BYTE, position, _NO_WAIT)
    except BlockingIOError:
        return False
    except OSError:
        # The file system cannot tell, as memory-backed ones cannot.
        return True
    return True


def _read_ahead(duplicate: int, position: int, count: int) -> None:
    try:
        buffer = bytearray(min(count, 128 * 1024))
        end = position + count
        while position < end:
            read = os.preadv(duplicate, [memoryview(buffer)[: end - position]], position)
            if not read:
                return
            position += read
    finally:
        os.close(duplicate)
