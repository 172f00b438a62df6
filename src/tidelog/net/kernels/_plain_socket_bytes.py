"""Bytes into a socket, and the time, for the plain twin of `stream_kernel`.

`socket_bytes.pxd` is the same for the compiled one.
"""

from __future__ import annotations

import os
from time import monotonic_ns as system_ns

from tidelog.net.parts import WOULD_BLOCK, Bytes

__all__ = ["send_bytes", "system_ns"]


def send_bytes(descriptor: int, data: Bytes, flags: int) -> int:  # noqa: ARG001 - only a socket object takes flags
    """How many bytes were taken, or WOULD_BLOCK. Without its flags a send is a packet of its own, which is only slower."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return WOULD_BLOCK
