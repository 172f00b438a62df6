"""Changes by key in a Delta table: merged once, newest last, deletes taken out, and every version where a history is kept."""

from __future__ import annotations

import itertools
import random
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

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
from tidelog.spark.outputs import staged_changes
from tidelog.spark.outputs.delta_log import DeltaLog
from tidelog.spark.outputs.delta_merge import MergePlan
from tidelog.spark.outputs.delta_table import DeltaTableKind
from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.outputs.manifest_store import read_manifest
from tidelog.spark.outputs.staged import DELETED, VALID_FROM, VALID_TO, Changes

DATA: dict[str, pa.DataType] = {"n": pa.int64(), "Seq": pa.int64(), "text": pa.string()}
SCHEMA = schema_of(**DATA, **{DELETED: pa.bool_()})
UPSERT = Changes(("n",), sequence_by="Seq")
HISTORY = Changes(("n",), sequence_by="Seq", history=True)


def _change(n: int, seq: int | None, text: str | None, *, deleted: bool = False) -> Row:
    return {"n": n, "Seq": seq, "text": text, DELETED: deleted}


FIRST = [_change(1, 10, "a"), _change(2, 10, "b"), _change(3, 10, "c")]
SECOND = [
    _change(1, 20, "newer"),
    _change(2, 20, None, deleted=True),
    _change(3, 5, "older"),
    _change(4, 20, "new"),
    _change(5, 20, None, deleted=True),
]
OUTCOME = [
    {"n": 1, "Seq": 20, "text": "newer"},
    {"n": 3, "Seq": 10, "text": "c"},
    {"n": 4, "Seq": 20, "text": "new"},
]
VERSIONS = [
    ("a", 10, 20),
    ("newer", 20, None),
    ("b", 10, 20),
    ("older", 5, 10),
    ("c", 10, None),
    ("new", 20, None),
]


@pytest.mark.parametrize("changes", [UPSERT, HISTORY])
def test_a_merge_cut_at_any_effect_and_asked_for_again_has_one_outcome(tmp_path: Path, changes: Changes) -> None:
    at, kind = 0, delta_kind(tmp_path)
    for at in itertools.count():
        kind = delta_kind(tmp_path / str(at), changes=changes)
        kind.prepare(SCHEMA)
        kind.end(staged(kind, 0, SCHEMA, FIRST[:2], FIRST[2:]))
        batch = staged(kind, 1, SCHEMA, SECOND[:2], SECOND[2:])
        kind.check(batch)
        cut = DeltaTableKind(kind.target, kind.staging, {})
        cut.log = CutLog(kind.target, at)
        try:
            cut.end(batch)
            break
        except CutError:
            kind.end(read_manifest(batch.output))
        _assert_outcome(kind, changes)
        assert DeltaTable(kind.target.place).version() == 2, at
    assert at == 4
    assert list(Path(kind.staging).rglob("*.parquet")) == []


@pytest.mark.parametrize("schedule", sorted(set(itertools.permutations((0, 0, 1, 1)))))
def test_two_that_merge_one_batch_in_any_order_of_their_effects_do_it_once(
    tmp_path: Path, schedule: tuple[int, ...]
) -> None:
    kind = delta_kind(tmp_path, changes=UPSERT)
    kind.prepare(SCHEMA)
    kind.end(staged(kind, 0, SCHEMA, FIRST))
    batch = staged(kind, 1, SCHEMA, SECOND)
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
    assert table_rows(kind) == OUTCOME
    assert DeltaTable(kind.target.place).version() == 2


@pytest.mark.parametrize("changes", [UPSERT, HISTORY])
def test_a_merge_is_made_again_of_what_a_faster_writer_has_left(tmp_path: Path, changes: Changes) -> None:
    kind = delta_kind(tmp_path, changes=changes)
    kind.prepare(SCHEMA)
    kind.end(staged(kind, 0, SCHEMA, FIRST))
    kind.log = _Overtaken(kind)

    kind.end(staged(kind, 1, SCHEMA, SECOND))

    # Theirs is newer, and was not there when the merge began.
    assert ("theirs", 30) in [(row["text"], row["Seq"]) for row in table_rows(kind)]
    assert ("new", 20) not in [(row["text"], row["Seq"]) for row in table_rows(kind) if not changes.history]


def test_a_batch_that_changes_nothing_is_remembered_all_the_same(tmp_path: Path) -> None:
    kind = delta_kind(tmp_path, changes=UPSERT)
    kind.prepare(SCHEMA)
    kind.end(staged(kind, 0, SCHEMA, FIRST))

    kind.end(staged(kind, 1, SCHEMA, [_change(1, 1, "older")]))

    assert kind.last_batch(APP) == 1
    assert table_rows(kind) == [{name: row[name] for name in DATA} for row in FIRST]


def test_a_zombie_of_an_older_batch_changes_nothing(tmp_path: Path) -> None:
    kind = delta_kind(tmp_path, changes=Changes(("n",)))
    schema = schema_of(**DATA)
    kind.prepare(schema)
    older, newer = ([{"n": 1, "Seq": 0, "text": text}] for text in ("older", "newer"))
    first, second = staged(kind, 0, schema, older), staged(kind, 1, schema, newer)
    kind.end(first)
    kind.end(second)

    # Its staged rows are gone by now, which nobody needs.
    kind.end(first)

    assert table_rows(kind) == newer


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([_change(1, 1, "a"), _change(1, 2, "b")], "a batch has two changes of n=1"),
        ([{**_change(1, 1, "a"), "n": None}], "a change has no n, which merge_on names"),
        ([_change(1, None, "a")], "a change has no Seq, which sequence_by names"),
    ],
)
def test_changes_that_cannot_be_ordered_are_refused_before_the_decision(
    tmp_path: Path, rows: list[Row], sentence: str
) -> None:
    kind = delta_kind(tmp_path, changes=UPSERT)
    kind.prepare(SCHEMA)

    with pytest.raises(OutputRefusedError, match=sentence):
        kind.check(staged(kind, 0, SCHEMA, rows[:1], rows[1:]))


def test_of_two_versions_at_one_sequence_in_a_batch_the_one_that_was_staged_last_counts(tmp_path: Path) -> None:
    kind = delta_kind(tmp_path, changes=HISTORY)
    kind.prepare(SCHEMA)
    rows = [_change(1, 1, "a"), _change(1, 1, "b"), _change(1, 2, "c"), _change(1, 2, None, deleted=True)]
    batch = staged(kind, 0, SCHEMA, rows[:1], rows[1:])

    kind.check(batch)
    kind.end(batch)

    assert [(each["text"], each["valid_from"], each["valid_to"]) for each in table_rows(kind)] == [("b", 1, 2)]


def test_more_changes_than_can_be_looked_at_are_refused_and_let_through_by_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_changes, "CHANGES_MAX", 2)
    kind = delta_kind(tmp_path, changes=UPSERT)
    kind.prepare(SCHEMA)
    batch = staged(kind, 0, SCHEMA, FIRST)

    with pytest.raises(OutputRefusedError, match=r"3 changes, and 2 are merged at once.*\(maxOffsets.* changes_max=3"):
        kind.check(batch)

    wider = DeltaTableKind(msgspec.structs.replace(kind.target, options={"changes_max": "3"}), kind.staging, {})
    assert wider.validate(SCHEMA) == []
    wider.check(batch)
    wider.end(batch)
    assert len(table_rows(kind)) == 3


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        (UPSERT, {"changes_max": "many"}, "changes_max is 'many', expected a number from 1 to 1000000000"),
        (UPSERT, {"changes_max": "0"}, "changes_max is '0', expected a number"),
        (UPSERT, {"mergeSchema": "true"}, "there is no option mergeSchema of a Delta table; known is changes_max"),
        (None, {"changes_max": "1"}, "changes_max is for rows that are merged: it needs merge_on="),
    ],
)
def test_options_that_are_not_known_are_refused(
    tmp_path: Path, changes: Changes | None, options: dict[str, str], sentence: str
) -> None:
    target = msgspec.structs.replace(delta_kind(tmp_path, changes=changes).target, options=options)

    found = DeltaTableKind(target, str(tmp_path / "staging"), {}).validate(schema_of(**DATA))

    assert found[0].startswith(sentence)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (Changes(("no",)), "merge_on names the column no, which the rows do not have"),
        (Changes(("n",), sequence_by="no"), "sequence_by names the column no"),
        (Changes(("f",)), "merge_on names the column f of the type double"),
        (Changes(("n",), history=True), "history=True needs sequence_by="),
        (Changes(()), "merge_on names no column"),
    ],
)
def test_a_declaration_that_does_not_fit_the_rows_is_told(tmp_path: Path, changes: Changes, sentence: str) -> None:
    kind = delta_kind(tmp_path, changes=changes)

    found = kind.validate(schema_of(**DATA, f=pa.float64()))

    assert found[0].startswith(sentence)


def test_a_deleted_row_needs_its_key_alone(tmp_path: Path) -> None:
    text = PrimitiveType("string")
    fields = [
        Field("n", PrimitiveType("long")),
        Field("Seq", PrimitiveType("long")),
        Field("text", text, nullable=False),
    ]
    # A column more, which somebody else fills.
    DeltaTable.create(str(tmp_path / "table"), Schema([*fields, Field("theirs", text)]))
    kind = delta_kind(tmp_path, changes=UPSERT)
    kind.prepare(SCHEMA)
    kind.end(staged(kind, 0, SCHEMA, FIRST))
    batch = staged(kind, 1, SCHEMA, SECOND)

    kind.check(batch)
    kind.end(batch)

    assert table_rows(kind) == [{**row, "theirs": None} for row in OUTCOME]
    with pytest.raises(OutputRefusedError, match="a row has no text"):
        kind.check(staged(kind, 2, SCHEMA, [_change(1, 30, None)]))


def test_a_sweep_takes_staged_changes_that_no_decision_names(tmp_path: Path) -> None:
    kind = delta_kind(tmp_path, changes=UPSERT)
    kind.prepare(SCHEMA)
    named, orphan = staged(kind, 0, SCHEMA, FIRST), staged(kind, 1, SCHEMA, SECOND)

    swept = kind.sweep(frozenset(each.attempt for each in named.manifest.parts), older_than_s=0.0)

    assert (swept.files, swept.bytes) == (1, orphan.manifest.files[0].bytes)
    kind.end(named)
    with pytest.raises(OutputRefusedError, match="cannot be told apart"):
        kind.read_back(named)


def test_a_history_of_random_changes_is_that_of_their_replay(tmp_path: Path) -> None:
    random_ = random.Random(19)
    kind = delta_kind(tmp_path, changes=HISTORY, partition_by=("text",))
    kind.prepare(SCHEMA)
    events: dict[tuple[int, int], Row] = {}
    for batch_id in range(6):
        keys = random_.sample(list(itertools.product(range(4), range(12))), 8)
        rows = [_change(n, s, random_.choice("xyz"), deleted=random_.random() < 0.3) for n, s in keys]
        events |= dict(zip(keys, rows, strict=True))
        batch = staged(kind, batch_id, SCHEMA, rows[:4], rows[4:])
        kind.check(batch)
        kind.end(batch)

    assert _versions(kind) == _replayed(events)


def _assert_outcome(kind: DeltaTableKind, changes: Changes) -> None:
    if not changes.history:
        assert table_rows(kind) == OUTCOME
    else:
        assert [each[1:] for each in _versions(kind)] == VERSIONS
    assert kind.last_batch(APP) == 1


def _versions(kind: DeltaTableKind) -> list[tuple[Any, ...]]:
    rows: list[dict[str, Any]] = DeltaTable(kind.target.place).to_pyarrow_table().to_pylist()
    counting = [row for row in rows if row[VALID_FROM] != row[VALID_TO]]
    ordered = sorted(counting, key=lambda row: (row["n"], row[VALID_FROM]))
    return [(row["n"], row["text"], row[VALID_FROM], row[VALID_TO]) for row in ordered]


def _replayed(events: dict[tuple[int, int], Row]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for (n, s), row in sorted(events.items()):
        if found and found[-1][0] == n and found[-1][3] is None:
            found[-1] = (*found[-1][:3], s)
        if not row[DELETED]:
            found.append((n, row["text"], s, None))
    return found


class _Overtaken(DeltaLog):
    """Somebody else writes between the look and the commit."""

    def __init__(self, kind: DeltaTableKind) -> None:
        super().__init__(kind.target)
        self._first = True

    def merge(
        self, table: DeltaTable, source: pa.RecordBatchReader, plan: MergePlan, properties: CommitProperties
    ) -> None:
        if self._first:
            self._first = False
            columns = table.to_pyarrow_table().schema
            row = {"n": 4, "Seq": 30, "text": "theirs", VALID_FROM: 30}
            rows = pa.Table.from_pylist([{name: row.get(name) for name in columns.names}], schema=columns)
            write_deltalake(self.place, rows, mode="append")
        super().merge(table, source, plan, properties)
