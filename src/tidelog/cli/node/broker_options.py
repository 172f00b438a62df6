"""What `tidelog broker` can be told, and the quick way to read it from a command line.

Who starts a node waits for it, and the machinery that reads any command line takes a fifth of that time. So the ordinary words of
`tidelog broker` are read here; whatever is not ordinary (a mistake, `--help`, an empty value) is left to that machinery, which
then says what there is to say. Imported at every start, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

DEFAULT_METRICS_HOST = "127.0.0.1"
PORT_MAX = 65535

_STOPS_WITH_STDIN = "--stop-with-stdin"


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
    stops_with_stdin: bool = False
    """Whether the end of standard input stops the node: a parent that dies takes it along."""
    metrics_port: int | None = None
    metrics_host: str = DEFAULT_METRICS_HOST
    is_strict: bool = False
    """Whether a key that nobody knows is refused."""


def ordinary_broker_options(arguments: Sequence[str]) -> BrokerOptions | None:
    """What a command line after `tidelog` asks of a broker; None where it is not one, or not an ordinary one."""
    if not arguments or arguments[0] != "broker":
        return None
    settings: list[str] = []
    given: dict[str, str] = {"--log-format": LogFormat.HUMAN, "--log-level": LogLevel.INFO}
    stops_with_stdin = False
    words = iter(arguments[1:])
    for word in words:
        if word == _STOPS_WITH_STDIN:
            stops_with_stdin = True
            continue
        name, equals, value = word.partition("=")
        if not equals:
            value = next(words, "")
        if not value or value.startswith("-"):
            return None
        if name == "--set":
            settings.append(value)
        elif name in ("--config", "--log-format", "--log-level", "--metrics-port", "--metrics-host"):
            given[name] = value
        else:
            return None
    port = given.get("--metrics-port")
    try:
        return BrokerOptions(
            config_path=given.get("--config"),
            settings=tuple(settings),
            log_format=LogFormat(given["--log-format"]),
            log_level=LogLevel(given["--log-level"]),
            stops_with_stdin=stops_with_stdin,
            metrics_port=None if port is None else _port(port),
            metrics_host=given.get("--metrics-host", DEFAULT_METRICS_HOST),
        )
    except ValueError:
        return None


def _port(text: str) -> int:
    """ValueError for what is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(PORT_MAX)) and int(text) <= PORT_MAX):
        raise ValueError
    return int(text)
