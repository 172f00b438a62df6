"""The kind `iceberg`: tasks write data files beside the table's own, and one commit of the catalog makes them count, together
with the number of the batch as a property of the table.

    tidelog.batch.<pipeline>/<sink>/<generation> = 42

Not in the snapshot alone: snapshots expire. The commit is made from the version that was loaded and compared, and the catalog
refuses it where the table's main branch has moved since. Then it is loaded and compared again: a zombie that wakes between check
and commit adds nothing, and neither does one whose answer was lost. PyIceberg's own way with conflicts is kept out
(`iceberg_catalog.OneTry`).

Rows that change others by key (`Target.changes`) are staged apart from the table, and merged into it by `iceberg_merge` in a
commit of the same kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import cast

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import SetPropertiesUpdate

from tidelog.spark.outputs import iceberg_catalog, iceberg_files
from tidelog.spark.outputs.iceberg_batch_rows import batch_rows
from tidelog.spark.outputs.iceberg_catalog import ConflictError, OneTry, commit_on_head, loaded, opened, translated
from tidelog.spark.outputs.iceberg_files import (
    IcebergAttempt,
    attempt_of,
    data_file,
    data_location,
    data_storage,
    description_of,
    stem_of,
    stored_rows,
)
from tidelog.spark.outputs.iceberg_merge import (
    MergedFiles,
    delete_written,
    merge,
    merge_faults,
    merge_stem,
    stage_merge,
)
from tidelog.spark.outputs.iceberg_replacement import replaced_tasks
from tidelog.spark.outputs.iceberg_schema import check_partition, normal_schema, widening
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
from tidelog.spark.outputs.parquet_staging import ParquetAttempt, owner_of
from tidelog.spark.outputs.replacement import ReplacedRows
from tidelog.spark.outputs.staged import (
    VALID_FROM,
    VALID_TO,
    AttemptName,
    Changes,
    Manifest,
    StagedBatch,
    StagedFile,
    StagedPart,
)
from tidelog.spark.outputs.staged_changes import (
    StagedChanges,
    change_faults,
    changes_max,
    limit_faults,
    table_columns,
)
from tidelog.spark.outputs.storage import Storage, StoredFile

# Others that commit are faster so often only where they do nothing else.
TRIES_MAX = 20
# Answers that do not come take a minute each.
UNKNOWN_MAX = 3
_PROPERTY = "tidelog.batch."
# Java's default; PyIceberg's is a manifest a batch, for ever. And files of metadata are kept for ever by either.
_NEW_TABLE = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class IcebergTableKind(OutputKind):
    def validate(self, schema: pa.Schema) -> Sequence[str]:
        found = [
            f"partition_by names the column {name}, which the rows do not have"
            for name in self.target.partition_by
            if name not in schema.names
        ]
        found += limit_faults(self.target)
        if self.target.changes is not None:
            found += change_faults(schema, self.target.changes)
        if found:
            return found
        try:
            normal_schema(self._columns(schema))
            with translated(self.target):
                iceberg_catalog.identifier(self.target)
                if not iceberg_catalog.is_there(self.target):
                    return []
            with opened(self.target) as catalog:
                table = _table_or_none(catalog, self.target.table)
                if table is not None:
                    self._check_table(table, schema)
        except (OutputRefusedError, OutputUnreachableError) as error:
            found.append(str(error))
        return found

    def prepare(self, schema: pa.Schema) -> None:
        if wrong := self.validate(schema):
            raise OutputRefusedError(wrong[0])
        with opened(self.target, makes_tables=True) as catalog:
            for _ in range(TRIES_MAX):
                table = _table_or_none(catalog, self.target.table)
                try:
                    if table is None:
                        self._create(catalog, self._columns(schema))
                    elif (change := self._check_table(table, schema)) is not None:
                        _commit_once(table, change)
                except (ConflictError, TableAlreadyExistsError):
                    continue
                table = loaded(catalog, self.target)
                try_place(data_storage(table), f".tidelog-{self._owner}", data_location(table))
                return
        raise self._outpaced("was changed by others")

    def table_id(self) -> str:
        with opened(self.target) as catalog:
            return str(loaded(catalog, self.target).metadata.table_uuid)

    def open_attempt(self, name: AttemptName, schema: pa.Schema) -> StagingAttempt:
        if self.target.changes is not None:
            return ParquetAttempt(self._changes_storage, name, schema)
        with opened(self.target) as catalog:
            table = loaded(catalog, self.target)
            return IcebergAttempt(table, schema, str(name), stem_of(self._owner, str(name)))

    def check(self, batch: StagedBatch) -> None:
        with opened(self.target) as catalog:
            table = loaded(catalog, self.target)
            self._check_identity(table, batch.manifest)
            if self._check_table(table, decode_schema(batch.manifest.schema)) is not None:
                raise OutputRefusedError(
                    f"the table {self.target.table} has other columns than when the query was started"
                )
            if self.target.changes is None:
                _check_files(table, batch)
                _check_staged(table, batch)
            else:
                self._check_changes(table, batch, self.target.changes)

    def _check_changes(self, table: Table, batch: StagedBatch, how: Changes) -> None:
        for file in batch.manifest.files:
            if self._changes_storage.size(file.path) != file.bytes:
                raise OutputRefusedError(
                    f"{self.staging}/{file.path} is not what was staged: it was removed or changed"
                )
        changes = self._changes(batch, how)
        if faults := changes.faults() or merge_faults(table, changes.table(), how):
            raise OutputRefusedError(faults[0])

    def end(self, batch: StagedBatch) -> None:
        self._end_once(batch.manifest, lambda table: self._commit(table, batch))
        if self.target.changes is not None:
            self.discard(batch.manifest.parts)

    def _end_once(self, manifest: Manifest, commit: Callable[[Table], None]) -> None:
        unknown = 0
        with opened(self.target) as catalog:
            for _ in range(TRIES_MAX):
                table = loaded(catalog, self.target)
                last = _last_batch(table, manifest.app_id)
                if last is not None and last >= manifest.batch_id:
                    break
                try:
                    with translated(self.target):
                        commit(table)
                except ConflictError:
                    continue
                except OutputUnreachableError:
                    # Nobody knows. The table does, and where a commit is still on its way, only one of two is taken.
                    unknown += 1
                    if unknown >= UNKNOWN_MAX:
                        raise
                    continue
                break
            else:
                raise self._outpaced(f"does not take batch {manifest.batch_id}")

    def replaceable(self, replaced: Sequence[ReplacedRows]) -> Sequence[str]:
        with opened(self.target) as catalog:
            return [task.file.file_path for task in replaced_tasks(loaded(catalog, self.target), replaced)]

    def replace(self, batch: StagedBatch, replaced: Sequence[ReplacedRows]) -> None:
        self._end_once(batch.manifest, lambda table: self._commit_replacement(table, batch, replaced))

    def has_files(self, batch: StagedBatch) -> bool:
        with opened(self.target) as catalog:
            there = [task.file.file_path for task in loaded(catalog, self.target).scan().plan_files()]
        return all(any(iceberg_files.is_of(file, path) for path in there) for file in batch.manifest.files)

    def _commit_replacement(self, table: Table, batch: StagedBatch, replaced: Sequence[ReplacedRows]) -> None:
        manifest = batch.manifest
        self._check_identity(table, manifest)
        _check_files(table, batch)
        old = replaced_tasks(table, replaced)
        new = self._for_spec(table, batch)
        if not old and not new:
            _commit_property(table, manifest.app_id, manifest.batch_id)
            return
        transaction = table.transaction()
        transaction.set_properties({property_of(manifest.app_id): str(manifest.batch_id)})
        said = {"tidelog.app": manifest.app_id, "tidelog.batch": str(manifest.batch_id)}
        stage_merge(transaction, table, MergedFiles(old, new if old else [], [] if old else new), said)
        _commit_once(table, transaction, manifest)

    def _commit(self, table: Table, batch: StagedBatch) -> None:
        """One commit. ConflictError where the table has moved on."""
        manifest, how = batch.manifest, self.target.changes
        self._check_identity(table, manifest)
        transaction = table.transaction()
        transaction.set_properties({property_of(manifest.app_id): str(manifest.batch_id)})
        said = {"tidelog.app": manifest.app_id, "tidelog.batch": str(manifest.batch_id)}
        if not manifest.files:
            _commit_property(table, manifest.app_id, manifest.batch_id)
        elif how is None:
            _check_files(table, batch)
            with transaction.update_snapshot(snapshot_properties=said).merge_append() as append:
                for file in self._for_spec(table, batch):
                    append.append_data_file(data_file(table, file))
            _commit_once(table, transaction, manifest)
        else:
            self._commit_changes(table, transaction, batch, said)

    def _commit_changes(self, table: Table, transaction: Transaction, batch: StagedBatch, said: dict[str, str]) -> None:
        assert self.target.changes is not None
        manifest, how = batch.manifest, self.target.changes
        self._check_merged(table, decode_schema(manifest.schema), how)
        try:
            changes = self._changes(batch, how).table()
        except FileNotFoundError as error:
            # Whoever was faster has merged and deleted them, or they are gone.
            table.refresh()
            last = _last_batch(table, manifest.app_id)
            if last is not None and last >= manifest.batch_id:
                raise ConflictError(str(error)) from error
            raise OutputRefusedError(
                f"changes of batch {manifest.batch_id} are gone from {self.staging}: {error}"
            ) from error
        files = merge(table, changes, how, merge_stem(self._owner, manifest.batch_id))
        if not files.removed and not files.added:
            _commit_property(table, manifest.app_id, manifest.batch_id)
            return
        stage_merge(transaction, table, files, said)
        _commit_once(table, transaction, manifest, files)

    def discard(self, parts: Sequence[StagedPart]) -> None:
        files = [file.path for part in parts for file in part.files]
        if self.target.changes is not None:
            for part in parts:
                self._changes_storage.delete_directory(f"batches/{part.attempt}")
        elif files:
            with suppress(OutputRefusedError, OutputUnreachableError), opened(self.target) as catalog:
                io = loaded(catalog, self.target).io
                for path in files:
                    with suppress(OSError):
                        io.delete(path)

    def last_batch(self, app_id: str) -> int | None:
        with opened(self.target) as catalog:
            return _last_batch(loaded(catalog, self.target), app_id)

    def sweep(self, named: frozenset[str], *, older_than_s: float) -> Swept:
        # Listed before the table is loaded: what is committed in between is named by the table.
        with opened(self.target) as catalog:
            storage = data_storage(loaded(catalog, self.target))
            now_s = time.time()
            found = {
                file.path: file
                for file in storage.files()
                if now_s - file.modified_s >= older_than_s
                and (attempt := attempt_of(self._owner, file.path)) is not None
                and attempt not in named
            }
            for path in _all_data_files(loaded(catalog, self.target)) if found else ():
                found.pop(path.rpartition("/")[2], None)
            gone = [file for file in found.values() if storage.delete(file.path)]
            gone += self._swept_changes(named, older_than_s) if self.target.changes is not None else []
        return Swept(len(gone), sum(file.bytes for file in gone))

    def _swept_changes(self, named: frozenset[str], older_than_s: float) -> list[StoredFile]:
        now_s = time.time()
        return [
            file
            for file in list(self._changes_storage.files("batches"))
            if file.path.split("/")[1] not in named
            and now_s - file.modified_s >= older_than_s
            and self._changes_storage.delete(file.path)
        ]

    def gone(self) -> str:
        with translated(self.target):
            if not iceberg_catalog.is_there(self.target):
                return f"there is no catalog {iceberg_catalog.shown(self.target)}"
        with opened(self.target) as catalog:
            table = _table_or_none(catalog, self.target.table)
            if table is None:
                return f"there is no table {self.target.table} in the catalog {iceberg_catalog.shown(self.target)}"
            if self.target.table_id in {"", str(table.metadata.table_uuid)}:
                return ""
        return f"{self.target.table} was dropped and made again since"

    def read_back(self, batch: StagedBatch) -> tuple[int, int]:
        with opened(self.target) as catalog:
            table = loaded(catalog, self.target)
            last = _last_batch(table, batch.manifest.app_id)
            if last is None or last < batch.manifest.batch_id:
                raise RowsGoneError(f"the table {self.target.table} does not have batch {batch.manifest.batch_id}")
            if self.target.changes is not None:
                raise OutputRefusedError(
                    f"rows that are merged by key cannot be told apart in {self.target.table} by their batch"
                )
            return batch_rows(table, batch.manifest)

    def _check_table(self, table: Table, schema: pa.Schema) -> Transaction | None:
        iceberg_files.check_spec(table)
        check_partition(table, self.target.partition_by)
        data_storage(table)
        if self.target.changes is not None:
            self._check_others(table, schema)
        return widening(table, self._columns(schema), widens=self.target.widens)

    def _check_identity(self, table: Table, manifest: Manifest) -> None:
        if self.target.table_id not in {"", str(table.metadata.table_uuid)}:
            raise _made_again(table, manifest)

    def _check_merged(self, table: Table, schema: pa.Schema, how: Changes) -> None:
        """What a merge needs of the table, however it was changed since the batch was checked."""
        iceberg_files.check_spec(table)
        self._check_others(table, schema)
        ordered = [how.sequence_by] if how.sequence_by is not None else []
        needed = [*how.merge_on, *ordered, *((VALID_FROM, VALID_TO) if how.history else ())]
        if gone := [name for name in needed if name not in table.schema().column_names]:
            raise OutputRefusedError(f"the table has no column {gone[0]} any more, by which changes are merged into it")

    def _check_others(self, table: Table, schema: pa.Schema) -> None:
        others = [field.name for field in table.schema().fields if field.name not in self._columns(schema).names]
        if others:
            raise OutputRefusedError(
                f"the table has the column {others[0]}, which the rows do not have: a merge would empty it"
            )

    def _columns(self, schema: pa.Schema) -> pa.Schema:
        """What the table has of the rows."""
        return table_columns(schema, self.target.changes)

    def _changes(self, batch: StagedBatch, how: Changes) -> StagedChanges:
        rows = normal_schema(decode_schema(batch.manifest.schema))
        rows_max = changes_max(self.target.options)
        return StagedChanges(self._changes_storage, batch.manifest.files, rows, how, rows_max=rows_max)

    @cached_property
    def _changes_storage(self) -> Storage:
        """Where rows that are merged lie until then."""
        return Storage.at(self.staging, self.staging_storage)

    def _create(self, catalog: Catalog, schema: pa.Schema) -> None:
        parts = iceberg_catalog.identifier(self.target)
        for length in range(1, len(parts)):
            if not catalog.namespace_exists(parts[:length]):
                with suppress(NamespaceAlreadyExistsError):
                    catalog.create_namespace(parts[:length])
        try:
            made = catalog.create_table_transaction(parts, normal_schema(schema), properties=_NEW_TABLE)
            if self.target.partition_by:
                with made.update_spec() as spec:
                    for name in self.target.partition_by:
                        spec.add_identity(name)
        except (ValueError, TypeError, UnsupportedPyArrowTypeException) as error:
            raise OutputRefusedError(f"the table {self.target.table} cannot be made for these rows: {error}") from error
        made.commit_transaction()

    def _for_spec(self, table: Table, batch: StagedBatch) -> list[StagedFile]:
        """The batch's files; written once more where the table has other partitions since they were staged."""
        spec_id = table.spec().spec_id
        files = []
        for part in batch.manifest.parts:
            for file in part.files:
                if description_of(file).spec_id == spec_id:
                    files.append(file)
                    continue
                attempt = None
                for rows in stored_rows(table, file.path):
                    attempt = attempt or IcebergAttempt(table, rows.schema, part.attempt, iceberg_files.again(file))
                    attempt.write(rows)
                files += attempt.hand_over().files if attempt is not None else ()
        return files

    def _outpaced(self, what: str) -> OutputUnreachableError:
        where = iceberg_catalog.shown(self.target)
        return OutputUnreachableError(f"the table {self.target.table} of {where} {what}, {TRIES_MAX} times in a row")

    @property
    def _owner(self) -> str:
        return owner_of(self.staging)


def _table_or_none(catalog: Catalog, name: str) -> Table | None:
    with suppress(NoSuchTableError, NoSuchNamespaceError):
        return catalog.load_table(name)
    return None


def _last_batch(table: Table, app_id: str) -> int | None:
    text = table.properties.get(property_of(app_id))
    if text is None:
        return None
    if not text.isdecimal():
        raise OutputRefusedError(f"the table's property {property_of(app_id)} is {text[:40]!r}, which is no batch")
    return int(text)


def property_of(app_id: str) -> str:
    return f"{_PROPERTY}{app_id.removeprefix('tidelog/')}"


def _check_files(table: Table, batch: StagedBatch) -> None:
    """OutputRefusedError where the ids of fields in the files are of another table."""
    for file in batch.manifest.files:
        if description_of(file).table_uuid != str(table.metadata.table_uuid):
            raise _made_again(table, batch.manifest)


def _made_again(table: Table, manifest: Manifest) -> OutputRefusedError:
    return OutputRefusedError(
        f"{'.'.join(table.name())} was dropped and made again since batch {manifest.batch_id} was staged for it"
    )


def _check_staged(table: Table, batch: StagedBatch) -> None:
    """OutputRefusedError where files are not as they were staged, or the table has dropped a column of theirs."""
    ids = {field.field_id for field in table.schema().fields}
    for file in batch.manifest.files:
        if not ids.issuperset(description_of(file).field_ids):
            raise OutputRefusedError(f"a column of {'.'.join(table.name())} was dropped since rows were staged with it")
        found = table.io.new_input(file.path)
        if not found.exists() or len(found) != file.bytes:
            raise OutputRefusedError(f"{file.path} is not what was staged: it was removed or changed")


def _commit_property(table: Table, app_id: str, batch_id: int) -> None:
    """No snapshot for nothing. The branch is named all the same: a zombie must not set the property back."""
    commit_on_head(table, SetPropertiesUpdate(updates={property_of(app_id): str(batch_id)}))


def _commit_once(
    table: Table, transaction: Transaction, manifest: Manifest | None = None, merged: MergedFiles | None = None
) -> None:
    """ConflictError where the catalog says that the table has moved on. What was written for the commit of a batch is removed
    then, if it is certain that the commit was not made and cannot be any more."""
    head, catalog = _head(table), table.catalog
    asked = OneTry(catalog)
    table.catalog = cast("Catalog", asked)
    try:
        transaction.commit_transaction()
    except ConflictError:
        table.catalog = catalog
        # What cannot be removed is litter and no harm: a sweep comes.
        with suppress(Exception):
            table.refresh()
            if manifest is not None and _is_lost(table, manifest, head):
                _remove_manifests(table, asked)
                delete_written(table, merged)
        raise


def _is_lost(table: Table, manifest: Manifest, head: int | None) -> bool:
    """Whether a commit upon `head` that was answered with a conflict is in no version of the table, nor will be. The answer alone
    does not say it: a request that something in between has sent twice is refused for what it has done itself. The batch's number
    came with the commit, and one that is still on its way finds another head."""
    last = _last_batch(table, manifest.app_id)
    return _head(table) != head and (last is None or last < manifest.batch_id)


def _head(table: Table) -> int | None:
    found = table.metadata.refs.get(MAIN_BRANCH)
    return None if found is None else found.snapshot_id


def _remove_manifests(table: Table, asked: OneTry) -> None:
    """Of snapshots that the table does not have."""
    for snapshot in asked.snapshots:
        if table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
            continue
        own = [each for each in snapshot.manifests(table.io) if each.added_snapshot_id == snapshot.snapshot_id]
        for path in [snapshot.manifest_list, *(each.manifest_path for each in own)]:
            table.io.delete(path)


def _all_data_files(table: Table) -> Iterator[str]:
    """Of every snapshot that the table still has; each manifest is read once."""
    seen = set()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                    yield entry.data_file.file_path
