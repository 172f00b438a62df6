"""The rows of all sinks in one DataFrame, so that one job computes them once.

    wide      one row of the result, one struct column a sink: null where the row is not for it
    tagged    where sinks change tables by different keys: a row for each sink, with its number, so that each can lie beside the
              others of its key

Rows that change a table are brought together by key and sorted by sequence: tasks then keep the last one of each key
(`last_changes`). A column `__unchanged`, as `Debezium()` makes it, names columns of a row that keep what the table has: a sink
that changes a table goes by it and does not have it (`kept_values`); to any other sink it is a column as all are. Rows of a topic
are brought together by the partition that they go to, where that is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructField, StructType

from tidelog.spark.outputs.kept_values import GIVEN, KEPT
from tidelog.spark.outputs.staged import DELETED, UNCHANGED, VALID_FROM, VALID_TO, Changes
from tidelog.spark.pipelines.decoders import LEFT_OUT
from tidelog.spark.pipelines.definition import RECORD
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.sink_targets import changes_of
from tidelog.spark.pipelines.sinks import Sink, ToDatabase, ToFiles, ToTable, ToTopic

TAG = "sink"
_TARGET = "target"
_RECORD_COLUMNS = ("key", "value", "topic", "partition", "headers", "timestamp")
_KEYS_MAX = 16
"""Each is compared for each row of a batch."""


@dataclass(frozen=True, slots=True)
class SinkRows:
    """What one sink gets of the result."""

    label: str
    fields: tuple[tuple[str, Column], ...]
    """Its columns by name, over those of the result."""
    schema: StructType
    condition: str | None = None
    changes: Changes | None = None
    origin: int = 0
    """Sinks of different origins have no row in common."""
    target: Column | None = None
    """Of a topic that each partition is to be written of by one task: the partition that a row goes to."""

    @property
    def own_target(self) -> Column:
        """Null for rows that are not for it, and where it does not matter."""
        if self.target is None:
            return F.lit(None).cast("int")
        return self.target if self.condition is None else F.when(F.expr(self.condition), self.target)

    @property
    def struct(self) -> Column:
        whole = F.struct(*[column.alias(name) for name, column in self.fields])
        return whole if self.condition is None else F.when(F.expr(self.condition), whole)

    @property
    def order(self) -> tuple[str, ...]:
        """Columns by which its rows lie together, then those by which they are sorted."""
        changes = self.changes
        if changes is None:
            return ()
        return (*changes.merge_on, *([] if changes.sequence_by is None else [changes.sequence_by]))


def rows_of(result: DataFrame, sink: Sink) -> SinkRows:
    """What a sink gets of a result. PySparkException or DefinitionError where that cannot be."""
    if sink.where is not None:
        result.where(F.expr(sink.where))
    if isinstance(sink, ToTopic):
        fields = _record_fields(result, sink)
        return SinkRows(sink.label, fields, _schema(result, fields), sink.where)
    changes = None if isinstance(sink, ToFiles) else changes_of(sink)
    own = {RECORD} if changes is None else {RECORD, LEFT_OUT}
    names = [name for name in result.columns if name not in own]
    _check_names(sink, names)
    fields = tuple((name, F.col(f"`{name}`")) for name in names)
    if changes is not None and isinstance(sink, ToTable | ToDatabase):
        deletes = F.lit(False) if sink.deletes is None else F.coalesce(F.expr(sink.deletes), F.lit(False))
        fields = (*fields, (DELETED, deletes.cast("boolean")))
        if LEFT_OUT in result.columns:
            fields = (*fields, (UNCHANGED, _marks(result, names)))
    schema = _schema(result, fields)
    _check_types(schema, changes)
    return SinkRows(sink.label, fields, schema, sink.where, changes)


def _marks(result: DataFrame, names: Sequence[str]) -> Column:
    """A character for each column; null for a row that has all of its values. A row that leaves out what is none of these columns
    stops the query: the values of one that was given another name would be lost."""
    kind = result.schema[LEFT_OUT].dataType
    if kind != ArrayType(StringType()):
        raise DefinitionError([f"the column {LEFT_OUT} is {kind.simpleString()}; it is an array of names of columns"])
    left_out = F.transform(F.col(LEFT_OUT), F.lower)
    marks = [F.when(F.array_contains(left_out, name.lower()), KEPT).otherwise(GIVEN) for name in names]
    foreign = F.array_except(left_out, F.array(*[F.lit(name.lower()) for name in names]))
    said = F.concat(
        F.lit("a row leaves out the value of "),
        F.concat_ws(", ", foreign),
        F.lit(f", which is no column of what comes out: {LEFT_OUT} has to have the name that it has there, or none"),
    )
    known = F.when(F.size(foreign) > 0, F.raise_error(said).cast("string")).otherwise(F.concat(*marks))
    return F.when(F.size(F.col(LEFT_OUT)) > 0, known)


def _record_fields(result: DataFrame, sink: ToTopic) -> tuple[tuple[str, Column], ...]:
    """The columns of a record: as they are, or each row as one JSON value, nulls as well: a reader should see that a column is
    there."""
    if sink.encode == "columns":
        names = [name for name in _RECORD_COLUMNS if name in result.columns]
        if "value" not in names:
            raise DefinitionError(["encode is columns, and what comes out has no column value"])
        return tuple((name, F.col(name)) for name in names)
    columns = [F.col(f"`{name}`") for name in result.columns if name != RECORD]
    if not columns:
        raise DefinitionError(["nothing but record comes out: decode= makes columns of it, or encode='columns'"])
    if isinstance(sink.encode, str):
        value = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    else:
        row = F.struct(*columns)
        # A function in Python sees every row: those that are for other sinks may be none of its schema.
        own = row if sink.where is None else F.when(F.expr(sink.where), row)
        value = sink.encode.encoded(own, result.select(*columns).schema)
    if sink.key is None:
        return (("value", value),)
    key = F.expr(sink.key)
    kind = result.select(key).schema[0].dataType.typeName()
    return (("key", key if kind == "binary" else key.cast("string")), ("value", value))


def _schema(result: DataFrame, fields: Sequence[tuple[str, Column]]) -> StructType:
    """Of a sink's rows. What Spark knows never to be null may be with the next release of the pipeline: all may."""
    found = result.select(*[column.alias(name) for name, column in fields]).schema
    return StructType([StructField(each.name, _nullable(each.dataType)) for each in found.fields])


def _nullable(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return StructType([StructField(each.name, _nullable(each.dataType)) for each in kind.fields])
        case ArrayType():
            return ArrayType(_nullable(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _nullable(kind.valueType))
    return kind


def _check_names(sink: ToTable | ToFiles | ToDatabase, names: Sequence[str]) -> None:
    if not names:
        raise DefinitionError(
            ["nothing but record comes out: decode= makes columns of it, or give what you need a name"]
        )
    lower = [name.lower() for name in names]
    twice = sorted({name for name in lower if lower.count(name) > 1})
    found = [f"there are {lower.count(name)} columns {name}: give each a name of its own" for name in twice]
    asked = [("partition_by", name) for name in getattr(sink, "partition_by", ())]
    if not isinstance(sink, ToFiles):
        asked += [("merge_on", name) for name in sink.merge_on]
        asked += [] if sink.sequence_by is None else [("sequence_by", sink.sequence_by)]
        own = [*([DELETED, UNCHANGED] if sink.merge_on else []), *([VALID_FROM, VALID_TO] if sink.history else [])]
        found += [f"there is a column {name}, which the table has of its own" for name in own if name in lower]
        if len(sink.merge_on) > _KEYS_MAX:
            found.append(f"merge_on names {len(sink.merge_on)} columns: {_KEYS_MAX} are the most")
    found += [
        f"{what} names the column {name}, which does not come out: there are {', '.join(names)}"
        for what, name in asked
        if name not in names
    ]
    if found:
        raise DefinitionError(found)


def _check_types(schema: StructType, changes: Changes | None) -> None:
    found = [
        f"the column {each.name} has no type: cast it to one"
        for each in schema.fields
        if isinstance(each.dataType, NullType)
    ]
    compared = () if changes is None else (*changes.merge_on, *([changes.sequence_by] if changes.sequence_by else []))
    found += [
        f"the column {each.name} is of type {each.dataType.simpleString()}, which cannot be part of a key"
        for each in schema.fields
        if each.name in compared and isinstance(each.dataType, StructType | ArrayType | MapType)
    ]
    if found:
        raise DefinitionError(found)


def is_tagged(sinks: Sequence[SinkRows]) -> bool:
    """Whether rows have to be tagged: sinks have different keys, or sequences, or one partitions and another keys; or rows of
    another origin, which have no such key, would all lie beside each other."""
    placed = sum(each.target is not None for each in sinks)
    moves = placed or any(each.changes is not None for each in sinks)
    if moves and len({each.origin for each in sinks}) > 1:
        return True
    return len({each.order for each in sinks if each.changes is not None}) + placed > 1


def rows_to_write(result: DataFrame, sinks: Sequence[SinkRows]) -> DataFrame:
    """One struct column a sink, `s0`, `s1`...; before them its number as `TAG` where rows are tagged."""
    if is_tagged(sinks):
        return _tagged(result, sinks)
    structs = [each.struct.alias(f"s{index}") for index, each in enumerate(sinks)]
    for each in sinks:
        if each.target is not None:
            placed = result.select(*structs, each.own_target.alias(_TARGET))
            # What is not for it may be written by any task.
            return placed.repartition(F.coalesce(F.col(_TARGET), _tie(placed))).drop(_TARGET)
    changing = next((each for each in sinks if each.changes is not None), None)
    if changing is None or changing.changes is None:
        return result.select(*structs)
    own = dict(changing.fields)
    order = [own[name].alias(f"k{index}") for index, name in enumerate(changing.order)]
    rows = result.select(*structs, *order)
    sorting = [f"k{index}" for index in range(len(order))]
    keys = sorting[: len(changing.changes.merge_on)]
    return rows.repartition(*keys).sortWithinPartitions(*sorting, _tie(rows)).drop(*sorting)


def _tagged(result: DataFrame, sinks: Sequence[SinkRows]) -> DataFrame:
    kinds = [_nullable(each.schema) for each in sinks]

    def row(index: int, sink: SinkRows) -> Column:
        own = F.struct(*[column.alias(name) for name, column in sink.fields])
        parts = [
            own.cast(kinds[n]).alias(f"s{n}") if n == index else F.lit(None).cast(kinds[n]).alias(f"s{n}")
            for n in range(len(sinks))
        ]
        whole = F.struct(F.lit(index).alias(TAG), *parts, sink.own_target.alias(_TARGET))
        return whole if sink.condition is None else F.when(F.expr(sink.condition), whole)

    rows = F.array_compact(F.array(*[row(index, each) for index, each in enumerate(sinks)]))
    tagged = result.select(F.inline(rows))
    changing = [(index, each) for index, each in enumerate(sinks) if each.changes is not None]
    together = [index for index, each in enumerate(sinks) if each.changes is not None or each.target is not None]
    keys = [F.col(f"s{index}.`{name}`") for index, each in changing if each.changes for name in each.changes.merge_on]
    order = [F.col(f"s{index}.`{name}`") for index, each in changing for name in each.order]
    # Rows that are only added have no key, and would all lie in one partition.
    spread = F.when(F.col(TAG).isin(together), F.lit(0)).otherwise(_tie(tagged))
    laid = tagged.repartition(F.col(TAG), *keys, F.col(_TARGET), spread)
    return laid.sortWithinPartitions(F.col(TAG), *order, _tie(tagged)).drop(_TARGET)


def _tie(rows: DataFrame) -> Column:
    """Which of two rows of one key and sequence is the last: the same one whenever it is asked."""
    hashed = [each.name for each in rows.schema.fields if not _has_map(each.dataType)]
    return F.xxhash64(*[F.col(f"`{name}`") for name in hashed]) if hashed else F.lit(0)


def _has_map(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_map(each.dataType) for each in kind.fields)
        case ArrayType():
            return _has_map(kind.elementType)
    # Spark hashes neither maps nor what may hold one.
    return isinstance(kind, MapType) or kind.typeName() in {"variant", "geometry", "geography"}
