"""A table that keeps every version, against a replay of all changes in the order of their sequence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from tidelog.spark.outputs.history import history_upserts
from tidelog.spark.outputs.staged import DELETED, VALID_FROM, VALID_TO, Changes

HOW = Changes(("k",), sequence_by="s", history=True)
Change = tuple[int, int, str, bool]
Table = dict[tuple[int, int], dict[str, Any]]

_COLUMNS: dict[str, pa.DataType] = {"k": pa.int64(), "s": pa.int64(), "v": pa.string()}
CHANGES = pa.schema({**_COLUMNS, DELETED: pa.bool_()})
VERSIONS = pa.schema({**_COLUMNS, VALID_FROM: pa.int64(), VALID_TO: pa.int64()})

_change = st.tuples(st.integers(0, 2), st.integers(0, 9), st.sampled_from("abc"), st.booleans())
_batches = st.lists(st.lists(_change, max_size=6, unique_by=lambda each: each[:2]), max_size=6)


@settings(max_examples=100, deadline=None)
@given(_batches, st.booleans())
def test_batches_in_any_order_leave_what_a_replay_of_all_changes_leaves(
    batches: list[list[Change]], narrow: bool
) -> None:
    table: Table = {}
    for batch in batches:
        upserts = _upserts(batch, table, narrow=narrow)
        table |= upserts
        # Ended again: the same rows, or nothing.
        assert table | _upserts(batch, table, narrow=narrow) == table

    assert _counting(table) == _replayed(batches)


def test_late_versions_are_put_in_between_and_deletes_close() -> None:
    table: Table = {}
    for batch in ([(1, 10, "a", False), (1, 30, "c", False)], [(1, 20, "b", False)], [(1, 40, "", True)]):
        table |= _upserts(batch, table, narrow=True)

    assert [(row["v"], row[VALID_FROM], row[VALID_TO]) for row in _counting(table)] == [
        ("a", 10, 20),
        ("b", 20, 30),
        ("c", 30, 40),
    ]


def test_the_same_value_again_at_a_later_sequence_is_a_version() -> None:
    upserts = _upserts([(1, 1, "a", False), (1, 2, "a", False)], {}, narrow=True)

    assert [(each[VALID_FROM], each[VALID_TO]) for each in upserts.values()] == [(1, 2), (2, None)]


def test_a_change_before_a_delete_that_came_first_ends_at_the_delete() -> None:
    table = _upserts([(1, 20, "", True)], {}, narrow=True)
    assert [(each[VALID_FROM], each[VALID_TO]) for each in table.values()] == [(20, 20)]

    table |= _upserts([(1, 10, "a", False)], table, narrow=True)

    assert [(row["v"], row[VALID_FROM], row[VALID_TO]) for row in _counting(table)] == [("a", 10, 20)]


def test_a_batch_writes_what_it_changes_and_no_more() -> None:
    table = _upserts([(1, n, "a", False) for n in range(5)] + [(2, 1, "x", False)], {}, narrow=True)

    upserts = _upserts([(1, 9, "b", False)], table, narrow=True)

    assert sorted(upserts) == [(1, 4), (1, 9)]


def _upserts(batch: list[Change], table: Table, *, narrow: bool) -> Table:
    """`narrow`: only what a late change can touch is read from the table."""
    least = min((change[1] for change in batch), default=0)
    keys = {change[0] for change in batch}
    versions = [
        row
        for row in table.values()
        if row["k"] in keys and (not narrow or row[VALID_TO] is None or row[VALID_TO] >= least)
    ]
    changes = [{"k": k, "s": s, "v": v, DELETED: deleted} for k, s, v, deleted in batch]
    found = history_upserts(
        pa.Table.from_pylist(changes, schema=CHANGES), pa.Table.from_pylist(versions, schema=VERSIONS), HOW
    )
    return {(row["k"], row[VALID_FROM]): row for row in found.to_pylist()}


def _counting(table: Table) -> list[dict[str, Any]]:
    rows = [row for row in table.values() if row[VALID_FROM] != row[VALID_TO]]
    return sorted(rows, key=lambda row: (row["k"], row[VALID_FROM]))


def _replayed(batches: list[list[Change]]) -> list[dict[str, Any]]:
    events = {(k, s): (v, deleted) for batch in batches for k, s, v, deleted in batch}
    found: list[dict[str, Any]] = []
    for (k, s), (v, deleted) in sorted(events.items()):
        if found and found[-1]["k"] == k and found[-1][VALID_TO] is None:
            found[-1][VALID_TO] = s
        if not deleted:
            found.append({"k": k, "s": s, "v": v, VALID_FROM: s, VALID_TO: None})
    return found
