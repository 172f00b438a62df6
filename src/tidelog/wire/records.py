"""The records of a batch as rows: read them, and build batches from them.

A record on the wire, every length and number a zigzag varint:

    length · attributes (one byte, unused) · timestamp delta · offset delta · key length, key · value length, value
           · header count, then for each header: key length, key (UTF-8) · value length, value

A length of -1 is null. The deltas count from the batch's base timestamp and base offset. With log append time every record
has the batch's max timestamp, whatever its delta says.

These functions trust no byte: a damaged or hostile batch raises CorruptBatchError, and allocates no more than what its own size
(or, compressed, the limit) allows. The checksum is not theirs to check: see `record_batch.check_batch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import error as struct_error
from typing import NamedTuple, NoReturn, TypeAlias, TypeVar

from tidelog.wire import record_decoder, record_encoder
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.compression import DECOMPRESSED_BYTES_MAX, Compression, compress, decompress
from tidelog.wire.crc32c import crc32c
from tidelog.wire.record_batch import (
    BATCH_OVERHEAD,
    CHECKED_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_LAYOUT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    HEADER_LAYOUT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    BytesLike,
    TimestampType,
    each_batch,
    read_header,
)

BATCH_BYTES_MAX = 2**31 - 1
# Length, attributes, two deltas, two lengths and a header count, of one byte each.
RECORD_BYTES_MIN = 7


_ConsumerRow = TypeVar("_ConsumerRow")

Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Record(NamedTuple):
    """One record: a row of atoms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def decode_rows(
    buffer: BytesLike, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """The records of the batch at `position`, control records included."""
    header = read_header(buffer, position)
    return decode_batch(buffer, header, position, decompressed_bytes_max=decompressed_bytes_max)


def decode_batch(
    buffer: BytesLike, header: BatchHeader, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """The records of the batch at `position` whose header has been read already."""
    return _decode(Record, buffer, header, position, decompressed_bytes_max)


def decode_tuples(
    buffer: BytesLike, header: BatchHeader, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Row]:
    """Like `decode_batch`, as plain tuples: three times as fast as named ones, and nothing for the garbage collector."""
    return _decode(tuple, buffer, header, position, decompressed_bytes_max)  # type: ignore[return-value]


def decode_consumer_rows(
    row_type: type[_ConsumerRow],
    topic: str,
    partition: int,
    buffer: BytesLike,
    header: BatchHeader,
    position: int = 0,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> list[_ConsumerRow]:
    """Like `decode_batch`, as a consumer hands records out: topic, partition, offset, timestamp, timestamp type, key, value and
    headers are what `row_type` is called with for each."""
    data, start, end = _data_of(buffer, header, position, decompressed_bytes_max)
    is_append_time = bool(header.attributes & LOG_APPEND_TIME_BIT)
    rows: list[_ConsumerRow] = record_decoder.decode_consumer_rows(
        row_type,
        topic,
        partition,
        TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        data,
        start,
        end,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.last_offset_delta,
        header.max_timestamp if is_append_time else None,
    )
    return rows


def _data_of(
    buffer: BytesLike, header: BatchHeader, position: int, decompressed_bytes_max: int
) -> tuple[BytesLike, int, int]:
    """What holds the batch's records, unpacked, and where they lie in it."""
    if header.attributes & CODEC_MASK:
        data = records_of(buffer, header, position, decompressed_bytes_max=decompressed_bytes_max)
        return data, 0, len(data)
    # Fast path: no slice of the buffer for every batch.
    end = position + BATCH_OVERHEAD + header.batch_length
    if end > len(buffer):
        _refuse_cut(buffer, header, end)
    return buffer, position + HEADER_BYTES, end


def _decode(
    row_type: type[Record | Row], buffer: BytesLike, header: BatchHeader, position: int, decompressed_bytes_max: int
) -> list[Record]:
    data, start, end = _data_of(buffer, header, position, decompressed_bytes_max)
    rows: list[Record] = record_decoder.decode_rows(
        row_type,
        data,
        start,
        end,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.last_offset_delta,
        header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None,
    )
    return rows


def records_of(
    buffer: BytesLike, header: BatchHeader, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> BytesLike:
    """The bytes of the batch's records, unpacked; a view into the buffer where nothing is packed."""
    end = position + header.size_bytes
    if end > len(buffer):
        _refuse_cut(buffer, header, end)
    packed = memoryview(buffer)[position + HEADER_BYTES : end]
    if not header.attributes & CODEC_MASK:
        return packed
    return decompress(header.codec, packed, decompressed_bytes_max)


def _refuse_cut(buffer: BytesLike, header: BatchHeader, end: int) -> NoReturn:
    missing = end - len(buffer)
    raise CorruptBatchError(f"the batch at offset {header.base_offset} is cut off: {missing} of its bytes are missing")


def each_record(
    buffer: BytesLike, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Each record of each whole batch from `position` on, those of control batches left out."""
    for at, header in each_batch(buffer, position):
        if not header.is_control:
            yield from decode_batch(buffer, header, at, decompressed_bytes_max=decompressed_bytes_max)


def build_batch(
    rows: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """One batch of all `rows`, of which there is at least one.

    Each row's offset is used as it is, so that a compacted batch keeps its gaps; `last_offset` is the last one that the batch
    stands for where that record is gone. With log append time the largest timestamp among the rows becomes the batch's.
    Raises ValueError for what no batch can hold: offsets that do not rise from `base_offset`, more than 2 GB, a bad level.
    """
    # A list of our own: nothing else may change it while it is read twice.
    listed = list(rows)
    if not listed:
        raise ValueError("a batch without records is made by build_empty_batch")
    if base_offset < 0:
        raise ValueError(f"the base offset {base_offset} is negative")
    base_timestamp = listed[0][1] if delete_horizon_ms is None else delete_horizon_ms
    try:
        batch, max_timestamp = record_encoder.encode_rows(listed, HEADER_BYTES, base_offset, base_timestamp)
    except OverflowError as error:
        raise ValueError(f"an offset or a timestamp does not fit into 64 bits: {error}") from None
    return bytes(
        seal_batch(
            batch,
            record_count=len(listed),
            base_offset=base_offset,
            last_offset=listed[-1][0] if last_offset is None else last_offset,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            codec=codec,
            level=level,
            attributes=attributes_of(
                timestamp_type=timestamp_type,
                is_transactional=is_transactional,
                is_control=is_control,
                has_delete_horizon=delete_horizon_ms is not None,
            ),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            leader_epoch=leader_epoch,
        )
    )


def build_empty_batch(
    *,
    base_offset: int,
    last_offset: int,
    timestamp: int,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """A batch without records: what compaction leaves so that a producer's last sequence and epoch are not lost."""
    return bytes(
        seal_batch(
            bytearray(HEADER_BYTES),
            record_count=0,
            base_offset=base_offset,
            last_offset=last_offset,
            # No record counts from it; Kafka's cleaner writes -1 as well.
            base_timestamp=-1,
            max_timestamp=timestamp,
            attributes=attributes_of(
                timestamp_type=timestamp_type, is_transactional=is_transactional, is_control=is_control
            ),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            leader_epoch=leader_epoch,
        )
    )


def attributes_of(
    *,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> int:
    """The attributes of a batch, apart from its codec."""
    return (
        (LOG_APPEND_TIME_BIT if timestamp_type else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
        | (DELETE_HORIZON_BIT if has_delete_horizon else 0)
    )


def seal_batch(
    batch: bytearray,
    *,
    record_count: int,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    codec: Compression = Compression.NONE,
    level: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
) -> bytearray:
    """Make a whole batch of encoded records that have room for a header before them: compress, fill in, checksum.

    Without a codec it is `batch` itself that is returned, with its header in place.
    """
    if codec:
        with memoryview(batch) as view:
            packed = compress(codec, view[HEADER_BYTES:], level)
        batch = bytearray(HEADER_BYTES)
        batch += packed
    elif level is not None:
        raise ValueError("a compression level needs a codec")
    if len(batch) > BATCH_BYTES_MAX:
        raise ValueError(f"the records take {len(batch)} bytes, and a batch ends at {BATCH_BYTES_MAX}")
    try:
        HEADER_LAYOUT.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - BATCH_OVERHEAD,
            leader_epoch,
            MAGIC,
            0,
            attributes | codec,
            last_offset - base_offset,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )
    except struct_error as error:
        raise ValueError(f"a field of the batch's header is out of range: {error}") from None
    CRC_LAYOUT.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_POSITION:]))
    return batch
