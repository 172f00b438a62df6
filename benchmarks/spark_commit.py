"""What the driver adds to a batch: from the tasks' last row to a batch that is finished, without Spark.

python -m benchmarks.spark_commit [--quick] [--rounds N] [--json FILE]

So many transactions of one record each lie open on a node of ours, as tasks leave them; then one batch is committed, by a
committer that is new, as Spark's process for a data source makes it, and by one that a pipeline's driver keeps. Beside it
stands the least that any driver has to do: to end the same number of transactions. `every sink` is a batch of a pipeline, with
its entry for the audit: the same transactions, and a file of one row of each task in a Delta table, an Iceberg table, a SQLite
database and a directory. What Spark itself puts before the first line of ours, to start a process that calls `commit`, is
measured on a Spark and told apart: it is in none of the others. Ends with 1 where a goal was missed (not with --quick).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from benchmarks.compare import RESULTS
from tests.spark.topics import local_session
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin, AsyncAdmin
from tidelog.client.admin.outcomes import each_of, value_of
from tidelog.client.background import Background
from tidelog.client.producer.producer import Producer
from tidelog.client.seams import ClientSeams
from tidelog.spark.outputs.kind import OutputKind, kind_of
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, StagedOutput, Target, app_id
from tidelog.spark.sink.audit_entry import AuditEntry, SinkAudit
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, transactional_id

TOPIC = "bench"
PARTITIONS = 2
ROUNDS = 9
# By the number of tasks: how many milliseconds a committer that is kept may take.
GOALS_MS = {2: 60.0, 200: 300.0}
KEPT, NEW, BARE, EVERY = "kept", "new", "ends alone", "every sink"
STARTED = "Spark's start of a process"
SCHEMA = pa.schema([("n", pa.int64())])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_commit", description="the commit of a batch")
    parser.add_argument("--quick", action="store_true", help="one round: shows that all works, and measures nothing")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"counted rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/spark_commit.json)")
    given = parser.parse_args()
    samples = measure(given.rounds or (1 if given.quick else ROUNDS))
    missed = report(samples)
    if not given.quick or given.json:
        path = given.json or RESULTS / "spark_commit.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"milliseconds": samples}, indent=1) + "\n")
    if missed and not given.quick:
        sys.exit(1)


def measure(rounds: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made:
        node = TidelogNode.at(Path(made) / "tidelog", transaction_two_phase_commit_enable="true")
        with node.running():
            with Admin(bootstrap_servers=node.bootstrap) as admin:
                admin.create_topic(TOPIC, partitions=PARTITIONS)
            for tasks in GOALS_MS:
                place = Path(made) / f"{tasks} tasks"
                for name, taken in measure_tasks(node.bootstrap, tasks, rounds, place).items():
                    samples[f"{tasks} tasks, {name}"] = taken
        samples[STARTED] = measure_start(Path(made), rounds)
    return dict(samples)


def measure_tasks(bootstrap: str, tasks: int, rounds: int, place: Path) -> dict[str, list[float]]:
    """The batches of one query, each round in every way."""
    samples: dict[str, list[float]] = defaultdict(list)
    identity, run = SinkIdentity(f"query-{uuid4().hex[:8]}"), uuid4().hex
    settings: dict[str, object] = {"bootstrap_servers": bootstrap}
    writers = Writers(bootstrap, identity, run, tasks)
    outputs = Outputs(place, tasks)
    batch = 0
    with SinkCommitter(identity, run, settings) as kept:
        for turn in range(rounds + 1):
            for name in (KEPT, NEW, BARE, EVERY):
                participants = writers.written()
                given = BatchInput(uuid4().hex, tasks, 0)
                work = BatchWork.of_topic(batch, participants, given)
                if name == EVERY:
                    work = outputs.with_all(work, identity, run)
                began_s = time.perf_counter()
                if name == BARE:
                    end_all(bootstrap, participants)
                else:
                    (SinkCommitter(identity, run, settings) if name == NEW else kept).commit(work)
                    batch += 1
                if turn:
                    samples[name].append((time.perf_counter() - began_s) * 1e3)
    writers.close()
    return samples


class Writers:
    """The tasks: each has a producer, and leaves a transaction open."""

    def __init__(self, bootstrap: str, identity: SinkIdentity, run: str, tasks: int) -> None:
        self._is_begun = False
        self._producers = []
        for number in range(tasks):
            name = transactional_id(identity, run, "worker", number)
            self._producers.append(Producer(bootstrap_servers=bootstrap, transactional_id=name, linger_ms=0))

    def written(self) -> list[Participant]:
        participants = []
        for number, producer in enumerate(self._producers):
            if self._is_begun:
                producer.resume_transactions()
            else:
                producer.init_transactions()
            producer.begin_transaction()
            producer.send(TOPIC, b"value", partition=number % PARTITIONS)
            prepared = producer.hand_over_transaction()
            participants.append(
                Participant(prepared.transactional_id, prepared.producer_id, prepared.producer_epoch, 1)
            )
        self._is_begun = True
        return participants

    def close(self) -> None:
        for producer in self._producers:
            producer.close(timeout_ms=0)


class Outputs:
    """Sinks of a pipeline that are no topics, each with a row of every task."""

    def __init__(self, place: Path, tasks: int) -> None:
        self._tasks = tasks
        warehouse = {"warehouse": f"file://{place}/warehouse"}
        targets = {
            "delta": Target("delta", str(place / "delta")),
            "iceberg": Target("iceberg", f"sqlite:///{place}/catalog.db", table="bench.t", options=warehouse),
            "sqlite": Target("sqlite", f"sqlite://{place}/t.db", table="t"),
            "files": Target("files", str(place / "files")),
        }
        place.mkdir(parents=True)
        self._kinds = {name: kind_of(each, str(place / "staging" / name), {}) for name, each in targets.items()}
        for each in self._kinds.values():
            each.prepare(SCHEMA)

    def with_all(self, work: BatchWork, identity: SinkIdentity, run: str) -> BatchWork:
        staged = tuple(self._staged(name, kind, work.batch_id, run) for name, kind in self._kinds.items())
        accounts = tuple(
            SinkAudit(each.sink, each.target.kind, each.target.place, each.rows, each.checksum, staged=each)
            for each in staged
        )
        entry = AuditEntry("bench", identity.query, run, work.batch_id, (), None, accounts, "", 0)
        return msgspec.structs.replace(work, staged=staged, audit=entry)

    def _staged(self, name: str, kind: OutputKind, batch_id: int, run: str) -> StagedOutput:
        parts = []
        for task in range(self._tasks):
            attempt = kind.open_attempt(AttemptName(run, batch_id, task, 0, 0), SCHEMA)
            attempt.write(pa.RecordBatch.from_pydict({"n": [task]}, schema=SCHEMA))
            parts.append(attempt.hand_over())
        manifest = manifest_of(name, app_id("bench", name, run), batch_id, SCHEMA, parts)
        return write_manifest(kind.target, kind.staging, {}, manifest, run=run).output


@dataclass(frozen=True)
class Ended(WriterCommitMessage):
    at_s: float


class EndingWriter(DataSourceArrowWriter):
    """Tells when the last task had written, and when `commit` was called."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        for _ in iterator:
            pass
        return Ended(time.time())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        last_s = max(each.at_s for each in messages if isinstance(each, Ended))
        with Path(self._path).open("a") as file:
            file.write(f"{(time.time() - last_s) * 1e3}\n")


class EndingSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ending_sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002 - Spark's signature
        return EndingWriter(self.options["file"])


def measure_start(directory: Path, rounds: int) -> list[float]:
    """From the end of the last task to the first line of a data source's `commit`, which imports nothing of ours."""
    spark = local_session(directory / "spark", is_brief=False)
    try:
        spark.dataSource.register(EndingSink)
        for _ in range(rounds + 1):
            rows = spark.range(0, 2, 1, 2).selectExpr("string(id) AS value")
            rows.write.format("ending_sink").option("file", str(directory / "starts")).mode("append").save()
    finally:
        spark.stop()
    return [float(each) for each in (directory / "starts").read_text().split()][1:]


def end_all(bootstrap: str, participants: list[Participant]) -> None:
    background = Background.acquire()

    async def end() -> None:
        async with AsyncAdmin.on(ClientSeams.of(background.loop), bootstrap_servers=bootstrap) as admin:
            outcomes = await each_of(
                participants,
                lambda each: admin.end_transaction(
                    each.transactional_id, each.producer_id, each.producer_epoch, commit=True
                ),
            )
            for each in outcomes.values():
                value_of(each)

    try:
        background.call(end())
    finally:
        background.release()


def report(samples: dict[str, list[float]]) -> bool:
    """Print the table; whether a goal was missed."""
    missed = False
    print(f"{'tasks':>6} {'kept, ms':>9} {'goal':>6} {'new, ms':>9} {'ends alone, ms':>15} {'every sink, ms':>15}")
    for tasks, goal_ms in GOALS_MS.items():
        found = (statistics.median(samples[f"{tasks} tasks, {name}"]) for name in (KEPT, NEW, BARE, EVERY))
        kept, new, bare, every = found
        missed = missed or kept > goal_ms
        print(f"{tasks:>6} {kept:>9.1f} {goal_ms:>6.0f} {new:>9.1f} {bare:>15.1f} {every:>15.1f}")
    print(f"Spark takes {statistics.median(samples[STARTED]):.1f} ms more, to start a process that calls commit")
    return missed


if __name__ == "__main__":
    main()
