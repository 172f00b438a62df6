# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, type-arg"
"""A batch that records are written to one by one, and the delivery that each of them gets.

A record is encoded when it is sent, so that nothing of it is kept but its bytes, and a batch is finished by a header alone. A
delivery is the batch and a place in it. `ProducerBatch` and the accumulator hold the contracts: who may call what, and under
which lock. The types in the annotations are C types to the compiler and nothing to Python.
"""

from __future__ import annotations

import operator
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
    from cython.cimports.tidelog.wire.record_fields_inline import put_bytes, put_varint, varint, varint_bytes
else:
    from tidelog.wire.record_fields import put_bytes, put_varint, varint, varint_bytes

_new_tuple = tuple.__new__


@cython.cfunc
@cython.inline
def _write_field(
    out: cython.pointer[cython.uchar], position: cython.Py_ssize_t, data: bytes | None, length: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    position = put_varint(out, position, length)
    return put_bytes(out, position, data) if length > 0 else position


def bytes_of(field: object) -> bytes | None:
    if field is None or type(field) is bytes:
        return field
    if isinstance(field, (bytes, bytearray, memoryview)):
        return bytes(field)
    raise TypeError(f"keys and values are bytes or None, not {type(field).__name__}: set a serializer")


def checked_timestamp(given: Any) -> int:
    """The time of a record as a number that a batch can hold. TypeError for what is no whole number, ValueError for one
    that is negative or too large."""
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"timestamp_ms is a whole number of milliseconds, not {type(given).__name__}") from None
    if not 0 <= number <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError(f"timestamp_ms is {number}: it is in milliseconds since 1970, and never negative")
    return number


@cython.cfunc
def _header_block(headers: Any) -> bytes:
    """The headers of one record as on the wire, their count before them."""
    parts = [b""]
    count: cython.Py_ssize_t = 0
    # More than once: a generator would be empty the second time.
    if not isinstance(headers, (list, tuple)):
        raise TypeError(f"headers are a list of pairs such as [('key', b'value')], not {type(headers).__name__}")
    for pair in headers:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                "headers are a list of pairs such as [('key', b'value')]: each has a string, and bytes or None"
            )
        key, value = pair
        if not isinstance(key, str):
            raise TypeError(f"the key of a header is a string, not {type(key).__name__}")
        if value is not None and not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"the value of the header {key!r} is bytes or None, not {type(value).__name__}")
        try:
            key_bytes = key.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the key of the header {key!r} has characters that UTF-8 does not have") from None
        parts += (varint(len(key_bytes)), key_bytes)
        value_bytes = bytes_of(value)
        if value_bytes is None:
            parts.append(b"\1")
        else:
            parts += (varint(len(value_bytes)), value_bytes)
        count += 1
    parts[0] = varint(count)
    return b"".join(parts)


class BatchBuilder:
    """The records of one batch, encoded one by one behind room for a header. Ends when the next one does not fit."""

    def __init__(self, capacity: cython.Py_ssize_t, prefix_bytes: cython.Py_ssize_t) -> None:
        """`capacity` is in bytes, those of the header included."""
        if capacity < prefix_bytes:
            raise ValueError("a batch has room for its header at least")
        if cython.compiled:
            # Every byte that is kept is written, so that none need be zeroed but the header's.
            self.buffer = PyByteArray_FromStringAndSize(cython.NULL, capacity)
            self.out = cython.cast(cython.pointer[cython.uchar], PyByteArray_AS_STRING(self.buffer))
        else:
            self.buffer = bytearray(capacity)
            self.out = self.buffer
        self.position = prefix_bytes
        self.capacity = capacity
        self.count = 0
        self.base_timestamp = self.max_timestamp = -1
        self.reported: list[Any] = []
        self.written_as: Any = None

    @property
    def record_count(self) -> int:
        return self.count

    @property
    def size_bytes(self) -> int:
        """What the batch takes so far, its header included."""
        return self.position

    @property
    def capacity_bytes(self) -> int:
        return self.capacity

    def write(self, timestamp: cython.longlong, key: object, value: object, headers: object) -> cython.longlong:
        """The place of the record in the batch, or -1 where there is no room for it."""
        key_bytes: bytes | None = bytes_of(key)
        value_bytes: bytes | None = bytes_of(value)
        key_length: cython.Py_ssize_t = -1
        value_length: cython.Py_ssize_t = -1
        position: cython.Py_ssize_t = self.position
        delta: cython.longlong
        body: cython.Py_ssize_t
        index: cython.longlong = self.count
        block: bytes | None = None
        if key_bytes is not None:
            key_length = len(key_bytes)
        if value_bytes is not None:
            value_length = len(value_bytes)
        delta = 0 if index == 0 else timestamp - self.base_timestamp
        body = 1 + varint_bytes(delta) + varint_bytes(index) + varint_bytes(key_length) + varint_bytes(value_length)
        if key_length > 0:
            body += key_length
        if value_length > 0:
            body += value_length
        if headers:
            block = _header_block(headers)
            body += len(block)
        else:
            body += 1
        if position + varint_bytes(body) + body > self.capacity:
            return -1
        position = put_varint(self.out, position, body)
        # The attributes, of which none exist.
        self.out[position] = 0
        position = put_varint(self.out, position + 1, delta)
        position = put_varint(self.out, position, index)
        position = _write_field(self.out, position, key_bytes, key_length)
        position = _write_field(self.out, position, value_bytes, value_length)
        if block is None:
            self.out[position] = 0
            position += 1
        else:
            position = put_bytes(self.out, position, block)
        if index == 0:
            self.base_timestamp = timestamp
            self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.position = position
        self.count = index + 1
        return index

    def append(
        self, timestamp: cython.longlong, key: object, value: object, headers: object, on_delivery: object
    ) -> Delivery | None:
        """Write a record. None where the batch has no room for it, and so has ended."""
        return deliver(self, self.write(timestamp, key, value, headers), timestamp, on_delivery)

    def finish(self) -> tuple[bytearray, int, int]:
        """The records behind room for a header, and the first and the largest timestamp. The batch is at its end."""
        buffer: bytearray = self.buffer
        position: cython.Py_ssize_t = self.position
        if self.capacity:
            self.capacity = 0
            self.out = cython.NULL if cython.compiled else b""
            del buffer[position:]
        return buffer, self.base_timestamp, self.max_timestamp

    def adopt(self, buffer: bytearray, count: int, base_timestamp: int, max_timestamp: int) -> None:
        """Take records that were encoded elsewhere, behind room for a header. Nothing is added to them."""
        self.buffer = buffer
        self.position = len(buffer)
        self.capacity = 0
        self.count = count
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp

    def forget(self) -> None:
        """The bytes are no longer needed."""
        self.capacity = 0
        self.out = cython.NULL if cython.compiled else b""
        self.buffer = bytearray()

    def take_reported(self) -> list[Any]:
        """Each callback, the place of its record and the record's timestamp, one behind the other. They are the caller's now."""
        reported, self.reported = self.reported, []
        return reported

    def written(
        self, metadata: Any, topic: str, partition: int, base_offset: cython.longlong, append_time_ms: cython.longlong
    ) -> None:
        """All records have their places, and a delivery needs to ask nobody for its own. The offset is -1 where nobody said."""
        self.written_topic = topic
        self.written_partition = partition
        self.written_offset = base_offset
        self.written_time = append_time_ms
        self.written_as = metadata

    def metadata_at(self, index: cython.longlong, timestamp: cython.longlong) -> object:
        offset = self.written_offset + index if self.written_offset >= 0 else -1
        if self.written_time >= 0:
            timestamp = self.written_time
        # Without the constructor that a named tuple has in Python.
        return _new_tuple(self.written_as, (self.written_topic, self.written_partition, offset, timestamp))


def required_bytes(key: object, value: object, headers: object) -> int:
    """What a record can take at most in a batch that holds nothing else."""
    key_bytes = bytes_of(key)
    value_bytes = bytes_of(value)
    # Its own length, attributes, deltas and the lengths of key and value, each at its longest.
    size = 5 + 1 + 10 + 5 + 5 + 5
    size += 0 if key_bytes is None else len(key_bytes)
    size += 0 if value_bytes is None else len(value_bytes)
    return size + (len(_header_block(headers)) if headers else 1)


def _given(value: object) -> Generator[Any, None, Any]:
    """What waits for nothing, in the form that `await` asks for. The compiled twin returns from it without an exception."""
    if value is None:
        # Never so: but only what could yield is a generator.
        yield
    return value


# A program may keep a million of them, and the garbage collector need look at none: a batch knows nothing of its deliveries.
@cython.no_gc
@cython.cclass
class Delivery:
    """The fate of one record: `await` it, or call `result()`. Costs nothing until then.

    delivery = await producer.send("orders", b"...")
    metadata = await delivery          # RecordMetadata(topic, partition, offset, timestamp_ms), or DeliveryFailedError
    """

    def __init__(self, batch: BatchBuilder, index: int, timestamp: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp = timestamp

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return cython.cast(object, self.batch).is_done

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for the outcome: RecordMetadata, or the error as an exception. TimedOutError after `timeout_s`."""
        if self.batch.written_as is not None:
            return self.batch.metadata_at(self.index, self.timestamp)
        return cython.cast(object, self.batch).wait(self.index, self.timestamp, timeout_s)

    def __await__(self) -> Generator[Any, None, Any]:
        if self.batch.written_as is not None:
            return _given(self.batch.metadata_at(self.index, self.timestamp))
        return cython.cast(object, self.batch).wait_async(self.index, self.timestamp).__await__()


def deliver(
    batch: BatchBuilder, index: cython.longlong, timestamp: cython.longlong, on_delivery: object
) -> Delivery | None:
    """What the sender of a record gets: of the one at `index` of `batch`, or None where `write` has had no room for it."""
    if index < 0:
        return None
    delivery: Delivery = Delivery.__new__(Delivery)
    delivery.batch = batch
    delivery.index = index
    delivery.timestamp = timestamp
    if on_delivery is not None:
        batch.reported.append(on_delivery)
        batch.reported.append(index)
        batch.reported.append(timestamp)
    return delivery


def report(
    reported: list[Any],
    metadata: Any,
    topic: str,
    partition: int,
    base_offset: cython.longlong,
    append_time_ms: cython.longlong,
) -> list[BaseException]:
    """Call what `take_reported` gave with each record's metadata. What they raise is returned: for the log, not the producer."""
    failures: list[BaseException] = []
    at: cython.Py_ssize_t
    index: cython.longlong
    for at in range(0, len(reported), 3):
        index = reported[at + 1]
        offset = base_offset + index if base_offset >= 0 else -1
        timestamp = reported[at + 2] if append_time_ms < 0 else append_time_ms
        try:
            reported[at](None, _new_tuple(metadata, (topic, partition, offset, timestamp)))
        except Exception as error:  # noqa: BLE001 - the callback's own
            failures.append(error)
    return failures
