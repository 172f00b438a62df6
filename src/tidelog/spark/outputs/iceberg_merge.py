"""Changes of rows by key in an Iceberg table: upserts and deletes, or a history of every version, by writing files anew.

    1. plan the data files that keys of the changes may lie in, by what the table knows of each
    2. read their keys, and find the rows that changes are of; a change that is older than its row is left out, and a value that
       stays as it is (`kept_values`) is read of its row
    3. write those files once more without such rows, and the changes as files of their own
    4. one commit takes the old files out and the new ones in, with the number of the batch

Nothing of it is computed before the decision, and all of it again when somebody else was faster. In memory are the changes of a
batch, the keys of one file at a time, and in a history the versions of the keys that change.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.table import FileScanTask, Table, Transaction

from tidelog.spark.outputs.history import history_upserts
from tidelog.spark.outputs.iceberg_files import IcebergAttempt, data_file, foreign_file_faults, stem_of, stored_rows
from tidelog.spark.outputs.iceberg_schema import table_schema
from tidelog.spark.outputs.kept_values import kept_in_rows, with_values
from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.outputs.staged import DELETED, VALID_FROM, VALID_TO, Changes, StagedFile

_ROW, _CHANGE, _THEIRS, _OURS = "#row", "#change", "#theirs", "#ours"


class MergedFiles(NamedTuple):
    """What a merge makes of a table: to be committed in one step."""

    removed: list[FileScanTask]
    rewritten: list[StagedFile]
    """With the rows that are left of those."""
    added: list[StagedFile]


class _Matched(NamedTuple):
    task: FileScanTask
    rows: pa.Array[Any]
    """Positions in the file."""
    changes: pa.Array[Any]
    """What they are matched by."""


def merge(table: Table, changes: pa.Table, how: Changes, stem: str) -> MergedFiles:
    """Files for the outcome of the changes, written and not yet committed. `stem` is what their names begin with."""
    kinds = table_schema(table.schema())
    columns = pa.schema([field for field in kinds if field.name in {*changes.schema.names, *_ends(how)}])
    # By names from here on: the table may have lost columns that the marks count.
    staying = {
        row: tuple(name for name in names if name in columns.names) for row, names in kept_in_rows(changes).items()
    }
    changes = _as_in_table(changes, kinds)
    if how.history:
        changes = history_upserts(changes, _versions(table, changes, how, columns), how, staying)
        how, staying = Changes((*how.merge_on, VALID_FROM)), {}
    matched, stale = _match(table, changes, how)
    applies = pc.invert(pc.is_in(pa.array(range(changes.num_rows), pa.int64()), value_set=stale))
    if staying:
        changes = _filled(table, changes, matched, staying)
    removed, rewritten = [], []
    for each in matched:
        dropped = each.rows.filter(pc.take(applies, each.changes))
        if len(dropped):
            removed.append(each.task)
            rewritten += _written(table, _rest(table, each.task, dropped), _fresh(stem))
    kept = changes.filter(pc.and_(applies, _is_kept(changes)))
    added = _written(table, iter(kept.select(columns.names).to_batches(max_chunksize=65_536)), _fresh(stem))
    return MergedFiles(removed, rewritten, added)


def _as_in_table(changes: pa.Table, kinds: pa.Schema) -> pa.Table:
    """By the types that the table has; a column that it has no more is left out."""
    names = [name for name in changes.schema.names if name in {*kinds.names, DELETED}]
    found = [
        changes.column(name) if name == DELETED else changes.column(name).cast(kinds.field(name).type) for name in names
    ]
    return pa.table(found, names=names)


def _filled(
    table: Table, changes: pa.Table, matched: Sequence[_Matched], staying: Mapping[int, tuple[str, ...]]
) -> pa.Table:
    """Changes with the values of their rows that stay as they are."""
    found, taken = [], dict[str, dict[int, int]]()
    count = 0
    for each in matched:
        pairs: Any = zip(each.rows.to_pylist(), each.changes.to_pylist(), strict=True)
        wanted = {row: change for row, change in pairs if change in staying}
        if not wanted:
            continue
        # Rows of a file come in its order.
        for (_, change), place in zip(sorted(wanted.items()), range(count, count + len(wanted)), strict=True):
            for name in staying[change]:
                taken.setdefault(name, {})[change] = place
        count += len(wanted)
        stored = stored_rows(table, each.task.file.file_path)
        for batch, chosen in _positions(stored, pa.array(list(wanted), pa.int64())):
            found.append(_of_columns(batch.filter(chosen), changes.schema))
    return with_values(changes, pa.concat_tables(found), taken) if found else changes


def _of_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Null where a file is older than a column."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def stage_merge(transaction: Transaction, table: Table, files: MergedFiles, said: dict[str, str]) -> None:
    """Two snapshots of one commit: one without the old rows, and one with the new. The second passes over manifests that have
    nothing but what is gone, which would be kept for ever."""
    if files.removed:
        with transaction.update_snapshot(snapshot_properties=said).overwrite() as overwrite:
            for task in files.removed:
                overwrite.delete_data_file(task.file)
            for file in files.rewritten:
                overwrite.append_data_file(data_file(table, file))
    if files.added:
        with transaction.update_snapshot(snapshot_properties=said).merge_append() as append:
            for file in files.added:
                append.append_data_file(data_file(table, file))


def merge_faults(table: Table, changes: pa.Table, how: Changes) -> list[str]:
    """What keeps changes from being merged into the table as it is now."""
    kept = changes.filter(_is_kept(changes))
    for field in table.schema().fields:
        if field.required and field.name in kept.schema.names and kept.column(field.name).null_count:
            return [f"the table requires a value in the column {field.name}, and rows have none"]
    for task in _candidates(table, changes, how):
        if task.delete_files:
            return [
                "the table has delete files (merge-on-read), which are not merged with here: rewrite its data files first"
            ]
        if found := foreign_file_faults(table, task.file.file_path):
            return found
    return []


def _candidates(table: Table, changes: pa.Table, how: Changes) -> list[FileScanTask]:
    """Data files that may have a key of the changes. By whole numbers and text, whose bounds the table has exactly or wider."""
    if not changes.num_rows:
        return []
    chosen: BooleanExpression = AlwaysTrue()
    for name in how.merge_on:
        kind = changes.schema.field(name).type
        if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
            ends: Any = pc.min_max(changes.column(name)).as_py()
            chosen = And(chosen, _at_least(name, ends["min"]), _at_most(name, ends["max"]))
    return list(table.scan(row_filter=chosen).plan_files())


def _at_least(name: str, least: Any) -> BooleanExpression:
    return GreaterThanOrEqual(Reference(name), least)  # type: ignore[call-arg]


def _at_most(name: str, greatest: Any) -> BooleanExpression:
    return LessThanOrEqual(Reference(name), greatest)  # type: ignore[call-arg]


def _match(table: Table, changes: pa.Table, how: Changes) -> tuple[list[_Matched], pa.Array[Any]]:
    """Rows of the table that changes are of, and the changes that are older than theirs."""
    kinds = table_schema(table.schema())
    names = [*how.merge_on, *([how.sequence_by] if how.sequence_by else [])]
    short = [*(f"k{n}" for n in range(len(how.merge_on))), *([_OURS] if how.sequence_by else [])]
    ours = pa.table([changes.column(name).cast(kinds.field(name).type) for name in names], names=short)
    ours = ours.append_column(_CHANGE, pa.array(range(changes.num_rows), pa.int64()))
    matched: list[_Matched] = []
    stale: list[Any] = [pa.array([], pa.int64())]
    for task in _candidates(table, changes, how):
        _check_readable(table, task)
        found = _joined(table, task, names, kinds, ours)
        if how.sequence_by:
            older: Any = pc.greater(cast("Any", found.column(_THEIRS)), found.column(_OURS)).fill_null(False)
            stale.append(found.column(_CHANGE).filter(older).combine_chunks())
        if found.num_rows:
            rows, by = (found.column(name).combine_chunks() for name in (_ROW, _CHANGE))
            matched.append(_Matched(task, rows, by))
    return matched, pa.concat_arrays(stale)


def _joined(table: Table, task: FileScanTask, names: Sequence[str], kinds: pa.Schema, ours: pa.Table) -> pa.Table:
    """Of one file: positions of rows and changes that have the same key."""
    keys = [name for name in ours.schema.names if name.startswith("k")]
    read = list(stored_rows(table, task.file.file_path, names))
    columns = []
    for name in names:
        kind = kinds.field(name).type
        parts = [
            batch.column(name).cast(kind) if name in batch.schema.names else pa.nulls(batch.num_rows, kind)
            for batch in read
        ]
        columns.append(pa.chunked_array(parts, kind))
    theirs = pa.table(columns, names=[*keys, *([_THEIRS] if len(names) > len(keys) else [])])
    theirs = theirs.append_column(_ROW, pa.array(range(theirs.num_rows), pa.int64()))
    return theirs.join(ours, keys=keys, join_type="inner")


def _versions(table: Table, changes: pa.Table, how: Changes, columns: pa.Schema) -> pa.Table:
    """What a history has of the keys that change."""
    found = [columns.empty_table()]
    matched, _ = _match(table, changes, Changes(how.merge_on))
    for each in matched:
        wanted = pc.unique(each.rows)
        for batch, chosen in _positions(stored_rows(table, each.task.file.file_path), wanted):
            rows = batch.filter(chosen)
            found.append(pa.table([rows.column(field.name).cast(field.type) for field in columns], schema=columns))
    return pa.concat_tables(found)


def _rest(table: Table, task: FileScanTask, dropped: pa.Array[Any]) -> Iterator[pa.RecordBatch]:
    for batch, chosen in _positions(stored_rows(table, task.file.file_path), dropped):
        left = batch.filter(pc.invert(chosen))
        if left.num_rows:
            yield left


def _positions(
    batches: Iterator[pa.RecordBatch], rows: pa.Array[Any]
) -> Iterator[tuple[pa.RecordBatch, pa.Array[Any]]]:
    """Each batch of a file, with which of its rows are among these positions."""
    start = 0
    for batch in batches:
        here = pa.array(range(start, start + batch.num_rows), pa.int64())
        start += batch.num_rows
        yield batch, pc.is_in(here, value_set=rows)


def _written(table: Table, batches: Iterator[pa.RecordBatch], stem: str) -> list[StagedFile]:
    attempt: IcebergAttempt | None = None
    for batch in batches:
        attempt = attempt or IcebergAttempt(table, batch.schema, stem, stem)
        attempt.write(batch)
    return [] if attempt is None else list(attempt.hand_over().files)


def _check_readable(table: Table, task: FileScanTask) -> None:
    faults = foreign_file_faults(table, task.file.file_path)
    if task.delete_files:
        faults = ["the table has delete files (merge-on-read) since, which are not merged with here"]
    if faults:
        raise OutputRefusedError(faults[0])


def _is_kept(changes: pa.Table) -> Any:
    if DELETED not in changes.schema.names:
        return pa.array([True] * changes.num_rows, pa.bool_())
    deleted: Any = changes.column(DELETED)
    return pc.invert(deleted.fill_null(False))


def _ends(how: Changes) -> tuple[str, ...]:
    return (VALID_FROM, VALID_TO) if how.history else ()


def _fresh(stem: str) -> str:
    """Under no name that anybody has used: whoever is asked to end a batch again writes other files."""
    return f"{stem}.{uuid.uuid4().hex[:12]}"


def merge_stem(owner: str, batch_id: int) -> str:
    return stem_of(owner, f"merge-{batch_id:010d}")


def delete_written(table: Table, files: MergedFiles | None) -> None:
    """Of a commit that was certainly not made. What cannot be deleted is swept later."""
    for file in () if files is None else (*files.rewritten, *files.added):
        try:
            table.io.delete(file.path)
        except OSError:
            continue
