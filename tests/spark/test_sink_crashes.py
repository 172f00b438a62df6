"""Spark's own commits, in which the driver dies: each row counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.mortal_sink import (
    DECISION,
    END,
    RETURNED,
    Death,
    Manner,
    mortal_writer,
    rows_of,
)
from tests.spark.sink_tasks import Moment
from tests.spark.topics import fill, stopped
from tests.spark.written import committed_numbers, transactional_ids
from tidelog.testing import EmbeddedCluster

# A JVM and its workers start in some ten seconds, on a machine that is busy with others in minutes.
_DEADLINE_S = 300

# One for each batch after the first: a run replays the batch in which the one before it died, and dies in the next.
_DEATHS = [
    Death(DECISION, Moment.BEFORE),
    Death(DECISION, Moment.AFTER),
    Death(END, Moment.WITHIN),
    Death(END, Moment.WITHIN, Manner.FAILED, has_abort=True),
    Death(RETURNED),
]


@pytest.fixture
def target(cluster: EmbeddedCluster, topic: str) -> str:
    name = f"{topic}-out"
    cluster.create_topic(name, partitions=2)
    return name


def test_each_row_counts_once_wherever_the_driver_dies_in_a_commit(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, target: str, tmp_path: Path
) -> None:
    batches = len(_DEATHS) + 1
    fill(cluster.bootstrap_servers, topic, range(3 * batches))
    rows = rows_of(spark, cluster.bootstrap_servers, topic, batch_rows=3)
    deaths = dict(enumerate(_DEATHS, start=1))

    for number, death in deaths.items():
        query = mortal_writer(rows, cluster.bootstrap_servers, target, tmp_path / "query", deaths).start()
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(_DEADLINE_S)
        assert (tmp_path / "query" / f"commit-{number}").exists(), death
        # What was decided is there as soon as anybody could see to it; what is still open holds the others back.
        seen = committed_numbers(cluster.bootstrap_servers, target)
        assert len(set(seen)) == len(seen), death
    query = mortal_writer(rows, cluster.bootstrap_servers, target, tmp_path / "query", deaths).start()
    stopped(query)

    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(3 * batches))
    assert not transactional_ids(cluster.bootstrap_servers, str(query.id))


def test_each_row_counts_once_after_python_and_the_jvm_were_killed_between_two_ends(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, target: str, tmp_path: Path
) -> None:
    fill(cluster.bootstrap_servers, topic, range(30))
    command = [
        sys.executable,
        "-m",
        "tests.spark.killed_write",
        cluster.bootstrap_servers,
        topic,
        target,
        str(tmp_path),
    ]
    output = (tmp_path / "output").open("w")
    driver = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        wait_until(lambda: (tmp_path / "hangs").exists() or driver.poll() is not None)
        assert driver.poll() is None, (tmp_path / "output").read_text()[-4000:]
    finally:
        kill_session(driver.pid)
        driver.wait(_DEADLINE_S)
        output.close()
    # One of three transactions is committed, the others are open.
    assert len(transactional_ids(cluster.bootstrap_servers)) >= 2

    rows = rows_of(spark, cluster.bootstrap_servers, topic, batch_rows=10)
    query = mortal_writer(rows, cluster.bootstrap_servers, target, tmp_path, {}).start()
    stopped(query)

    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(30))
    assert not transactional_ids(cluster.bootstrap_servers, str(query.id))


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(_DEADLINE_S * 10):
        if is_so():
            return
        pause.wait(0.1)
    raise AssertionError("it did not come to be")


def kill_session(leader: int) -> None:
    """Every process of a session that this test has begun: the driver's Python, its JVM, and the workers of both."""
    members = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                # The name in parentheses may hold anything; the session comes fourth behind it.
                fields = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader:
                members.append(int(each.name))
    for member in members:
        os.kill(member, signal.SIGKILL)
