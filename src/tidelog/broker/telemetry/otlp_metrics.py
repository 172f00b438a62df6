"""Metrics as clients push them: OpenTelemetry's MetricsData, version 1, in Protocol Buffers.

    MetricsData       1 ResourceMetrics*
    ResourceMetrics   1 Resource (1 KeyValue*)   2 ScopeMetrics*
    ScopeMetrics      2 Metric*
    Metric            1 name   5 Gauge   7 Sum   9 Histogram
    Gauge, Sum, Histogram     1 points*   2 temporality (1 delta, 2 cumulative)   3 is monotonic
    point of a number         4 double   6 fixed int64   7 KeyValue*
    point of a histogram      4 count   5 sum   9 KeyValue*
    KeyValue          1 key   2 AnyValue (1 string, 2 bool, 3 int, 4 double)

Everything else is passed over: descriptions, units, times, buckets, examples. A histogram becomes its count and its sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from struct import Struct as Layout
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE = Layout("<d")
_SIGNED = Layout("<q")
_UNSIGNED = Layout("<Q")
_VARINT_BYTES_MAX = 10
_TEMPORALITY_DELTA = 1
_GAUGE, _SUM, _HISTOGRAM = 5, 7, 9

# Several times what a consumer of a thousand partitions pushes of all of its metrics.
FIELDS_MAX = 200_000

Field = tuple[int, int | memoryview]
Attributes = tuple[tuple[str, str], ...]


class OtlpError(ValueError):
    """Bytes that are no MetricsData."""


class Change(Enum):
    """What a point says of its series."""

    NOW = "now"
    """It is this at the moment: a gauge, or a sum that may fall."""
    TOTAL = "total"
    """It has come to this since the client began: a sum that only grows."""
    ADDED = "added"
    """So much was added to such a sum since the last push."""
    MOVED = "moved"
    """So much was added to a sum that may fall."""


class Point(NamedTuple):
    """One value of one metric."""

    name: str
    attributes: Attributes
    value: float
    change: Change


def read_metrics(data: bytes | memoryview) -> list[Point]:
    """All points, in the order in which they lie there. OtlpError where the bytes cannot be read, or are more than any client
    has to say: they are read on the node's own thread."""
    return list(_Reading().points(memoryview(data)))


class _Reading:
    """Of one push. Counts what it reads, so that no push keeps the node from its work."""

    def __init__(self) -> None:
        self._fields_left = FIELDS_MAX

    def points(self, data: memoryview) -> Iterator[Point]:
        for number, resource in self._messages(data):
            if number == 1:
                yield from self._resource(resource)

    def _resource(self, data: memoryview) -> Iterator[Point]:
        # What it is about may come behind what is about it.
        shared: list[tuple[str, str]] = []
        scopes: list[memoryview] = []
        for number, message in self._messages(data):
            if number == 1:
                shared += [self._key_value(each) for field, each in self._messages(message) if field == 1]
            elif number == 2:
                scopes.append(message)
        for scope in scopes:
            for field, metric in self._messages(scope):
                if field == 2:
                    yield from self._metric(metric, shared)

    def _metric(self, data: memoryview, shared: list[tuple[str, str]]) -> Iterator[Point]:
        name = ""
        kinds: list[tuple[int, memoryview]] = []
        for number, value in self._messages(data):
            if number == 1:
                name = _text(value)
            elif number in {_GAUGE, _SUM, _HISTOGRAM}:
                kinds.append((number, value))
        for kind, value in kinds:
            scalars: dict[int, int] = {}
            points: list[memoryview] = []
            for number, raw in self._fields(value):
                if isinstance(raw, int):
                    scalars[number] = raw
                elif number == 1:
                    points.append(raw)
            change = Change.NOW
            if kind != _GAUGE:
                is_growing = kind == _HISTOGRAM or bool(scalars.get(3, 0))
                change = _change(scalars.get(2, 0), is_monotonic=is_growing)
            for point in points:
                yield from (self._histogram if kind == _HISTOGRAM else self._number)(name, point, shared, change)

    def _number(self, name: str, data: memoryview, shared: list[tuple[str, str]], change: Change) -> Iterator[Point]:
        attributes = self._shared_by_one(shared)
        value: float = 0
        for field, raw in self._fields(data):
            if field == 4:
                value = _double(raw)
            elif field == 6:
                value = _fixed(raw, _SIGNED)
            elif field == 7:
                attributes.append(self._key_value(_view(raw)))
        yield Point(name, tuple(sorted(attributes)), value, change)

    def _histogram(self, name: str, data: memoryview, shared: list[tuple[str, str]], change: Change) -> Iterator[Point]:
        attributes = self._shared_by_one(shared)
        count, total = 0, 0.0
        for field, raw in self._fields(data):
            if field == 4:
                count = _fixed(raw, _UNSIGNED)
            elif field == 5:
                total = _double(raw)
            elif field == 9:
                attributes.append(self._key_value(_view(raw)))
        about = tuple(sorted(attributes))
        yield Point(f"{name}.count", about, count, change)
        yield Point(f"{name}.sum", about, total, change)

    def _key_value(self, data: memoryview) -> tuple[str, str]:
        key, value = "", ""
        for number, raw in self._fields(data):
            if number == 1:
                key = _text(_view(raw))
            elif number == 2:
                value = self._any_value(_view(raw))
        return key, value

    def _any_value(self, data: memoryview) -> str:
        for number, raw in self._fields(data):
            if number == 1:
                return _text(_view(raw))
            if number == 2:
                return "true" if raw else "false"
            if number == 3 and isinstance(raw, int):
                return str(raw - (1 << 64) if raw >> 63 else raw)
            if number == 4:
                return repr(_double(raw))
        return ""

    def _shared_by_one(self, shared: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """They lie there once, and are read again for every point that has them."""
        self._count(len(shared))
        return list(shared)

    def _count(self, fields: int) -> None:
        self._fields_left -= fields
        if self._fields_left < 0:
            raise OtlpError(f"there are more than {FIELDS_MAX} fields")

    # Protocol Buffers.

    def _fields(self, data: memoryview) -> Iterator[Field]:
        """Number and raw value of each field: a number of a varint, the bytes of all else."""
        position, end = 0, len(data)
        while position < end:
            self._count(1)
            tag, position = _varint(data, position)
            kind = tag & 7
            if kind == _VARINT:
                value, position = _varint(data, position)
                yield tag >> 3, value
                continue
            if kind == _BYTES:
                size, position = _varint(data, position)
            elif kind in {_FIXED64, _FIXED32}:
                size = 8 if kind == _FIXED64 else 4
            else:
                raise OtlpError(f"a field has the wire type {kind}, which there is not")
            if size > end - position:
                raise OtlpError(f"a field of {size} bytes ends beyond its message")
            yield tag >> 3, data[position : position + size]
            position += size

    def _messages(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        """The fields that have bytes."""
        for number, value in self._fields(data):
            if not isinstance(value, int):
                yield number, value


def _change(temporality: int, *, is_monotonic: bool) -> Change:
    if temporality == _TEMPORALITY_DELTA:
        return Change.ADDED if is_monotonic else Change.MOVED
    return Change.TOTAL if is_monotonic else Change.NOW


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if position + index >= len(data):
            raise OtlpError("a number ends beyond its message")
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + index + 1
    raise OtlpError("a number has more than ten bytes")


def _view(raw: int | memoryview) -> memoryview:
    if isinstance(raw, int):
        raise OtlpError("a number is where a message belongs")
    return raw


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise OtlpError("a text is not UTF-8") from error


def _double(raw: int | memoryview) -> float:
    return float(_unpacked(raw, _DOUBLE))


def _fixed(raw: int | memoryview, layout: Layout) -> int:
    return int(_unpacked(raw, layout))


def _unpacked(raw: int | memoryview, layout: Layout) -> float:
    data = _view(raw)
    if len(data) != layout.size:
        raise OtlpError("a number does not have eight bytes")
    value: float = layout.unpack(data)[0]
    return value
