"""A Delta table in an object store: the store itself takes a version of the log once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from tests.spark.delta_batches import APP, schema_of
from tests.support.object_store import BUCKET, SECRET, ObjectStore, object_store
from tidelog.spark.outputs.delta_table import DeltaTableKind
from tidelog.spark.outputs.manifest_store import kind_of_output, manifest_of, read_manifest, write_manifest
from tidelog.spark.outputs.staged import AttemptName, Changes, StagedBatch, Target

SCHEMA = schema_of(n=pa.int64(), p=pa.string())


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
            patch.delenv(name, raising=False)
        patch.setenv(SECRET, "a secret")
        with object_store() as running:
            yield running


def test_batches_are_added_and_merged_in_a_store(store: ObjectStore) -> None:
    added, merged = _kind(store, "added", partition_by=("p",)), _kind(store, "merged", changes=Changes(("n",)))
    for kind in (added, merged):
        kind.prepare(SCHEMA)
        for batch_id, text in enumerate(("a b", "c")):
            batch = _staged(kind, store, batch_id, [{"n": 1, "p": text}])
            kind.check(batch)
            # By whoever finds the decision, twice.
            for _ in range(2):
                kind_of_output(batch.output).end(read_manifest(batch.output))
        _staged(kind, store, 2, [{"n": 2, "p": None}])
        assert kind.last_batch(APP) == 1
        assert kind.sweep(frozenset(), older_than_s=0.0).files == 1

    assert sorted(_texts(added)) == ["a b", "c"]
    assert _texts(merged) == ["c"]


def test_of_several_commits_of_one_version_the_store_takes_one(store: ObjectStore) -> None:
    kind = _kind(store, "raced")
    kind.prepare(SCHEMA)
    for _ in range(3):
        tables = [kind.log.loaded() for _ in range(4)]
        begin = threading.Barrier(len(tables))
        won: list[int] = []
        lost: list[int] = []

        def commit(table: DeltaTable, begin: threading.Barrier, won: list[int], lost: list[int]) -> None:
            begin.wait(timeout=30.0)
            try:
                kind.log.add(table, [], CommitProperties(max_commit_retries=0))
                won.append(table.version())
            except CommitFailedError:
                lost.append(table.version())

        threads = [threading.Thread(target=commit, args=(table, begin, won, lost)) for table in tables]
        for each in threads:
            each.start()
        for each in threads:
            each.join(timeout=60.0)
        assert (len(won), len(lost)) == (1, 3)


def _kind(
    store: ObjectStore, name: str, *, partition_by: tuple[str, ...] = (), changes: Changes | None = None
) -> DeltaTableKind:
    place = f"s3://{BUCKET}/{name}/table"
    target = Target("delta", place, partition_by=partition_by, changes=changes, storage=store.settings)
    return DeltaTableKind(target, f"s3://{BUCKET}/{name}/staging", store.settings)


def _staged(kind: DeltaTableKind, store: ObjectStore, batch_id: int, rows: list[dict[str, object]]) -> StagedBatch:
    attempt = kind.open_attempt(AttemptName("run", batch_id, 0, 0, 0), SCHEMA)
    attempt.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    manifest = manifest_of("table", APP, batch_id, SCHEMA, [attempt.hand_over()])
    return write_manifest(kind.target, kind.staging, store.settings, manifest, run="run")


def _texts(kind: DeltaTableKind) -> list[str]:
    return [str(each) for each in kind.log.loaded().to_pyarrow_table().column("p").to_pylist()]
