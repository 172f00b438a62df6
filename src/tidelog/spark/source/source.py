"""The data source as Spark calls it: `spark.read.format("tidelog")` and `spark.readStream.format("tidelog")`.

    TidelogSource   made by `load()` or `save()` with the options, which it checks; travels to wherever something is read
    BatchReader     plans in a process of the driver, reads in tasks
    StreamReader    lives in one process of the driver as long as its query; copies of it read in tasks
    RefusingReader  in its place where the options cannot be had for a stream

What is written goes by `sink`.

Spark starts a process of Python's for nearly everything that it asks: for `load()`, for a plan, for each streaming query, for
each module of its own. So a method imports what it alone needs: the rest would be half a second in all of them.

Spark finds the class through the package `pyspark_tidelog`. Method and argument names are Spark's: it calls them by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.spark.errors import OptionError
from tidelog.spark.source.chosen_topics import names_both_sides
from tidelog.spark.source.record_schema import spark_schema
from tidelog.spark.source.source_options import SourceOptions, batch_bounds, parse_source_options, stream_start

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.source.offset_ranges import OffsetRange
    from tidelog.spark.source.stream_progress import StreamProgress
    from tidelog.spark.stored.stored_reading import SegmentRange

# ruff: noqa: PLC0415 - see above


class TaskPartition(InputPartition):
    """What one task reads: of a cluster, or of a file."""

    def __init__(self, wanted: OffsetRange | SegmentRange) -> None:
        super().__init__(wanted)


class TidelogSource(DataSource):
    """Topics of a Kafka cluster, or the files of one."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> str | StructType:
        if "provider" in self.options:
            from tidelog.spark.catalog_table import schema_of_new

            return schema_of_new(self.options)
        return spark_schema(parse_source_options(_reading_side(self.options)).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_source_options(self._for_reading(schema))
        _check_schema(options, schema)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        try:
            options = parse_source_options(self._for_reading(schema))
            _check_schema(options, schema)
            stream_start(options)
        except OptionError as error:
            return RefusingReader(error)
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from tidelog.spark.sink.sink import BatchSink
        from tidelog.spark.sink.sink_options import parse_sink_options

        return BatchSink(parse_sink_options(self._for_writing(schema), is_stream=False), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802
        from tidelog.spark.sink.sink import StreamSink
        from tidelog.spark.sink.sink_options import parse_sink_options

        # In the mode complete each batch is the whole result, appended: a topic is not emptied for it.
        return StreamSink(parse_sink_options(self._for_writing(schema), is_stream=True), schema)

    # A statement that does not say where is about a table of Spark's catalog. A view may be read and written by its options.

    def _for_reading(self, schema: StructType) -> Mapping[str, str]:
        if not _says_where(self.options):
            from tidelog.spark.catalog_table import reading_options

            return reading_options(self.options, schema)
        return _reading_side(self.options)

    def _for_writing(self, schema: StructType) -> Mapping[str, str]:
        if not _says_where(self.options):
            from tidelog.spark.catalog_table import writing_options

            return writing_options(self.options, schema)
        if names_both_sides(self.options):
            from tidelog.spark.catalog_table import writing_side

            return writing_side(self.options)
        return self.options


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._bounds = batch_bounds(options)

    def partitions(self) -> Sequence[InputPartition]:
        if self._options.path is not None:
            from tidelog.spark.stored.stored_reading import plan_stored_read

            return [TaskPartition(each) for each in plan_stored_read(self._options, *self._bounds)]
        from tidelog.spark.source.planning import divide, plan_read
        from tidelog.spark.source.source_cluster import SourceCluster

        cluster = SourceCluster(self._options)
        try:
            ranges = plan_read(cluster, self._options, *self._bounds)
        finally:
            cluster.close()
        return [TaskPartition(each) for each in divide(ranges, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._opened: StreamProgress | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The copies for tasks have options, and no connection of the driver's."""
        return {"_options": self._options, "_opened": None}

    @property
    def _progress(self) -> StreamProgress:
        if self._opened is None:
            from tidelog.model.clock import SystemClock
            from tidelog.spark.source.source_cluster import SourceCluster
            from tidelog.spark.source.stream_progress import StreamProgress

            self._opened = StreamProgress(self._options, SourceCluster(self._options), SystemClock())
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return dict(self._progress.initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # Spark's Python limits cannot be combined. Whichever is named here, `latestOffset` heeds all of the options.
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return dict(self._progress.latest(start, is_limited=not isinstance(limit, ReadAllAvailable)))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        reported = self._progress.reported()
        return None if reported is None else dict(reported)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._progress.fix_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [TaskPartition(each) for each in self._progress.plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class RefusingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says what is wrong when it is first asked. An error before that is lost in one of Spark's own, which then has no reader to
    stop."""

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        raise self._error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        raise self._error


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if partition.value is None:
        # Spark makes a partition of its own of a batch that has none.
        return iter(())
    if options.path is not None:
        from tidelog.spark.stored.stored_reading import read_segment

        return read_segment(options, partition.value)
    from tidelog.spark.source.task_reading import read_range

    return read_range(options, partition.value)


def _says_where(options: Mapping[str, str]) -> bool:
    return any(name.lower() in {"kafka.bootstrap.servers", "path"} for name in options)


def _reading_side(options: Mapping[str, str]) -> Mapping[str, str]:
    if not names_both_sides(options):
        return options
    from tidelog.spark.catalog_table import reading_side

    return reading_side(options)


def _check_schema(options: SourceOptions, schema: StructType) -> None:
    if tuple(schema.fieldNames()) != options.columns:
        raise OptionError(
            f"the schema of records is given, and cannot be set to {', '.join(schema.fieldNames())}: "
            f"it is {', '.join(options.columns)}; the option columns narrows it"
        )
