"""A Spark of this machine and a cluster for it, both once for all tests of this directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tidelog.testing import EmbeddedCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Started by the first test that needs it, in about ten seconds."""
    from tests.spark.topics import local_session

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17, and there is no java")
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as started:
        yield started


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    """A new topic of three partitions."""
    name = f"t-{uuid4().hex[:12]}"
    cluster.create_topic(name, partitions=3)
    return name


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture(scope="session")
def tidelog_spark(spark: SparkSession) -> SparkSession:
    """The kit's tests use what all others do."""
    return spark


@pytest.fixture(scope="session")
def tidelog_cluster(cluster: EmbeddedCluster) -> EmbeddedCluster:
    return cluster
