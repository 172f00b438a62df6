"""Rows that are looked at as a pipeline expects them to be: a column for each expectation, counted by Spark as the rows go by,
and one for what becomes of the row.

    judged   with these columns
    passing  without rows that are set apart or left out, and without these columns
    dead     the records of those that are set apart, as records of a topic
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.types import StructType

from tidelog.spark.pipelines import dead_letter
from tidelog.spark.pipelines.definition import RECORD
from tidelog.spark.pipelines.expectations import DROP, FAIL, QUARANTINE, Expect, count_names, observation_name
from tidelog.spark.pipelines.record_rows import first_of_each_record

VIOLATED = "__violated"
"""How names of these columns begin."""
FATE, REASON = "__fate", "__reason"
# What becomes of a row. From the last one on it is the number of the expectation by which it is a dead letter.
GOOD, DROPPED, UNDECODED, QUARANTINED = 0, 1, 2, 3
RECORD_FIELDS = ("key", "value", "topic", "partition", "offset", "timestamp")
"""What of its record a dead letter is made of."""

UNDECODABLE = "the value cannot be decoded"
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def judged(
    rows: DataFrame,
    of: str,
    expectations: Mapping[str, Expect],
    *,
    is_exempt: Column,
    before: Sequence[tuple[Column, Column]] = (),
    counts: bool = True,
) -> DataFrame:
    """With what becomes of each row of `of`. Nothing is expected of those that are exempt; `before` are fates that go before all
    others, each behind its condition. Expectations are counted in one query of several."""
    fates = list(before)
    place = _place(rows)
    # The one that stops goes before those that set apart; of these the first one counts.
    for index, (name, each) in enumerate(expectations.items()):
        if each.action == FAIL:
            fates.append((violation(index), failure(place, name, of).cast("int")))
    for index, each in enumerate(expectations.values()):
        if each.action == DROP:
            fates.append((violation(index), F.lit(DROPPED)))
        elif each.action == QUARANTINE:
            fates.append((violation(index), F.lit(QUARANTINED + index)))
    seen = _with_violations(rows, expectations, is_exempt)
    seen = seen.withColumn(FATE, F.coalesce(*[F.when(found, fate) for found, fate in fates], F.lit(GOOD)))
    # Spark moves no choice of rows past what is counted, either.
    return observed(seen, of, expectations) if counts else seen


def passing_rows(rows: DataFrame) -> DataFrame:
    """Those that go on, of rows that were looked at; of others all."""
    if FATE not in rows.columns:
        return rows
    own = [FATE, REASON, *(name for name in rows.columns if name.startswith(VIOLATED))]
    return rows.where(F.col(FATE) == GOOD).drop(*own)


def dead_rows(
    pipeline: str, topic: str, expectations: Mapping[str, Expect], rows: DataFrame, *, has_several: bool = False
) -> DataFrame:
    """Records with headers that say where each was and why it is here, of rows that were looked at. A record that `has_several`
    rows is one letter."""
    undecodable = F.lit(UNDECODABLE)
    if REASON in rows.columns:
        undecodable = F.concat_ws(": ", undecodable, F.col(REASON))
    reason = F.when(F.col(FATE) == UNDECODED, undecodable)
    for index, name in enumerate(expectations):
        reason = reason.when(F.col(FATE) == QUARANTINED + index, F.lit(name))
    dead = rows.where(F.col(FATE) >= UNDECODED).select(RECORD, reason.alias(REASON))
    if has_several:
        dead = dead.mapInArrow(first_of_each_record, dead.schema)
    said: Sequence[tuple[str, Column]] = (
        ("pipeline", F.lit(pipeline)),
        ("reason", F.col(REASON)),
        ("topic", F.col("record.topic")),
        ("partition", F.col("record.partition")),
        ("offset", F.col("record.offset")),
        ("timestamp", F.date_format(F.to_utc_timestamp("record.timestamp", F.current_timezone()), _ISO)),
    )
    added = F.array(
        *[
            F.struct(F.lit(dead_letter.PREFIX + what).alias("key"), value.cast("string").cast("binary").alias("value"))
            for what, value in said
        ]
    )
    none = F.array().cast("array<struct<key: string, value: binary>>")
    own = F.coalesce(F.col("record.headers"), none) if "headers" in record_fields(rows) else none
    return dead.select(
        F.lit(topic).alias("topic"),
        F.col("record.key").alias("key"),
        F.col("record.value").alias("value"),
        F.concat(own, added).alias("headers"),
    )


def record_fields(rows: DataFrame) -> list[str]:
    """What rows have of the record that they came from; nothing where it is gone."""
    kind = next((each.dataType for each in rows.schema.fields if each.name == RECORD), None)
    return kind.names if isinstance(kind, StructType) else []


def violation(index: int) -> Column:
    """Whether the expectation of this number is violated; null where nothing is expected of the row."""
    return F.col(f"{VIOLATED}{index}")


def _with_violations(rows: DataFrame, expectations: Mapping[str, Expect], is_exempt: Column) -> DataFrame:
    if not expectations:
        return rows
    # What is null is not as expected either.
    found = [
        F.when(~is_exempt, ~F.coalesce(F.expr(each.condition), F.lit(False))).alias(f"{VIOLATED}{index}")
        for index, each in enumerate(expectations.values())
    ]
    return rows.select("*", *found)


def observed(rows: DataFrame, of: str, expectations: Mapping[str, Expect]) -> DataFrame:
    """The same rows, counted as they go by. A plan may have them several times: it is one observation."""
    if not expectations:
        return rows
    counts = []
    for index in range(len(expectations)):
        violated, passed = count_names(index)
        counts += [F.count_if(violation(index)).alias(violated), F.count_if(~violation(index)).alias(passed)]
    return rows.observe(observation_name(of), *counts)


def failure(where: Column, expectation: str, what: str) -> Column:
    """An error that stops the query, and tells which row of `what` was not as expected."""
    return F.raise_error(F.concat(F.lit(f"{what}: the expectation {expectation!r} does not hold for "), where))


def _place(rows: DataFrame) -> Column:
    """Where a row is from, as far as it has that with it."""
    if not {"topic", "partition", "offset"}.issubset(record_fields(rows)):
        return F.lit("one of its rows")
    # Behind an outer join a row may be of no record.
    found = F.concat(
        F.col("record.topic"), F.lit("-"), F.col("record.partition"), F.lit(" at "), F.col("record.offset")
    )
    return F.coalesce(found, F.lit("one of its rows"))
