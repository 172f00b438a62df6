"""How `tidelog consume` shows a record.

the value alone                      as it is in a file or a pipe; on a terminal with what it might act on escaped
with --offsets --times --headers --keys        orders-0@17  2026-11-16T08:00:00.000Z  name=text  key  value, tabs between
with --format                        a text of one's own, see `record_format`
with --json                          everything, one object a line; bytes that are no UTF-8 as {"base64": ...}

What is not printable, tabs apart, is shown on a terminal as \\x1b or \\u202e; within JSON as \\u001b, which reads back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidelog.cli.records.record_format import format_renderer
from tidelog.cli.rendering import Json, bytes_as_json, json_line, time_as_text
from tidelog.client.consumer.records import ConsumerRecord

Row: TypeAlias = ConsumerRecord[Any, Any]

NULL = b"null"


@dataclass(frozen=True, slots=True)
class OutputFormat:
    keys: bool = False
    headers: bool = False
    times: bool = False
    offsets: bool = False
    as_json: bool = False
    separator: bytes = b"\t"
    is_terminal: bool = False
    text: str | None = None
    """In the letters of `record_format`, instead of all above."""


def renderer(form: OutputFormat) -> Callable[[Row], bytes]:
    """The function that makes the line of a record, its end included."""
    if form.as_json:
        return _json_line_for_terminal if form.is_terminal else _json_line
    shown = _printable if form.is_terminal else _as_is
    if form.text is not None:
        return format_renderer(form.text, shown)

    def line(record: Row) -> bytes:
        cells = []
        if form.offsets:
            cells.append(f"{record.topic}-{record.partition}@{record.offset}".encode())
        if form.times:
            cells.append(time_as_text(record.timestamp_ms).encode())
        if form.headers:
            cells.append(
                b",".join(shown(name.encode()) + b"=" + shown(value) for name, value in record.headers) or b"-"
            )
        if form.keys:
            cells.append(shown(record.key))
        cells.append(shown(record.value))
        return form.separator.join(cells) + b"\n"

    return line


def _json_line(record: Row) -> bytes:
    fields: dict[str, Json] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(value)] for name, value in record.headers],
    }
    return json_line(fields).encode(errors="backslashreplace") + b"\n"


def _json_line_for_terminal(record: Row) -> bytes:
    # JSON itself leaves in what is not ASCII, some of which a terminal acts on.
    line = _json_line(record).decode().removesuffix("\n")
    return _escaped(line, lambda character: json.dumps(character)[1:-1]).encode() + b"\n"


def _as_is(data: bytes | memoryview | None) -> bytes:
    return NULL if data is None else bytes(data)


def _printable(data: bytes | memoryview | None) -> bytes:
    text = _as_is(data).decode("utf-8", "backslashreplace")
    return _escaped(text, lambda character: character.encode("unicode_escape").decode("ascii")).encode()


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\t" else escape(each) for each in text)
