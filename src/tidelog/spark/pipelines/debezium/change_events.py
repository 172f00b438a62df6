"""Events of Debezium as changes of rows. Pure.

    op   what happened                      rows
    r    a snapshot has read the row        one
    c    the row was inserted               one
    u    the row was updated                one; of another key than before, a delete and an insert
    d    the row was deleted                one, of which the key counts
    t    the table was truncated            one without columns, or the event is refused
    m    a message in the log of changes    none

Passed over as well: tombstones behind deletes, heartbeats, the limits of transactions, changes of schemas, and the changes of
other tables than the one that was asked for. Whatever else is no event is refused.

A flattened event (`ExtractNewRecordState`) is the row itself, with fields of its own whose names begin with two underscores. In
that form a tombstone is a delete.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.spark.pipelines.debezium.event_encoding import Message
from tidelog.spark.pipelines.debezium.source_position import position_in_source, text_of
from tidelog.spark.pipelines.debezium.value_kinds import Kind

UNAVAILABLE = "__debezium_unavailable_value"
DELETE, INSERT, UPDATE, TRUNCATE = "d", "c", "u", "t"
# Tuples: what is looked for may be of any type, and of none that a set takes.
_ROW_OPS = ("r", INSERT, UPDATE, DELETE)
_ENVELOPE = frozenset({"op", "source"})
_HEARTBEAT = frozenset({"ts_ms"})
_HEARTBEAT_TOPIC = "__debezium-heartbeat"
# Records without a schema of their own are told by all of their fields: a table in flattened form may have some of these.
_TRANSACTION = frozenset({"status", "id", "event_count", "data_collections"})
_TRANSACTION_MORE = frozenset({"ts_ms"})
_SCHEMA_CHANGE = frozenset({"source", "databaseName", "ddl"})
_SCHEMA_CHANGE_MORE = frozenset({"ts_ms", "schemaName", "tableChanges"})
_OWN = "__"


class EventError(ValueError):
    """A record that is no event, or one that cannot be passed on as it is; one sentence says why."""


class Record(NamedTuple):
    """Where a message came from."""

    topic: str
    offset: int
    key: Message | None
    value: Message | None
    """None for a tombstone."""


class Change(NamedTuple):
    op: str
    table: str | None
    position: str
    values: Mapping[str, Any]
    """As the event has them."""
    kind: Kind | None
    """Of the values together: a struct."""
    unchanged: tuple[str, ...] = ()
    """Columns that have kept what they had, and whose values the event does not have."""
    time_us: int | None = None
    """When the source made the change."""


class EventReader:
    """What a topic's records say of one table, or of all."""

    def __init__(
        self,
        *,
        table: str | None = None,
        key: Sequence[str] = (),
        flat: bool = False,
        by_offset: bool = False,
        keeps_truncates: bool = False,
        unavailable: str = UNAVAILABLE,
    ) -> None:
        """`table` is a name, with that of its schema or database before a dot where there are several. By `key` rows are told
        apart where an update may change it. `by_offset` orders by the records' offsets instead of the source's positions."""
        self._table = table
        self._key = tuple(key)
        self._flat = flat
        self._by_offset = by_offset
        self._keeps_truncates = keeps_truncates
        self._markers = _Markers(unavailable)

    def changes(self, record: Record) -> list[Change]:
        """In order; none for what is passed over. EventError for what is no event."""
        if record.value is None:
            return self._tombstone(record)
        kind, payload = record.value
        if payload is None:
            return self._tombstone(record)
        if not isinstance(payload, dict):
            raise EventError("the value is no change event: it has no fields")
        if payload.keys() >= _ENVELOPE and (not self._flat or payload["op"] == "m"):
            return self._enveloped(record, kind, payload)
        if _is_no_change(record.topic, kind, payload):
            return []
        if not self._flat:
            # A heartbeat that was routed to another topic.
            if payload.keys() == _HEARTBEAT:
                return []
            raise EventError(
                "the value is no change event: it has no op and source; flat=True is for the flattened form"
            )
        return self._flattened(record, kind, payload)

    # The forms.

    def _enveloped(self, record: Record, kind: Kind | None, payload: dict[str, Any]) -> list[Change]:
        op, source = payload["op"], payload["source"]
        if op == "m":
            return []
        if not isinstance(source, dict):
            raise EventError("the event has no source")
        if op != TRUNCATE and op not in _ROW_OPS:
            raise EventError(f"the event is of the kind {op!r:.20}, which is not known")
        table = _qualified(source.get("schema"), source.get("db"), source.get("table"))
        if not self._is_asked_for(table, source.get("table")):
            return []
        position, time_us = self._position(source, record.offset), _time_us(source)
        if op == TRUNCATE:
            if not self._keeps_truncates:
                raise EventError(f"the table {table} was truncated: truncates='row' makes a row of it")
            return [Change(op, table, position, {}, None, (), time_us)]
        fields = {} if kind is None else kind.fields
        before, after = payload.get("before"), payload.get("after")
        row_kind = fields.get("after") or fields.get("before")
        if op == DELETE:
            values, row_kind = self._deleted(record, before, row_kind)
            return [Change(op, table, position, values, row_kind, (), time_us)]
        if not isinstance(after, dict):
            raise EventError(f"the event is of the kind {op}, and has no row after it")
        changed = Change(op, table, position, after, row_kind, (), time_us)
        return self._row(changed, before if isinstance(before, dict) else None)

    def _flattened(self, record: Record, kind: Kind | None, payload: dict[str, Any]) -> list[Change]:
        # The prefix of each field that was added, with or without the part of the event that it is from.
        own = {
            name.removeprefix(_OWN).removeprefix("source_"): each
            for name, each in payload.items()
            if name.startswith(_OWN)
        }
        table = _qualified(own.get("schema"), own.get("db"), own.get("table"))
        if self._table is not None and table is None:
            raise EventError("the row does not say its table: add.fields of ExtractNewRecordState has to name table")
        if not self._is_asked_for(table, own.get("table")):
            return []
        is_deleted = str(own.get("deleted")).lower() == "true" or own.get("op") == DELETE
        op = DELETE if is_deleted else own.get("op") or UPDATE
        if op not in _ROW_OPS:
            raise EventError(f"the row is of an event of the kind {op!r:.20}, which is not known")
        values = {name: each for name, each in payload.items() if not name.startswith(_OWN)}
        changed = Change(op, table, self._position(own, record.offset), values, kind, (), _time_us(own))
        return [changed] if is_deleted else self._row(changed, None)

    def _tombstone(self, record: Record) -> list[Change]:
        if not self._flat:
            return []
        if record.key is None:
            # Behind the delete of a table without a key, which has a row of its own.
            return []
        if not self._by_offset:
            raise EventError(
                "a delete that is only a tombstone has no position in its source: order='offset' goes by the records' own, "
                "delete.tombstone.handling.mode=rewrite gives deletes a value"
            )
        values, kind = self._deleted(record, None, None)
        return [Change(DELETE, None, self._position({}, record.offset), values, kind)]

    # Their parts.

    def _row(self, changed: Change, before: Mapping[str, Any] | None) -> list[Change]:
        """The row after a change, with what it had before where the event leaves that out; two where its key has changed."""
        values, unchanged = self._filled(changed.values, before)
        moved = before is not None and any(
            name in before and before[name] != changed.values.get(name) for name in self._key
        )
        # The row that had the values is another one, which is gone.
        if unchanged and (moved or changed.op == INSERT):
            raise EventError(
                f"the key of a row has changed, and the event does not have its {', '.join(unchanged)}: "
                "REPLICA IDENTITY FULL makes the source send all columns"
            )
        after = changed._replace(values=values, unchanged=unchanged)
        if not moved:
            return [after]
        assert before is not None
        return [after._replace(op=DELETE, values=before), after._replace(op=INSERT)]

    def _filled(
        self, after: Mapping[str, Any], before: Mapping[str, Any] | None
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        missing = [name for name, value in after.items() if self._markers.is_one(value)]
        if not missing:
            return after, ()
        values, unchanged = dict(after), []
        for name in missing:
            values[name] = None
            if before is not None and before.get(name) is not None and not self._markers.is_one(before[name]):
                values[name] = before[name]
            else:
                unchanged.append(name)
        return values, tuple(unchanged)

    def _deleted(self, record: Record, before: Any, kind: Kind | None) -> tuple[Mapping[str, Any], Kind | None]:
        """What is known of a row that is gone: at least its key."""
        if isinstance(before, dict):
            return before, kind
        if record.key is not None and isinstance(record.key.payload, dict):
            return record.key.payload, record.key.kind
        raise EventError("a row was deleted, and the event has neither what it was nor its key")

    def _is_asked_for(self, qualified: str | None, name: object) -> bool:
        return self._table is None or self._table == (qualified if "." in self._table else name)

    def _position(self, source: Mapping[str, Any], offset: int) -> str:
        found = text_of((offset,)) if self._by_offset else position_in_source(source, offset)
        if found is None:
            raise EventError(
                "the event does not say where in its source it is: order='offset' goes by the records' own offsets"
                + (
                    ", add.fields of ExtractNewRecordState can name lsn and sequence, or file, pos and row"
                    if self._flat
                    else ""
                )
            )
        return found


class _Markers:
    """What Debezium writes in place of a large value that was not changed, in every type that may be large."""

    def __init__(self, text: str) -> None:
        raw = text.encode()
        self._text = frozenset({text, base64.b64encode(raw).decode()})
        self._bytes = raw
        self._numbers = list(raw)

    def is_one(self, value: Any) -> bool:
        match value:
            case str():
                return value in self._text
            case bytes():
                return value == self._bytes
            case [str() as only]:
                return only in self._text
            case [bytes() as only]:
                return only == self._bytes
            case list():
                return value == self._numbers
            case dict():
                return len(value) == 1 and next(iter(value)) in self._text
        return False


def _is_no_change(topic: str, kind: Kind | None, payload: Mapping[str, Any]) -> bool:
    """Records that Debezium writes for itself, beside those of changes."""
    name = "" if kind is None else kind.name
    if name.startswith("io.debezium."):
        return True
    if topic.startswith(_HEARTBEAT_TOPIC):
        return True
    if _has_just(payload, _TRANSACTION, _TRANSACTION_MORE):
        return payload["status"] in ("BEGIN", "END")
    return _has_just(payload, _SCHEMA_CHANGE, _SCHEMA_CHANGE_MORE) and isinstance(payload["source"], dict)


def _has_just(payload: Mapping[str, Any], fields: frozenset[str], more: frozenset[str]) -> bool:
    return fields <= payload.keys() <= fields | more


def _qualified(schema: Any, database: Any, table: Any) -> str | None:
    if not isinstance(table, str) or not table:
        return None
    before = schema or database
    return f"{before}.{table}" if isinstance(before, str) and before else table


def _time_us(source: Mapping[str, Any]) -> int | None:
    found = source.get("ts_us")
    if isinstance(found, int):
        return found
    found = source.get("ts_ms")
    return found * 1000 if isinstance(found, int) else None
