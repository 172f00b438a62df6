"""Rows of one attempt as Parquet files under names that nobody reads yet: what kinds stage that have no place of their own for
rows.

    batches/0000000042-00003-0-1-<run>/<n>.parquet

One file for each value of `partition_by`, and another one once it is as large as readers like. A file is finished and synced
before it is handed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.spark.outputs.staged import AttemptName, StagedFile, StagedPart, sum_checksums
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.row_checksum import row_checksum

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

FILE_BYTES_MAX = 256 * 1024 * 1024
# Open at once by one attempt; the largest is finished to make room for another.
OPEN_FILES_MAX = 64


def owner_of(staging: str) -> str:
    """A short name for the sink of a checkpoint that stages there. Names of files have it where several sinks may write to one
    place: attempts at two sinks of a pipeline have the same name."""
    return hashlib.sha256(staging.rstrip("/").encode()).hexdigest()[:12]


class _OpenFile:
    def __init__(self, path: str, partition: dict[str, str | None], sink: Any, writer: ParquetWriter) -> None:
        self.path = path
        self.partition = partition
        self.sink = sink
        self.writer = writer
        self.rows = 0


class ParquetAttempt:
    """A `StagingAttempt` that writes Parquet below a storage."""

    def __init__(
        self,
        storage: Storage,
        name: AttemptName | str,
        schema: pa.Schema,
        partition_by: Sequence[str] = (),
        *,
        file_schema: pa.Schema | None = None,
        path_of: Callable[[dict[str, str | None], int], str] | None = None,
        finished: Callable[[StagedFile, Any], StagedFile] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """`path_of` names the nth file of partition values; `finished` adds what a kind needs to know, from Parquet's own
        metadata. Columns of `partition_by` are in the path alone, as tables of this kind have them, but where `file_schema` says
        otherwise."""
        import pyarrow as pa  # noqa: PLC0415 - with the first row

        self._storage = storage
        self._name = name
        self.partition_by = tuple(partition_by)
        self._file_schema = file_schema or pa.schema([each for each in schema if each.name not in self.partition_by])
        self._path_of = path_of or (lambda _values, n: f"batches/{name}/{n}.parquet")
        self._finished = finished
        self._options = options or {}
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}
        self._files: list[StagedFile] = []
        self._started = 0
        self._rows = 0
        self._checksum = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._rows += batch.num_rows
        self._checksum = sum_checksums((self._checksum, row_checksum(batch)))
        for values, rows in self._by_partition(batch):
            found = self._open.get(values) or self._begin(values)
            found.writer.write_batch(rows)
            found.rows += rows.num_rows
            if found.sink.tell() >= FILE_BYTES_MAX:
                self._finish(values)

    def hand_over(self) -> StagedPart:
        for values in list(self._open):
            self._finish(values)
        return StagedPart(str(self._name), self._rows, self._checksum, tuple(self._files))

    def abort(self) -> None:
        for found in self._open.values():
            found.writer.close()
            found.sink.close()
        paths = [*(each.path for each in self._files), *(each.path for each in self._open.values())]
        self._open.clear()
        for path in paths:
            self._storage.delete(path)

    def _by_partition(self, batch: pa.RecordBatch) -> list[tuple[tuple[str | None, ...], pa.RecordBatch]]:
        """The rows of each file, as they are written."""
        if not self.partition_by:
            return [((), batch)]
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        kept = batch.select([name for name in batch.schema.names if name not in self.partition_by])
        return divided(kept, [pc.cast(batch.column(name), pa.string()) for name in self.partition_by])

    def _begin(self, values: tuple[str | None, ...]) -> _OpenFile:
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415

        if len(self._open) >= OPEN_FILES_MAX:
            self._finish(max(self._open, key=lambda each: self._open[each].rows))
        partition = dict(zip(self.partition_by, values, strict=True))
        path = self._path_of(partition, self._started)
        self._started += 1
        sink = self._storage.open_output(path)
        found = _OpenFile(path, partition, sink, ParquetWriter(sink, self._file_schema, **self._options))
        self._open[values] = found
        return found

    def _finish(self, values: tuple[str | None, ...]) -> None:
        found = self._open.pop(values)
        found.writer.close()
        found.sink.close()
        self._storage.sync(found.path)
        size = self._storage.size(found.path)
        if size is None:
            raise OSError(f"{found.path} is gone as soon as it was written")
        file = StagedFile(found.path, size, found.rows, found.partition)
        self._files.append(file if self._finished is None else self._finished(file, found.writer))


def divided(rows: pa.RecordBatch, keys: Sequence[pa.Array[Any]]) -> list[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Rows by the combination of texts that each has, in their order. There is at least one key, as long as the rows."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    # One number for each combination of values; numbered anew with each column, so that it never grows beyond the rows.
    numbers = _numbered(keys[0])
    for key in keys[1:]:
        numbers = _numbered(pc.add(pc.multiply(numbers, pa.scalar(len(key) + 1, pa.int64())), _numbered(key)))
    order = pc.sort_indices(numbers)
    sorted_rows, start = rows.take(order), 0
    found: list[tuple[tuple[str | None, ...], pa.RecordBatch]] = []
    # Counts come in the order in which numbers are first met, which is that of the rows now.
    counts: list[int] = pc.value_counts(numbers.take(order)).field("counts").to_numpy().tolist()
    for count in counts:
        first = order[start].as_py()
        found.append((tuple(key[first].as_py() for key in keys), sorted_rows.slice(start, count)))
        start += count
    return found


def empty_as_null(column: pa.Array[Any]) -> pa.Array[Any]:
    """Of a partition's column. There is no other way to write the empty text, and Spark does the same: a directory `name=` would
    keep it from reading any other."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return column
    found: pa.Array[Any] = pc.if_else(
        pc.equal(column, pa.scalar("", column.type)), pa.scalar(None, column.type), column
    )
    return found


def _numbered(values: pa.Array[Any]) -> pa.Array[Any]:
    """For each value a number from 0 on, null among them."""
    import pyarrow as pa  # noqa: PLC0415

    return values.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())
