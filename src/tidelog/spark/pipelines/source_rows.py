"""The rows of one source: the record, its decoded columns, and what becomes of a record that is not as it should be.

flat     record and columns; where there are dead letters, whether the value is broken
checked  with what is expected of each row, counted, and what becomes of it (`expected_rows`)
good     what views, transformation and sinks get: without rows that are set apart or left out, and with the watermark
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines.decoders import CORRUPT
from tidelog.spark.pipelines.definition import RECORD, FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.expectations import DROP, FAIL, QUARANTINE, WARN, Expect
from tidelog.spark.pipelines.expected_rows import (
    DROPPED,
    FATE,
    QUARANTINED,
    REASON,
    UNDECODABLE,
    UNDECODED,
    VIOLATED,
    judged,
    passing_rows,
    violation,
)
from tidelog.spark.pipelines.query_options import source_options
from tidelog.spark.pipelines.views import View

_DECODED, _BROKEN = "__decoded", "__broken"
_NOWHERE = "-"
_Declared = TypeVar("_Declared", FromTopic, View)

Records = Callable[[FromTopic], DataFrame]
"""How the records of a source are had, where they are not streamed: a batch of them."""


def streamed(session: SparkSession, pipeline: Pipeline, group_id: str) -> Records:
    """Its records as they come, on behalf of a group."""

    def records(source: FromTopic) -> DataFrame:
        options = source_options(pipeline, source, group_id=group_id)
        return session.readStream.format("tidelog").options(**options).load()

    return records


def flat_rows(source: FromTopic, records: Records) -> DataFrame:
    """Rows of record and decoded columns; where there are dead letters, also whether the value is broken."""
    raw = records(source)
    record = F.struct(*[F.col(name) for name in raw.columns]).alias(RECORD)
    if source.decode is None:
        return raw.select(record)
    keeps_broken = source.dead_letters is not None
    decoded = source.decode.decoded(F.col("value"), keeps_broken=keeps_broken)
    broken = F.lit(False) if decoded.is_broken is None else decoded.is_broken
    if keeps_broken:
        # Spark would move the choice of rows before their decoding, and decode each value once more for each mention there.
        # It moves nothing past what it takes for chance, such as this, which is never true. Without a seed it is the same to all
        # that take from these rows (`shared_rows`).
        broken = broken | (F.spark_partition_id() + F.col("offset") < 0)
    own = [broken.alias(_BROKEN)]
    if keeps_broken and decoded.reason is not None:
        own.append(decoded.reason.alias(REASON))
    rows = raw.select(record, decoded.columns.alias(_DECODED), *own)
    if decoded.is_list:
        rows = rows.withColumn(_DECODED, F.explode(_DECODED))
    names = [name for name in rows.select(f"{_DECODED}.*").columns if name != CORRUPT]
    taken = [
        name for name in names if name.lower() in {RECORD, _BROKEN, FATE, REASON} or name.lower().startswith(VIOLATED)
    ]
    if taken:
        raise DefinitionError([f"the values have a column {taken[0]}, which is what a pipeline calls its own"])
    flat = rows.select(RECORD, *[F.col(f"{_DECODED}.`{name}`").alias(name) for name in names], *rows.columns[2:])
    return flat if keeps_broken else flat.drop(_BROKEN)


def checked_rows(source: FromTopic, flat: DataFrame, *, counts: bool = True) -> DataFrame:
    """With what becomes of each row, where anything may become of one. Expectations are counted in one query of several."""
    expectations = source.expectations
    if source.decode is None or (not expectations and source.dead_letters is None):
        return flat
    # A tombstone has no columns, nor has a broken value: nothing is expected of them.
    is_exempt = F.col("record.value").isNull()
    before: list[tuple[Column, Column]] = []
    if source.dead_letters is not None:
        is_exempt = is_exempt | F.col(_BROKEN)
        before.append((F.col(_BROKEN), F.lit(UNDECODED)))
    return judged(flat, source.view, expectations, is_exempt=is_exempt, before=before, counts=counts)


def good_rows(declared: FromTopic | View, checked: DataFrame) -> DataFrame:
    """What others take from a source or a view."""
    rows = passing_rows(checked).drop(_BROKEN)
    return rows if declared.watermark is None else declared.watermark.applied(rows)


def tolerant(declared: _Declared) -> _Declared:
    """The same for a look at it, in which no row stops anything: what would is left out, and goes before the rest."""
    expect = _tolerated(declared.expectations)
    if isinstance(declared, View):
        return replace(declared, expect=expect)
    return replace(declared, expect=expect, dead_letters=declared.dead_letters or _NOWHERE)


def _tolerated(expectations: Mapping[str, Expect]) -> dict[str, Expect]:
    stopping = {name: Expect(each.condition, DROP) for name, each in expectations.items() if each.action == FAIL}
    return {**stopping, **{name: each for name, each in expectations.items() if name not in stopping}}


def outcome(declared: FromTopic | View) -> Column:
    """What becomes of each of the checked rows of the tolerant source or view, in words."""
    apart = "stops the pipeline" if declared.dead_letters is None else "dead letter"
    found = F.when(F.col(FATE) == UNDECODED, F.lit(f"{apart}: {UNDECODABLE}"))
    lenient = _tolerated(declared.expectations)
    for index, name in enumerate(lenient):
        is_left_out = (F.col(FATE) == DROPPED) & violation(index)
        match declared.expectations[name].action:
            case action if action == FAIL:
                found = found.when(is_left_out, F.lit(f"stops the pipeline: {name}"))
            case action if action == QUARANTINE:
                found = found.when(F.col(FATE) == QUARANTINED + index, F.lit(f"dead letter: {name}"))
            case action if action == DROP:
                found = found.when(is_left_out, F.lit(f"left out: {name}"))
    for index, name in enumerate(lenient):
        if declared.expectations[name].action == WARN:
            found = found.when(violation(index), F.lit(f"goes on, and a warning: {name}"))
    return found.otherwise(F.lit("goes on"))


def without_own(rows: DataFrame) -> DataFrame:
    """Without the columns in which a row's outcome is worked out."""
    return rows.drop(_BROKEN, FATE, REASON, *(name for name in rows.columns if name.startswith(VIOLATED)))
