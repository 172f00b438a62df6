"""What is checked before batches enter a log, and what an append answers.

Per batch, never per record: everything here comes from the 61 bytes of the header and one pass of the CRC. A batch that a client
got wrong is an answer with Kafka's error code, not an exception; nothing has been written then.
"""

from __future__ import annotations

import msgspec

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, Offset, TimestampMs
from tidelog.storage.producer_append import AppendOrigin
from tidelog.wire.batch_errors import CorruptBatchError, UnsupportedMagicError
from tidelog.wire.record_batch import (
    BatchHeader,
    BytesLike,
    TimestampType,
    check_batch,
    each_batch,
    read_header,
    restamp,
)

# A batch's position in the appended buffer, and its header as it will be in the log.
PlacedBatch = tuple[int, BatchHeader]


class AppendInfo(msgspec.Struct, frozen=True, gc=False):
    """What was appended. Of a duplicate: what was appended the first time."""

    first_offset: Offset
    last_offset: Offset
    log_start_offset: Offset
    append_time_ms: TimestampMs = NO_TIMESTAMP
    """When, for a topic whose records get the time of their append; NO_TIMESTAMP otherwise."""
    is_duplicate: bool = False


class AppendRefused(msgspec.Struct, frozen=True, gc=False):
    """Nothing was appended, and why."""

    error: ErrorCode
    reason: str


def place_batches(
    buffer: bytearray | memoryview,
    *,
    origin: AppendOrigin,
    first_offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
) -> list[PlacedBatch] | AppendRefused:
    """Check every batch of `buffer` and give it its place in the log, from `first_offset` on, in place.

    The buffer must hold whole batches and nothing else.
    """
    placed: list[PlacedBatch] = []
    position, end = 0, len(buffer)
    try:
        while position < end:
            given = read_header(buffer, position)
            refused = _refuse_header(given, origin)
            if refused is not None:
                return refused
            check_batch(buffer, given, position)
            restamp(
                buffer, position, base_offset=first_offset, leader_epoch=leader_epoch, append_time_ms=append_time_ms
            )
            header = read_header(buffer, position)
            placed.append((position, header))
            first_offset += header.last_offset_delta + 1
            position += header.size_bytes
    except CorruptBatchError as error:
        return _refuse_corrupt(error)
    return placed


def accept_batches(buffer: BytesLike, *, next_offset: int) -> list[PlacedBatch] | AppendRefused:
    """Check every whole batch of `buffer`, which keeps its offsets: they must rise, from `next_offset` or above.

    Gaps are allowed: a compacted log has them. A batch that is cut off at the end is left out.
    """
    placed: list[PlacedBatch] = []
    try:
        for position, header in each_batch(buffer):
            check_batch(buffer, header, position)
            if header.base_offset < next_offset:
                return AppendRefused(
                    ErrorCode.OFFSET_OUT_OF_RANGE if not placed else ErrorCode.INVALID_RECORD,
                    f"the batch at offset {header.base_offset} does not follow the log, which ends at {next_offset}",
                )
            placed.append((position, header))
            next_offset = header.next_offset
    except CorruptBatchError as error:
        return _refuse_corrupt(error)
    return placed


def _refuse_header(header: BatchHeader, origin: AppendOrigin) -> AppendRefused | None:
    """What is wrong with a batch that is whole, as far as its header tells."""
    if header.record_count != header.last_offset_delta + 1:
        return _invalid(f"the batch has {header.record_count} records but {header.last_offset_delta + 1} offsets")
    if origin is not AppendOrigin.CLIENT:
        return None
    if header.base_offset != 0:
        return _invalid(f"the base offset of a produced batch must be 0, not {header.base_offset}")
    if header.is_control:
        return _invalid("a producer may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(f"the batch of producer {header.producer_id} has sequence {header.base_sequence}")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return AppendRefused(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the time of the append")
    return None


def _invalid(reason: str) -> AppendRefused:
    return AppendRefused(ErrorCode.INVALID_RECORD, reason)


def _refuse_corrupt(error: CorruptBatchError) -> AppendRefused:
    if isinstance(error, UnsupportedMagicError):
        return AppendRefused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error))
    return AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
