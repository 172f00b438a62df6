"""What readers find in the sinks of a pipeline under test: committed records, and rows of tables, databases and files.

Each kind of sink is read as others would read it, and not by what the pipeline remembers of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.pipelines.dead_letter import PREFIX
from tidelog.spark.pipelines.decoders import Avro, Decoder, Json, Protobuf
from tidelog.spark.pipelines.session import frame_of
from tidelog.spark.pipelines.sinks import Sink, ToDatabase, ToFiles, ToTable, ToTopic
from tidelog.spark.testing_kit.errors import PipelineTestError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# ruff: noqa: PLC0415 - libraries of tables are extras

Row = dict[str, Any]

_POLL_MS = 30_000
# More than a test can look at; chaos counts by it as well.
RECORDS_MAX = 5_000_000


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A committed record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that was set apart."""

    value: bytes | None
    reason: str
    topic: str
    """That it came from, as the pipeline names it."""
    partition: int
    offset: int
    key: bytes | None = None

    @property
    def text(self) -> str | None:
        return None if self.value is None else self.value.decode(errors="backslashreplace")


def committed_records(settings: Mapping[str, Any], topic: str) -> list[SeenRecord]:
    """All that are there now, up to the first open transaction; of a topic that is not there none. ClientError."""
    found: list[SeenRecord] = []
    options = {**settings, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(**options, enable_auto_commit=False, allow_auto_create_topics=False) as consumer:
        partitions = consumer.partitions_for(topic)
        if not partitions:
            return []
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        left = {each for each in partitions if consumer.position(each) < ends[each]}
        while left:
            for each in consumer.poll(_POLL_MS):
                headers = dict(each.headers or ())
                found.append(SeenRecord(topic, each.partition, each.offset, each.key, each.value, headers))
            if len(found) > RECORDS_MAX:
                raise PipelineTestError(f"{topic} has more than {RECORDS_MAX:,} records, which are not compared")
            left = _unread(consumer, left, ends)
    return sorted(found, key=lambda each: (each.partition, each.offset))


def _unread(consumer: Consumer, left: set[TopicPartition], ends: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    return {each for each in left if consumer.position(each) < ends[each]}


def dead_letters_of(records: Sequence[SeenRecord], declared: Callable[[str], str]) -> list[DeadLetter]:
    """`declared` gives the name of a topic as the pipeline has it."""

    def said(record: SeenRecord, name: str) -> str:
        return (record.headers.get(PREFIX + name) or b"").decode()

    return [
        DeadLetter(
            each.value,
            said(each, "reason"),
            declared(said(each, "topic")),
            int(said(each, "partition") or -1),
            int(said(each, "offset") or -1),
            each.key,
        )
        for each in records
    ]


class SeenSinks:
    """The sinks of pipelines as a test runs them."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, Any], beside: Callable[[str], str]) -> None:
        """`settings` are a client's, and `beside` makes a path of the pipelines absolute."""
        self._spark = spark
        self._settings = settings
        self._beside = beside

    def rows(self, sink: Sink, *, is_last_of_key: bool = False) -> list[Row]:
        """All that it has; of a topic the last record of each key, where that is asked for."""
        match sink:
            case ToTopic():
                return self._topic(sink, is_last_of_key=is_last_of_key)
            case ToTable() if sink.format.lower() == "delta":
                return self._delta(self._beside(sink.path or ""))
            case ToTable() if sink.format.lower() == "iceberg":
                return self._iceberg(sink)
            case ToTable():
                return self._sparks(sink)
            case ToFiles():
                return self._files(Path(self._beside(sink.path)))
            case ToDatabase():
                return self._database(sink)

    def _topic(self, sink: ToTopic, *, is_last_of_key: bool) -> list[Row]:
        records = committed_records(self._settings, sink.topic)
        if is_last_of_key:
            records = list({each.key: each for each in records}.values())
        if sink.encode == "json":
            return [_parsed(each, sink) for each in records]
        if sink.encode == "columns":
            return [{"key": _text(each.key), "value": _text(each.value)} for each in records]
        return self._decoded(sink, records)

    def _decoded(self, sink: ToTopic, records: Sequence[SeenRecord]) -> list[Row]:
        """By the schema that readers of the registry go by."""
        from pyspark.sql import functions as F  # noqa: N812

        decoder: Decoder
        match sink.encode:
            case Avro() | Json():
                decoder = replace(sink.encode, schema=None, register=False)
            case Protobuf():
                decoder = replace(sink.encode, descriptor_set=None, register=False)
            case _:
                raise PipelineTestError(f"values of {sink.label} cannot be read here: look at them with `records`")
        if not records:
            return []
        values = frame_of(self._spark, [(each.value,) for each in records], "value binary")
        decoded = values.select(decoder.decoded(F.col("value"), keeps_broken=False).columns.alias("row"))
        return [each.asDict(recursive=True) for each in decoded.select("row.*").collect()]

    def _delta(self, place: str) -> list[Row]:
        from deltalake import DeltaTable

        if not (Path(place) / "_delta_log").exists():
            return []
        return _rows_of(DeltaTable(place).to_pyarrow_table())

    def _iceberg(self, sink: ToTable) -> list[Row]:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        catalog = load_catalog("default", **sink.catalog)
        try:
            return _rows_of(catalog.load_table(sink.name or "").scan().to_arrow())
        except NoSuchTableError:
            return []
        finally:
            catalog.close()

    def _files(self, place: Path) -> list[Row]:
        import pyarrow.dataset as ds

        if not any(place.rglob("part-*.parquet")):
            return []
        # What begins with an underscore is not read, as by Spark.
        return _rows_of(ds.dataset(place, format="parquet", partitioning="hive").to_table())

    def _database(self, sink: ToDatabase) -> list[Row]:
        path = self._beside(sink.url.removeprefix("sqlite:///"))
        if not Path(path).exists():
            return []
        quoted = '"' + sink.table.replace('"', '""') + '"'
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            try:
                found = connection.execute(f"SELECT * FROM {quoted}").fetchall()  # noqa: S608 - quoted
            except sqlite3.OperationalError:
                return []
        return [{name: each[name] for name in each.keys()} for each in found]  # noqa: SIM118 - a Row is no mapping

    def _sparks(self, sink: ToTable) -> list[Row]:
        """What Spark's own sinks have written, read by Spark."""
        from pyspark.errors import PySparkException

        try:
            if sink.name is not None:
                frame = self._spark.table(sink.name)
            elif sink.path is not None:
                place = Path(self._beside(sink.path))
                if not place.exists():
                    return []
                frame = self._spark.read.format(sink.format).load(str(place))
            else:
                raise PipelineTestError(f"the sink {sink.label} of format {sink.format} keeps no rows that can be read")
            return [each.asDict(recursive=True) for each in frame.collect()]
        except PySparkException as error:
            raise PipelineTestError(f"the sink {sink.label} cannot be read: {error}") from error


def _rows_of(table: pa.Table) -> list[Row]:
    return [dict(each) for each in table.to_pylist()]


def _parsed(record: SeenRecord, sink: ToTopic) -> Row:
    if record.value is None:
        return {"key": _text(record.key), "value": None}
    found = json.loads(record.value)
    assert isinstance(found, dict), f"{sink.label} writes rows"
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
