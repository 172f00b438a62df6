"""Drivers that may be killed: each a process of its own, all with the Java of the test's Spark, which outlives them.

    python -m tidelog.spark.testing_kit.driver_server

A driver of Spark's is a Python and a Java, and a Java takes ten seconds to start. What decides a batch is in the Python: so that
is what dies here, by SIGKILL, and the queries that it ran end with it, since they call it for each batch. This process has
imported what a driver needs and forks one for each job that it reads. It starts no thread before a fork.

    stdin     a job: its length in four bytes, then a pickled `DriverJob`
    stdout    its outcome as a line of JSON: `DriverOutcome`
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from tidelog.spark import batch_steps
from tidelog.spark.batch_steps import BatchStep
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.testing_kit.caught_up import run_to_the_end
from tidelog.spark.testing_kit.driver_job import DriverJob, DriverOutcome, KillPoint, StepDone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ruff: noqa: PLC0415 - what starts threads is imported behind the fork

_LENGTH = struct.Struct(">I")
_ERROR_CHARACTERS_MAX = 4000


def main() -> None:
    jobs, outcomes = sys.stdin.buffer, sys.stdout.buffer
    while (head := jobs.read(_LENGTH.size)) and len(head) == _LENGTH.size:
        outcome = _done(jobs.read(_LENGTH.unpack(head)[0]))
        outcomes.write(msgspec.json.encode(outcome) + b"\n")
        outcomes.flush()


def _done(pickled: bytes) -> DriverOutcome:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        # Whatever it does, it never comes back into the loop above.
        try:
            with os.fdopen(writing, "wb") as told:
                _drive(pickle.loads(pickled), told)  # noqa: S301 - from the test that has started this process
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        lines = told.read().splitlines()
    _, status = os.waitpid(child, 0)
    found = [msgspec.json.decode(each, type=StepDone | str) for each in lines]
    errors = [each for each in found if isinstance(each, str)]
    return DriverOutcome(
        is_killed=os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
        steps=tuple(each for each in found if isinstance(each, StepDone)),
        error=errors[0] if errors else None,
    )


def _drive(job: DriverJob, told: IO[bytes]) -> None:
    """Run pipelines to their end, or to the step at which this process dies."""
    try:
        sys.path[:] = job.path
        pipelines: Sequence[Pipeline] = pickle.loads(job.pipelines)  # noqa: S301 - as above
        spark = _attached(job)
        batch_steps.listen(_Listener(job.kill, told))
        run_to_the_end(spark, PipelineFile(Path(job.file), pipelines, []), job.timeout_s)
    except BaseException as error:  # noqa: BLE001 - it is told, and the process ends
        _tell(told, str(error)[:_ERROR_CHARACTERS_MAX] or type(error).__name__)


class _Listener:
    """Writes down each step, and dies at one of them."""

    def __init__(self, kill: KillPoint | None, told: IO[bytes]) -> None:
        self._kill = kill
        self._told = told
        self._batches: dict[str, tuple[str, int]] = {}
        """By the id of a query: its name, and the batch that it is at."""

    def __call__(self, step: BatchStep) -> None:
        if step.query is not None and step.batch_id is not None:
            self._batches[step.query_id] = (step.query, step.batch_id)
        query, batch_id = self._batches[step.query_id]
        if self._kill == KillPoint(query, batch_id, step.name):
            os.kill(os.getpid(), signal.SIGKILL)
        _tell(self._told, StepDone(query, batch_id, step.name, step.rows))


def _tell(told: IO[bytes], what: StepDone | str) -> None:
    told.write(msgspec.json.encode(what) + b"\n")
    told.flush()


def _attached(job: DriverJob) -> SparkSession:
    """A session of the Spark that runs in somebody else's Java."""
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(job.gateway_port), "PYSPARK_GATEWAY_SECRET": job.gateway_secret}
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    java_context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(
        jvm.org.apache.spark.SparkContext.getOrCreate()
    )
    conf = SparkConf(_jvm=jvm, _jconf=java_context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=java_context, conf=conf))


if __name__ == "__main__":
    main()
