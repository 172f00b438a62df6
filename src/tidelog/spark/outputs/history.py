"""What a batch of changes makes of a table that keeps every version of its rows (SCD 2). Pure, over Arrow.

    key  value  valid_from  valid_to
    1    a      10          20            a version that counted from 10, until another one came or a delete closed it
    1    b      20          null          what counts now
    2    c      15          15            a delete at 15 that closed nothing: it never counts

Changes may come in any order and late: one that lies between two versions is put in between, one before the first is put first.
The outcome is that of all changes of all batches in the order of their sequence, whatever batch each one came in. So each change
of a sequence of its own is a version, also where it has the values of the one before; and of two changes of a key with the same
sequence in different batches the later batch counts.

A delete closes the version before it, and is remembered as that version's `valid_to`. Where no version ends there it is
remembered as a row whose `valid_from` is its `valid_to`: a late change before it has to end there. Such rows never count by
`valid_from <= t < valid_to`, nor by `valid_to is null`.

What a change leaves out because it stays as it is (`kept_values`) is what the version before it has, as the table is when the
change comes; of one at the same sequence what that has whose place it takes. Behind a delete there is nothing that could stay.

What a batch changes is a set of rows to be written by key and `valid_from`, in place of what is there or as new ones; nothing is
ever taken out. Whoever ends a batch again gets the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.spark.outputs.kept_values import kept_in_rows, with_values
from tidelog.spark.outputs.staged import DELETED, VALID_FROM, VALID_TO, Changes

if TYPE_CHECKING:
    import pyarrow as pa


class _Event(NamedTuple):
    """A version or a delete, at its sequence."""

    source: int
    """The row that has its values: of the changes first, then of the versions."""
    is_delete: bool
    is_new: bool
    has_row: bool
    """Whether the table has a row at this sequence."""
    valid_to: Any
    """As the table has it."""
    kept: tuple[str, ...] = ()
    """Columns that stay as they are."""
    replaces: _Event | None = None
    """What was there at this sequence."""


class _Row(NamedTuple):
    source: int
    values_of: Mapping[str, int]
    """By column: another row that has its value."""
    valid_from: Any
    valid_to: Any


def history_upserts(
    changes: pa.Table, versions: pa.Table, how: Changes, kept: Mapping[int, Sequence[str]] | None = None
) -> pa.Table:
    """Rows to write by `merge_on` and `VALID_FROM`.

    `changes` has the rows' columns, and DELETED where there are deletes; of two of a key at one sequence the last one counts.
    `versions` are what the table has of these keys, with VALID_FROM and VALID_TO: all, or at least those whose VALID_TO is null
    or no less than the least sequence of the changes. `kept` are columns that stay as they are, by the number of a change, where
    its mark is not to be read any more.
    """
    import pyarrow as pa  # noqa: PLC0415 - those who only know of histories need none

    assert how.sequence_by is not None
    by_key = _known(versions, how.merge_on, changes.num_rows)
    deleted = changes.column(DELETED).to_pylist() if DELETED in changes.schema.names else [False] * changes.num_rows
    sequences = changes.column(how.sequence_by).to_pylist()
    kept = kept_in_rows(changes) if kept is None else kept
    for index, key in enumerate(_keys(changes, how.merge_on)):
        events, sequence = by_key.setdefault(key, {}), sequences[index]
        before = events.get(sequence)
        events[sequence] = _Event(
            index,
            bool(deleted[index]),
            is_new=True,
            has_row=before is not None and before.has_row,
            valid_to=None,
            kept=tuple(kept.get(index, ())),
            replaces=before,
        )
    rows = [row for events in by_key.values() for row in _rows_to_write(events)]
    names = [name for name in versions.schema.names if name not in {VALID_FROM, VALID_TO}]
    both = pa.concat_tables([changes.select(names), versions.select(names)])
    taken = both.take(pa.array([row.source for row in rows], pa.int64()))
    elsewhere: dict[str, dict[int, int]] = {}
    for index, row in enumerate(rows):
        for name, source in row.values_of.items():
            elsewhere.setdefault(name, {})[index] = source
    taken = with_values(taken, both, elsewhere)
    bounds = {VALID_FROM: [row.valid_from for row in rows], VALID_TO: [row.valid_to for row in rows]}
    for name, values in bounds.items():
        field = versions.schema.field(name)
        taken = taken.append_column(field, pa.array(values, field.type))
    return taken.select(versions.schema.names)


def _known(versions: pa.Table, merge_on: Sequence[str], offset: int) -> dict[tuple[Any, ...], dict[Any, _Event]]:
    """What the table tells of each key: its versions, its deletes that have a row, and those that only closed a version."""
    begins, ends = versions.column(VALID_FROM).to_pylist(), versions.column(VALID_TO).to_pylist()
    found: dict[tuple[Any, ...], dict[Any, _Event]] = {}
    for index, key in enumerate(_keys(versions, merge_on)):
        begin, end = begins[index], ends[index]
        events = found.setdefault(key, {})
        events[begin] = _Event(offset + index, begin == end, is_new=False, has_row=True, valid_to=end)
    for events in found.values():
        # What ends where nothing begins was closed by a delete, whose values nobody asks for: those of the version will do.
        closed = {
            event.valid_to: event._replace(is_delete=True, has_row=False)
            for event in events.values()
            if event.valid_to is not None and event.valid_to not in events
        }
        events.update(closed)
    return found


def _rows_to_write(events: dict[Any, _Event]) -> list[_Row]:
    """Of one key, what differs from what the table has."""
    found = []
    ordered = sorted(events)
    # Of the version before, where none was deleted since: the rows that have its values, if they are others than its own.
    before: _Event | None = None
    known: dict[str, int] = {}
    for position, sequence in enumerate(ordered):
        event = events[sequence]
        if event.is_delete:
            # One that closes a version needs no row, unless a version is to be taken back that begins just there.
            if (event.is_new and event.has_row) or (not event.has_row and before is None):
                found.append(_Row(event.source, {}, sequence, sequence))
            before = None
            continue
        known = {name: _source_of(name, event, before, known) for name in event.kept}
        before = event
        end = ordered[position + 1] if position + 1 < len(ordered) else None
        if event.is_new or event.valid_to != end:
            found.append(_Row(event.source, known, sequence, end))
    return found


def _source_of(name: str, event: _Event, before: _Event | None, known: Mapping[str, int]) -> int:
    """The row that has a value of a version, or what stands for it where nobody knows."""
    replaced = event.replaces
    while replaced is not None and not replaced.is_delete:
        if name not in replaced.kept:
            return replaced.source
        replaced = replaced.replaces
    return event.source if before is None else known.get(name, before.source)


def _keys(rows: pa.Table, merge_on: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.column(name).to_pylist() for name in merge_on), strict=True))
