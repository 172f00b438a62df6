"""One decision over a sink of every kind that needs no server, whose driver is killed by SIGKILL in the middle of one of the
ends: another process ends the batch, and its rows are everywhere once."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.spark.killed_end import PLACES
from tests.spark.sink_tasks import Tasks
from tests.spark.written import committed_numbers, transactional_ids
from tests.support.command_line import json_lines, tidelog
from tests.support.iceberg_sink import numbers
from tidelog.spark.outputs.kind import OutputKind, kind_of
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, StagedOutput, Target, app_id
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork, TopicOutput
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.testing import EmbeddedCluster

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 120
SCHEMA = pa.schema([("n", pa.int64())])
# By two tasks.
ROWS = ([1], [2, 3])


class Sinks:
    """Of one query: a table of each make, files and a topic, ended in the order of `killed_end.PLACES`, and the topic last."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self.identity = SinkIdentity(f"query-{uuid4().hex[:12]}")
        self.tasks = Tasks(bootstrap, f"out-{self.identity.query}", self.identity)
        self.tasks.admin.create_topic(self.tasks.topic, partitions=1)
        warehouse = {"warehouse": f"file://{directory}/warehouse"}
        targets = {
            "iceberg": Target("iceberg", f"sqlite:///{directory}/catalog.db", table="shop.orders", options=warehouse),
            "delta": Target("delta", str(directory / "table")),
            "sqlite": Target("sqlite", f"sqlite://{directory}/orders.db", "orders"),
            "files": Target("files", str(directory / "files")),
        }
        self.kinds = {name: kind_of(each, str(directory / f"staging of {name}"), {}) for name, each in targets.items()}
        for each in self.kinds.values():
            each.prepare(SCHEMA)

    def work(self, run: str) -> BatchWork:
        """Batch 0, as the tasks of a run have written it."""
        staged = tuple(self._staged(name, kind, run) for name, kind in self.kinds.items())
        topic = TopicOutput("topic", participants=tuple(self.tasks.write(run, rows) for rows in ROWS))
        return BatchWork(0, BatchInput("hash of its input", 15, 0), (topic,), staged)

    def _staged(self, name: str, kind: OutputKind, run: str) -> StagedOutput:
        parts = []
        for task, rows in enumerate(ROWS):
            attempt = kind.open_attempt(AttemptName(run, 0, task, 0, 0), SCHEMA)
            attempt.write(pa.RecordBatch.from_pydict({"n": rows}, schema=SCHEMA))
            parts.append(attempt.hand_over())
        manifest = manifest_of(name, app_id("orders", name, self.identity.query), 0, SCHEMA, parts)
        return write_manifest(kind.target, kind.staging, {}, manifest, run=run).output

    @property
    def seen(self) -> dict[str, list[int]]:
        """The rows that readers of each sink find, by programs of others."""
        with sqlite3.connect(self.directory / "orders.db") as connection:
            in_database = connection.execute("SELECT n FROM orders ORDER BY n").fetchall()
        connection.close()
        files = (pq.read_table(each) for each in (self.directory / "files").glob("part-*.parquet"))
        return {
            "iceberg": numbers(self.kinds["iceberg"]),
            "delta": _numbers(DeltaTable(self.kinds["delta"].target.place).to_pyarrow_table()),
            "sqlite": [n for (n,) in in_database],
            "files": sorted(n for each in files for n in _numbers(each)),
            "topic": committed_numbers(self.bootstrap, self.tasks.topic),
        }


def _numbers(table: pa.Table) -> list[int]:
    return sorted(int(row["n"]) for row in table.to_pylist())


@pytest.fixture
def sinks(cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[Sinks]:
    made = Sinks(cluster.bootstrap_servers, tmp_path)
    yield made
    made.tasks.close()


# What readers find of the sink in whose end the driver was killed.
_LEFT = {"iceberg": [], "delta": [1, 2, 3], "sqlite": [], "files": [1]}


@pytest.mark.parametrize("kind", PLACES)
def test_a_batch_whose_driver_was_killed_in_an_end_is_everywhere_once(sinks: Sinks, kind: str) -> None:
    work = msgspec.json.encode(sinks.work("first")).decode()
    command = [sys.executable, "-m", "tests.spark.killed_end", sinks.bootstrap, sinks.identity.query, "first", work]
    killed = subprocess.run(
        [*command, kind], cwd=REPOSITORY, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole = [1, 2, 3]
    ended = list(sinks.kinds)[: list(sinks.kinds).index(kind)]
    assert sinks.seen == {name: whole if name in ended else [] for name in (*sinks.kinds, "topic")} | {
        kind: _LEFT[kind]
    }

    recovered = tidelog("pipeline", "recover", sinks.identity.query, "--bootstrap", sinks.bootstrap, "--json")
    seen = sinks.seen
    # The query comes back, with the batch written once more.
    with SinkCommitter(sinks.identity, "second", {"bootstrap_servers": sinks.bootstrap}) as committer:
        committer.commit(sinks.work("second"))

    assert recovered.exit_code == 0, recovered.stderr
    (told,) = json_lines(recovered)
    assert (len(told["committed"]), sorted(told["ended"])) == (len(ROWS), sorted(sinks.kinds))
    assert seen == sinks.seen == dict.fromkeys((*sinks.kinds, "topic"), whole)
    assert transactional_ids(sinks.bootstrap, sinks.identity.query) == []
