"""Delta without a jar: files that tasks have written count with one commit, which is made once."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from tests.spark.delta_batches import (
    APP,
    CutError,
    CutLog,
    Row,
    SteppedLog,
    Turns,
    delta_kind,
    schema_of,
    staged,
    table_rows,
)
from tidelog.spark.outputs import delta_log
from tidelog.spark.outputs.delta_log import DeltaLog
from tidelog.spark.outputs.delta_table import DeltaTableKind
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError, RowsGoneError
from tidelog.spark.outputs.manifest_store import read_manifest
from tidelog.spark.outputs.staged import AttemptName, Changes, StagedBatch, Target

SCHEMA = schema_of(day=pa.date32(), n=pa.int64(), text=pa.string())
ROWS: list[Row] = [
    {"day": None, "n": 1, "text": "a"},
    {"day": dt.date(2026, 1, 1), "n": 2, "text": None},
    {"day": dt.date(2026, 1, 1), "n": 3, "text": "c"},
]
RENAMED: dict[str, object] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}


@pytest.fixture
def kind(tmp_path: Path) -> DeltaTableKind:
    made = delta_kind(tmp_path, partition_by=("day",))
    made.prepare(SCHEMA)
    return made


def test_rows_count_once_the_batch_is_ended_and_no_sooner(kind: DeltaTableKind) -> None:
    batch = _staged(kind, 3)

    kind.check(batch)
    before = table_rows(kind), kind.last_batch(APP)
    kind.end(batch)

    assert before == ([], None)
    assert table_rows(kind) == ROWS
    assert kind.last_batch(APP) == 3
    assert kind.read_back(batch) == (3, batch.output.checksum)


def test_an_end_cut_at_any_effect_and_asked_for_again_has_one_outcome(tmp_path: Path) -> None:
    for at in itertools.count():
        kind = delta_kind(tmp_path / str(at), partition_by=("day",))
        kind.prepare(SCHEMA)
        batch = _staged(kind, 0)
        cut = DeltaTableKind(kind.target, kind.staging, {})
        cut.log = CutLog(kind.target, at)
        try:
            cut.end(batch)
            break
        except CutError:
            kind.end(read_manifest(batch.output))
        assert table_rows(kind) == ROWS, at
        assert _versions_with_files(kind) == 1, at
    # Before and after: loading, and the commit.
    assert at == 4


@pytest.mark.parametrize("schedule", sorted(set(itertools.permutations((0, 0, 1, 1)))))
def test_two_that_end_one_batch_in_any_order_of_their_effects_write_it_once(
    kind: DeltaTableKind, schedule: tuple[int, ...]
) -> None:
    """One is a zombie: it wakes between its look at the table and its commit."""
    batch = _staged(kind, 0)
    turns = Turns(schedule)
    failed: list[BaseException] = []

    def end(who: int) -> None:
        own = DeltaTableKind(kind.target, kind.staging, {})
        own.log = SteppedLog(kind.target, lambda: turns.wait(who))
        try:
            own.end(batch)
        except BaseException as error:  # noqa: BLE001 - told by the test
            failed.append(error)
        finally:
            turns.finished(who)

    threads = [threading.Thread(target=end, args=(who,)) for who in (0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(timeout=60.0)

    assert failed == []
    assert table_rows(kind) == ROWS
    assert _versions_with_files(kind) == 1


def test_an_older_batch_that_is_ended_late_changes_nothing(kind: DeltaTableKind) -> None:
    older, newer = _staged(kind, 0), _staged(kind, 1)
    kind.end(older)
    kind.end(newer)

    kind.end(older)

    assert len(table_rows(kind)) == 6
    assert kind.last_batch(APP) == 1


def test_a_writer_that_is_faster_costs_another_try_and_no_row(kind: DeltaTableKind) -> None:
    kind.log = _Overtaken(kind, times=2)
    kind.end(_staged(kind, 0))

    assert [row["n"] for row in table_rows(kind)] == [1, 2, 3, 100, 100]


def test_writers_that_are_always_faster_are_told_of(kind: DeltaTableKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log, "COMMITS_MAX", 3)
    kind.log = _Overtaken(kind, times=3)

    with pytest.raises(OutputUnreachableError, match="3 times in a row"):
        kind.end(_staged(kind, 0))


def test_a_batch_without_rows_makes_no_version(kind: DeltaTableKind) -> None:
    batch = staged(kind, 0, SCHEMA, [])

    kind.end(batch)

    assert DeltaTable(kind.target.place).version() == 0
    assert kind.read_back(batch) == (0, 0)


def test_a_table_that_is_gone_after_the_decision_is_refused(kind: DeltaTableKind) -> None:
    batch = _staged(kind, 0)
    shutil.rmtree(kind.target.place)

    with pytest.raises(OutputRefusedError, match="there is no Delta table"):
        kind.end(batch)
    assert kind.last_batch(APP) is None


def test_a_staged_file_that_is_gone_is_refused_and_never_added(kind: DeltaTableKind) -> None:
    batch = _staged(kind, 0)
    (Path(kind.target.place) / batch.manifest.files[0].path).unlink()

    with pytest.raises(OutputRefusedError, match="removed or changed"):
        kind.check(batch)
    with pytest.raises(OutputRefusedError, match="removed or changed"):
        kind.end(batch)
    assert table_rows(kind) == []


def test_a_table_is_widened_by_new_columns_and_by_nothing_else(kind: DeltaTableKind, tmp_path: Path) -> None:
    kind.end(_staged(kind, 0))
    wide = SCHEMA.append(pa.field("at", pa.timestamp("us"))).append(pa.field("more", pa.list_(pa.int32())))
    told = delta_kind(tmp_path, partition_by=("day",), widens=False)

    refused = told.validate(wide)
    kind.prepare(wide)
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001 - of no zone
    kind.end(staged(kind, 1, wide, [{"n": 4, "at": at, "more": [1, None]}]))

    assert refused == [
        f"{kind.target.place} has no column at, and is not to be widened",
        f"{kind.target.place} has no column more, and is not to be widened",
    ]
    assert table_rows(kind)[0] == {**ROWS[0], "at": None, "more": None}
    assert table_rows(kind)[3] == {"day": None, "n": 4, "text": None, "at": at, "more": [1, None]}
    assert "timestampNtz" in (DeltaTable(kind.target.place).protocol().writer_features or ())
    # Rows of before the widening still fit.
    kind.end(_staged(kind, 2))
    assert len(table_rows(kind)) == 7


def test_a_column_that_somebody_else_adds_first_is_added_once(kind: DeltaTableKind) -> None:
    class Overtaken(DeltaLog):
        def widen(self, table: DeltaTable, fields: Sequence[Mapping[str, Any]]) -> bool:
            assert super().widen(self.loaded(), fields)
            return super().widen(table, fields)

    kind.log = Overtaken(kind.target)

    kind.prepare(SCHEMA.append(pa.field("more", pa.int32())))

    assert [field.name for field in DeltaTable(kind.target.place).schema().fields] == [*SCHEMA.names, "more"]


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        (pa.field("n", pa.int32()), "the column n of PLACE is long, and of the rows integer: cast it"),
        (pa.field("N", pa.int64()), "PLACE has a column n, and the rows have it as N: rename it"),
        (pa.field("t", pa.time32("s")), "the column t has the type time32[s], which Delta does not have: cast it"),
        (
            pa.field("t", pa.timestamp("ns")),
            "the column t has the type timestamp[ns], which Delta does not have: cast it",
        ),
        (pa.field("t", pa.uint8()), "the column t has the type uint8, which Delta does not have: cast it"),
        (pa.field("a b", pa.int8()), "Delta has no column of the name 'a b'"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_sentence(
    kind: DeltaTableKind, field: pa.Field[pa.DataType], sentence: str
) -> None:
    schema = pa.schema([pa.field("day", pa.date32()), field])

    found = kind.validate(schema)

    expected = sentence.replace("PLACE", kind.target.place)
    assert [each for each in found if each.startswith(expected)], found
    with pytest.raises(OutputRefusedError):
        kind.prepare(schema)


@pytest.mark.parametrize(
    ("protocol", "configuration", "metadata", "sentence"),
    [
        ({"minWriterVersion": 3}, {"delta.constraints.positive": "n > 0"}, {}, "has the constraint positive"),
        (
            {"minWriterVersion": 5, "minReaderVersion": 2},
            {"delta.columnMapping.mode": "name"},
            RENAMED,
            "has renamed columns",
        ),
        ({"minWriterVersion": 6}, {}, {}, "asks for writers of version 6"),
        ({}, {"delta.setTransactionRetentionDuration": "interval 1 day"}, {}, "forgets its writers"),
        ({"minWriterVersion": 4}, {}, {"delta.generationExpression": "1"}, "computes the column n"),
        ({}, {}, {"delta.invariants": "{}"}, "has an invariant on the column n"),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
            | {"writerFeatures": ["deletionVectors"]},
            {},
            {},
            "has the feature deletionVectors",
        ),
        ({"minWriterVersion": 7, "writerFeatures": ["rowTracking"]}, {}, {}, "has the feature rowTracking"),
    ],
)
def test_a_table_that_asks_for_more_than_files_is_refused(
    tmp_path: Path,
    protocol: dict[str, object],
    configuration: dict[str, str],
    metadata: dict[str, object],
    sentence: str,
) -> None:
    _made_by_others(tmp_path / "table", protocol, configuration, metadata)
    kind = delta_kind(tmp_path)

    found = kind.validate(pa.schema({"n": pa.int64()}))

    assert [each for each in found if sentence in each], found


def test_an_append_only_table_is_added_to_and_not_merged_into(tmp_path: Path) -> None:
    _made_by_others(tmp_path / "table", {}, {"delta.appendOnly": "true"}, {})
    schema = pa.schema({"n": pa.int64()})

    assert delta_kind(tmp_path).validate(schema) == []
    assert "is only added to" in delta_kind(tmp_path, changes=Changes(("n",))).validate(schema)[0]


def test_a_null_where_the_table_has_none_is_refused_before_the_decision(tmp_path: Path) -> None:
    text = PrimitiveType("string")
    fields = [Field("n", PrimitiveType("long"), nullable=False), Field("s", text, nullable=False), Field("t", text)]
    DeltaTable.create(str(tmp_path / "table"), Schema(fields))
    kind = delta_kind(tmp_path)
    schema = schema_of(n=pa.int64(), s=pa.string())

    kind.prepare(schema)
    kind.check(staged(kind, 0, schema, [{"n": 1, "s": "a"}]))
    with pytest.raises(OutputRefusedError, match="a row has no s"):
        kind.check(staged(kind, 1, schema, [{"n": 1, "s": "a"}], [{"n": 1, "s": None}]))
    with pytest.raises(OutputRefusedError, match="the rows have no column s"):
        kind.prepare(pa.schema({"n": pa.int64()}))


def test_a_table_of_another_partitioning_is_refused(kind: DeltaTableKind, tmp_path: Path) -> None:
    found = delta_kind(tmp_path).validate(SCHEMA)

    assert found == [f"{kind.target.place} is partitioned by day, and partition_by says nothing"]


def test_a_table_that_changed_after_the_decision_refuses_what_does_not_fit(kind: DeltaTableKind) -> None:
    batch = _staged(kind, 0)
    changed = pa.table({"n": ["text"], "day": pa.array([None], pa.date32())})
    write_deltalake(kind.target.place, changed, mode="overwrite", schema_mode="overwrite")

    with pytest.raises(OutputRefusedError, match=r"the column n of .* is string, and of the rows long"):
        kind.end(batch)


def test_values_of_partition_columns_come_back_as_they_were(tmp_path: Path) -> None:
    berlin = pa.timestamp("us", "Europe/Berlin")
    schema = schema_of(s=pa.string(), t=berlin, b=pa.bool_(), i=pa.int16(), n=pa.int64())
    rows: list[Row] = [
        {"s": "a b/c%=é:*", "t": dt.datetime(2026, 7, 1, 12, 0, 0, 1, dt.UTC), "b": True, "i": -7, "n": 1},
        {"s": "x" * 300, "t": None, "b": None, "i": None, "n": 2},
        {"s": "", "t": None, "b": False, "i": None, "n": 3},
    ]
    kind = delta_kind(tmp_path, partition_by=("s", "t", "b", "i"))
    kind.prepare(schema)
    batch = staged(kind, 0, schema, rows)

    kind.end(batch)

    # Delta has no empty text in a partition column.
    assert table_rows(kind) == [*rows[:2], {**rows[2], "s": None}]
    assert kind.read_back(batch) == (3, batch.output.checksum)


def test_rows_that_were_compacted_are_read_from_where_they_came_from(kind: DeltaTableKind) -> None:
    batches = [_staged(kind, each) for each in range(4)]
    for each in batches[:2]:
        kind.end(each)
    DeltaTable(kind.target.place).optimize.compact()
    kind.end(batches[2])
    DeltaTable(kind.target.place).optimize.compact()

    assert [kind.read_back(each) for each in batches[:3]] == [(3, each.output.checksum) for each in batches[:3]]
    with pytest.raises(RowsGoneError, match="does not have batch 3"):
        kind.read_back(batches[3])
    # What they were compacted into has lost a row since, and nobody knows whose.
    DeltaTable(kind.target.place).delete("n = 1")
    with pytest.raises(
        OutputRefusedError, match=r"batch 1 cannot be told apart .* compacted in version \d+, and rows were"
    ):
        kind.read_back(batches[1])


def test_files_that_were_compacted_and_vacuumed_cannot_be_read_back(kind: DeltaTableKind) -> None:
    batches = [_staged(kind, each) for each in range(2)]
    for each in batches:
        kind.end(each)
    table = DeltaTable(kind.target.place)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    with pytest.raises(OutputRefusedError, match="was compacted, and is deleted since"):
        kind.read_back(batches[0])


@pytest.mark.parametrize("change", ["DELETE", "UPDATE", "a file", "the table", "another table"])
def test_what_somebody_has_taken_away_is_known_to_be_gone(kind: DeltaTableKind, change: str) -> None:
    batch = _staged(kind, 0)
    kind.end(batch)
    target = msgspec.structs.replace(kind.target, table_id=kind.table_id())
    place = Path(target.place)
    match change:
        case "DELETE":
            DeltaTable(place).delete("n = 1")
        case "UPDATE":
            DeltaTable(place).update({"n": "7"}, predicate="n = 1")
        case "a file":
            (place / batch.manifest.files[0].path).unlink()
        case _:
            shutil.rmtree(place)
            if change == "another table":
                kind.prepare(SCHEMA)
    there = DeltaTableKind(target, kind.staging, {})

    if "table" in change:
        assert there.gone() in {
            f"there is no Delta table at {place}",
            f"{place} was removed and made again since",
        }
    else:
        assert there.gone() == ""
        with pytest.raises(RowsGoneError, match=rf"{change} in version 2|is gone"):
            there.read_back(batch)


def test_a_sweep_takes_what_neither_a_decision_nor_any_version_names(kind: DeltaTableKind) -> None:
    ended = _staged(kind, 0)
    kind.end(ended)
    kind.end(_staged(kind, 1))
    DeltaTable(kind.target.place).optimize.compact()
    named, orphan = _staged(kind, 2), _staged(kind, 3)
    foreign = Path(kind.target.place) / "part-00000-of-somebody.parquet"
    foreign.write_bytes(b"theirs")
    attempts = frozenset(each.attempt for each in named.manifest.parts)

    too_young = kind.sweep(attempts, older_than_s=3600.0)
    swept = kind.sweep(attempts, older_than_s=0.0)

    assert too_young.files == 0
    assert (swept.files, swept.bytes) == (len(orphan.manifest.files), sum(each.bytes for each in orphan.manifest.files))
    kind.check(named)
    assert foreign.exists()
    # A version of before the compaction can still be read.
    assert DeltaTable(kind.target.place, version=2).to_pyarrow_table().num_rows == 6


def test_two_sinks_of_one_table_keep_their_files_apart(kind: DeltaTableKind, tmp_path: Path) -> None:
    """Their attempts have the same names, and the sweep of one does not know what the other's decision names."""
    other = DeltaTableKind(kind.target, str(tmp_path / "other staging"), {})
    batch, theirs = _staged(kind, 0), staged(other, 0, SCHEMA, ROWS)

    swept = kind.sweep(frozenset(), older_than_s=0.0)

    assert swept.files == len(batch.manifest.files)
    other.check(theirs)


@pytest.mark.parametrize("setting", [{"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, {"AWS_CONDITIONAL_PUT": "disabled"}])
def test_a_store_in_which_two_commits_can_be_one_version_is_refused(setting: dict[str, str]) -> None:
    kind = DeltaTableKind(Target("delta", "s3://bucket/table", storage=setting), "s3://bucket/staging", {})

    assert "lets two writers commit the same version" in kind.validate(SCHEMA)[0]


def test_what_is_discarded_or_aborted_is_gone(kind: DeltaTableKind) -> None:
    batch = _staged(kind, 0)
    attempt = kind.open_attempt(AttemptName("run", 1, 0, 0, 0), SCHEMA)
    attempt.write(pa.RecordBatch.from_pylist([dict(row) for row in ROWS], schema=SCHEMA))

    attempt.abort()
    kind.discard(batch.manifest.parts)

    assert list(Path(kind.target.place).rglob("part-*")) == []


class _Overtaken(DeltaLog):
    """Somebody else writes between the look and the commit."""

    def __init__(self, kind: DeltaTableKind, times: int) -> None:
        super().__init__(kind.target)
        self._times = times

    def add(self, table: DeltaTable, actions: Sequence[AddAction], properties: CommitProperties) -> None:
        if self._times:
            self._times -= 1
            rows = pa.Table.from_pylist([{"day": None, "n": 100, "text": None}], schema=SCHEMA)
            write_deltalake(self.place, rows, mode="append")
        super().add(table, actions, properties)


def _staged(kind: DeltaTableKind, batch_id: int) -> StagedBatch:
    return staged(kind, batch_id, SCHEMA, ROWS[:1], ROWS[1:])


def _versions_with_files(kind: DeltaTableKind) -> int:
    log = Path(kind.target.place) / "_delta_log"
    return sum('"add"' in each.read_text() for each in log.glob("*.json"))


def _made_by_others(
    place: Path, protocol: dict[str, object], configuration: dict[str, str], metadata: dict[str, object]
) -> None:
    field = {"name": "n", "type": "long", "nullable": True, "metadata": metadata}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2} | protocol},
        {
            "metaData": {
                "id": "others",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": [field]}),
                "partitionColumns": [],
                "configuration": configuration,
                "createdTime": 1,
            }
        },
    ]
    (place / "_delta_log").mkdir(parents=True)
    (place / "_delta_log" / f"{0:020d}.json").write_text("\n".join(json.dumps(each) for each in actions))


@pytest.mark.parametrize("changes", [None, Changes(("n",))])
def test_a_batch_is_not_ended_in_another_table_that_was_made_in_the_place_of_its_own(
    tmp_path: Path, changes: Changes | None
) -> None:
    first = delta_kind(tmp_path, changes=changes)
    schema = schema_of(n=pa.int64())
    first.prepare(schema)
    kind = DeltaTableKind(msgspec.structs.replace(first.target, table_id=first.table_id()), first.staging, {})
    kind.end(staged(kind, 0, schema, [{"n": 0}]))
    # The same table with another column.
    first.prepare(schema_of(n=pa.int64(), more=pa.int64()))
    batch = staged(kind, 1, schema, [{"n": 1}])
    kind.check(batch)
    files = {path: path.read_bytes() for path in Path(kind.target.place).glob("*.parquet")}
    shutil.rmtree(kind.target.place)
    # As a query does that is started again.
    first.prepare(schema)
    for path, content in files.items():
        path.write_bytes(content)

    for act in (kind.check, kind.end):
        with pytest.raises(OutputRefusedError, match="was removed and made again since the query was started"):
            act(batch)
    assert table_rows(kind) == []


@pytest.mark.parametrize("changes", [None, Changes(("n",))])
def test_what_counts_is_on_the_disk_when_an_end_returns(
    tmp_path: Path, changes: Changes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = delta_kind(tmp_path, partition_by=("p",), changes=changes)
    schema = schema_of(n=pa.int64(), p=pa.string())
    kind.prepare(schema)
    batch = staged(kind, 0, schema, [{"n": 1, "p": "50%"}])
    synced: set[str] = set()
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    place = Path(kind.target.place)
    for _ in range(2):
        synced.clear()
        # The second time the batch is there, by somebody who may have died before it was on the disk.
        kind.end(batch)

        (data,) = place.glob("p=*/*.parquet")
        log = place / "_delta_log"
        expected = {place, data.parent, data, log, log / "00000000000000000001.json"}
        assert {str(each) for each in expected} <= synced
