"""Parquet files in a directory: staged below `_staging`, renamed once the batch is decided, and told of by `_manifest-N` at the
end.

    _staging/<owner>/<attempt>/day=2026-11-01/part-...        staged by one attempt at one sink
    day=2026-11-01/part-0000000042-00003-0-1-<run>-<owner>-0.parquet
    _manifest-0000000042-<app>.json                          the batch is complete, and has these files

Names that begin with an underscore are passed over by Spark and its like. A rename changes nothing once it is made, so that an
end may be asked for again and again. Readers see the files of a batch one after another; who wants whole batches goes by the
manifests.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import msgspec

from tidelog.spark.outputs.kind import (
    OutputKind,
    OutputRefusedError,
    RowsGoneError,
    StagingAttempt,
    Swept,
    try_place,
)
from tidelog.spark.outputs.parquet_staging import ParquetAttempt, empty_as_null, owner_of
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, StagedFile, StagedPart, sum_checksums
from tidelog.spark.outputs.storage import Storage, StoredFile
from tidelog.spark.row_checksum import row_checksum

if TYPE_CHECKING:
    import pyarrow as pa

STAGING = "_staging"
_MANIFEST = "_manifest-"
# Some hundred thousand names.
_MANIFEST_BYTES_MAX = 64 * 1024 * 1024
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# What file systems take. A value counts by its percent encoding, three bytes for each byte that is no letter or digit.
_DIRECTORY_BYTES_MAX = 255


class CompletedFiles(msgspec.Struct, frozen=True):
    """What a `_manifest-N` says."""

    app_id: str
    batch_id: int
    rows: int
    files: tuple[StagedFile, ...]
    """By their final names."""


class FileKind(OutputKind):
    def validate(self, schema: pa.Schema) -> Sequence[str]:
        found = []
        if self.target.changes is not None:
            found.append("files are only added to: merge_on= needs a table or a database")
        found += [
            f"partition_by names the column {name}, which the rows do not have"
            for name in self.target.partition_by
            if name not in schema.names
        ]
        found += [
            f"partition_by names the column {field.name} of the type {field.type}, whose values are no names of directories"
            for field in schema
            if field.name in self.target.partition_by and not _names_directories(field.type)
        ]
        if schema.names and set(schema.names) <= set(self.target.partition_by):
            found.append("partition_by names all columns: one has to be left for the files")
        return found

    def prepare(self, schema: pa.Schema) -> None:
        if wrong := self.validate(schema):
            raise OutputRefusedError(wrong[0])
        try_place(self._storage, f"{STAGING}/{self._owner}/.tidelog", self.target.place)

    def open_attempt(self, name: AttemptName, schema: pa.Schema) -> StagingAttempt:
        def path_of(values: dict[str, str | None], n: int) -> str:
            return f"{self._staged_at(str(name))}/{_directory(values)}part-{name}-{self._owner}-{n}.parquet"

        return FileAttempt(self._storage, name, schema, self.target.partition_by, path_of=path_of)

    def check(self, batch: StagedBatch) -> None:
        for file in batch.manifest.files:
            if self._storage.size(file.path) != file.bytes:
                raise OutputRefusedError(
                    f"{self.target.place}/{file.path} is not what was staged: it was removed or changed"
                )

    def end(self, batch: StagedBatch) -> None:
        storage, manifest = self._storage, batch.manifest
        name = _manifest_name(manifest.app_id, manifest.batch_id)
        if storage.has(name):
            return
        moved = []
        for file in manifest.files:
            final = msgspec.structs.replace(file, path=file.path.split("/", 3)[3])
            moved.append(final)
            if storage.size(final.path) == file.bytes:
                storage.delete(file.path)
                continue
            try:
                storage.move(file.path, final.path)
            except FileNotFoundError:
                if storage.size(final.path) == file.bytes:
                    # Another end of this batch was faster at this file.
                    continue
                if storage.has(name):
                    return
                raise OutputRefusedError(
                    f"{self.target.place}/{file.path} is gone, which batch {manifest.batch_id} has rows in"
                ) from None
        completed = CompletedFiles(manifest.app_id, manifest.batch_id, manifest.rows, tuple(moved))
        storage.write(name, msgspec.json.encode(completed))
        for part in manifest.parts:
            storage.delete_directory(self._staged_at(part.attempt))

    def discard(self, parts: Sequence[StagedPart]) -> None:
        for part in parts:
            self._storage.delete_directory(self._staged_at(part.attempt))

    def last_batch(self, app_id: str) -> int | None:
        end = f"-{_short(app_id)}.json"
        found = [
            int(each.path.removeprefix(_MANIFEST).removesuffix(end))
            for each in self._storage.files()
            if each.path.startswith(_MANIFEST) and each.path.endswith(end)
        ]
        return max(found, default=None)

    def sweep(self, named: frozenset[str], *, older_than_s: float) -> Swept:
        # Whatever is left below the staging directory is in no manifest: an end moves all that it names. Other sinks may have
        # theirs beside it.
        found: dict[str, list[StoredFile]] = {}
        for file in self._storage.files(f"{STAGING}/{self._owner}"):
            found.setdefault(file.path.split("/")[2], []).append(file)
        now_s = time.time()
        files = size = 0
        for attempt, staged in found.items():
            if attempt not in named and all(now_s - file.modified_s >= older_than_s for file in staged):
                self._storage.delete_directory(self._staged_at(attempt))
                files += len(staged)
                size += sum(file.bytes for file in staged)
        return Swept(files, size)

    def gone(self) -> str:
        return "" if self._storage.has("") else f"there is no directory {self.target.place}"

    def read_back(self, batch: StagedBatch) -> tuple[int, int]:
        from tidelog.spark.outputs.manifest_store import decode_schema  # noqa: PLC0415

        completed = self._completed(batch)
        schema = decode_schema(batch.manifest.schema)
        rows = checksum = 0
        for file in completed.files:
            for found in stored_rows(self._storage, file, schema):
                rows += found.num_rows
                checksum = sum_checksums((checksum, row_checksum(found)))
        return rows, checksum

    def _completed(self, batch: StagedBatch) -> CompletedFiles:
        name = _manifest_name(batch.manifest.app_id, batch.manifest.batch_id)
        try:
            return msgspec.json.decode(self._storage.read(name, bytes_max=_MANIFEST_BYTES_MAX), type=CompletedFiles)
        except FileNotFoundError:
            raise RowsGoneError(f"{self.target.place} has no {name}: the batch is not complete there") from None

    def _staged_at(self, attempt: str) -> str:
        return f"{STAGING}/{self._owner}/{attempt}"

    @property
    def _owner(self) -> str:
        return owner_of(self.staging)

    @cached_property
    def _storage(self) -> Storage:
        return Storage.at(self.target.place, self.target.storage)


class FileAttempt(ParquetAttempt):
    """A `StagingAttempt` whose partitions are named as readers of such directories know them."""

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [
            empty_as_null(column) if name in self.partition_by else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        super().write(batch.from_arrays(columns, schema=batch.schema))


def _directory(values: dict[str, str | None]) -> str:
    """OutputRefusedError for a value that is too long for a name."""
    found = ""
    for name, value in values.items():
        step = f"{quote(name, safe='')}={_NO_VALUE if value is None else quote(value, safe='')}"
        if len(step) > _DIRECTORY_BYTES_MAX:
            raise OutputRefusedError(
                f"a row has a value of {len(value or '')} characters in {name}, which partition_by names: the name of its"
                f" directory would have {len(step)} bytes, and {_DIRECTORY_BYTES_MAX} are the most"
            )
        found += f"{step}/"
    return found


def _names_directories(found: pa.DataType) -> bool:
    """Whether a value can be told from its text."""
    from pyarrow import types  # noqa: PLC0415

    plain = (types.is_string, types.is_large_string, types.is_boolean, types.is_integer, types.is_floating)
    return any(each(found) for each in (*plain, types.is_decimal, types.is_date, types.is_time, types.is_timestamp))


def _manifest_name(app_id: str, batch_id: int) -> str:
    return f"{_MANIFEST}{batch_id:010d}-{_short(app_id)}.json"


def _short(app_id: str) -> str:
    """Several pipelines may write to one directory."""
    return hashlib.sha256(app_id.encode()).hexdigest()[:12]


def stored_rows(storage: Storage, file: StagedFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of a file as they were staged. RowsGoneError where it is gone, or holds something else."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - for audits

    with (
        _as_gone(storage, file),
        storage.system.open_input_file(f"{storage.root}/{file.path}") as opened,
    ):
        for found in pq.ParquetFile(opened).iter_batches():
            yield with_partition(found, file.partition, schema)


@contextmanager
def _as_gone(storage: Storage, file: StagedFile) -> Iterator[None]:
    import pyarrow as pa  # noqa: PLC0415

    place = f"{storage.root}/{file.path}"
    try:
        yield
    except FileNotFoundError:
        raise RowsGoneError(f"{place} is gone") from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise RowsGoneError(f"{place} is not the file that was written: {error}") from error
    except OSError as error:
        # Arrow has no error of its own for what it cannot make out.
        if storage.size(file.path) == file.bytes:
            raise
        raise RowsGoneError(f"{place} is not the file that was written: {error}") from error


def with_partition(batch: pa.RecordBatch, partition: object, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a file with the columns that only its path has, as the rows were written."""
    import pyarrow as pa  # noqa: PLC0415

    values = cast("dict[str, str | None]", partition)
    columns = [
        pa.array([values[field.name]] * batch.num_rows, pa.string()).cast(field.type)
        if field.name in values
        else batch.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
