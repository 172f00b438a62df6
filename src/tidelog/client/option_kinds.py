"""The kinds of values that a client's options have, each with its check.

    linger_ms: float = number(5, at_least=0, doc="How long a batch waits for more records.")
    sasl_password: str | None = secret(doc="The password.")

A field of a dataclass is declared with one of them: its default, its range and one line of documentation. A check returns the
value to keep or raises ConfigError, in one sentence that names the option. A secret is in no sentence and in no `repr`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidelog.client.errors import ConfigError

T = TypeVar("T")

_DECLARED = "tidelog"


@dataclass(frozen=True, slots=True)
class Declared:
    """What is known of an option beside its name and default. `check` returns the value to keep or raises ConfigError."""

    doc: str
    check: Callable[[str, object], object]
    is_secret: bool = False


def option(default: T, check: Callable[[str, object], T], *, doc: str) -> T:
    """An option with a rule of its own."""
    field: T = dataclasses.field(default=default, metadata={_DECLARED: Declared(doc, check)})
    return field


def declared(field: dataclasses.Field[Any]) -> Declared:
    """What one of these functions was given for a field."""
    known: Declared = field.metadata[_DECLARED]
    return known


def secret(*, doc: str) -> str | None:
    """A text that is shown to nobody."""

    def check(name: str, value: object) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{name} is not a string, which it has to be")
        return value

    field: str | None = dataclasses.field(
        default=None, repr=False, metadata={_DECLARED: Declared(doc, check, is_secret=True)}
    )
    return field


def whole(default: int, *, doc: str, at_least: int = 0, at_most: int = 2**63 - 1) -> int:
    """A whole number."""

    def check(name: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r}; it is a whole number")
        _check_range(name, value, at_least, at_most)
        return value

    return option(default, check, doc=doc)


def number(default: float, *, doc: str, at_least: float = 0, at_most: float = 2**63 - 1) -> float:
    """A number that may have a fraction, as in `linger_ms=0.5`."""

    def check(name: str, value: object) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value != value:  # noqa: PLR0124 - not a NaN
            raise ConfigError(f"{name} is {value!r}; it is a number")
        _check_range(name, value, at_least, at_most)
        return value

    return option(default, check, doc=doc)


def _check_range(name: str, value: float, at_least: float, at_most: float) -> None:
    if value < at_least:
        raise ConfigError(f"{name} is {value}; it can be {at_least} or more")
    if value > at_most:
        raise ConfigError(f"{name} is {value}; it can be {at_most} at most")


def flag(default: bool, *, doc: str) -> bool:
    """True or False."""

    def check(name: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r}; it is True or False")
        return value

    return option(default, check, doc=doc)


def text(default: str, *, doc: str) -> str:
    def check(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise ConfigError(f"{name} is {value!r}; it is a string")
        return value

    return option(default, check, doc=doc)


def optional_text(default: str | None = None, *, doc: str) -> str | None:
    def check(name: str, value: object) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{name} is {value!r}; it is a string or None")
        return value

    return option(default, check, doc=doc)


def choice(default: str, choices: Sequence[str], *, doc: str) -> str:
    """One of some words."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ConfigError(f"{name} is {value!r}; it can be {' or '.join(map(repr, choices))}")
        return value

    return option(default, check, doc=doc)


def word(default: str, choices: Sequence[str], *, doc: str) -> str:
    """One of some words in capitals, given in any case as Kafka takes them."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value.upper() not in choices:
            raise ConfigError(f"{name} is {value!r}; it can be {' or '.join(choices)}")
        return value.upper()

    return option(default, check, doc=doc)


def words(default: tuple[str, ...], *, doc: str) -> tuple[str, ...]:
    """Several words: a list, or one text with commas."""

    def check(name: str, value: object) -> tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else value
        if not isinstance(listed, (list, tuple)) or not all(isinstance(each, str) for each in listed):
            raise ConfigError(f"{name} is {value!r}; it is a list, or a text with commas")
        return tuple(each.strip() for each in listed if each.strip())

    return option(default, check, doc=doc)


def function(default: Callable[..., Any] | None = None, *, doc: str) -> Any:
    """Something to call, or None."""

    def check(name: str, value: object) -> Any:
        if value is not None and not callable(value):
            raise ConfigError(f"{name} is {value!r}; it is something to call, or None")
        return value

    return option(default, check, doc=doc)


def objects(*, doc: str) -> Sequence[Any]:
    """Several objects of the caller's, such as interceptors."""

    def check(name: str, value: object) -> Sequence[object]:
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise ConfigError(f"{name} is {value!r}; it is a list")
        return tuple(value)

    return option((), check, doc=doc)
