"""Rows of one batch as an Iceberg table has them now, for audits; and what became of those that it has no more, by its
snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from tidelog.spark.outputs.iceberg_files import is_of, stored_rows
from tidelog.spark.outputs.kind import OutputRefusedError, RowsGoneError
from tidelog.spark.outputs.manifest_store import decode_schema
from tidelog.spark.outputs.staged import Manifest, StagedFile, sum_checksums
from tidelog.spark.row_checksum import row_checksum

_PATH_COLUMN = "file_path"


def batch_rows(table: Table, manifest: Manifest) -> tuple[int, int]:
    """How many, and their checksum. RowsGoneError where some are known to be gone, OutputRefusedError where nobody can tell."""
    files = manifest.files
    try:
        planned = list(table.scan().plan_files()) if files else []
    except ValueError as error:
        # Deletes by key, which PyIceberg does not read.
        raise OutputRefusedError(f"rows of batch {manifest.batch_id} cannot be told apart any more: {error}") from error
    tasks = [task for task in planned if any(is_of(file, task.file.file_path) for file in files)]
    missing = [file for file in files if not any(is_of(file, task.file.file_path) for task in tasks)]
    if missing:
        raise _removed(table, manifest, missing)
    if any(_has_deletions(table, task) for task in tasks):
        raise RowsGoneError(f"rows of batch {manifest.batch_id} were deleted by others since")
    return _counted(table, [task.file.file_path for task in tasks], decode_schema(manifest.schema))


def _removed(table: Table, manifest: Manifest, missing: Sequence[StagedFile]) -> RowsGoneError | OutputRefusedError:
    """Why the table has these files no more, by the newest snapshot that says so."""
    has = f"{'.'.join(table.name())} has {len(missing)} of {len(manifest.files)} files of batch {manifest.batch_id} no more"
    history = list(ancestors_of(table.current_snapshot(), table.metadata))
    for snapshot in history:
        if _names(table, snapshot, missing, ManifestEntryStatus.DELETED):
            done = snapshot.summary.operation if snapshot.summary is not None else None
            if done is Operation.REPLACE:
                return OutputRefusedError(
                    f"{has}: they were made into others, where rows of a batch cannot be told apart"
                )
            return RowsGoneError(f"{has}: rows of them were removed or changed by others")
    lineage = {each.snapshot_id for each in history}
    others = [each for each in table.metadata.snapshots if each.snapshot_id not in lineage]
    if any(_names(table, each, missing, ManifestEntryStatus.ADDED) for each in others):
        return RowsGoneError(f"{has}: it was set back to a version of before")
    return OutputRefusedError(f"{has}, and the snapshot that could say why has expired")


def _names(table: Table, snapshot: Snapshot, files: Sequence[StagedFile], status: ManifestEntryStatus) -> bool:
    """Whether the snapshot itself has added or deleted one of the files."""
    return any(
        entry.status == status and any(is_of(file, entry.data_file.file_path) for file in files)
        for manifest in snapshot.manifests(table.io)
        if manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    )


def _has_deletions(table: Table, task: FileScanTask) -> bool:
    """Whether a row of the file is deleted. A file of positions is planned for every data file that it may be about."""
    for each in task.delete_files:
        if each.content is not DataFileContent.POSITION_DELETES or each.file_format is not FileFormat.PARQUET:
            return True
        with table.io.new_input(each.file_path).open() as stream:
            paths = pq.read_table(cast("pa.NativeFile", stream), columns=[_PATH_COLUMN]).column(_PATH_COLUMN)
        if task.file.file_path in paths.to_pylist():
            return True
    return False


def _counted(table: Table, paths: Sequence[str], schema: pa.Schema) -> tuple[int, int]:
    if gone := [name for name in schema.names if name not in table.schema().column_names]:
        raise RowsGoneError(f"the table has the column {gone[0]} no more")
    rows = checksum = 0
    for path in paths:
        try:
            for batch in stored_rows(table, path):
                columns = [batch.column(field.name).cast(field.type) for field in schema]
                rows += batch.num_rows
                checksum = sum_checksums((checksum, row_checksum(pa.RecordBatch.from_arrays(columns, schema=schema))))
        except FileNotFoundError:
            raise RowsGoneError(f"{path} is gone") from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
            raise RowsGoneError(f"{path} is not the file that was written: {error}") from error
    return rows, checksum
