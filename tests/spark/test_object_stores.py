"""Tables, staging and manifests in an object store, by the same code as in a directory."""

from __future__ import annotations

import datetime as dt
import errno
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.object_store import BUCKET, SECRET, ObjectStore, object_store
from tidelog.spark.errors import OptionError
from tidelog.spark.outputs import delta_log, storage
from tidelog.spark.outputs.delta_log import DeltaLog
from tidelog.spark.outputs.kind import OutputKind, OutputRefusedError, OutputUnreachableError, kind_of
from tidelog.spark.outputs.manifest_store import (
    delete_manifest,
    kind_of_output,
    manifest_of,
    read_manifest,
    write_manifest,
)
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, Target, app_id
from tidelog.spark.outputs.storage import Storage

APP = app_id("orders", "archive", "generation")
SCHEMA = pa.schema([pa.field(name, kind) for name, kind in {"day": pa.date32(), "text": pa.string()}.items()])
ROWS: list[dict[str, Any]] = [{"day": None, "text": "a"}, {"day": dt.date(2026, 1, 1), "text": "b"}]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
            patch.delenv(name, raising=False)
        patch.setenv(SECRET, "a secret")
        with object_store() as running:
            yield running


def test_a_store_has_files_as_a_directory_has_them(store: ObjectStore) -> None:
    storage = Storage.at(f"s3://{BUCKET}/a directory", store.settings)

    storage.write("some/file", b"content")
    storage.move("some/file", "other/file")

    # As Spark names the store, and as everybody else does.
    assert Storage.at(f"s3a://{BUCKET}/a directory/other", store.settings).read("file", bytes_max=7) == b"content"
    assert [(each.path, each.bytes) for each in storage.files()] == [("other/file", 7)]
    assert (storage.size("other/file"), storage.size("some/file"), storage.size("other")) == (7, None, None)
    assert not storage.has("some/file")
    assert storage.delete("other/file")
    assert not storage.delete("other/file")
    assert list(storage.files("other")) == []
    with pytest.raises(FileNotFoundError):
        storage.read("some/file", bytes_max=7)
    with pytest.raises(FileNotFoundError):
        storage.move("some/file", "other/file")
    with pytest.raises(OSError, match="NO_SUCH_BUCKET"):
        Storage.at("s3://nowhere/x", store.settings).write("file", b"")


def test_settings_that_cannot_be_are_refused(store: ObjectStore) -> None:
    with pytest.raises(OptionError, match="there is no setting AWS_KEY"):
        Storage.at(f"s3://{BUCKET}", {"AWS_KEY": "x"})
    with pytest.raises(OptionError, match="AWS_ENDPOINT_URL has to begin with http"):
        Storage.at(f"s3://{BUCKET}", {"AWS_ENDPOINT_URL": "127.0.0.1:9000"})
    with pytest.raises(OptionError, match="AWS_SESSION_TOKEN refers to the variable NO_SUCH"):
        Storage.at(f"s3://{BUCKET}", {**store.settings, "AWS_SESSION_TOKEN": "${env:NO_SUCH}"})
    with pytest.raises(OptionError, match="no other store is known"):
        Storage.at("gs://bucket/x")


def test_a_store_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "a secret")
    for module in (storage, delta_log):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT_S", 1)
        monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 1)
        monkeypatch.setattr(module, "REQUEST_TRIES_MAX", 2)
    # It takes connections, as far as the system does that by itself, and reads nothing.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = ObjectStore(*silent.getsockname()).settings
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            Storage.at(f"s3://{BUCKET}", settings).size("x")
        with pytest.raises(OutputUnreachableError, match=f"s3://{BUCKET}/t cannot be read or written: .* HTTP error"):
            DeltaLog(Target("delta", f"s3://{BUCKET}/t", storage=settings)).load()


@pytest.mark.parametrize(
    ("error", "is_a_right"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), True),
        (OSError(errno.EROFS, "Read-only file system"), True),
        (OSError("When initiating multiple part upload: AWS Error ACCESS_DENIED during PutObject: no"), True),
        (OSError("Generic S3 error Server returned non-2xx status code: 403 Forbidden"), True),
        (OSError("Generic LocalFileSystem error: Permission denied (os error 13)"), True),
        (OSError("AWS Error NETWORK_CONNECTION during HeadObject operation"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
    ],
)
@pytest.mark.parametrize("name", ["files", "delta", "iceberg"])
def test_a_right_that_is_missing_is_refused_when_a_query_starts(
    name: str, error: OSError, is_a_right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(name, str(tmp_path / "place"))
    if name == "iceberg":
        options = {"warehouse": f"file://{tmp_path}/warehouse"}
        target = Target(name, f"sqlite:///{tmp_path}/catalog.db", table="shop.orders", options=options)
    kind = kind_of(target, str(tmp_path / "staging"), {})

    def refuse(self: Storage, path: str, content: bytes) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "write", refuse)
        with pytest.raises(OutputRefusedError if is_a_right else OutputUnreachableError, match="be written to: "):
            kind.prepare(SCHEMA)
    kind.prepare(SCHEMA)

    assert list(tmp_path.rglob(".tidelog*")) == []


def test_a_right_that_the_library_of_delta_misses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("Kernel error\n  \x1b[31m\u21b3\x1b[0m Permission denied\n   \u21b3 (os error 13)")

    monkeypatch.setattr("deltalake.DeltaTable.__init__", refuse)

    with pytest.raises(
        OutputRefusedError, match=r"may not be read or written: Kernel error Permission denied \(os error"
    ):
        DeltaLog(Target("delta", str(tmp_path))).load()


def test_a_file_has_one_place_whatever_its_name(tmp_path: Path) -> None:
    places = (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}")
    assert {Storage.at(each).root for each in places} == {str(tmp_path)}


def test_files_and_their_manifest_are_made_in_a_store(store: ObjectStore) -> None:
    kind = kind_of(_target("files", f"s3a://{BUCKET}/out", store), f"s3a://{BUCKET}/staging", store.settings)
    kind.prepare(SCHEMA)
    batch, orphan = _staged(kind, 3), _staged(kind, 4)
    delete_manifest(orphan.output)

    kind.check(batch)
    kind_of_output(batch.output).end(read_manifest(batch.output))
    kind.end(batch)
    swept = kind.sweep(frozenset(), older_than_s=0.0)

    assert kind.last_batch(APP) == 3
    assert kind.read_back(batch) == (2, batch.output.checksum)
    assert swept.files == 2
    assert [each.split("/")[1] for each in store.keys("out/") if not each.endswith("/")] == [
        batch_manifest := store.keys("out/_manifest")[0].split("/")[1],
        "day=2026-01-01",
        "day=__HIVE_DEFAULT_PARTITION__",
    ]
    assert batch_manifest.startswith("_manifest-0000000003-")
    # Not an empty object for each attempt there ever was.
    assert len([each for each in store.keys("out/_staging") if each.endswith("/")]) <= 2
    assert store.keys("staging/manifest-") == [batch.output.manifest_path.partition(f"{BUCKET}/")[2]]


def test_a_file_of_a_decision_that_is_gone_from_a_store_is_refused(store: ObjectStore) -> None:
    kind = kind_of(_target("files", f"s3://{BUCKET}/gone", store), f"s3://{BUCKET}/staging", store.settings)
    batch = _staged(kind, 0)
    kind.discard(batch.manifest.parts)

    with pytest.raises(OutputRefusedError, match="removed or changed"):
        kind.check(batch)
    with pytest.raises(OutputRefusedError, match="is gone"):
        kind.end(batch)


def test_an_iceberg_table_lies_in_a_store(store: ObjectStore, tmp_path: Path) -> None:
    target = Target(
        "iceberg",
        f"sqlite:///{tmp_path}/catalog.db",
        table="shop.orders",
        partition_by=("day",),
        options={"warehouse": f"s3://{BUCKET}/warehouse"},
        storage=store.settings,
    )
    kind = kind_of(target, f"s3a://{BUCKET}/staging", store.settings)
    assert kind.validate(SCHEMA) == []
    kind.prepare(SCHEMA)
    batch, orphan = _staged(kind, 3), _staged(kind, 4)

    kind.check(batch)
    kind_of_output(batch.output).end(read_manifest(batch.output))
    kind.end(batch)
    swept = kind.sweep(frozenset(), older_than_s=0.0)

    assert kind.last_batch(APP) == 3
    assert kind.read_back(batch) == (2, batch.output.checksum)
    assert swept.files == 2
    assert [each for each in store.keys("warehouse/shop/orders/data/") if not each.endswith("/")] == sorted(
        file.path.partition(f"{BUCKET}/")[2] for file in batch.manifest.files
    )
    with pytest.raises(OutputRefusedError, match="removed or changed"):
        kind.check(orphan)


def _target(kind: str, place: str, store: ObjectStore) -> Target:
    return Target(kind, place, partition_by=("day",), storage=store.settings)


def _staged(kind: OutputKind, batch_id: int) -> StagedBatch:
    parts = []
    for task, row in enumerate(ROWS):
        attempt = kind.open_attempt(AttemptName("run", batch_id, task, 0, 0), SCHEMA)
        attempt.write(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
        parts.append(attempt.hand_over())
    manifest = manifest_of("archive", APP, batch_id, SCHEMA, parts)
    return write_manifest(kind.target, kind.staging, kind.staging_storage, manifest, run="run")
