"""Upkeep between batches: what goes, what stays whatever its age, and who may do it at all."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.log_builder import ManualClock
from tidelog.spark.outputs import delta_upkeep
from tidelog.spark.outputs.kind import kind_of
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, Target, app_id
from tidelog.spark.outputs.storage import StoredFile
from tidelog.spark.pipelines.output_upkeep import (
    MANIFESTS_KEPT,
    SWEEP_AGE_S,
    SWEEP_INTERVAL_MS,
    OutputUpkeep,
    old_manifests,
)
from tidelog.spark.pipelines.pipeline_run import _with_upkeep
from tidelog.spark.pipelines.progress import PipelineProgress, QueryProgress, metrics_text
from tidelog.spark.pipelines.sink_targets import StagedSink

SCHEMA = pa.schema({"n": pa.int64()})
OLD_S = SWEEP_AGE_S + 60


def nothing() -> frozenset[str]:
    return frozenset()


def sink(directory: Path, kind: str = "files") -> StagedSink:
    return StagedSink("out", Target(kind, str(directory / "out")), str(directory / "staging" / "p" / "out"), {})


def staged(sink: StagedSink, batch_id: int, run: str = "run") -> StagedBatch:
    """A row of a batch, with its manifest, as a task and the driver have left them."""
    kind = kind_of(sink.target, sink.staging, {})
    attempt = kind.open_attempt(AttemptName(run, batch_id, 0, 0, 0), SCHEMA)
    attempt.write(pa.RecordBatch.from_pydict({"n": [batch_id]}, schema=SCHEMA))
    manifest = manifest_of(sink.label, app_id("p", sink.label, "q"), batch_id, SCHEMA, [attempt.hand_over()])
    return write_manifest(sink.target, sink.staging, {}, manifest, run=run)


def grow_old(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - OLD_S,) * 2)


def staged_files(sink: StagedSink) -> list[Path]:
    return sorted((Path(sink.target.place) / "_staging").rglob("*.parquet"))


def test_what_no_batch_counts_goes_once_it_is_old_and_is_counted(tmp_path: Path) -> None:
    out = sink(tmp_path)
    staged(out, 3)
    size = staged_files(out)[0].stat().st_size
    clock = ManualClock()
    upkeep = OutputUpkeep([out], clock)

    upkeep.after(4, nothing)
    assert (len(staged_files(out)), upkeep.totals.swept_files) == (1, 0)
    grow_old(tmp_path)
    upkeep.after(5, nothing)
    assert len(staged_files(out)) == 1, "it was looked at a moment ago"
    clock.advance(SWEEP_INTERVAL_MS)
    upkeep.after(6, nothing)

    assert staged_files(out) == []
    assert (upkeep.totals.swept_files, upkeep.totals.swept_bytes, upkeep.totals.failures) == (1, size, 0)


def test_rows_that_a_person_has_skipped_stay_with_their_manifest_however_old_they_are(tmp_path: Path) -> None:
    out = sink(tmp_path)
    skipped, orphan = staged(out, 3), staged(out, 4)
    of_another = str(tmp_path / "elsewhere" / "manifest-0000000003-run.json")
    grow_old(tmp_path)

    upkeep = OutputUpkeep([out], ManualClock())
    upkeep.after(3 + 2 * MANIFESTS_KEPT, lambda: frozenset({skipped.output.manifest_path, of_another}))

    assert [each.parent.name for each in staged_files(out)] == [skipped.manifest.parts[0].attempt]
    assert Path(skipped.output.manifest_path).exists()
    assert not Path(orphan.output.manifest_path).exists()
    assert upkeep.totals.failures == 0


def test_nothing_is_swept_while_a_manifest_that_stays_cannot_be_read(tmp_path: Path) -> None:
    out = sink(tmp_path)
    skipped = staged(out, 3)
    Path(skipped.output.manifest_path).write_bytes(b"{")
    grow_old(tmp_path)

    upkeep = OutputUpkeep([out], ManualClock())
    upkeep.after(3, lambda: frozenset({skipped.output.manifest_path}))

    assert len(staged_files(out)) == 1
    assert upkeep.totals.failures == 1


def test_a_driver_that_does_not_decide_any_more_removes_nothing(tmp_path: Path) -> None:
    out = sink(tmp_path)
    staged(out, 3)
    grow_old(tmp_path)
    upkeep = OutputUpkeep([out], ManualClock())

    upkeep.after(3, lambda: None)
    assert (len(staged_files(out)), upkeep.totals.failures) == (1, 1)

    # Without waiting for the next time: it was not done.
    upkeep.after(4, nothing)
    assert staged_files(out) == []


def test_pipelines_that_stage_in_one_place_leave_each_others_rows_alone(tmp_path: Path) -> None:
    one = StagedSink("out", Target("files", str(tmp_path / "out")), str(tmp_path / "staging/a/out"), {})
    other = one._replace(staging=str(tmp_path / "staging/b/out"))
    left = staged(other, 0, "its-run")
    grow_old(tmp_path)

    OutputUpkeep([one], ManualClock()).after(MANIFESTS_KEPT, nothing)

    assert Path(left.output.manifest_path).exists()
    assert [each.parent.name for each in staged_files(other)] == [left.manifest.parts[0].attempt]


def test_small_files_of_a_table_are_made_fewer_and_what_was_done_is_a_metric(tmp_path: Path) -> None:
    out = sink(tmp_path, "delta")
    kind = kind_of(out.target, out.staging, {})
    kind.prepare(SCHEMA)
    batches = 2 * delta_upkeep.BATCHES_BETWEEN
    upkeep = OutputUpkeep([out], ManualClock())
    for batch_id in range(batches):
        kind.end(staged(out, batch_id))
        upkeep.after(batch_id, nothing)

    assert upkeep.totals.compacted_files == batches
    assert len(DeltaTable(out.target.place).file_uris()) == 1
    progress = _with_upkeep(QueryProgress(query="q", query_id="i", run_id="r"), upkeep.totals)
    text = metrics_text(PipelineProgress(pipeline="p", host="h", pid=1, queries=(progress,)))
    assert f'tidelog_pipeline_compacted_files_total{{pipeline="p",query="q"}} {batches}\n' in text


@pytest.mark.parametrize("age_s", [0.0, OLD_S])
def test_manifests_stay_for_so_many_batches_and_so_long_and_other_files_for_ever(age_s: float) -> None:
    names = [f"manifest-{number:010d}-run.json" for number in range(300)]
    files = [StoredFile(each, 1, 0.0) for each in (*names, "batches/x/0.parquet", ".manifest-0000000000-run.json.part")]

    old = old_manifests(files, 299, names[7:8], now_s=age_s)

    assert old == ([each for each in names[: 300 - MANIFESTS_KEPT] if each != names[7]] if age_s else [])
