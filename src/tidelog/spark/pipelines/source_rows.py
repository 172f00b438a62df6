"""The rows of one source: the record, its decoded columns, and what becomes of a record that is not as it should be.

flat     record and columns; where there are dead letters, whether the value is broken
checked  with what is expected of each row, counted, and what becomes of it
good     what the transformation gets: without rows that are set apart or left out, and with the watermark
dead     the records that go to the topic for dead letters
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines import dead_letter
from tidelog.spark.pipelines.debezium.decoder import Debezium
from tidelog.spark.pipelines.decoders import CORRUPT
from tidelog.spark.pipelines.definition import RECORD, FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.expectations import DROP, FAIL, QUARANTINE, WARN, Expect
from tidelog.spark.pipelines.expected_rows import VIOLATED, failure, observed, violation, with_violations
from tidelog.spark.pipelines.query_options import source_options
from tidelog.spark.pipelines.record_rows import first_of_each_record

_DECODED, _BROKEN, _FATE, _REASON = "__decoded", "__broken", "__fate", "__reason"
# What becomes of a row. From the last one on it is the number of the expectation by which it is a dead letter.
_GOOD, _DROPPED, _UNDECODED, _QUARANTINED = 0, 1, 2, 3
_NOWHERE = "-"
_UNDECODABLE = "the value cannot be decoded"
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"

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
        # It moves nothing past what it takes for chance, such as this, which is never true.
        broken = broken | (F.rand() + F.col("offset") < 0)
    own = [broken.alias(_BROKEN)]
    if keeps_broken and decoded.reason is not None:
        own.append(decoded.reason.alias(_REASON))
    rows = raw.select(record, decoded.columns.alias(_DECODED), *own)
    if decoded.is_list:
        rows = rows.withColumn(_DECODED, F.explode(_DECODED))
    names = [name for name in rows.select(f"{_DECODED}.*").columns if name != CORRUPT]
    taken = [
        name for name in names if name.lower() in {RECORD, _BROKEN, _FATE, _REASON} or name.lower().startswith(VIOLATED)
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
    fates: list[tuple[Column, Column]] = []
    if source.dead_letters is not None:
        is_exempt = is_exempt | F.col(_BROKEN)
        fates.append((F.col(_BROKEN), F.lit(_UNDECODED)))
    place = F.concat(
        F.col("record.topic"), F.lit("-"), F.col("record.partition"), F.lit(" at "), F.col("record.offset")
    )
    # The one that stops goes before those that set apart; of these the first one counts.
    for index, (name, each) in enumerate(expectations.items()):
        if each.action == FAIL:
            fates.append((violation(index), failure(place, name, source.view).cast("int")))
    for index, each in enumerate(expectations.values()):
        if each.action == DROP:
            fates.append((violation(index), F.lit(_DROPPED)))
        elif each.action == QUARANTINE:
            fates.append((violation(index), F.lit(_QUARANTINED + index)))
    rows = with_violations(flat, expectations, is_exempt)
    rows = rows.withColumn(_FATE, F.coalesce(*[F.when(found, fate) for found, fate in fates], F.lit(_GOOD)))
    # Spark moves no choice of rows past what is counted, either.
    return observed(rows, source.view, expectations) if counts else rows


def good_rows(source: FromTopic, checked: DataFrame) -> DataFrame:
    """What the transformation gets."""
    rows = checked
    if _FATE in rows.columns:
        own = [_BROKEN, _FATE, _REASON, *(name for name in rows.columns if name.startswith(VIOLATED))]
        rows = rows.where(F.col(_FATE) == _GOOD).drop(*own)
    return rows if source.watermark is None else source.watermark.applied(rows)


def tolerant(source: FromTopic) -> FromTopic:
    """The same for a look at it, in which no row stops anything: what would is set apart, and goes before the rest."""
    expectations = source.expectations
    stopping = {name: Expect(each.condition) for name, each in expectations.items() if each.action == FAIL}
    others = {name: each for name, each in expectations.items() if name not in stopping}
    return replace(source, expect={**stopping, **others}, dead_letters=source.dead_letters or _NOWHERE)


def outcome(source: FromTopic) -> Column:
    """What becomes of each of the `checked_rows` of the tolerant source, in words."""
    apart = "stops the pipeline" if source.dead_letters is None else "dead letter"
    found = F.when(F.col(_FATE) == _UNDECODED, F.lit(f"{apart}: {_UNDECODABLE}"))
    lenient = tolerant(source).expectations
    for index, name in enumerate(lenient):
        match source.expectations[name].action:
            case action if action in {FAIL, QUARANTINE}:
                what = "stops the pipeline" if action == FAIL else "dead letter"
                found = found.when(F.col(_FATE) == _QUARANTINED + index, F.lit(f"{what}: {name}"))
            case action if action == DROP:
                found = found.when((F.col(_FATE) == _DROPPED) & violation(index), F.lit(f"left out: {name}"))
    for index, name in enumerate(lenient):
        if source.expectations[name].action == WARN:
            found = found.when(violation(index), F.lit(f"goes on, and a warning: {name}"))
    return found.otherwise(F.lit("goes on"))


def without_own(rows: DataFrame) -> DataFrame:
    """Without the columns in which a row's outcome is worked out."""
    return rows.drop(_BROKEN, _FATE, _REASON)


def dead_rows(pipeline: Pipeline, source: FromTopic, checked: DataFrame) -> DataFrame:
    """Records with headers that say where each was and why it is here."""
    undecodable = F.lit(_UNDECODABLE)
    if _REASON in checked.columns:
        undecodable = F.concat_ws(": ", undecodable, F.col(_REASON))
    reason = F.when(F.col(_FATE) == _UNDECODED, undecodable)
    for index, name in enumerate(source.expectations):
        reason = reason.when(F.col(_FATE) == _QUARANTINED + index, F.lit(name))
    dead = checked.where(F.col(_FATE) >= _UNDECODED).select(RECORD, reason.alias(_REASON))
    if isinstance(source.decode, Debezium):
        # A record may be several rows, and is one letter.
        dead = dead.mapInArrow(first_of_each_record, dead.schema)
    said: Sequence[tuple[str, Column]] = (
        ("pipeline", F.lit(pipeline.name)),
        ("reason", F.col(_REASON)),
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
    own = F.coalesce(F.col("record.headers"), F.array().cast("array<struct<key: string, value: binary>>"))
    return dead.select(
        F.lit(source.dead_letters).alias("topic"),
        F.col("record.key").alias("key"),
        F.col("record.value").alias("value"),
        F.concat(own, added).alias("headers"),
    )
