"""The kind `delta`: rows of tasks as Parquet files in the table's own directory, which count once the table's log names them.

    day=2026-11-01/part-0000000042-00003-0-1-<run>-<owner>-0.parquet
    _delta_log/00000000000000000017.json        add actions of all files of the batch, and `txn` (app id, batch)

No jar takes part: tasks write by Arrow, the driver commits by delta-rs. Both actions are in one commit, so a batch is there in
whole or not at all, and the table itself remembers the last one. `delta_log` has the loop that makes it once.

Rows that change others by key (`Target.changes`) are staged apart from the table and merged into it by `delta_merge`, in a commit
of the same kind.

Rows are never computed again after the decision: what is added are the very files that the manifest names. Where the table has
changed in between so that they do not fit it any more, the batch is refused.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from tidelog.spark.outputs.delta_log import DeltaLog, facts_of, files_of, staged_by, staged_name, storage_faults
from tidelog.spark.outputs.delta_merge import history_plan, history_rows, key_bounds, upsert_plan
from tidelog.spark.outputs.delta_removals import removal_of, what_left
from tidelog.spark.outputs.delta_schema import (
    DeltaFacts,
    delta_fields,
    missing_columns,
    null_faults,
    rows_schema,
    schema_faults,
    table_faults,
)
from tidelog.spark.outputs.delta_stats import file_statistics
from tidelog.spark.outputs.file_output import stored_rows
from tidelog.spark.outputs.kind import (
    OutputKind,
    OutputRefusedError,
    OutputUnreachableError,
    RowsGoneError,
    StagingAttempt,
    Swept,
    try_place,
)
from tidelog.spark.outputs.manifest_store import decode_schema
from tidelog.spark.outputs.parquet_staging import ParquetAttempt, empty_as_null, owner_of
from tidelog.spark.outputs.replacement import ReplacedRows, files_to_replace
from tidelog.spark.outputs.staged import (
    DELETED,
    AttemptName,
    Changes,
    StagedBatch,
    StagedFile,
    StagedPart,
    Target,
    sum_checksums,
)
from tidelog.spark.outputs.staged_changes import (
    CHANGES_MAX_OPTION,
    StagedChanges,
    change_faults,
    changes_max,
    limit_faults,
    table_columns,
)
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.row_checksum import row_checksum

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction

# ruff: noqa: PLC0415 - Arrow and Delta's library are loaded by whoever has rows or a table

_APPEND_ONLY = "delta.appendOnly"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# A directory's name is for people: the log has the value. File systems stop at 255 bytes.
_DIRECTORY_CHARACTERS_MAX = 120
# Of one column that several runs add at once.
_WIDENINGS_MAX = 10


# Before it there is no scan of a table, which histories need, and a vacuum takes files that were removed from a directory with a
# per cent sign for files that were never there.
_LIBRARY_MIN = (1, 6, 6)


class FileFacts(msgspec.Struct, frozen=True):
    """What `StagedFile.stats` holds."""

    stats: str
    """Delta's own JSON, as the log will have it."""
    nulls: tuple[str, ...]
    """Columns that have a null in any row of the attempt so far."""


class DeltaTableKind(OutputKind):
    def __init__(self, target: Target, staging: str, staging_storage: dict[str, str]) -> None:
        super().__init__(target, staging, staging_storage)
        # Told of at once, and loaded only where there is a table to look at.
        if importlib.util.find_spec("deltalake") is None:
            raise ModuleNotFoundError(name="deltalake")
        if (found := _library_version()) < _LIBRARY_MIN:
            raise OutputRefusedError(
                f"delta needs deltalake {_dotted(_LIBRARY_MIN)} or later, and {_dotted(found)} is installed:"
                " pip install --upgrade tidelog[delta]"
            )
        self.log = DeltaLog(target)

    def validate(self, schema: pa.Schema) -> Sequence[str]:
        if found := self._row_faults(schema):
            return found
        table = self.log.load()
        return [] if table is None else table_faults(facts_of(table), self._columns(schema), self.target)

    def prepare(self, schema: pa.Schema) -> None:
        self._refuse(self._row_faults(schema))
        self._make(schema)
        try_place(self._storage, f"_delta_log/.tidelog-{self._owner}", self.target.place)

    def _make(self, schema: pa.Schema) -> None:
        columns = self._columns(schema)
        for _ in range(_WIDENINGS_MAX):
            table = self.log.load()
            if table is None:
                self.log.create(delta_fields(columns), self.target.partition_by)
                continue
            facts = facts_of(table)
            self._refuse(table_faults(facts, columns, self.target))
            missing = missing_columns(facts, columns)
            if not missing or self.log.widen(table, missing):
                return
        raise OutputUnreachableError(f"others changed {self.target.place} first, {_WIDENINGS_MAX} times in a row")

    def table_id(self) -> str:
        return facts_of(self.log.loaded()).table_id

    def open_attempt(self, name: AttemptName, schema: pa.Schema) -> StagingAttempt:
        if self.target.changes is not None:
            return DeltaAttempt(self._staging_storage, name, self._owner, schema, changes=self.target.changes)
        return DeltaAttempt(self._storage, name, self._owner, schema, self.target.partition_by)

    def check(self, batch: StagedBatch) -> None:
        self._check_table(facts_of(self.log.loaded()), batch)
        self._check_files(batch)
        if self.target.changes is not None:
            self._refuse(self._changes(batch, self.target.changes).faults())

    def end(self, batch: StagedBatch) -> None:
        manifest = batch.manifest
        # A batch without rows changes nothing, and needs no version of its own.
        if not manifest.files:
            return

        def step(table: DeltaTable, properties: CommitProperties) -> None:
            self._check_table(facts_of(table), batch)
            self._check_files(batch)
            if self.target.changes is None:
                self.log.add(table, _add_actions(manifest.files), properties)
            else:
                self._merge(table, batch, self.target.changes, properties)

        try:
            self.log.end_once(manifest.app_id, manifest.batch_id, step)
        except (OutputRefusedError, OutputUnreachableError):
            # Whoever was faster may have taken the staged files away since, also while they were read here.
            last = self.last_batch(manifest.app_id)
            if last is None or last < manifest.batch_id:
                raise
        if self.target.changes is not None:
            self.discard(manifest.parts)

    def replaceable(self, replaced: Sequence[ReplacedRows]) -> Sequence[str]:
        return self._replaced_in(self.log.loaded(), replaced)

    def replace(self, batch: StagedBatch, replaced: Sequence[ReplacedRows]) -> None:
        def step(table: DeltaTable, properties: CommitProperties) -> None:
            self._check_table(facts_of(table), batch)
            self._check_files(batch)
            removed = self._replaced_in(table, replaced)
            self.log.replace(table, removed, _add_actions(batch.manifest.files), properties)

        self.log.end_once(batch.manifest.app_id, batch.manifest.batch_id, step)

    def has_files(self, batch: StagedBatch) -> bool:
        there = files_of(self.log.loaded())
        return all(file.path in there for file in batch.manifest.files)

    def _replaced_in(self, table: DeltaTable, replaced: Sequence[ReplacedRows]) -> tuple[str, ...]:
        if facts_of(table).configuration.get(_APPEND_ONLY, "").lower() == "true":
            raise OutputRefusedError(f"{self.target.place} has {_APPEND_ONLY}: nothing is ever taken out of it")
        staged = {path: name for path in files_of(table) if (name := staged_by(path)) is not None}
        found = files_to_replace(staged, replaced, self.target.place)
        deletions = self.log.with_deletions(table)
        if changed := [path for path in found if path.rpartition("/")[2] in deletions]:
            raise OutputRefusedError(f"rows of {changed[0]} were deleted from {self.target.place} by others")
        return found

    def discard(self, parts: Sequence[StagedPart]) -> None:
        for part in parts:
            for file in part.files:
                self._rows_storage.delete(file.path)

    def last_batch(self, app_id: str) -> int | None:
        table = self.log.load()
        return None if table is None else table.transaction_version(app_id)

    def sweep(self, named: frozenset[str], *, older_than_s: float) -> Swept:
        storage, now_s = self._rows_storage, time.time()
        old = {
            file.path: file.bytes
            for file in storage.files()
            if (staged := staged_by(file.path)) is not None
            # Other sinks and pipelines may stage in the same directory.
            and staged[1] == self._owner
            and staged[0] not in named
            and now_s - file.modified_s >= older_than_s
        }
        orphans = list(old)
        if old and self.target.changes is None:
            # Most sweeps do not come so far as to read the table's whole log.
            table = self.log.load()
            orphans = [] if table is None else [path for path in self.log.never_named(table) if path in old]
        gone = [path for path in orphans if storage.delete(path)]
        return Swept(len(gone), sum(old[path] for path in gone))

    def gone(self) -> str:
        table = self.log.load()
        if table is None:
            return f"there is no Delta table at {self.target.place}"
        if self.target.table_id in {"", facts_of(table).table_id}:
            return ""
        return f"{self.target.place} was removed and made again since"

    def read_back(self, batch: StagedBatch) -> tuple[int, int]:
        manifest, table = batch.manifest, self.log.loaded()
        last = table.transaction_version(manifest.app_id)
        if manifest.files and (last is None or last < manifest.batch_id):
            raise RowsGoneError(f"{self.target.place} does not have batch {manifest.batch_id}")
        if self.target.changes is not None:
            raise OutputRefusedError(
                f"rows that are merged by key cannot be told apart in {self.target.place} by their batch"
            )
        there = files_of(table)
        self._check_removals(table, batch, there)
        schema = rows_schema(decode_schema(manifest.schema))
        rows = checksum = 0
        for file in manifest.files:
            # One that was compacted is kept as long as versions of before may be read.
            if file.path not in there and not self._storage.has(file.path):
                raise self._untold(batch, f"{file.path} was compacted, and is deleted since")
            for found in stored_rows(self._storage, file, schema):
                rows += found.num_rows
                checksum = sum_checksums((checksum, row_checksum(found)))
        return rows, checksum

    def _check_removals(self, table: DeltaTable, batch: StagedBatch, there: Collection[str]) -> None:
        """RowsGoneError where some of the batch's rows count no more."""
        manifest = batch.manifest
        deletions = self.log.with_deletions(table)
        for file in manifest.files:
            if file.path.rpartition("/")[2] in deletions:
                raise RowsGoneError(f"rows of {file.path} were deleted from {self.target.place}")
        missing = [file.path for file in manifest.files if file.path not in there]
        left = what_left(self.log.commits(table), missing, there)
        for path in missing:
            try:
                removal = removal_of(path, there, left)
            except OutputRefusedError as error:
                raise self._untold(batch, str(error)) from None
            if removal is not None:
                raise RowsGoneError(
                    f"rows of batch {manifest.batch_id} were removed from {self.target.place} or changed:"
                    f" {removal.operation} in version {removal.version}"
                )

    def _untold(self, batch: StagedBatch, why: str) -> OutputRefusedError:
        return OutputRefusedError(
            f"the rows of batch {batch.manifest.batch_id} cannot be told apart in {self.target.place} any more: {why}"
        )

    def _merge(self, table: DeltaTable, batch: StagedBatch, how: Changes, properties: CommitProperties) -> None:
        rows = rows_schema(decode_schema(batch.manifest.schema))
        columns, changes = table_columns(rows, how), self._changes(batch, how)
        bounds = key_bounds(changes, how.merge_on)
        if not how.history:
            plan = upsert_plan(columns, rows, how, bounds)
            self.log.merge(table, changes.reader(), plan, properties)
            return
        found = history_rows(table, changes, columns, how)
        self.log.merge(table, found.to_reader(), history_plan(columns, how, bounds), properties)

    def _changes(self, batch: StagedBatch, how: Changes) -> StagedChanges:
        rows = rows_schema(decode_schema(batch.manifest.schema))
        rows_max = changes_max(self.target.options)
        return StagedChanges(self._staging_storage, batch.manifest.files, rows, how, rows_max=rows_max)

    def _row_faults(self, schema: pa.Schema) -> list[str]:
        changes = self.target.changes
        found = storage_faults(self.target) + limit_faults(self.target)
        found += [
            f"there is no option {name} of a Delta table; known is {CHANGES_MAX_OPTION}"
            for name in self.target.options
            if name != CHANGES_MAX_OPTION
        ]
        if changes is not None:
            found += change_faults(schema, changes)
        return found or schema_faults(table_columns(schema, changes), self.target.partition_by)

    def _columns(self, schema: pa.Schema) -> pa.Schema:
        """What the table has of the rows."""
        return table_columns(rows_schema(schema), self.target.changes)

    def _check_table(self, facts: DeltaFacts, batch: StagedBatch) -> None:
        """Whatever the table may refuse, by its version that is loaded. New columns are there since `prepare`."""
        if self.target.table_id not in {"", facts.table_id}:
            raise OutputRefusedError(
                f"{self.target.place} was removed and made again since the query was started: rows of batch"
                f" {batch.manifest.batch_id} belong to the table that is gone"
            )
        columns = self._columns(decode_schema(batch.manifest.schema))
        settled = msgspec.structs.replace(self.target, widens=False)
        self._refuse(table_faults(facts, columns, settled))
        nulls = frozenset(name for file in batch.manifest.files for name in _facts(file).nulls)
        self._refuse(null_faults(facts, nulls, self.target.place))

    def _check_files(self, batch: StagedBatch) -> None:
        """The library adds files that are not there."""
        storage, files = self._rows_storage, batch.manifest.files
        found = storage.system.get_file_info([f"{storage.root}/{file.path}" for file in files])
        for file, info in zip(files, found, strict=True):
            if not info.is_file or info.size != file.bytes:
                raise OutputRefusedError(
                    f"{storage.root}/{file.path} is not what was staged: it was removed or changed"
                )

    @staticmethod
    def _refuse(faults: Sequence[str]) -> None:
        if faults:
            raise OutputRefusedError(faults[0])

    @property
    def _owner(self) -> str:
        return owner_of(self.staging)

    @property
    def _storage(self) -> Storage:
        return Storage.at(self.target.place, self.target.storage)

    @property
    def _staging_storage(self) -> Storage:
        return Storage.at(self.staging, self.staging_storage)

    @property
    def _rows_storage(self) -> Storage:
        """Where tasks have staged: beside the table's files, or apart from them what is merged into it."""
        return self._storage if self.target.changes is None else self._staging_storage


class DeltaAttempt:
    """A `StagingAttempt` whose files have the types and the statistics of Delta."""

    def __init__(
        self,
        storage: Storage,
        name: AttemptName,
        owner: str,
        schema: pa.Schema,
        partition_by: Sequence[str] = (),
        *,
        changes: Changes | None = None,
    ) -> None:
        """`changes`: rows that are merged, which lie apart from the table until then."""
        self._schema = rows_schema(schema)
        self._partition_by = tuple(partition_by)
        # Of a row that is deleted only the key is asked for, but in a history, which may have to remember it.
        self._passes_deleted = changes is not None and not changes.history and DELETED in schema.names
        self._nulls: set[str] = set()
        self._not_numbers: set[str] = set()
        prefix = "" if changes is None else f"batches/{name}/"

        def path_of(values: dict[str, str | None], n: int) -> str:
            return f"{prefix}{_directory(values)}{staged_name(str(name), owner, n)}"

        self._files = ParquetAttempt(
            storage,
            name,
            self._schema,
            partition_by,
            path_of=path_of,
            finished=self._finished,
            options={"store_schema": False},
        )

    def write(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self._as_written(batch)
        kept = rows
        if self._passes_deleted:
            kept = rows.filter(pc.not_equal(rows.column(DELETED).fill_null(False), pa.scalar(True)))
        self._nulls.update(
            name for name, column in zip(kept.schema.names, kept.columns, strict=True) if column.null_count
        )
        for field, column in zip(rows.schema, rows.columns, strict=True):
            if _has_not_numbers(column):
                self._not_numbers.add(field.name)
        self._files.write(rows)

    def hand_over(self) -> StagedPart:
        return self._files.hand_over()

    def abort(self) -> None:
        self._files.abort()

    def _as_written(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        columns = []
        for field in self._schema:
            column = batch.column(field.name).cast(field.type)
            columns.append(empty_as_null(column) if field.name in self._partition_by else column)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _finished(self, file: StagedFile, writer: Any) -> StagedFile:
        stats = file_statistics(writer.writer.metadata, file.rows, not_numbers=self._not_numbers)
        facts = FileFacts(stats, tuple(sorted(self._nulls)))
        partition = {name: self._partition_value(name, value) for name, value in file.partition.items()}
        return msgspec.structs.replace(file, stats=msgspec.json.encode(facts).decode(), partition=partition)

    def _partition_value(self, name: str, value: str | None) -> str | None:
        """Arrow's text as Delta writes it. Only of a time it differs, which is then in UTC."""
        found = self._schema.field(name).type
        if value is None or not hasattr(found, "tz") or found.tz is None:
            return value
        return value.replace(" ", "T")


@functools.cache
def _library_version() -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", importlib.metadata.version("deltalake"))
    return () if found is None else tuple(int(each) for each in found[0].split("."))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _add_actions(files: Iterable[StagedFile]) -> list[AddAction]:
    from deltalake.transaction import AddAction

    now_ms = int(time.time() * 1000)
    return [
        AddAction(
            path=file.path,
            size=file.bytes,
            partition_values=dict(file.partition),
            modification_time=now_ms,
            data_change=True,
            stats=_facts(file).stats,
        )
        for file in files
    ]


def _facts(file: StagedFile) -> FileFacts:
    return msgspec.json.decode(file.stats, type=FileFacts)


def _directory(values: dict[str, str | None]) -> str:
    # The log holds the path in percent encoding once more, which the library does.
    return "".join(
        f"{quote(name, safe='')}={_NO_VALUE if value is None else quote(value, safe='')}"[:_DIRECTORY_CHARACTERS_MAX]
        + "/"
        for name, value in values.items()
    )


def _has_not_numbers(column: pa.Array[Any]) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    return bool(pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py())
