"""What a produced batch must be before a partition appends it: what Kafka enforces on Produce by the topic's configuration.

    from the header alone      a codec that the request's version may use · max.message.bytes · the newest timestamp against
                               message.timestamp.after.max.ms
    from the records           only where the topic demands it: keys on a compacted topic · message.timestamp.before.max.ms ·
                               compression.type other than the batch's own · which records are too new, once one is

That it is one whole batch, undamaged and such as producers may send, is looked at before (`storage.checked_batches`); its
sequence when it is appended.

Where this differs from Kafka: a header whose checksum is right is believed, its count, offset deltas and newest timestamp,
because no record is decoded unless the topic asks for it (the fast path); where the records differ from it, consumers find out. A
codec that does not exist is CORRUPT_MESSAGE, not UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from struct import Struct as Layout

import msgspec

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, TopicPartition
from tidelog.replication.topic_config import TopicConfig
from tidelog.storage import checked_batches
from tidelog.storage.append import AppendRefused
from tidelog.storage.checked_batches import CheckedBatch, refuse_size
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.compression import Compression
from tidelog.wire.messages.produce import BatchIndexAndErrorMessage
from tidelog.wire.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    BytesLike,
    check_batch,
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

_ATTRIBUTES = Layout(">h")

# A lookup of an enum member through its class would cost as much as the check that needs it.
_ZSTD = Compression.ZSTD


class RecordsRefused(msgspec.Struct, frozen=True, gc=False):
    """Nothing of the batch is appended, and why; with the records that are to blame, by their place in the batch."""

    error: ErrorCode
    reason: str | None
    """None where the code says all."""
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()


def check_produced(
    records: BytesLike | None,
    version: int,
    topic_partition: TopicPartition,
    config: TopicConfig,
    now_ms: int,
    next_offset: int = 0,
) -> CheckedBatch | RecordsRefused:
    """What to append of what a request of this version brings for one partition: the batch as it came, or changed."""
    batch = checked_batches.check_produced(records, next_offset)
    if isinstance(batch, AppendRefused):
        return _refuse(records, batch, version, topic_partition, config, now_ms)
    refused = _refuse_header(batch.attributes, batch.size_bytes, version, config)
    if refused is not None:
        return refused
    if _asks_for_records(batch.attributes, batch.max_timestamp, config, now_ms):
        return _look_at_records(batch, topic_partition, config, now_ms)
    return batch


def _refuse_header(attributes: int, size_bytes: int, version: int, config: TopicConfig) -> RecordsRefused | None:
    if attributes & CODEC_MASK == _ZSTD and version < ZSTD_VERSION_MIN:
        return RecordsRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce v{ZSTD_VERSION_MIN}, not v{version}"
        )
    return _too_large(size_bytes, config) if size_bytes > config.max_message_bytes else None


def _asks_for_records(attributes: int, max_timestamp: int, config: TopicConfig, now_ms: int) -> bool:
    return bool(
        config.needs_keys
        or (config.codec is not None and config.codec != attributes & CODEC_MASK)
        or (
            config.keeps_create_time
            and (config.bounds_age or max_timestamp > now_ms + config.message_timestamp_after_max_ms)
        )
        or attributes & LOG_APPEND_TIME_BIT
    )


def _refuse(
    records: BytesLike | None,
    refused: AppendRefused,
    version: int,
    topic_partition: TopicPartition,
    config: TopicConfig,
    now_ms: int,
) -> RecordsRefused:
    """The reason to answer for a batch that storage has refused.

    What the topic demands takes precedence: where the header can be read it is checked here as well. Otherwise the answer falls
    back to the refusal that is known.
    """
    told = RecordsRefused(refused.error, refused.reason)
    if not records:
        return told
    view = memoryview(records)
    try:
        header = read_header(view)
    except CorruptBatchError:
        return told
    if header.size_bytes != len(view) and refuse_size(view, header.size_bytes) is not None:
        return told
    instead = _refuse_header(header.attributes, header.size_bytes, version, config)
    if instead is not None or not _asks_for_records(header.attributes, header.max_timestamp, config, now_ms):
        return instead or told
    view = view[: header.size_bytes]
    try:
        check_batch(view, header)
    except CorruptBatchError as error:
        return RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
    rows = _rows(view, header)
    if isinstance(rows, RecordsRefused):
        return rows
    return _refuse_rows(rows, header, topic_partition, config, now_ms) or told


def _rows(records: BytesLike, header: BatchHeader) -> list[Row] | RecordsRefused:
    try:
        return decode_tuples(records, header)
    except CorruptBatchError as error:
        return _invalid(str(error))


def _look_at_records(
    batch: CheckedBatch, topic_partition: TopicPartition, config: TopicConfig, now_ms: int
) -> CheckedBatch | RecordsRefused:
    header, records = batch.header, batch.view
    rows = _rows(records, header)
    if isinstance(rows, RecordsRefused):
        return rows
    refused = _refuse_rows(rows, header, topic_partition, config, now_ms)
    if refused is not None:
        return refused
    if config.codec is not None and config.codec != header.attributes & CODEC_MASK:
        return _recompress(rows, header, config)
    if header.attributes & LOG_APPEND_TIME_BIT:
        # The topic has CreateTime: the producer's timestamps stay, and the bit that calls them LogAppendTime is cleared.
        _ATTRIBUTES.pack_into(records, ATTRIBUTES_POSITION, header.attributes & ~LOG_APPEND_TIME_BIT)
        stamp_crc(records)
        return _checked(records)
    return batch


def _checked(records: BytesLike) -> CheckedBatch:
    """A batch that was rewritten here. It is valid by construction."""
    batch = checked_batches.check_produced(records)
    assert isinstance(batch, CheckedBatch), batch
    return batch


def _refuse_rows(
    rows: list[Row], header: BatchHeader, topic_partition: TopicPartition, config: TopicConfig, now_ms: int
) -> RecordsRefused | None:
    """Why records are refused, or None. The texts are Kafka's: producers show them, and tests compare them."""
    without_key = [index for index, row in enumerate(rows) if row[2] is None] if config.needs_keys else []
    if config.keeps_create_time:
        out_of_range = _out_of_range(rows, config, now_ms)
    else:
        # Only the leader sets LogAppendTime.
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


def _recompress(rows: list[Row], header: BatchHeader, config: TopicConfig) -> CheckedBatch | RecordsRefused:
    assert config.codec is not None
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
    return _checked(bytearray(batch))


def _invalid(reason: str) -> RecordsRefused:
    return RecordsRefused(ErrorCode.INVALID_RECORD, reason)


def _too_large(size_bytes: int, config: TopicConfig) -> RecordsRefused:
    return RecordsRefused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size_bytes} bytes, and max.message.bytes is {config.max_message_bytes}",
    )
