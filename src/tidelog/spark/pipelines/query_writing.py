"""What is given to `foreachBatch`: the batches of a query, from its first one on.

    writing = begin_writing(pipeline, sinks, clock)     in the driver, before the query starts
    ConnectWriting(pipeline, sinks)                     goes to a server of Spark Connect, and begins there with the first batch

Over Spark Connect nothing of the client is asked once the query runs: sinks are prepared, tables made and clusters asked where
the server is, whose Python has Tidelog and the secrets that the file refers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.clock import Clock, SystemClock
from tidelog.spark.pipelines.batch_accounts import QuerySinks
from tidelog.spark.pipelines.batch_context import BatchContext, ConnectContext
from tidelog.spark.pipelines.batch_writing import BatchWriting, Committer
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.partition_rows import with_partitions
from tidelog.spark.pipelines.query_sinks import decider_options, prepare_outputs, with_deciding_cluster
from tidelog.spark.pipelines.topic_ranges import TopicRanges
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_participant import SinkIdentity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def begin_writing(
    pipeline: Pipeline, sinks: QuerySinks, clock: Clock, context: BatchContext | None = None
) -> BatchWriting:
    """Tables that are missing are made here. QueryFailedError where a sink cannot be prepared."""
    sinks = prepare_outputs(sinks)
    client = decider_options(pipeline).client
    sinks = with_partitions(pipeline, with_deciding_cluster(sinks, client))

    def committer(identity: SinkIdentity, run: str) -> Committer:
        return SinkCommitter(identity, run, client).__enter__()

    ranges = TopicRanges([each.cluster for each in sinks.topics])
    ranges.begin()
    return BatchWriting(sinks, committer, ranges, clock, context)


class ConnectWriting:
    """It is pickled, and called in a process that lasts as long as the query."""

    def __init__(self, pipeline: Pipeline, sinks: QuerySinks) -> None:
        self._pipeline = pipeline
        self._sinks = sinks
        self._writing: BatchWriting | None = None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        if self._writing is None:
            context = ConnectContext(self._sinks.checkpoint)
            self._writing = begin_writing(self._pipeline, self._sinks, SystemClock(), context)
        self._writing(rows, batch_id)
