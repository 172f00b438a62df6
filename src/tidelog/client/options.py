"""The options of a client: keyword arguments in Python's spelling of Kafka's names.

    @dataclass(frozen=True, kw_only=True)
    class ProducerOptions(ClientOptions):
        linger_ms: float = number(5, at_least=0, doc="How long a batch waits for more records.")

    options = parse_options(ProducerOptions, {"bootstrap_servers": "127.0.0.1:9092", "linger_ms": 0})

Each option is declared once, with its default, range and one line of documentation. `parse_options` is where what a person
typed is checked: an unknown name is refused with the nearest one, a wrong value with what it could be. Errors are ConfigError.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from tidelog.client.errors import ConfigError
from tidelog.net.address import Address

O = TypeVar("O", bound="ClientOptions")  # noqa: E741 - the options
T = TypeVar("T")

DEFAULT_PORT = 9092
_PORT_MAX = 65535
_DECLARED = "tidelog"


@dataclass(frozen=True, slots=True)
class Declared:
    """What is known of an option beside its name and default. `check` returns the value to keep or raises ConfigError."""

    doc: str
    check: Callable[[str, object], object]


def option(default: T, check: Callable[[str, object], T], *, doc: str) -> T:
    """An option with a rule of its own."""
    field: T = dataclasses.field(default=default, metadata={_DECLARED: Declared(doc, check)})
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


def _check_servers(_name: str, value: object) -> tuple[Address, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not all(isinstance(each, str) for each in listed):
        raise ConfigError(f"bootstrap_servers is {value!r}; it is host:port,host:port or a list of host:port")
    addresses = [parse_address(each.strip()) for each in listed if each.strip()]
    if not addresses:
        raise ConfigError("bootstrap_servers names no node: expected host:port, as in 127.0.0.1:9092")
    return tuple(addresses)


def parse_address(written: str) -> Address:
    """`host`, `host:port`, `[IPv6]` or `[IPv6]:port`. ConfigError for anything else."""
    host, colon, port = written.rpartition(":")
    if not colon or (written.startswith("[") and written.endswith("]")):
        host, port = written, str(DEFAULT_PORT)
    bare = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= _PORT_MAX
    if not bare or not is_port or (":" in bare and host == bare):
        raise ConfigError(f"{written!r} is not the address of a node: expected host:port, as in 127.0.0.1:9092")
    return Address(bare, int(port))


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """What producer, consumer and admin have in common. Names and defaults are Kafka's."""

    bootstrap_servers: tuple[Address, ...] = option(
        (),
        _check_servers,
        doc="Some nodes of the cluster, as host:port,host:port or a list; the others are found there.",
    )
    client_id: str = text("tidelog", doc="The name under which brokers log and count this client.")
    request_timeout_ms: int = whole(30_000, at_least=1, doc="How long a broker may take for one request.")
    retry_backoff_ms: int = whole(100, doc="The wait before the first retry; each further one doubles it.")
    retry_backoff_max_ms: int = whole(1_000, doc="The longest wait before a retry.")
    reconnect_backoff_ms: int = whole(50, doc="The wait after a connection failed; each further failure doubles it.")
    reconnect_backoff_max_ms: int = whole(1_000, doc="The longest wait before a connection is tried again.")
    socket_connection_setup_timeout_ms: int = whole(10_000, at_least=1, doc="How long opening a connection may take.")
    connections_max_idle_ms: int = whole(
        540_000, at_least=-1, doc="A connection unused for so long is closed; -1 for never."
    )
    metadata_max_age_ms: int = whole(300_000, doc="The age at which the metadata is asked for again, changed or not.")
    metadata_recovery_strategy: str = choice(
        "rebootstrap",
        ("rebootstrap", "none"),
        doc="What to do once no known node answers: go back to bootstrap_servers.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = whole(
        300_000, doc="How long the metadata may stay without an answer before bootstrap_servers are asked."
    )


class ClientArguments(TypedDict, total=False):
    """The keyword arguments that `ClientOptions` are parsed from, as type checkers see them."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int


def parse_options(kind: type[O], given: Mapping[str, object]) -> O:
    """The options of a client from its keyword arguments. ConfigError for the first that is wrong."""
    fields = {each.name: each for each in dataclasses.fields(kind)}
    checked: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            raise ConfigError(_unknown(name, fields))
        declared: Declared = fields[name].metadata[_DECLARED]
        checked[name] = declared.check(name, value)
    if "bootstrap_servers" not in checked:
        raise ConfigError("bootstrap_servers is missing: name a node of the cluster, as in 127.0.0.1:9092")
    return kind(**checked)


def describe_options(kind: type[ClientOptions]) -> dict[str, tuple[object, str]]:
    """Default and documentation of each option by name."""
    return {each.name: (each.default, each.metadata[_DECLARED].doc) for each in dataclasses.fields(kind)}


def _unknown(name: str, fields: Mapping[str, object]) -> str:
    # Kafka's own spelling is the most likely mistake.
    spelled = name.lower().replace(".", "_").replace("-", "_")
    nearest = difflib.get_close_matches(spelled, fields, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"there is no option {name!r}{hint}"
