"""The rows of one source: the record, its decoded columns, and what becomes of a record that is not as it should be.

flat     record and columns; where there are dead letters, whether the value is broken
good     what the transformation gets: without dead letters, and with the watermark
dead     the records that go to the topic for dead letters
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines.decoders import CORRUPT
from tidelog.spark.pipelines.definition import RECORD, FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.query_options import source_options

_DECODED, _BROKEN = "__decoded", "__broken"
_UNDECODABLE = "the value cannot be decoded"
_HEADER = "tidelog.dead-letter."
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def flat_rows(session: SparkSession, pipeline: Pipeline, source: FromTopic, group_id: str) -> DataFrame:
    """Rows of record and decoded columns; where there are dead letters, also whether the value is broken."""
    options = source_options(pipeline, source, group_id=group_id)
    raw = session.readStream.format("tidelog").options(**options).load()
    record = F.struct(*[F.col(name) for name in raw.columns]).alias(RECORD)
    if source.decode is None:
        return raw.select(record)
    keeps_broken = source.dead_letters is not None
    decoded = source.decode.decoded(F.col("value"), keeps_broken=keeps_broken)
    broken = F.lit(False) if decoded.is_broken is None else decoded.is_broken
    if keeps_broken:
        # Spark would move the choice of rows before their decoding, and decode each value once more for each mention there.
        # It moves nothing past what it takes for chance, such as this, which is never true.
        broken = broken | (F.rand() + F.col("offset") < 0)
    rows = raw.select(record, decoded.columns.alias(_DECODED), broken.alias(_BROKEN))
    names = [name for name in rows.select(f"{_DECODED}.*").columns if name != CORRUPT]
    for taken in (RECORD, _BROKEN):
        if taken in names:
            raise DefinitionError([f"the values have a column {taken}, which is what a pipeline calls its own"])
    flat = rows.select(RECORD, *[F.col(f"{_DECODED}.`{name}`").alias(name) for name in names], _BROKEN)
    return flat if keeps_broken else flat.drop(_BROKEN)


def _decoded(
    session: SparkSession, pipeline: Pipeline, source: FromTopic, group_id: str
) -> tuple[DataFrame, Column | None]:
    """Rows of record and decoded columns, and why a row is a dead letter: null if it is none."""
    flat = flat_rows(session, pipeline, source, group_id)
    if source.decode is None or source.dead_letters is None:
        return flat, None
    reason = F.when(F.col(_BROKEN), F.lit(_UNDECODABLE))
    for text, condition in source.expect.items():
        # What is null is not as expected either. A tombstone has no columns, so nothing is expected of it.
        unexpected = ~F.coalesce(F.expr(condition), F.lit(False)) & F.col("record.value").isNotNull()
        reason = reason.when(unexpected, F.lit(text))
    return flat, reason


def good_rows(session: SparkSession, pipeline: Pipeline, source: FromTopic) -> DataFrame:
    rows, reason = _decoded(session, pipeline, source, pipeline.name)
    if reason is not None:
        rows = rows.where(reason.isNull()).drop(_BROKEN)
    if source.watermark is not None:
        if source.watermark.expression is not None:
            rows = rows.withColumn(source.watermark.column, F.expr(source.watermark.expression))
        rows = rows.withWatermark(source.watermark.column, source.watermark.delay)
    return rows


def dead_rows(session: SparkSession, pipeline: Pipeline, source: FromTopic) -> DataFrame | None:
    """Records with headers that say where each was and why it is here; None for a source that has no dead letters."""
    rows, reason = _decoded(session, pipeline, source, pipeline.dead_letters_query)
    if reason is None or source.dead_letters is None:
        return None
    said: Sequence[tuple[str, Column]] = (
        ("pipeline", F.lit(pipeline.name)),
        ("reason", reason),
        ("topic", F.col("record.topic")),
        ("partition", F.col("record.partition")),
        ("offset", F.col("record.offset")),
        ("timestamp", F.date_format(F.to_utc_timestamp("record.timestamp", F.current_timezone()), _ISO)),
    )
    added = F.array(
        *[
            F.struct(F.lit(_HEADER + what).alias("key"), value.cast("string").cast("binary").alias("value"))
            for what, value in said
        ]
    )
    own = F.coalesce(F.col("record.headers"), F.array().cast("array<struct<key: string, value: binary>>"))
    return rows.where(reason.isNotNull()).select(
        F.lit(source.dead_letters).alias("topic"),
        F.col("record.key").alias("key"),
        F.col("record.value").alias("value"),
        F.concat(own, added).alias("headers"),
    )
