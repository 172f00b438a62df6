"""The codecs of record batches: the frames that Kafka's clients write and read, with a limit on what unpacks.

| codec  | what is written                                          | what is read                                    |
|--------|----------------------------------------------------------|-------------------------------------------------|
| gzip   | one member                                               | members one after another                       |
| snappy | xerial's stream: its header, then blocks of 32 KB        | the same, streams one after another, or bare    |
| lz4    | one frame of independent 64 KB blocks, no content size   | one frame, linked blocks too                    |
| zstd   | one frame with its content size                          | frames one after another, skippable ones too    |

Kafka's own lz4 reader refuses linked blocks and stops at the end of the first frame, so neither is ever written.

Levels are Kafka's. For gzip 1 to 3 the work is done by ISA-L at its own levels of the same number, and by default (-1) at
its level 2: several times faster than zlib and a little larger. ISA-L has nothing above, so 4 to 9 are zlib's. For lz4 Kafka's
default of 9 means its fast compressor, here as there; every other level is the high compressor, which ends at 12. Snappy has
no levels.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct as Layout

import cramjam
import lz4.frame
import zstandard
from isal import isal_zlib

from tidelog.wire.batch_errors import CorruptBatchError, DecompressedTooLargeError

# A batch of a megabyte, the largest that brokers take by default, unpacks to more only where somebody means harm or
# compresses zeros; and one reader must not take a node's memory.
DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024


class Compression(IntEnum):
    """The codec of a batch, as in the low bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# Kafka's ranges of `compression.gzip.level` (which also takes -1), `compression.lz4.level` and `compression.zstd.level`.
LEVELS = {
    Compression.GZIP: range(1, 10),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-131072, 23),
}
DEFAULT_LEVELS = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}

_GZIP_WINDOW_BITS = 31
_GZIP_NEXT_MEMBER_BYTES = 256
_ISAL_LEVEL_DEFAULT = 2
_ISAL_LEVEL_MAX = 3

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
# Magic, then the version and the oldest version that can read it.
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_LENGTH = Layout(">I")
# The densest element of the format is a copy of 64 bytes in 3.
_SNAPPY_RATIO_MAX = 22

_LZ4_HIGH_LEVEL_MIN = 3
_LZ4_HIGH_LEVEL_MAX = 12
_LZ4_STEP_BYTES_MIN = 64 * 1024

# The decoder keeps a window of what it has unpacked. Level 22 makes them of this size, and zstd's own default ends here.
_ZSTD_WINDOW_BYTES_MAX = 128 * 1024 * 1024
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50
_ZSTD_WORD = Layout("<I")
_ZSTD_RLE_BLOCK = 1


class _ZstdContexts(threading.local):
    """Contexts are costly to make and must not be shared between threads."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}

    def compressor(self, level: int) -> zstandard.ZstdCompressor:
        compressor = self.compressors.get(level)
        if compressor is None:
            compressor = self.compressors[level] = zstandard.ZstdCompressor(level=level)
        return compressor


_zstd_contexts = _ZstdContexts()


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """`data` in the codec's frame. `level` is in Kafka's range, None the codec's default; ValueError for any other."""
    if level is not None:
        _check_level(codec, level)
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return _compress_gzip(data, -1 if level is None else level)
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            return _zstd_contexts.compressor(DEFAULT_LEVELS[codec] if level is None else level).compress(data)


def decompress(
    codec: Compression, data: bytes | bytearray | memoryview, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes | bytearray | memoryview:
    """What `data` unpacks to; for no codec `data` itself.

    Raises DecompressedTooLargeError once that is more than `bytes_max`, having allocated no more than that and a block;
    CorruptBatchError where `data` is damaged, cut off or followed by something else.
    """
    match codec:
        case Compression.NONE:
            if len(data) > bytes_max:
                raise DecompressedTooLargeError(bytes_max)
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, bytes_max)
        case Compression.SNAPPY:
            return _decompress_snappy(data, bytes_max)
        case Compression.LZ4:
            return _decompress_lz4(data, bytes_max)
        case Compression.ZSTD:
            return _decompress_zstd(data, bytes_max)


def _check_level(codec: Compression, level: int) -> None:
    levels = LEVELS.get(codec)
    if levels is None:
        raise ValueError(f"{codec.name.lower()} has no compression levels")
    if level not in levels and level != DEFAULT_LEVELS[codec]:
        raise ValueError(
            f"{codec.name.lower()} has compression levels {levels.start} to {levels.stop - 1}, and {level} is none of them"
        )


def _compress_gzip(data: bytes | bytearray | memoryview, level: int) -> bytes:
    if level == -1:
        return isal_zlib.compress(data, _ISAL_LEVEL_DEFAULT, _GZIP_WINDOW_BITS)
    if level <= _ISAL_LEVEL_MAX:
        return isal_zlib.compress(data, level, _GZIP_WINDOW_BITS)
    return zlib.compress(data, level, _GZIP_WINDOW_BITS)


def _decompress_gzip(data: bytes | bytearray | memoryview, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    room = bytes_max
    view = memoryview(data)
    position, window = 0, len(view)
    while True:
        member = isal_zlib.decompressobj(_GZIP_WINDOW_BITS)
        while not member.eof:
            piece = view[position : position + window]
            if not piece:
                raise CorruptBatchError("the gzip data are cut off")
            try:
                # One byte more than there is room for tells a full buffer from an overfull one.
                part = member.decompress(piece, room + 1)
            except isal_zlib.IsalError as error:  # type: ignore[misc]  # the stub calls the class an instance
                raise CorruptBatchError(f"the gzip data are damaged: {error}") from None
            room -= len(part)
            if room < 0:
                raise DecompressedTooLargeError(bytes_max)
            parts.append(part)
            position += len(piece) - len(member.unused_data)
            window *= 2
        if position == len(view):
            return parts[0] if len(parts) == 1 else b"".join(parts)
        # Usually there is one. What it is given and does not need, a member copies: were that all that follows, many small
        # members would cost the square of their number.
        window = _GZIP_NEXT_MEMBER_BYTES


def _compress_snappy(data: bytes | bytearray | memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_XERIAL_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: bytes | bytearray | memoryview, bytes_max: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unpack_snappy_block(view, bytes_max, bytes_max)
    parts: list[bytes] = []
    room = bytes_max
    position = 0
    while position < len(view):
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(view):
                raise CorruptBatchError("the snappy data are cut off in their header")
            continue
        start = position + _XERIAL_LENGTH.size
        if start > len(view):
            raise CorruptBatchError("the snappy data are cut off in the length of a block")
        (length,) = _XERIAL_LENGTH.unpack_from(view, position)
        position = start + length
        if position > len(view):
            raise CorruptBatchError("the snappy data are cut off in a block")
        part = _unpack_snappy_block(view[start:position], room, bytes_max)
        room -= len(part)
        parts.append(part)
    return b"".join(parts)


def _unpack_snappy_block(block: memoryview, room: int, bytes_max: int) -> bytes:
    try:
        # The length that the block claims decides what is allocated, so it is looked at first.
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > len(block) * _SNAPPY_RATIO_MAX:
            raise CorruptBatchError(
                f"a snappy block of {len(block)} bytes cannot unpack to the {claimed} that it claims"
            )
        if claimed > room:
            raise DecompressedTooLargeError(bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"the snappy data are damaged: {error}") from None


def _compress_lz4(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    fast = level is None or level == DEFAULT_LEVELS[Compression.LZ4]
    return lz4.frame.compress(  # type: ignore[no-any-return]
        data,
        compression_level=0 if fast else min(max(level or 0, _LZ4_HIGH_LEVEL_MIN), _LZ4_HIGH_LEVEL_MAX),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )


def _decompress_lz4(data: bytes | bytearray | memoryview, bytes_max: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    # The library allocates what it may return at once: ask for what the data can be expected to hold, then for more.
    step = min(bytes_max + 1, max(_LZ4_STEP_BYTES_MIN, 4 * len(data)))
    parts: list[bytes] = []
    room = bytes_max
    rest: bytes | bytearray | memoryview = data
    while True:
        try:
            part = frame.decompress(rest, max_length=min(step, room + 1))
        except RuntimeError as error:
            raise CorruptBatchError(f"the lz4 data are damaged: {error}") from None
        room -= len(part)
        if room < 0:
            raise DecompressedTooLargeError(bytes_max)
        parts.append(part)
        if frame.eof:
            break
        if frame.needs_input or not part:
            raise CorruptBatchError("the lz4 data are cut off")
        rest = b""
    if frame.unused_data:
        raise CorruptBatchError(f"{len(frame.unused_data)} bytes follow the lz4 frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_zstd(data: bytes | bytearray | memoryview, bytes_max: int) -> bytes:
    try:
        content_size = zstandard.frame_content_size(data)
        if content_size > bytes_max:
            raise DecompressedTooLargeError(bytes_max)
        if content_size > 0:
            # Fast path. It refuses damage, but several frames too: the slow path below tells which it is.
            with contextlib.suppress(zstandard.ZstdError):
                return _zstd_contexts.decompressor.decompress(data, allow_extra_data=False)
        return _decompress_zstd_blocks(memoryview(data), bytes_max)
    except zstandard.ZstdError as error:
        raise CorruptBatchError(f"the zstd data are damaged: {error}") from None


def _decompress_zstd_blocks(view: memoryview, bytes_max: int) -> bytes:
    """Block by block, none of which unpacks to more than 128 KB, so that a bomb is noticed while it is small."""
    parts: list[bytes] = []
    room = bytes_max
    position = 0
    while position < len(view):
        frame = _zstd_contexts.decompressor.decompressobj()
        for end in _zstd_block_ends(view, position):
            part = frame.decompress(view[position:end])
            room -= len(part)
            if room < 0:
                raise DecompressedTooLargeError(bytes_max)
            parts.append(part)
            position = end
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd_block_ends(view: memoryview, position: int) -> Iterator[int]:
    """Where each block of the frame at `position` ends: the first with the frame's header, the last with its checksum."""
    magic = _zstd_word(view, position)
    if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE_MAGIC:
        end = position + 8 + _zstd_word(view, position + 4)
        if end > len(view):
            raise CorruptBatchError("the zstd data are cut off in a skippable frame")
        yield end
        return
    parameters = zstandard.get_frame_parameters(view[position:])
    position += zstandard.frame_header_size(view[position:])
    is_last = False
    while not is_last:
        if position + 3 > len(view):
            raise CorruptBatchError("the zstd data are cut off before a block")
        block_header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        is_last = bool(block_header & 1)
        size = 1 if block_header >> 1 & 3 == _ZSTD_RLE_BLOCK else block_header >> 3
        position += 3 + size + (4 if is_last and parameters.has_checksum else 0)
        if position > len(view):
            raise CorruptBatchError("the zstd data are cut off in a block")
        yield position


def _zstd_word(view: memoryview, position: int) -> int:
    if position + _ZSTD_WORD.size > len(view):
        raise CorruptBatchError("the zstd data are cut off in the header of a frame")
    return int(_ZSTD_WORD.unpack_from(view, position)[0])
