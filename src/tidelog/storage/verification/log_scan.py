"""Reads a file of record batches from its start to its first bad byte, and says what is wrong there.

For a person who looks at a file, where `batch_scan` is for a log at work: nothing is thrown away, every byte is accounted for.
A scan yields the whole, CRC-correct batches in order. When it is over, exactly one of these holds:

    damage is None, zeros == 0    the file ends with its last batch
    damage is None, zeros > 0     zeros from `position` to the end: preallocated space, or a write that a crash swallowed
    damage is not None            the first bad byte, and where whole batches go on behind it, if they do

The memory used is one window, or one batch where that is larger; a batch beyond `BATCH_BYTES_MAX` is damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout
from typing import NamedTuple

from tidelog.storage.files import File
from tidelog.wire.compression import Compression
from tidelog.wire.crc32c import crc32c
from tidelog.wire.record_batch import (
    BATCH_OVERHEAD,
    CHECKED_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    HEADER_BYTES,
    HEADER_LAYOUT,
    MAGIC,
    BatchHeader,
)

# Nobody sends batches of 100 MB through a broker whose default limit is 1 MB; a damaged length is far likelier.
BATCH_BYTES_MAX = 100 * 1024 * 1024 + BATCH_OVERHEAD
WINDOW_BYTES = 1024 * 1024
_ZEROS = bytes(WINDOW_BYTES)

# The search for whole batches behind damage checks one CRC for each place that looks like a batch. In a file made to
# mislead that could be the whole file for each of its bytes.
_SEARCH_CHECKED_BYTES_MAX = 256 * 1024 * 1024

_LENGTH_POSITION = 8
_MAGIC_POSITION = 16
_ATTRIBUTES_LOW_POSITION = 22
_LAST_OFFSET_DELTA_POSITION = 23
_RECORD_COUNT_POSITION = 57
_BATCH_LENGTH_MIN = HEADER_BYTES - BATCH_OVERHEAD
_INT64_MAX = 2**63 - 1
# From the first byte of a batch to its magic: all that the search can look for.
_PREFIX_LAYOUT = Layout(">qiib")


class ScannedBatch(NamedTuple):
    """A whole batch with a right checksum. `data` is valid until the scan goes on."""

    position: int
    header: BatchHeader
    data: memoryview


class Damage(NamedTuple):
    """Where a file stops to make sense."""

    position: int
    """The first byte that can be wrong."""
    batch_position: int
    """Where the batch begins that it belongs to: everything before is whole."""
    sentence: str
    resumes_at: int | None
    """Where the next whole batch begins, if there is one."""
    resumes_offset: int | None


class LogScan:
    """One pass over a file of batches, as long as it was when the scan was made."""

    def __init__(self, file: File, *, base_offset: int | None = None) -> None:
        """`base_offset` is the one of the file's name: no batch may lie before it."""
        self.position = 0
        """Where the last whole batch ends."""
        self.next_offset = base_offset
        """The offset after the last whole batch."""
        self.batches = 0
        self.zeros = 0
        self.damage: Damage | None = None
        self.size = file.size()
        self._file = file
        self._window = memoryview(b"")
        self._window_position = 0

    def __iter__(self) -> Iterator[ScannedBatch]:
        while self.position < self.size and self.damage is None and not self.zeros:
            batch = self._next_batch()
            if batch is not None:
                yield batch

    def _next_batch(self) -> ScannedBatch | None:
        position = self.position
        start = self._read(HEADER_BYTES)
        if not any(start) and only_zeros_follow(self._file, self.position, self.size):
            self.zeros = self.size - position
            return None
        if len(start) < HEADER_BYTES:
            self._stop(position, f"only {len(start)} bytes are left, and the header of a batch takes {HEADER_BYTES}")
            return None
        header = BatchHeader(*HEADER_LAYOUT.unpack(start))
        if (fault := self._fault_of(header)) is not None:
            self._stop(*fault)
            return None
        data = self._read(header.size_bytes)
        if len(data) < header.size_bytes:
            # The file was cut under our eyes.
            self._stop(position, _cut_off(header, len(data)))
            return None
        crc = crc32c(data[CHECKED_POSITION:])
        if crc != header.crc:
            self._stop(
                position + CRC_POSITION,
                f"the batch at offset {header.base_offset} is damaged: its bytes have the CRC {crc:#010x}, "
                f"its header says {header.crc:#010x}",
            )
            return None
        self.position = position + header.size_bytes
        self.next_offset = header.next_offset
        self.batches += 1
        return ScannedBatch(position, header, data)

    def _fault_of(self, header: BatchHeader) -> tuple[int, str] | None:
        """The first byte of the header that cannot be right, and why. The order is that of trust: magic first."""
        position = self.position
        if header.magic != MAGIC:
            if not any(self._read(_MAGIC_POSITION)):
                return position, "zeros stand where a batch should begin, and other bytes follow them"
            return position + _MAGIC_POSITION, f"a batch with magic {header.magic}; only magic {MAGIC} is supported"
        if header.batch_length < _BATCH_LENGTH_MIN:
            return (
                position + _LENGTH_POSITION,
                f"a batch that claims a length of {header.batch_length}, less than its own header takes",
            )
        if header.size_bytes > BATCH_BYTES_MAX:
            return (
                position + _LENGTH_POSITION,
                f"a batch that claims {header.size_bytes} bytes; more than {BATCH_BYTES_MAX} is taken for damage",
            )
        if position + header.size_bytes > self.size:
            return position, _cut_off(header, self.size - position)
        if header.attributes & CODEC_MASK > Compression.ZSTD:
            return (
                position + _ATTRIBUTES_LOW_POSITION,
                f"a batch with codec {header.attributes & CODEC_MASK}, which does not exist",
            )
        if header.last_offset_delta < 0:
            return (
                position + _LAST_OFFSET_DELTA_POSITION,
                f"a batch that claims a last offset delta of {header.last_offset_delta}",
            )
        if header.record_count < 0:
            return position + _RECORD_COUNT_POSITION, f"a batch that claims {header.record_count} records"
        return self._fault_of_offsets(header)

    def _fault_of_offsets(self, header: BatchHeader) -> tuple[int, str] | None:
        if header.base_offset < 0 or header.base_offset > _INT64_MAX - header.last_offset_delta:
            return self.position, f"a batch at the impossible offset {header.base_offset}"
        if self.next_offset is not None and header.base_offset < self.next_offset:
            if self.batches == 0:
                return (
                    self.position,
                    f"a batch at offset {header.base_offset}, before the {self.next_offset} that the file's name says",
                )
            return (
                self.position,
                f"offsets go back: a batch at offset {header.base_offset} where {self.next_offset} or more must follow",
            )
        return None

    def _stop(self, position: int, sentence: str) -> None:
        resumes_at, resumes_offset = self._find_whole_batch()
        self.damage = Damage(position, self.position, sentence, resumes_at, resumes_offset)

    def _read(self, count: int) -> memoryview:
        """`count` bytes from the position on; fewer only at the end of the file."""
        at = self.position - self._window_position
        if not 0 <= at <= len(self._window) - count:
            wanted = min(max(count, WINDOW_BYTES), self.size - self.position)
            # The old window goes before the new one comes: two of the largest batches need not fit.
            self._window = memoryview(b"")
            self._window = memoryview(self._file.pread(wanted, self.position))
            self._window_position, at = self.position, 0
        return self._window[at : at + count]

    def _find_whole_batch(self) -> tuple[int | None, int | None]:
        """Position and offset of the first whole batch behind the damage: the difference between a torn tail and a hole."""
        lowest = self.next_offset or 0
        budget = _SEARCH_CHECKED_BYTES_MAX
        position = self.position + 1
        while position + HEADER_BYTES <= self.size:
            window = self._file.pread(min(WINDOW_BYTES, self.size - position), position)
            usable = len(window) - HEADER_BYTES
            if usable < 0:
                break
            at = window.find(MAGIC, _MAGIC_POSITION)
            while 0 <= at <= usable + _MAGIC_POSITION:
                start = at - _MAGIC_POSITION
                base_offset, batch_length, _, _ = _PREFIX_LAYOUT.unpack_from(window, start)
                size = batch_length + BATCH_OVERHEAD
                fits = HEADER_BYTES <= size <= min(BATCH_BYTES_MAX, self.size - position - start)
                if fits and base_offset >= lowest:
                    if self._is_whole(position + start, size):
                        return position + start, base_offset
                    budget -= size
                    if budget < 0:
                        return None, None
                at = window.find(MAGIC, at + 1)
            position += usable + 1
        return None, None

    def _is_whole(self, position: int, size: int) -> bool:
        data = self._file.pread(size, position)
        if len(data) < size:
            return False
        header = BatchHeader(*HEADER_LAYOUT.unpack_from(data))
        if header.last_offset_delta < 0 or header.record_count < 0 or header.attributes & CODEC_MASK > Compression.ZSTD:
            return False
        return int(crc32c(memoryview(data)[CHECKED_POSITION:])) == header.crc


def only_zeros_follow(file: File, position: int, end: int) -> bool:
    """Whether a file holds nothing but zeros from `position` to `end`, or to where it ends now."""
    while position < end:
        piece = file.pread(min(WINDOW_BYTES, end - position), position)
        if not piece:
            break
        # Comparing memory is ten times as fast as looking at each byte.
        if piece != (_ZEROS[: len(piece)] if len(piece) < WINDOW_BYTES else _ZEROS):
            return False
        position += len(piece)
    return True


def _cut_off(header: BatchHeader, available: int) -> str:
    return (
        f"the batch at offset {header.base_offset} is cut off: "
        f"it claims {header.size_bytes} bytes, and the file ends after {available} of them"
    )
