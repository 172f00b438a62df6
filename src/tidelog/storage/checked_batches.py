# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
# mypy: disable-error-code="no-any-return"
"""A record batch on its way into a log, and what must be true of it before: the one place for every path.

    check_produced(records)     what a producer sends for one partition: exactly one batch
    check_copied(records)       what a leader sends its followers: whole batches, the last of which may be cut off
    built_batch(batch, ...)     what this node has just made itself, and takes its own word for

Everything comes from the 61 bytes of the header and one pass of the checksum; no record is looked at. A batch stays where it has
arrived: it is a stretch of that buffer, and valid as long as the buffer is. What is wrong is a value with Kafka's error code and
a sentence. Here the common case is decided; a batch that is not in order is read once more, to say why.

What Kafka makes of damage in a produced batch depends on how far one can read it; `_refuse_produced` has the cases.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.storage.append import AppendRefused
from tidelog.wire import record_batch as _record_batch
from tidelog.wire.batch_errors import CorruptBatchError, UnsupportedMagicError
from tidelog.wire.crc32c import crc32c
from tidelog.wire.record_batch import BatchHeader, check_batch, crc_matches, each_batch, read_header, restamp

if TYPE_CHECKING:
    import cython

    from tidelog.storage.producer import EndTransactionMarker
    from tidelog.wire.record_batch import BytesLike
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.fields_inline import (
        frame_start,
        int16,
        int32,
        int64,
        put32,
        put64,
        uint32,
        writable_start,
    )
else:
    from tidelog.wire.typed.fields import (
        frame_start,
        int16,
        int32,
        int64,
        put32,
        put64,
        uint32,
        writable_start,
    )

_HEADER_BYTES = _record_batch.HEADER_BYTES
_BATCH_OVERHEAD = _record_batch.BATCH_OVERHEAD
_CHECKED_POSITION = _record_batch.CHECKED_POSITION
_MAGIC = _record_batch.MAGIC
_CODEC_MASK = _record_batch.CODEC_MASK
_CODEC_MAX = 4
_TRANSACTIONAL_BIT = _record_batch.TRANSACTIONAL_BIT
_CONTROL_BIT = _record_batch.CONTROL_BIT
_OFFSET_MAX = 2**63 - 1
_NO_PRODUCER = -1

_LENGTH_POSITION = 8
_MAGIC_POSITION = 16
# The formats of before, which had records of their own in place of batches, of this size at least.
_OLD_MAGICS = (0, 1)
_OLD_BATCH_LENGTH_MIN = 14
_LENGTH = Layout(">i")

# The buffer of a batch that lies in a file.
_NOWHERE = memoryview(b"")


class CheckedBatch:
    """A batch that is whole and has its checksum: where it lies, and what its header says."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "buffer",
        "guard",
        "last_offset_delta",
        "leader_epoch",
        "marker",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
    )

    buffer: memoryview
    """Plain bytes; writable where the log gives the batch its place."""
    position: int
    size_bytes: int
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    guard: int | None
    """Of a batch in a transaction: what `ProducerStateTable.begin_verification` gave out for it; None where nobody verifies."""
    marker: EndTransactionMarker | None
    """What the record of a control batch says, once somebody knows."""

    def __repr__(self) -> str:
        producer = f", producer {self.producer_id}" if self.producer_id >= 0 else ""
        return f"CheckedBatch({self.size_bytes} bytes, {self.record_count} records{producer})"

    @property
    def view(self) -> memoryview:
        """Its bytes."""
        return self.buffer[self.position : self.position + self.size_bytes]

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def header(self) -> BatchHeader:
        """All fields of its header."""
        return read_header(self.buffer, self.position)

    def place(self, base_offset: int, leader_epoch: int) -> None:
        """Give it its place in a log, in the buffer too. Both fields lie outside the checksum."""
        data = writable_start(self.buffer)
        if data == cython.NULL:
            raise BugError(f"{self} cannot be given a place: its bytes are somebody else's")
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        put64(data, self.position, base_offset)
        put32(data, self.position + 12, leader_epoch)

    def copy(self) -> CheckedBatch:
        """The same batch in a buffer of its own."""
        other = built_batch(bytearray(self.view), self.record_count, self.max_timestamp, self.producer_id)
        other.attributes = self.attributes
        other.last_offset_delta = self.last_offset_delta
        other.producer_epoch = self.producer_epoch
        other.base_sequence = self.base_sequence
        other.guard = self.guard
        other.marker = self.marker
        return other

    def stamp_append_time(self, append_time_ms: int) -> None:
        """Give its records the time of their append, for a topic that wants it."""
        restamp(
            self.buffer,
            self.position,
            base_offset=self.base_offset,
            leader_epoch=self.leader_epoch,
            append_time_ms=append_time_ms,
        )
        header = self.header
        self.attributes = header.attributes
        self.max_timestamp = header.max_timestamp
        if self.marker is not None:
            self.marker = self.marker._replace(timestamp=append_time_ms)


def check_produced(records: BytesLike | None, next_offset: int = 0) -> CheckedBatch | AppendRefused:
    """The one batch that a producer sends for a partition; the beginning of another one behind it is cut off.

    The buffer belongs to the log from here on; one that cannot be written to is copied. By `next_offset`, which it would get, a
    damaged batch is named.
    """
    if not records:
        return AppendRefused(ErrorCode.INVALID_RECORD, "there is no record batch for the partition")
    view = writable(records)
    batch = _read(view, 0, len(view), True)
    return _refuse_produced(view, next_offset) if batch is None else batch


def checked_in(frame: memoryview, start: int, stop: int) -> CheckedBatch | None:
    """`check_produced` for a stretch of a frame that can be written to. None where something is wrong: ask there."""
    batch = _read(frame, start, stop, True)
    return None if batch is None or batch.size_bytes != stop - start else batch


def check_copied(records: BytesLike) -> list[CheckedBatch] | AppendRefused:
    """The whole batches that a leader sends, as they are. None of them where one is damaged."""
    view = records if type(records) is memoryview else memoryview(records)
    batches: list[CheckedBatch] = []
    position = 0
    end = len(view)
    while end - position >= _HEADER_BYTES:
        batch = _read(view, position, end, False)
        if batch is None:
            break
        batches.append(batch)
        position += batch.size_bytes
    return batches if position == end else _cut_off(view, position, batches)


def built_batch(
    batch: bytearray,
    record_count: int,
    max_timestamp: int,
    producer_id: int = _NO_PRODUCER,
    producer_epoch: int = -1,
    guard: int | None = None,
    marker: EndTransactionMarker | None = None,
) -> CheckedBatch:
    """One whole batch that this node has just made. It says what the other arguments do, and is not looked into.

    With a producer it is in a transaction; with a `marker` it ends one.
    """
    attributes = 0
    if producer_id >= 0:
        attributes = _TRANSACTIONAL_BIT if marker is None else _TRANSACTIONAL_BIT | _CONTROL_BIT
    built = CheckedBatch.__new__(CheckedBatch)
    built.buffer = memoryview(batch)
    built.position = 0
    built.size_bytes = len(batch)
    built.base_offset = 0
    built.leader_epoch = -1
    built.attributes = attributes
    built.last_offset_delta = record_count - 1
    built.max_timestamp = max_timestamp
    built.producer_id = producer_id
    built.producer_epoch = producer_epoch
    built.base_sequence = -1
    built.record_count = record_count
    built.guard = guard
    built.marker = marker
    return built


def batch_in_log(header: BatchHeader) -> CheckedBatch:
    """A batch that lies in a log already, by its header: to go through it again."""
    batch = CheckedBatch.__new__(CheckedBatch)
    batch.buffer = _NOWHERE
    batch.position = 0
    batch.size_bytes = header.size_bytes
    batch.base_offset = header.base_offset
    batch.leader_epoch = header.partition_leader_epoch
    batch.attributes = header.attributes
    batch.last_offset_delta = header.last_offset_delta
    batch.max_timestamp = header.max_timestamp
    batch.producer_id = header.producer_id
    batch.producer_epoch = header.producer_epoch
    batch.base_sequence = header.base_sequence
    batch.record_count = header.record_count
    batch.guard = None
    batch.marker = None
    return batch


def kept_batch(size_bytes: int, last_offset: int, max_timestamp: int) -> CheckedBatch:
    """A batch that compaction keeps, as far as a segment asks: how large it is, where it ends, and how new."""
    batch = CheckedBatch.__new__(CheckedBatch)
    batch.buffer = _NOWHERE
    batch.position = 0
    batch.size_bytes = size_bytes
    batch.base_offset = last_offset
    batch.last_offset_delta = 0
    batch.max_timestamp = max_timestamp
    return batch


def writable(records: BytesLike) -> memoryview:
    """The same bytes where a batch can be given its place; copied if they cannot be changed."""
    view = records if type(records) is memoryview else memoryview(records)
    return memoryview(bytearray(view)) if view.readonly else view


def _read(view: memoryview, position: int, end: int, is_produced: bool) -> CheckedBatch | None:
    """The batch at `position`, if it is whole and in order; a produced one must also be what producers may send."""
    if end - position < _HEADER_BYTES:
        return None
    data = frame_start(view)
    size = int32(data, position + 8) + _BATCH_OVERHEAD
    attributes = int16(data, position + 21)
    delta = int32(data, position + 23)
    offset = int64(data, position)
    count = int32(data, position + 57)
    producer_id = int64(data, position + 43)
    sequence = int32(data, position + 53)
    if (
        size < _HEADER_BYTES
        or size > end - position
        or data[position + 16] != _MAGIC
        or attributes & _CODEC_MASK > _CODEC_MAX
        or delta < 0
        or count < 0
        or offset > _OFFSET_MAX - delta
    ):
        return None
    if is_produced:
        rest = end - position - size
        if (
            offset != 0
            or attributes & _CONTROL_BIT
            or count != delta + 1
            or (producer_id >= 0 and sequence < 0)
            or rest >= _BATCH_OVERHEAD
        ):
            return None
    if crc32c(view[position + _CHECKED_POSITION : position + size]) != uint32(data, position + 17):
        return None
    batch = CheckedBatch.__new__(CheckedBatch)
    batch.buffer = view
    batch.position = position
    batch.size_bytes = size
    batch.base_offset = offset
    batch.leader_epoch = int32(data, position + 12)
    batch.attributes = attributes
    batch.last_offset_delta = delta
    batch.max_timestamp = int64(data, position + 35)
    batch.producer_id = producer_id
    batch.producer_epoch = int16(data, position + 51)
    batch.base_sequence = sequence
    batch.record_count = count
    batch.guard = None
    batch.marker = None
    return batch


def _cut_off(view: memoryview, position: int, batches: list[CheckedBatch]) -> list[CheckedBatch] | AppendRefused:
    """What is there before a batch that is not whole, if that is cut off; else why it is damaged."""
    try:
        for at, header in each_batch(view, position):
            check_batch(view, header, at)
            raise BugError(f"the batch at byte {at} is refused, and nothing is wrong with it: {header}")
    except UnsupportedMagicError as error:
        return AppendRefused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error))
    except CorruptBatchError as error:
        return AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
    return batches


def _refuse_produced(records: memoryview, next_offset: int) -> CheckedBatch | AppendRefused:
    """What is wrong with what a producer has sent. Of a batch that is followed by a part of another one, that batch."""
    try:
        header = read_header(records)
    except CorruptBatchError as error:
        return _refuse_header(records, error)
    if header.size_bytes != len(records):
        refused = refuse_size(records, header.size_bytes)
        if refused is not None:
            return refused
    refused = _refuse_from_client(header)
    if refused is not None:
        return refused
    try:
        check_batch(records, replace(header, base_offset=next_offset))
    except CorruptBatchError as error:
        return AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
    batch = _read(records, 0, header.size_bytes, True)
    if batch is None:
        raise BugError(f"a batch is refused, and nothing is wrong with it: {header}")
    return batch


def _refuse_header(records: memoryview, error: CorruptBatchError) -> AppendRefused:
    """The code of a header that is none."""
    if len(records) <= _MAGIC_POSITION or records[_MAGIC_POSITION] in _OLD_MAGICS:
        return _invalid(str(error))
    if records[_MAGIC_POSITION] == _MAGIC:
        if len(records) < _HEADER_BYTES:
            return _invalid("there is no whole record batch for the partition")
        header = BatchHeader(*_record_batch.HEADER_LAYOUT.unpack_from(records))
        is_whole = _HEADER_BYTES <= header.size_bytes == len(records)
        if is_whole and crc_matches(records, header):
            # What it says of itself cannot be, but that is what its producer has written.
            return _invalid(str(error))
    return AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error))


def refuse_size(records: memoryview, size_bytes: int) -> AppendRefused | None:
    """What is wrong with bytes that are not exactly one batch. None for one and the beginning of another: that is cut off."""
    rest = len(records) - size_bytes
    if rest < 0:
        return _invalid(f"the batch is cut off: {-rest} of its {size_bytes} bytes are missing")
    if rest < _BATCH_OVERHEAD:
        return None
    (length,) = _LENGTH.unpack_from(records, size_bytes + _LENGTH_POSITION)
    if length < _OLD_BATCH_LENGTH_MIN:
        return AppendRefused(
            ErrorCode.CORRUPT_MESSAGE, f"the batch is followed by one that claims a length of {length}"
        )
    if _BATCH_OVERHEAD + length > rest:
        return None
    return _invalid("there may be one record batch for a partition, and another one follows it")


def _refuse_from_client(header: BatchHeader) -> AppendRefused | None:
    """What a producer got wrong in a batch that is whole, as far as its header tells."""
    if header.base_offset != 0:
        return _invalid(f"the base offset of a produced batch must be 0, not {header.base_offset}")
    if header.is_control:
        return _invalid("a producer may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(f"the batch of producer {header.producer_id} has sequence {header.base_sequence}")
    if header.record_count != header.last_offset_delta + 1:
        return _invalid(f"the batch has {header.record_count} records but {header.last_offset_delta + 1} offsets")
    return None


def _invalid(reason: str) -> AppendRefused:
    return AppendRefused(ErrorCode.INVALID_RECORD, reason)
