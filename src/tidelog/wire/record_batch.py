"""The header of a record batch (magic 2): read it, check it, walk from batch to batch, restamp it in place.

    offset  bytes  field                       offset  bytes  field
         0      8  base_offset                     27      8  base_timestamp
         8      4  batch_length (from 12 on)       35      8  max_timestamp
        12      4  partition_leader_epoch          43      8  producer_id
        16      1  magic                           51      2  producer_epoch
        17      4  crc (CRC-32C from 21 on)        53      4  base_sequence
        21      2  attributes                      57      4  record_count
        23      4  last_offset_delta               61      -  records, compressed as a whole

    attributes: bits 0-2 codec · 3 timestamp type · 4 transactional · 5 control · 6 delete horizon

Base offset and leader epoch lie before the CRC's range on purpose: a broker assigns both without touching the checksum.
Nothing here looks at records; `tidelog.wire.records` and `tidelog.wire.columns` do.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct as Layout
from typing import TypeAlias

import msgspec

from tidelog.wire.batch_errors import CorruptBatchError, UnsupportedMagicError
from tidelog.wire.compression import Compression
from tidelog.wire.crc32c import crc32c

BytesLike: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES = 61
# Base offset and the length field: what a batch has beyond its batch_length.
BATCH_OVERHEAD = 12
MAGIC = 2

CRC_POSITION = 17
# The checksum covers everything from the attributes to the end of the batch.
CHECKED_POSITION = 21
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

HEADER_LAYOUT = Layout(">qiibIhiqqqhii")
_LENGTH_LAYOUT = Layout(">i")
_BASE_OFFSET_LAYOUT = Layout(">q")
_LEADER_EPOCH_LAYOUT = Layout(">i")
_ATTRIBUTES_LAYOUT = Layout(">h")
_TIMESTAMP_LAYOUT = Layout(">q")
CRC_LAYOUT = Layout(">I")

_LENGTH_POSITION = 8
_LEADER_EPOCH_POSITION = 12
_MAGIC_POSITION = 16
_BATCH_LENGTH_MIN = HEADER_BYTES - BATCH_OVERHEAD
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


class TimestampType(IntEnum):
    """Who gave the records their time: `message.timestamp.type`."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a batch's header, as they are on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Of the whole batch, header included."""
        return BATCH_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch, also where compaction has removed its last records."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Compression:
        try:
            return Compression(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptBatchError(
                f"the batch names codec {self.attributes & CODEC_MASK}, which does not exist"
            ) from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones; the base timestamp's field holds it once it is set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record: after 2147483647 comes 0. -1 where the producer has no sequences."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & _INT32_MAX


def read_header(buffer: BytesLike, position: int = 0) -> BatchHeader:
    """The header at `position`. The records behind it may be cut off: `each_batch` and `check_batch` look at that.

    Raises CorruptBatchError where the bytes cannot be the header of any batch.
    """
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        return _refuse_short(buffer, position)
    header = BatchHeader(*HEADER_LAYOUT.unpack_from(buffer, position))
    if (
        header.magic != MAGIC
        or header.batch_length < _BATCH_LENGTH_MIN
        or header.record_count < 0
        or header.last_offset_delta < 0
        or header.base_offset > _INT64_MAX - header.last_offset_delta
    ):
        _refuse_header(header)
    return header


def crc_matches(buffer: BytesLike, header: BatchHeader, position: int = 0) -> bool:
    """Whether the batch's bytes have the checksum that its header gives. The whole batch must be in the buffer."""
    with memoryview(buffer) as view:
        return int(crc32c(view[position + CHECKED_POSITION : position + header.size_bytes])) == header.crc


def check_batch(buffer: BytesLike, header: BatchHeader, position: int = 0) -> None:
    """Raises CorruptBatchError unless the whole batch is in the buffer, its codec exists and its checksum is right.

    Whether offsets, sequences and counts fit the log or the producer is the caller's to check, from the header.
    """
    if position + header.size_bytes > len(buffer):
        missing = position + header.size_bytes - len(buffer)
        raise CorruptBatchError(f"the batch is cut off: {missing} of its {header.size_bytes} bytes are missing")
    if header.attributes & CODEC_MASK > Compression.ZSTD:
        raise CorruptBatchError(f"the batch names codec {header.attributes & CODEC_MASK}, which does not exist")
    if not crc_matches(buffer, header, position):
        raise CorruptBatchError(
            f"the checksum of the batch at offset {header.base_offset} is wrong: its header says {header.crc:#010x}"
        )


def each_batch(buffer: BytesLike, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch with its position, without checking checksums.

    A batch that is cut off at the end finishes the iteration, since a fetch may end in the middle of one. Damage raises
    CorruptBatchError.
    """
    end = len(buffer) if end is None else min(end, len(buffer))
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        following = position + BATCH_OVERHEAD + header.batch_length
        if following > end:
            return
        yield position, header
        position = following
    if end - position >= BATCH_OVERHEAD:
        # Not even a header is left; a length that no batch has tells damage from a cut.
        (batch_length,) = _LENGTH_LAYOUT.unpack_from(buffer, position + _LENGTH_POSITION)
        if batch_length < _BATCH_LENGTH_MIN:
            raise CorruptBatchError(f"the batch claims a length of {batch_length}, less than its own header takes")


def restamp(
    buffer: bytearray | memoryview,
    position: int,
    *,
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int | None = None,
) -> None:
    """Give the batch at `position` its place in a log, in place.

    Base offset and leader epoch are outside the checksum. `append_time_ms` makes it a batch of log append time: the
    timestamp type and the max timestamp change, and the checksum with them. The caller has checked the batch.
    """
    _BASE_OFFSET_LAYOUT.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH_LAYOUT.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)
    if append_time_ms is None:
        return
    (attributes,) = _ATTRIBUTES_LAYOUT.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    _ATTRIBUTES_LAYOUT.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME_BIT)
    _TIMESTAMP_LAYOUT.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, append_time_ms)
    stamp_crc(buffer, position)


def stamp_crc(buffer: bytearray | memoryview, position: int = 0) -> None:
    """Compute the checksum of the whole batch at `position` and write it into its header."""
    (batch_length,) = _LENGTH_LAYOUT.unpack_from(buffer, position + _LENGTH_POSITION)
    with memoryview(buffer) as view:
        crc = crc32c(view[position + CHECKED_POSITION : position + BATCH_OVERHEAD + batch_length])
    CRC_LAYOUT.pack_into(buffer, position + CRC_POSITION, crc)


def _refuse_short(buffer: BytesLike, position: int) -> BatchHeader:
    available = max(0, len(buffer) - position) if position >= 0 else 0
    if available > _MAGIC_POSITION and buffer[position + _MAGIC_POSITION] != MAGIC:
        raise UnsupportedMagicError(buffer[position + _MAGIC_POSITION])
    raise CorruptBatchError(f"a batch header takes {HEADER_BYTES} bytes and only {available} are left")


def _refuse_header(header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise UnsupportedMagicError(header.magic)
    if header.batch_length < _BATCH_LENGTH_MIN:
        raise CorruptBatchError(f"the batch claims a length of {header.batch_length}, less than its own header takes")
    if header.record_count < 0:
        raise CorruptBatchError(f"the batch claims {header.record_count} records")
    if header.last_offset_delta < 0:
        raise CorruptBatchError(f"the batch claims a last offset delta of {header.last_offset_delta}")
    raise CorruptBatchError(f"the offsets of the batch at {header.base_offset} run over the largest offset there is")
