"""An executor is killed while a batch is written to several sinks. Its Spark has executors that are processes, and takes half
a minute to start: too long for `make test`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.test_pipeline_sinks import database_rows, send, values
from tidelog.testing import EmbeddedCluster

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

DEADLINE_S = 300


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as found:
        yield found


def test_sinks_agree_after_an_executor_was_lost_in_the_middle_of_a_batch(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    topic, target = "in", "out"
    cluster.create_topic(topic, partitions=3)
    cluster.create_topic(target, partitions=2)
    send(cluster, topic, range(400))

    command = [sys.executable, "-m", "tests.spark.lost_executor", cluster.bootstrap_servers, topic, target]
    ran = subprocess.run(
        [*command, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "killed True" in ran.stdout
    tokens = {row["n"]: row["token"] for row in values(cluster, target)}
    assert sorted(tokens) == list(range(400))
    assert len(values(cluster, target)) == 400
    in_files = pq.read_table(tmp_path / "files").to_pylist()
    assert sorted((row["n"], row["token"]) for row in in_files) == sorted(tokens.items())
    database = tmp_path / "d.db"
    assert {n: token for _, n, token in database_rows(database, "single")} == tokens
    assert {n: token for _, n, token in database_rows(database, "latest")} == {n: tokens[n] for n in range(390, 400)}
