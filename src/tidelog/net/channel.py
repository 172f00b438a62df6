"""The two ways out of a connection.

`SocketChannel` writes to a duplicate of the transport's socket, so that files leave by `sendfile`: neither uvloop nor asyncio
lets anyone else wait for the transport's own descriptor. Nothing may be written through the transport then. `TransportChannel`
writes through the transport, where there is no plain socket: in memory, or under TLS.
"""

from __future__ import annotations

import asyncio
import errno
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


class WatchedChannel(Channel, Protocol):
    """A channel that says when it takes bytes again."""

    def watch(self, writable: Callable[[], None]) -> None:
        """Calls `writable` from the loop once bytes would be taken. Asked again after each call that did not suffice."""
        ...

    def unwatch(self) -> None: ...

    def half_close(self) -> None:
        """Tells the peer that nothing more will come, behind what was sent."""
        ...

    def close(self) -> None: ...


class SocketChannel(SocketSender):
    """Writes to a socket that it owns, a duplicate of the transport's.

    A file whose bytes are not in memory would hold up every connection of the loop while the disk is read. So the first and
    last byte of a region are looked at first, without waiting; if they are cold, `slow_work` reads the region ahead.
    """

    __slots__ = (
        "_loop",
        "_slow_work",
        "_warm_end",
        "_warm_file",
        "_warming",
        "_watching",
        "_writable",
        "sends_files",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, slow_work: SlowWork | None = None) -> None:
        super().__init__(sock)
        self._loop = loop
        self._slow_work = slow_work
        self._writable: Callable[[], None] | None = None
        self._watching = False
        self._warming = False
        # What was found or made warm, up to which byte, so that each region is looked at once.
        self._warm_file = -1
        self._warm_end = 0
        self.sends_files = True

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        if (descriptor != self._warm_file or position + count > self._warm_end) and self._slow_work is not None:
            count = self._warm_count(self._slow_work, descriptor, position, count)
            if not count:
                return WOULD_BLOCK
        try:
            return os.sendfile(self._descriptor, descriptor, position, count)
        except BlockingIOError:
            return WOULD_BLOCK

    def watch(self, writable: Callable[[], None]) -> None:
        self._writable = writable
        if not self._watching and not self._warming:
            self._watching = True
            self._loop.add_writer(self._socket.fileno(), writable)

    def unwatch(self) -> None:
        self._writable = None
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._socket.fileno())

    def half_close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            # The peer was faster.
            if error.errno != errno.ENOTCONN:
                raise

    def close(self) -> None:
        self.unwatch()
        self._descriptor = -1
        self._socket.close()

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
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._socket.fileno())
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

    __slots__ = ("_loop", "_paused", "_transport", "_writable", "sends_files")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.WriteTransport) -> None:
        self._loop = loop
        self._transport = transport
        self._paused = False
        self._writable: Callable[[], None] | None = None
        self.sends_files = False

    def send(self, data: Bytes, *, more_follows: bool) -> int:  # noqa: ARG002 - the transport gathers on its own
        if self._paused:
            return WOULD_BLOCK
        self._transport.write(data)
        return len(data)

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        raise NotImplementedError("this channel does not send files")

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._writable is not None:
            self._loop.call_soon(self._tell)

    def watch(self, writable: Callable[[], None]) -> None:
        self._writable = writable
        if not self._paused:
            self._loop.call_soon(self._tell)

    def unwatch(self) -> None:
        self._writable = None

    def half_close(self) -> None:
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        self.unwatch()

    def _tell(self) -> None:
        if self._writable is not None and not self._paused:
            self._writable()


def open_channel(
    loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, slow_work: SlowWork | None = None
) -> SocketChannel | TransportChannel:
    """The better way out that a transport allows. OSError if there is no descriptor left for the duplicate."""
    sock = transport.get_extra_info("socket")
    if sock is None or transport.get_extra_info("sslcontext") is not None:
        return TransportChannel(loop, transport)
    duplicate = socket.socket(sock.family, sock.type, sock.proto, fileno=os.dup(sock.fileno()))
    duplicate.setblocking(False)
    return SocketChannel(loop, duplicate, slow_work)


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
