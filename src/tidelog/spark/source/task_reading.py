"""Reading in a task: on Spark's thread, by a reader that the worker keeps.

Spark hands one task after another to a Python worker, and module state survives from task to task. So does the reader here, with
its connections; a reader in use belongs to one task, and one whose task failed is closed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pyarrow as pa

from tidelog.client.background import Background
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.options import parse_options
from tidelog.client.seams import ClientSeams
from tidelog.spark.client_settings import client_arguments
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.range_reader import FetchedColumns, RangeReader
from tidelog.spark.source.record_columns import RecordColumns
from tidelog.spark.source.source_options import SourceOptions

# A worker serves one query after another; connections of long ago are not worth keeping.
_KEPT_MAX = 8

_Key = tuple[object, ...]


class _KeptReader:
    """A reader and the loop that it lives on."""

    def __init__(self, options: SourceOptions) -> None:
        client = parse_options(
            ConsumerOptions,
            {**client_arguments(options.client), "auto_offset_reset": "none", "allow_auto_create_topics": False},
        )
        self._background = Background.acquire()

        async def made() -> RangeReader:
            return RangeReader(
                ClientSeams.of(self._background.loop),
                client,
                poll_timeout_ms=options.poll_timeout_ms,
                fail_on_data_loss=options.fail_on_data_loss,
            )

        try:
            self._reader = self._background.call(made())
        except BaseException:
            self._background.release()
            raise

    def read(self, wanted: OffsetRange, *, headers: bool) -> Iterator[FetchedColumns]:
        """The records of a range; whoever stops before its end leaves the reader ready for another one."""

        async def begin() -> None:
            self._reader.begin(wanted, headers=headers)

        async def end() -> None:
            self._reader.end()

        self._background.call(begin())
        try:
            while (fetched := self._background.call(self._reader.next_columns())) is not None:
                yield fetched
        finally:
            self._background.call(end())

    def close(self) -> None:
        async def closed() -> None:
            self._reader.close()

        self._background.call(closed())
        self._background.release()


_kept: dict[_Key, _KeptReader] = {}
_lock = threading.Lock()
# A fork has the connections of its parent, and not the thread that reads from them.
os.register_at_fork(after_in_child=_kept.clear)


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of a range in Spark's columns."""
    columns = RecordColumns(options.columns, wanted.partition)
    key = _key(options)
    with _lock:
        reader = _kept.pop(key, None)
    if reader is None:
        reader = _KeptReader(options)
    try:
        for records, timestamp_type in reader.read(wanted, headers=columns.with_headers):
            yield from columns.batches(records, timestamp_type)
    except GeneratorExit:
        _keep(key, reader)
        raise
    except BaseException:
        reader.close()
        raise
    _keep(key, reader)


def close_kept() -> None:
    """Close the readers that no task uses."""
    with _lock:
        idle = list(_kept.values())
        _kept.clear()
    for reader in idle:
        reader.close()


def _key(options: SourceOptions) -> _Key:
    return (
        options.poll_timeout_ms,
        options.fail_on_data_loss,
        *sorted((name, str(each)) for name, each in options.client.items()),
    )


def _keep(key: _Key, reader: _KeptReader) -> None:
    with _lock:
        surplus = [_kept.pop(key)] if key in _kept else []
        while len(_kept) >= _KEPT_MAX:
            surplus.append(_kept.pop(next(iter(_kept))))
        _kept[key] = reader
    for each in surplus:
        each.close()
