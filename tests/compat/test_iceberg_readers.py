"""Iceberg tables of pipelines with programs that are not ours: Iceberg's REST catalog, and a Spark 4.1 that reads them back."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform, DayTransform, TruncateTransform

from tests.compat.iceberg_programs import PLACE, rest_catalog, run_spark
from tests.support.iceberg_sink import (
    APP,
    SCHEMA,
    append_row,
    before_commit,
    catalog_of,
    numbers,
    schema_of,
    staged,
)
from tidelog.spark.outputs import iceberg_catalog, iceberg_upkeep
from tidelog.spark.outputs.iceberg_upkeep import upkeep
from tidelog.spark.outputs.kind import OutputKind, OutputRefusedError, OutputUnreachableError, kind_of
from tidelog.spark.outputs.manifest_store import kind_of_output, read_manifest
from tidelog.spark.outputs.staged import Changes, Target

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

TYPES = schema_of(
    id=pa.int64(),
    name=pa.string(),
    at=pa.timestamp("us", "UTC"),
    local=pa.timestamp("us"),
    day=pa.date32(),
    small=pa.int16(),
    yes=pa.bool_(),
    ratio=pa.float32(),
    precise=pa.float64(),
    price=pa.decimal128(10, 2),
    large=pa.decimal128(30, 3),
    raw=pa.binary(),
    **{
        "my column": pa.list_(pa.string()),
        "lookup": pa.map_(pa.string(), pa.int32()),
        "nested": pa.struct([pa.field("a b", pa.int32())]),
    },
)
ROW: dict[str, Any] = {
    "id": 34,
    "name": "iceberg",
    "at": dt.datetime(2026, 3, 1, 23, 30, tzinfo=dt.UTC),
    "local": dt.datetime(2026, 3, 1, 23, 30),  # noqa: DTZ001 - has no zone
    "day": dt.date(2026, 3, 1),
    "small": 7,
    "yes": True,
    "ratio": 0.5,
    "precise": 0.25,
    "price": decimal.Decimal("14.20"),
    "large": decimal.Decimal("123456789012345678901.125"),
    "raw": b"\x00\xff",
    "my column": ["x", None],
    "lookup": [("k", 1)],
    "nested": {"a b": 3},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("iceberg")


@pytest.fixture(scope="module")
def url(place: Path) -> Iterator[str]:
    with rest_catalog(place / "rest") as running:
        yield running


@pytest.fixture
def kind(url: str, place: Path, request: pytest.FixtureRequest) -> OutputKind:
    """A table of its own in the REST catalog."""
    made = kind_of(Target("iceberg", url, table=f"tests.{request.node.name}"), str(place / "staging"), {})
    made.prepare(SCHEMA)
    made.prepare(SCHEMA)
    return made


def test_a_rest_catalog_takes_a_batch_once(kind: OutputKind) -> None:
    batch, empty = staged(kind, 3), staged(kind, 4, rows=[])

    kind.check(batch)
    kind_of_output(batch.output).end(read_manifest(batch.output))
    kind.end(batch)
    first = kind.last_batch(APP)
    kind.end(empty)

    assert (first, kind.last_batch(APP)) == (3, 4)
    assert numbers(kind) == [1, 2, 3]
    assert kind.read_back(batch) == (3, batch.output.checksum)


def test_a_rest_catalog_refuses_a_zombie_and_others_go_on(kind: OutputKind, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = staged(kind, 0), staged(kind, 1)

    def meanwhile() -> None:
        kind_of_output(first.output).end(first)
        append_row(kind, 9)

    with monkeypatch.context() as patch:
        before_commit(patch, meanwhile)
        kind.end(first)
    with monkeypatch.context() as patch:
        before_commit(patch, lambda: append_row(kind, 9))
        kind.end(second)

    assert numbers(kind) == [1, 1, 2, 2, 3, 3, 9, 9]


def test_a_zombie_of_an_empty_batch_does_not_set_the_number_back(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, full = staged(kind, 0, rows=[]), staged(kind, 1)
    before_commit(monkeypatch, lambda: kind_of_output(full.output).end(full))

    kind.end(empty)

    assert kind.last_batch(APP) == 1


def test_an_answer_of_a_rest_catalog_that_is_lost_is_settled_by_the_table(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = staged(kind, 0)
    commit = iceberg_catalog._TimedRestCatalog.commit_table

    def lost(*arguments: Any) -> None:
        commit(*arguments)
        raise ConnectionResetError("the connection is gone")

    monkeypatch.setattr(iceberg_catalog._TimedRestCatalog, "commit_table", lost)
    kind.end(batch)

    assert numbers(kind) == [1, 2, 3]


def test_a_table_of_a_rest_catalog_widens_is_swept_and_may_be_gone(kind: OutputKind) -> None:
    batch, orphan = staged(kind, 0), staged(kind, 1)
    kind.end(batch)
    wider = schema_of(n=pa.int64(), more=pa.string())
    kind.prepare(wider)
    kind.end(staged(kind, 2, wider, [{"n": 1 << 40, "more": "x"}]))

    assert numbers(kind) == [1, 2, 3, 1 << 40]
    assert kind.sweep(frozenset(), older_than_s=0.0).files == len(orphan.manifest.files)
    with catalog_of(kind) as catalog:
        catalog.drop_table(kind.target.table)
    with pytest.raises(OutputRefusedError, match="there is no table"):
        kind.end(batch)


def test_changes_are_merged_and_snapshots_expired_through_a_rest_catalog(
    kind: OutputKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_upkeep, "SNAPSHOTS_MAX", 2)
    monkeypatch.setattr(iceberg_upkeep, "EXPIRED_MIN", 2)
    merging = kind_of(msgspec.structs.replace(kind.target, changes=Changes(("n",))), kind.staging, {})
    for batch_id in range(3):
        merging.check(batch := staged(merging, batch_id))
        merging.end(batch)

    done = upkeep(merging.target, frozenset())

    assert done.expired == done.snapshots - 2 > 1
    assert done.deleted.files > done.expired
    assert numbers(merging) == [1, 2, 3]
    assert merging.last_batch(APP) == 2


def test_a_rest_catalog_that_is_not_there_may_come_back(place: Path) -> None:
    with rest_catalog(place / "gone") as url:
        kind = kind_of(Target("iceberg", url, table="tests.gone"), str(place / "staging of gone"), {})
        kind.prepare(SCHEMA)
        batch = staged(kind, 0)

    with pytest.raises(OutputUnreachableError, match="cannot be reached"):
        kind.end(batch)


def test_spark_reads_what_was_written_and_its_upkeep_leaves_the_batch_known(url: str, place: Path) -> None:
    lake = Target(
        "iceberg",
        f"sqlite:///{place}/lake.db",
        table="shop.orders",
        options={"catalog-name": "lake", "warehouse": f"file://{place}/lake"},
    )
    tables = {"lake": lake, "rest": Target("iceberg", url, table="shop.orders")}
    kinds = {name: kind_of(each, str(place / f"staging of {name}"), {}) for name, each in tables.items()}
    batches = {}
    for name, kind in kinds.items():
        kind.prepare(SCHEMA)
        batches[name] = staged(kind, 5)
        kind.end(batches[name])
    _write_types(lake, place)

    found = run_spark(
        PLACE / "iceberg" / "read_tables.py",
        **{
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{place}/lake.db",
            "spark.sql.catalog.lake.jdbc.schema-version": "V1",
            "spark.sql.catalog.lake.warehouse": f"file://{place}/lake",
            "spark.sql.catalog.rest": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.rest.type": "rest",
            "spark.sql.catalog.rest.uri": url,
        },
    )

    expected = [{"n": 1, "text": "a"}, {"n": 2}, {"n": 3, "text": "c"}]
    assert found["sql"] == expected
    assert found["rest"] == expected
    assert found["types"] == [
        {
            "id": 34,
            "name": "iceberg",
            "at": "2026-03-01T23:30:00.000Z",
            "local": "2026-03-01T23:30:00.000",
            "day": "2026-03-01",
            "small": 7,
            "yes": True,
            "ratio": 0.5,
            "precise": 0.25,
            "price": 14.2,
            "large": 123456789012345678901.125,
            "raw": "AP8=",
            "my column": ["x", None],
            "lookup": {"k": 1},
            "nested": {"a b": 3},
        },
        {},
    ]
    assert found["pruned"] == [{"id": 34}]
    assert {"partition": {"at_day": "2026-03-01", "id_bucket": 2017239379 % 4, "name_start": "ic"}} in found[
        "partitions"
    ]
    for name, kind in kinds.items():
        # Its expiry took the snapshot of the batch, and its rewrite the files.
        assert found[f"{name} snapshots"] == 1
        assert kind.last_batch(APP) == 5
        kind.end(batches[name])
        kind.end(staged(kind, 6))
        assert numbers(kind) == [1, 1, 2, 2, 3, 3, 9]


def _write_types(lake: Target, place: Path) -> None:
    kind = kind_of(msgspec.structs.replace(lake, table="shop.types"), str(place / "staging of types"), {})
    kind.prepare(TYPES)
    with iceberg_catalog.opened(kind.target) as catalog, catalog.load_table("shop.types").update_spec() as spec:
        spec.add_field("at", DayTransform(), "at_day")
        spec.add_field("id", BucketTransform(4), "id_bucket")
        spec.add_field("name", TruncateTransform(2), "name_start")
    batch = staged(kind, 0, TYPES, [ROW, dict.fromkeys(TYPES.names)])
    kind.check(batch)
    kind.end(batch)
    assert kind.read_back(batch) == (2, batch.output.checksum)
