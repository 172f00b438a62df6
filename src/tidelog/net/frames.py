"""Splits the bytes of one connection into frames: a size (int32, big-endian), then that many bytes.

    while True:
        count = socket.recv_into(reader.buffer())
        reader.received(count)
        while (frame := reader.take()) is not None:
            ...                                        # valid until `settle`
        reader.settle()

No socket, no loop. A frame is a writable view of the buffer that it arrived in, never a copy. Only the start of a frame whose
end is still to come is moved, once. Memory follows what has arrived, not what a size announces.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from tidelog.kernel_choice import load

if TYPE_CHECKING:
    from tidelog.net.kernels.stream_kernel import FrameReader
else:
    FrameReader = load("tidelog.net.kernels", "stream_kernel").FrameReader

__all__ = ["SIZE", "FrameReader"]

SIZE = Struct(">i")
