"""A value of an event as a column has it: by what it is in the source and by what the column's type is. Pure.

    reader = value_reader(Kind("bytes", DECIMAL, scale=2), pa.decimal128(10, 2))
    reader("BNI=")      Decimal("12.34")

Nothing is rounded, cut off or guessed: a value that the column cannot hold is a `ValueUnreadableError`, but for nanoseconds, of
which a timestamp has only the microseconds. Text takes every value, times and decimals in their usual form; a whole number takes
times as the number that they are.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import msgspec
import pyarrow as pa

from tidelog.spark.pipelines.debezium.value_kinds import DECIMAL, VARIABLE_DECIMAL, Kind

Reader = Callable[[Any], Any]

# What each name counts, in units of so many nanoseconds.
_MS, _US, _NS = 1_000_000, 1_000, 1
TIMESTAMPS = {
    "io.debezium.time.Timestamp": _MS,
    "io.debezium.time.MicroTimestamp": _US,
    "io.debezium.time.NanoTimestamp": _NS,
    "org.apache.kafka.connect.data.Timestamp": _MS,
}
TIMES = {
    "io.debezium.time.Time": _MS,
    "io.debezium.time.MicroTime": _US,
    "io.debezium.time.NanoTime": _NS,
    "org.apache.kafka.connect.data.Time": _MS,
}
DURATIONS = {"io.debezium.time.MicroDuration": _US, "io.debezium.time.NanoDuration": _NS}
DATES = frozenset({"io.debezium.time.Date", "org.apache.kafka.connect.data.Date"})
TEXTS = frozenset(
    {
        "io.debezium.time.ZonedTimestamp",
        "io.debezium.time.ZonedTime",
        "io.debezium.time.IsoTimestamp",
        "io.debezium.time.IsoTime",
        "io.debezium.time.IsoDate",
        "io.debezium.time.Interval",
    }
)
KNOWN_NAMES = frozenset({*TIMESTAMPS, *TIMES, *DURATIONS, *DATES, *TEXTS, DECIMAL, VARIABLE_DECIMAL})

_EPOCH = date(1970, 1, 1)
_DAYS = range((date.min - _EPOCH).days, (date.max - _EPOCH).days + 1)
_DAY_US = 86_400_000_000
_ISO_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_ISO_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_DECIMAL_TEXT_MAX = 200
"""No number of a decimal column is longer, and a text of thousands of digits costs its square."""
_DIGITS_MAX = 1000
"""Of the numbers that so many bytes make."""
_FRACTIONS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class ValueUnreadableError(ValueError):
    """A value that its column cannot hold; the text says what it is, without naming the column."""


def value_reader(kind: Kind | None, target: pa.DataType) -> Reader:
    """What makes a column's values. Without a kind (JSON without schemas) a value is taken for what its form says, and where
    that is not enough, as for numbers that are to be timestamps, it is unreadable."""
    read = _reader(kind, target)
    return lambda value: None if value is None else read(value)


def _reader(kind: Kind | None, target: pa.DataType) -> Reader:
    from pyarrow import types  # noqa: PLC0415 - its names are as general as any

    if types.is_boolean(target):
        return _boolean
    if types.is_integer(target):
        return _whole_reader(target.bit_width)
    if types.is_floating(target):
        return _fraction_reader(kind)
    if types.is_decimal(target):
        assert isinstance(target, pa.Decimal128Type)
        return _decimal_reader(kind, target.precision, target.scale)
    if types.is_string(target):
        return _text_reader(kind)
    if types.is_binary(target):
        return _bytes_reader(kind)
    if types.is_date(target):
        return _date_reader(kind)
    if types.is_timestamp(target):
        return _timestamp_reader(kind)
    if types.is_list(target):
        return _list_reader(kind, target)
    if types.is_map(target):
        return _map_reader(kind, target)
    if types.is_struct(target):
        return _struct_reader(kind, target)
    raise ValueUnreadableError(f"there is no way to read a column of type {target}")


def is_readable(target: pa.DataType) -> bool:
    """Whether columns of this type can be had at all."""
    try:
        _reader(None, target)
    except ValueUnreadableError:
        return False
    return True


# Booleans and numbers.


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _unreadable(value, "true or false")


def _whole_reader(bits: int) -> Reader:
    least, greatest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= greatest:
            return value
        raise _unreadable(value, f"a whole number of {bits} bits")

    return read


def _fraction_reader(kind: Kind | None) -> Reader:
    exact = _exact_reader(kind) if kind is not None and kind.name in {DECIMAL, VARIABLE_DECIMAL} else None

    def read(value: Any) -> float:
        if exact is not None:
            return float(exact(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and value in _FRACTIONS:
            return _FRACTIONS[value]
        raise _unreadable(value, "a number")

    return read


def _decimal_reader(kind: Kind | None, precision: int, scale: int) -> Reader:
    exact = _exact_reader(kind)

    def read(value: Any) -> Decimal:
        number: Decimal = exact(value)
        with localcontext(prec=_DIGITS_MAX) as context:
            context.traps[InvalidOperation] = False
            fitted = number.quantize(Decimal(1).scaleb(-scale))
            # One that does not fit at all becomes no number, which equals nothing.
            if fitted == number and len(fitted.as_tuple().digits) <= precision:
                return fitted
        raise ValueUnreadableError(f"{_shown(number)} does not fit into decimal({precision},{scale})")

    return read


def _exact_reader(kind: Kind | None) -> Reader:
    """Decimals of any of Debezium's modes."""
    if kind is not None and kind.name == DECIMAL:
        scale = kind.scale or 0
        return lambda value: _unscaled(_bytes(value), scale)
    if kind is not None and kind.name == VARIABLE_DECIMAL:
        return _variable

    def read(value: Any) -> Decimal:
        if isinstance(value, dict):
            return _variable(value)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise _unreadable(value, "a number")
        if isinstance(value, str):
            # Digits may be a number, or bytes in base64: nothing tells them apart.
            if kind is None:
                raise ValueUnreadableError(f"the text {_shown(value)} may be digits or bytes: types= can say which")
            if len(value) > _DECIMAL_TEXT_MAX:
                raise _unreadable(value, "a number")
        try:
            return Decimal(repr(value) if isinstance(value, float) else value)
        except InvalidOperation:
            raise _unreadable(value, "a number") from None

    return read


def _variable(value: Any) -> Decimal:
    if not isinstance(value, dict) or not isinstance(value.get("scale"), int):
        raise _unreadable(value, "a decimal with its scale")
    return _unscaled(_bytes(value.get("value")), value["scale"])


def _unscaled(unscaled: bytes, scale: int) -> Decimal:
    if len(unscaled) > _DECIMAL_TEXT_MAX or abs(scale) > _DECIMAL_TEXT_MAX:
        raise ValueUnreadableError(
            f"a decimal of {len(unscaled)} bytes and the scale {scale} is larger than any column"
        )
    with localcontext(prec=_DIGITS_MAX):
        return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale)


# Bytes and text.


def _bytes_reader(kind: Kind | None) -> Reader:
    if kind is not None and kind.base != "bytes":
        return lambda value: _refuse(value, "bytes")
    return _bytes


def _bytes(value: Any) -> bytes:
    """As Avro has them, or in base64 as JSON has."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise _unreadable(value, "bytes in base64")


def _text_reader(kind: Kind | None) -> Reader:
    name = "" if kind is None else kind.name
    if name in {DECIMAL, VARIABLE_DECIMAL}:
        exact = _exact_reader(kind)
        return lambda value: format(exact(value), "f")
    if name in DATES:
        return lambda value: _day(value).isoformat()
    if name in TIMESTAMPS:
        unit = TIMESTAMPS[name]
        return lambda value: _timestamp_text(_number(value), unit)
    if name in TIMES:
        unit = TIMES[name]
        return lambda value: _time_text(_number(value) * unit)
    if name in DURATIONS:
        unit = DURATIONS[name]
        return lambda value: _duration_text(_number(value) * unit)
    return _plain_text


def _plain_text(value: Any) -> str:
    match value:
        case str():
            return value
        case bytes():
            raise _unreadable(value, "text: bytes need a column of type binary")
        case bool() | int() | float() | list() | dict():
            return msgspec.json.encode(value).decode()
    raise _unreadable(value, "text")


# Dates and times.


def _date_reader(kind: Kind | None) -> Reader:
    if kind is not None and kind.base != "string" and kind.name not in DATES:
        return lambda value: _refuse(value, "a date")

    def read(value: Any) -> int:
        if isinstance(value, str):
            found = _ISO_DATE.fullmatch(value)
            if found is None:
                raise _unreadable(value, "a date")
            try:
                return (date.fromisoformat(found[1]) - _EPOCH).days
            except ValueError:
                raise _unreadable(value, "a date") from None
        return (_day(value) - _EPOCH).days

    return read


def _day(value: Any) -> date:
    days = _number(value)
    if days not in _DAYS:
        raise ValueUnreadableError(f"the date {days} days from 1970 is infinite, or not of the years 1 to 9999")
    return _EPOCH + timedelta(days=days)


def _timestamp_reader(kind: Kind | None) -> Reader:
    name = "" if kind is None else kind.name
    unit = TIMESTAMPS.get(name)
    if kind is not None and kind.base != "string" and unit is None:
        return lambda value: _refuse(value, "a timestamp")

    def read(value: Any) -> int:
        if isinstance(value, str):
            return _timestamp_of_text(value)
        if unit is None:
            raise ValueUnreadableError(f"{_shown(value)} may count seconds or parts of them: types= can say which")
        return _in_years(_number(value) * unit // _US)

    return read


def _timestamp_of_text(text: str) -> int:
    """In microseconds; what has no zone is taken for UTC, as Debezium takes it."""
    found = _ISO_TIMESTAMP.fullmatch(text)
    if found is None:
        raise _unreadable(text, "a timestamp")
    whole, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{whole}{zone or 'Z'}")
        seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise _unreadable(text, "a timestamp") from None
    return _in_years(seconds * 1_000_000 + int((fraction or "").ljust(6, "0")[:6]))


def _in_years(microseconds: int) -> int:
    if microseconds // _DAY_US not in _DAYS:
        raise ValueUnreadableError("a timestamp is infinite, or not of the years 1 to 9999")
    return microseconds


def _timestamp_text(count: int, unit: int) -> str:
    nanoseconds = count * unit
    _in_years(nanoseconds // _US)
    days, rest = divmod(nanoseconds, _DAY_US * _US)
    return f"{(_EPOCH + timedelta(days=days)).isoformat()}T{_time_text(rest)}"


def _time_text(nanoseconds: int) -> str:
    # PostgreSQL has a time 24:00:00, and MySQL times of hundreds of hours either way.
    sign = "-" if nanoseconds < 0 else ""
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def _duration_text(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"PT{sign}{seconds}{fraction}S"


# What is made of others.


def _list_reader(kind: Kind | None, target: Any) -> Reader:
    read = value_reader(None if kind is None else kind.items, target.value_type)

    def each(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _unreadable(value, "a list")
        return [read(item) for item in value]

    return each


def _map_reader(kind: Kind | None, target: Any) -> Reader:
    if not pa.types.is_string(target.key_type):
        raise ValueUnreadableError("a map has keys of text")
    read = value_reader(None if kind is None else kind.items, target.item_type)

    def each(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _unreadable(value, "a map")
        return [(name, read(item)) for name, item in value.items()]

    return each


def _struct_reader(kind: Kind | None, target: Any) -> Reader:
    inner = {} if kind is None else kind.fields
    readers = {each.name: value_reader(inner.get(each.name), each.type) for each in target}

    def each(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _unreadable(value, "a struct")
        return {name: read(value.get(name)) for name, read in readers.items()}

    return each


def _number(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _unreadable(value, "a whole number")


def _refuse(value: Any, what: str) -> Any:
    raise _unreadable(value, what)


def _unreadable(value: Any, what: str) -> ValueUnreadableError:
    return ValueUnreadableError(f"{_shown(value)} is not {what}")


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
