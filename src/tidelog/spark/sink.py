"""The sink as Spark calls it: `df.write.format("tidelog")` and `df.writeStream.format("tidelog")`.

    BatchSink     made in a process of the driver; copies of it write in tasks, and one commits
    StreamSink    the same for a micro-batch; the one that commits is made anew, and knows only what the messages say

Method and argument names are Spark's: it calls them by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.spark.errors import OptionError
from tidelog.spark.sink_options import SinkOptions
from tidelog.spark.sink_rows import check_columns
from tidelog.spark.sink_task import write_at_least_once


def _check_delivery(options: SinkOptions) -> None:
    if options.is_exactly_once:
        raise OptionError("delivery exactly_once is not there yet: give delivery as at_least_once")


Messages = list[WriterCommitMessage | None]


@dataclass(frozen=True, slots=True)
class TaskWritten(WriterCommitMessage):
    """What one attempt of a task has written."""

    record_count: int


class BatchSink(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('a topic cannot be overwritten: write with mode("append")')
        check_columns(options, schema)
        _check_delivery(options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return TaskWritten(write_at_least_once(self._options, iterator))


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        _check_delivery(options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return TaskWritten(write_at_least_once(self._options, iterator))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        pass

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        pass
