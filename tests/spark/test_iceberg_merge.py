"""Changes by key in an Iceberg table: upserts, deletes and histories, with one outcome however often they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from tests.support.iceberg_sink import (
    APP,
    KilledError,
    before_commit,
    catalog_of,
    cut_at,
    refused_once_done,
    schema_of,
    staged,
    table_of,
)
from tidelog.spark.outputs.kind import OutputKind, OutputRefusedError, RowsGoneError, kind_of
from tidelog.spark.outputs.manifest_store import kind_of_output, read_manifest
from tidelog.spark.outputs.staged import DELETED, Changes, Target

TAGS = pa.list_(pa.struct([pa.field("tag", pa.string())]))
COLUMNS = schema_of(key=pa.int64(), at=pa.int64(), value=pa.string(), tags=TAGS)
ROWS = schema_of(key=pa.int64(), at=pa.int64(), value=pa.string(), tags=TAGS, **{DELETED: pa.bool_()})


@pytest.fixture
def target(tmp_path: Path) -> Target:
    options = {"warehouse": f"file://{tmp_path}/warehouse"}
    how = Changes(("key",), sequence_by="at")
    return Target("iceberg", f"sqlite:///{tmp_path}/catalog.db", table="shop.stock", changes=how, options=options)


@pytest.fixture
def kind(target: Target, tmp_path: Path) -> OutputKind:
    return _prepared(target, tmp_path)


def test_changes_replace_delete_and_add_rows(kind: OutputKind) -> None:
    _merge(kind, 0, _change(1, 10, "a"), _change(2, 10, "b"), _change(3, 10, "c"), _change(4, 10, "d"))
    _merge(kind, 1, _change(2, 20, "B"), _change(3, 20, None, deleted=True), _change(5, 20, "e"))

    assert _values(kind) == {1: "a", 2: "B", 4: "d", 5: "e"}
    assert kind.last_batch(APP) == 1
    with table_of(kind) as table:
        # A null stays one where its row is written once more.
        found = pa.concat_tables(
            pq.read_table(each["file_path"].removeprefix("file://")) for each in table.inspect.files().to_pylist()
        )
        assert found["tags"].to_pylist() == [None] * 4


def test_a_change_that_is_older_than_its_row_is_left_out(kind: OutputKind) -> None:
    _merge(kind, 0, _change(1, 10, "a"), _change(2, 10, "b"), _change(3, 10, "c"))
    _merge(kind, 1, _change(1, 9, "late"), _change(2, 9, None, deleted=True), _change(3, 10, "same time"))

    assert _values(kind) == {1: "a", 2: "b", 3: "same time"}


def test_only_files_that_have_a_changed_key_are_written_anew(kind: OutputKind) -> None:
    _merge(kind, 0, *(_change(key, 1, "a") for key in range(10)))
    _merge(kind, 1, *(_change(key, 1, "a") for key in range(100, 110)))
    with table_of(kind) as table:
        before = {each["file_path"] for each in table.inspect.files().to_pylist()}
    _merge(kind, 2, _change(105, 2, "b"))

    with table_of(kind) as table:
        after = {each["file_path"] for each in table.inspect.files().to_pylist()}
    # One with the rest of its file, and one with the change.
    assert (len(before - after), len(after - before)) == (1, 2)
    assert _values(kind)[105] == "b"
    assert len(_values(kind)) == 20


def test_partitions_are_kept_apart_by_a_merge(target: Target, tmp_path: Path) -> None:
    kind = _prepared(msgspec.structs.replace(target, partition_by=("value",)), tmp_path)
    _merge(kind, 0, _change(1, 10, "a"), _change(2, 10, "a"), _change(3, 10, "b"))
    _merge(kind, 1, _change(1, 20, "b"), _change(3, 20, None, deleted=True))

    assert _values(kind) == {1: "b", 2: "a"}
    with table_of(kind) as table:
        assert table.scan("value = 'b'").to_arrow()["key"].to_pylist() == [1]


def test_files_of_former_partitions_are_merged_with(kind: OutputKind) -> None:
    _merge(kind, 0, _change(1, 10, "a"), _change(2, 10, "b"), _change(3, 10, "c"))
    with table_of(kind) as table, table.update_spec() as spec:
        spec.add_field("key", BucketTransform(4), "key_bucket")
    _merge(kind, 1, _change(2, 20, "B"), _change(4, 20, "d"))
    _merge(kind, 2, _change(2, 30, None, deleted=True), _change(1, 30, "A"))

    assert _values(kind) == {1: "A", 3: "c", 4: "d"}


def test_a_merge_that_is_cut_anywhere_and_asked_for_again_has_one_outcome(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    _merge(kind, 0, _change(1, 0, "0"), _change(2, 0, "0"))
    cut = 0
    for effect in range(100):
        number = effect + 1
        batch = staged(kind, number, ROWS, [_change(1, number, str(number)), _change(3, number, str(number))])
        kind.check(batch)
        with monkeypatch.context() as patch:
            count = cut_at(patch, effect)
            try:
                kind.end(batch)
            except KilledError:
                cut += 1
        kind_of_output(batch.output).end(read_manifest(batch.output))
        assert _values(kind) == {1: str(number), 2: "0", 3: str(number)}
        assert kind.last_batch(APP) == number
        if count[0] <= effect:
            break
    # Two snapshots have a list and manifests each; then there are the table's metadata and the catalog's row.
    assert cut >= 12
    swept = kind.sweep(frozenset(), older_than_s=0.0)
    assert swept.files > 0
    assert _values(kind)[2] == "0"


def test_a_merge_that_was_made_and_is_answered_with_a_conflict_keeps_its_files(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    _merge(kind, 0, _change(1, 10, "a"), _change(2, 10, "b"))
    batch = staged(kind, 1, ROWS, [_change(2, 20, "B"), _change(3, 20, "c")])

    asked = refused_once_done(monkeypatch)
    kind.end(batch)

    assert asked == [1]
    assert kind.last_batch(APP) == 1
    assert _values(kind) == {1: "a", 2: "B", 3: "c"}
    with pytest.raises(OutputRefusedError, match="cannot be told apart"):
        kind.read_back(batch)


def test_files_of_a_merge_that_others_came_before_are_not_left(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    _merge(kind, 0, _change(1, 10, "a"), _change(2, 10, "b"))
    batch = staged(kind, 1, ROWS, [_change(1, 20, "ours")])

    def meanwhile() -> None:
        with table_of(kind) as table:
            table.append(pa.Table.from_pylist([{"key": 9, "at": 30, "value": "theirs", "tags": None}], schema=COLUMNS))

    before_commit(monkeypatch, meanwhile)
    kind.end(batch)

    assert _values(kind) == {1: "ours", 2: "b", 9: "theirs"}
    assert kind.sweep(frozenset(), older_than_s=0.0).files == 0


def test_a_table_that_lost_its_key_or_got_a_column_after_the_decision_refuses_the_merge(kind: OutputKind) -> None:
    _merge(kind, 0, _change(1, 10, "a"))
    batch = staged(kind, 1, ROWS, [_change(1, 20, "b")])
    kind.check(batch)
    with table_of(kind) as table, table.update_schema() as schema:
        schema.add_column("more", StringType())

    with pytest.raises(OutputRefusedError, match="the column more, which the rows do not have"):
        kind.end(batch)

    with table_of(kind) as table, table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("more")
        schema.delete_column("key")
    with pytest.raises(OutputRefusedError, match="no column key any more"):
        kind.end(batch)
    assert kind.last_batch(APP) == 0


def test_changes_are_not_merged_into_another_table_that_was_made_in_the_place_of_their_own(
    target: Target, tmp_path: Path
) -> None:
    first = _prepared(target, tmp_path)
    kind = kind_of(msgspec.structs.replace(target, table_id=first.table_id()), first.staging, {})
    batch = staged(kind, 0, ROWS, [_change(1, 10, "a")])
    kind.check(batch)
    with catalog_of(kind) as catalog:
        catalog.drop_table(target.table)
    first.prepare(ROWS)

    for act in (kind.check, kind.end):
        with pytest.raises(OutputRefusedError, match="was dropped and made again since batch 0 was staged"):
            act(batch)
    assert _values(kind) == {}


def test_a_merge_is_computed_again_where_others_were_faster(kind: OutputKind, monkeypatch: pytest.MonkeyPatch) -> None:
    _merge(kind, 0, _change(1, 10, "a"), _change(2, 10, "b"))
    batch = staged(kind, 1, ROWS, [_change(1, 20, "ours"), _change(2, 20, "ours")])

    def meanwhile() -> None:
        with table_of(kind) as table:
            table.append(pa.Table.from_pylist([{"key": 2, "at": 30, "value": "theirs", "tags": None}], schema=COLUMNS))

    before_commit(monkeypatch, meanwhile)
    kind.end(batch)

    with table_of(kind) as table:
        rows = [(each["key"], each["value"]) for each in table.scan().to_arrow().to_pylist()]
    # A key that others have made twice: the newer row makes the change an old one, and nothing of the key is touched.
    assert sorted(rows) == [(1, "ours"), (2, "b"), (2, "theirs")]


def test_a_zombie_merges_nothing(kind: OutputKind, monkeypatch: pytest.MonkeyPatch) -> None:
    first = staged(kind, 0, ROWS, [_change(1, 10, "a")])
    second = staged(kind, 1, ROWS, [_change(1, 10, "b")])

    def meanwhile() -> None:
        for each in (first, second):
            kind_of_output(each.output).end(each)

    before_commit(monkeypatch, meanwhile)
    kind.end(first)
    kind.end(first)

    assert _values(kind) == {1: "b"}


def test_a_history_keeps_every_version(target: Target, tmp_path: Path) -> None:
    how = Changes(("key",), sequence_by="at", history=True)
    kind = _prepared(msgspec.structs.replace(target, changes=how), tmp_path)
    _merge(kind, 0, _change(1, 10, "a"), _change(1, 30, "c"), _change(2, 5, "x"))
    _merge(kind, 1, _change(1, 20, "b"), _change(2, 9, None, deleted=True))

    with table_of(kind) as table:
        rows = [
            (each["key"], each["value"], each["valid_from"], each["valid_to"])
            for each in table.scan().to_arrow().to_pylist()
        ]
    assert sorted(rows) == [(1, "a", 10, 20), (1, "b", 20, 30), (1, "c", 30, None), (2, "x", 5, 9)]


def test_of_two_versions_at_one_sequence_in_a_batch_the_one_that_was_staged_last_counts(
    target: Target, tmp_path: Path
) -> None:
    how = Changes(("key",), sequence_by="at", history=True)
    kind = _prepared(msgspec.structs.replace(target, changes=how), tmp_path)
    batch = staged(kind, 0, ROWS, [_change(1, 10, "a"), _change(1, 10, "b"), _change(1, 20, "c")])

    kind.check(batch)
    kind.end(batch)

    with table_of(kind) as table:
        rows = [(each["value"], each["valid_from"], each["valid_to"]) for each in table.scan().to_arrow().to_pylist()]
    assert sorted(rows) == [("b", 10, 20), ("c", 20, None)]


def test_more_changes_than_are_merged_at_once_are_let_through_by_the_option(target: Target, tmp_path: Path) -> None:
    few = _prepared(msgspec.structs.replace(target, options={**target.options, "changes_max": "2"}), tmp_path)
    batch = staged(few, 0, ROWS, [_change(key, 1, "a") for key in range(3)])
    with pytest.raises(OutputRefusedError, match=r"3 changes, and 2 are merged .* changes_max=3"):
        few.check(batch)

    more = kind_of(msgspec.structs.replace(target, options={**target.options, "changes_max": "3"}), few.staging, {})
    more.check(batch)
    more.end(batch)

    assert _values(more) == {0: "a", 1: "a", 2: "a"}
    bad = kind_of(msgspec.structs.replace(target, options={"changes_max": "-1"}), few.staging, {})
    assert "changes_max is '-1'" in bad.validate(ROWS)[0]


def test_what_cannot_be_merged_is_refused_before_the_decision(kind: OutputKind, tmp_path: Path) -> None:
    for rows, sentence in (
        ([_change(1, 1, "a"), _change(1, 1, "b")], "two changes of key=1"),
        ([_change(None, 1, "a")], "has no key"),
        ([_change(1, None, "a")], "has no at"),
    ):
        with pytest.raises(OutputRefusedError, match=sentence):
            kind.check(staged(kind, 0, ROWS, rows))
    gone = staged(kind, 1, ROWS, [_change(1, 1, "a")])
    kind.discard(gone.manifest.parts)
    with pytest.raises(OutputRefusedError, match="removed or changed"):
        kind.check(gone)
    with pytest.raises(OutputRefusedError, match="are gone from"):
        kind.end(gone)

    imported = tmp_path / "imported.parquet"
    pq.write_table(pa.Table.from_pylist([{"key": 1, "at": 1, "value": "x", "tags": None}], schema=COLUMNS), imported)
    with table_of(kind) as table:
        table.add_files([f"file://{imported}"])
    with pytest.raises(OutputRefusedError, match="has no ids of fields"):
        kind.check(staged(kind, 2, ROWS, [_change(1, 2, "a")]))

    with table_of(kind) as table, table.update_schema() as schema:
        schema.add_column("more", StringType())
    assert kind.validate(ROWS) == ["the table has the column more, which the rows do not have: a merge would empty it"]
    with pytest.raises(RowsGoneError, match="does not have batch 1"):
        kind.read_back(gone)


def _prepared(target: Target, tmp_path: Path) -> OutputKind:
    made = kind_of(target, str(tmp_path / "staging"), {})
    assert made.validate(ROWS) == []
    made.prepare(ROWS)
    return made


def _change(key: int | None, at: int | None, value: str | None, *, deleted: bool = False) -> dict[str, Any]:
    return {"key": key, "at": at, "value": value, "tags": None, DELETED: deleted}


def _merge(kind: OutputKind, batch_id: int, *changes: dict[str, Any]) -> None:
    batch = staged(kind, batch_id, ROWS, list(changes))
    kind.check(batch)
    kind.end(batch)


def _values(kind: OutputKind) -> dict[int, str]:
    with table_of(kind) as table:
        rows = table.scan().to_arrow().to_pylist()
    values = {each["key"]: each["value"] for each in rows}
    assert len(values) == len(rows)
    return values
