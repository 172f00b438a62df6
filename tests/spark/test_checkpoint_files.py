"""What a run leaves in its checkpoint, in a directory and in an object store, and `status` behind a URL."""

from __future__ import annotations

import logging
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import json_lines, tidelog
from tests.support.object_store import BUCKET, SECRET, ObjectStore, object_store
from tidelog.model.clock import SystemClock
from tidelog.spark.errors import OptionError
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles, checkpoint_settings, files_at
from tidelog.spark.pipelines.progress import PipelineProgress, QueryProgress, read_history, read_progress
from tidelog.spark.pipelines.run_record import RunRecord
from tidelog.spark.watching.batch_report import read_report
from tidelog.spark.watching.lag_history import QueryHistory
from tidelog.testing import EmbeddedCluster

QUERY = QueryProgress(query="revenue", query_id="q", run_id="r", state="stopped", batch_id=7, run_rows=70)
LEFT = PipelineProgress(pipeline="revenue", host="elsewhere", pid=1, queries=(QUERY,))
HISTORY = QueryHistory(query="revenue").with_batch(
    read_report({"timestamp": "2026-11-16T07:24:54.601Z", "numInputRows": 5, "sources": []}), 30
)


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
            patch.delenv(name, raising=False)
        patch.setenv(SECRET, "a secret")
        with object_store() as running:
            yield running


def test_a_run_leaves_the_same_in_a_store_as_in_a_directory(store: ObjectStore, tmp_path: Path) -> None:
    for checkpoint in (str(tmp_path / "checkpoint"), f"s3a://{BUCKET}/checkpoint", (tmp_path / "other").as_uri()):
        files = CheckpointFiles.at(checkpoint, store.settings)
        assert (read_progress(files), read_history(files)) == (None, None)
        record = RunRecord(files, SystemClock())
        assert record.history_of("revenue") == QueryHistory(query="revenue")
        record.keep(LEFT, [HISTORY])
        record.close()

        assert read_progress(CheckpointFiles.at(checkpoint, store.settings)) == LEFT
        assert RunRecord(files, SystemClock()).history_of("revenue") == HISTORY
    assert store.keys("checkpoint/") == [
        "checkpoint/lag-history.json",
        "checkpoint/metrics.prom",
        "checkpoint/progress.json",
    ]


def test_status_behind_a_url_says_what_the_last_run_has_left(
    store: ObjectStore, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    files = CheckpointFiles.at(f"s3://{BUCKET}/runs/revenue", store.settings)
    RunRecord(files, SystemClock()).keep(LEFT, [HISTORY])
    files.close()
    path = tmp_path / "jobs.py"
    path.write_text(
        textwrap.dedent(f"""
            from tidelog.spark.pipelines import FromTopic, Pipeline, ToTable

            def pipeline(name, checkpoint, **more):
                return Pipeline(
                    name=name,
                    source=FromTopic("t"),
                    sink=ToTable("t"),
                    checkpoint=checkpoint,
                    storage={store.settings!r} | more,
                )

            pipelines = [
                pipeline("revenue", "s3://{BUCKET}/runs/revenue"),
                pipeline("new", "s3a://{BUCKET}/runs/new"),
                pipeline("nowhere", "s3://{BUCKET}/runs", AWS_ENDPOINT_URL="http://127.0.0.1:9"),
                pipeline("elsewhere", "hdfs://name/runs"),
            ]
        """)
    )

    shown = tidelog("pipeline", "status", path, "--bootstrap", cluster.bootstrap_servers, "--json")

    rows = {row["pipeline"]: row for row in json_lines(shown)}
    assert {name: row["state"] for name, row in rows.items()} == {
        "revenue": "stopped",
        "new": "never run",
        "nowhere": "-",
        "elsewhere": "-",
    }
    assert (rows["revenue"]["batch_id"], rows["revenue"]["run_rows"]) == (7, 70)
    first, second = shown.stderr.splitlines()
    assert first.startswith("tidelog pipeline: nowhere: what its last run has left cannot be read: ")
    assert second == (
        "tidelog pipeline: elsewhere: what its last run has left cannot be read: hdfs://name/runs is neither a directory nor "
        "s3://BUCKET/...: no other store is known here"
    )
    assert shown.exit_code == 1


def test_a_store_that_is_slow_gets_the_newest_and_nobody_waits(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, first, go_on = Storage.write, threading.Event(), threading.Event()
    written: list[bytes] = []

    def slow(self: Storage, path: str, content: bytes, *, is_durable: bool = True) -> None:
        first.set()
        assert go_on.wait(60)
        written.append(content)
        write(self, path, content, is_durable=is_durable)

    monkeypatch.setattr(Storage, "write", slow)
    files = CheckpointFiles.at(f"s3://{BUCKET}/slow", store.settings)
    files.write("progress.json", b"0")
    assert first.wait(60)
    for each in (b"1", b"2", b"3"):
        files.write("progress.json", each)
    go_on.set()
    files.close()

    assert written == [b"0", b"3"]
    assert files.read("progress.json") == b"3"


def test_what_cannot_be_written_stops_nothing_and_is_told_once(
    store: ObjectStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")
    for checkpoint in (str(tmp_path / "file"), "s3://no-such-bucket/x"):
        caplog.clear()
        files = CheckpointFiles.at(checkpoint, store.settings)
        with caplog.at_level(logging.WARNING, logger="tidelog"):
            files.write("progress.json", b"1")
            files.write("metrics.prom", b"2")
            files.close()
        (told,) = caplog.messages
        assert f"cannot be written in {checkpoint}, so that status is not up to date: " in told


def test_of_a_store_that_only_spark_knows_nothing_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tidelog"):
        assert files_at("hdfs://name/x", {}) is None
    assert caplog.messages == [
        "how far queries are is not kept: hdfs://name/x is neither a directory nor s3://BUCKET/...: no other store is known here"
    ]
    record = RunRecord(None, SystemClock())
    record.keep(LEFT, [HISTORY])
    record.close()
    with pytest.raises(OptionError, match="no setting AWS_NOPE"):
        CheckpointFiles.at("s3://b/x", {"AWS_NOPE": "x"})


def test_a_store_is_told_what_spark_is_told_of_it() -> None:
    spark = {"spark.hadoop.fs.s3a.endpoint": "http://h:1", "spark.hadoop.fs.s3a.access.key": "k", "spark.x": 1}
    assert checkpoint_settings({}, spark) == {"AWS_ENDPOINT_URL": "http://h:1", "AWS_ACCESS_KEY_ID": "k"}
    assert checkpoint_settings({"AWS_REGION": "r"}, spark) == {"AWS_REGION": "r"}
