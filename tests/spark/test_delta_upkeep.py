"""Upkeep of Delta tables: few files, nothing lost, and never a file that an open decision names."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.spark.delta_batches import APP, Row, delta_kind, schema_of, staged, table_rows
from tidelog.spark.outputs import delta_table, delta_upkeep
from tidelog.spark.outputs.delta_log import DeltaLog
from tidelog.spark.outputs.delta_table import DeltaTableKind
from tidelog.spark.outputs.delta_upkeep import BATCHES_BETWEEN, SAVED_FILES_MIN, is_due, is_vacuum_due, upkeep
from tidelog.spark.outputs.kind import OutputRefusedError, kind_of
from tidelog.spark.outputs.staged import Changes, Target

SCHEMA = schema_of(n=pa.int64(), p=pa.string())
NOBODY: frozenset[str] = frozenset()


@pytest.fixture
def kind(tmp_path: Path) -> DeltaTableKind:
    made = delta_kind(tmp_path, partition_by=("p",))
    made.prepare(SCHEMA)
    return made


def test_files_are_bounded_however_many_batches_there_are(kind: DeltaTableKind) -> None:
    most, rows = 0, 0
    for batch_id in range(2 * BATCHES_BETWEEN):
        batch = [{"n": 2 * batch_id, "p": "a"}], [{"n": 2 * batch_id + 1, "p": "b"}]
        kind.end(staged(kind, batch_id, SCHEMA, *batch))
        rows += 2
        if is_due(batch_id):
            upkeep(kind.target, NOBODY)
        most = max(most, len(DeltaTable(kind.target.place).file_uris()))

    assert [row["n"] for row in table_rows(kind)] == list(range(rows))
    assert kind.last_batch(APP) == 2 * BATCHES_BETWEEN - 1
    assert most <= SAVED_FILES_MIN + 2 * BATCHES_BETWEEN + 2


def test_files_are_bounded_however_many_merges_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As many merges as there are between two real vacuums would take half a minute.
    monkeypatch.setattr(delta_upkeep, "BATCHES_BETWEEN_VACUUMS", BATCHES_BETWEEN)
    schema = schema_of(n=pa.int64(), value=pa.int64())
    kind = delta_kind(tmp_path, changes=Changes(("n",)))
    kind.prepare(schema)
    table = DeltaTable(kind.target.place)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    most = vacuumed = 0
    for batch_id in range(3 * BATCHES_BETWEEN):
        kind.end(staged(kind, batch_id, schema, [{"n": batch_id % 3, "value": batch_id}]))
        most = max(most, len(list(Path(kind.target.place).glob("*.parquet"))))
        if is_due(batch_id):
            report = upkeep(kind.target, NOBODY, vacuums=is_vacuum_due(batch_id))
            vacuumed += report.vacuumed.files
            assert report.compacted == 0

    # Three that count, and those that have died since the last vacuum.
    assert most <= 3 + BATCHES_BETWEEN
    assert vacuumed == 3 * BATCHES_BETWEEN - 3
    assert [row["n"] for row in table_rows(kind)] == [0, 1, 2]


def test_files_that_were_just_removed_from_a_directory_with_a_per_cent_sign_are_no_orphans(
    kind: DeltaTableKind,
) -> None:
    for batch_id in range(3):
        kind.end(staged(kind, batch_id, SCHEMA, [{"n": batch_id, "p": "50% \u00e9/x"}]))
    DeltaTable(kind.target.place).delete("n = 1")

    assert kind.log.never_named(kind.log.loaded()) == []
    assert kind.sweep(NOBODY, older_than_s=0.0).files == 0


def test_a_library_that_is_too_old_is_refused(kind: DeltaTableKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_table, "_library_version", lambda: (1, 6, 3))

    with pytest.raises(OutputRefusedError, match=r"needs deltalake 1\.6\.6 or later, and 1\.6\.3 is installed"):
        kind_of(kind.target, kind.staging, {})


def test_a_few_files_are_left_alone(kind: DeltaTableKind) -> None:
    _fill(kind, SAVED_FILES_MIN)

    report = upkeep(kind.target, NOBODY)

    assert (report.files, report.compacted) == (SAVED_FILES_MIN, 0)
    # One directory each: they cannot be made fewer.
    assert delta_upkeep._can_be_saved({f"p={n}/file": 1 for n in range(100)}) == 0


def test_a_compaction_gives_way_to_whoever_is_faster(kind: DeltaTableKind, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(kind, SAVED_FILES_MIN + 1)
    monkeypatch.setattr(delta_upkeep, "DeltaLog", _Overtaken)

    report = upkeep(kind.target, NOBODY)

    assert report.gave_way
    # What they have deleted does not come back.
    assert [row["n"] for row in table_rows(kind)] == list(range(1, SAVED_FILES_MIN + 1))


def test_what_no_version_has_is_deleted_and_what_a_decision_names_is_not(kind: DeltaTableKind) -> None:
    _fill(kind, SAVED_FILES_MIN + 1)
    place = Path(kind.target.place)
    named = staged(kind, 1000, SCHEMA, [{"n": 1000, "p": "a"}])
    theirs = staged(kind, 1001, SCHEMA, [{"n": 1001, "p": "a"}], run="another pipeline's")
    left = place / "p=a" / "part-00000-of-a-merge-that-failed.parquet"
    left.write_bytes(b"rows")
    for each in (left, *(place / file.path for batch in (named, theirs) for file in batch.manifest.files)):
        os.utime(each, (1, 1))
    attempts = frozenset(each.attempt for each in named.manifest.parts)

    report = upkeep(kind.target, attempts)

    assert (report.compacted, report.made) == (SAVED_FILES_MIN + 1, 1)
    # Files of before the compaction stay for a week: earlier versions can be read.
    assert report.vacuumed.files == 1
    assert not left.exists()
    kind.end(named)
    kind.end(theirs)
    assert len(table_rows(kind)) == SAVED_FILES_MIN + 3


def test_files_of_versions_that_are_old_enough_are_deleted(kind: DeltaTableKind) -> None:
    table = DeltaTable(kind.target.place)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    _fill(kind, SAVED_FILES_MIN + 1)

    report = upkeep(kind.target, NOBODY)

    assert report.vacuumed.files == SAVED_FILES_MIN + 1
    assert len(list(Path(kind.target.place).rglob("*.parquet"))) == 1
    assert len(table_rows(kind)) == SAVED_FILES_MIN + 1


def test_a_table_that_is_not_there_needs_nothing(tmp_path: Path) -> None:
    assert upkeep(Target("delta", str(tmp_path / "none")), NOBODY).files == 0


def _fill(kind: DeltaTableKind, batches: int) -> None:
    for batch_id in range(batches):
        row: Row = {"n": batch_id, "p": "a"}
        kind.end(staged(kind, batch_id, SCHEMA, [row]))


class _Overtaken(DeltaLog):
    def compact(self, table: DeltaTable, *, target_bytes: int) -> tuple[int, int] | None:
        DeltaTable(self.place).delete("n = 0")
        return super().compact(table, target_bytes=target_bytes)
