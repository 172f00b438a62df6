# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The way out of a connection that has a plain socket: past the transport, so that files leave by `sendfile`.

While a socket takes nothing more, `WritableSockets` waits for it. Nothing is ever written through the transport, so nothing can
overtake what is written here.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.net import parts as _parts
from tidelog.net.file_warmth import FileWarmth
from tidelog.net.writable_sockets import writable_sockets

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
    from cython.cimports.cpython.exc import PyErr_SetFromErrno
    from cython.cimports.libc import errno
    from cython.cimports.tidelog.net.sys_socket import BufferView, c_send

if TYPE_CHECKING:
    from tidelog.model.slow_work import SlowWork
    from tidelog.net.parts import Bytes

_WOULD_BLOCK = _parts.WOULD_BLOCK

# Linux gathers what follows into the same packet; elsewhere each send is a packet, which is only slower.
_MORE_FOLLOWS: int = getattr(socket, "MSG_MORE", 0)


class SocketChannel:
    """Writes to the socket of a transport, through which nobody else writes.

    What of a file is not in memory is read ahead by `slow_work` before it is sent (`file_warmth`).
    """

    __slots__ = (
        "_descriptor",
        "_is_waited_for",
        "_sockets",
        "_transport",
        "_warmth",
        "_writable",
        "sends_files",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, slow_work: SlowWork | None = None
    ) -> None:
        # -1 once it is closed: its number may be another's by then.
        self._descriptor: int = transport.get_extra_info("socket").fileno()
        # Made with the first connection, not when a socket is full: by then there may be no descriptor left.
        self._sockets = writable_sockets(loop)
        self._is_waited_for = False
        self._transport: asyncio.Transport | None = transport
        self._writable: Callable[[], None] | None = None
        self._warmth = None if slow_work is None else FileWarmth(slow_work, self._warmed)
        self.sends_files = True

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        """How many bytes were taken, or WOULD_BLOCK."""
        return self._send(data, more_follows)

    def _send(self, data: Bytes, more_follows: bool) -> int:
        if cython.compiled:
            return _send_bytes(self._descriptor, data, _MORE_FOLLOWS if more_follows else 0)
        # Only a socket object takes flags. Without them a send is a packet of its own, which is only slower.
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return _WOULD_BLOCK

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        warmth = self._warmth
        if warmth is not None:
            count = warmth.count(descriptor, position, count)
            if not count:
                self._stop_waiting()
                return _WOULD_BLOCK
        try:
            return os.sendfile(self._descriptor, descriptor, position, count)
        except BlockingIOError:
            return _WOULD_BLOCK

    def pause(self) -> None:
        """Nothing is written through the transport, so it is never behind."""

    def resume(self) -> None:
        """As `pause`."""

    def watch(self, writable: Callable[[], None]) -> None:
        self._writable = writable
        # The socket may well take bytes while a file is read, only there are none: to wait for it would spin.
        is_warming = self._warmth is not None and self._warmth.is_reading
        if not self._is_waited_for and not is_warming and self._descriptor >= 0:
            self._sockets.watch(self._descriptor, self._tell)
            self._is_waited_for = True

    def unwatch(self) -> None:
        self._writable = None
        self._stop_waiting()

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
        if self._writable is not None:
            self._writable()

    def _stop_waiting(self) -> None:
        if self._is_waited_for:
            self._is_waited_for = False
            self._sockets.unwatch(self._descriptor)

    def _warmed(self) -> None:
        if self._writable is not None:
            self.watch(self._writable)


def _send_bytes(descriptor: int, data: Bytes, flags: int) -> int:
    """`send(2)` with the interpreter's lock: the socket does not wait, and to release it would cost as much as all the rest."""
    view = cython.declare(BufferView)
    failure: int = errno.EINTR
    PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
    sent: int = -1
    while sent < 0 and failure == errno.EINTR:
        sent = c_send(descriptor, view.buf, view.len, flags)
        failure = errno.errno
    PyBuffer_Release(cython.address(view))
    if sent >= 0:
        return sent
    if failure == errno.EAGAIN:
        return _WOULD_BLOCK
    errno.errno = failure
    PyErr_SetFromErrno(OSError)
    return -2
