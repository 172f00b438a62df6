"""The options of `tidelog broker`, and a fast path that reads them from a command line without typer.

Whoever starts a node waits for it, and typer takes a fifth of that time. So an ordinary command line is read here; for anything
else (a mistake, `--help`, an empty value) the caller falls back to typer, which also has the error messages. Imported at every
start, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

DEFAULT_METRICS_HOST = "127.0.0.1"
PORT_MAX = 65535

LED_BY_STDIN = "--led-by-stdin"


class LogFormat(StrEnum):
    HUMAN = "human"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class BrokerOptions(NamedTuple):
    config_path: str | None
    settings: Sequence[str] = ()
    log_format: LogFormat = LogFormat.HUMAN
    log_level: LogLevel = LogLevel.INFO
    is_led_by_stdin: bool = False
    """Whether standard input names the configuration, and its end stops the node: see `node_process`."""
    metrics_port: int | None = None
    metrics_host: str = DEFAULT_METRICS_HOST
    is_strict: bool = False
    """Whether a key that nobody knows is refused."""
    metrics_cert: str | None = None
    metrics_key: str | None = None
    metrics_token_file: str | None = None


class OrdinaryWords(NamedTuple):
    """A command line of options with a value each, and of flags."""

    values: dict[str, str]
    """The last one where an option is repeated."""
    settings: tuple[str, ...]
    """Of `--set`, which may be repeated."""
    flags: frozenset[str]


def ordinary_broker_options(arguments: Sequence[str]) -> BrokerOptions | None:
    """What a command line after `tidelog` asks of a broker; None where it is not one, or not an ordinary one."""
    if not arguments or arguments[0] != "broker":
        return None
    names = (
        *("--config", "--log-format", "--log-level", "--metrics-port", "--metrics-host"),
        *("--metrics-cert", "--metrics-key", "--metrics-token-file"),
    )
    words = ordinary_words(arguments[1:], names, flags=(LED_BY_STDIN,))
    if words is None:
        return None
    try:
        return BrokerOptions(
            config_path=words.values.get("--config"),
            settings=words.settings,
            log_format=LogFormat(words.values.get("--log-format", LogFormat.HUMAN)),
            log_level=LogLevel(words.values.get("--log-level", LogLevel.INFO)),
            is_led_by_stdin=LED_BY_STDIN in words.flags,
            metrics_port=ordinary_number(words.values.get("--metrics-port"), PORT_MAX),
            metrics_host=words.values.get("--metrics-host", DEFAULT_METRICS_HOST),
            metrics_cert=words.values.get("--metrics-cert"),
            metrics_key=words.values.get("--metrics-key"),
            metrics_token_file=words.values.get("--metrics-token-file"),
        )
    except ValueError:
        return None


def ordinary_words(arguments: Sequence[str], names: Sequence[str], flags: Sequence[str] = ()) -> OrdinaryWords | None:
    """A command line with these options and `--set`; None where it has anything else."""
    values: dict[str, str] = {}
    settings: list[str] = []
    given: set[str] = set()
    words = iter(arguments)
    for word in words:
        if word in flags:
            given.add(word)
            continue
        name, equals, value = word.partition("=")
        if not equals:
            value = next(words, "")
        if not value or value.startswith("-"):
            return None
        if name == "--set":
            settings.append(value)
        elif name in names:
            values[name] = value
        else:
            return None
    return OrdinaryWords(values, tuple(settings), frozenset(given))


def ordinary_number(text: str | None, most: int) -> int | None:
    """A number from 0 on, or None where none is given. ValueError for anything else."""
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and int(text) <= most):
        raise ValueError
    return int(text)
