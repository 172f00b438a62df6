"""The Spark session of a run: one for all pipelines of a file, on this machine or on a cluster of Spark's."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import tidelog
from tidelog.spark.connect_session import MADE_ALIKE, SCHEME, ConnectError, connect, is_connect
from tidelog.spark.java_home import ensure_java
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import PipelineError, sentence_of
from tidelog.spark.pipelines.query_options import as_text
from tidelog.spark.pipelines.spark_log import SparkLog
from tidelog.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Where a worker of Spark's unpacks the archive that `tidelog pipeline package` has built.
PACKAGES = "tidelog_packages"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# A rename within a directory is all that a local file system needs: 50 ms less for each batch.
LOCAL_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Over TCP each task waits 40 ms for its input: the JVM sends it in two parts, and the second waits for the worker's delayed
# acknowledgement of the first. There is no such thing between sockets of one machine.
LOCAL_SOCKETS = "spark.python.unix.domain.socket.enabled"

# Only a safeguard: the process has ended, so what is left in the pipe can be read at once.
_LOG_END_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What the command line says about Spark."""

    master: str | None = None
    """Instead of the file's."""
    package: str | None = None
    """The archive for the workers, a path or a URL that all of them can read."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Goes before what the file says."""
    is_verbose: bool = False


def session_conf(
    pipelines: Sequence[Pipeline], settings: SessionSettings, *, is_checkpoint_local: bool
) -> dict[str, str]:
    """The configuration of the session. Pure."""
    master = settings.master or pipelines[0].master
    if master.startswith(SCHEME):
        return _connect_conf(pipelines, settings, master)
    conf = {
        "spark.master": master,
        "spark.app.name": ", ".join(each.name for each in pipelines),
        # Progress is shown once, by us.
        "spark.ui.showConsoleProgress": "false",
    }
    if sys.platform != "win32":
        conf[LOCAL_SOCKETS] = "true"
    if is_checkpoint_local:
        conf[MANAGER] = LOCAL_MANAGER
    if master.startswith("local"):
        # Spark's default of 200 is for clusters: here each would be a task, and a file of state, for nothing.
        conf["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
        # Nobody else has to reach the driver.
        conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
    if settings.package is not None:
        conf["spark.archives"] = f"{settings.package}#{PACKAGES}"
        conf["spark.executorEnv.PYTHONPATH"] = PACKAGES
    for pipeline in pipelines:
        conf |= as_text(pipeline.spark)
    return {**conf, **settings.conf}


def _connect_conf(pipelines: Sequence[Pipeline], settings: SessionSettings, master: str) -> dict[str, str]:
    """What a session of Spark Connect is told. How the server runs its jobs was said when it was started."""
    if settings.package is not None:
        raise PipelineError(
            "--package does not go over Spark Connect: the Python of the server and its workers needs Tidelog installed"
        )
    conf = {"spark.master": master, **MADE_ALIKE}
    for pipeline in pipelines:
        conf |= as_text(pipeline.spark)
    return {**conf, **settings.conf}


def start_session(conf: Mapping[str, str], modules: Sequence[ModuleType], *, is_verbose: bool) -> SparkSession:
    """A session with this configuration. PipelineError where Spark cannot start. What modules define travels by value."""
    is_remote = conf.get("spark.master", "").startswith(SCHEME)
    if not is_remote:
        ensure_java()
        _choose_python(conf)
    try:
        from pyspark import cloudpickle  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError:
        raise PipelineError("pipelines need PySpark: pip install tidelog[spark]") from None
    if not is_verbose:
        # They repeat on stderr, as JSON, each error that is raised.
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    if is_remote:
        return _connected(conf)
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        if not is_verbose:
            _launch_quietly(conf)
        session = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise PipelineError(f"Spark does not start: {sentence_of(error)}") from error
    except Exception as error:
        if type(error).__name__ != "Py4JJavaError":
            raise
        raise PipelineError(f"Spark does not start: {sentence_of(error)}") from error
    if not is_verbose:
        session.sparkContext.setLogLevel("ERROR")
    return session


def _connected(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        return connect(conf["spark.master"], {name: text for name, text in conf.items() if name != "spark.master"})
    except ConnectError as error:
        raise PipelineError(str(error)) from error
    except PySparkException as error:
        raise PipelineError(f"Spark Connect: {sentence_of(error)}") from error


def own_session(spark: SparkSession, pipeline: Pipeline) -> SparkSession:
    """A session for one pipeline, whose sources are views there. What Spark was not told when it was started, since others have
    started it, is told here, as far as it may be."""
    if is_connect(spark):
        # With the configuration that the whole run has.
        return spark.cloneSession()  # type: ignore[attr-defined, no-any-return]  # only such sessions have it
    session = spark.newSession()
    chosen = as_text(pipeline.spark)
    if chosen:
        told = dict(spark.sparkContext.getConf().getAll())
        for name, value in chosen.items():
            if name not in told and session.conf.isModifiable(name):
                session.conf.set(name, value)
    return session


def frame_of(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: StructType | str) -> DataFrame:
    """`createDataFrame`, but for its side effect: it makes its session the active one, in which Spark then looks for the data
    sources of whoever else writes in this process."""
    before = type(spark).getActiveSession()
    try:
        return spark.createDataFrame(rows, schema)
    finally:
        if before is not None and before is not spark:
            before.createDataFrame([], "nothing int")


def _launch_quietly(conf: Mapping[str, str]) -> None:
    """Start Spark's Java with nowhere to show what it says. PipelineError with its reason where it does not start."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is not None:  # noqa: SLF001 - one for the process, and there is no other way to ask
        return
    log = SparkLog()
    try:
        given = SparkConf().setAll(list(conf.items()))
        gateway = launch_gateway(conf=given, popen_kwargs={"stderr": log.descriptor})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        log.hand_over()
        reason = log.reason(_LOG_END_S) or sentence_of(error)
        raise PipelineError(f"Spark does not start: {reason}; --verbose shows what it logs") from error
    log.hand_over()
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - as SparkContext itself would do it


def _choose_python(conf: Mapping[str, str]) -> None:
    """Which Python runs what Spark runs in Python, here beside the driver and on workers alike: it is one command for both."""
    chosen = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    if "spark.archives" not in conf:
        # Without it some other Python would be looked for.
        is_local = conf.get("spark.master", "").startswith("local")
        os.environ["PYSPARK_PYTHON"] = chosen or (worker_python() if is_local else sys.executable)
        return
    # Workers have no environment such as this one, but a Python of its version. What they find in the archive it finds here
    # in the directories of this environment.
    os.environ["PYSPARK_PYTHON"] = chosen or f"python{sys.version_info.major}.{sys.version_info.minor}"
    places = [str(Path(tidelog.__file__).parents[1]), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*places, *([before] if before else [])]))
