"""Snapshots of an Iceberg table that nobody needs, and the files that only they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.iceberg_sink import APP, SCHEMA, append_row, before_commit, numbers, staged, table_of
from tidelog.spark.outputs import iceberg_upkeep
from tidelog.spark.outputs.iceberg_upkeep import Upkeep, upkeep
from tidelog.spark.outputs.kind import OutputKind, kind_of
from tidelog.spark.outputs.staged import Changes, Target


@pytest.fixture
def kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OutputKind:
    monkeypatch.setattr(iceberg_upkeep, "SNAPSHOTS_MAX", 2)
    monkeypatch.setattr(iceberg_upkeep, "EXPIRED_MIN", 2)
    options = {"warehouse": f"file://{tmp_path}/warehouse"}
    target = Target(
        "iceberg", f"sqlite:///{tmp_path}/catalog.db", table="shop.orders", changes=Changes(("n",)), options=options
    )
    made = kind_of(target, str(tmp_path / "staging"), {})
    made.prepare(SCHEMA)
    return made


def test_a_table_that_is_written_to_all_day_has_few_snapshots_and_files(kind: OutputKind, tmp_path: Path) -> None:
    counts = []
    for batch_id in range(8):
        kind.end(staged(kind, batch_id))
        upkeep(kind.target, frozenset())
        files = [each for each in (tmp_path / "warehouse").rglob("*") if each.suffix in {".parquet", ".avro"}]
        counts.append(len(files))

    # Beside them is the table's metadata, of which a hundred files are kept.
    assert max(counts[4:]) <= max(counts[:4])
    assert numbers(kind) == [1, 2, 3]
    assert kind.last_batch(APP) == 7
    with table_of(kind) as table:
        assert len(table.metadata.snapshots) <= 4
        table.scan(snapshot_id=table.metadata.snapshots[0].snapshot_id).to_arrow()


def test_what_is_named_or_too_few_or_promised_stays(kind: OutputKind) -> None:
    kind.end(staged(kind, 0))
    assert upkeep(kind.target, frozenset()) == Upkeep(1)

    kind.end(staged(kind, 1))
    with table_of(kind) as table:
        first = table.metadata.snapshots[0].snapshot_id
        table.manage_snapshots().create_tag(first, "kept").commit()
    kind.end(staged(kind, 2))
    done = upkeep(kind.target, frozenset())
    with table_of(kind) as table:
        assert done.expired == done.snapshots - len(table.metadata.snapshots) > 0
        assert len(table.scan(snapshot_id=first).to_arrow()) == 3

    with table_of(kind) as table:
        table.transaction().set_properties({"history.expire.max-snapshot-age-ms": "3600000"}).commit_transaction()
    kind.end(staged(kind, 3))
    assert upkeep(kind.target, frozenset()).expired == 0


def test_upkeep_gives_way(kind: OutputKind, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch_id in range(3):
        kind.end(staged(kind, batch_id))
    before_commit(monkeypatch, lambda: append_row(kind, 9))

    done = upkeep(kind.target, frozenset())

    assert (done.gave_way, done.expired) == (True, 0)
    assert numbers(kind) == [1, 2, 3, 9]
    assert upkeep(kind.target, frozenset()).expired > 0
    assert numbers(kind) == [1, 2, 3, 9]


def test_branches_are_left_to_whoever_made_them(kind: OutputKind) -> None:
    for batch_id in range(3):
        kind.end(staged(kind, batch_id))
    with table_of(kind) as table:
        table.manage_snapshots().create_branch(table.metadata.snapshots[0].snapshot_id, "side").commit()

    assert upkeep(kind.target, frozenset()).expired == 0
