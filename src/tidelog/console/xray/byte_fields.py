"""The fields of a batch and its records, each with the bytes that it takes. Pure.

    fields_of(batch)      [Field("baseOffset", 0, 8, 42, "the offset of the first record"), ...]

A batch whose records are compressed has one field for all of them. Kafka's names, as `wire.record_batch` draws the layout.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import HEADER_BYTES, BatchHeader, read_header

# Records whose fields are told one by one; a person reads no more.
RECORDS_MAX = 200
_VARINT_BYTES_MAX = 10


class Field(NamedTuple):
    name: str
    start: int
    end: int
    """Behind the last byte."""
    value: str
    meaning: str
    record: int | None = None
    """The number of the record within the batch; None for the batch's own fields."""


_HEADER = (
    ("baseOffset", 0, 8, "base_offset", "the offset of the first record; set by the leader, outside of the checksum"),
    ("batchLength", 8, 12, "batch_length", "bytes from here on"),
    ("partitionLeaderEpoch", 12, 16, "partition_leader_epoch", "the epoch of the leader that appended it"),
    ("magic", 16, 17, "magic", "the version of the format"),
    ("crc", 17, 21, "crc", "CRC-32C of everything behind it"),
    ("attributes", 21, 23, "attributes", "codec, timestamp type, transactional, control"),
    ("lastOffsetDelta", 23, 27, "last_offset_delta", "the last record's offset, counted from baseOffset"),
    ("baseTimestamp", 27, 35, "base_timestamp", "of the first record, in milliseconds since 1970"),
    ("maxTimestamp", 35, 43, "max_timestamp", "the largest of all records"),
    ("producerId", 43, 51, "producer_id", "the idempotent producer; -1 for none"),
    ("producerEpoch", 51, 53, "producer_epoch", "which of its lives; an older one is fenced"),
    (
        "baseSequence",
        53,
        57,
        "base_sequence",
        "the first record's number by its producer: a batch sent twice is known by it",
    ),
    ("recordsCount", 57, 61, "record_count", "how many records follow"),
)


def fields_of(batch: bytes) -> list[Field]:
    """Of a whole batch, or of one that is cut off: then of what is there. CorruptBatchError where it has no header."""
    header = read_header(batch)
    fields = [
        Field(name, start, end, _shown(header, attribute), meaning) for name, start, end, attribute, meaning in _HEADER
    ]
    if header.codec is not Compression.NONE:
        size = header.size_bytes - HEADER_BYTES
        meaning = f"{header.record_count} records, compressed as a whole"
        end = min(len(batch), header.size_bytes)
        fields.append(Field("records", HEADER_BYTES, end, f"{size} bytes of {header.codec.name.lower()}", meaning))
        return fields
    position = HEADER_BYTES
    for index in range(min(header.record_count, RECORDS_MAX)):
        try:
            position = _record(batch, position, index, header, fields)
        except (IndexError, CorruptBatchError):
            break
    return fields


def _shown(header: BatchHeader, attribute: str) -> str:
    value = getattr(header, attribute)
    if attribute == "crc":
        return f"{value:#010x}"
    if attribute == "attributes":
        words = [header.codec.name.lower(), header.timestamp_type.name.lower()]
        words += ["transactional"] if header.is_transactional else []
        words += ["control"] if header.is_control else []
        return f"{value:#06x} ({', '.join(words)})"
    return str(value)


def _record(batch: bytes, position: int, index: int, header: BatchHeader, fields: list[Field]) -> int:
    """Add the fields of one record. Where the next one begins; IndexError where the bytes end before."""
    found: list[Field] = []

    def varint(name: str, meaning: str) -> int:
        nonlocal position
        value, end = _varint(batch, position)
        found.append(Field(name, position, end, str(value), meaning, index))
        position = end
        return value

    def block(name: str, size: int, meaning: str) -> None:
        nonlocal position
        if size < 0:
            return
        end = position + size
        if end > len(batch):
            raise IndexError
        found.append(Field(name, position, end, f"{size} bytes", meaning, index))
        position = end

    length = varint("length", "bytes of the record from here on")
    following = position + length
    found.append(Field("attributes", position, position + 1, str(batch[position]), "unused", index))
    position += 1
    delta = varint("timestampDelta", "counted from baseTimestamp")
    found[-1] = found[-1]._replace(meaning=f"counted from baseTimestamp: {header.base_timestamp + delta}")
    delta = varint("offsetDelta", "counted from baseOffset")
    found[-1] = found[-1]._replace(meaning=f"counted from baseOffset: offset {header.base_offset + delta}")
    block("key", varint("keyLength", "-1 for null"), "the key")
    block("value", varint("valueLength", "-1 for null, a tombstone where the topic is compacted"), "the value")
    count = varint("headersCount", "how many headers follow")
    for _ in range(count):
        if position >= following:
            raise CorruptBatchError("the headers of a record run over its end")
        block("headerKey", varint("headerKeyLength", "of the header's name"), "the header's name")
        block("headerValue", varint("headerValueLength", "-1 for null"), "the header's value")
    fields += found
    return following


def _varint(batch: bytes, position: int) -> tuple[int, int]:
    bits = shift = 0
    for _ in range(_VARINT_BYTES_MAX):
        byte = batch[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), position
        shift += 7
    raise CorruptBatchError("a number of a record has no end")
