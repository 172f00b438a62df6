"""The pytest plugin for pipelines: `tidelog_pipeline`, and the one Spark session that all tests share, `tidelog_spark`.

    def test_revenue(tidelog_pipeline):
        pipeline = tidelog_pipeline("revenue.py")

    tidelog_spark_conf      in pytest's configuration file: more of Spark's configuration, KEY=VALUE a line

The cluster is the fixture `tidelog_cluster`. Whoever has a Spark session already has it used: one that is active, or the one that
a fixture `tidelog_spark` of their own returns.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.pipelines.definition import Pipeline
    from tidelog.spark.testing_kit.pipeline_test import ClusterOfTests, PipelineTest

    MakePipelineTest: TypeAlias = Callable[..., PipelineTest]

# pytest imports this module in every run on a machine where Tidelog is installed: whatever it needs is imported by fixtures.
# ruff: noqa: PLC0415

_TAG_CHARACTERS = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tidelog_spark_conf", "configuration of tidelog_spark, KEY=VALUE a line", type="linelist", default=[])


@pytest.fixture(scope="session")
def tidelog_spark(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on this machine, for the whole session. Started by the first test that needs it, in about ten seconds."""
    try:
        from tidelog.spark.pipelines.errors import PipelineError
        from tidelog.spark.testing_kit.spark_session import session_for_tests
    except ImportError as error:
        pytest.fail(f"tidelog_spark needs {error.name}: pip install tidelog[spark]", pytrace=False)
    conf: dict[str, str] = {}
    for each in pytestconfig.getini("tidelog_spark_conf"):
        name, found, value = each.partition("=")
        if not found:
            pytest.fail(f"tidelog_spark_conf: {each!r} is no KEY=VALUE", pytrace=False)
        conf[name.strip()] = value.strip()
    try:
        with session_for_tests(tmp_path_factory.mktemp("spark"), conf) as spark:
            yield spark
    except PipelineError as error:
        pytest.fail(f"tidelog_spark: {error}", pytrace=False)


@pytest.fixture
def tidelog_pipeline(
    tidelog_spark: SparkSession,
    tidelog_cluster: ClusterOfTests,
    request: pytest.FixtureRequest,
    pytestconfig: pytest.Config,
    tmp_path: Path,
) -> MakePipelineTest:
    """Makes a `PipelineTest` of a file, looked for beside the test, or of `Pipeline` objects.

    `only` chooses pipelines of a file by name, `partitions` is how many its topics have.
    """
    from tidelog.spark.testing_kit.pipeline_test import PipelineTest
    from tidelog.spark.testing_kit.spark_session import check_session
    from tidelog.spark.testing_kit.tested_pipelines import tested_pipelines

    check_session(tidelog_spark)

    def make(
        what: str | Path | Pipeline | Sequence[Pipeline], *, only: Sequence[str] = (), partitions: int = 1
    ) -> PipelineTest:
        places = (request.path.parent, pytestconfig.rootpath, Path.cwd())
        pipelines = tested_pipelines(what, [only] if isinstance(only, str) else only, places)
        tag = uuid.uuid4().hex[:_TAG_CHARACTERS]
        return PipelineTest(
            tidelog_spark, tidelog_cluster, pipelines, tmp_path, tag, partitions=partitions, places=places
        )

    return make
