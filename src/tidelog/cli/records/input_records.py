"""The records that `tidelog produce` is given: lines of text, or JSON lines as `tidelog consume --json` prints them.

a line                                  the value; with a key separator, what is before it is the key
{"key": "a", "value": "b",              all fields may be left out; key, value and a header's value are text,
 "headers": [["name", "text"]],         {"base64": "AP8="} or null, and nothing else: JSON as a value is text too
 "partition": 0, "timestamp": 1794816000000}

`topic` and `offset`, which `consume` prints as well, say where a record was read and have no effect.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from tidelog.cli.admin_session import QuestionError

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_FIELDS = ("key", "value", "headers", "partition", "timestamp", "topic", "offset")
# As much of a wrong value as a sentence can hold.
_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class InputRecord:
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class InputFormat:
    """How a line becomes a record."""

    key_separator: bytes | None = None
    null_marker: bytes | None = None
    """A key or value that is exactly this stands for none."""
    is_json: bool = False
    key: bytes | None = None
    """The key of records that have none of their own."""


def read_lines(stream: BinaryIO, line_bytes_max: int) -> Iterator[bytes]:
    """The lines of a stream without their ends. QuestionError for one that no record can hold, before it is read whole."""
    number = 0
    while line := stream.readline(line_bytes_max + 1):
        number += 1
        if len(line) > line_bytes_max and not line.endswith(b"\n"):
            raise QuestionError(f"line {number} is longer than {line_bytes_max} bytes, the most that a record can have")
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def parse_line(line: bytes, number: int, form: InputFormat) -> InputRecord:
    """The record of a line. QuestionError names the line that is none."""
    if form.is_json:
        return _parse_json(line, number, form)
    key, value = form.key, line
    if form.key_separator is not None:
        before, separator, after = line.partition(form.key_separator)
        if not separator:
            raise QuestionError(
                f"line {number} has no key: expected the separator {form.key_separator.decode('utf-8', 'replace')!r} in it"
            )
        key, value = before, after
    marker = form.null_marker
    return InputRecord(
        value=None if marker is not None and value == marker else value,
        key=None if marker is not None and key == marker else key,
    )


def _parse_json(line: bytes, number: int, form: InputFormat) -> InputRecord:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"line {number} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise QuestionError(f"line {number} is not a JSON object with key and value")
    unknown = next((name for name in fields if name not in _FIELDS), None)
    if unknown is not None:
        raise QuestionError(f"line {number} has a field {unknown!r}; a record has {', '.join(_FIELDS)}")
    key = _bytes(fields.get("key"), number, "key")
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(
        isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in headers
    ):
        raise QuestionError(f"line {number} has headers that are not a list of names with values")
    return InputRecord(
        value=_bytes(fields.get("value"), number, "value"),
        key=form.key if key is None else key,
        headers=[(name, _bytes(value, number, "header")) for name, value in headers],
        partition=_number(fields.get("partition"), number, "partition", _INT32_MAX),
        timestamp_ms=_number(fields.get("timestamp"), number, "timestamp", _INT64_MAX),
    )


def _bytes(value: object, number: int, what: str) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
            return b64decode(value["base64"], validate=True)
    except UnicodeEncodeError as error:
        raise QuestionError(f"line {number} has text that no UTF-8 can hold") from error
    except ValueError as error:
        raise QuestionError(f"line {number} has base64 that cannot be read: {error}") from error
    shown = json.dumps(value, ensure_ascii=False)
    if len(shown) > _SHOWN_MAX:
        shown = f"{shown[:_SHOWN_MAX]}..."
    raise QuestionError(
        f'line {number} has {shown} as its {what}: expected text, null or {{"base64": "..."}}; JSON goes in quotes, as text'
    )


def _number(value: object, number: int, name: str, limit: int) -> int | None:
    if value is None or (name == "timestamp" and value == -1):
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
        raise QuestionError(f"line {number} has {value!r} as its {name}, which is a number from 0 on")
    return value
