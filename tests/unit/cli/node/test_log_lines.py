"""Log lines, for a person and for a program."""

from __future__ import annotations

import json
import logging
import sys

from tidelog.cli.node.log_lines import HumanLines, JsonLines


def record(message: str, *arguments: object) -> logging.LogRecord:
    made = logging.LogRecord("tidelog.net", logging.WARNING, "net.py", 1, message, arguments, None)
    made.created = 1_700_000_000.123
    return made


def test_a_person_reads_time_level_logger_and_message() -> None:
    line = HumanLines().format(record("%d connections", 3))

    assert line == "2023-11-14T22:13:20.123Z WARNING tidelog.net: 3 connections"


def test_a_message_cannot_forge_a_line_or_move_the_cursor() -> None:
    line = HumanLines().format(record("client %s", "a\nERROR\x1b[2J"))

    assert "\n" not in line
    assert "\x1b" not in line


def test_a_program_reads_one_object_a_line() -> None:
    made = record("it failed")
    try:
        int("many")
    except ValueError:
        made.exc_info = sys.exc_info()

    fields = json.loads(JsonLines().format(made))

    assert fields["time"] == "2023-11-14T22:13:20.123Z"
    assert (fields["level"], fields["logger"], fields["message"]) == ("WARNING", "tidelog.net", "it failed")
    assert "ValueError: invalid literal" in fields["error"]
