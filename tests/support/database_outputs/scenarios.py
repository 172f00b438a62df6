"""What every database has to do as a sink. Each scenario gets one with nothing in it, and runs against all of them."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.support import left_out
from tests.support.database_outputs.replay import Change, State, Version, reduced, upserted, versioned
from tests.support.database_outputs.staging import APP, Cut, CutError, Database, Row, decided, stage
from tidelog.spark.outputs.database_session import Result, Session
from tidelog.spark.outputs.database_table import DatabaseKind
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError, RowsGoneError
from tidelog.spark.outputs.manifest_store import read_manifest
from tidelog.spark.outputs.staged import DELETED, AttemptName, Changes

TYPES: dict[str, pa.DataType] = {"id": pa.int64(), "at": pa.int64(), "text": pa.string()}
SCHEMA = pa.schema(TYPES)
CHANGED = SCHEMA.append(pa.field(DELETED, pa.bool_()))
UPSERTS = Changes(("id",), "at")
HISTORY = Changes(("id",), "at", history=True)
STATEMENTS_MAX = 40
"""More than an end has: a scenario that cuts it everywhere stops long before."""

# Several batches with late changes, deletes, and several changes of a key.
BATCHES: Sequence[Sequence[Change]] = (
    (Change(1, 10, "a"), Change(2, 10, "b"), Change(3, 10, "c"), Change(1, 20, "d")),
    (Change(1, 15, "late"), Change(2, 5, "earlier"), Change(3, 30, None), Change(4, 1, "e")),
    (Change(3, 20, "between"), Change(1, 20, "again"), Change(2, 10, None), Change(4, 2, None), Change(4, 3, "f")),
    (Change(3, 40, "back"), Change(5, 1, None), Change(4, 2, "filled")),
)


def rows(first: int, count: int) -> list[Row]:
    return [{"id": n, "at": n, "text": f"row {n}"} for n in range(first, first + count)]


def as_rows(changes: Sequence[Change]) -> list[Row]:
    return [{"id": each.key, "at": each.sequence, "text": each.value, DELETED: each.value is None} for each in changes]


def stored(database: Database, table: str = "orders") -> list[tuple[Any, ...]]:
    return sorted(database.query(f"SELECT id, at, text FROM {table}"))


def state(database: Database, table: str = "orders") -> State:
    return {int(key): (int(at), text) for key, at, text in stored(database, table)}


def versions(database: Database, table: str = "orders") -> list[Version]:
    """Those that ever count."""
    counts = "valid_to IS NULL OR valid_from < valid_to"
    return sorted(
        Version(*each) for each in database.query(f"SELECT id, text, valid_from, valid_to FROM {table} WHERE {counts}")
    )


def rows_count_once_the_batch_is_ended(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, rows(0, 5), SCHEMA)
    kind.check(batch)
    before = stored(database)
    last_before = kind.last_batch(APP)

    kind.end(batch)
    kind.end(read_manifest(batch.output))

    assert before == []
    assert last_before is None
    assert stored(database) == [(n, n, f"row {n}") for n in range(5)]
    assert kind.last_batch(APP) == 0


def an_empty_batch_is_ended(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 4, [], SCHEMA)
    kind.check(batch)
    kind.end(batch)

    assert kind.last_batch(APP) == 4
    assert stored(database) == []


def every_cut_of_an_end_has_one_outcome(database: Database, how: str, changes: Changes | None) -> None:
    """Before and after each statement the process dies, or an answer is lost; then it is asked again."""
    kind = database.sink("orders", changes)
    kind.prepare(SCHEMA if changes is None else CHANGED)
    expected_rows: list[tuple[Any, ...]] = []
    expected_state, everything = State(), list[Change]()
    for at in range(STATEMENTS_MAX):
        changed = [each._replace(key=each.key + at % 3) for each in BATCHES[at % len(BATCHES)]]
        if changes is None:
            batch = stage(kind, at, rows(10 * at, 5), SCHEMA)
            expected_rows += [(n, n, f"row {n}") for n in range(10 * at, 10 * at + 5)]
        elif changes.history:
            batch = stage(kind, at, as_rows(changed), CHANGED, tasks=1)
            everything += changed
        else:
            batch = stage(kind, at, as_rows(reduced(changed)), CHANGED)
            expected_state = upserted(expected_state, changed)
        kind.check(batch)
        cut_kind = database.sink("orders", changes)
        cut = Cut(cut_kind, at=at, how=how)
        try:
            cut_kind.end(batch)
        except CutError:
            pass
        except OutputUnreachableError:
            assert how == "lost"

        kind.end(batch)

        assert kind.last_batch(APP) == at
        if changes is None:
            assert stored(database) == expected_rows
        elif changes.history:
            assert versions(database) == versioned(everything)
        else:
            assert state(database) == expected_state
        if cut.seen <= at:
            break
    else:
        pytest.fail("an end has more statements than the scenario has cuts")
    assert kind.sweep(frozenset(), older_than_s=0.0).rows == 0, "an end clears what it has merged"


def a_lost_answer_to_a_commit_is_settled_by_reading_the_row(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, rows(0, 3), SCHEMA)
    counting = database.sink("orders")
    commit_at = _statements_of_an_end(counting, stage(counting, 0, rows(100, 1), SCHEMA, run="other"), kind) - 1
    later = stage(kind, 1, rows(10, 3), SCHEMA)
    cut_kind = database.sink("orders")
    Cut(cut_kind, at=commit_at, how="lost")

    cut_kind.end(later)

    assert kind.last_batch(APP) == 1
    kind.end(batch)
    assert [each[0] for each in stored(database)] == [10, 11, 12, 100]


def _statements_of_an_end(counting: DatabaseKind, batch: Any, kind: DatabaseKind) -> int:
    cut = Cut(counting)
    counting.end(batch)
    assert kind.last_batch(APP) == 0
    return cut.seen


def an_ender_that_wakes_between_its_check_and_its_commit_does_nothing(database: Database) -> None:
    """It has read that the batch is not there; another one ends this batch and the next; then it goes on."""
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch, following = stage(kind, 0, rows(0, 3), SCHEMA), stage(kind, 1, rows(10, 3), SCHEMA)
    kind.check(batch)
    zombie = database.sink("orders")

    def others() -> None:
        kind.end(batch)
        kind.end(following)

    # The first statements read the row of `tidelog_batches`; the second one has its answer.
    Cut(zombie, at=1, then=others)

    zombie.end(batch)

    assert len(stored(database)) == 6
    assert kind.last_batch(APP) == 1


def enders_side_by_side_end_a_batch_once(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    for batch_id in range(5):
        batch = stage(kind, batch_id, rows(10 * batch_id, 4), SCHEMA)
        start = threading.Barrier(3)
        failures: list[BaseException] = []

        def end(batch: Any = batch, start: threading.Barrier = start, failures: list[BaseException] = failures) -> None:
            mine = database.sink("orders")
            start.wait(timeout=30)
            try:
                mine.end(batch)
            except BaseException as error:  # noqa: BLE001 - told below
                failures.append(error)

        threads = [threading.Thread(target=end) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(timeout=60)
        assert not failures
        assert len(stored(database)) == 4 * (batch_id + 1)


def upserts_leave_what_a_replay_leaves(database: Database) -> None:
    kind = database.sink("orders", UPSERTS)
    kind.prepare(CHANGED)
    expected = State()
    for batch_id, changed in enumerate(BATCHES):
        batch = stage(kind, batch_id, as_rows(reduced(changed)), CHANGED)
        kind.check(batch)
        kind.end(batch)
        expected = upserted(expected, changed)
        assert state(database) == expected


def an_upsert_leaves_alone_what_the_rows_do_not_have(database: Database) -> None:
    database.query(
        "CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY, at bigint, text text, mine varchar(20) DEFAULT 'own')"
    )
    kind = database.sink("orders", UPSERTS)
    kind.prepare(CHANGED)
    for batch_id, changed in enumerate(([Change(1, 1, "a"), Change(2, 1, "b")], [Change(1, 2, "c")])):
        if batch_id == 1:
            database.query("UPDATE orders SET mine = 'kept'")
        kind.end(stage(kind, batch_id, as_rows(changed), CHANGED))

    assert sorted(database.query("SELECT id, text, mine FROM orders")) == [(1, "c", "kept"), (2, "b", "kept")]


def a_history_has_every_version(database: Database) -> None:
    kind = database.sink("orders", HISTORY)
    kind.prepare(CHANGED)
    everything: list[Change] = []
    for batch_id, changed in enumerate(BATCHES):
        batch = stage(kind, batch_id, as_rows(changed), CHANGED, tasks=1)
        kind.check(batch)
        kind.end(batch)
        everything += changed
        assert versions(database) == versioned(everything)


def values_that_stay_as_they_are_are_kept(database: Database) -> None:
    told = left_out.story(seed=3, count=50)
    # One sink to the database: its batches go on.
    for table, how, first in (("kept", left_out.UPSERTS, 0), ("versions_kept", left_out.HISTORY, 100)):
        kind = database.sink(table, how)
        kind.prepare(left_out.SCHEMA)
        for number, changes in enumerate(left_out.batches(told.changes, seed=3), first):
            batch = stage(kind, number, left_out.as_a_task_writes(changes, how), left_out.SCHEMA, tasks=1)
            kind.check(batch)
            kind.end(batch)

    counts = "valid_to IS NULL OR valid_from < valid_to"
    found = database.query(f"SELECT id, a, b, valid_from, valid_to FROM versions_kept WHERE {counts}")
    assert sorted(database.query("SELECT id, a, b FROM kept")) == told.rows
    assert sorted(found, key=lambda each: (each[0], each[3])) == told.versions


def attempts_that_no_decision_names_are_swept(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    named, orphan = stage(kind, 0, rows(0, 4), SCHEMA), stage(kind, 0, rows(0, 4), SCHEMA, run="dead")
    names = frozenset(each.attempt for each in named.manifest.parts)

    young = kind.sweep(names, older_than_s=3600.0)
    swept = kind.sweep(names, older_than_s=0.0)

    assert (young.files, young.rows) == (0, 0)
    assert swept.files + swept.rows > 0
    assert kind.sweep(names, older_than_s=0.0) == type(swept)()
    with pytest.raises(OutputRefusedError):
        kind.check(orphan)
    kind.check(named)
    kind.end(named)
    assert len(stored(database)) == 4


def a_sweep_of_another_sink_takes_nothing_of_ours(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, rows(0, 4), SCHEMA)
    other = database.sink("orders", staging="another")

    other.sweep(frozenset(), older_than_s=0.0)

    kind.end(batch)
    assert len(stored(database)) == 4


def a_batch_that_does_not_count_is_discarded(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, rows(0, 4), SCHEMA)

    kind.discard(batch.manifest.parts)
    kind.discard(batch.manifest.parts)

    with pytest.raises(OutputRefusedError):
        kind.end(batch)
    assert stored(database) == []
    assert kind.sweep(frozenset(), older_than_s=0.0) == type(kind.sweep(frozenset(), older_than_s=0.0))()


def an_attempt_that_is_aborted_leaves_nothing(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), SCHEMA)
    attempt.write(pa.RecordBatch.from_pylist(rows(0, 3), schema=SCHEMA))

    attempt.abort()

    swept = kind.sweep(frozenset(), older_than_s=0.0)
    assert (swept.files, swept.rows) == (0, 0)


def every_type_comes_back_as_it_was(database: Database, *, has_nan: bool, has_infinity: bool) -> None:
    types: dict[str, pa.DataType] = {
        "truth": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "whole": pa.int32(),
        "long": pa.int64(),
        "single": pa.float32(),
        "double": pa.float64(),
        "text": pa.string(),
        "bytes": pa.binary(),
        "day": pa.date32(),
        "instant": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "elsewhere": pa.timestamp("us", "Asia/Kolkata"),
        "exact": pa.decimal128(38, 10),
    }
    schema = pa.schema(types)
    first: Row = {
        "truth": True,
        "byte": -128,
        "short": 32767,
        "whole": -(2**31),
        "long": 2**63 - 1,
        "single": 1.5,
        "double": 0.1 + 0.2,
        "text": 'a "quoted"\n\\.\n,\t\\N \' % %s é 🌊',
        "bytes": bytes(range(256)),
        "day": dt.date(2026, 2, 28),
        "instant": dt.datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=dt.UTC),
        "local": dt.datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
        "elsewhere": dt.datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=dt.UTC),
        "exact": decimal.Decimal("1234567890123456789012345678.0123456789"),
    }
    second: Row = {
        **first,
        "truth": False,
        "long": -(2**63),
        "single": -3.4028234663852886e38,
        "double": float("nan") if has_nan else -1e308,
        "text": "",
        "bytes": b"",
        "day": dt.date(1000, 1, 1),
        "exact": decimal.Decimal("-0.0000000001"),
    }
    third: Row = {**second, "double": float("-inf") if has_infinity else 5e-300, "text": "\\."}
    kind = database.sink("kinds", options={"batch_column": "of_batch"})
    kind.prepare(schema)
    batch = stage(kind, 7, [first, second, third, dict.fromkeys(schema.names)], schema)
    kind.check(batch)
    kind.end(batch)
    other = stage(kind, 8, [first], schema)
    kind.end(other)

    assert kind.validate(schema) == []
    assert kind.read_back(batch) == (4, batch.output.checksum)
    assert kind.read_back(other) == (1, other.output.checksum)


def a_table_is_widened_if_told(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    kind.end(stage(kind, 0, rows(0, 1), SCHEMA))
    open_batch = stage(kind, 1, rows(1, 1), SCHEMA)
    wider = SCHEMA.append(pa.field("more", pa.float64()))

    closed = database.sink("orders", widens=False)
    assert closed.validate(wider) == ["orders has no column more, and may not be widened"]
    with pytest.raises(OutputRefusedError, match="may not be widened"):
        closed.prepare(wider)
    kind.prepare(wider)

    # What was staged before is ended as it was staged.
    kind.end(open_batch)
    kind.end(stage(kind, 2, [{"id": 2, "at": 2, "text": "row 2", "more": 0.5}], wider))
    assert sorted(database.query("SELECT id, more FROM orders WHERE id <> 2")) == [(0, None), (1, None)]
    assert database.query("SELECT id, more FROM orders WHERE id = 2") == [(2, 0.5)]


def names_may_be_anything(database: Database) -> None:
    types: dict[str, pa.DataType] = {'a "b" %s %(x)s': pa.int64(), "select": pa.string(), "Ä;--'": pa.int64()}
    schema = pa.schema(types)
    changes = Changes(('a "b" %s %(x)s',), "Ä;--'", history=True)
    kind = database.sink("table %s", changes)
    kind.prepare(schema.append(pa.field(DELETED, pa.bool_())))
    row = {'a "b" %s %(x)s': 1, "select": "x", "Ä;--'": 5, DELETED: False}
    batch = stage(kind, 0, [row], schema.append(pa.field(DELETED, pa.bool_())))
    kind.check(batch)
    kind.end(batch)

    assert kind.last_batch(APP) == 0


def what_an_end_would_be_refused_for_is_refused_before(
    database: Database, prepared: str, wrong: list[Row], says: str
) -> None:
    """`prepared` makes the table."""
    for statement in prepared.split(";"):
        database.query(statement)
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    before = stored(database)

    with pytest.raises(OutputRefusedError, match=says):
        kind.check(stage(kind, 0, wrong, SCHEMA, tasks=1))

    assert stored(database) == before
    good = stage(kind, 0, rows(50, 2), SCHEMA, run="good")
    kind.check(good)
    kind.end(good)
    assert len(stored(database)) == len(before) + 2


REFUSED: dict[str, tuple[str, list[Row], str]] = {
    "a null": (
        "CREATE TABLE orders (id bigint NOT NULL, at bigint, text text)",
        [{"id": None, "at": 1, "text": "x"}],
        "no value in id, which must not be null",
    ),
    "a key that the table has": (
        (
            "CREATE TABLE orders (id bigint, at bigint, text text); CREATE UNIQUE INDEX once ON orders (id, at);"
            "INSERT INTO orders VALUES (1, 1, 'there')"
        ),
        [{"id": 1, "at": 1, "text": "x"}],
        "every id, at once, and has one of the batch already",
    ),
    "a key twice in the batch": (
        "CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY, at bigint, text text)",
        [{"id": 1, "at": 1, "text": "x"}, {"id": 1, "at": 2, "text": "y"}],
        "every id once, and the batch has one twice",
    ),
    "a check": (
        "CREATE TABLE orders (id bigint, at bigint CHECK (at > 0), text text)",
        [{"id": 1, "at": -1, "text": "x"}],
        "(?i)check|constraint",
    ),
    "a foreign key": (
        (
            "CREATE TABLE customers (id bigint NOT NULL PRIMARY KEY); INSERT INTO customers VALUES (50), (51);"
            "CREATE TABLE orders (id bigint, at bigint, text text, FOREIGN KEY (id) REFERENCES customers (id))"
        ),
        [{"id": 1, "at": 1, "text": "x"}],
        "(?i)foreign key",
    ),
}


def a_table_that_does_not_fit_is_refused_by_validate(
    database: Database, prepared: str, changes: Changes | None, says: str
) -> None:
    database.query(prepared)
    kind = database.sink("orders", changes)
    schema = SCHEMA if changes is None else CHANGED

    assert [says in each for each in kind.validate(schema)] == [True], kind.validate(schema)
    with pytest.raises(OutputRefusedError, match="orders"):
        kind.prepare(schema)


UNFIT: dict[str, tuple[str, Changes | None, str]] = {
    "a type": ("CREATE TABLE orders (id bigint, at bigint, text integer)", None, "which does not hold all of string"),
    "a value that the rows lack": (
        "CREATE TABLE orders (id bigint, at bigint, text text, more integer NOT NULL)",
        None,
        "must have a value in more, which the rows do not have",
    ),
    "no key": (
        "CREATE TABLE orders (id bigint, at bigint, text text)",
        UPSERTS,
        "no primary key or unique index on id",
    ),
    "a key of a history that has each key once": (
        "CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY, at bigint, text text, valid_from bigint, valid_to bigint)",
        HISTORY,
        "no primary key or unique index on id, valid_from",
    ),
}


def a_key_twice_in_a_batch_is_refused(database: Database) -> None:
    kind = database.sink("orders", UPSERTS)
    kind.prepare(CHANGED)
    batch = stage(kind, 0, as_rows([Change(1, 1, "a"), Change(1, 2, "b")]), CHANGED)

    with pytest.raises(OutputRefusedError, match="key twice"):
        kind.check(batch)


def a_row_without_key_or_sequence_is_refused_in_the_task(database: Database) -> None:
    kind = database.sink("orders", UPSERTS)
    kind.prepare(CHANGED)
    for name in ("id", "at"):
        attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), CHANGED)
        row = {"id": 1, "at": 1, "text": "x", DELETED: False, name: None}
        with pytest.raises(OutputRefusedError, match=f"no value in {name}"):
            attempt.write(pa.RecordBatch.from_pylist([row], schema=CHANGED))
        attempt.abort()


def a_table_that_is_gone_or_changed_is_refused(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, rows(0, 2), SCHEMA)
    database.query("DROP TABLE orders")

    with pytest.raises(OutputRefusedError, match="no table orders"):
        kind.check(batch)
    with pytest.raises(OutputRefusedError):
        kind.end(batch)
    assert kind.last_batch(APP) is None
    database.query("CREATE TABLE orders (id bigint, text text)")
    with pytest.raises(OutputRefusedError, match="no column at, and may not be widened: the table was changed"):
        kind.check(batch)

    # It is ended all the same once the table is as it was.
    database.query("DROP TABLE orders")
    kind.prepare(SCHEMA)
    kind.end(batch)
    assert len(stored(database)) == 2


def what_cannot_be_read_back_is_said(database: Database) -> None:
    plain, merged = database.sink("orders"), database.sink("copies", UPSERTS, options={"batch_column": "of_batch"})
    plain.prepare(SCHEMA)
    merged.prepare(CHANGED)
    first = stage(plain, 0, rows(0, 1), SCHEMA)
    plain.end(first)
    with pytest.raises(OutputRefusedError, match="batch_column adds a column"):
        plain.read_back(first)
    second = stage(merged, 1, as_rows([Change(1, 1, "a")]), CHANGED)
    merged.end(second)
    with pytest.raises(OutputRefusedError, match="cannot be told apart"):
        merged.read_back(second)


def what_somebody_has_taken_away_is_known_to_be_gone(database: Database) -> None:
    kind = database.sink("orders", options={"batch_column": "of_batch"})
    kind.prepare(SCHEMA)
    batch, never = stage(kind, 0, rows(0, 3), SCHEMA), stage(kind, 1, rows(3, 1), SCHEMA)
    kind.end(batch)
    with pytest.raises(RowsGoneError, match="does not have batch 1: it was set back"):
        kind.read_back(never)

    database.query("DELETE FROM orders WHERE id = 1")
    left = kind.read_back(batch)
    database.query("ALTER TABLE orders DROP COLUMN text")
    with pytest.raises(RowsGoneError, match="has the column text no more"):
        kind.read_back(batch)
    there = kind.gone()
    database.query("DROP TABLE orders")

    assert left[0] == 2
    assert there == ""
    assert kind.gone().startswith("there is no table orders in ")


def rows_that_are_not_all_there_are_not_ended(database: Database) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, rows(0, 4), SCHEMA)
    first = batch.manifest.parts[0]
    more = decided(
        kind, 0, SCHEMA, [msgspec.structs.replace(first, rows=first.rows + 1), *batch.manifest.parts[1:]], run="x"
    )

    with pytest.raises(OutputRefusedError, match="not all rows"):
        kind.end(more)
    assert stored(database) == []


def a_zombie_attempt_adds_no_rows_once_it_was_swept(database: Database) -> None:
    """Of servers, which have the rows themselves."""
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    added = pa.RecordBatch.from_pylist(rows(0, 3), schema=SCHEMA)
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), SCHEMA)
    attempt.write(added)
    assert kind.sweep(frozenset(), older_than_s=0.0).rows == 3

    with pytest.raises(OutputUnreachableError, match="swept away"):
        attempt.write(added)
    attempt.abort()
    late = kind.open_attempt(AttemptName("run", 0, 1, 0, 0), SCHEMA)
    late.write(added)
    kind.sweep(frozenset(), older_than_s=0.0)
    with pytest.raises(OutputUnreachableError, match="swept away"):
        late.hand_over()

    staged = database.query("SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'tidelog_staged_%'")
    assert [database.query(f"SELECT count(*) FROM {name}") for (name,) in staged if _is_here(database, name)] == [
        [(0,)]
    ]


def _is_here(database: Database, table: str) -> bool:
    """Some list the tables of all databases."""
    try:
        database.query(f"SELECT 1 FROM {table} LIMIT 1")
    except Exception:  # noqa: BLE001 - of whatever library
        return False
    return True


def a_connection_that_the_server_ends_is_settled(database: Database, who: str, end: Callable[[object], str]) -> None:
    """The server's own side is ended just before each statement of an end, by an administrator."""
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    for at in range(STATEMENTS_MAX):
        batch = stage(kind, at, rows(10 * at, 3), SCHEMA)
        dying = database.sink("orders")
        seen = 0
        connect = dying.connect

        def connected(connect: Callable[[], Session] = connect, at: int = at) -> Session:
            session = connect()
            execute = session.execute

            def watched(statement: str, parameters: Sequence[object] = ()) -> Result:
                nonlocal seen
                if seen == at:
                    database.query(end(execute(who).rows[0][0]))
                seen += 1
                return execute(statement, parameters)

            object.__setattr__(session, "execute", watched)
            return session

        object.__setattr__(dying, "connect", connected)
        with contextlib.suppress(OutputUnreachableError):
            dying.end(batch)
        kind.end(batch)
        assert len(stored(database)) == 3 * (at + 1)
        if seen <= at:
            break
    else:
        pytest.fail("an end has more statements than the scenario has cuts")


Scenario = Callable[[Database], None]
SCENARIOS: Sequence[Scenario] = (
    rows_count_once_the_batch_is_ended,
    an_empty_batch_is_ended,
    a_lost_answer_to_a_commit_is_settled_by_reading_the_row,
    an_ender_that_wakes_between_its_check_and_its_commit_does_nothing,
    enders_side_by_side_end_a_batch_once,
    upserts_leave_what_a_replay_leaves,
    an_upsert_leaves_alone_what_the_rows_do_not_have,
    a_history_has_every_version,
    values_that_stay_as_they_are_are_kept,
    attempts_that_no_decision_names_are_swept,
    a_sweep_of_another_sink_takes_nothing_of_ours,
    a_batch_that_does_not_count_is_discarded,
    an_attempt_that_is_aborted_leaves_nothing,
    a_table_is_widened_if_told,
    names_may_be_anything,
    a_key_twice_in_a_batch_is_refused,
    a_row_without_key_or_sequence_is_refused_in_the_task,
    a_table_that_is_gone_or_changed_is_refused,
    what_cannot_be_read_back_is_said,
    what_somebody_has_taken_away_is_known_to_be_gone,
    rows_that_are_not_all_there_are_not_ended,
)
