"""An Iceberg table as a sink: files beside the table's own, and one commit with the batch's number."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, TruncateTransform
from pyiceberg.types import IntegerType, NestedField, StringType

from tests.support.iceberg_sink import (
    APP,
    SCHEMA,
    KilledError,
    append_row,
    before_commit,
    catalog_of,
    cut_at,
    numbers,
    schema_of,
    staged,
    table_of,
)
from tidelog.spark.outputs import iceberg_table
from tidelog.spark.outputs.iceberg_files import stored_rows
from tidelog.spark.outputs.kind import (
    OutputKind,
    OutputRefusedError,
    OutputUnreachableError,
    RowsGoneError,
    kind_of,
)
from tidelog.spark.outputs.manifest_store import kind_of_output, read_manifest
from tidelog.spark.outputs.staged import Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    options = {"warehouse": f"file://{tmp_path}/warehouse"}
    return Target("iceberg", f"sqlite:///{tmp_path}/catalog.db", table="shop.orders", options=options)


@pytest.fixture
def kind(target: Target, tmp_path: Path) -> OutputKind:
    made = kind_of(target, str(tmp_path / "staging"), {})
    made.prepare(SCHEMA)
    return made


def test_rows_are_seen_once_the_batch_is_ended_and_no_sooner(kind: OutputKind) -> None:
    batch = staged(kind, 3)

    kind.check(batch)
    before = numbers(kind)
    kind.end(batch)
    kind.end(read_manifest(batch.output))

    assert before == []
    assert numbers(kind) == [1, 2, 3]
    assert kind.last_batch(APP) == 3
    assert kind.read_back(batch) == (3, batch.output.checksum)
    with table_of(kind) as table:
        assert len(table.metadata.snapshots) == 1


@pytest.mark.parametrize(
    ("place", "warehouse", "sentence"),
    [
        ("sqlite:///catalog.db", "file:///w", "the path of the catalog sqlite:///catalog.db has to be absolute"),
        ("sqlite:////c/catalog.db", "w", "the warehouse w has to be a URL, or an absolute path"),
    ],
)
def test_a_catalog_that_depends_on_where_somebody_stands_is_refused(
    place: str, warehouse: str, sentence: str, tmp_path: Path
) -> None:
    target = Target("iceberg", place, table="shop.orders", options={"warehouse": warehouse})
    kind = kind_of(target, str(tmp_path / "staging"), {})

    (found,) = kind.validate(SCHEMA)

    assert found.startswith(sentence)
    with pytest.raises(OutputRefusedError, match=sentence):
        kind.prepare(SCHEMA)


def test_whoever_finds_a_decision_ends_it_by_its_words_alone(kind: OutputKind) -> None:
    batch = staged(kind, 0)

    kind_of_output(batch.output).end(read_manifest(batch.output))

    assert numbers(kind) == [1, 2, 3]


def test_validating_makes_nothing(target: Target, tmp_path: Path) -> None:
    assert kind_of(target, "", {}).validate(SCHEMA) == []

    assert list(tmp_path.iterdir()) == []


def test_an_end_that_is_cut_anywhere_and_asked_for_again_has_one_outcome(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[int] = []
    cut = 0
    for batch_id in range(100):
        batch = staged(kind, batch_id)
        expected += [1, 2, 3]
        with monkeypatch.context() as patch:
            effects = cut_at(patch, batch_id)
            try:
                kind.end(batch)
            except KilledError:
                cut += 1
        kind_of_output(batch.output).end(batch)

        assert numbers(kind) == sorted(expected)
        assert kind.last_batch(APP) == batch_id
        if effects[0] <= batch_id:
            break
    # The manifest, the list of manifests, the table's metadata and the catalog's row, each before and after.
    assert cut == 8


def test_a_zombie_that_wakes_between_check_and_commit_adds_nothing(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = staged(kind, 0), staged(kind, 1)

    def meanwhile() -> None:
        kind_of_output(first.output).end(first)
        kind_of_output(second.output).end(second)

    before_commit(monkeypatch, meanwhile)
    kind.end(first)

    assert numbers(kind) == [1, 1, 2, 2, 3, 3]
    assert kind.last_batch(APP) == 1


def test_a_zombie_of_an_empty_batch_does_not_set_the_number_back(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, full = staged(kind, 0, rows=[]), staged(kind, 1)
    before_commit(monkeypatch, lambda: kind_of_output(full.output).end(full))

    kind.end(empty)

    assert empty.manifest.files == ()
    assert kind.last_batch(APP) == 1


def test_an_empty_batch_is_remembered_without_a_snapshot(kind: OutputKind) -> None:
    batch = staged(kind, 5, rows=[])

    kind.check(batch)
    kind.end(batch)

    assert kind.last_batch(APP) == 5
    assert kind.read_back(batch) == (0, 0)
    with table_of(kind) as table:
        assert table.metadata.snapshots == []


def test_batches_without_rows_leave_no_more_metadata_than_others(kind: OutputKind, tmp_path: Path) -> None:
    with table_of(kind) as table:
        table.transaction().set_properties({"write.metadata.previous-versions-max": "2"}).commit_transaction()
    for batch_id in range(6):
        kind.end(staged(kind, batch_id, rows=[]))

    assert len(list((tmp_path / "warehouse").rglob("*.metadata.json"))) == 3


def test_what_others_write_in_between_stays(kind: OutputKind, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    batch = staged(kind, 0)

    before_commit(monkeypatch, lambda: append_row(kind, 9))
    kind.end(batch)

    assert numbers(kind) == [1, 2, 3, 9]
    assert kind.read_back(batch) == (3, batch.output.checksum)
    with table_of(kind) as table:
        # What was written for the commit that was refused is gone.
        named = {each.manifest_list for each in table.metadata.snapshots}
        lists = {f"file://{each}" for each in tmp_path.glob("warehouse/shop/orders/metadata/snap-*.avro")}
    assert lists == named


def test_somebody_who_is_always_faster_is_not_waited_for_for_ever(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = staged(kind, 0)
    monkeypatch.setattr(iceberg_table, "TRIES_MAX", 3)
    tries = []

    def append() -> None:
        tries.append(0)
        append_row(kind, 9)

    before_commit(monkeypatch, append, times=10)
    with pytest.raises(OutputUnreachableError, match="3 times in a row"):
        kind.end(batch)

    assert len(tries) == 3
    assert numbers(kind) == [9, 9, 9]


def test_an_answer_that_is_lost_is_settled_by_the_table(kind: OutputKind, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = staged(kind, 0)
    commit = SqlCatalog.commit_table

    def lost(*arguments: Any) -> None:
        commit(*arguments)
        raise ConnectionResetError("the connection is gone")

    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    kind.end(batch)

    assert numbers(kind) == [1, 2, 3]


def test_a_table_that_is_gone_is_refused_before_and_after_the_decision(kind: OutputKind) -> None:
    batch = staged(kind, 0)
    with catalog_of(kind) as catalog:
        catalog.drop_table("shop.orders")

    with pytest.raises(OutputRefusedError, match=r"no table shop.orders"):
        kind.check(batch)
    with pytest.raises(OutputRefusedError, match=r"no table shop.orders"):
        kind.end(batch)
    kind.prepare(SCHEMA)
    with pytest.raises(OutputRefusedError, match="dropped and made again"):
        kind.end(batch)
    assert numbers(kind) == []


def test_a_staged_file_that_is_gone_is_refused_before_the_decision(kind: OutputKind) -> None:
    batch = staged(kind, 0)
    kind.discard(batch.manifest.parts[:1])

    with pytest.raises(OutputRefusedError, match="removed or changed"):
        kind.check(batch)


def test_other_partitions_since_the_decision_are_followed(kind: OutputKind) -> None:
    batch = staged(kind, 0)
    with table_of(kind) as table, table.update_spec() as spec:
        spec.add_identity("day")
    with table_of(kind) as table, table.update_schema() as schema:
        schema.rename_column("text", "words")

    kind.end(batch)

    assert numbers(kind) == [1, 2, 3]
    with table_of(kind) as table:
        days = sorted(str(each["partition"]["day"]) for each in table.inspect.files().to_pylist())
        assert days == ["2026-01-01", "None"]
        assert table.scan("day = '2026-01-01'").to_arrow()["words"].to_pylist() == [None, "c"]
        with table.update_schema() as schema:
            schema.rename_column("words", "text")
    assert kind.read_back(batch) == (3, batch.output.checksum)


def test_partitions_are_those_of_the_table_whatever_they_are(target: Target, tmp_path: Path) -> None:
    rows = schema_of(
        at=pa.timestamp("us", "Europe/Berlin"),
        id=pa.int64(),
        name=pa.string(),
        price=pa.decimal128(10, 2),
        raw=pa.binary(),
        **{"my column": pa.list_(pa.struct([pa.field("a", pa.int32())]))},
    )
    kind = kind_of(target, str(tmp_path / "staging"), {})
    kind.prepare(rows)
    with table_of(kind) as table, table.update_spec() as spec:
        spec.add_field("at", DayTransform(), "at_day")
        spec.add_field("id", BucketTransform(4), "id_bucket")
        spec.add_field("name", TruncateTransform(1), "name_start")
        spec.add_identity("price")
        spec.add_identity("raw")
    at = dt.datetime(2026, 3, 1, 23, 30, tzinfo=dt.UTC)
    row = {
        "at": at,
        "id": 34,
        "name": "iceberg",
        "price": decimal.Decimal("14.20"),
        "raw": b"\x00\xff",
        "my column": [{"a": 1}, None],
    }
    batch = staged(kind, 0, rows, [row, dict.fromkeys(rows.names)])
    kind.end(batch)

    with table_of(kind) as table:
        # A hash of 34 is in the specification's appendix: 2017239379.
        assert {
            "at_day": dt.date(2026, 3, 1),
            "id_bucket": 2017239379 % 4,
            "name_start": "i",
            "price": decimal.Decimal("14.20"),
            "raw": b"\x00\xff",
        } in table.inspect.files()["partition"].to_pylist()
        found = table.scan("id = 34 and name = 'iceberg' and at >= '2026-03-01T23:00:00+00:00'").to_arrow()
        assert found["my column"].to_pylist() == [row["my column"]]
    assert kind.read_back(batch) == (2, batch.output.checksum)


def test_each_row_is_in_the_partition_of_its_values_in_the_order_of_rows(target: Target, tmp_path: Path) -> None:
    rows = schema_of(n=pa.int64(), at=pa.timestamp("us", "UTC"), name=pa.string())
    kind = kind_of(target, str(tmp_path / "staging"), {})
    kind.prepare(rows)
    with table_of(kind) as table, table.update_spec() as spec:
        spec.add_field("at", HourTransform(), "at_hour")
        spec.add_field("name", TruncateTransform(1), "name_start")
    # From before 1970 to after it, several an hour, and without a time.
    begin = dt.datetime(1969, 12, 31, 22, 50, tzinfo=dt.UTC)
    given: list[dict[str, Any]] = [
        {"n": n, "at": None if n % 7 == 0 else begin + dt.timedelta(minutes=n * 13, microseconds=n), "name": name}
        for n in range(60)
        for name in [("ab", "ac", "b", None)[n % 4]]
    ]
    batch = staged(kind, 0, rows, given)
    kind.end(batch)

    expected: dict[tuple[int | None, str | None], list[int]] = {}
    for row in given[1:]:
        hour = (
            None if row["at"] is None else (row["at"] - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(hours=1)
        )
        expected.setdefault((hour, row["name"] and row["name"][:1]), []).append(row["n"])
    second = {file.path: file.partition for file in batch.manifest.parts[1].files}
    with table_of(kind) as table:
        found = {
            (partition["at_hour"] and int(partition["at_hour"]), partition["name_start"]): [
                number for some in stored_rows(table, path, ["n"]) for number in some.column("n").to_pylist()
            ]
            for path, partition in second.items()
        }
    assert found == expected
    assert kind.read_back(batch) == (60, batch.output.checksum)


def test_a_table_widens_and_never_narrows(kind: OutputKind) -> None:
    kind.end(staged(kind, 0))
    more = pa.struct([pa.field("a", pa.int32())])
    wider = schema_of(n=pa.int64(), text=pa.string(), more=more)
    kind.prepare(wider)
    kind.end(staged(kind, 1, wider, [{"n": 1 << 40, "text": "x", "more": {"a": 1}}]))

    more = pa.struct([pa.field(name, kind) for name, kind in {"a": pa.int32(), "b": pa.string()}.items()])
    narrow = schema_of(n=pa.int16(), more=more)
    kind.prepare(narrow)
    kind.end(staged(kind, 2, narrow, [{"n": 7, "more": {"a": 2, "b": "y"}}]))

    assert numbers(kind) == [1, 2, 3, 7, 1 << 40]
    with table_of(kind) as table:
        assert str(table.schema().find_type("n")) == "long"
        assert table.scan("n = 7").to_arrow()["more"].to_pylist() == [{"a": 2, "b": "y"}]


@pytest.mark.parametrize(
    ("change", "schema", "sentence"),
    [
        ({}, {"n": pa.string()}, "the column n is int in the table, and string in the rows"),
        ({"widens": False}, {"n": pa.int64()}, "for n, and is not to be widened"),
        ({"widens": False}, {"other": pa.int64()}, "for other, and is not to be widened"),
        ({"partition_by": ("day",)}, {"day": pa.date32()}, "the table has the partitions none, not day"),
        ({"partition_by": ("x",)}, {"n": pa.int32()}, "partition_by names the column x"),
        ({}, {"n": pa.timestamp("ns")}, "the column n has nanoseconds"),
        ({}, {"new": pa.duration("us")}, "the table cannot have the column new of type duration"),
        ({"table": "orders"}, {"n": pa.int32()}, "an Iceberg table is named NAMESPACE.TABLE, not orders"),
        ({"place": "main", "options": {}}, {"n": pa.int32()}, "the catalog main needs uri="),
        ({"place": "sqlite://"}, {"n": pa.int32()}, "a catalog in memory is gone with its process"),
        ({"options": {"type": "hive"}}, {"n": pa.int32()}, "a catalog of type hive is not known"),
        ({"options": {"token": "${env:NO_SUCH}"}}, {"n": pa.int32()}, "token refers to the variable NO_SUCH"),
        ({"place": "no://x"}, {"n": pa.int32()}, "cannot be opened"),
        ({"place": "http://127.0.0.1:1"}, {"n": pa.int32()}, "cannot be reached"),
        ({"storage": {"AWS_NAME": "x"}}, {"n": pa.int32()}, "no setting AWS_NAME of an object store"),
    ],
)
def test_what_cannot_be_written_is_said_in_a_sentence(
    kind: OutputKind, change: dict[str, Any], schema: dict[str, pa.DataType], sentence: str
) -> None:
    other = kind_of(msgspec.structs.replace(kind.target, **change), kind.staging, {})

    found = other.validate(pa.schema(schema))

    assert len(found) == 1
    assert sentence in found[0]
    with pytest.raises(OutputRefusedError):
        other.prepare(pa.schema(schema))


def test_a_required_column_has_a_value_in_every_row(target: Target, tmp_path: Path) -> None:
    kind = kind_of(target, str(tmp_path / "staging"), {})
    kind.prepare(SCHEMA)
    schema = Schema(NestedField(1, "n", IntegerType(), required=True), NestedField(2, "text", StringType()))
    with catalog_of(kind) as catalog:
        catalog.create_table("shop.strict", schema)
    strict = kind_of(Target("iceberg", target.place, table="shop.strict", options=target.options), "staging", {})

    assert strict.validate(pa.schema({"text": pa.string()})) == [
        "the table requires the column n, which the rows do not have"
    ]
    strict.prepare(schema_of(n=pa.int32(), text=pa.string()))
    with pytest.raises(OutputRefusedError, match="requires a value in the column n"):
        staged(strict, 0, pa.schema({"n": pa.int32()}), [{"n": None}])


def test_a_sweep_takes_what_neither_a_decision_nor_the_table_names(kind: OutputKind, tmp_path: Path) -> None:
    ended, named, orphan = staged(kind, 0), staged(kind, 1), staged(kind, 2)
    kind.end(ended)
    elsewhere = kind_of(kind.target, str(tmp_path / "another pipeline"), {})
    foreign = staged(elsewhere, 0)
    decided = frozenset(each.attempt for each in named.manifest.parts)

    young = kind.sweep(decided, older_than_s=3600.0)
    swept = kind.sweep(decided, older_than_s=0.0)

    assert young.files == 0
    assert swept.files == len(orphan.manifest.files)
    assert swept.bytes == sum(each.bytes for each in orphan.manifest.files)
    kind.check(named)
    elsewhere.check(foreign)
    assert kind.read_back(ended) == (3, ended.output.checksum)


def test_rows_that_others_have_rewritten_are_not_claimed(kind: OutputKind) -> None:
    batch = staged(kind, 0)
    kind.end(batch)
    with table_of(kind) as table:
        table.delete("n = 2")

    with pytest.raises(RowsGoneError, match=r"1 of 2 files of batch 0 no more: rows of them were removed or changed"):
        kind.read_back(batch)


def test_a_batch_that_never_was_and_a_file_that_is_gone_are_told(kind: OutputKind) -> None:
    batch, other = staged(kind, 0), staged(kind, 1)
    kind.end(batch)

    with pytest.raises(RowsGoneError, match="does not have batch 1"):
        kind.read_back(other)
    Path(batch.manifest.files[0].path.removeprefix("file://")).unlink()
    with pytest.raises(RowsGoneError, match=r"\.parquet is gone"):
        kind.read_back(batch)


def test_rows_of_a_version_that_was_taken_back_are_gone(kind: OutputKind) -> None:
    first, second = staged(kind, 0), staged(kind, 1)
    kind.end(first)
    kind.end(second)
    with table_of(kind) as table:
        table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()

    assert kind.read_back(first) == (3, first.output.checksum)
    with pytest.raises(RowsGoneError, match="2 of 2 files of batch 1 no more: it was set back"):
        kind.read_back(second)


def test_nobody_knows_what_became_of_files_once_the_snapshot_that_says_so_has_expired(kind: OutputKind) -> None:
    batch = staged(kind, 0)
    kind.end(batch)
    with table_of(kind) as table:
        table.delete("n = 2")
        append_row(kind, 9)
        table.refresh()
        old = [each.snapshot_id for each in table.metadata.snapshots[:-1]]
        table.maintenance.expire_snapshots().by_ids(old).commit()

    with pytest.raises(OutputRefusedError, match="the snapshot that could say why has expired"):
        kind.read_back(batch)


def test_a_table_that_was_dropped_or_made_again_has_no_rows_of_any_batch(kind: OutputKind) -> None:
    known = kind_of(msgspec.structs.replace(kind.target, table_id=kind.table_id()), kind.staging, {})
    there = known.gone()
    with catalog_of(kind) as catalog:
        catalog.drop_table(kind.target.table)
    dropped = known.gone()
    kind.prepare(SCHEMA)

    assert there == ""
    assert dropped.startswith("there is no table shop.orders in the catalog sqlite:")
    assert known.gone() == "shop.orders was dropped and made again since"
