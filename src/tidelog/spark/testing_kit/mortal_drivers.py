"""The test's side of `driver_server`: one driver after another, in the Java of the test's own Spark.

with MortalDrivers(spark) as drivers:
    outcome = drivers.run(file, KillPoint("revenue", 0, "decision"), timeout_s=60)
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.testing_kit.driver_job import DriverJob, DriverOutcome, KillPoint
from tidelog.spark.testing_kit.errors import PipelineTestError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LENGTH = struct.Struct(">I")
_END_TIMEOUT_S = 30


class MortalDrivers:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tidelog.spark.testing_kit.driver_server"]
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What a driver has to say comes with its outcome.
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(self, file: PipelineFile, kill: KillPoint | None, timeout_s: float) -> DriverOutcome:
        """Pipelines to their end, by a driver that dies at a point. PipelineTestError where no driver can be had."""
        from pyspark import cloudpickle  # noqa: PLC0415 - when a test needs it

        gateway = self._gateway()
        try:
            pipelines = cloudpickle.dumps(list(file.pipelines))  # type: ignore[no-untyped-call]
            job = DriverJob(
                gateway.getListeningPort(), gateway.secret(), sys.path, str(file.path), pipelines, kill, timeout_s
            )
            return self._ask(pickle.dumps(job))
        finally:
            gateway.shutdown()

    def _gateway(self) -> Any:
        """A way into this Spark's Java for one driver, which calls back into that driver alone."""
        context = self._spark.sparkContext
        jvm: Any = context._jvm  # noqa: SLF001 - there is no other way in
        gateway = jvm.org.apache.spark.api.python.Py4JServer(context._jsc.sc().conf())  # noqa: SLF001
        gateway.start()
        return gateway

    def _ask(self, job: bytes) -> DriverOutcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(_LENGTH.pack(len(job)) + job)
            self._process.stdin.flush()
        except BrokenPipeError:
            line = b""
        else:
            line = self._process.stdout.readline()
        if not line:
            raise PipelineTestError("no driver could be started: is the environment of the tests that of Tidelog?")
        return msgspec.json.decode(line, type=DriverOutcome)
