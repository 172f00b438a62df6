"""Several sinks of one pipeline on a real Spark: every batch counts in all of them, with the same rows."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812

from tests.spark.sink_tasks import Tasks
from tests.spark.written import committed_rows, transactional_ids
from tests.support.command_line import tidelog
from tidelog import Producer
from tidelog.client.producer.murmur2 import partition_of
from tidelog.spark.outputs.file_output import FileKind
from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.outputs.staged import StagedBatch
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToDatabase, ToFiles, ToTable, ToTopic, batch_writing
from tidelog.spark.pipelines.batch_rows import SinkRows, rows_to_write
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.progress import PipelineProgress, read_progress
from tidelog.spark.pipelines.query_options import sink_options
from tidelog.spark.pipelines.query_plan import plan_pipeline
from tidelog.spark.sink import open_transactions
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity
from tidelog.spark.sink.sink_recovery import recover
from tidelog.testing import EmbeddedCluster

EVENT = Json("id string, n bigint, kind string")


def send(cluster: EmbeddedCluster, topic: str, numbers: range) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        sent = [
            producer.send(
                topic, json.dumps({"id": f"o{n % 10}", "n": n, "kind": "ab"[n % 2]}).encode(), partition=n % 3
            )
            for n in numbers
        ]
        for each in sent:
            each.result(30)


def once(events: DataFrame) -> DataFrame:
    """Each number once: a stateful operator."""
    timed = events.withColumn("at", F.col("record.timestamp")).withWatermark("at", "1 minute")
    return timed.dropDuplicatesWithinWatermark(["n"]).select("id", "n", "kind")


def with_tokens(events: DataFrame) -> DataFrame:
    """Computed twice it is another one."""
    return once(events).withColumn("token", F.uuid())


def run_to_the_end(spark: SparkSession, directory: Path, pipeline: Pipeline) -> PipelineProgress:
    run = PipelineRun(spark, PipelineFile(directory / "jobs.py", [pipeline], []), until_caught_up=True)
    run.start()
    run.follow(lambda _: None)
    return run.progress[0]


def values(cluster: EmbeddedCluster, topic: str) -> list[dict[str, Any]]:
    return [json.loads(row.value or b"") for row in committed_rows(cluster.bootstrap_servers, topic)]


def database_rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as connection:
        return sorted(connection.execute(f"SELECT id, n, token FROM {table}"))


def database_rows_count(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


def test_all_sinks_have_the_same_rows_of_what_comes_out_otherwise_each_time(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    for each in ("all", "even"):
        cluster.create_topic(f"{topic}.{each}", partitions=2)
    database = tmp_path / "d.db"
    url = f"sqlite:///{database}"
    pipeline = Pipeline(
        name=f"p-{topic}",
        source=FromTopic(topic, EVENT, name="events", options={"maxOffsetsPerTrigger": 30}),
        transform=with_tokens,
        sink=[
            ToTopic(f"{topic}.all", name="all", key="id"),
            ToTopic(f"{topic}.even", name="even", where="n % 2 = 0"),
            ToFiles("files", partition_by=["kind"]),
            ToTable("table", format="delta"),
            # Beside the pipeline's file, wherever its workers are.
            ToTable(
                name="shop.rows",
                format="iceberg",
                catalog={"uri": "sqlite:///catalog.db", "warehouse": "warehouse"},
                partition_by=["kind"],
            ),
            ToDatabase(url, table="latest", merge_on=["id"], sequence_by="n"),
            ToDatabase(url, table="small", merge_on=["kind"], sequence_by="n", where="n < 55", deletes="n = 54"),
        ],
        bootstrap=cluster.bootstrap_servers,
    )
    send(cluster, topic, range(45))
    run_to_the_end(spark, tmp_path, pipeline)
    send(cluster, topic, range(30, 60))
    progress = run_to_the_end(spark, tmp_path, pipeline)

    tokens = {row["n"]: row["token"] for row in values(cluster, f"{topic}.all")}
    assert sorted(tokens) == list(range(60))
    assert len(set(tokens.values())) == 60
    assert {row["n"]: row["token"] for row in values(cluster, f"{topic}.even")} == {
        n: token for n, token in tokens.items() if n % 2 == 0
    }
    assert len(values(cluster, f"{topic}.all")) == 60
    in_files = pq.read_table(tmp_path / "files").to_pylist()
    assert {row["n"]: (row["token"], row["kind"]) for row in in_files} == {
        n: (token, "ab"[n % 2]) for n, token in tokens.items()
    }
    in_table = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert {row["n"]: row["token"] for row in in_table} == tokens
    with SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db") as catalog:
        in_catalog = catalog.load_table("shop.rows").scan().to_arrow().to_pylist()
    assert {row["n"]: row["token"] for row in in_catalog} == tokens
    assert len(in_table) == len(in_catalog) == len(in_files) == 60
    assert database_rows(database, "latest") == [(f"o{n - 50}", n, tokens[n]) for n in range(50, 60)]
    assert database_rows(database, "small") == [("o3", 53, tokens[53])]
    assert progress.queries[0].state == "caught up"
    assert transactional_ids(cluster.bootstrap_servers, progress.queries[0].query_id) == []
    check_audit(cluster, pipeline, tmp_path)


def check_audit(cluster: EmbeddedCluster, pipeline: Pipeline, directory: Path) -> None:
    """Every batch is accounted for, each row has its batch, and whoever reads again finds what is there."""

    def audit(*more: str, code: int = 0) -> list[dict[str, Any]]:
        result = tidelog("pipeline", "audit", pipeline.name, "--bootstrap", cluster.bootstrap_servers, "--json", *more)
        assert result.exit_code == code, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    # What is merged by key does not tell its batch: that is said, and is no success.
    entries = audit("--verify", code=3)
    rows = {
        name: sum(s["rows"] for each in entries for s in each["sinks"] if s["sink"] == name)
        for name in ("all", "table")
    }
    assert rows == {"all": 60, "table": 60}
    outcomes = {s["sink"]: s["verified"] for each in entries for s in each["sinks"] if s["rows"]}
    told_apart = ("all", "even", "files", "table", "shop.rows")
    assert {name: outcomes[name] for name in told_apart} == dict.fromkeys(told_apart, "same")
    # All that was sent is the input of some batch, once.
    read = sum(r["end"] - max(0, r["start"]) for each in entries for r in each["input"])
    assert read == 75
    last = [each for each in entries if any(sink["rows"] for sink in each["sinks"])][-1]
    (place,) = [r for sink in last["sinks"] if sink["sink"] == "all" for r in sink["ranges"]][:1]
    (found,) = audit("--row", f"{place['topic']}:{place['partition']}:{place['start']}")
    assert found["batch_id"] == last["batch_id"]
    name = next((directory / "files").rglob("part-*.parquet")).name
    assert audit("--row", name)[0]["batch_id"] == int(name[5:15])
    whole = tidelog("pipeline", "audit", pipeline.name, "--batch", "0", "--bootstrap", cluster.bootstrap_servers)
    assert "from its beginning to" in whole.stdout
    assert "nothing is known" in tidelog("pipeline", "audit", "nobody", "--bootstrap", cluster.bootstrap_servers).stderr
    # A file that somebody has taken away is found out.
    next((directory / "files").rglob(f"part-{last['batch_id']:010d}*.parquet")).unlink()
    (again,) = audit("--verify", "--batch", str(last["batch_id"]), code=1)
    (files,) = (sink for sink in again["sinks"] if sink["sink"] == "files")
    assert files["verified"] == "different"
    assert files["reason"].endswith(" is gone")


def test_a_query_of_the_release_before_goes_on_without_a_gap(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(f"{topic}.out", partitions=2)
    pipeline = Pipeline(
        name=f"moved-{topic}",
        source=FromTopic(topic, EVENT, name="events"),
        transform=once,
        sink=ToTopic(f"{topic}.out", key="kind"),
        bootstrap=cluster.bootstrap_servers,
    )
    (planned,) = plan_pipeline(spark, pipeline)
    checkpoint = tmp_path / "checkpoints" / pipeline.name / pipeline.name
    rows = planned.rows.select(*[column.alias(name) for name, column in planned.sinks[0].fields])
    options = sink_options(pipeline, pipeline.sinks[0])  # type: ignore[arg-type]  # a topic

    def as_before() -> str:
        writer = rows.writeStream.format("tidelog").options(**options)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination(120)
        return str(query.id)

    send(cluster, topic, range(6))
    query_id = as_before()
    # The last batch is there, and Spark has died before it wrote that down.
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    send(cluster, topic, range(3, 10))
    progress = run_to_the_end(spark, tmp_path, pipeline)

    assert progress.queries[0].query_id == query_id
    assert sorted(row["n"] for row in values(cluster, f"{topic}.out")) == list(range(10))


def test_a_sink_that_refuses_what_is_decided_stops_the_query_and_raises_an_alarm(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic(f"{topic}.out", partitions=2)
    pipeline = Pipeline(
        name=f"refused-{topic}",
        source=FromTopic(topic, EVENT, name="events"),
        sink=[ToTopic(f"{topic}.out", name="out"), ToFiles("files")],
        bootstrap=cluster.bootstrap_servers,
    )
    checkpoint = tmp_path / "checkpoints" / pipeline.name
    send(cluster, topic, range(10))

    def refuses(self: FileKind, batch: StagedBatch) -> None:
        raise OutputRefusedError("the disk is read-only")

    with monkeypatch.context() as patch:
        patch.setattr(FileKind, "end", refuses)
        with pytest.raises(
            QueryFailedError, match=r"batch 0 of .* is decided, but its sink files .* the disk is read-only"
        ):
            run_to_the_end(spark, tmp_path, pipeline)
    left = read_progress(CheckpointFiles.at(str(checkpoint), {}))
    stuck = f'tidelog_pipeline_stuck{{pipeline="{pipeline.name}",query="{pipeline.name}"}}'
    assert left is not None
    assert (left.queries[0].state, left.queries[0].is_stuck) == ("failed", True)
    assert f"{stuck} 1\n" in (checkpoint / "metrics.prom").read_text()

    # Somebody has seen to it.
    progress = run_to_the_end(spark, tmp_path, pipeline)

    assert not progress.queries[0].is_stuck
    assert f"{stuck} 0\n" in (checkpoint / "metrics.prom").read_text()
    assert sorted(row["n"] for row in pq.read_table(tmp_path / "files").to_pylist()) == list(range(10))
    assert sorted(row["n"] for row in values(cluster, f"{topic}.out")) == list(range(10))


def test_what_others_have_left_open_is_told_when_a_pipeline_starts_also_without_anything_to_read(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(open_transactions.tell_open_elsewhere, "__kwdefaults__", {"but": None, "age_ms_min": 0})
    cluster.create_topic(f"{topic}.out", partitions=2)
    abandoned = Tasks(cluster.bootstrap_servers, f"{topic}.out", SinkIdentity(f"gone-{topic}"))
    abandoned.write("run-0", [7])
    abandoned.close()
    pipeline = Pipeline(
        name=f"starting-{topic}",
        source=FromTopic(topic, EVENT, name="events"),
        sink=[ToTopic(f"{topic}.out", name="out"), ToFiles("files")],
        bootstrap=cluster.bootstrap_servers,
    )

    run_to_the_end(spark, tmp_path, pipeline)

    assert f"has 1 transactions open on {topic}.out" in caplog.text
    assert caplog.text.count(f"tidelog pipeline recover gone-{topic}") == 1
    recover(f"gone-{topic}", {"bootstrap_servers": cluster.bootstrap_servers})


def test_a_checkpoint_that_is_one_batch_old_is_refused_and_loses_nothing(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(f"{topic}.out", partitions=2)
    pipeline = Pipeline(
        name=f"restored-{topic}",
        source=FromTopic(topic, EVENT, name="events"),
        sink=[ToTopic(f"{topic}.out", name="out"), ToFiles("files")],
        bootstrap=cluster.bootstrap_servers,
    )
    checkpoint, backup = tmp_path / "checkpoints" / pipeline.name, tmp_path / "backup"
    send(cluster, topic, range(10))
    run_to_the_end(spark, tmp_path, pipeline)
    shutil.copytree(checkpoint, backup)
    send(cluster, topic, range(10, 20))
    run_to_the_end(spark, tmp_path, pipeline)
    newest = checkpoint.rename(tmp_path / "newest")
    backup.rename(checkpoint)
    send(cluster, topic, range(20, 25))

    with pytest.raises(
        QueryFailedError,
        match=r"batch 1 of .* is written already, and from other input: nothing of this one is written",
    ):
        run_to_the_end(spark, tmp_path, pipeline)
    assert sorted(row["n"] for row in values(cluster, f"{topic}.out")) == list(range(20))

    # The sentence says what to do.
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    run_to_the_end(spark, tmp_path, pipeline)
    assert sorted(row["n"] for row in values(cluster, f"{topic}.out")) == list(range(25))
    assert sorted(row["n"] for row in pq.read_table(tmp_path / "files").to_pylist()) == list(range(25))


@pytest.mark.parametrize("is_alone", [True, False])
def test_each_partition_of_a_topic_is_written_by_one_task_where_that_is_asked_for(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_alone: bool,
) -> None:
    """Alone, and beside sinks whose rows have to lie together otherwise: then each is a row of its own."""
    target, other = f"{topic}.out", f"{topic}.other"
    cluster.create_topic(target, partitions=6)
    cluster.create_topic(other, partitions=6)
    database = tmp_path / "d.db"
    more: list[ToTopic | ToDatabase] = [
        ToTopic(other, by_partition=True),
        ToDatabase(f"sqlite:///{database}", table="t", merge_on=["id"], sequence_by="n"),
    ]
    pipeline = Pipeline(
        name=f"by-partition-{topic}",
        source=FromTopic(topic, EVENT, name="events"),
        sink=[
            ToTopic(target, key="id", where="n < 30", by_partition=True),
            ToFiles("files"),
            *(() if is_alone else more),
        ],
        bootstrap=cluster.bootstrap_servers,
    )
    participants: list[Participant] = []
    monkeypatch.setattr(
        batch_writing, "warn_of_markers", lambda _identity, _run, given, _how: participants.extend(given)
    )
    send(cluster, topic, range(40))
    written_as_it_is = rows_to_write

    def in_several_tasks(result: DataFrame, sinks: Sequence[SinkRows]) -> DataFrame:
        """However few rows there are."""
        result.sparkSession.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
        return written_as_it_is(result, sinks)

    monkeypatch.setattr(batch_writing, "rows_to_write", in_several_tasks)
    run_to_the_end(spark, tmp_path, pipeline)

    rows = committed_rows(cluster.bootstrap_servers, target)
    others = [] if is_alone else committed_rows(cluster.bootstrap_servers, other)
    written = {(row.topic, row.partition) for row in (*rows, *others)}
    assert len(participants) > 1
    assert sum(each.partition_count for each in participants) == len(written), "each is of one task's transaction"
    assert sorted(json.loads(row.value or b"")["n"] for row in rows) == list(range(30))
    assert all(row.partition == partition_of(row.key or b"", 6) for row in rows)
    assert sorted(row["n"] for row in pq.read_table(tmp_path / "files").to_pylist()) == list(range(40))
    if not is_alone:
        assert sorted(row["n"] for row in values(cluster, other)) == list(range(40))
        assert len({row.partition for row in others}) == 6, "rows without a key are spread"
        assert database_rows_count(database) == 10


def test_what_stops_a_query_is_told_in_one_sentence(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    send(cluster, topic, range(20))
    table = ToDatabase(f"sqlite:///{tmp_path / 'd.db'}", table="t", merge_on=["id"])
    twice = Pipeline(
        name=f"twice-{topic}", source=FromTopic(topic, EVENT), sink=table, bootstrap=cluster.bootstrap_servers
    )
    malformed = replace(twice, name=f"malformed-{topic}", source=FromTopic(topic, Json("id int")), sink=ToFiles("f"))

    with pytest.raises(
        QueryFailedError, match=r"^twice-\S+: the sink t gets two rows of the key \{'id': 'o\d'\} in one batch"
    ):
        run_to_the_end(spark, tmp_path, twice)
    with pytest.raises(QueryFailedError, match=r"^malformed-\S+: Cannot parse the field name 'id' and the value o\d"):
        run_to_the_end(spark, tmp_path, malformed)
    assert database_rows_count(tmp_path / "d.db") == 0
