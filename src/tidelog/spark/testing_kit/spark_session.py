"""One Spark session for all tests of a run: that of the tests themselves where there is one, else one that starts quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.pipelines.session import LOCAL_MANAGER, LOCAL_SOCKETS, MANAGER, start_session
from tidelog.spark.testing_kit.errors import PipelineTestError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def conf_for_tests(directory: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Two cores, no page, few partitions, compiled less, and everything that it writes in a directory."""
    return {
        "spark.master": "local[2]",
        "spark.app.name": "tests of pipelines",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory} -XX:TieredStopAtLevel=1",
        LOCAL_SOCKETS: "true",
        MANAGER: LOCAL_MANAGER,
        **more,
    }


@contextmanager
def session_for_tests(directory: Path, more: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session that is there already is used, and left alone; one that is started here is stopped. PipelineError."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - when a test needs it

    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    spark = start_session(conf_for_tests(directory, more), (), is_verbose=False)
    try:
        yield spark
    finally:
        spark.stop()


def check_session(spark: SparkSession) -> None:
    """PipelineTestError for one that tests cannot use."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise PipelineTestError("tests of pipelines need a Spark in this process, and this session is on Spark Connect")
