"""The older one of the two releases of Spark that are supported: source, sink, pipelines and their tables, by the same tests."""

from __future__ import annotations

import subprocess

import pytest

from tests.compat.older_spark import environment_of
from tests.support.apache_kafka import REPOSITORY
from tests.support.command_process import environment

pytestmark = [pytest.mark.compat, pytest.mark.timeout(5400)]
OLDER = "4.2.*"
_TIMEOUT_S = 2600
SUITES = {
    "source and sink": ("batch_source", "stream_source", "batch_sink", "stream_sink", "secure_source"),
    "catalog and confluent formats": ("catalog_table", "confluent_formats", "pipeline_formats"),
    "pipelines": (
        "pipeline_run",
        "views",
        "shared_reads",
        "dead_letters",
        "expectations",
        "upgrades",
        "query_listener",
    ),
    "sinks by delta-rs, PyIceberg and databases": ("pipeline_sinks", "pipeline_batches", "debezium"),
    "back and forth": ("preview", "version_diff", "backfill"),
    "kills": ("killed_ends", "pipeline_kills", "pipeline_kit"),
}


def test_the_environment_has_the_older_spark() -> None:
    said = subprocess.run(
        [environment_of(OLDER), "-c", "import pyspark, tidelog.spark.pipelines; print(pyspark.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("4.2."), said.stdout


@pytest.mark.parametrize("suite", list(SUITES))
def test_what_the_newer_spark_passes_the_older_one_passes(suite: str) -> None:
    files = [f"tests/spark/test_{name}.py" for name in SUITES[suite]]
    done = subprocess.run(
        [environment_of(OLDER), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *files],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
