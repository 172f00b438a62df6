"""What whoever writes a batch knows of it beside its rows: which query it is of, and whether a stage of its job was repeated.

DriverContext     in Spark's driver, which is told by Spark
ConnectContext    in the Python process in which a server of Spark Connect calls `foreachBatch`: it is a client itself
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from tidelog.spark.errors import SinkError
from tidelog.spark.pipelines.checkpoint_offsets import query_id
from tidelog.spark.pipelines.repeated_stages import StageWatch
from tidelog.spark.pipelines.sink_writing import TaskMessage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark tells the thread that runs a batch.
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"


class RepeatedStages(Protocol):
    def has_repeated(self, messages: Sequence[TaskMessage]) -> bool:
        """Whether rows may be of two computations."""
        ...


class BatchContext(Protocol):
    def who(self, spark: SparkSession) -> tuple[str, str]:
        """The ids of the query and of its run. SinkError where they are not known."""
        ...

    def watch(self, spark: SparkSession, run: str) -> RepeatedStages:
        """Of the job that begins now."""
        ...


class DriverContext:
    def who(self, spark: SparkSession) -> tuple[str, str]:
        context = spark.sparkContext
        query, run = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_RUN_ID)
        if query is None or run is None:
            raise SinkError("Spark does not tell which query this batch belongs to: nothing can be decided")
        return query, run

    def watch(self, spark: SparkSession, run: str) -> RepeatedStages:
        return _AllStages(StageWatch(spark, run))


class ConnectContext:
    """Spark tells it nothing: the query is known by its checkpoint, and a run is a process of it."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint
        self._run = str(uuid4())

    def who(self, spark: SparkSession) -> tuple[str, str]:
        query = query_id(spark, self._checkpoint)
        if query is None:
            raise SinkError(f"Spark's id of the query cannot be read in {self._checkpoint}: nothing can be decided")
        return query, self._run

    def watch(self, spark: SparkSession, run: str) -> RepeatedStages:  # noqa: ARG002 - as in the driver
        return _ToldBySpark()


class _AllStages:
    def __init__(self, watch: StageWatch) -> None:
        self._watch = watch

    def has_repeated(self, messages: Sequence[TaskMessage]) -> bool:
        return self._watch.has_repeated({each.stage for each in messages})


class _ToldBySpark:
    """Of stages nobody is told over Spark Connect. Spark compares what a stage makes when it is started again (`MADE_ALIKE`), and
    runs all that comes behind anew, or gives the job up, where that differs."""

    def has_repeated(self, messages: Sequence[TaskMessage]) -> bool:  # noqa: ARG002 - as in the driver
        return False
