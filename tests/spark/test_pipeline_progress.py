"""What Spark reports becomes what `tidelog pipeline status` shows; its errors become one sentence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidelog.cli.pipeline.pipeline_display import as_line, as_row
from tidelog.spark.pipelines import FromTopic, Pipeline, ToTable
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles
from tidelog.spark.pipelines.errors import sentence_of
from tidelog.spark.pipelines.progress import (
    FILE_NAME,
    PipelineProgress,
    QueryProgress,
    advance_progress,
    read_progress,
    write_progress,
)
from tidelog.spark.pipelines.session import SessionSettings, session_conf
from tidelog.spark.watching.batch_report import read_report
from tidelog.spark.watching.log_ends import LogEnds

NEW = QueryProgress(query="revenue", query_id="q", run_id="r")
REPORT = {
    "batchId": 3,
    "timestamp": "2026-11-16T07:24:54.601Z",
    "numInputRows": 1200,
    "processedRowsPerSecond": 600.0,
    "durationMs": {"triggerExecution": 2000},
    "sources": [{"endOffset": '{"o": {"0": 10, "1": 5}}', "latestOffset": '{"o": {"0": 15, "1": 5, "2": 2}}'}],
}


def advanced(progress: QueryProgress, report: Mapping[str, Any]) -> QueryProgress:
    return advance_progress(progress, report, read_report(report), LogEnds())


def test_a_batch_counts_and_an_idle_report_says_only_how_far_behind_it_is() -> None:
    after = advanced(NEW, REPORT)

    assert (after.batch_id, after.batch_rows, after.rows_per_second, after.run_rows, after.lag) == (
        3,
        1200,
        600,
        1200,
        7,
    )
    caught_up = {"sources": [{"endOffset": {"o": {"0": 15}}, "latestOffset": {"o": {"0": 15}}}], "numInputRows": 0}
    idle = advanced(after, caught_up)
    assert (idle.batch_id, idle.run_rows, idle.lag) == (3, 1200, 0)
    assert advanced(idle, REPORT).run_rows == 2400
    assert advanced(idle, {"numInputRows": 0, "sources": [{"endOffset": None}]}).lag == 0, "as it was"


def test_a_line_and_a_row_of_it() -> None:
    assert as_line(NEW) == "revenue: running, no rows so far"
    assert as_line(advanced(NEW, REPORT)) == (
        "revenue: running, batch 3: 1,200 rows in 2.0 s (600 rows/s), 1,200 in all, lag 7"
    )
    assert as_row(NEW)["batch_id"] is None


def test_what_a_run_leaves_is_read_by_another_process(tmp_path: Path) -> None:
    left = PipelineProgress(pipeline="revenue", host="elsewhere", pid=1, queries=(advanced(NEW, REPORT),))
    files = CheckpointFiles.at(str(tmp_path / "checkpoint"), {})
    write_progress(files, left)

    assert read_progress(files) == left
    assert left.is_alive, "nobody here knows better"
    elsewhere = CheckpointFiles.at(str(tmp_path), {})
    assert read_progress(elsewhere) is None
    (tmp_path / FILE_NAME).write_text('{"version": 1, "pip')
    assert read_progress(elsewhere) is None


def test_a_run_whose_process_is_gone_has_died() -> None:
    here = PipelineProgress(pipeline="p", host=os.uname().nodename, pid=os.getpid(), queries=())

    assert here.is_alive
    assert not msgspec.structs.replace(here, pid=2**22 + 1).is_alive


def test_an_error_of_spark_is_one_sentence() -> None:
    assert (
        sentence_of(
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed when "
            "Python data source instance planning: Traceback (most recent call last):\n"
            '  File "/x/source.py", line 3, in plan\n    raise\n'
            "tidelog.spark.errors.DataLossError: offsets 3 to 4 of t-0 are deleted: it begins at 5\n SQLSTATE: 38000"
        )
        == "offsets 3 to 4 of t-0 are deleted: it begins at 5"
    )
    assert (
        sentence_of(
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `nope` cannot be resolved. SQLSTATE: 42703; line 1\n'X"
        )
        == "A column `nope` cannot be resolved."
    )
    assert sentence_of(
        "[PARSE_SYNTAX_ERROR] Syntax error at 'selec'. SQLSTATE: 42601 (line 1)\n\n== SQL ==\nselec"
    ) == ("Syntax error at 'selec'.")
    assert sentence_of(ValueError("plain")) == "plain"


def test_a_session_for_this_machine_and_one_for_a_cluster() -> None:
    pipeline = Pipeline(
        name="p", source=FromTopic("t"), sink=ToTable("t"), spark={"spark.ui.enabled": False, "spark.x": 1}
    )

    local = session_conf([pipeline], SessionSettings(conf={"spark.x": "2"}), is_checkpoint_local=True)
    assert local["spark.master"] == "local[*]"
    assert (local["spark.ui.enabled"], local["spark.x"]) == ("false", "2")
    assert int(local["spark.sql.shuffle.partitions"]) >= 2
    assert "spark.sql.streaming.checkpointFileManagerClass" in local
    assert local["spark.python.unix.domain.socket.enabled"] == "true"
    assert "spark.archives" not in local

    cluster = session_conf(
        [pipeline], SessionSettings(master="spark://h:7077", package="/p.zip"), is_checkpoint_local=False
    )
    assert cluster["spark.master"] == "spark://h:7077"
    assert cluster["spark.archives"] == "/p.zip#tidelog_packages"
    assert cluster["spark.executorEnv.PYTHONPATH"] == "tidelog_packages"
    assert "spark.sql.shuffle.partitions" not in cluster
    assert "spark.sql.streaming.checkpointFileManagerClass" not in cluster
