"""Bytes into a socket, for the plain twin of `stream_kernel`.

`socket_bytes.pxd` is the same for the compiled one, by the socket's descriptor and without Python's own way to it.
"""

from __future__ import annotations

import socket

from tidelog.net.parts import WOULD_BLOCK, Bytes


def send_bytes(sock: socket.socket, descriptor: int, data: Bytes, flags: int) -> int:  # noqa: ARG001 - see above
    """How many bytes were taken, or WOULD_BLOCK."""
    try:
        return sock.send(data, flags)
    except BlockingIOError:
        return WOULD_BLOCK
