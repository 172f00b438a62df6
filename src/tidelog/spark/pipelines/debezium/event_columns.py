"""Batches of a topic's records as the columns of one table's changes. Pure: Arrow in, Arrow out.

    __op, __table, __position, __time    of the change
    __unchanged                          columns whose values the event does not have, since they stay as they are
    ...                                  the table's own columns

A record becomes a list of rows, and a sentence where it cannot be read: one bad record spoils no other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidelog.spark.pipelines.debezium.change_events import Change, EventError, EventReader, Record
from tidelog.spark.pipelines.debezium.column_values import KNOWN_NAMES, Reader, ValueUnreadableError, value_reader
from tidelog.spark.pipelines.debezium.event_encoding import Message, MessageError, Messages
from tidelog.spark.pipelines.debezium.value_kinds import DECIMAL, Kind
from tidelog.spark.pipelines.decoders import LEFT_OUT

OP, TABLE, POSITION, UNCHANGED, TIME = "__op", "__table", "__position", LEFT_OUT, "__time"
_META_FIELDS: list[pa.Field[Any]] = [
    pa.field(OP, pa.string()),
    pa.field(TABLE, pa.string()),
    pa.field(POSITION, pa.string()),
    pa.field(TIME, pa.timestamp("us", "UTC")),
    pa.field(UNCHANGED, pa.list_(pa.string())),
]
META = pa.schema(_META_FIELDS)
ROWS, PROBLEM = "rows", "problem"
_READERS_MAX = 64
_TEXT = "string"
HINTS = (_TEXT, *sorted({each.rpartition(".")[2] for each in KNOWN_NAMES}))
"""What `types=` may say of a column."""


def hinted_kind(name: str, target: pa.DataType) -> Kind | None:
    """What `types=` says of a column, or of the elements of one that is a list; None for a name that nobody knows. Names may
    leave out what is before the last dot."""
    if isinstance(target, pa.ListType):
        items = hinted_kind(name, target.value_type)
        return None if items is None else Kind("array", items=items)
    if name == _TEXT:
        return Kind("string")
    found = next((each for each in sorted(KNOWN_NAMES) if name in {each, each.rpartition(".")[2]}), None)
    if found is None:
        return None
    if found == DECIMAL:
        scale = target.scale if isinstance(target, pa.Decimal128Type) else None
        return Kind("bytes", found, scale)
    is_text = found.startswith("io.debezium.time.") and found.rpartition(".")[2].startswith(
        ("Iso", "Zoned", "Interval")
    )
    return Kind("string" if is_text else "int64", found)


class EventColumns:
    """Made once in a worker, for one topic's values."""

    def __init__(
        self,
        columns: pa.Schema,
        events: EventReader,
        messages: Callable[[], Messages],
        hints: Mapping[str, Kind] | None = None,
        *,
        refuses_unchanged: bool = False,
    ) -> None:
        """`hints` are for values whose record does not say what they are. `refuses_unchanged`: an event that leaves out a value
        of these columns cannot be read."""
        self._columns = columns
        self._refuses_unchanged = refuses_unchanged
        self._events = events
        self._keys, self._values = messages(), messages()
        self._hints = hints or {}
        self._readers: OrderedDict[int, tuple[Kind | None, list[tuple[str, Reader]]]] = OrderedDict()
        self.type = pa.struct([pa.field(ROWS, pa.list_(self.row_type)), pa.field(PROBLEM, pa.string())])

    @property
    def row_type(self) -> pa.DataType:
        return pa.struct([*META, *self._columns])

    def decode(
        self, topics: pa.Array[Any], offsets: pa.Array[Any], keys: pa.Array[Any], values: pa.Array[Any]
    ) -> pa.Array[Any]:
        """An element for each record: its rows, or what is wrong with it."""
        rows: list[list[Any]] = [[] for _ in range(len(META) + len(self._columns))]
        ends, problems = [0], []
        count = 0
        records: list[list[Any]] = [each.to_pylist() for each in (topics, offsets, keys, values)]
        for topic, offset, key, value in zip(*records, strict=True):
            problem = None
            try:
                found = self.rows_of(topic, offset, key, value)
            except (EventError, MessageError, ValueUnreadableError) as error:
                found, problem = [], str(error)
            for row in found:
                for column, each in zip(rows, row, strict=True):
                    column.append(each)
            count += len(found)
            ends.append(count)
            problems.append(problem)
        fields = [*META, *self._columns]
        arrays = [pa.array(column, field.type) for column, field in zip(rows, fields, strict=True)]
        structs = pa.StructArray.from_arrays(arrays, fields=fields)
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs)
        return pa.StructArray.from_arrays([lists, pa.array(problems, pa.string())], fields=list(self.type))

    def rows_of(self, topic: str, offset: int, key: bytes | None, value: bytes | None) -> list[Sequence[Any]]:
        """The rows of one record. EventError, MessageError or ValueUnreadableError where it cannot be read."""
        record = Record(topic, offset, self._key(key, value), None if value is None else self._values.read(value))
        return [self._row(each) for each in self._events.changes(record)]

    def _key(self, key: bytes | None, value: bytes | None) -> Message | None:
        # Only deletes need it, and may have to do without.
        if key is None:
            return None
        try:
            return self._keys.read(key)
        except MessageError:
            if value is None:
                raise
            return None

    def _row(self, change: Change) -> Sequence[Any]:
        unchanged = [name for name in change.unchanged if name in self._columns.names]
        if unchanged and self._refuses_unchanged:
            raise EventError(
                f"the event leaves out {', '.join(unchanged)}, which it has not changed: REPLICA IDENTITY FULL makes the source"
                " send all columns"
            )
        found: list[Any] = [change.op, change.table, change.position, change.time_us, unchanged]
        for name, read in self._column_readers(change.kind):
            try:
                found.append(read(change.values.get(name)))
            except ValueUnreadableError as error:
                raise ValueUnreadableError(f"the column {name}: {error}") from None
        return found

    def _column_readers(self, kind: Kind | None) -> list[tuple[str, Reader]]:
        known = self._readers.get(id(kind))
        if known is not None:
            return known[1]
        fields = {} if kind is None else kind.fields
        made = [
            (each.name, value_reader(self._hints.get(each.name) if kind is None else fields.get(each.name), each.type))
            for each in self._columns
        ]
        # With the kind itself, so that no other can have its id.
        self._readers[id(kind)] = (kind, made)
        if len(self._readers) > _READERS_MAX:
            self._readers.popitem(last=False)
        return made
