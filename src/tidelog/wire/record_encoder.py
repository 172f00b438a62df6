# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return"
"""The loops that write records: from rows, or from Arrow's columns, to the bytes of a batch.

The types in the annotations are C types to the compiler and nothing to Python. What a record takes stands before it, so each is
measured before it is written; the compiled twin checks no index by itself, and nothing may change in between.

`tidelog.wire.records` and `tidelog.wire.columns` hold the contracts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.cpython.tuple import PyTuple_GET_ITEM
    from cython.cimports.tidelog.wire.record_fields_inline import put_bytes, put_piece, put_varint, varint, varint_bytes
else:
    from tidelog.wire.record_fields import put_bytes, put_piece, put_varint, varint, varint_bytes

_INT64_MAX = cython.declare(cython.longlong, 2**63 - 1)
_INT64_MIN = cython.declare(cython.longlong, -_INT64_MAX - 1)


@cython.cfunc
@cython.inline
def _write_field(out: cython.pointer[cython.uchar], position: cython.Py_ssize_t, field: object) -> cython.Py_ssize_t:
    if field is None:
        out[position] = 1
        return position + 1
    data: bytes = _bytes_of(field)
    return put_bytes(out, put_varint(out, position, len(data)), data)


@cython.cfunc
@cython.inline
def _field_bytes(field: object) -> cython.Py_ssize_t:
    """What a key or a value takes, with its length before it."""
    if field is None:
        return 1
    length: cython.Py_ssize_t = len(_bytes_of(field))
    return varint_bytes(length) + length


@cython.cfunc
@cython.inline
def _bytes_of(field: object) -> bytes:
    if type(field) is bytes:
        return field
    if not isinstance(field, bytes):
        raise TypeError(f"keys and values are bytes or None, not {type(field).__name__}")
    # Of a derived type, as numpy has one: to the compiler that is none of its own.
    return bytes(field)


@cython.cfunc
@cython.inline
def _row_of(row: object) -> object:
    if not isinstance(row, tuple) or len(row) != 5:
        raise TypeError("a row is a tuple of offset, timestamp, key, value and headers")
    return row


@cython.cfunc
@cython.inline
def _offset_delta(
    offset: cython.longlong, base_offset: cython.longlong, previous_delta: cython.longlong
) -> cython.longlong:
    if offset < base_offset or offset - base_offset > 0x7FFFFFFF or offset - base_offset <= previous_delta:
        raise ValueError(f"offset {offset} does not rise from the one before it, or is too far from {base_offset}")
    return offset - base_offset


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=True)
def _timestamp_delta(timestamp: cython.longlong, base_timestamp: cython.longlong) -> cython.longlong:
    if (base_timestamp < 0 and timestamp > _INT64_MAX + base_timestamp) or (
        base_timestamp > 0 and timestamp < _INT64_MIN + base_timestamp
    ):
        raise ValueError(f"the timestamps {base_timestamp} and {timestamp} are too far apart for one batch")
    return timestamp - base_timestamp


@cython.cfunc
def _header_block(headers: tuple[tuple[Any, Any], ...]) -> bytes:
    """The headers of one record as on the wire, their count before them."""
    # Not declared as str and bytes: the compiler would refuse what is derived from them.
    parts = [varint(len(headers))]
    for key, value in headers:
        key_bytes = key.encode()
        parts += (varint(len(key_bytes)), key_bytes)
        if value is None:
            parts.append(b"\1")
        else:
            value_bytes = _bytes_of(value)
            parts += (varint(len(value_bytes)), value_bytes)
    return b"".join(parts)


@cython.cfunc
@cython.inline
def _item(row: object, index: cython.Py_ssize_t) -> object:
    """`row[index]` without asking what kind of a tuple it is."""
    return cython.cast(object, PyTuple_GET_ITEM(row, index))


def encode_rows(
    rows: list[Any],
    prefix_bytes: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
) -> tuple[bytearray, int]:
    """The records behind `prefix_bytes` of room for a header, and the largest timestamp.

    Raises ValueError where offsets do not rise within 31 bits from `base_offset`, or timestamps are too far apart.
    """
    if not cython.compiled:
        return _join_rows(rows, prefix_bytes, base_offset, base_timestamp)
    max_timestamp: cython.longlong = -1
    previous_delta: cython.longlong = -1
    # Two passes: what a record takes stands before it, and the whole is allocated once.
    bodies: list[int] = []
    blocks: dict[int, bytes] = {}
    size: cython.Py_ssize_t = prefix_bytes
    index: cython.Py_ssize_t
    body: cython.Py_ssize_t
    delta: cython.longlong
    timestamp: cython.longlong
    for index in range(len(rows)):
        row: object = _row_of(rows[index])
        delta = _offset_delta(_item(row, 0), base_offset, previous_delta)
        previous_delta = delta
        timestamp = _item(row, 1)
        max_timestamp = max(max_timestamp, timestamp)
        body = 1 + varint_bytes(_timestamp_delta(timestamp, base_timestamp)) + varint_bytes(delta)
        body += _field_bytes(_item(row, 2)) + _field_bytes(_item(row, 3))
        if _item(row, 4):
            blocks[index] = _header_block(_item(row, 4))
            body += len(blocks[index])
        else:
            body += 1
        size += varint_bytes(body) + body
        bodies.append(body)
    result = bytearray(size)
    if size == 0:
        return result, max_timestamp
    target: cython.uchar[::1] = result
    out: cython.pointer[cython.uchar] = cython.address(target[0])
    position: cython.Py_ssize_t = prefix_bytes
    for index in range(len(rows)):
        row = rows[index]
        body = bodies[index]
        position = put_varint(out, position, body)
        # The attributes, of which none exist.
        out[position] = 0
        timestamp = _item(row, 1)
        position = put_varint(out, position + 1, timestamp - base_timestamp)
        delta = _item(row, 0)
        position = put_varint(out, position, delta - base_offset)
        position = _write_field(out, position, _item(row, 2))
        position = _write_field(out, position, _item(row, 3))
        if _item(row, 4):
            position = put_bytes(out, position, blocks[index])
        else:
            out[position] = 0
            position += 1
    return result, max_timestamp


def _join_rows(rows: list[Any], prefix_bytes: int, base_offset: int, base_timestamp: int) -> tuple[bytearray, int]:
    """What `encode_rows` does, in the way that is fast in plain Python: joining bytes, not setting them one by one."""
    out = bytearray(prefix_bytes)
    max_timestamp = -1
    delta = -1
    for row in rows:
        offset, timestamp, key, value, headers = _row_of(row)
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise OverflowError(f"the timestamp {timestamp} does not fit into 64 bits")
        max_timestamp = max(max_timestamp, timestamp)
        delta = _offset_delta(offset, base_offset, delta)
        body = b"".join(
            (
                b"\0",
                _short_varint(_timestamp_delta(timestamp, base_timestamp)),
                _short_varint(delta),
                b"\1" if key is None else _short_varint(len(_bytes_of(key))) + key,
                b"\1" if value is None else _short_varint(len(_bytes_of(value))) + value,
                _header_block(headers) if headers else b"\0",
            )
        )
        out += _short_varint(len(body))
        out += body
    return out, max_timestamp


_SHORT_VARINTS: list[bytes] = [] if cython.compiled else [varint(number) for number in range(1024)]


def _short_varint(number: int) -> bytes:
    return _SHORT_VARINTS[number] if 0 <= number < 1024 else varint(number)


@cython.final
@cython.cclass
class BinaryColumn:
    """`count` rows of an Arrow binary or large_binary array from its row `first` on: offsets into data, a bit for each value."""

    # The pointers are what the loops use; the views keep the memory. Offsets are of 32 bits or, `is_large`, of 64.
    small_view: cython.const[cython.int][::1]
    large_view: cython.const[cython.longlong][::1]
    data_view: cython.const[cython.uchar][::1]
    validity_view: cython.const[cython.uchar][::1]
    small: cython.pointer[cython.const[cython.int]]
    large: cython.pointer[cython.const[cython.longlong]]
    data: cython.pointer[cython.const[cython.uchar]]
    validity: cython.pointer[cython.const[cython.uchar]]
    is_large: cython.bint
    has_nulls: cython.bint
    first: cython.Py_ssize_t
    count: cython.Py_ssize_t

    def __init__(
        self,
        offsets: memoryview,
        data: cython.const[cython.uchar][::1],
        validity: object,
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
    ) -> None:
        index: cython.Py_ssize_t
        falls: cython.bint = False
        # Arrow does not check what it is given; what is copied from here must lie within the data.
        if first < 0 or count < 0 or first + count >= len(offsets):
            raise ValueError("the Arrow array is shorter than it says")
        self.is_large = offsets.itemsize == 8
        self.has_nulls = validity is not None
        self.data_view = data
        self.validity_view = data if validity is None else validity
        self.first = first
        self.count = count
        if cython.compiled:
            if self.is_large:
                self.large_view = offsets
                self.large = cython.address(self.large_view[0])
            else:
                self.small_view = offsets
                self.small = cython.address(self.small_view[0])
            self.data = cython.address(self.data_view[0])
            self.validity = cython.address(self.validity_view[0])
        else:
            self.small = self.large = offsets
            self.data, self.validity = data, self.validity_view
        if self.has_nulls and len(self.validity_view) * 8 < first + count:
            raise ValueError("the validity bits of the Arrow array are shorter than it says")
        # Without a way out in the middle, which makes it a loop of a few instructions for many rows.
        if self.is_large:
            for index in range(first, first + count):
                falls |= self.large[index] > self.large[index + 1]
        else:
            for index in range(first, first + count):
                falls |= self.small[index] > self.small[index + 1]
        if falls:
            raise ValueError("the offsets of the Arrow array do not rise")
        if self.start(0) < 0 or self.start(count) > len(data):
            raise ValueError("the offsets of the Arrow array point outside of its data")

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def start(self, row: cython.Py_ssize_t) -> cython.longlong:
        """Where the value in `row` starts, which is where the one before it ends."""
        return self.large[self.first + row] if self.is_large else self.small[self.first + row]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _length(column: BinaryColumn | None, row: cython.Py_ssize_t) -> cython.longlong:
    """Of the value in `row`; -1 for null. No column is all null."""
    at: cython.Py_ssize_t
    if column is None:
        return -1
    if column.has_nulls:
        at = column.first + row
        if not (column.validity[at >> 3] >> (at & 7)) & 1:
            return -1
    return column.start(row + 1) - column.start(row)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _size(length: cython.longlong) -> cython.longlong:
    """What a value of this length takes in a record, its length before it."""
    return varint_bytes(length) + length if length > 0 else 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _write_value(
    out: cython.pointer[cython.uchar],
    position: cython.Py_ssize_t,
    column: BinaryColumn | None,
    row: cython.Py_ssize_t,
    length: cython.longlong,
) -> cython.Py_ssize_t:
    start: cython.longlong
    position = put_varint(out, position, length)
    if column is None or length <= 0:
        return position
    start = column.start(row)
    return put_piece(out, position, column.data, start, start + length)


@cython.cfunc
def _bytes_from(column: BinaryColumn | None, row: cython.Py_ssize_t) -> cython.longlong:
    """The bytes of all values from `row` on."""
    return 0 if column is None else column.start(column.count) - column.start(row)


@cython.final
@cython.cclass
class RecordColumns:
    """The columns of records that are to be encoded. Keys, values and headers can be absent; all have as many rows."""

    count: cython.Py_ssize_t
    keys: BinaryColumn | None
    values: BinaryColumn | None
    header_keys: BinaryColumn | None
    header_values: BinaryColumn | None
    has_headers: cython.bint
    # The pointers are what the loops use; the views keep the memory.
    timestamps_view: cython.const[cython.longlong][::1]
    header_offsets_view: cython.const[cython.longlong][::1]
    timestamps: cython.pointer[cython.const[cython.longlong]]
    header_offsets: cython.pointer[cython.const[cython.longlong]]

    def __init__(
        self,
        timestamps: cython.const[cython.longlong][::1],
        keys: BinaryColumn | None,
        values: BinaryColumn | None,
        header_offsets: object = None,
        header_keys: BinaryColumn | None = None,
        header_values: BinaryColumn | None = None,
    ) -> None:
        self.count = len(timestamps)
        self.keys = keys
        self.values = values
        self.header_keys = header_keys
        self.header_values = header_values
        self.has_headers = header_offsets is not None
        self.timestamps_view = timestamps
        self.header_offsets_view = timestamps if header_offsets is None else header_offsets
        if cython.compiled:
            self.timestamps = cython.address(self.timestamps_view[0])
            self.header_offsets = cython.address(self.header_offsets_view[0])
        else:
            self.timestamps, self.header_offsets = self.timestamps_view, self.header_offsets_view
        if (keys is not None and keys.count != self.count) or (values is not None and values.count != self.count):
            raise ValueError("the columns differ in length")
        if self.has_headers:
            self.check_headers()

    @cython.cfunc
    def check_headers(self) -> cython.int:
        row: cython.Py_ssize_t
        keys: BinaryColumn | None = self.header_keys
        values: BinaryColumn | None = self.header_values
        if keys is None or (values is not None and keys.count != values.count):
            raise ValueError("the keys and the values of the headers differ in length")
        if len(self.header_offsets_view) != self.count + 1:
            raise ValueError("the columns differ in length")
        for row in range(self.count):
            if self.header_offsets[row] > self.header_offsets[row + 1]:
                raise ValueError("the offsets of the headers do not rise")
        if self.header_offsets[0] < 0 or self.header_offsets[self.count] > keys.count:
            raise ValueError("the offsets of the headers point outside of them")
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def headers_size(self, row: cython.Py_ssize_t) -> cython.longlong:
        header: cython.Py_ssize_t
        size: cython.longlong = varint_bytes(self.header_offsets[row + 1] - self.header_offsets[row])
        for header in range(self.header_offsets[row], self.header_offsets[row + 1]):
            size += _size(_length(self.header_keys, header)) + _size(_length(self.header_values, header))
        return size

    @cython.cfunc
    @cython.exceptval(check=False)
    def write_headers(
        self, out: cython.pointer[cython.uchar], position: cython.Py_ssize_t, row: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        header: cython.Py_ssize_t
        keys: BinaryColumn | None = self.header_keys
        values: BinaryColumn | None = self.header_values
        position = put_varint(out, position, self.header_offsets[row + 1] - self.header_offsets[row])
        for header in range(self.header_offsets[row], self.header_offsets[row + 1]):
            position = _write_value(out, position, keys, header, _length(keys, header))
            position = _write_value(out, position, values, header, _length(values, header))
        return position

    @cython.cfunc
    def bound(self, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """No less than what the records from row `first` on take."""
        # Six numbers of up to 5 bytes, one of up to 10, and the attributes.
        size: cython.Py_ssize_t = (self.count - first) * 41
        size += _bytes_from(self.keys, first) + _bytes_from(self.values, first)
        if self.has_headers:
            header: cython.Py_ssize_t = self.header_offsets[first]
            size += (self.header_offsets[self.count] - header) * 10
            size += _bytes_from(self.header_keys, header) + _bytes_from(self.header_values, header)
        return size

    def encode(
        self, first: cython.Py_ssize_t, prefix_bytes: cython.Py_ssize_t, bytes_max: cython.Py_ssize_t
    ) -> tuple[bytearray, int, int, int]:
        """The records from row `first` on that fit into `bytes_max` with the prefix, one of them however large it is.

        Returns them behind `prefix_bytes` of room for a header, the row after the last, the first timestamp and the largest.
        """
        if not 0 <= first < self.count:
            raise ValueError("there is no such row")
        keys: BinaryColumn | None = self.keys
        values: BinaryColumn | None = self.values
        key_length: cython.longlong = _length(keys, first)
        value_length: cython.longlong = _length(values, first)
        headers_size: cython.longlong = self.headers_size(first) if self.has_headers else 1
        base_timestamp: cython.longlong = self.timestamps[first]
        max_timestamp: cython.longlong = -1
        timestamp: cython.longlong
        delta: cython.longlong
        # The first record is taken however large it is; otherwise the rest of the rows or the limit decide, whichever is less.
        body: cython.longlong = 3 + _size(key_length) + _size(value_length) + headers_size
        capacity: cython.Py_ssize_t = max(
            prefix_bytes + varint_bytes(body) + body, min(bytes_max, prefix_bytes + self.bound(first))
        )
        # Every byte that is kept is written, so that it need not be zeroed; those of the header are, by the caller.
        result: bytearray = (
            PyByteArray_FromStringAndSize(cython.NULL, capacity) if cython.compiled else bytearray(capacity)
        )
        target: cython.uchar[::1] = result
        out: cython.pointer[cython.uchar] = cython.address(target[0]) if cython.compiled else target
        position: cython.Py_ssize_t = prefix_bytes
        row: cython.Py_ssize_t = first
        while row < self.count and row - first < 0x7FFFFFFF:
            timestamp = self.timestamps[row]
            delta = _timestamp_delta(timestamp, base_timestamp)
            key_length = _length(keys, row)
            value_length = _length(values, row)
            if self.has_headers:
                headers_size = self.headers_size(row)
            body = 1 + varint_bytes(delta) + varint_bytes(row - first) + headers_size
            body += _size(key_length) + _size(value_length)
            if body + varint_bytes(body) > capacity - position:
                break
            position = put_varint(out, position, body)
            # The attributes, of which none exist.
            out[position] = 0
            position = put_varint(out, position + 1, delta)
            position = put_varint(out, position, row - first)
            position = _write_value(out, position, keys, row, key_length)
            position = _write_value(out, position, values, row, value_length)
            if self.has_headers:
                position = self.write_headers(out, position, row)
            else:
                out[position] = 0
                position += 1
            max_timestamp = max(max_timestamp, timestamp)
            row += 1
        # The view has to go before the array can shrink.
        target = None
        del result[position:]
        return result, row, base_timestamp, max_timestamp
