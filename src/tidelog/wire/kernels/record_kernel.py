# mypy: disable-error-code="untyped-decorator"
"""The hot loops over the records inside a batch. Runs as plain Python; `setup.py` also compiles it, as `_record_kernel`.

The types in the annotations are C types to the compiler and nothing to Python. Every read is checked against the end of what it
reads, here and not by the compiler, so that both twins refuse the same bytes. The callers, `tidelog.wire.records` and
`tidelog.wire.columns`, hold the contracts; what they pass in is theirs to get right, except for the bytes of a batch.
"""

from __future__ import annotations

from tidelog.wire.batch_errors import CorruptBatchError

try:
    import cython
except ImportError:
    from tidelog.wire.kernels import _plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.ref import Py_INCREF
    from cython.cimports.cpython.tuple import PyTuple_SET_ITEM
    from cython.cimports.cpython.type import PyType_GenericAlloc
    from cython.cimports.libc.string import memcpy

# Length, attributes, two deltas, two lengths and a header count, of one byte each.
RECORD_BYTES_MIN = 7
# Two lengths of one byte each.
HEADER_BYTES_MIN = 2

_INT64_MAX = cython.declare(cython.longlong, 2**63 - 1)
_INT64_MIN = cython.declare(cython.longlong, -(2**63))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_varint(
    data: cython.pointer[cython.const[cython.uchar]], position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """A zigzag number of at most 32 bits and where it ends: -1 where there is none."""
    byte: cython.ulonglong
    bits: cython.ulonglong
    shift: cython.int
    if position >= end:
        return 0, -1
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    bits = byte & 0x7F
    shift = 7
    while position < end and shift < 35:
        byte = data[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            if bits > 0xFFFFFFFF:
                return 0, -1
            return (bits >> 1) ^ -(bits & 1), position
        shift += 7
    return 0, -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_varlong(
    data: cython.pointer[cython.const[cython.uchar]], position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """A zigzag number of at most 64 bits and where it ends: -1 where there is none."""
    byte: cython.ulonglong
    bits: cython.ulonglong = 0
    shift: cython.int = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 63 and byte > 1:
                return 0, -1
            return (bits >> 1) ^ -(bits & 1), position
        shift += 7
    return 0, -1


@cython.final
@cython.cclass
class RecordCursor:
    """Steps through the records of one batch. After `advance` its fields describe the record under it."""

    data: cython.pointer[cython.const[cython.uchar]]
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    index: cython.Py_ssize_t
    base_offset: cython.longlong
    base_timestamp: cython.longlong
    last_offset_delta: cython.longlong
    offset_delta: cython.longlong
    timestamp: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.Py_ssize_t
    value_start: cython.Py_ssize_t
    value_length: cython.Py_ssize_t
    headers_start: cython.Py_ssize_t
    header_count: cython.Py_ssize_t

    @cython.cfunc
    def advance(self) -> cython.int:
        data: cython.pointer[cython.const[cython.uchar]] = self.data
        position: cython.Py_ssize_t = self.position
        end: cython.Py_ssize_t = self.end
        number: cython.longlong
        length: cython.longlong
        self.index += 1
        length, position = _read_varint(data, position, end)
        if position < 0 or length < RECORD_BYTES_MIN - 1 or length > end - position:
            raise self.corrupt("its length does not fit into the batch")
        end = position + length
        # The attributes of a record mean nothing yet.
        number, position = _read_varlong(data, position + 1, end)
        if position < 0:
            raise self.corrupt("its timestamp delta is no number")
        if (number > 0 and self.base_timestamp > _INT64_MAX - number) or (
            number < 0 and self.base_timestamp < _INT64_MIN - number
        ):
            raise self.corrupt("its timestamp is beyond what 64 bits hold")
        self.timestamp = self.base_timestamp + number
        number, position = _read_varint(data, position, end)
        if position < 0 or number <= self.offset_delta or number > self.last_offset_delta:
            raise self.corrupt("its offset is out of order or outside of the batch")
        self.offset_delta = number
        length, position = _read_varint(data, position, end)
        if position < 0 or length < -1 or length > end - position:
            raise self.corrupt("its key does not fit")
        self.key_start = position
        self.key_length = length
        if length > 0:
            position += length
        length, position = _read_varint(data, position, end)
        if position < 0 or length < -1 or length > end - position:
            raise self.corrupt("its value does not fit")
        self.value_start = position
        self.value_length = length
        if length > 0:
            position += length
        number, position = _read_varint(data, position, end)
        if position < 0 or number < 0 or number > (end - position) // HEADER_BYTES_MIN:
            raise self.corrupt("its header count does not fit")
        self.headers_start = position
        self.header_count = number
        while number > 0:
            length, position = _read_varint(data, position, end)
            if position < 0 or length < 0 or length > end - position:
                raise self.corrupt("the key of a header does not fit")
            length, position = _read_varint(data, position + length, end)
            if position < 0 or length < -1 or length > end - position:
                raise self.corrupt("the value of a header does not fit")
            if length > 0:
                position += length
            number -= 1
        if position != end:
            raise self.corrupt("bytes are left over behind it")
        self.position = position
        return 0

    @cython.cfunc
    def corrupt(self, what: str) -> object:
        return CorruptBatchError(f"record {self.index} of the batch at offset {self.base_offset} is damaged: {what}")


@cython.cfunc
def _cursor(
    end: cython.Py_ssize_t,
    position: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    last_offset_delta: cython.longlong,
) -> RecordCursor:
    if count > (end - position) // RECORD_BYTES_MIN:
        raise CorruptBatchError(
            f"the batch at offset {base_offset} claims {count} records, more than its {end - position} bytes can hold"
        )
    cursor: RecordCursor = RecordCursor()
    cursor.position = position
    cursor.end = end
    cursor.index = -1
    cursor.base_offset = base_offset
    cursor.base_timestamp = base_timestamp
    cursor.last_offset_delta = last_offset_delta
    cursor.offset_delta = -1
    return cursor


@cython.cfunc
def _check_end(cursor: RecordCursor) -> cython.int:
    if cursor.position != cursor.end:
        raise CorruptBatchError(
            f"{cursor.end - cursor.position} bytes follow the last record of the batch at offset {cursor.base_offset}"
        )
    return 0


def decode_rows(
    row_type: type,
    source: object,
    count: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    last_offset_delta: cython.longlong,
    append_time: object,
) -> list[object]:
    """The records in `source`, each as a `row_type`: a tuple of offset, timestamp, key, value and headers."""
    view: cython.const[cython.uchar][::1]
    data: cython.pointer[cython.const[cython.uchar]]
    cursor: RecordCursor
    rows: list
    index: cython.Py_ssize_t
    if cython.compiled:
        view = source
        cursor = _cursor(view.shape[0], 0, count, base_offset, base_timestamp, last_offset_delta)
        if count == 0:
            _check_end(cursor)
            return []
        data = cython.address(view[0])
    else:
        data = bytes(source)
        cursor = _cursor(len(data), 0, count, base_offset, base_timestamp, last_offset_delta)
    cursor.data = data
    rows = []
    for index in range(count):
        cursor.advance()
        key = data[cursor.key_start : cursor.key_start + cursor.key_length] if cursor.key_length >= 0 else None
        value = (
            data[cursor.value_start : cursor.value_start + cursor.value_length] if cursor.value_length >= 0 else None
        )
        headers = _read_headers(cursor) if cursor.header_count else ()
        timestamp = cursor.timestamp if append_time is None else append_time
        rows.append(_row(row_type, base_offset + cursor.offset_delta, timestamp, key, value, headers))
    _check_end(cursor)
    return rows


@cython.cfunc
@cython.inline
def _row(row_type: type, offset: object, timestamp: object, key: object, value: object, headers: tuple) -> object:
    if cython.compiled:
        # What calling the type comes to, without the tuple of arguments and the copy of it.
        row: object = PyType_GenericAlloc(row_type, 5)
        Py_INCREF(offset)
        PyTuple_SET_ITEM(row, 0, offset)
        Py_INCREF(timestamp)
        PyTuple_SET_ITEM(row, 1, timestamp)
        Py_INCREF(key)
        PyTuple_SET_ITEM(row, 2, key)
        Py_INCREF(value)
        PyTuple_SET_ITEM(row, 3, value)
        Py_INCREF(headers)
        PyTuple_SET_ITEM(row, 4, headers)
        return row
    return tuple.__new__(row_type, (offset, timestamp, key, value, headers))


@cython.cfunc
def _read_headers(cursor: RecordCursor) -> tuple:
    """The headers of the record under the cursor, which has checked them. Keys are text, as Java reads it."""
    data: cython.pointer[cython.const[cython.uchar]] = cursor.data
    position: cython.Py_ssize_t = cursor.headers_start
    end: cython.Py_ssize_t = cursor.end
    length: cython.longlong
    headers: list = []
    index: cython.Py_ssize_t
    for index in range(cursor.header_count):
        length, position = _read_varint(data, position, end)
        key_bytes: bytes = data[position : position + length]
        length, position = _read_varint(data, position + length, end)
        if length < 0:
            headers.append((key_bytes.decode("utf-8", "replace"), None))
        else:
            headers.append((key_bytes.decode("utf-8", "replace"), data[position : position + length]))
            position += length
    return tuple(headers)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint_bytes(number: cython.longlong) -> cython.Py_ssize_t:
    """How many bytes the zigzag form of `number` takes."""
    bits: cython.ulonglong = (number << 1) ^ (number >> 63)
    size: cython.Py_ssize_t = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _write_varint(
    out: cython.pointer[cython.uchar], position: cython.Py_ssize_t, number: cython.longlong
) -> cython.Py_ssize_t:
    """Write the zigzag form of `number` and return where it ends. There is room: the caller has measured."""
    bits: cython.ulonglong = (number << 1) ^ (number >> 63)
    while bits >= 0x80:
        out[position] = (bits & 0x7F) | 0x80
        bits >>= 7
        position += 1
    out[position] = bits
    return position + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _write_bytes(out: cython.pointer[cython.uchar], position: cython.Py_ssize_t, data: bytes) -> cython.Py_ssize_t:
    length: cython.Py_ssize_t = len(data)
    if cython.compiled:
        memcpy(out + position, cython.cast(cython.p_char, data), length)
    else:
        out[position : position + length] = data
    return position + length


@cython.cfunc
@cython.inline
def _field_bytes(field: object) -> cython.Py_ssize_t:
    """What a key or a value takes, with its length before it."""
    if field is None:
        return 1
    if not isinstance(field, bytes):
        raise TypeError(f"keys and values are bytes or None, not {type(field).__name__}")
    length: cython.Py_ssize_t = len(field)
    return _varint_bytes(length) + length


@cython.cfunc
@cython.inline
def _timestamp_delta(timestamp: cython.longlong, base_timestamp: cython.longlong) -> cython.longlong:
    if (base_timestamp < 0 and timestamp > _INT64_MAX + base_timestamp) or (
        base_timestamp > 0 and timestamp < _INT64_MIN + base_timestamp
    ):
        raise ValueError(f"the timestamps {base_timestamp} and {timestamp} are too far apart for one batch")
    return timestamp - base_timestamp


@cython.cfunc
def _header_block(headers: object) -> bytes:
    """The headers of one record as on the wire, their count before them."""
    block = bytearray()
    _append_varint(block, len(headers))
    for key, value in headers:
        key_bytes: bytes = key.encode()
        _append_varint(block, len(key_bytes))
        block += key_bytes
        if value is None:
            _append_varint(block, -1)
        else:
            _field_bytes(value)
            _append_varint(block, len(value))
            block += value
    return bytes(block)


@cython.cfunc
def _append_varint(out: bytearray, number: cython.longlong) -> cython.int:
    bits: cython.ulonglong = (number << 1) ^ (number >> 63)
    while bits >= 0x80:
        out.append((bits & 0x7F) | 0x80)
        bits >>= 7
    out.append(bits)
    return 0


def encode_rows(
    rows: list, prefix_bytes: cython.Py_ssize_t, base_offset: cython.longlong, base_timestamp: cython.longlong
) -> tuple[bytearray, int]:
    """The records behind `prefix_bytes` of room for a header, and the largest timestamp.

    Raises ValueError where offsets do not rise within 31 bits from `base_offset`, or timestamps are too far apart.
    """
    target: cython.uchar[::1]
    out: cython.pointer[cython.uchar]
    position: cython.Py_ssize_t
    body: cython.Py_ssize_t
    index: cython.Py_ssize_t
    offset_delta: cython.longlong
    previous_delta: cython.longlong = -1
    timestamp: cython.longlong
    timestamp_delta: cython.longlong
    max_timestamp: cython.longlong = -1
    # Two passes: what a record takes stands before it, and the whole is allocated once.
    plans: list = []
    size: cython.Py_ssize_t = prefix_bytes
    for offset, stamp, key, value, headers in rows:
        if not base_offset <= offset <= base_offset + 0x7FFFFFFF or offset - base_offset <= previous_delta:
            raise ValueError(f"offset {offset} does not rise from the one before it, or is too far from {base_offset}")
        if not _INT64_MIN <= stamp <= _INT64_MAX:
            raise ValueError(f"the timestamp {stamp} does not fit into 64 bits")
        offset_delta = previous_delta = offset - base_offset
        timestamp = stamp
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        timestamp_delta = _timestamp_delta(timestamp, base_timestamp)
        block = _header_block(headers) if headers else b"\0"
        body = (
            1
            + _varint_bytes(timestamp_delta)
            + _varint_bytes(offset_delta)
            + _field_bytes(key)
            + _field_bytes(value)
            + len(block)
        )
        size += _varint_bytes(body) + body
        plans.append((body, timestamp_delta, offset_delta, block))
    result = bytearray(size)
    if cython.compiled:
        if size == 0:
            return result, max_timestamp
        target = result
        out = cython.address(target[0])
    else:
        out = result
    position = prefix_bytes
    for index in range(len(rows)):
        body, timestamp_delta, offset_delta, block = plans[index]
        row = rows[index]
        position = _write_varint(out, position, body)
        # The attributes, of which none exist.
        out[position] = 0
        position = _write_varint(out, position + 1, timestamp_delta)
        position = _write_varint(out, position, offset_delta)
        position = _write_field(out, position, row[2])
        position = _write_field(out, position, row[3])
        position = _write_bytes(out, position, block)
    return result, max_timestamp


@cython.cfunc
@cython.inline
def _write_field(out: cython.pointer[cython.uchar], position: cython.Py_ssize_t, field: object) -> cython.Py_ssize_t:
    if field is None:
        out[position] = 1
        return position + 1
    return _write_bytes(out, _write_varint(out, position, len(field)), field)
