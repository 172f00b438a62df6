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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidelog.client.errors import ConfigError
from tidelog.client.option_kinds import choice, declared, option, text, whole
from tidelog.client.security_options import SecurityArguments, SecurityOptions, check_security
from tidelog.net.address import Address

O = TypeVar("O", bound="ClientOptions")  # noqa: E741 - the options

DEFAULT_PORT = 9092
_PORT_MAX = 65535


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
class ClientOptions(SecurityOptions):
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


class ClientArguments(SecurityArguments, total=False):
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
        checked[name] = declared(fields[name]).check(name, value)
    if "bootstrap_servers" not in checked:
        raise ConfigError("bootstrap_servers is missing: name a node of the cluster, as in 127.0.0.1:9092")
    options = kind(**checked)
    check_security(options)
    return options


def describe_options(kind: type[SecurityOptions]) -> dict[str, tuple[object, str]]:
    """Default and documentation of each option by name."""
    return {each.name: (each.default, declared(each).doc) for each in dataclasses.fields(kind)}


def _unknown(name: str, fields: Mapping[str, object]) -> str:
    # Kafka's own spelling is the most likely mistake.
    spelled = name.lower().replace(".", "_").replace("-", "_")
    nearest = difflib.get_close_matches(spelled, fields, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"there is no option {name!r}{hint}"
