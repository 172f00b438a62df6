# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
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

from tidelog.model.bugs import BugError
from tidelog.net.errors import not_a_frame

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER

if TYPE_CHECKING:
    from tidelog.net.receive_buffers import ReceiveBuffers

SIZE = Struct(">i")

_int32_at = SIZE.unpack_from


class FrameReader:
    """The receiving side of one connection."""

    __slots__ = (
        "_buffers",
        "_end",
        "_frame_bytes_max",
        "_is_aside",
        "_own",
        "_start",
        "_taken_bytes",
        "_view",
        "_view_bytes",
        "_wanted_bytes",
    )

    def __init__(self, buffers: ReceiveBuffers, frame_bytes_max: int) -> None:
        self._buffers = buffers
        self._frame_bytes_max = frame_bytes_max
        self._view = buffers.shared
        self._view_bytes = len(buffers.shared)
        # The bytes from _start to _end of the view have arrived and were not taken. Without a buffer of our own there are none
        # between two reads, since other connections use the shared one.
        self._own: memoryview | None = None
        # Our own buffer is just as long as what was put aside, and not one of `buffers`.
        self._is_aside = False
        self._start = 0
        self._end = 0
        # Of the frame that was taken last, and of the one that is incomplete, with its size.
        self._taken_bytes = 0
        self._wanted_bytes = 0

    def limit(self, frame_bytes_max: int) -> None:
        """How large a frame may be, from the next one on."""
        self._frame_bytes_max = frame_bytes_max

    @property
    def pending_bytes(self) -> int:
        """How many bytes have arrived and were not taken."""
        return self._end - self._start

    @property
    def arrived_bytes(self) -> int:
        """How many bytes of the buffer are in use: those, and what was taken before them."""
        return self._end

    @property
    def held_bytes(self) -> int:
        """The size of the buffer that this connection keeps to itself."""
        return 0 if self._own is None else len(self._own)

    def buffer(self) -> memoryview:
        """Where the next bytes go, never empty. Asking twice does no harm."""
        return self._view if self._own is None else self._own[self._end :]

    def little_buffer(self, bytes_max: int) -> memoryview:
        """`buffer`, but hardly more than the frame that is incomplete: where memory for what comes behind it is short."""
        own = self._own
        if own is None:
            return self._view[:bytes_max]
        return own[self._end : max(self._wanted_bytes, self._end + bytes_max)]

    def received(self, count: int) -> bool:
        """`count` bytes have been put into what `buffer` returned. False: the frame that they belong to goes on after them, and
        there is nothing to take or settle."""
        end = self._end + count
        if count < 0 or end > self._view_bytes:
            # Everything behind this reads without looking whether it is still in the buffer.
            raise BugError(f"{count} bytes were read into a buffer that had room for {self._view_bytes - self._end}")
        self._end = end
        return self._own is None or self._end >= self._wanted_bytes

    def take(self) -> memoryview | None:
        """The next whole frame without its size, or None. FrameError for a size that no frame can have."""
        start = self._start
        available = self._end - start
        if available < 4:
            self._wanted_bytes = 4
            return None
        size = _size_at(self._view, start)
        if size < 0 or size > self._frame_bytes_max:
            raise not_a_frame(size, self._frame_bytes_max)
        if available < size + 4:
            self._wanted_bytes = size + 4
            return None
        self._taken_bytes = size
        end = self._start = start + 4 + size
        return self._view[start + 4 : end]

    def has_frame(self) -> bool:
        """Whether `take` would give a frame, or refuse its size."""
        available = self._end - self._start
        if available < 4:
            return False
        size = _size_at(self._view, self._start)
        return size < 0 or size > self._frame_bytes_max or available >= size + 4

    def has_several(self) -> bool:
        """Whether there is a whole frame, and something behind it."""
        available = self._end - self._start
        if available < 4:
            return False
        size = _size_at(self._view, self._start)
        return 0 <= size < available - 4

    def put_aside(self) -> None:
        """Ends a round of `take` that was cut short: what is left stays as it is for the next one, in no more memory than it
        needs. Nothing is read meanwhile; after the next round comes `settle`, or this again."""
        start = self._start
        left_bytes = self._end - start
        own = self._own
        if self._is_aside or (own is not None and left_bytes * 2 > len(own)):
            return
        copied = memoryview(bytearray(self._view[start : self._end]))
        if own is not None:
            self._let_go()
        self._own = self._view = copied
        self._view_bytes = left_bytes
        self._is_aside = True
        self._start = 0
        self._end = left_bytes

    def settle(self) -> None:
        """Ends a round of `take`: what is left is moved to where the next read continues it."""
        start = self._start
        end = self._end
        own = self._own
        self._start = 0
        if start == end:
            self._end = 0
            self._wanted_bytes = 4
            # A connection whose frames come in several reads keeps its buffer for the next one, until `release_idle`.
            if own is not None and (self._is_aside or self._taken_bytes * 4 < len(self._buffers.shared)):
                self._let_go()
            return
        left_bytes = self._end = end - start
        # One byte more than what is left: `buffer` must never be empty.
        needed_bytes = max(self._wanted_bytes, left_bytes + 1)
        if own is None or self._is_aside or len(own) < needed_bytes:
            larger = self._buffers.take(needed_bytes)
            larger[:left_bytes] = self._view[start:end]
            self._let_go()
            self._own = self._view = larger
            self._view_bytes = len(larger)
        elif start:
            own[:left_bytes] = own[start:end]

    def release_idle(self) -> None:
        """Gives up a buffer that waits for nothing. For a connection that has been silent for a while."""
        if self._own is not None and self._start == self._end:
            self._let_go()

    def close(self) -> None:
        """Forgets what arrived and gives up the buffer."""
        self._start = self._end = 0
        if self._own is not None:
            self._let_go()

    def _let_go(self) -> None:
        own = self._own
        if own is not None:
            self._own = None
            self._view = self._buffers.shared
            self._view_bytes = len(self._view)
            if self._is_aside:
                self._is_aside = False
            else:
                self._buffers.give_back(own)


def _size_at(view: memoryview, at: int) -> int:
    if cython.compiled:
        data = cython.cast(cython.p_uchar, PyMemoryView_GET_BUFFER(view).buf) + at
        size = (data[0] << 24) | (data[1] << 16) | (data[2] << 8) | data[3]
    else:
        size = _int32_at(view, at)[0]
    return size  # type: ignore[no-any-return]
