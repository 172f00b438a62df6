"""Walks along the batches of a log file without reading more of it than it must.

Two ways of walking: `each_header` reads headers and skips the records between them, which is how an offset is found between two
index entries; `each_checked_batch` reads every byte once and checks the CRC, which is what recovery does. Neither holds more than
a window of the file in memory, whatever length a damaged header claims.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.storage.files import File
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.compression import Compression
from tidelog.wire.crc32c import crc32c
from tidelog.wire.record_batch import (
    BATCH_OVERHEAD,
    CHECKED_POSITION,
    CODEC_MASK,
    HEADER_BYTES,
    BatchHeader,
    read_header,
)

# Around the default index.interval.bytes: one read usually finds an offset that lies between two index entries.
HEADER_WINDOW_BYTES = 4096
# Recovery reads in pieces of this size: large enough for the disk, small enough to have several logs open at once.
CHECK_WINDOW_BYTES = 1024 * 1024


def each_header(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch from `position` on with its position. CorruptBatchError where the bytes up to `end` are not whole batches."""
    window = b""
    window_position = position
    window_bytes = HEADER_BYTES
    while position < end:
        at = position - window_position
        if at + HEADER_BYTES > len(window):
            window = file.pread(min(window_bytes, end - position), position)
            window_position, at = position, 0
        header = read_header(window, at)
        following = position + BATCH_OVERHEAD + header.batch_length
        if following > end:
            raise CorruptBatchError(f"the batch at byte {position} of {file.path} is cut off at byte {end}")
        yield position, header
        # Small batches come many to a window. Of large ones the header alone is read: what is copied is what a walk costs.
        window_bytes = HEADER_WINDOW_BYTES if following - position < HEADER_WINDOW_BYTES else HEADER_BYTES
        position = following


def each_checked_batch(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like `each_header`, and the CRC of every batch is right."""
    window = b""
    window_position = position
    while position < end:
        at = position - window_position
        if at + HEADER_BYTES > len(window):
            window = file.pread(min(CHECK_WINDOW_BYTES, end - position), position)
            window_position, at = position, 0
        header = read_header(window, at)
        size = header.size_bytes
        if position + size > end:
            raise CorruptBatchError(f"the batch at byte {position} of {file.path} is cut off at byte {end}")
        if header.attributes & CODEC_MASK > Compression.ZSTD:
            raise CorruptBatchError(f"the batch at byte {position} of {file.path} names a codec that does not exist")
        if at + size > len(window) and size <= CHECK_WINDOW_BYTES:
            window = file.pread(min(CHECK_WINDOW_BYTES, end - position), position)
            window_position, at = position, 0
        if at + size <= len(window):
            crc = crc32c(memoryview(window)[at + CHECKED_POSITION : at + size])
        else:
            crc = _crc_in_pieces(file, position + CHECKED_POSITION, position + size)
        if crc != header.crc:
            raise CorruptBatchError(f"the checksum of the batch at byte {position} of {file.path} is wrong")
        yield position, header
        position += size


def _crc_in_pieces(file: File, position: int, end: int) -> int:
    crc = 0
    while position < end:
        piece = file.pread(min(CHECK_WINDOW_BYTES, end - position), position)
        if not piece:
            break
        crc = crc32c(piece, crc)
        position += len(piece)
    return crc
