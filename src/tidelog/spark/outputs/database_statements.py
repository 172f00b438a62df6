"""The SQL of a batch: what makes staged rows count, what is asked of them before, and what tables are made of. Pure.

Staged rows `s` change the table `t` set by set, never row by row. With merge_on:

    rows to delete      t with the key of an s that is deleted and no older
    rows to change      t with the key of an s that is no older
    rows to add         s whose key t does not have

A history has a row for each version of a key, from its sequence to that of the next version or delete. The outcome is that of all
changes of all batches in the order of their sequence, whatever batch each one came in; of two at one sequence the later batch
counts. A delete is remembered as the end of a version, and where no version ends there as a row whose `valid_from` is its
`valid_to`, which never counts: a version that comes late has to end there.

    ends kept           where t had a version ended by a delete, and s has another delete inside it: a row for the end
    same start          a version of s at the sequence of a row of t replaces its values
    added               other versions of s, each until the next row or end of t or change of s
    cut                 versions of t, at the first change of s inside them
    taken back          versions of t at whose sequence s has a delete: they end where they begin
    deletes kept        deletes of s at which nothing ends: rows of their own

What comes before `cut` sees where versions ended before the batch.

A value of s that stays as it is (`kept_values`) is that of the t with its key; in a history that of the version of t into whose
time s falls, or at whose end it is.
"""

# ruff: noqa: S608 - names are quoted by the dialect, and everything else is numbers of ours

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tidelog.spark.outputs.database_dialect import Dialect
from tidelog.spark.outputs.kept_values import KEPT
from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.outputs.staged import DELETED, UNCHANGED, VALID_FROM, VALID_TO, Changes

if TYPE_CHECKING:
    import pyarrow as pa

OWN_PREFIX = "_tidelog_"
ATTEMPT = "_tidelog_attempt"
ROW = "_tidelog_row"
"""The place of a row in its attempt, of a history: the last of two changes at one sequence counts."""
_NEXT = "_tidelog_next"
_RANK = "_tidelog_rank"
_FOUND = "_tidelog_found"


class Column(msgspec.Struct, frozen=True):
    """Of a table that is there."""

    name: str
    type: str
    """As the database writes it in CREATE TABLE."""
    base: str
    """What is compared with the type of the rows: of a domain the type below it."""
    is_required: bool
    """NOT NULL."""
    has_default: bool
    """Or makes its values by itself."""
    is_generated: bool = False
    """Takes no values from outside at all."""


class TableFacts(msgspec.Struct, frozen=True):
    """What is there before a batch."""

    columns: tuple[Column, ...]
    unique: tuple[tuple[str, ...], ...]
    """Columns of each unique index that is over columns alone."""
    unknown: tuple[str, ...] = ()
    """What else may refuse rows, which only a trial finds out: triggers, foreign keys, checks."""
    refused: str = ""
    """Why the table can be no target at all; a sentence."""


class Merge(msgspec.Struct, frozen=True):
    """How rows of one sink get into its table."""

    dialect: Dialect
    table: str
    staged: str
    """The table of staged rows; both names are qualified and not quoted."""
    columns: tuple[str, ...]
    """Of the rows, without what is internal."""
    changes: Changes | None = None
    batch_column: str = ""
    leaves_out: bool = False
    """Whether rows have values that stay as they are, by marks over `columns`."""

    @property
    def target(self) -> str:
        return self.dialect.qualified(self.table)

    @property
    def source(self) -> str:
        return self.dialect.qualified(self.staged)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of which the table must have every combination once."""
        if self.changes is None:
            return ()
        return (*self.changes.merge_on, VALID_FROM) if self.changes.history else self.changes.merge_on


def merge_statements(merge: Merge, attempts: Sequence[int], mark: str) -> list[str]:
    """What makes the rows of these attempts count, in this order, in one transaction."""
    if merge.changes is None:
        return [_append(merge, attempts, mark)]
    return _history(merge, attempts, mark) if merge.changes.history else _upsert(merge, attempts, mark)


def cleared_statement(merge: Merge, attempts: Sequence[int]) -> str:
    return f"DELETE FROM {merge.source} WHERE {merge.dialect.quoted(ATTEMPT)} IN ({_numbers(attempts)})"


def counted_statement(merge: Merge, attempts: Sequence[int]) -> str:
    return f"SELECT count(*) FROM {merge.source} AS s WHERE {_of(merge, attempts)}"


def _append(merge: Merge, attempts: Sequence[int], mark: str) -> str:
    return f"{_insert(merge, mark)} FROM {merge.source} AS s WHERE {_of(merge, attempts)}"


def _upsert(merge: Merge, attempts: Sequence[int], mark: str) -> list[str]:
    assert merge.changes is not None
    keys, quoted = merge.changes.merge_on, merge.dialect.quoted
    same = _same(merge, keys)
    newer = ""
    if merge.changes.sequence_by is not None:
        sequence = quoted(merge.changes.sequence_by)
        newer = f" AND (t.{sequence} IS NULL OR s.{sequence} >= t.{sequence})"
    kept, gone = f"s.{quoted(DELETED)} = 0", f"s.{quoted(DELETED)} = 1"
    found = [_delete(merge, keys, merge.source, same, f"{_of(merge, attempts)} AND {gone}{newer}")]
    if values := _values(merge, mark, without=keys):
        found.append(_update(merge, values, merge.source, same, f"{_of(merge, attempts)} AND {kept}{newer}"))
    found.append(
        f"{_insert(merge, mark)} FROM {merge.source} AS s WHERE {_of(merge, attempts)} AND {kept}"
        f" AND NOT EXISTS (SELECT 1 FROM {merge.target} AS t WHERE {same})"
    )
    return found


def _history(merge: Merge, attempts: Sequence[int], mark: str) -> list[str]:
    assert merge.changes is not None
    assert merge.changes.sequence_by is not None
    keys, quoted = merge.changes.merge_on, merge.dialect.quoted
    sequence, begin, end = quoted(merge.changes.sequence_by), quoted(VALID_FROM), quoted(VALID_TO)
    kept, gone = f"s.{quoted(DELETED)} = 0", f"s.{quoted(DELETED)} = 1"
    timed, ahead, there = _timed(merge, attempts), f"s.{quoted(_NEXT)}", f"s.{quoted(_FOUND)}"
    same_key = _same(merge, keys)
    same_start = f"{same_key} AND t.{begin} = s.{sequence}"
    until = f"CASE WHEN {ahead} IS NULL OR {there} < {ahead} THEN {there} ELSE {ahead} END"
    has_row = f"EXISTS (SELECT 1 FROM {merge.target} AS t WHERE {same_start})"
    ended_there = f"EXISTS (SELECT 1 FROM {merge.target} AS t WHERE {same_key} AND t.{end} = s.{sequence})"
    key_list = ", ".join(f"t.{quoted(each)}" for each in keys)
    cut = (
        f"(SELECT {key_list}, t.{begin} AS {quoted('_tidelog_from')}, MIN(s.{sequence}) AS {quoted('_tidelog_cut')}"
        f" FROM {merge.source} AS s JOIN {merge.target} AS t ON {same_key} AND t.{begin} < s.{sequence}"
        f" AND (t.{end} IS NULL OR t.{end} > s.{sequence}) WHERE {_of(merge, attempts)} GROUP BY {key_list}, t.{begin})"
    )
    same_cut = f"{same_key} AND t.{begin} = s.{quoted('_tidelog_from')}"
    # What a delete has left there is no version, whose values could stay.
    replaced = _values(merge, mark, without=keys, unless=f"t.{end} = t.{begin}")
    replaced[VALID_TO] = f"CASE WHEN t.{end} = t.{begin} THEN {until} ELSE t.{end} END"
    added = _insert(merge, mark, more={VALID_FROM: f"s.{sequence}", VALID_TO: until})
    deleted = _insert(merge, mark, more={VALID_FROM: f"s.{sequence}", VALID_TO: f"s.{sequence}"})
    return [
        _ends_kept(merge, attempts, mark),
        _update(merge, replaced, timed, same_start, kept),
        f"{added} FROM {timed} AS s WHERE {kept} AND NOT {has_row}",
        _update(merge, {VALID_TO: f"s.{quoted('_tidelog_cut')}"}, cut, same_cut, "1 = 1"),
        _update(merge, {VALID_TO: f"t.{begin}"}, timed, same_start, gone),
        f"{deleted} FROM {timed} AS s WHERE {gone} AND NOT {has_row} AND NOT {ended_there}",
    ]


def _ends_kept(merge: Merge, attempts: Sequence[int], mark: str) -> str:
    """The last change of s inside a version of t is a delete: then no version will end where that one did."""
    quoted, keys = merge.dialect.quoted, merge.changes.merge_on if merge.changes is not None else ()
    sequence = quoted(str(merge.changes and merge.changes.sequence_by))
    begin, end = quoted(VALID_FROM), quoted(VALID_TO)
    inside = f"{_same(merge, keys)} AND t.{begin} <= s.{sequence} AND t.{end} > s.{sequence}"
    is_last = f"(s.{quoted(_NEXT)} IS NULL OR s.{quoted(_NEXT)} > t.{end})"
    others = " AND ".join(f"o.{quoted(each)} = t.{quoted(each)}" for each in keys)
    insert = _insert(merge, mark, more={VALID_FROM: f"t.{end}", VALID_TO: f"t.{end}"}, of="t")
    return (
        f"{insert} FROM {_timed(merge, attempts)} AS s JOIN {merge.target} AS t ON {inside}"
        f" WHERE s.{quoted(DELETED)} = 1 AND {is_last}"
        f" AND NOT EXISTS (SELECT 1 FROM {merge.target} AS o WHERE {others} AND o.{begin} = t.{end})"
    )


def _timed(merge: Merge, attempts: Sequence[int]) -> str:
    """Staged changes with one of each key and sequence, the sequence of the next one, and what the table has next.

    The window stands beside the look into the table: MariaDB does not let a table be changed by a subquery that it could merge
    into the statement.
    """
    assert merge.changes is not None
    assert merge.changes.sequence_by is not None
    quoted = merge.dialect.quoted
    names = (*merge.columns, DELETED, *((UNCHANGED,) if merge.leaves_out else ()))
    keys = ", ".join(f"s.{quoted(each)}" for each in merge.changes.merge_on)
    sequence, begin, end = f"s.{quoted(merge.changes.sequence_by)}", f"t.{quoted(VALID_FROM)}", f"t.{quoted(VALID_TO)}"
    columns = ", ".join(f"s.{quoted(each)}" for each in names)
    ranked = (
        f"SELECT {columns}, ROW_NUMBER() OVER (PARTITION BY {keys}, {sequence}"
        f" ORDER BY s.{quoted(ATTEMPT)} DESC, s.{quoted(ROW)} DESC) AS {quoted(_RANK)}"
        f" FROM {merge.source} AS s WHERE {_of(merge, attempts)}"
    )
    found = (
        f"SELECT MIN(CASE WHEN {begin} > {sequence} THEN {begin} ELSE {end} END) FROM {merge.target} AS t"
        f" WHERE {_same(merge, merge.changes.merge_on)} AND ({begin} > {sequence} OR {end} > {sequence})"
    )
    before = ""
    if merge.leaves_out:
        identity = (*merge.changes.merge_on, merge.changes.sequence_by)
        columns = ", ".join(
            f"CASE WHEN {_stays(merge, each)} THEN p.{quoted(each)} ELSE s.{quoted(each)} END AS {quoted(each)}"
            if each in merge.columns and each not in identity
            else f"s.{quoted(each)}"
            for each in names
        )
        same = " AND ".join(f"p.{quoted(each)} = s.{quoted(each)}" for each in merge.changes.merge_on)
        began, ended = f"p.{quoted(VALID_FROM)}", f"p.{quoted(VALID_TO)}"
        # Times of versions do not overlap: there is one at most.
        before = (
            f" LEFT JOIN {merge.target} AS p ON {same} AND {began} < {sequence}"
            f" AND ({ended} IS NULL OR {ended} >= {sequence})"
        )
    return (
        f"(SELECT {columns}, LEAD({sequence}) OVER (PARTITION BY {keys} ORDER BY {sequence}) AS {quoted(_NEXT)},"
        f" ({found}) AS {quoted(_FOUND)} FROM ({ranked}) AS s{before} WHERE s.{quoted(_RANK)} = 1)"
    )


def _insert(merge: Merge, mark: str, more: Mapping[str, str] | None = None, of: str = "s") -> str:
    """Up to the FROM of its SELECT."""
    quoted = merge.dialect.quoted
    values = {each: f"{of}.{quoted(each)}" for each in merge.columns} | dict(more or {}) | _mark(merge, mark)
    names = ", ".join(quoted(each) for each in values)
    return f"INSERT INTO {merge.target} ({names}) SELECT {', '.join(values.values())}"


def _values(merge: Merge, mark: str, without: Sequence[str], unless: str = "") -> dict[str, str]:
    """What a row of t gets: those of s, or where they stay as they are its own, unless that is so of it."""
    quoted = merge.dialect.quoted
    named = {each: f"s.{quoted(each)}" for each in merge.columns if each not in without}
    if merge.leaves_out:
        also = f" AND NOT (t.{quoted(VALID_TO)} IS NOT NULL AND {unless})" if unless else ""
        named = {
            each: f"CASE WHEN {_stays(merge, each)}{also} THEN t.{quoted(each)} ELSE {value} END"
            for each, value in named.items()
        }
    return named | _mark(merge, mark)


def _stays(merge: Merge, column: str) -> str:
    place = merge.columns.index(column) + 1
    return f"substr(s.{merge.dialect.quoted(UNCHANGED)}, {place}, 1) = '{KEPT}'"


def _mark(merge: Merge, mark: str) -> dict[str, str]:
    return {merge.batch_column: f"'{mark}'"} if merge.batch_column else {}


def _update(merge: Merge, values: Mapping[str, str], source: str, on: str, where: str) -> str:
    quoted = merge.dialect.quoted
    if merge.dialect.joins == "join":
        sets = ", ".join(f"t.{quoted(name)} = {value}" for name, value in values.items())
        return f"UPDATE {merge.target} AS t JOIN {source} AS s ON {on} SET {sets} WHERE {where}"
    sets = ", ".join(f"{quoted(name)} = {value}" for name, value in values.items())
    return f"UPDATE {merge.target} AS t SET {sets} FROM {source} AS s WHERE {on} AND {where}"


def _delete(merge: Merge, identity: Sequence[str], source: str, on: str, where: str) -> str:
    quoted = merge.dialect.quoted
    if merge.dialect.joins == "from":
        return f"DELETE FROM {merge.target} AS t USING {source} AS s WHERE {on} AND {where}"
    if merge.dialect.joins == "join":
        return f"DELETE t FROM {merge.target} AS t JOIN {source} AS s ON {on} WHERE {where}"
    names, chosen = (", ".join(f"{before}{quoted(each)}" for each in identity) for before in ("", "t."))
    return (
        f"DELETE FROM {merge.target} WHERE ({names}) IN"
        f" (SELECT {chosen} FROM {source} AS s JOIN {merge.target} AS t ON {on} WHERE {where})"
    )


def _same(merge: Merge, keys: Sequence[str]) -> str:
    quoted = merge.dialect.quoted
    return " AND ".join(f"t.{quoted(each)} = s.{quoted(each)}" for each in keys)


def _of(merge: Merge, attempts: Sequence[int]) -> str:
    return f"s.{merge.dialect.quoted(ATTEMPT)} IN ({_numbers(attempts)})"


def _numbers(attempts: Sequence[int]) -> str:
    return ", ".join(str(int(each)) for each in attempts) or "NULL"


def refusals(merge: Merge, facts: TableFacts, attempts: Sequence[int]) -> list[tuple[str, str]]:
    """Queries that find a row where the end would be refused, each with the sentence for it."""
    quoted, staged = merge.dialect.quoted, f"FROM {merge.source} AS s WHERE {_of(merge, attempts)}"
    # Of a row that is deleted only the key is asked for, but in a history, which may have to remember it.
    passes_deleted = merge.changes is not None and not merge.changes.history
    counting = f" AND s.{quoted(DELETED)} = 0" if passes_deleted else ""
    named = {_folded(merge.dialect, each): each for each in merge.columns}
    found = []
    for column in facts.columns:
        name = named.get(_folded(merge.dialect, column.name))
        if column.is_required and name is not None:
            query = f"SELECT 1 {staged}{counting} AND s.{quoted(name)} IS NULL{_unless_there(merge, name)} LIMIT 1"
            found.append((f"a row has no value in {name}, which must not be null in {merge.table}", query))
    if merge.changes is not None:
        if not merge.changes.history:
            keys = merge.changes.merge_on
            found.append((f"a batch has a key twice ({', '.join(keys)})", _twice(merge, attempts, keys)))
        return found
    for columns in facts.unique:
        present = [named[each] for each in (_folded(merge.dialect, name) for name in columns) if each in named]
        if len(present) == len(columns):
            sentence = f"{merge.table} must have every {', '.join(columns)} once"
            found.append((f"{sentence}, and the batch has one twice", _twice(merge, attempts, present)))
            join = f"SELECT 1 FROM {merge.source} AS s JOIN {merge.target} AS t ON {_same(merge, present)}"
            found.append(
                (f"{sentence}, and has one of the batch already", f"{join} WHERE {_of(merge, attempts)} LIMIT 1")
            )
    return found


def _unless_there(merge: Merge, column: str) -> str:
    """But for a value that stays as it is, of a row that is there. In a history it would take a look for the version."""
    if not merge.leaves_out or merge.changes is None or merge.changes.history:
        return ""
    there = f"EXISTS (SELECT 1 FROM {merge.target} AS t WHERE {_same(merge, merge.changes.merge_on)})"
    return f" AND NOT (s.{merge.dialect.quoted(UNCHANGED)} IS NOT NULL AND {_stays(merge, column)} AND {there})"


def _twice(merge: Merge, attempts: Sequence[int], columns: Sequence[str]) -> str:
    names = [f"s.{merge.dialect.quoted(each)}" for each in columns]
    there = "".join(f" AND {each} IS NOT NULL" for each in names)
    listed = ", ".join(names)
    return f"SELECT 1 FROM {merge.source} AS s WHERE {_of(merge, attempts)}{there} GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"


def needs_trial(merge: Merge, facts: TableFacts) -> bool:
    """Whether only the statements themselves find out if the table takes the rows."""
    if facts.unknown:
        return True
    named = {_folded(merge.dialect, each) for each in merge.columns}
    filled = {_folded(merge.dialect, each.name) for each in facts.columns if each.has_default}
    identity = {_folded(merge.dialect, each) for each in merge.identity}
    for columns in facts.unique:
        names = {_folded(merge.dialect, each) for each in columns}
        if merge.changes is not None and names != identity:
            return True
        if merge.changes is None and not names <= named and not names & filled:
            return True
    return False


def wrong_columns(merge: Merge, facts: TableFacts, schema: pa.Schema, *, widens: bool) -> list[str]:
    """Why a table that is there does not take rows of this schema: sentences."""
    if facts.refused:
        return [facts.refused]
    dialect = merge.dialect
    there = {_folded(dialect, each.name): each for each in facts.columns}
    needed = table_columns(merge, schema)
    found = []
    for name, kind in needed.items():
        column = there.get(_folded(dialect, name))
        if column is None:
            if not widens:
                found.append(f"{merge.table} has no column {name}, and may not be widened")
        elif column.is_generated:
            found.append(f"{merge.table} makes the values of {name} by itself: leave the column out of the rows")
        elif not dialect.fits(kind, column.base):
            found.append(f"{merge.table} has the column {name} as {column.type}, which does not hold all of {kind}")
    folded = {_folded(dialect, each) for each in needed}
    found += [
        f"{merge.table} must have a value in {column.name}, which the rows do not have"
        for column in facts.columns
        if column.is_required and not column.has_default and _folded(dialect, column.name) not in folded
    ]
    identity = {_folded(dialect, each) for each in merge.identity}
    if identity and not any({_folded(dialect, each) for each in columns} == identity for columns in facts.unique):
        listed = ", ".join(merge.identity)
        found.append(f"{merge.table} has no primary key or unique index on {listed}, by which rows would be found")
    return found


def table_columns(merge: Merge, schema: pa.Schema) -> dict[str, pa.DataType]:
    """All columns that rows of this schema need in the table."""
    import pyarrow as pa  # noqa: PLC0415 - whoever has a schema has it

    found = {each: schema.field(each).type for each in merge.columns}
    if merge.changes is not None and merge.changes.history and merge.changes.sequence_by is not None:
        kind = schema.field(merge.changes.sequence_by).type
        found |= {VALID_FROM: kind, VALID_TO: kind}
    if merge.batch_column:
        found[merge.batch_column] = pa.string()
    return found


def create_table(merge: Merge, schema: pa.Schema) -> str:
    """The target, for rows of this schema. Only what makes up its key must not be null."""
    dialect, identity = merge.dialect, merge.identity
    lines = [
        f"{dialect.quoted(name)} {dialect.column_type(kind, is_key=name in identity)}{' NOT NULL' if name in identity else ''}"
        for name, kind in table_columns(merge, schema).items()
    ]
    if identity:
        lines.append(f"PRIMARY KEY ({', '.join(dialect.quoted(each) for each in identity)})")
    return f"CREATE TABLE IF NOT EXISTS {merge.target} ({', '.join(lines)}){dialect.table_end}"


def missing_columns(merge: Merge, facts: TableFacts, schema: pa.Schema) -> dict[str, pa.DataType]:
    """Those that rows of this schema need, and the table lacks."""
    there = {_folded(merge.dialect, each.name) for each in facts.columns}
    needed = table_columns(merge, schema)
    return {name: kind for name, kind in needed.items() if _folded(merge.dialect, name) not in there}


def widening(merge: Merge, facts: TableFacts, schema: pa.Schema) -> list[str]:
    """Adds the columns that the table lacks. Rows that are there have null in them."""
    return [
        f"ALTER TABLE {merge.target} ADD COLUMN {merge.dialect.quoted(name)} {merge.dialect.column_type(kind)}"
        for name, kind in missing_columns(merge, facts, schema).items()
    ]


def staged_columns(merge: Merge, facts: TableFacts) -> dict[str, str]:
    """Of a table of staged rows, by name: the types are those of the target, so that a value which the target would refuse is
    refused when it is staged. The small numbers are the same in every database."""
    there = {_folded(merge.dialect, each.name): each for each in facts.columns}
    missing = [each for each in merge.columns if _folded(merge.dialect, each) not in there]
    if missing:
        raise OutputRefusedError(f"{merge.table} has no column {missing[0]} any more")
    found = {each: there[_folded(merge.dialect, each)].type for each in merge.columns}
    found[ATTEMPT] = "bigint"
    if merge.changes is not None:
        found[DELETED] = "smallint"
        if merge.leaves_out:
            found[UNCHANGED] = merge.dialect.types["text"]
        if merge.changes.history:
            found[ROW] = "bigint"
    return found


def staged_name(owner: str, table: str, columns: Mapping[str, str]) -> str:
    """One for each sink and kind of rows: a table that was changed since has another, and staged rows stay what they were."""
    content = "\0".join((owner, table, *(f"{name} {kind}" for name, kind in columns.items())))
    return f"tidelog_staged_{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def batch_mark(app_id: str, batch_id: int) -> str:
    """What the column for the batch holds: several pipelines, and several checkpoints of one, may write to one table."""
    return f"{batch_id:010d}-{hashlib.sha256(app_id.encode()).hexdigest()[:12]}"


def _folded(dialect: Dialect, name: str) -> str:
    return name.lower() if dialect.ignores_case else name
