"""Rows beside the rows that were expected: which are missing, and which are there too often. Pure.

Order does not count, how often a row is there does. A row is compared by the columns that are expected, so that a test names
those that it is about; what is the same as text, such as a time in JSON and one of a table, is the same.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tidelog.spark.testing_kit.errors import RowsDifferError

Row: TypeAlias = Mapping[str, Any]

# Rows that a failure shows of each kind; nobody reads more.
SHOWN_MAX = 20
_ROW_CHARACTERS_MAX = 400


class RowDifferences(NamedTuple):
    """Each row as it is shown, as often as it is too few or too many."""

    missing: tuple[str, ...]
    surplus: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus)

    def told(self, what: str, expected: str = "expected") -> str:
        """Several lines: what differs, and the rows."""
        missing, surplus = _counted(len(self.missing)), _counted(len(self.surplus))
        lines = [f"{what}: {missing} {expected} and not there, {surplus} there and not {expected}"]
        for mark, rows in (("missing", self.missing), ("surplus", self.surplus)):
            lines += [f"  {mark}  {each[:_ROW_CHARACTERS_MAX]}" for each in rows[:SHOWN_MAX]]
            if len(rows) > SHOWN_MAX:
                lines.append(f"  {mark}  and {len(rows) - SHOWN_MAX} more")
        return "\n".join(lines)


def differences(expected: Sequence[Row], found: Sequence[Row]) -> RowDifferences:
    """Of two lists of rows, by the columns of those that are expected; by all where none is."""
    columns = list(dict.fromkeys(name for row in expected for name in row))
    wanted = Counter(shown({name: row.get(name) for name in columns}) for row in expected)
    there = Counter(shown({name: row.get(name) for name in columns} if columns else row) for row in found)
    return RowDifferences(_each(wanted - there), _each(there - wanted))


def check_rows(what: str, expected: Iterable[Row], found: Sequence[Row]) -> None:
    """RowsDifferError where they differ."""
    differing = differences(list(expected), found)
    if differing:
        raise RowsDifferError(differing.told(what))


def shown(row: Row) -> str:
    """A row as one line, the same for the same values."""
    return json.dumps({name: _plain(value) for name, value in row.items()}, ensure_ascii=False)


def _plain(value: Any) -> Any:
    match value:
        case dt.datetime():
            return _time(value)
        case str():
            return _time_in(value)
        case dt.date():
            return value.isoformat()
        case decimal.Decimal():
            return format(value.normalize(), "f")
        case bytes():
            return value.decode("utf-8", errors="backslashreplace")
        case float():
            # JSON has no other way to say that 3.0 is 3.
            return int(value) if value.is_integer() and abs(value) < 2**53 else value
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value


def _time(value: dt.datetime) -> str:
    at = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time_in(text: str) -> str:
    """A time as Spark and databases write it, in one form; any other text as it is."""
    if len(text) < len("2026-11-18T08:00") or not text[:4].isdigit() or text[4:5] != "-" or ":" not in text:
        return text
    try:
        return _time(dt.datetime.fromisoformat(text))
    except ValueError:
        return text


def _each(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(counts.elements()))


def _counted(count: int) -> str:
    return "1 row is" if count == 1 else f"{count:,} rows are"
