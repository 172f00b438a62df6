"""What a produced batch must be before a partition appends it: what Kafka enforces on Produce beyond what storage checks.

    from the header alone      one whole batch of magic 2 · a codec that the request's version may use · max.message.bytes
                               · the newest timestamp against message.timestamp.after.max.ms
    from the records           only where the topic demands it: keys on a compacted topic · message.timestamp.before.max.ms ·
                               compression.type other than the batch's own · which records are too new, once one is

Storage then checks the rest of the header, the checksum, and sequences. A batch whose records are looked at has its checksum
checked here first, since nothing of a damaged one is to be believed.

Where this differs from Kafka: a header whose checksum is right is believed, its count, offset deltas and newest timestamp,
because no record is decoded unless the topic asks for it; what records it lies about is for its consumers to find out. A codec
that does not exist is CORRUPT_MESSAGE, not UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from struct import Struct as Layout

import msgspec

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, TopicPartition
from tidelog.replication.topic_config import TopicConfig
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.compression import Compression
from tidelog.wire.messages.produce import BatchIndexAndErrorMessage
from tidelog.wire.record_batch import (
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    CODEC_MASK,
    HEADER_BYTES,
    HEADER_LAYOUT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchHeader,
    BytesLike,
    check_batch,
    crc_matches,
    read_header,
    stamp_crc,
)
from tidelog.wire.records import Record, Row, build_batch, decode_tuples

# Produce carries zstd from this version on (KIP-110).
ZSTD_VERSION_MIN = 7

# A batch of a million bad records must not become an answer of a hundred megabytes.
RECORD_ERRORS_MAX = 1000
# So many of them are also told in the sentence about the whole batch, as in Kafka.
_RECORD_ERRORS_IN_TEXT = 3

LENGTH_POSITION = 8
MAGIC_POSITION = 16
# The formats of before, which had records of their own in place of batches, of this size at least.
OLD_MAGICS = (0, 1)
OLD_BATCH_LENGTH_MIN = 14

_LENGTH = Layout(">i")
_ATTRIBUTES = Layout(">h")

# A member that is reached through its class costs as much as a check does.
_ZSTD = Compression.ZSTD


class RecordsRefused(msgspec.Struct, frozen=True, gc=False):
    """Nothing of the batch is appended, and why; with the records that are to blame, by their place in the batch."""

    error: ErrorCode
    reason: str | None
    """None where the code says all."""
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()


def check_produced(
    records: BytesLike | None, version: int, topic_partition: TopicPartition, config: TopicConfig, now_ms: int
) -> BytesLike | RecordsRefused:
    """What to append of what a request of this version brings for one partition: the batch as it came, or changed."""
    if not records:
        return _invalid("there is no record batch for the partition")
    try:
        header = read_header(records)
    except CorruptBatchError as error:
        return _refuse_header(records, error)
    attributes = header.attributes
    codec = attributes & CODEC_MASK
    size_bytes = BATCH_OVERHEAD + header.batch_length
    if size_bytes != len(records):
        refused = _refuse_size(records, size_bytes)
        if refused is not None:
            return refused
        records = memoryview(records)[:size_bytes]
    if codec == _ZSTD and version < ZSTD_VERSION_MIN:
        return RecordsRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce v{ZSTD_VERSION_MIN}, not v{version}"
        )
    if size_bytes > config.max_message_bytes:
        return _too_large(size_bytes, config)
    if (
        config.needs_keys
        or (config.codec is not None and config.codec != codec)
        or (
            config.keeps_create_time
            and (config.bounds_age or header.max_timestamp > now_ms + config.message_timestamp_after_max_ms)
        )
        or attributes & LOG_APPEND_TIME_BIT
    ):
        return _look_at_records(records, header, topic_partition, config, now_ms)
    return records


def _refuse_header(records: BytesLike, error: CorruptBatchError) -> RecordsRefused:
    """The code of a header that is none, which with Kafka depends on how far one can read it."""
    if len(records) <= MAGIC_POSITION or records[MAGIC_POSITION] in OLD_MAGICS:
        return _invalid(str(error))
    if records[MAGIC_POSITION] == MAGIC:
        if len(records) < HEADER_BYTES:
            return _invalid("there is no whole record batch for the partition")
        header = BatchHeader(*HEADER_LAYOUT.unpack_from(records))
        is_whole = HEADER_BYTES <= header.size_bytes == len(records)
        if is_whole and crc_matches(records, header):
            # What it says of itself cannot be, but that is what its producer has written.
            return _invalid(str(error))
    return RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error))


def _refuse_size(records: BytesLike, size_bytes: int) -> RecordsRefused | None:
    """What is wrong with bytes that are not exactly one batch. None for one and the beginning of another: that is cut off."""
    rest = len(records) - size_bytes
    if rest < 0:
        return _invalid(f"the batch is cut off: {-rest} of its {size_bytes} bytes are missing")
    if rest < BATCH_OVERHEAD:
        return None
    (length,) = _LENGTH.unpack_from(records, size_bytes + LENGTH_POSITION)
    if length < OLD_BATCH_LENGTH_MIN:
        return RecordsRefused(
            ErrorCode.CORRUPT_MESSAGE, f"the batch is followed by one that claims a length of {length}"
        )
    if BATCH_OVERHEAD + length > rest:
        return None
    return _invalid("there may be one record batch for a partition, and another one follows it")


def _look_at_records(
    records: BytesLike, header: BatchHeader, topic_partition: TopicPartition, config: TopicConfig, now_ms: int
) -> BytesLike | RecordsRefused:
    try:
        check_batch(records, header)
    except CorruptBatchError as error:
        return RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
    try:
        rows = decode_tuples(records, header)
    except CorruptBatchError as error:
        return _invalid(str(error))
    refused = _refuse_rows(rows, header, topic_partition, config, now_ms)
    if refused is not None:
        return refused
    if config.codec is not None and config.codec != header.attributes & CODEC_MASK:
        return _recompress(rows, records, header, config)
    if header.attributes & LOG_APPEND_TIME_BIT:
        # The topic keeps its producers' time, whatever the batch calls it.
        records = bytearray(records)
        _ATTRIBUTES.pack_into(records, ATTRIBUTES_POSITION, header.attributes & ~LOG_APPEND_TIME_BIT)
        stamp_crc(records)
    return records


def _refuse_rows(
    rows: list[Row], header: BatchHeader, topic_partition: TopicPartition, config: TopicConfig, now_ms: int
) -> RecordsRefused | None:
    """In Kafka's words: producers show them, and tests compare them."""
    without_key = [index for index, row in enumerate(rows) if row[2] is None] if config.needs_keys else []
    if config.keeps_create_time:
        out_of_range = _out_of_range(rows, config, now_ms)
    else:
        # The time of the append is for the leader to give, and for nobody else.
        out_of_range = list(range(len(rows))) if header.attributes & LOG_APPEND_TIME_BIT else []
    if not without_key and not out_of_range:
        return None
    # A record without a key is refused for that, whatever its timestamp.
    keyless = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    errors = dict.fromkeys(without_key, keyless)
    late = [index for index in out_of_range if index not in errors]
    shown = sorted([*without_key, *late])[:RECORD_ERRORS_MAX]
    blamed = tuple(
        BatchIndexAndErrorMessage(
            batch_index=index,
            batch_index_error_message=errors.get(index) or _timestamp_problem(rows[index], config, now_ms),
        )
        for index in shown
    )
    if late:
        reason = "One or more records have been rejected due to invalid timestamp"
        return RecordsRefused(ErrorCode.INVALID_TIMESTAMP, reason, blamed)
    first = ", ".join(
        f"RecordError(batchIndex={each.batch_index}, message='{each.batch_index_error_message}')"
        for each in blamed[:_RECORD_ERRORS_IN_TEXT]
    )
    reason = (
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the first "
        f"three errors at most: [{first}]"
    )
    return RecordsRefused(ErrorCode.INVALID_RECORD, reason, blamed)


def _timestamp_problem(row: Row, config: TopicConfig, now_ms: int) -> str:
    offset, timestamp, key, value = row[:4]
    if config.keeps_create_time:
        earliest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        return (
            f"Timestamp {timestamp} of message with offset {offset} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )
    record = f"offset={offset}, timestamp={timestamp}, key={len(key or b'')} bytes, value={len(value or b'')} bytes"
    return f"Invalid timestamp type in message DefaultRecord({record}). Producer should not set timestamp type to LogAppendTime."


def _out_of_range(rows: list[Row], config: TopicConfig, now_ms: int) -> list[int]:
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    return [index for index, row in enumerate(rows) if not earliest <= row[1] <= latest and row[1] != NO_TIMESTAMP]


def _recompress(
    rows: list[Row], records: BytesLike, header: BatchHeader, config: TopicConfig
) -> BytesLike | RecordsRefused:
    if not rows or header.base_offset != 0 or header.is_control or config.codec is None:
        # Storage refuses the first three, with the right words.
        return records
    batch = build_batch(
        [Record(*row) for row in rows],
        codec=config.codec,
        level=config.compression_level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        last_offset=header.last_offset,
    )
    if len(batch) > config.max_message_bytes:
        return _too_large(len(batch), config)
    return bytearray(batch)


def _invalid(reason: str) -> RecordsRefused:
    return RecordsRefused(ErrorCode.INVALID_RECORD, reason)


def _too_large(size_bytes: int, config: TopicConfig) -> RecordsRefused:
    return RecordsRefused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size_bytes} bytes, and max.message.bytes is {config.max_message_bytes}",
    )
