"""Rows of whole batches made anew in the place of those that a table has: by a real Spark, in Delta and Iceberg tables, beside a
run that goes on, and repeated after every step at which it may die."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession

from tests.spark.test_pipeline_run import run_to_the_end
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, Producer
from tidelog.client.admin import ConfigResource, ResourceKind
from tidelog.spark.errors import SinkError
from tidelog.spark.pipelines import Expect, FromTopic, Json, Pipeline, ToDatabase, ToFiles, ToTable, ToTopic, View
from tidelog.spark.pipelines.backfill import Backfill, PreparedBackfill, table_of
from tidelog.spark.pipelines.backfill_beside import plan_beside, write_beside
from tidelog.spark.pipelines.errors import BackfillError, DefinitionError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.sink.audit_entry import Replacement
from tidelog.spark.source.offset_bounds import AtTimestamp
from tidelog.testing import EmbeddedCluster

# Each batch has an hour.
HOUR_MS = 3_600_000
DEADLINE_S = 120
STEPS = ("staged", "noted", "replaced", "recorded")
ONCE, AGAIN = "SELECT n, n AS made FROM events", "SELECT n, n + 1000 AS made FROM events"


class Died(BaseException):
    """As a process that is gone: nothing catches it."""


class Job:
    """A pipeline of one topic and one table, run batch by batch."""

    def __init__(
        self, spark: SparkSession, cluster: EmbeddedCluster, topic: str, directory: Path, sink: ToTable
    ) -> None:
        self.spark, self.cluster, self.topic, self.directory = spark, cluster, topic, directory
        self.pipeline = Pipeline(
            name=f"fill-{topic}",
            source=FromTopic(topic, Json("n bigint"), name="events"),
            transform=ONCE,
            sink=sink,
            bootstrap=cluster.bootstrap_servers,
        )
        self.file = PipelineFile(directory / "jobs.py", [self.pipeline], [])

    def send(self, numbers: Iterable[int], hour: int) -> None:
        with Producer(bootstrap_servers=self.cluster.bootstrap_servers) as producer:
            for n in numbers:
                at = hour * HOUR_MS + n % HOUR_MS
                producer.send(self.topic, json.dumps({"n": n}).encode(), partition=n % 3, timestamp_ms=at)

    def batch(self, numbers: Iterable[int], hour: int) -> None:
        self.send(numbers, hour)
        run_to_the_end(self.spark, self.directory, self.pipeline)

    def fixed(self) -> Pipeline:
        return replace(self.pipeline, transform=AGAIN)

    def backfill(self, pipeline: Pipeline | None = None, on_step: Callable[[str], None] = lambda _: None) -> Backfill:
        return Backfill(self.spark, self.file, pipeline or self.fixed(), on_step=on_step)

    def plan(self, first: int, last: int, **more: Any) -> PreparedBackfill:
        return self.backfill(**more).plan(*hours(first, last))

    def fill(self, first: int, last: int, **more: Any) -> Replacement:
        made = self.backfill(**more)
        return made.execute(made.plan(*hours(first, last)))

    def rows(self) -> list[tuple[int, int]]:
        raise NotImplementedError

    def made_again(self) -> list[int]:
        """Numbers whose rows the file as it is now has made; each row is there once."""
        rows = self.rows()
        assert len({n for n, _ in rows}) == len(rows)
        assert all(made in {n, n + 1000} for n, made in rows)
        return sorted(n for n, made in rows if made == n + 1000)

    def audit(self, *more: str, code: int = 0) -> list[dict[str, Any]]:
        servers = self.cluster.bootstrap_servers
        result = tidelog("pipeline", "audit", self.pipeline.name, "--bootstrap", servers, "--json", *more)
        assert result.exit_code == code, result.output
        return json_lines(result)

    def offsets(self) -> tuple[dict[str, bytes], dict[Any, int]]:
        """What Spark has of the query's progress, and what the group has."""
        checkpoint = self.directory / "checkpoints" / self.pipeline.name / self.pipeline.name
        files = {str(each): each.read_bytes() for each in checkpoint.rglob("*") if each.is_file()}
        with Admin(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            found = admin.list_group_offsets(self.pipeline.name)
        return files, {place: each.offset for place, each in found.items()}


class DeltaJob(Job):
    def __init__(self, spark: SparkSession, cluster: EmbeddedCluster, topic: str, directory: Path) -> None:
        super().__init__(spark, cluster, topic, directory, ToTable("table", format="delta"))

    def rows(self) -> list[tuple[int, int]]:
        found = DeltaTable(str(self.directory / "table")).to_pyarrow_table().to_pylist()
        return sorted((row["n"], row["made"]) for row in found)


class IcebergJob(Job):
    def __init__(self, spark: SparkSession, cluster: EmbeddedCluster, topic: str, directory: Path) -> None:
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.db",
            "warehouse": f"file://{directory}/warehouse",
        }
        super().__init__(
            spark, cluster, topic, directory, ToTable(name="lake.t", format="iceberg", catalog=self.catalog)
        )

    def rows(self) -> list[tuple[int, int]]:
        catalog = SqlCatalog("default", **{name: text for name, text in self.catalog.items() if name != "type"})
        found = catalog.load_table("lake.t").scan().to_arrow().to_pylist()
        catalog.engine.dispose()
        return sorted((row["n"], row["made"]) for row in found)


def hours(first: int, last: int) -> tuple[AtTimestamp, AtTimestamp]:
    return AtTimestamp(first * HOUR_MS), AtTimestamp(last * HOUR_MS)


@pytest.fixture(params=[DeltaJob, IcebergJob])
def job(
    request: pytest.FixtureRequest, spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> Job:
    """Three batches of ten numbers, of the hours 10, 11 and 12."""
    made: Job = request.param(spark, cluster, topic, tmp_path)
    for index in range(3):
        made.batch(range(index * 10, index * 10 + 10), 10 + index)
    return made


@pytest.fixture
def delta(spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> Job:
    made = DeltaJob(spark, cluster, topic, tmp_path)
    made.batch(range(10), 10)
    made.batch(range(10, 20), 11)
    return made


def test_exactly_the_batches_that_the_time_touches_are_made_again_and_nothing_live_moves(job: Job) -> None:
    before = job.offsets()

    plan = job.plan(11, 12).plan
    assert [each.batch_id for each in plan.batches] == [1]
    assert job.made_again() == []
    made = job.fill(11, 12)

    assert (made.batches, made.number, made.staged.rows) == ((1,), 1, 10)
    assert job.made_again() == list(range(10, 20))
    assert job.offsets() == before
    entries = job.audit("--verify")
    assert [sink["verified"] for each in entries for sink in each["sinks"]] == ["same"] * 3
    assert [sink.get("replaced_by", {}).get("backfill") for each in entries for sink in each["sinks"]] == [
        None,
        1,
        None,
    ]
    # The pipeline goes on where it was.
    job.batch(range(30, 35), 13)
    assert [n for n, _ in job.rows()] == list(range(35))
    assert job.made_again() == list(range(10, 20))


def test_batches_that_were_replaced_together_are_replaced_together_again(job: Job) -> None:
    job.fill(10, 12)
    assert job.made_again() == list(range(20))

    second = job.fill(11, 12, pipeline=job.pipeline)

    assert (second.batches, second.number) == ((0, 1), 2)
    assert job.made_again() == []
    assert {sink["verified"] for each in job.audit("--verify") for sink in each["sinks"]} == {"same"}


def test_a_backfill_that_dies_at_any_step_is_repeated_and_has_replaced_once(job: Job) -> None:
    def dies_at(step: str) -> Callable[[str], None]:
        def die(done: str) -> None:
            if done == step:
                raise Died

        return die

    for step in STEPS:
        with pytest.raises(Died):
            job.fill(11, 12, on_step=dies_at(step))
        assert job.made_again() == (list(range(10, 20)) if step in STEPS[2:] else [])
        left = job.backfill().finish_left()
        assert (left is not None) == (step == "replaced")
    done = job.fill(11, 12)

    # The third and the fourth had replaced them.
    assert done.number == 3
    assert [n for n, _ in job.rows()] == list(range(30))
    assert job.made_again() == list(range(10, 20))
    assert {sink["verified"] for each in job.audit("--verify") for sink in each["sinks"]} == {"same"}


def test_a_run_that_goes_on_and_a_backfill_beside_it_lose_nothing_of_each_other(delta: Job) -> None:
    run = PipelineRun(delta.spark, delta.file)
    run.start()
    seen = threading.Event()
    running = threading.Thread(target=lambda: run.follow(lambda _: seen.set()))
    running.start()
    try:
        prepared = delta.backfill()
        plan = prepared.plan(*hours(10, 12))

        def send_more(step: str) -> None:
            # A batch of the run comes between what is staged and the commit.
            if step == "noted":
                versions = DeltaTable(str(delta.directory / "table")).version()
                delta.send(range(20, 30), 12)
                wait_until(lambda: DeltaTable(str(delta.directory / "table")).version() > versions)

        delta.backfill(on_step=send_more).execute(plan)
        delta.send(range(30, 35), 13)
        wait_until(lambda: len(delta.rows()) == 35)
    finally:
        run.stop()
        running.join(DEADLINE_S)

    assert [n for n, _ in delta.rows()] == list(range(35))
    assert delta.made_again() == list(range(20))
    assert not running.is_alive()
    run_to_the_end(delta.spark, delta.directory, delta.pipeline)
    assert {sink["verified"] for each in delta.audit("--verify") for sink in each["sinks"]} == {"same"}


def test_a_table_behind_views_that_keep_no_state_is_made_again_as_a_direct_one(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    def few(events: DataFrame) -> DataFrame:
        return events.where("n % 10 < 8")

    job = DeltaJob(spark, cluster, topic, tmp_path)
    made = View("made", "SELECT n, n AS made FROM both")
    both = View("both", "SELECT n FROM few WHERE n % 2 = 0 UNION ALL SELECT n FROM few WHERE n % 2 = 1")
    job.pipeline = replace(
        job.pipeline,
        transform=None,
        views=[made, both, View("few", few, expect={"small": Expect("n < 10000", "drop")})],
        sink=ToTable("table", format="delta", of="made", where="n <> 3"),
    )
    for index in range(3):
        job.batch(range(index * 10, index * 10 + 10), 10 + index)
    again = View("made", "SELECT n, n + 1000 AS made FROM both")
    fixed = replace(job.pipeline, views=[again, *job.pipeline.views[1:]])

    replaced = job.fill(11, 12, pipeline=fixed)

    assert (replaced.batches, replaced.staged.rows) == ((1,), 8)
    assert job.made_again() == list(range(10, 18))
    assert len(job.rows()) == 23
    assert {sink["verified"] for each in job.audit("--verify") for sink in each["sinks"]} == {"same"}
    counting = View("made", "SELECT n, count(*) AS made FROM both GROUP BY n")
    with pytest.raises(BackfillError, match=r"has an aggregation: rows of a batch .* write beside it with --into$"):
        job.plan(11, 12, pipeline=replace(job.pipeline, views=[counting, *job.pipeline.views[1:]]))


def test_one_sink_of_a_graph_is_written_beside_by_its_name(delta: Job) -> None:
    pipeline = replace(
        delta.pipeline,
        transform=None,
        views=[
            View("halves", "SELECT n % 2 AS half, n FROM events"),
            View("sums", "SELECT half, sum(n) AS total FROM halves GROUP BY half"),
        ],
        sink=[ToTopic("halves", of="halves", where="half = 1"), ToTopic("sums", of="sums")],
    )

    def beside(place: str, sink: str | None) -> list[tuple[Any, ...]]:
        plan = plan_beside(delta.file, pipeline, hours(11, 12), str(delta.directory / place))
        write_beside(delta.spark, delta.file, pipeline, plan, str(delta.directory / place), sink)
        found = DeltaTable(str(delta.directory / place)).to_pyarrow_table().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    assert beside("sums", "sums") == [(0, 70), (1, 75)]
    assert beside("halves", "halves") == [(1, n) for n in range(11, 20, 2)]
    with pytest.raises(DefinitionError, match="its sinks take from different tables: choose one of halves, sums"):
        beside("all", None)


def test_what_others_have_done_to_the_rows_is_refused(delta: Job) -> None:
    place = str(delta.directory / "table")
    with pytest.raises(
        BackfillError, match=r"has an aggregation: rows of a batch come of .* write beside it with --into$"
    ):
        delta.plan(10, 11, pipeline=replace(delta.pipeline, transform="SELECT count(*) AS n, 1L AS made FROM events"))
    with pytest.raises(BackfillError, match="no batch that is finished has read records of this time"):
        delta.plan(20, 21)
    other = FromTopic(delta.topic, Json("n bigint"), name="events", options={"startingOffsets": "latest"})
    with pytest.raises(BackfillError, match="batch 0 is the first one, and nobody knows where it began"):
        delta.plan(10, 11, pipeline=replace(delta.fixed(), source=other))
    with Admin(bootstrap_servers=delta.cluster.bootstrap_servers) as admin:
        resource = ConfigResource(ResourceKind.TOPIC, delta.topic)
        admin.alter_configs({resource: {"cleanup.policy": "compact"}})
        with pytest.raises(BackfillError, match=f"^the topic {delta.topic} is compacted: it need not have all records"):
            delta.plan(10, 11)
        admin.alter_configs({resource: {"cleanup.policy": "delete"}})
    plan = delta.plan(10, 12)
    DeltaTable(place).optimize.compact()
    with pytest.raises(SinkError, match=r"has 0 of \d files of batch 0: they were compacted or changed since"):
        delta.backfill().execute(plan)
    assert [n for n, _ in delta.rows()] == list(range(20))
    assert delta.made_again() == []


def test_partitions_with_odd_names_are_replaced_too(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    job = DeltaJob(spark, cluster, topic, tmp_path)
    job.pipeline = replace(
        job.pipeline,
        transform="SELECT n, n AS made, concat('a b/%=', n % 2) AS part FROM events",
        sink=ToTable("table", format="delta", partition_by=["part"]),
    )
    job.batch(range(6), 10)

    fixed = "SELECT n, n + 1000 AS made, concat('a b/%=', n % 3) AS part FROM events"
    job.fill(10, 11, pipeline=replace(job.pipeline, transform=fixed))

    assert job.made_again() == list(range(6))
    found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert {row["part"] for row in found} == {"a b/%=0", "a b/%=1", "a b/%=2"}


def test_everything_else_is_written_beside(delta: Job) -> None:
    sums = "SELECT n % 2 AS half, count(*) AS n, sum(n) AS total FROM events GROUP BY 1"
    pipeline = replace(delta.pipeline, transform=sums, sink=ToTopic("elsewhere"))
    place = str(delta.directory / "beside")

    plan = plan_beside(delta.file, pipeline, hours(11, 12), place)
    assert plan.records == 10
    assert not Path(place).exists()
    assert write_beside(delta.spark, delta.file, pipeline, plan, place) == 2

    found = DeltaTable(place).to_pyarrow_table().to_pylist()
    assert sorted((row["half"], row["n"], row["total"]) for row in found) == [(0, 5, 70), (1, 5, 75)]
    with pytest.raises(BackfillError, match="is there already: name a place where nothing is"):
        plan_beside(delta.file, pipeline, hours(11, 12), place)
    assert [n for n, _ in delta.rows()] == list(range(20))


@pytest.mark.parametrize(
    ("sinks", "sentence"),
    [
        ([ToTopic("o")], "p writes to a topic, of which no rows are taken back"),
        ([ToFiles("f")], "p writes to files, of which no rows are taken back"),
        ([ToDatabase("sqlite:///d.db", table="t")], "p writes to a database, of which no rows are taken back"),
        (
            [ToTable("t", format="delta", merge_on=["id"], sequence_by="n")],
            "p merges rows by key: what a batch has changed cannot be taken back",
        ),
        ([ToTable("t")], "p writes parquet by Spark's own sink, which has no account of batches"),
        (
            [ToTable("t", format="delta"), ToTopic("o")],
            "p has 2 sinks, and one commit is in one table: they would disagree",
        ),
    ],
)
def test_sinks_whose_rows_are_not_taken_back_are_refused(sinks: Any, sentence: str) -> None:
    pipeline = Pipeline(name="p", source=FromTopic("t", Json("id string, n int")), sink=sinks)

    with pytest.raises(BackfillError) as raised:
        table_of(pipeline)

    assert str(raised.value) == f"{sentence}; write beside it with --into"


def wait_until(is_done: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while not is_done():
        assert time.monotonic() < until_s, "it did not come to be"
        time.sleep(0.05)
