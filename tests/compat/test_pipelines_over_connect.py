"""Pipelines on a server of Spark Connect: their decisions are made there, and each row comes once whoever is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.compat.connect_server import ConnectServer, connect_server
from tests.spark.written import committed_rows
from tests.support.command_process import environment
from tidelog import Producer
from tidelog.testing import EmbeddedCluster

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1200)]
DEADLINE_S = 240.0
LATE = "Python worker failed to connect back"

FILE = """
from tidelog.spark.pipelines import Expect, FromTopic, Json, Pipeline, ToTable, ToTopic


def priced(orders):
    return orders.where("price > 0").selectExpr("id", "price * 2 AS price")


pipeline = Pipeline(
    name="shop",
    source=FromTopic(
        "orders",
        Json("id string, price double"),
        expect={"it is cheap": Expect("price < 100", "warn"), "it has an id": "id IS NOT NULL"},
        dead_letters="orders.bad",
        options={"maxOffsetsPerTrigger": 40},
    ),
    transform=priced,
    sink=[ToTable("table", format="delta"), ToTopic("priced", key="id")],
)
"""
FORK = """
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic, View

pipeline = Pipeline(
    name="fork",
    source=FromTopic("orders", Json("id string, price double")),
    views=[View("clean", "SELECT DISTINCT id FROM orders"), View("short", "SELECT DISTINCT left(id, 1) AS id FROM clean")],
    sink=[ToTopic("priced", of="clean"), ToTopic("orders.bad", of="short")],
)
"""


class Job:
    def __init__(self, directory: Path, cluster: EmbeddedCluster) -> None:
        self.directory, self.cluster = directory, cluster
        self.sent = self.broken = 0
        (directory / "jobs.py").write_text(FILE)
        (directory / "fork.py").write_text(FORK)
        for topic in ("orders", "priced", "orders.bad"):
            cluster.create_topic(topic, partitions=2)

    def send(self, count: int) -> None:
        with Producer(bootstrap_servers=self.cluster.bootstrap_servers) as producer:
            for number in range(self.sent, self.sent + count):
                producer.send("orders", json.dumps({"id": f"o{number}", "price": number + 1.0}).encode())
            producer.send("orders", b"no json")
        self.sent += count
        self.broken += 1

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tidelog.cli", "pipeline", *words],
            cwd=self.directory,
            env=environment({"TIDELOG_BOOTSTRAP": self.cluster.bootstrap_servers}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, again: int = 2) -> tuple[int, str, str]:
        process = self.start(*words)
        try:
            said, complained = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
        return (
            self.run(*words, again=again - 1)
            if LATE in complained and again
            else (process.returncode, said, complained)
        )

    def keys(self) -> Counter[str]:
        rows = committed_rows(self.cluster.bootstrap_servers, "priced")
        return Counter((row.key or b"").decode() for row in rows)

    def rows(self) -> Counter[str]:
        found = DeltaTable(str(self.directory / "table")).to_pyarrow_table()
        return Counter(row["id"] for row in found.to_pylist())


def test_a_pipeline_on_a_server_is_killed_and_resumed_and_has_each_row_once(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        job = Job(tmp_path, cluster)
        job.send(60)
        with connect_server(tmp_path) as server:
            _killed(job, server, [server.kill])
        with connect_server(tmp_path) as server:
            # The query of a client that is gone runs on, until the next client begins it anew.
            _killed(job, server, [])
            job.send(60)
            code, said, complained = job.run("run", "jobs.py", "--master", server.url, "--until-caught-up", "--json")
            assert code == 0, complained
            progress = json.loads(said.splitlines()[-1])
            assert progress["state"] == "caught up"

            job.send(10)
            where = ("--target", server.url, "--out", "deployed", "--shared", str(tmp_path), "--until-caught-up")
            code, said, complained = job.run("deploy", "jobs.py", *where)
            assert code == 2, "127.0.0.1 is each machine's own"
            assert "127.0.0.1" in complained
            code, said, complained = job.run("run", "jobs.py", "--master", server.url, "--until-caught-up", "--json")
            assert code == 0, complained
            progress = json.loads(said.splitlines()[-1])
            assert progress["run_rows"] == 11, progress

            code, _, complained = job.run("run", "fork.py", "--master", server.url, "--until-caught-up")
            assert code == 2
            assert "view clean: several take from it, and over Spark Connect nobody can see whether" in complained
            code, _, complained = job.run("run", "jobs.py", "--master", server.url, "--package", "x.zip")
            assert code == 1
            assert (
                "--package does not go over Spark Connect: the Python of the server and its workers needs" in complained
            )
        once = {f"o{number}": 1 for number in range(job.sent)}
        assert job.keys() == once
        assert job.rows() == once
        letters = committed_rows(cluster.bootstrap_servers, "orders.bad")
        assert [row.value for row in letters] == [b"no json"] * job.broken
        code, said, complained = job.run("audit", "shop", "--verify")
        assert code == 0, said + complained
        code, said, _ = job.run("status", "jobs.py", "--json")
        (status,) = [json.loads(line) for line in said.splitlines()]
        assert (code, status["state"], status["lag"]) == (0, "caught up", 0)
        code, _, complained = job.run("run", "jobs.py", "--master", "sc://127.0.0.1:1", "--until-caught-up")
        assert code == 1
        assert "no Spark Connect server answers at 127.0.0.1:1" in complained


def _killed(job: Job, server: ConnectServer, more: list[Callable[[], None]]) -> None:
    """A run whose client is killed once it has written something new, and whatever else is to be killed with it."""
    before = sum(job.keys().values())
    process = job.start("run", "jobs.py", "--master", server.url)
    try:
        until_s = time.monotonic() + DEADLINE_S
        job.send(30)
        while sum(job.keys().values()) <= before:
            if process.poll() is not None:
                # Spark gives its Python processes ten seconds to start, which a busy machine may not do: again, then.
                said = process.communicate()
                assert LATE in said[1], said
                process = job.start("run", "jobs.py", "--master", server.url)
            assert time.monotonic() < until_s, server.said()
            time.sleep(0.1)
        job.send(30)
    finally:
        for each in more:
            each()
        process.send_signal(signal.SIGKILL)
        process.communicate()
