"""Changes out of what Debezium itself has written, against the tables that it was written of."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.spark.debezium.recordings import (
    COLUMNS,
    KEYS,
    MOMENT,
    Recorded,
    as_postgresql,
    of_topic,
    recorded,
    schema_of,
    truth,
)
from tidelog.spark.formats.registry_framing import frame
from tidelog.spark.formats.schema_registry import AVRO, ReferencedText, Schema, UnknownSchemaError
from tidelog.spark.pipelines.debezium.change_events import EventError, EventReader
from tidelog.spark.pipelines.debezium.column_values import ValueUnreadableError
from tidelog.spark.pipelines.debezium.event_columns import OP, POSITION, UNCHANGED, EventColumns, hinted_kind
from tidelog.spark.pipelines.debezium.event_encoding import AvroMessages, JsonMessages, MessageError, Messages

Row = Mapping[str, Any]

# What JSON without schemas does not say of the columns of `kinds` and of orders.
PRECISE = {
    "a_price": "Decimal",
    "a_big": "Decimal",
    "a_money": "Decimal",
    "some_prices": "Decimal",
    "price": "Decimal",
    "a_time": "MicroTime",
    "a_time_3": "Time",
    "a_timestamp": "MicroTimestamp",
    "a_timestamp_3": "Timestamp",
    "placed": "MicroTimestamp",
}
TEXT = {
    "a_price": "string",
    "a_big": "string",
    "a_numeric": "string",
    "a_money": "string",
    "some_prices": "string",
    "price": "string",
    "a_time": "Time",
    "a_time_3": "Time",
    "a_timestamp": "Timestamp",
    "a_timestamp_3": "Timestamp",
    "placed": "Timestamp",
}
FORMS = ("precise.plain", "precise.schemas", "precise.avro", "precise.flat", "precise.flat-schemas")
# A flattened update has no row before it: of a table without a key nobody knows which one it has changed.
REPLAYED = [
    (form, table)
    for form in FORMS
    for table in COLUMNS
    if table not in {"cleared", "moved"} and not (table == "loose" and "flat" in form)
]


def columns_of(
    form: str,
    recorded_table: str,
    columns: Mapping[str, pa.DataType] | None = None,
    types: Mapping[str, str] | None = None,
    **options: Any,
) -> EventColumns:
    chosen = COLUMNS[recorded_table] if columns is None else columns
    fields = pa.schema(list(chosen.items()))
    types = types if types is not None else PRECISE if form.startswith("precise") else TEXT
    hints = {
        name: kind
        for name, text in types.items()
        if name in chosen and (kind := hinted_kind(text, chosen[name])) is not None
    }

    def messages() -> Messages:
        return AvroMessages(schema_of=schema_of(form)) if form.endswith("avro") else JsonMessages()

    events = EventReader(**{"key": KEYS[recorded_table], "flat": "flat" in form, **options})
    return EventColumns(fields, events, messages, hints)


def rows_of(made: EventColumns, records: Iterable[Recorded]) -> list[Row]:
    """All rows, none of which may be unreadable."""
    records = list(records)
    found = made.decode(
        pa.array([each.topic for each in records]),
        pa.array([each.offset for each in records], pa.int64()),
        pa.array([each.key for each in records], pa.binary()),
        pa.array([each.value for each in records], pa.binary()),
    )
    found.validate(full=True)
    assert [each["problem"].as_py() for each in found if each["problem"].is_valid] == []
    return [row for each in found for row in each["rows"].as_py()]


def applied(rows: Iterable[Row], table: str, columns: Mapping[str, pa.DataType]) -> list[dict[str, str | None]]:
    """What SQLite has after these changes, one after the other; every value as PostgreSQL would write it."""
    keys = KEYS[table]
    database = sqlite3.connect(":memory:")
    database.execute(
        f"CREATE TABLE t ({', '.join(f'{name} TEXT' for name in columns)}, PRIMARY KEY ({', '.join(keys)}))"
    )
    same = " AND ".join(f"{name} = ?" for name in keys)
    for row in rows:
        values = {name: as_postgresql(row[name], kind) for name, kind in columns.items()}
        at = [values[name] for name in keys]
        if row[OP] == "t":
            database.execute("DELETE FROM t")
        elif row[OP] == "d":
            database.execute(f"DELETE FROM t WHERE {same}", at)
        else:
            changed = {name: value for name, value in values.items() if name not in row[UNCHANGED]}
            sets = ", ".join(f"{name} = excluded.{name}" for name in changed)
            database.execute(
                f"INSERT INTO t ({', '.join(changed)}) VALUES ({', '.join('?' * len(changed))})"
                f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {sets}",
                list(changed.values()),
            )
    found = database.execute("SELECT * FROM t").fetchall()
    database.close()
    return [dict(zip(columns, each, strict=True)) for each in found]


def expected(table: str, columns: Mapping[str, pa.DataType]) -> list[dict[str, str | None]]:
    return [{name: row[name] for name in columns} for row in truth()[table]]


def by_key(table: str, rows: Iterable[Mapping[str, str | None]]) -> dict[tuple[str | None, ...], dict[str, str | None]]:
    return {
        tuple(row[name] for name in KEYS[table]): {name: comparable(name, value) for name, value in row.items()}
        for row in rows
    }


def comparable(name: str, value: str | None) -> str | None:
    """Without what is only PostgreSQL's way of writing: blanks of char(n), zeros behind a numeric, a currency, a whole net."""
    match name:
        case "a_char" if value is not None:
            return value.rstrip()
        case "a_numeric" if value is not None:
            return format(Decimal(value).normalize(), "f")
        case "a_money" if value is not None:
            return value.replace("$", "")
        case "an_inet" if value is not None:
            return value.removesuffix("/32").removesuffix("/128")
    return value


@pytest.mark.parametrize(("form", "table"), REPLAYED)
def test_a_replay_gives_the_rows_of_the_source(form: str, table: str) -> None:
    rows = rows_of(columns_of(form, table), of_topic(form, table))

    in_order = sorted(rows, key=lambda row: str(row[POSITION]))
    assert by_key(table, applied(in_order, table, COLUMNS[table])) == by_key(table, expected(table, COLUMNS[table]))
    assert [row[OP] for row in in_order] == [row[OP] for row in rows], "the source's order is that of the topic"


@pytest.mark.parametrize("form", ["text.plain", "text.schemas", "text.avro"])
def test_decimals_as_text_and_times_in_milliseconds(form: str) -> None:
    columns = COLUMNS["kinds"]
    rows = rows_of(columns_of(form, "kinds", columns), of_topic(form, "kinds"))

    found = by_key("kinds", applied(rows, "kinds", columns))
    right = by_key("kinds", expected("kinds", columns))
    for row in right.values():
        # What Connect's own types leave of microseconds.
        for name in ("a_time", "a_timestamp"):
            whole, point, fraction = (row[name] or "").partition(".")
            row[name] = f"{whole}{point}{fraction[:3]}" if row[name] else None
    assert found == right


def test_decimals_as_fractions_and_several_tables_in_one_topic() -> None:
    columns = {**COLUMNS["kinds"], "a_big": pa.float64(), "a_numeric": pa.float64()}
    types = {
        "a_time": "MicroTime",
        "a_time_3": "MicroTime",
        "a_timestamp": "MicroTimestamp",
        "a_timestamp_3": "Timestamp",
    }
    made = columns_of("double.plain", "kinds", columns, types, table="public.kinds")
    rows = rows_of(made, recorded("double.plain"))

    found, right = by_key("kinds", applied(rows, "kinds", columns)), by_key("kinds", expected("kinds", columns))
    for row in (*found.values(), *right.values()):
        for name in ("a_big", "a_numeric"):
            row[name] = None if row[name] is None else repr(float(row[name] or ""))
    assert found == right
    assert {row["__table"] for row in rows} == {"public.kinds"}


def test_every_table_of_one_topic_by_its_name() -> None:
    for name in ("customers", "public.customers"):
        rows = rows_of(columns_of("double.plain", "customers", table=name), recorded("double.plain"))
        found = by_key("customers", applied(rows, "customers", COLUMNS["customers"]))
        assert found == by_key("customers", expected("customers", COLUMNS["customers"]))
    assert rows_of(columns_of("double.plain", "customers", table="other.customers"), recorded("double.plain")) == []


def test_a_truncated_table() -> None:
    rows = rows_of(columns_of("precise.plain", "cleared", keeps_truncates=True), of_topic("precise.plain", "cleared"))

    assert [row[OP] for row in rows].count("t") == 1
    assert by_key("cleared", applied(rows, "cleared", COLUMNS["cleared"])) == by_key(
        "cleared", expected("cleared", COLUMNS["cleared"])
    )


def problem_of(made: EventColumns, record: Recorded) -> str:
    with pytest.raises((EventError, MessageError, ValueUnreadableError)) as caught:
        made.rows_of(record.topic, record.offset, record.key, record.value)
    return str(caught.value)


def test_a_truncate_is_refused_unless_it_is_asked_for() -> None:
    made = columns_of("precise.plain", "cleared")
    (truncate,) = [each for each in of_topic("precise.plain", "cleared") if each.value and b'"op":"t"' in each.value]

    assert problem_of(made, truncate) == "the table public.cleared was truncated: truncates='row' makes a row of it"


def test_a_row_that_moves_without_its_large_values_is_refused() -> None:
    made = columns_of("precise.plain", "moved")
    *_, moved = of_topic("precise.plain", "moved")

    assert problem_of(made, moved) == (
        "the key of a row has changed, and the event does not have its notes: "
        "REPLICA IDENTITY FULL makes the source send all columns"
    )


@pytest.mark.parametrize("form", ["precise.plain", "precise.schemas", "precise.avro"])
def test_values_that_stay_as_they_are_are_named_and_not_passed_on(form: str) -> None:
    rows = rows_of(columns_of(form, "orders"), of_topic(form, "orders"))

    kept = [row for row in rows if row[UNCHANGED]]
    assert kept
    assert {name for row in kept for name in row[UNCHANGED]} == {"notes", "body", "tags", "numbers", "more"}
    assert all(row[name] is None for row in kept for name in row[UNCHANGED])
    assert "unavailable" not in str(rows)


def test_a_source_that_sends_all_columns_leaves_none_out() -> None:
    rows = rows_of(columns_of("precise.plain", "orders_full"), of_topic("precise.plain", "orders_full"))

    assert [row[UNCHANGED] for row in rows if row[UNCHANGED]] == []


def test_an_update_of_the_key_is_a_delete_and_an_insert() -> None:
    rows = rows_of(columns_of("precise.plain", "loose"), of_topic("precise.plain", "loose"))

    assert [(row[OP], row["id"], row["name"]) for row in rows] == [
        ("c", 1, "one"),
        ("c", 2, "two"),
        ("d", 2, "two"),
        ("c", 3, "two"),
        ("u", 1, "uno"),
        ("d", 1, "uno"),
    ]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_change_of_a_row_is_passed_over(form: str) -> None:
    beside = [each for each in recorded(form) if ".public." not in each.topic]

    assert {each.topic for each in beside} == {"__debezium-heartbeat.precise", "precise.message", "precise.transaction"}
    assert rows_of(columns_of(form, "customers"), beside) == []


# Made by hand, after the documentation of Debezium's connector for MySQL: nothing here has recorded it.
SCHEMA_CHANGE = {
    "source": {"connector": "mysql", "name": "shop", "db": "inventory", "table": "customers", "file": "bin.000003"},
    "ts_ms": 1651535750218,
    "databaseName": "inventory",
    "schemaName": None,
    "ddl": "ALTER TABLE customers ADD middle_name varchar(255)",
    "tableChanges": [{"type": "ALTER", "id": '"inventory"."customers"', "table": {"columns": []}}],
}


@pytest.mark.parametrize("flat", [False, True])
def test_changes_of_schemas_are_passed_over(flat: bool) -> None:
    made = columns_of("precise.plain", "customers", flat=flat)
    key = json.dumps({"databaseName": "inventory"}).encode()
    older = {name: SCHEMA_CHANGE[name] for name in ("source", "databaseName", "ddl")}
    schemas = {"type": "struct", "name": "io.debezium.connector.mysql.SchemaChangeValue", "fields": []}

    for value in (SCHEMA_CHANGE, older, {"schema": schemas, "payload": {"ddl": "ALTER"}}):
        assert made.rows_of("shop", 0, key, json.dumps(value).encode()) == []


def test_a_table_that_has_columns_like_the_records_of_debezium_is_not_passed_over() -> None:
    columns: dict[str, pa.DataType] = {"id": pa.int32(), "ddl": pa.string(), "status": pa.string()}
    made = columns_of("precise.flat", "customers", columns, {})
    row: dict[str, Any] = {"id": 1, "ddl": "x", "databaseName": "y", "__lsn": 1, "__op": "c"}
    other: dict[str, Any] = {"id": 2, "status": "BEGIN", "event_count": 1, "data_collections": [], "__lsn": 2}

    found = [made.rows_of("t", 0, None, json.dumps(each).encode()) for each in (row, other)]

    assert [list(each[5:]) for ((each),) in found] == [[1, "x", None], [2, None, "BEGIN"]]
    for each in ({**SCHEMA_CHANGE, "more": 1}, {**SCHEMA_CHANGE, "source": "text"}):
        told = problem_of(
            columns_of("precise.plain", "customers"), Recorded("t", 0, None, json.dumps(each).encode(), ())
        )
        assert "is no change event" in told


def test_values_that_are_left_out_of_columns_that_nobody_wants_do_not_matter() -> None:
    events = of_topic("precise.plain", "orders")
    narrow: dict[str, pa.DataType] = {"id": pa.int64(), "customer": pa.string()}

    assert {tuple(row[UNCHANGED]) for row in rows_of(columns_of("precise.plain", "orders", narrow), events)} == {()}
    with pytest.raises(AssertionError, match="the event leaves out notes"):
        rows_of(refusing("orders", {**narrow, "notes": pa.string()}), events)


def refusing(table: str, columns: Mapping[str, pa.DataType]) -> EventColumns:
    return EventColumns(pa.schema(dict(columns)), EventReader(key=KEYS[table]), JsonMessages, refuses_unchanged=True)


def test_an_incremental_snapshot_is_in_its_place() -> None:
    rows = rows_of(columns_of("precise.plain", "customers"), of_topic("precise.plain", "customers"))

    positions = [str(row[POSITION]) for row in rows]
    again = [index for index, row in enumerate(rows) if row[OP] == "r"][8:]
    assert again, "there is a second snapshot in the recording"
    assert positions == sorted(positions)


def test_changes_that_were_made_at_the_same_time_come_in_the_order_of_their_commits() -> None:
    rows = rows_of(columns_of("precise.plain", "customers"), of_topic("precise.plain", "customers"))

    emails = [row["email"] for row in sorted(rows, key=lambda row: str(row[POSITION])) if row["email"]]
    assert emails[:5] == [f"{each}@example.com" for each in ("second", "third", "first", "fourth", "last")]


def test_deletes_that_are_only_tombstones() -> None:
    form, table = "precise.flat-tombstones", "customers"
    ordered = rows_of(columns_of(form, table, by_offset=True), of_topic(form, table))

    assert by_key(table, applied(ordered, table, COLUMNS[table])) == by_key(table, expected(table, COLUMNS[table]))
    *_, last = [each for each in of_topic(form, table) if each.value is None]
    assert "order='offset'" in problem_of(columns_of(form, table), last)
    assert "add.fields" in problem_of(columns_of(form, table), of_topic(form, table)[0]._replace(value=b'{"id": 1}'))


def test_the_text_of_times_and_intervals() -> None:
    names = ("a_timetz", "an_interval", "a_date", "a_timestamp", "a_price", "a_numeric", "some_ints")
    columns: dict[str, pa.DataType] = {"id": pa.int32(), **dict.fromkeys(names, pa.string())}
    first = {
        form: rows_of(columns_of(form, "kinds", columns), of_topic(form, "kinds"))[0]
        for form in ("precise.schemas", "text.schemas", "precise.avro")
    }

    assert first["precise.schemas"] == {**first["precise.avro"], POSITION: first["precise.schemas"][POSITION]}
    assert {name: first["precise.schemas"][name] for name in names} == {
        "a_timetz": "06:09:10.5Z",
        "an_interval": "PT37091106.789S",
        "a_date": "2026-11-18",
        "a_timestamp": "2026-11-18T08:09:10.123456",
        "a_price": "12.34",
        "a_numeric": "1.1",
        "some_ints": "[1,-2,3]",
    }
    assert first["text.schemas"]["an_interval"] == "P1Y2M3DT4H5M6.789S"


def test_numbers_of_times_as_they_are() -> None:
    columns: dict[str, pa.DataType] = {
        "id": pa.int32(),
        "a_time": pa.int64(),
        "a_timestamp": pa.int64(),
        "an_interval": pa.int64(),
    }
    first = rows_of(columns_of("precise.schemas", "kinds", columns), of_topic("precise.schemas", "kinds"))[0]

    assert [first[name] for name in columns] == [1, 29350123456, 1794989350123456, 37091106789000]


@pytest.mark.parametrize(
    ("column", "kind", "told"),
    [
        (
            "a_price",
            pa.decimal128(10, 2),
            "the column a_price: the text 'BNI=' may be digits or bytes: types= can say which",
        ),
        ("a_price", pa.decimal128(3, 2), "the column a_price: Decimal('12.34') does not fit into decimal(3,2)"),
        ("a_timestamp", LOCAL := pa.timestamp("us"), "may count seconds or parts of them: types= can say which"),
        ("a_bigint", pa.int32(), "the column a_bigint: -9223372036854775808 is not a whole number of 32 bits"),
        ("a_text", pa.int64(), "the column a_text: 'zoë 😀' is not a whole number of 64 bits"),
        ("a_text", MOMENT, "the column a_text: 'zoë 😀' is not a timestamp"),
        ("a_text", pa.binary(), "the column a_text: 'zoë 😀' is not bytes in base64"),
        ("a_int", pa.bool_(), None),
        ("an_int", pa.bool_(), "the column an_int: -2147483648 is not true or false"),
        ("some_ints", pa.struct([("a", pa.int32())]), "the column some_ints: [1, -2, 3] is not a struct"),
        ("an_int", pa.list_(pa.int32()), "the column an_int: -2147483648 is not a list"),
    ],
)
def test_what_a_column_cannot_hold_is_said(column: str, kind: pa.DataType, told: str | None) -> None:
    types = {"a_price": "Decimal"} if kind == pa.decimal128(3, 2) else {}
    made = columns_of("precise.plain", "kinds", {"id": pa.int32(), column: kind}, types)
    record = of_topic("precise.plain", "kinds")[0]

    if told is None:
        # A column that the events do not have.
        assert rows_of(made, [record])[0][column] is None
    else:
        assert told in problem_of(made, record)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"", "the value is no JSON object"),
        (b"\xff\xfe", "the value is no JSON object"),
        (b"[1]", "the value is no JSON object"),
        (b'{"id": 1}', "the value is no change event: it has no op and source"),
        (b'{"op": "x", "source": {"lsn": 1}}', "the event is of the kind 'x'"),
        (b'{"op": ["c"], "source": {"lsn": 1}}', "the event is of the kind ['c']"),
        (b'{"op": "c", "source": {"lsn": 1}}', "has no row after it"),
        (b'{"op": "c", "source": {"lsn": null}, "after": {"id": 1}}', "does not say where in its source it is"),
        (b'{"op": "c", "source": {"lsn": -1}, "after": {"id": 1}}', "does not say where in its source it is"),
        (b'{"op": "c", "source": 1, "after": {"id": 1}}', "the event has no source"),
        (b'{"op": "d", "source": {"lsn": 1}}', "neither what it was nor its key"),
        (b'{"schema": 1, "payload": {}}', "none of Kafka Connect's"),
        (b'{"schema": {"type": "struct", "fields": [1]}, "payload": {}}', "a field without a name"),
        (
            b'{"schema": ' + b'{"type": "array", "items": ' * 40 + b"1" + b"}" * 40 + b', "payload": {}}',
            "nested deeper",
        ),
        (b'{"op":' * 5000, "the value is no JSON object"),
    ],
)
def test_what_is_no_event_is_said(value: bytes, told: str) -> None:
    made = columns_of("precise.plain", "customers")

    assert told in problem_of(made, Recorded("t", 0, None, value, ()))


def test_one_record_that_is_none_spoils_no_other() -> None:
    good = of_topic("precise.plain", "customers")[0]
    made = columns_of("precise.plain", "customers")
    found: Any = made.decode(
        pa.array(["t"] * 3), pa.array([0, 1, 2]), pa.array([good.key] * 3), pa.array([good.value, b"!", None])
    )

    assert [len(each["rows"]) for each in found.to_pylist()] == [1, 0, 0]
    assert [each["problem"] is not None for each in found.to_pylist()] == [False, True, False]


def test_avro_that_is_cut_off_or_too_long_is_said() -> None:
    record = of_topic("precise.avro", "customers")[0]
    assert record.value is not None
    made = columns_of("precise.avro", "customers")

    for value, told in [
        (record.value[:-1], "is not of its Avro schema"),
        (record.value + b"x", "1 bytes follow the value"),
        (b"\1\0\0\0\1", "is not framed"),
        (b"\0", "too short"),
    ]:
        assert told in problem_of(made, record._replace(value=value))


def test_avro_by_one_schema_for_all() -> None:
    record = of_topic("precise.avro", "sites")[0]
    assert record.value is not None
    schema = schema_of("precise.avro")(int.from_bytes(record.value[1:5], "big")).text
    made = EventColumns(pa.schema(list(COLUMNS["sites"].items())), EventReader(), lambda: AvroMessages(given=schema))

    (row,) = made.rows_of("t", 0, None, record.value[5:])
    assert list(row[5:]) == ["north", 1, "one"]


ADDRESS = {"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]}
PERSON = {
    "type": "record",
    "name": "shop.Person",
    "fields": [{"name": "id", "type": "int"}, {"name": "home", "type": ["null", "shop.Address"], "default": None}],
}


def test_avro_of_a_schema_that_refers_to_others_and_of_none_that_is_known() -> None:
    known = {
        7: Schema(AVRO, json.dumps(PERSON), (ReferencedText("shop.Address", json.dumps(ADDRESS)),)),
        8: Schema("JSON", "{}"),
        9: Schema(AVRO, json.dumps(PERSON)),
    }

    def schema_of_id(number: int) -> Schema:
        if number not in known:
            raise UnknownSchemaError(f"the registry has no schema {number}")
        return known[number]

    named: dict[str, Any] = {}
    fastavro.parse_schema(ADDRESS, named_schemas=named)
    stream = io.BytesIO()
    parsed = fastavro.parse_schema(PERSON, named_schemas=named)
    fastavro.schemaless_writer(stream, parsed, {"id": 1, "home": {"city": "Kiel"}})
    messages = AvroMessages(schema_of=schema_of_id)

    assert messages.read(frame(7) + stream.getvalue()).payload == {"id": 1, "home": {"city": "Kiel"}}
    for number, told in (
        (6, "the registry has no schema 6"),
        (8, "schema 8: it is of type JSON, and not of AVRO"),
        (9, "schema 9: an Avro schema"),
    ):
        for _ in range(2):
            with pytest.raises(MessageError, match=told):
                messages.read(frame(number) + stream.getvalue())


def test_positions_of_other_sources() -> None:
    def position(source: str) -> str:
        made = columns_of("precise.plain", "loose")
        ((_, _, found, *_),) = made.rows_of(
            "t", 7, None, b'{"op": "c", "source": %s, "after": {"id": 1}}' % source.encode()
        )
        return str(found)

    events = [("999", 9, 0), ("999", 9, 1), ("999", 10, 0), ("1000", 1, 0)]
    binary_log = [f'{{"file": "bin.{file}", "pos": {at}, "row": {row}}}' for file, at, row in events]
    times = [f'{{"ts_{unit}": {count}}}' for unit, count in [("ms", 1), ("us", 1001), ("ns", 1_001_001)]]
    for each in (binary_log, times):
        positions = [position(source) for source in each]
        assert positions == sorted(set(positions))
        assert all(found.endswith(".00000000000000000007") for found in positions)


def test_a_reader_of_events_says_what_it_cannot_order() -> None:
    with pytest.raises(EventError, match="order='offset'"):
        columns_of("precise.plain", "loose").rows_of("t", 0, None, b'{"op": "c", "source": {}, "after": {"id": 1}}')
