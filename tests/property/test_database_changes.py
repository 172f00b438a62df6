"""Upserts and histories as SQL make of a table what a replay of all changes in the order of their sequence makes of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import example, given, strategies as st

from tests.support.database_outputs.replay import Change, State, Version, reduced, upserted, versioned
from tidelog.spark.outputs.database_dialect import SQLITE
from tidelog.spark.outputs.database_statements import Merge, create_table, merge_statements
from tidelog.spark.outputs.staged import Changes

TYPES: dict[str, pa.DataType] = {"id": pa.int64(), "at": pa.int64(), "text": pa.string()}
SCHEMA = pa.schema(TYPES)
CHANGES = st.builds(
    Change, st.integers(0, 2), st.integers(0, 9), st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d", "e"]))
)
BATCHES = st.lists(st.lists(CHANGES, max_size=8), max_size=6)
# Of one key and few sequences, so that every change meets what others have left.
OF_ONE_KEY = st.lists(
    st.lists(
        st.builds(Change, st.just(1), st.integers(0, 5), st.sampled_from([None, "a", "b"])), min_size=1, max_size=2
    ),
    min_size=3,
    max_size=8,
)
# A version that a delete has ended is cut, or taken back, by another delete; what comes late still ends at the first.
CUT = [[Change(1, 1, "a"), Change(1, 9, None)], [Change(1, 5, None)], [Change(1, 7, "late")]]
TAKEN_BACK = [[Change(1, 5, "a"), Change(1, 9, None)], [Change(1, 5, None)], [Change(1, 7, "late")]]


class Table:
    def __init__(self, changes: Changes) -> None:
        self._merge = Merge(SQLITE, "orders", "temp.staged", ("id", "at", "text"), changes)
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.execute(create_table(self._merge, SCHEMA))
        self._database.execute(
            "CREATE TABLE temp.staged (id, at, text, _tidelog_attempt bigint, _tidelog_deleted smallint, _tidelog_row bigint)"
        )

    def end(self, batch: Sequence[Change]) -> None:
        self._database.execute("DELETE FROM temp.staged")
        rows = [(each.key, each.sequence, each.value, 7, each.value is None, n) for n, each in enumerate(batch)]
        self._database.executemany("INSERT INTO temp.staged VALUES (?, ?, ?, ?, ?, ?)", rows)
        for statement in merge_statements(self._merge, [7], ""):
            self._database.execute(statement)

    def state(self) -> State:
        found = self._database.execute("SELECT id, at, text FROM orders").fetchall()
        return {key: (at, text) for key, at, text in found}

    def rows(self) -> list[tuple[object, ...]]:
        return self._database.execute("SELECT * FROM orders ORDER BY id, valid_from").fetchall()

    def versions(self) -> list[Version]:
        """Those that ever count."""
        query = "SELECT id, text, valid_from, valid_to FROM orders WHERE valid_to IS NULL OR valid_from < valid_to"
        return sorted(Version(*each) for each in self._database.execute(query).fetchall())

    def close(self) -> None:
        self._database.close()


@given(BATCHES)
def test_upserts_leave_what_a_plain_replay_leaves(batches: list[list[Change]]) -> None:
    table, state = Table(Changes(("id",), "at")), State()
    for batch in batches:
        table.end(reduced(batch))
        state = upserted(state, batch)
        assert table.state() == state
    table.close()


@given(st.one_of(BATCHES, OF_ONE_KEY))
@example(CUT)
@example(TAKEN_BACK)
def test_a_history_has_the_versions_of_a_plain_replay(batches: list[list[Change]]) -> None:
    """Of everything so far, however late a change or a delete comes."""
    table = Table(Changes(("id",), "at", history=True))
    everything: list[Change] = []
    for batch in batches:
        table.end(batch)
        everything += batch
        assert table.versions() == versioned(everything)
    table.close()


@given(BATCHES)
def test_a_batch_that_is_ended_again_changes_no_history(batches: list[list[Change]]) -> None:
    table = Table(Changes(("id",), "at", history=True))
    for batch in batches:
        table.end(batch)
        once = table.rows()
        table.end(batch)
        assert table.rows() == once
    table.close()


@given(BATCHES)
def test_without_deletes_it_does_not_matter_to_upserts_how_late_a_change_comes(batches: list[list[Change]]) -> None:
    kept = [[each._replace(value=each.value or "x") for each in batch] for batch in batches]
    latest = Table(Changes(("id",), "at"))
    for batch in kept:
        latest.end(reduced(batch))

    assert latest.state() == upserted({}, [change for batch in kept for change in batch])
    latest.close()


@given(BATCHES)
def test_upserts_that_come_in_order_are_the_same_in_any_batches(batches: list[list[Change]]) -> None:
    everything = sorted((change for batch in batches for change in batch), key=lambda each: each.sequence)
    latest = Table(Changes(("id",), "at"))
    at = 0
    for size in [len(batch) for batch in batches]:
        latest.end(reduced(everything[at : at + size]))
        at += size

    assert latest.state() == upserted({}, everything)
    latest.close()
