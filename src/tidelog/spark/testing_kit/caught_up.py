"""Pipelines run until they have caught up, within a time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.progress import PipelineProgress
from tidelog.spark.testing_kit.errors import PipelineTestError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_to_the_end(spark: SparkSession, file: PipelineFile, timeout_s: float) -> list[PipelineProgress]:
    """What `tidelog pipeline run --until-caught-up` does. DefinitionError, QueryFailedError; PipelineTestError where it does not
    come to its end in time."""
    run = PipelineRun(spark, file, until_caught_up=True)
    run.start()
    giving_up = threading.Timer(timeout_s, run.stop)
    giving_up.daemon = True
    giving_up.start()
    try:
        run.follow(lambda _: None)
    finally:
        giving_up.cancel()
    stopped = [each.query for one in run.progress for each in one.queries if each.state == "stopped"]
    if stopped:
        raise PipelineTestError(f"{', '.join(stopped)} has not caught up in {timeout_s:g} s")
    return run.progress
