"""Tasks that Spark tries again after they have written: their rows count once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.spark.topics import fill
from tests.spark.written import committed_numbers, committed_rows, transactional_ids
from tidelog.testing import EmbeddedCluster

DEADLINE_S = 240


def test_tasks_that_are_tried_again_count_once(cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> None:
    target = f"{topic}-out"
    cluster.create_topic(target, partitions=2)
    fill(cluster.bootstrap_servers, topic, range(30))

    command = [
        sys.executable,
        "-m",
        "tests.spark.retried_write",
        cluster.bootstrap_servers,
        topic,
        target,
        str(tmp_path),
    ]
    ran = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )

    assert ran.returncode == 0, ran.stderr[-4000:]
    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(30))
    assert len(committed_rows(cluster.bootstrap_servers, target, isolation_level="read_uncommitted")) > 30
    assert not transactional_ids(cluster.bootstrap_servers, ran.stdout.split()[-1])
