"""What a frame is made of on its way out, and what takes it: the words of `output_queue` and of the channels."""

from __future__ import annotations

from typing import Protocol

# Below this a copy is cheaper than a system call of its own (benchmarks/net.py, "sendfile threshold").
SENDFILE_BYTES_MIN = 16 * 1024

# As much is joined into one send. A piece from the second size on is sent as it is: copying it would cost more than a call.
JOINED_BYTES_MAX = 64 * 1024
APART_BYTES_MIN = 16 * 1024

# A region that is copied is read in pieces of this size.
COPIED_BYTES_MAX = 256 * 1024

# One fast reader of a long answer must not keep the others waiting: after this much it is their turn.
FLUSHED_BYTES_MAX = 4 * 1024 * 1024

# From this size on an answer takes as long to send as several requests to handle, and so waits its turn among them: in pieces of
# the second size while others wait too.
LARGE_OUTPUT_BYTES = 64 * 1024
FLUSHED_IN_SLICE_BYTES_MAX = 256 * 1024

# What a channel answers when it takes nothing now.
WOULD_BLOCK = -1


class RegionFile(Protocol):
    """An open file. `fileno` is asked only where the channel can send files."""

    def fileno(self) -> int: ...

    def pread(self, count: int, position: int, /) -> bytes: ...


class Region(Protocol):
    """`count` bytes of `file` from `position`, which stay there until they are sent."""

    @property
    def file(self) -> RegionFile: ...

    @property
    def position(self) -> int: ...

    @property
    def count(self) -> int: ...


Bytes = bytes | bytearray | memoryview
# A memoryview is of single bytes. Whoever hands a part over does not change it afterwards.
Part = Bytes | Region


class Channel(Protocol):
    """Where the bytes go. OSError when the peer is gone."""

    @property
    def sends_files(self) -> bool:
        """Whether `send_file` may be called."""
        ...

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        """How many bytes were taken, or WOULD_BLOCK."""
        ...

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        """How many bytes of a file were taken, 0 where the file ends, or WOULD_BLOCK."""
        ...
