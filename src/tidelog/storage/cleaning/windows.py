"""A log file in pieces: one buffer that is filled with the bytes from a position on, and grows where a batch needs it."""

from __future__ import annotations

from tidelog.storage.files import File
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import HEADER_BYTES, read_header


class Window:
    """One buffer for all files of a cleaning. `view` holds what `fill` has read."""

    def __init__(self, window_bytes: int) -> None:
        self._bytes = max(window_bytes, HEADER_BYTES)
        self._buffer = bytearray(self._bytes)
        self.view = memoryview(self._buffer)[:0]

    def fill(self, file: File, position: int, end: int) -> None:
        """Read from `position` on: a whole batch at least. CorruptBatchError where the file has none there."""
        self._read(file, position, min(end - position, self._bytes))
        header = read_header(self.view)
        if header.size_bytes > end - position:
            raise CorruptBatchError(f"the batch at byte {position} of {file.path} is cut off at byte {end}")
        if header.size_bytes > len(self.view):
            self._read(file, position, header.size_bytes)

    def _read(self, file: File, position: int, count: int) -> None:
        wanted = max(self._bytes, count)
        if len(self._buffer) != wanted:
            # A large batch makes it grow, and the next piece shrink again.
            self._buffer = bytearray(wanted)
        self.view = memoryview(self._buffer)[:count]
        if file.preadv([self.view], position) != count:
            raise CorruptBatchError(f"{file.path} ends before byte {position + count}")
