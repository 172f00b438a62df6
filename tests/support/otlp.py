"""MetricsData of OpenTelemetry as a client writes it, in Protocol Buffers by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

DELTA, CUMULATIVE = 1, 2


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: bytes | int | str) -> bytes:
    """A message, a text, or a varint."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fixed(number: int, value: float) -> bytes:
    """A double, or a whole number of eight bytes."""
    return varint(number << 3 | 1) + struct.pack("<q" if isinstance(value, int) else "<d", value)


def key_value(key: str, value: object) -> bytes:
    match value:
        case bool():
            coded = field(2, int(value))
        case int():
            coded = field(3, value % (1 << 64))
        case float():
            coded = fixed(4, value)
        case _:
            coded = field(1, str(value))
    return field(1, key) + field(2, coded)


def number(value: float, attributes: Mapping[str, object] | None = None) -> bytes:
    about = b"".join(field(7, key_value(*each)) for each in (attributes or {}).items())
    # Times come first, and are passed over.
    return fixed(2, 1) + fixed(3, 2) + fixed(6 if isinstance(value, int) else 4, value) + about


def gauge(name: str, *points: bytes) -> bytes:
    return field(1, name) + field(2, "what it is") + field(5, b"".join(field(1, each) for each in points))


def total(name: str, *points: bytes, temporality: int = DELTA, monotonic: bool = True) -> bytes:
    body = b"".join(field(1, each) for each in points) + field(2, temporality) + field(3, int(monotonic))
    return field(1, name) + field(7, body)


def histogram(name: str, count: int, value: float, temporality: int = DELTA) -> bytes:
    point = fixed(4, count) + fixed(5, value) + field(6, struct.pack("<2q", 1, 2)) + field(9, key_value("a", "b"))
    return field(1, name) + field(9, field(1, point) + field(2, temporality))


def metrics_data(metrics: Sequence[bytes], resource: Mapping[str, object] | None = None) -> bytes:
    """All of them in one scope, about one resource."""
    about = field(1, b"".join(field(1, key_value(*each)) for each in (resource or {}).items()))
    scope = field(2, field(1, field(1, "a scope")) + b"".join(field(2, each) for each in metrics))
    return field(1, about + scope)
