"""What is checked before batches enter a log, and what an append answers.

Per batch, never per record: everything here comes from the 61 bytes of the header and one pass of the CRC. A batch that a client
got wrong is an answer with Kafka's error code, not an exception; nothing has been written then.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import NamedTuple

import msgspec

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, Offset, TimestampMs
from tidelog.storage.producer_append import AppendOrigin
from tidelog.wire.batch_errors import CorruptBatchError, UnsupportedMagicError
from tidelog.wire.record_batch import (
    BATCH_OVERHEAD,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    BytesLike,
    check_batch,
    each_batch,
    read_header,
    restamp,
)

LEADER_EPOCH_POSITION = 12
_OFFSET_LAYOUT = Layout(">q")
_unpack_offset = _OFFSET_LAYOUT.unpack_from
_pack_offset = _OFFSET_LAYOUT.pack_into
_pack_epoch = Layout(">i").pack_into
# Base offset, length and epoch are neighbours: with the length known, one call writes them.
pack_place = Layout(">qii").pack_into

# A batch's position in the appended buffer, and its header as it will be in the log.
PlacedBatch = tuple[int, BatchHeader]


OFFSET_MAX = 2**63 - 1

# What is appended while somebody waits for it is kept for his read, up to this size: beyond it, `sendfile` is cheaper.
FRESH_BYTES_MAX = 16 * 1024

# The guard of a batch outside of any transaction.
NOT_TRANSACTIONAL = -1


class CheckedBatch(NamedTuple):
    """A client's batch that is whole and has its checksum, and is plain: no control batch, no append time."""

    view: memoryview
    """Writable: its place in the log is written into it."""
    last_offset_delta: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    guard: int | None = NOT_TRANSACTIONAL
    """Of a batch in a transaction: the guard that it comes with; None where nobody verifies."""


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
            # Offset and epoch lie outside the checksum, so the header is read once, as it will be in the log.
            given_offset = stamp_place(buffer, position, first_offset, leader_epoch)
            header = read_header(buffer, position)
            if origin is AppendOrigin.CLIENT:
                refused = _refuse_from_client(header, given_offset)
                if refused is not None:
                    return refused
            if header.record_count != header.last_offset_delta + 1:
                return _invalid(
                    f"the batch has {header.record_count} records but {header.last_offset_delta + 1} offsets"
                )
            check_batch(buffer, header, position)
            if append_time_ms is not None:
                restamp(
                    buffer,
                    position,
                    base_offset=first_offset,
                    leader_epoch=leader_epoch,
                    append_time_ms=append_time_ms,
                )
                header = read_header(buffer, position)
            placed.append((position, header))
            first_offset += header.last_offset_delta + 1
            position += BATCH_OVERHEAD + header.batch_length
    except CorruptBatchError as error:
        return _refuse_corrupt(error)
    return placed


def stamp_place(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> int:
    """Write the two fields that say where a batch is in the log. Returns the base offset that it came with."""
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatchError(f"a batch header takes {HEADER_BYTES} bytes, and {len(buffer) - position} are left")
    (given_offset,) = _unpack_offset(buffer, position)
    _pack_offset(buffer, position, base_offset)
    _pack_epoch(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)
    return int(given_offset)


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


def _refuse_from_client(header: BatchHeader, given_offset: int) -> AppendRefused | None:
    """What a producer got wrong in a batch that is whole, as far as its header tells."""
    if given_offset != 0:
        return _invalid(f"the base offset of a produced batch must be 0, not {given_offset}")
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        return _invalid("a producer may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(f"the batch of producer {header.producer_id} has sequence {header.base_sequence}")
    if attributes & LOG_APPEND_TIME_BIT:
        return AppendRefused(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the time of the append")
    return None


def _invalid(reason: str) -> AppendRefused:
    return AppendRefused(ErrorCode.INVALID_RECORD, reason)


def _refuse_corrupt(error: CorruptBatchError) -> AppendRefused:
    if isinstance(error, UnsupportedMagicError):
        return AppendRefused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error))
    return AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
