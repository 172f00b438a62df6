"""Where in the order of its source a change is, as text that compares as the changes came: digits of one width. Pure.

    PostgreSQL         last commit, position of the change
    MySQL, MariaDB     file of the binary log, position in it, row of the event
    any other          when the source made the change, in nanoseconds

The record's own offset comes last, and decides between changes of one position. PostgreSQL hands over changes in the order of
commits, while positions of those that were made at the same time go back and forth: of an insert that waited for another
transaction to delete its key the position is the smaller one. Positions of different sources do not compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_NUMBER = "{:020d}"
NUMBER_MAX = 10**20 - 1


def position_in_source(source: Mapping[str, Any], offset: int) -> str | None:
    """None where the source does not say it. `source` is the event's, or has its fields by the same names."""
    if "lsn" in source or "sequence" in source:
        found = _log_sequence(source)
    elif "file" in source:
        found = _binary_log(source)
    else:
        found = _time(source)
    return None if found is None else text_of((*found, offset))


def text_of(numbers: tuple[int, ...]) -> str | None:
    if not all(0 <= each <= NUMBER_MAX for each in numbers):
        return None
    return ".".join(_NUMBER.format(each) for each in numbers)


def _log_sequence(source: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Rows of an incremental snapshot have a sequence alone. Where there is nothing yet that was committed, as in a first
    snapshot, there is only the position."""
    committed, last = _sequence(source.get("sequence"))
    position = _whole(source.get("lsn"))
    if position is None:
        position = last
    if position is None:
        return None
    return (position if committed is None else committed, position)


def _sequence(text: object) -> tuple[int | None, int | None]:
    if not isinstance(text, str):
        return None, None
    try:
        numbers = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None, None
    if not isinstance(numbers, list) or len(numbers) != 2:
        return None, None
    return _whole(numbers[0]), _whole(numbers[1])


def _binary_log(source: Mapping[str, Any]) -> tuple[int, ...] | None:
    file, position = source.get("file"), _whole(source.get("pos"))
    if not isinstance(file, str) or position is None:
        return None
    number = _whole(file.rpartition(".")[2])
    return None if number is None else (number, position, _whole(source.get("row")) or 0)


def _time(source: Mapping[str, Any]) -> tuple[int, ...] | None:
    for name, nanoseconds in (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", 1_000_000)):
        found = _whole(source.get(name))
        if found is not None:
            return (found * nanoseconds,)
    return None


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    # Digits of other scripts are digits, too, and no numbers.
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20 else None
