"""The options of `tidelog up`, and the same fast path around typer that `tidelog broker` has (`broker_options`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.cli.node.broker_options import (
    DEFAULT_METRICS_HOST,
    PORT_MAX,
    LogFormat,
    LogLevel,
    ordinary_number,
    ordinary_words,
)

DEFAULT_PORT = 9092

# More than any cluster may have, so that the error is the cluster's; few enough digits to parse safely.
_NODES_READ_MAX = 9999


class UpOptions(NamedTuple):
    nodes: int | None = None
    """None for as many as the directory has, or one."""
    port: int = DEFAULT_PORT
    """Of the first node; the others have those that follow. 0 is any that is free."""
    directory: str | None = None
    settings: Sequence[str] = ()
    log_format: LogFormat = LogFormat.HUMAN
    log_level: LogLevel = LogLevel.WARNING
    metrics_port: int | None = None
    """Of the first node; the others have those that follow. 0 is any that is free."""
    metrics_host: str = DEFAULT_METRICS_HOST
    security: str | None = None
    """How it is secured, in the words of `broker.node.local_security`."""
    has_console: bool = False
    console_port: int | None = None
    """None for the usual one, or any where that is taken; 0 is any that is free."""


def ordinary_up_options(arguments: Sequence[str]) -> UpOptions | None:
    """What a command line after `tidelog` asks of `up`; None where it is not that command, or not an ordinary line."""
    if not arguments or arguments[0] != "up":
        return None
    names = ("--nodes", "--port", "--dir", "--log-format", "--log-level", "--metrics-port", "--metrics-host")
    words = ordinary_words(arguments[1:], names)
    if words is None:
        return None
    try:
        nodes = ordinary_number(words.values.get("--nodes"), _NODES_READ_MAX)
        if nodes == 0:
            return None
        port = ordinary_number(words.values.get("--port"), PORT_MAX)
        return UpOptions(
            nodes=nodes,
            port=DEFAULT_PORT if port is None else port,
            directory=words.values.get("--dir"),
            settings=words.settings,
            log_format=LogFormat(words.values.get("--log-format", LogFormat.HUMAN)),
            log_level=LogLevel(words.values.get("--log-level", LogLevel.WARNING)),
            metrics_port=ordinary_number(words.values.get("--metrics-port"), PORT_MAX),
            metrics_host=words.values.get("--metrics-host", DEFAULT_METRICS_HOST),
        )
    except ValueError:
        return None
