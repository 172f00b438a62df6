"""The memory that frames arrive in, shared by all connections of an event loop.

A read and the handling of what it brought are one step of the loop, so a single buffer serves every connection whose
last read ended with a whole frame: ten thousand idle connections need no memory at all. Only a connection that is in the middle
of a frame has a buffer of its own, from here.

Buffers are anonymous mappings: a page counts only once something was written to it. A peer that announces 100 MB and sends
nothing therefore costs one page, not 100 MB.
"""

from __future__ import annotations

import mmap

# What one pass handles at once, and answers with one send: that wakes the client, which costs more than the copying. A quarter of
# it took half as much CPU again for the same records, four times of it saved nothing.
SHARED_BYTES = 1024 * 1024

# Four records of TLS: as much is encrypted before it is sent. A connection keeps no more of it than OpenSSL's buffer in memory,
# which stays at 4/3 of this once that much was sent, and as much again while its peer does not read.
PIECE_BYTES = 64 * 1024
RECORD_BYTES_MAX = 16 * 1024

# What is kept for the next frame that arrives in pieces; page faults for a fresh 1 MB cost a tenth of handling it.
RETAINED_BYTES_MAX = 16 * 1024 * 1024


class ReceiveBuffers:
    """Hands out and takes back buffers. Not for use by two threads."""

    __slots__ = ("_cipher", "_piece", "_records", "_retained", "retained_bytes", "shared")

    def __init__(self, shared_bytes: int = SHARED_BYTES) -> None:
        self.shared = _mapping(shared_bytes)
        self.retained_bytes = 0
        self._retained: dict[int, list[memoryview]] = {}
        self._cipher: memoryview | None = None
        self._piece: memoryview | None = None
        self._records: list[memoryview] | None = None

    @property
    def cipher(self) -> memoryview:
        """Where encrypted bytes arrive, of all connections: what they decrypt to goes to `shared`. Made with the first."""
        if self._cipher is None:
            self._cipher = _mapping(len(self.shared))
        return self._cipher

    @property
    def piece(self) -> memoryview:
        """Where a piece of a file is read to before it is encrypted, of all connections."""
        if self._piece is None:
            self._piece = _mapping(PIECE_BYTES)
        return self._piece

    @property
    def records(self) -> list[memoryview]:
        """The same in the four parts that become a record each."""
        if self._records is None:
            piece = self.piece
            self._records = [
                piece[start : start + RECORD_BYTES_MAX] for start in range(0, PIECE_BYTES, RECORD_BYTES_MAX)
            ]
        return self._records

    def take(self, bytes_min: int) -> memoryview:
        """A writable buffer of at least this size, with whatever content. MemoryError if there is no such room."""
        size = max(len(self.shared), 1 << (bytes_min - 1).bit_length())
        kept = self._retained.get(size)
        if kept:
            self.retained_bytes -= size
            return kept.pop()
        return _mapping(size)

    def give_back(self, buffer: memoryview) -> None:
        """Returns what `take` gave. Its bytes may be overwritten from now on."""
        size = len(buffer)
        if self.retained_bytes + size <= RETAINED_BYTES_MAX:
            self._retained.setdefault(size, []).append(buffer)
            self.retained_bytes += size


def _mapping(size: int) -> memoryview:
    try:
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    except OSError as error:
        raise MemoryError(f"no room for a buffer of {size} bytes") from error
