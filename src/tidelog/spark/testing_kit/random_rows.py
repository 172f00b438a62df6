"""Rows made up for a source: by the columns that its decoder gives, from a seed. Pure.

    made = RandomRows(columns, Random(7), event_column="at", late=timedelta(minutes=5))
    made.row(number, now)

Numbers and texts are few, so that groups have several rows and keys come again; a column whose name ends in `id` is another one
in each row. The event column has the time that is given, less at most `late`.
"""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import TYPE_CHECKING, Any

from tidelog.spark.testing_kit.errors import PipelineTestError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# So many different values of a column that is no id.
_DISTINCT = 10
_ELEMENTS_MAX = 3


class RandomRows:
    def __init__(self, columns: StructType, random: Random, event_column: str | None, late: dt.timedelta) -> None:
        """PipelineTestError for a column of which no values can be made up."""
        self._columns = columns
        self._random = random
        self._event_column = event_column
        self._late = late
        self.row(0, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))

    def row(self, number: int, now: dt.datetime) -> dict[str, Any]:
        """`now` is the event time that most rows have; one in three is late."""
        at = now
        if self._late and self._random.random() < 1 / 3:
            at = now - self._late * self._random.random()
        return {each.name: self._value(each.name, each.dataType, number, at) for each in self._columns.fields}

    def _value(self, name: str, kind: DataType, number: int, at: dt.datetime) -> Any:
        chosen = self._random.randrange(_DISTINCT)
        word = kind.typeName()
        if name == self._event_column and word in {"long", "integer"}:
            # As `timestamp_millis` has it, which most such columns are.
            return int(at.timestamp() * 1000)
        is_own = name.lower().endswith("id")
        match word:
            case "string" | "varchar" | "char":
                return at.isoformat() if name == self._event_column else f"{name}-{number if is_own else chosen}"
            case "byte" | "short":
                return chosen
            case "integer" | "long":
                return number if is_own else chosen
            case "float" | "double":
                # Quarters add up to the same in any order.
                return chosen + 0.25
            case "decimal":
                return str(chosen)
            case "boolean":
                return chosen % 2 == 0
            case "timestamp":
                return at.isoformat()
            case "timestamp_ntz":
                return at.replace(tzinfo=None).isoformat()
            case "date":
                return at.date().isoformat()
            case "binary":
                return b"%d" % chosen
            case "struct":
                return {each.name: self._value(each.name, each.dataType, number, at) for each in kind.fields}  # type: ignore[attr-defined]
            case "array":
                count = self._random.randint(1, _ELEMENTS_MAX)
                return [self._value(name, kind.elementType, number, at) for _ in range(count)]  # type: ignore[attr-defined]
            case "map":
                return {f"key-{chosen}": self._value(name, kind.valueType, number, at)}  # type: ignore[attr-defined]
        raise PipelineTestError(f"no values can be made up for the column {name}, a {word}: give rows of your own")
