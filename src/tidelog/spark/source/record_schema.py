"""The columns of a record: those of Spark's own Kafka connector, in Spark's terms and in Arrow's.

key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int
headers array<struct<key: string, value: binary>>, where asked for
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TYPES: dict[str, tuple[str, pa.DataType]] = {
    "key": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "offset": ("bigint", pa.int64()),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC")),
    "timestampType": ("int", pa.int32()),
    "headers": (
        "array<struct<key: string, value: binary>>",
        pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    ),
}
ALL_COLUMNS = tuple(_TYPES)
_BY_LOWER = {name.lower(): name for name in ALL_COLUMNS}


def chosen_columns(text: str) -> tuple[str, ...]:
    """The value of the option `columns`, in the order given. OptionError for a name that is none."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    for name in names:
        if name.lower() not in _BY_LOWER:
            raise OptionError(f"columns names {name!r}; a record has {', '.join(ALL_COLUMNS)}")
    columns = tuple(_BY_LOWER[name.lower()] for name in names)
    if not columns:
        raise OptionError(f"columns names none; a record has {', '.join(ALL_COLUMNS)}")
    if len(set(columns)) != len(columns):
        raise OptionError(f"columns names a column twice: {text}")
    return columns


def spark_schema(columns: Sequence[str]) -> str:
    """Spark's schema of these columns, as it is written in SQL."""
    return ", ".join(f"`{name}` {_TYPES[name][0]}" for name in columns)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """What Spark takes for that schema: exactly these types, or the read fails."""
    return pa.schema([pa.field(name, _TYPES[name][1]) for name in columns])
