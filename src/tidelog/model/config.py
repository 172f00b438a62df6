"""Configuration keys: what a key is called, what it may hold, what it holds when nobody says, and when it may change.

    SEGMENT_BYTES = int_key("segment.bytes", 1_073_741_824, at_least=14, doc="...", synonym="log.segment.bytes")

    keys = ConfigKeys([SEGMENT_BYTES, ...])
    values = keys.parse({"segment.bytes": "1048576"})     # ConfigError for a bad value or an unknown name
    values[SEGMENT_BYTES]                                  # 1048576, an int to the type checker too

Names, types, defaults and ranges are Kafka's. A key is declared once it works: the presence of a key in a table is the promise
that some code reads it, and a test of the repository holds it to that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

INT_MAX = 2**31 - 1
SHORT_MAX = 2**15 - 1
LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """The types of Kafka's configuration values, with the numbers that DescribeConfigs sends."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, with the numbers that DescribeConfigs sends."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class UpdateMode(Enum):
    """When a key may change. Kafka's documentation uses the same words."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Password(str):
    """A text that is a secret. It is used like any other, and no `repr`, of whatever holds it, shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[hidden]"


class ConfigError(ValueError):
    """A configuration that cannot be taken, in one sentence that names the key."""


@dataclass(frozen=True, eq=False)
class ConfigKey(Generic[T]):
    """One key. `synonym` is the broker's key that gives a topic its default, where there is one."""

    name: str
    type: ConfigType
    default: T
    doc: str
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    synonym: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    valid: Callable[[T], str | None] | None = field(default=None, repr=False)
    """Says in half a sentence what is wrong with a value, for rules that no range expresses."""
    is_internal: bool = False
    """Shown only where somebody has set it: a knob for tests, which Kafka does not document."""

    @property
    def is_sensitive(self) -> bool:
        """A value that is never shown again."""
        return self.type is ConfigType.PASSWORD

    @property
    def range_text(self) -> str:
        """The allowed values in the form of Kafka's documentation, empty where anything goes."""
        if self.choices:
            return f"[{', '.join(self.choices)}]"
        if self.at_least is None and self.at_most is None:
            return ""
        low = (
            "..."
            if self.at_least is None
            else f"{self.at_least:g}"
            if self.type is ConfigType.DOUBLE
            else str(self.at_least)
        )
        high = (
            "..."
            if self.at_most is None
            else f"{self.at_most:g}"
            if self.type is ConfigType.DOUBLE
            else str(self.at_most)
        )
        return f"[{low},...,{high}]" if high != "..." else f"[{low},...]"

    def parse(self, text: str) -> T:
        """The value that `text` spells, checked against type and range."""
        value = cast("T", parse_value(self.type, self.name, text))
        self.check(value)
        return value

    def check(self, value: T) -> None:
        """ConfigError unless the key may hold this value."""
        # In Kafka's words, as all that parsing says: tools show them, and tests compare them.
        found = self._problem(value)
        if found is not None:
            shown, problem = found
            value_shown = "[hidden]" if self.is_sensitive else shown
            raise ConfigError(f"Invalid value {value_shown} for configuration {self.name}: {problem}")

    def format(self, value: T) -> str:
        """The text that `parse` reads back as `value`."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (list, tuple)):
            return ",".join(str(each) for each in value)
        if isinstance(value, float):
            return _java_double(value)
        return "" if value is None else str(value)

    def _problem(self, value: T) -> tuple[str, str] | None:
        """What is wrong, and the value or the part of it that is."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.at_least is not None and value < self.at_least:
                return self.format(value), f"Value must be at least {self.at_least}"
            if self.at_most is not None and value > self.at_most:
                return self.format(value), f"Value must be no more than {self.at_most}"
        if self.choices:
            held = value if isinstance(value, (list, tuple)) else (value,)
            for each in held:
                if each not in self.choices:
                    return str(each), f"String must be one of: {', '.join(self.choices)}"
        problem = None if self.valid is None else self.valid(value)
        if problem is None:
            return None
        shown = self.format(value)
        return (f"[{shown.replace(',', ', ')}]" if isinstance(value, (list, tuple)) else shown), problem


class ConfigValues(Mapping[str, object]):
    """Values by key, each of its key's type. A key that was not set has its default."""

    def __init__(self, keys: ConfigKeys, given: Mapping[str, object], hidden: Iterable[str] = (), /) -> None:
        """`hidden` are names whose values are shown to nobody, whatever their type: they were looked up elsewhere."""
        self._keys = keys
        self._given = dict(given)
        self.hidden = frozenset(hidden)

    def __getitem__(self, key: ConfigKey[T] | str) -> T:
        known = self._keys[key] if isinstance(key, str) else key
        # No `cast`, which would be a call at run time: some keys are read by every request.
        return self._given.get(known.name, known.default)  # type: ignore[return-value]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def table(self) -> ConfigKeys:
        """The keys that there are."""
        return self._keys

    @property
    def given(self) -> Mapping[str, object]:
        """What was set, without the defaults."""
        return self._given


class ConfigKeys(Mapping[str, ConfigKey[Any]]):
    """A table of keys by name: a topic's, a broker's, a client's."""

    def __init__(self, keys: Iterable[ConfigKey[Any]]) -> None:
        self._keys = {key.name: key for key in keys}

    def __getitem__(self, name: str) -> ConfigKey[Any]:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def parse(self, given: Mapping[str, str]) -> ConfigValues:
        """The typed values of a set of texts. The first thing that is wrong, in the order given, is the ConfigError."""
        return ConfigValues(self, {name: self.known(name).parse(text) for name, text in given.items()})

    def known(self, name: str) -> ConfigKey[Any]:
        """The key of this name, or a ConfigError that proposes the nearest one."""
        key = self._keys.get(name)
        if key is not None:
            return key
        raise ConfigError(f"Unknown configuration {name}{did_you_mean(name, self._keys)}")


def parse_value(type_: ConfigType, name: str, text: str) -> object:
    """The value of a type that `text` spells; `name` is for the ConfigError where it spells none."""
    return _PARSERS[type_](name, text.strip())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: a question with the nearest known one, or nothing."""
    # Needed only where somebody erred, and every start would wait for it.
    import difflib  # noqa: PLC0415

    nearest = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _java_double(value: float) -> str:
    """As Java writes it: from ten million on, and below a thousandth, with an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{len(digits) - 1 + int(exponent)}"


def bool_key(
    name: str, default: bool, *, doc: str, synonym: str | None = None, update_mode: UpdateMode = UpdateMode.READ_ONLY
) -> ConfigKey[bool]:
    return ConfigKey(name, ConfigType.BOOLEAN, default, doc, update_mode, synonym)


def int_key(
    name: str,
    default: int,
    *,
    doc: str,
    at_least: int | None = None,
    at_most: int = INT_MAX,
    synonym: str | None = None,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
    is_internal: bool = False,
) -> ConfigKey[int]:
    return ConfigKey(
        name, ConfigType.INT, default, doc, update_mode, synonym, at_least, at_most, is_internal=is_internal
    )


def long_key(
    name: str,
    default: int,
    *,
    doc: str,
    at_least: int | None = None,
    at_most: int = LONG_MAX,
    synonym: str | None = None,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
) -> ConfigKey[int]:
    return ConfigKey(name, ConfigType.LONG, default, doc, update_mode, synonym, at_least, at_most)


def double_key(
    name: str,
    default: float,
    *,
    doc: str,
    at_least: float | None = None,
    at_most: float | None = None,
    synonym: str | None = None,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
) -> ConfigKey[float]:
    return ConfigKey(name, ConfigType.DOUBLE, default, doc, update_mode, synonym, at_least, at_most)


def string_key(
    name: str,
    default: str,
    *,
    doc: str,
    choices: tuple[str, ...] = (),
    synonym: str | None = None,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
    valid: Callable[[str], str | None] | None = None,
) -> ConfigKey[str]:
    return ConfigKey(name, ConfigType.STRING, default, doc, update_mode, synonym, choices=choices, valid=valid)


def list_key(
    name: str,
    default: tuple[str, ...],
    *,
    doc: str,
    choices: tuple[str, ...] = (),
    synonym: str | None = None,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
    valid: Callable[[tuple[str, ...]], str | None] | None = None,
) -> ConfigKey[tuple[str, ...]]:
    return ConfigKey(name, ConfigType.LIST, default, doc, update_mode, synonym, choices=choices, valid=valid)


def _parse_bool(name: str, text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ConfigError(f"Invalid value {text} for configuration {name}: Expected value to be either true or false")


def _parse_whole(name: str, text: str, limit: int, kind: str) -> int:
    # int() also reads "1_000" and other scripts' digits, which no other program would understand.
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20 or not -limit - 1 <= int(text) <= limit:
        raise ConfigError(f"Invalid value {text} for configuration {name}: Not a number of type {kind}")
    return int(text)


def _parse_double(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"Invalid value {text} for configuration {name}: Not a number of type DOUBLE")
    return value


def _parse_list(_name: str, text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",")) if text else ()


_PARSERS: dict[ConfigType, Callable[[str, str], object]] = {
    ConfigType.BOOLEAN: _parse_bool,
    ConfigType.STRING: lambda _name, text: text,
    ConfigType.INT: lambda name, text: _parse_whole(name, text, INT_MAX, "INT"),
    ConfigType.SHORT: lambda name, text: _parse_whole(name, text, SHORT_MAX, "SHORT"),
    ConfigType.LONG: lambda name, text: _parse_whole(name, text, LONG_MAX, "LONG"),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: lambda _name, text: text,
    ConfigType.PASSWORD: lambda _name, text: Password(text),
}
