"""Data files of batches in an Iceberg table that others are to take the place of, found by their names."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table import FileScanTask, Table

from tidelog.spark.outputs.iceberg_files import attempt_of
from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.outputs.replacement import ReplacedRows, files_to_replace


def replaced_tasks(table: Table, replaced: Sequence[ReplacedRows]) -> list[FileScanTask]:
    """OutputRefusedError where some of them are not there, or others have deleted rows of theirs."""
    place = ".".join(table.name())
    try:
        tasks = {task.file.file_path: task for task in table.scan().plan_files()}
    except ValueError as error:
        # Deletes by key, which PyIceberg does not read.
        raise OutputRefusedError(f"rows of a batch cannot be told apart in {place}: {error}") from error
    staged: dict[str, tuple[str, str]] = {}
    for path in tasks:
        name = path.rpartition("/")[2]
        owner = name.partition("-")[0]
        attempt = attempt_of(owner, name)
        if attempt is not None:
            staged[path] = (attempt, owner)
    found = [tasks[path] for path in files_to_replace(staged, replaced, place)]
    if any(task.delete_files for task in found):
        raise OutputRefusedError(f"rows of these batches were deleted from {place} by others")
    return found
