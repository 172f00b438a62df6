"""One row a key out of rows that come sorted by key and sequence: the last one. Arrow in, Arrow out.

    changes = LastChanges(Changes(("id",), "at"))
    for batch in batches:
        write(changes.push(batch))
    write(changes.finish())

The last row of a batch is held back: the next batch may begin with a later one of the same key. What a row leaves out because it
was not changed is taken from the row before it of the same key (`kept_values`). A history keeps every row; beside that it is only
looked at here whether each has a key and a place in the sequence.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tidelog.spark.errors import UnwritableError
from tidelog.spark.outputs.kept_values import folded
from tidelog.spark.outputs.staged import UNCHANGED, Changes

if TYPE_CHECKING:
    import pyarrow as pa

# ruff: noqa: PLC0415 - Arrow is loaded by tasks that have rows to change


class LastChanges:
    def __init__(self, sink: str, changes: Changes) -> None:
        self._sink = sink
        self._changes = changes
        self._held: pa.RecordBatch | None = None

    def push(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Those rows that can be told to be the last of their key. UnwritableError for a row without a key or a sequence, and
        for a second one of a key where nothing says which is the last."""
        self._check(batch)
        is_folded = UNCHANGED in batch.schema.names
        if not batch.num_rows or (self._changes.history and not is_folded):
            return batch
        import pyarrow as pa
        import pyarrow.compute as pc

        rows, held = batch, self._held
        if held is not None:
            (rows,) = pa.Table.from_batches([held, batch]).combine_chunks().to_batches()
        is_last = self._differs_from_next(rows)
        if is_folded:
            rows = folded(rows, [True, *map(bool, is_last.to_pylist())])
        self._held = rows.slice(rows.num_rows - 1)
        if self._changes.history:
            # What was held has been passed on already.
            return rows.slice(0 if held is None else 1)
        if rows.num_rows == 1:
            return rows.slice(0, 0)
        if self._changes.sequence_by is None and not pc.all(is_last).as_py():
            index = is_last.index(pa.scalar(False)).as_py()
            key = {name: rows.column(name)[index].as_py() for name in self._changes.merge_on}
            raise UnwritableError(
                f"the sink {self._sink} gets two rows of the key {key!r:.200} in one batch, and nothing says which of them is "
                "the last: give sequence_by=, or make one row of them"
            )
        return rows.slice(0, rows.num_rows - 1).filter(is_last)

    def finish(self) -> pa.RecordBatch | None:
        """The last row of all; None where there is none left."""
        held, self._held = self._held, None
        return None if self._changes.history else held

    def _differs_from_next(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        import pyarrow.compute as pc

        count = rows.num_rows - 1
        columns = [rows.column(name) for name in self._changes.merge_on]
        return functools.reduce(pc.or_, (pc.not_equal(each.slice(0, count), each.slice(1, count)) for each in columns))

    def _check(self, batch: pa.RecordBatch) -> None:
        sequence = self._changes.sequence_by
        for name in (*self._changes.merge_on, *([] if sequence is None else [sequence])):
            if batch.column(name).null_count:
                what = "sequence_by" if name == sequence else "merge_on"
                raise UnwritableError(
                    f"the sink {self._sink} gets a row without {name}, which is its {what}: leave such rows out by where="
                )
