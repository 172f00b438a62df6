"""Log lines on standard error, for a person or for a program that collects them.

    human   2026-11-15T23:20:00.123Z INFO  tidelog.broker.node.node: message
    json    {"time":"2026-11-15T23:20:00.123Z","level":"INFO","logger":"tidelog.broker.node.node","message":"..."}

A record is one line, whatever its message holds; a traceback follows it in the human form and is a field in the other.
"""

from __future__ import annotations

import logging
import sys

from tidelog.cli.node.broker_options import LogFormat, LogLevel
from tidelog.cli.rendering import Json, json_line, printable, time_as_text


def log_to_stderr(form: LogFormat, level: LogLevel) -> None:
    """Send what any logger of this process says to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else HumanLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.name)


class HumanLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname:<5} {record.name}: {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Json] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json_line(fields)


def _time(record: logging.LogRecord) -> str:
    return time_as_text(int(record.created * 1000))
