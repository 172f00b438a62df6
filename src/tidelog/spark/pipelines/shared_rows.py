"""Rows that several steps of a batch take from, read and computed once: Spark shuffles them, and reads what is shuffled again.

Spark plans each step by itself, down to the source, and brings two of them together only where they shuffle the very same rows
(`ReuseExchange`). So these are shuffled in between, and nothing that a step does not need of them is left out before: what it
leaves out, and which rows it chooses, would tell the two apart.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

_TASK, _NEVER = "__task", "__never"


def computed_once(rows: DataFrame) -> DataFrame:
    """The same rows, those of a task in their order."""
    names = rows.columns
    session = rows.sparkSession
    count = int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    laid = rows.withColumn(_TASK, F.spark_partition_id()).repartitionById(count, F.col(_TASK) % count)
    # A value that Spark takes for chance, made of all columns: no choice of rows and of columns gets past it. It has no seed, of
    # which Spark would make another one for each step.
    whole = F.xxhash64(*[_hashed(each.name, each.dataType) for each in rows.schema.fields])
    laid = laid.withColumn(_NEVER, F.abs(whole % 2) + F.spark_partition_id() < 0)
    return laid.where(~F.col(_NEVER)).select(*[F.col(f"`{name}`") for name in names])


def _hashed(name: str, kind: DataType) -> Column:
    column = F.col(f"`{name}`")
    return column if _has_hash(kind) else F.to_json(F.struct(column))


def _has_hash(kind: DataType) -> bool:
    match kind:
        case StructType():
            return all(_has_hash(each.dataType) for each in kind.fields)
        case ArrayType():
            return _has_hash(kind.elementType)
    return not isinstance(kind, MapType) and kind.typeName() not in {"variant", "geometry", "geography"}
