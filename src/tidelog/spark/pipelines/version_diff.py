"""What two versions of a pipeline make of the same records: which rows only one of them has, and which differ under one key.

    found = diff_versions(spark, old, new, bounds, key=["product"], shown=20)

Rows are compared as a multiset of their texts in JSON: columns by name, fractions by their first twelve digits, since a sum of
them depends on the order of its parts. With a key rows that differ are told side by side; a key may have several rows.

Without a sink what comes out of the transformation is compared; with one the rows that are for it, before they are encoded.
Both versions read the same ranges of offsets, looked up once. Windows and joins are computed of all rows at once: what a stream
would have dropped as late is in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.types import DataType, DoubleType, FloatType

from tidelog.spark.pipelines.batch_records import BatchRecords, ranges_between
from tidelog.spark.pipelines.batch_tables import rows_of_sink
from tidelog.spark.pipelines.definition import RECORD, FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError, DiffError, sentence_of
from tidelog.spark.pipelines.plan_state import unlike_a_stream
from tidelog.spark.pipelines.session import own_session
from tidelog.spark.pipelines.sink_targets import chosen_sink
from tidelog.spark.source.offset_bounds import OffsetBound
from tidelog.spark.source.offset_ranges import OffsetRange

SHOWN = 20
SHOWN_MAX = 10_000
# More is a day's work of a cluster; whoever means it says so.
RECORDS_MAX = 10_000_000
# A key of many rows, or a row that is there very often, is told by its first.
ROWS_OF_KEY_MAX = 10
_OLD, _NEW, _KEY, _ROW = "__old", "__new", "__key", "__row"
_FRACTION = "%.12g"


class Difference(msgspec.Struct, frozen=True):
    """Rows of one key that are not the same, or one row that only one version has, as often as it has it more."""

    key: str | None
    """JSON; None without a key."""
    old: tuple[str, ...]
    new: tuple[str, ...]


class VersionDiff(msgspec.Struct, frozen=True):
    records: int
    """Offsets that were read at most; those of topics that only one version reads included."""
    old_rows: int
    new_rows: int
    same_rows: int
    differences: int
    """Keys, or rows, that differ."""
    shown: tuple[Difference, ...]
    columns: tuple[str, ...]
    """Sentences about columns that only one has, or that are of another type."""

    @property
    def is_same(self) -> bool:
        return not self.columns and self.old_rows == self.new_rows == self.same_rows


def diff_versions(
    spark: SparkSession,
    old: Pipeline,
    new: Pipeline,
    bounds: tuple[OffsetBound, OffsetBound],
    *,
    sink: str | None = None,
    key: Sequence[str] = (),
    shown: int = SHOWN,
    records_max: int = RECORDS_MAX,
) -> VersionDiff:
    """DiffError for what cannot be compared; SourceError and OptionError where records cannot be had; DefinitionError for a
    sink that is not there."""
    for each in (old, new):
        chosen_sink(each, sink)
    ranges = _ranges((old, new), bounds)
    records = sum(each.size for each in {each for found in ranges.values() for each in found})
    if records > records_max:
        raise DiffError(
            f"there are {records:,} records between the two: {records_max:,} are the most, see --records-max"
        )
    results = [_result(spark, which, each, ranges, sink) for which, each in (("OLD", old), ("NEW", new))]
    columns, faults = _common(results[0], results[1])
    for name in key:
        if name not in columns:
            raise DiffError(f"the key names the column {name}, which not both have: they have {', '.join(columns)}")
    counted = _counted(results[0], results[1], columns, key).persist()
    try:
        return _diff(counted, records, faults, key=key, shown=shown)
    except PySparkException as error:
        raise DiffError(sentence_of(error)) from error
    finally:
        counted.unpersist()


_Place = tuple[str | None, str | None, str | None]


def _place(source: FromTopic, pipeline: Pipeline) -> _Place:
    return source.topic, source.pattern, source.bootstrap or pipeline.bootstrap


def _ranges(
    pipelines: Sequence[Pipeline], bounds: tuple[OffsetBound, OffsetBound]
) -> Mapping[_Place, Sequence[OffsetRange]]:
    """Of each topic once, so that both versions have the same records of it."""
    found: dict[_Place, list[OffsetRange]] = {}
    for pipeline in pipelines:
        for source in pipeline.sources:
            place = _place(source, pipeline)
            if place not in found:
                found[place] = ranges_between(pipeline, source, *bounds)
    return found


def _result(
    spark: SparkSession,
    which: str,
    pipeline: Pipeline,
    ranges: Mapping[_Place, Sequence[OffsetRange]],
    sink: str | None,
) -> DataFrame:
    session = own_session(spark, pipeline)
    own = {index: ranges[_place(source, pipeline)] for index, source in enumerate(pipeline.sources)}
    chosen = chosen_sink(pipeline, sink)
    try:
        rows = rows_of_sink(session, pipeline, BatchRecords(session, pipeline, own), chosen)
        if sink is not None and chosen.where is not None:
            rows = rows.where(F.expr(chosen.where))
        result = rows.drop(RECORD)
        strange = unlike_a_stream(result)
    except PySparkException as error:
        raise DiffError(f"{which}: {sentence_of(error)}") from error
    except DefinitionError as error:
        raise DefinitionError([f"{which}: {each}" for each in error.problems]) from error
    if strange:
        raise DiffError(
            f"{which} has {strange[0]}: what comes out of it depends on batches, time and order, so that one batch of all rows "
            "says nothing about it; compare what two runs with checkpoints of their own have written"
        )
    if not result.columns:
        raise DiffError(f"{which}: nothing but record comes out")
    return result


def _common(old: DataFrame, new: DataFrame) -> tuple[list[str], list[str]]:
    """Columns that are compared, and what is to say of the others."""
    kinds = [{each.name: each.dataType for each in rows.schema.fields} for rows in (old, new)]
    faults = [f"only OLD has the column {name}" for name in kinds[0] if name not in kinds[1]]
    faults += [f"only NEW has the column {name}" for name in kinds[1] if name not in kinds[0]]
    common = [name for name in kinds[0] if name in kinds[1]]
    if not common:
        raise DiffError(f"the versions have no column in common: {', '.join(kinds[0])} and {', '.join(kinds[1])}")
    faults += [
        f"the column {name} is {kinds[0][name].simpleString()} in OLD and {kinds[1][name].simpleString()} in NEW"
        for name in common
        if not _is_same_kind(kinds[0][name], kinds[1][name])
    ]
    return common, faults


def _is_same_kind(old: DataType, new: DataType) -> bool:
    return old.simpleString() == new.simpleString()


def _counted(old: DataFrame, new: DataFrame, columns: Sequence[str], key: Sequence[str]) -> DataFrame:
    """Each row that there is, as text, and how often each version has it."""
    sides = []
    for rows, counts in ((old, (1, 0)), (new, (0, 1))):
        texts = {name: _comparable(rows, name) for name in columns}
        keys = _text([texts[name].alias(name) for name in key]) if key else F.lit(None).cast("string")
        row = _text([texts[name].alias(name) for name in columns])
        # Two sessions have made the plans; what they have in common is the machine.
        sides.append(
            rows.select(keys.alias(_KEY), row.alias(_ROW), F.lit(counts[0]).alias(_OLD), F.lit(counts[1]).alias(_NEW))
        )
    both = sides[0].union(sides[1])
    return both.groupBy(_KEY, _ROW).agg(F.sum(_OLD).alias(_OLD), F.sum(_NEW).alias(_NEW))


def _comparable(rows: DataFrame, name: str) -> Column:
    column = F.col(f"`{name}`")
    if isinstance(rows.schema[name].dataType, DoubleType | FloatType):
        return F.when(column.isNotNull(), F.format_string(_FRACTION, column.cast("double")).cast("double"))
    return column


def _text(columns: Sequence[Column]) -> Column:
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


def _diff(counted: DataFrame, records: int, faults: Sequence[str], *, key: Sequence[str], shown: int) -> VersionDiff:
    same = F.least(F.col(_OLD), F.col(_NEW))
    (totals,) = counted.agg(F.sum(_OLD), F.sum(_NEW), F.sum(same)).collect()
    differing = counted.where(F.col(_OLD) != F.col(_NEW))
    by = _KEY if key else _ROW
    grouped = differing.groupBy(F.col(by).alias(_KEY)).agg(_more_of(_OLD, _NEW), _more_of(_NEW, _OLD))
    rows = grouped.orderBy(_KEY).limit(shown).collect()
    return VersionDiff(
        records=records,
        old_rows=int(totals[0] or 0),
        new_rows=int(totals[1] or 0),
        same_rows=int(totals[2] or 0),
        differences=grouped.count() if len(rows) == shown else len(rows),
        shown=tuple(_difference(each, has_key=bool(key)) for each in rows),
        columns=tuple(faults),
    )


def _more_of(side: str, other: str) -> Column:
    """The rows that one side has more often, each as often, as far as anybody reads on."""
    more = F.least(F.col(side) - F.col(other), F.lit(ROWS_OF_KEY_MAX)).cast("int")
    rows = F.when(more > 0, F.array_repeat(F.col(_ROW), more))
    return F.slice(F.array_sort(F.flatten(F.collect_list(rows))), 1, ROWS_OF_KEY_MAX).alias(side)


def _difference(row: Any, *, has_key: bool) -> Difference:
    return Difference(row[_KEY] if has_key else None, tuple(row[_OLD]), tuple(row[_NEW]))
