# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return"
"""The loops that read records: from the bytes of a batch to rows, or to where each field lies.

The types in the annotations are C types to the compiler and nothing to Python. The compiled twin checks no index by itself, so
every read of a batch's bytes is checked here, against the end of what holds it, and both twins refuse the same bytes.

What callers pass besides those bytes is theirs to get right: `tidelog.wire.records` and `tidelog.wire.columns`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.wire.batch_errors import CorruptBatchError

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.wire.record_fields_inline import read_long_varint, read_varint
else:
    from tidelog.wire.record_fields import read_long_varint, read_varint

_INT64_MAX = cython.declare(cython.longlong, 2**63 - 1)
_INT64_MIN = cython.declare(cython.longlong, -_INT64_MAX - 1)

# What `_read_record` finds wrong with a record, as the number that it returns for the record's end.
_BAD_LENGTH = cython.declare(cython.Py_ssize_t, -1)
_BAD_TIMESTAMP = cython.declare(cython.Py_ssize_t, -2)
_BAD_OFFSET = cython.declare(cython.Py_ssize_t, -3)
_BAD_KEY = cython.declare(cython.Py_ssize_t, -4)
_BAD_VALUE = cython.declare(cython.Py_ssize_t, -5)
_BAD_HEADERS = cython.declare(cython.Py_ssize_t, -6)
_BAD_END = cython.declare(cython.Py_ssize_t, -7)

_FAULTS = {
    -1: "its length does not fit into the batch",
    -2: "its timestamp is no number of 64 bits",
    -3: "its offset is out of order or outside of the batch",
    -4: "its key does not fit",
    -5: "its value does not fit",
    -6: "its headers do not fit",
    -7: "bytes are left over behind it",
}


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_record(
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base_timestamp: cython.longlong,
    previous_delta: cython.longlong,
    last_delta: cython.longlong,
) -> tuple[
    cython.Py_ssize_t,
    cython.longlong,
    cython.longlong,
    cython.Py_ssize_t,
    cython.longlong,
    cython.Py_ssize_t,
    cython.longlong,
    cython.Py_ssize_t,
    cython.longlong,
]:
    """Where the record ends, or its fault; timestamp, offset delta, start and length of key and value, and of the headers."""
    timestamp: cython.longlong
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.longlong
    value_start: cython.Py_ssize_t
    value_length: cython.longlong
    headers_start: cython.Py_ssize_t
    header_count: cython.longlong
    length: cython.longlong

    length, position = read_varint(data, position, end)
    # Behind its length a record takes six bytes at least.
    if position < 0 or length < 6 or length > end - position:
        return _BAD_LENGTH, 0, 0, 0, 0, 0, 0, 0, 0
    end = position + length
    # The first byte are the attributes, of which none exist.
    timestamp, position = read_long_varint(data, position + 1, end, 64)
    if (
        position < 0
        or (timestamp > 0 and base_timestamp > _INT64_MAX - timestamp)
        or (timestamp < 0 and base_timestamp < _INT64_MIN - timestamp)
    ):
        return _BAD_TIMESTAMP, 0, 0, 0, 0, 0, 0, 0, 0
    timestamp += base_timestamp
    offset_delta, position = read_varint(data, position, end)
    if position < 0 or offset_delta <= previous_delta or offset_delta > last_delta:
        return _BAD_OFFSET, 0, 0, 0, 0, 0, 0, 0, 0
    key_length, key_start = read_varint(data, position, end)
    if key_start < 0 or key_length < -1 or key_length > end - key_start:
        return _BAD_KEY, 0, 0, 0, 0, 0, 0, 0, 0
    position = key_start + key_length if key_length > 0 else key_start
    value_length, value_start = read_varint(data, position, end)
    if value_start < 0 or value_length < -1 or value_length > end - value_start:
        return _BAD_VALUE, 0, 0, 0, 0, 0, 0, 0, 0
    position = value_start + value_length if value_length > 0 else value_start
    header_count, headers_start = read_varint(data, position, end)
    # A header takes two lengths of one byte each at least.
    if headers_start < 0 or header_count < 0 or 2 * header_count > end - headers_start:
        return _BAD_HEADERS, 0, 0, 0, 0, 0, 0, 0, 0
    position = headers_start
    if header_count:
        position = _pass_headers(data, position, end, header_count)
        if position < 0:
            return _BAD_HEADERS, 0, 0, 0, 0, 0, 0, 0, 0
    if position != end:
        return _BAD_END, 0, 0, 0, 0, 0, 0, 0, 0
    return end, timestamp, offset_delta, key_start, key_length, value_start, value_length, headers_start, header_count


@cython.cfunc
@cython.exceptval(check=False)
def _pass_headers(
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
) -> cython.Py_ssize_t:
    """Where the headers end: -1 where they do not fit. Their keys are never null."""
    length: cython.longlong
    while count > 0:
        length, position = read_varint(data, position, end)
        if position < 0 or length < 0 or length > end - position:
            return -1
        length, position = read_varint(data, position + length, end)
        if position < 0 or length < -1 or length > end - position:
            return -1
        if length > 0:
            position += length
        count -= 1
    return position


@cython.cfunc
def _check_count(base_offset: cython.longlong, count: cython.Py_ssize_t, available: cython.Py_ssize_t) -> cython.int:
    # Seven bytes are the least that a record takes: a count that cannot be true must not decide what is allocated.
    if count < 0 or available < 0 or count > available // 7:
        raise CorruptBatchError(
            f"the batch at offset {base_offset} claims {count} records, more than its {available} bytes can hold"
        )
    return 0


@cython.cfunc
def _damaged(base_offset: cython.longlong, index: cython.Py_ssize_t, fault: cython.Py_ssize_t) -> object:
    return CorruptBatchError(f"record {index} of the batch at offset {base_offset} is damaged: {_FAULTS[fault]}")


@cython.cfunc
def _left_over(base_offset: cython.longlong, bytes_left: cython.Py_ssize_t) -> object:
    return CorruptBatchError(f"{bytes_left} bytes follow the last record of the batch at offset {base_offset}")


def decode_rows(
    row_type: type,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    last_offset_delta: cython.longlong,
    append_time: object,
) -> list[Any]:
    """The records between `start` and `end` of `source`, each as a `row_type`, which is `tuple` or derived from it.

    A row is offset, timestamp, key, value and headers.
    """
    return _decode(
        row_type,
        None,
        None,
        None,
        source,
        start,
        end,
        count,
        base_offset,
        base_timestamp,
        last_offset_delta,
        append_time,
    )


def decode_consumer_rows(
    row_type: Callable[..., object],
    topic: str,
    partition: object,
    timestamp_type: object,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    last_offset_delta: cython.longlong,
    append_time: object,
) -> list[Any]:
    """Like `decode_rows`, as a consumer hands records out.

    A row is made by calling `row_type` with topic, partition, offset, timestamp, timestamp type, key, value and headers.
    """
    return _decode(
        row_type,
        topic,
        partition,
        timestamp_type,
        source,
        start,
        end,
        count,
        base_offset,
        base_timestamp,
        last_offset_delta,
        append_time,
    )


@cython.cfunc
def _decode(
    row_type: Any,
    topic: object,
    partition: object,
    timestamp_type: object,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    last_offset_delta: cython.longlong,
    append_time: object,
) -> list[Any]:
    """Rows for a consumer where there is a topic, and otherwise tuples."""
    data: cython.pointer[cython.const[cython.uchar]]
    index: cython.Py_ssize_t
    position: cython.Py_ssize_t = start
    previous_delta: cython.longlong = -1
    record_end: cython.Py_ssize_t
    record_time: cython.longlong
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.longlong
    value_start: cython.Py_ssize_t
    value_length: cython.longlong
    headers_start: cython.Py_ssize_t
    header_count: cython.longlong
    rows: list[Any]
    _check_count(base_offset, count, end - start)
    if cython.compiled:
        data = cython.address(source[0])
    else:
        # Only bytes give bytes when they are sliced.
        data = bytes(memoryview(source)[start:end])
        position, end = 0, end - start
    rows = [None] * count
    for index in range(count):
        (
            record_end,
            record_time,
            offset_delta,
            key_start,
            key_length,
            value_start,
            value_length,
            headers_start,
            header_count,
        ) = _read_record(data, position, end, base_timestamp, previous_delta, last_offset_delta)
        if record_end < 0:
            raise _damaged(base_offset, index, record_end)
        position = record_end
        previous_delta = offset_delta
        if topic is None:
            row = (
                base_offset + offset_delta,
                record_time if append_time is None else append_time,
                _field(data, key_start, key_length),
                _field(data, value_start, value_length),
                _read_headers(data, headers_start, record_end, header_count) if header_count else (),
            )
            rows[index] = row if row_type is tuple else tuple.__new__(row_type, row)
        else:
            rows[index] = row_type(
                topic,
                partition,
                base_offset + offset_delta,
                record_time if append_time is None else append_time,
                timestamp_type,
                _field(data, key_start, key_length),
                _field(data, value_start, value_length),
                _read_headers(data, headers_start, record_end, header_count) if header_count else (),
            )
    if position != end:
        raise _left_over(base_offset, end - position)
    return rows


@cython.cfunc
@cython.inline
def _field(
    data: cython.pointer[cython.const[cython.uchar]], start: cython.Py_ssize_t, length: cython.longlong
) -> object:
    """A key or a value; None where there is none."""
    return data[start : start + length] if length >= 0 else None


@cython.cfunc
def _read_headers(
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
) -> tuple[object, ...]:
    """Headers that `_pass_headers` has checked. What is not UTF-8 in their keys is replaced, as Kafka's Java clients do."""
    length: cython.longlong
    headers: list[Any] = []
    while count > 0:
        length, position = read_varint(data, position, end)
        key: bytes = data[position : position + length]
        length, position = read_varint(data, position + length, end)
        if length < 0:
            headers.append((key.decode("utf-8", "replace"), None))
        else:
            headers.append((key.decode("utf-8", "replace"), data[position : position + length]))
            position += length
        count -= 1
    return tuple(headers)


def scan_columns(
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    last_offset_delta: cython.longlong,
    append_time: object,
    row: cython.Py_ssize_t,
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    key_spans: cython.int[::1],
    value_spans: cython.int[::1],
    header_spans: cython.int[::1],
) -> int:
    """Note the records between `start` and `end` of `source` from `row` on; returns how many headers they have.

    A span is where a field starts and its length, -1 for null; that of the headers is where they start and their number.
    """
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    headers_total: cython.longlong = 0
    is_append_time: cython.bint = append_time is not None
    batch_time: cython.longlong = append_time if is_append_time else 0
    index: cython.Py_ssize_t
    position: cython.Py_ssize_t = start
    previous_delta: cython.longlong = -1
    record_time: cython.longlong
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.longlong
    value_start: cython.Py_ssize_t
    value_length: cython.longlong
    headers_start: cython.Py_ssize_t
    header_count: cython.longlong
    _check_count(base_offset, count, end - start)
    for index in range(row, row + count):
        (
            position,
            record_time,
            offset_delta,
            key_start,
            key_length,
            value_start,
            value_length,
            headers_start,
            header_count,
        ) = _read_record(data, position, end, base_timestamp, previous_delta, last_offset_delta)
        if position < 0:
            raise _damaged(base_offset, index - row, position)
        previous_delta = offset_delta
        offsets[index] = base_offset + offset_delta
        timestamps[index] = batch_time if is_append_time else record_time
        key_spans[2 * index] = key_start
        key_spans[2 * index + 1] = key_length
        value_spans[2 * index] = value_start
        value_spans[2 * index + 1] = value_length
        header_spans[2 * index] = headers_start
        header_spans[2 * index + 1] = header_count
        headers_total += header_count
    if position != end:
        raise _left_over(base_offset, end - position)
    return headers_total


def measure_spans(spans: cython.const[cython.int][::1], validity: cython.uchar[::1]) -> tuple[int, int]:
    """Set the bit of each span that is not null in `validity`, all zeros before; returns the nulls and the bytes of the rest."""
    nulls: cython.Py_ssize_t = 0
    total: cython.longlong = 0
    length: cython.int
    index: cython.Py_ssize_t
    for index in range(len(spans) // 2):
        length = spans[2 * index + 1]
        if length < 0:
            nulls += 1
        else:
            validity[index >> 3] |= 1 << (index & 7)
            total += length
    return nulls, total


def gather_spans(
    spans: cython.const[cython.int][::1],
    source: cython.const[cython.uchar][::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    offsets: cython.int[::1],
    out: cython.uchar[::1],
) -> None:
    """Copy the fields of rows `first` to `last` out of `source`, one behind the other; `offsets[first]` says where to begin."""
    position: cython.int = offsets[first]
    start: cython.int
    length: cython.int
    index: cython.Py_ssize_t
    for index in range(first, last):
        start = spans[2 * index]
        length = spans[2 * index + 1]
        if length > 0:
            if cython.compiled:
                memcpy(cython.address(out[position]), cython.address(source[start]), length)
            else:
                out[position : position + length] = source[start : start + length]
            position += length
        offsets[index + 1] = position


def view_spans(
    spans: cython.const[cython.int][::1],
    source: cython.const[cython.uchar][::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    buffer_index: cython.int,
    words: cython.int[::1],
    octets: cython.uchar[::1],
) -> None:
    """Write Arrow's 16-byte view of each of rows `first` to `last`; `words` and `octets` are the same memory.

    A view is the length and, up to 12 bytes, the field itself; beyond, its first 4 bytes, the buffer and the position in it.
    """
    start: cython.int
    length: cython.int
    copied: cython.int
    index: cython.Py_ssize_t
    for index in range(first, last):
        start = spans[2 * index]
        length = spans[2 * index + 1]
        words[4 * index] = max(0, length)
        words[4 * index + 1] = 0
        words[4 * index + 2] = 0
        words[4 * index + 3] = 0
        if length <= 0:
            continue
        copied = length
        if length > 12:
            copied = 4
            words[4 * index + 2] = buffer_index
            words[4 * index + 3] = start
        if cython.compiled:
            memcpy(cython.address(octets[16 * index + 4]), cython.address(source[start]), copied)
        else:
            octets[16 * index + 4 : 16 * index + 4 + copied] = source[start : start + copied]


def scan_headers(
    source: cython.const[cython.uchar][::1],
    header_spans: cython.const[cython.int][::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    list_offsets: cython.int[::1],
    key_spans: cython.int[::1],
    value_spans: cython.int[::1],
) -> None:
    """Note the headers of rows `first` to `last`, which `scan_columns` has checked, from number `list_offsets[first]` on."""
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    end: cython.Py_ssize_t = len(source)
    position: cython.Py_ssize_t
    length: cython.longlong
    header: cython.Py_ssize_t = list_offsets[first]
    index: cython.Py_ssize_t
    for index in range(first, last):
        position = header_spans[2 * index]
        list_offsets[index + 1] = header + header_spans[2 * index + 1]
        while header < list_offsets[index + 1]:
            length, position = read_varint(data, position, end)
            key_spans[2 * header] = position
            key_spans[2 * header + 1] = length
            length, position = read_varint(data, position + length, end)
            value_spans[2 * header] = position
            value_spans[2 * header + 1] = length
            if length > 0:
                position += length
            header += 1
