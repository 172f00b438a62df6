"""What Delta keeps of each file, so that readers pass over those that cannot have what they look for: rows, nulls, and the least
and the greatest value of columns.

A bound that is too narrow loses rows in silence, one that is missing costs time. So a bound is left out wherever it is not
certain: of nested columns, of fractions that are not numbers (greater than all others to Spark, and passed over by Parquet), of
truth values and bytes, which Delta's own writer leaves out as well.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

# As many as Delta's own writer takes: every one is in the log for every file.
COLUMNS_MAX = 32
TEXT_CHARACTERS_MAX = 32
# Behind the first characters of a text it is greater than whatever follows them.
_LAST_CHARACTER = "\U0010ffff"

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def file_statistics(metadata: FileMetaData, rows: int, *, not_numbers: Collection[str] = ()) -> str:
    """JSON of a finished file; `not_numbers` are the columns that have a NaN."""
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    plain = [index for index in range(metadata.num_columns) if _is_plain(metadata, index)]
    for index in plain[:COLUMNS_MAX]:
        name = metadata.schema.column(index).path
        groups: list[Any] = [
            metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)
        ]
        found = [each for each in groups if each is not None and each.has_null_count]
        if len(found) < len(groups):
            continue
        nulls[name] = sum(each.null_count for each in found)
        # A group of nulls alone has no bounds, and needs none.
        bounded: list[Any] = [each for each in found if each.num_values]
        if name in not_numbers or not bounded or not all(each.has_min_max for each in bounded):
            continue
        try:
            low, high = min(each.min for each in bounded), max(each.max for each in bounded)
        except (ValueError, OverflowError):
            # A date before the year 1 or after 9999.
            continue
        if (bound := _least(low)) is not None:
            least[name] = bound
        if (bound := _greatest(high)) is not None:
            greatest[name] = bound
    found_all = {"numRecords": rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return _ENCODER.encode(found_all).decode()


def _is_plain(metadata: FileMetaData, index: int) -> bool:
    column = metadata.schema.column(index)
    return bool(column.max_repetition_level == 0 and column.max_definition_level <= 1 and column.path == column.name)


def _least(value: object) -> object:
    if isinstance(value, str):
        return value[:TEXT_CHARACTERS_MAX]
    return _bound(value)


def _greatest(value: object) -> object:
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS_MAX:
        if value[TEXT_CHARACTERS_MAX] == _LAST_CHARACTER:
            return None
        return value[:TEXT_CHARACTERS_MAX] + _LAST_CHARACTER
    return value if isinstance(value, str) else _bound(value)


def _bound(value: object) -> object:
    match value:
        case bool():
            return None
        case int() | decimal.Decimal():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dt.datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return text if value.tzinfo is None else f"{text}Z"
        case dt.date():
            return value.isoformat()
    return None
