"""Staging in a database that is a server: every attempt writes to one permanent table, keyed by the attempt, and commits.

    tidelog_attempts            one row an attempt: whose, of which run, batch and task, in which table, how many rows
    tidelog_staged_<hash>       rows of all attempts of one sink and one kind of rows

A part that is handed over names both: `tidelog_staged_<hash>/<id>`. Each piece of an attempt is committed on its own, so that no
transaction is open while a task computes. Whose the rows are is told by the sink's staging place: a sweep takes nothing of
another sink.
"""

# ruff: noqa: S608 - names are quoted by the dialect, and everything else is numbers of ours

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from tidelog.spark.outputs.database_rows import refused_row, staged_rows
from tidelog.spark.outputs.database_session import Session
from tidelog.spark.outputs.database_statements import (
    ATTEMPT,
    Merge,
    TableFacts,
    cleared_statement,
    counted_statement,
    staged_columns,
    staged_name,
)
from tidelog.spark.outputs.database_table import DatabaseKind
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError, StagingAttempt, Swept
from tidelog.spark.outputs.manifest_store import decode_schema
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, StagedFile, StagedPart, sum_checksums
from tidelog.spark.row_checksum import row_checksum

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS = "tidelog_attempts"


class ServerAttempt:
    """Rows of one attempt in the table of staged rows. It connects with the first row: a task without rows leaves nothing."""

    def __init__(self, kind: DatabaseServerKind, name: AttemptName, schema: pa.Schema) -> None:
        self._kind = kind
        self._name = name
        self._merge = kind.merge(schema)
        self._session: Session | None = None
        self._id = 0
        self._table = ""
        self._has_failed = False
        self._rows = self._bytes = self._checksum = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._has_failed:
            raise OutputUnreachableError(f"the attempt {self._name} has failed, and takes no more rows")
        if not batch.num_rows:
            return
        if (wrong := refused_row(batch, self._kind.dialect, self._merge.changes)) is not None:
            raise OutputRefusedError(f"{self._kind.target.table} in {self._kind.place}: {wrong}")
        try:
            with self._kind.told():
                session = self._session or self._begin()
                whole = staged_rows(
                    batch, self._merge.columns, self._merge.changes, attempt=self._id, first_row=self._rows
                )
                self._load(session, whole)
        except BaseException:
            self._has_failed = True
            self._close()
            raise
        self._rows += batch.num_rows
        self._checksum = sum_checksums((self._checksum, row_checksum(batch)))

    def _load(self, session: Session, rows: pa.RecordBatch) -> None:
        """One short transaction, which holds the row of the attempt: a sweep takes it before or after, with all of its rows."""
        session.execute(self._kind.dialect.begin)
        statement = f"UPDATE {self._kind.own_quoted(ATTEMPTS)} SET staged_at = now() WHERE id = {self._id}"
        if session.execute(statement).changed != 1:
            raise OutputUnreachableError(f"the attempt {self._name} took so long that its rows were swept away")
        self._bytes += session.load(self._merge.source, rows)
        session.execute("COMMIT")

    def hand_over(self) -> StagedPart:
        if self._has_failed:
            raise OutputUnreachableError(f"the attempt {self._name} has failed, and has nothing to hand over")
        if self._session is None:
            return StagedPart(str(self._name), 0, 0)
        try:
            with self._kind.told():
                self._finish(self._session)
        finally:
            self._close()
        file = StagedFile(f"{self._table}/{self._id}", self._bytes, self._rows)
        return StagedPart(str(self._name), self._rows, self._checksum, (file,))

    def _finish(self, session: Session) -> None:
        self._kind.make_durable(session)
        mark = self._kind.dialect.placeholder
        statement = f"UPDATE {self._kind.own_quoted(ATTEMPTS)} SET staged_rows = {mark} WHERE id = {mark}"
        if session.execute(statement, (self._rows, self._id)).changed != 1:
            raise OutputUnreachableError(f"the attempt {self._name} took so long that its rows were swept away")

    def abort(self) -> None:
        self._close()
        if self._id:
            with suppress(OutputRefusedError, OutputUnreachableError):
                self._kind.remove([(self._table, self._id)])

    def _begin(self) -> Session:
        kind = self._kind
        session = self._session = kind.connect()
        columns = staged_columns(self._merge, kind.there(session))
        name = self._table = staged_name(kind.owner, kind.target.table, columns)
        if not kind.has_table(session, name):
            raise OutputRefusedError(
                f"{kind.target.table} in {kind.place} was changed since the query started: start it again"
            )
        self._merge = msgspec.structs.replace(self._merge, staged=kind.own(name))
        kind.begin_attempt(session)
        mark = kind.dialect.placeholder
        statement = (
            f"INSERT INTO {kind.own_quoted(ATTEMPTS)} (owner, attempt, staged_in)"
            f" VALUES ({mark}, {mark}, {mark}) RETURNING id"
        )
        self._id = int(str(session.execute(statement, (kind.owner, str(self._name), name)).rows[0][0]))
        return session

    def _close(self) -> None:
        if self._session is not None:
            with suppress(Exception):
                self._session.close()
        self._session = None


class DatabaseServerKind(DatabaseKind):
    """Subclasses connect, and look at tables."""

    def begin_attempt(self, session: Session) -> None:
        """Before the first row of an attempt."""

    def make_durable(self, session: Session) -> None:
        """Whatever was staged by this session, before it is handed over."""

    def open_attempt(self, name: AttemptName, schema: pa.Schema) -> StagingAttempt:
        return ServerAttempt(self, name, schema)

    def prepare_staging(self, session: Session, schema: pa.Schema, facts: TableFacts) -> None:
        if not self.has_table(session, ATTEMPTS):
            session.execute(self._attempts_statement())
        merge = self.merge(schema)
        columns = staged_columns(merge, facts)
        name = staged_name(self.owner, self.target.table, columns)
        if not self.has_table(session, name):
            quoted = self.dialect.quoted
            listed = ", ".join(f"{quoted(each)} {kind.replace('%', '%%')}" for each, kind in columns.items())
            table = self.own_quoted(name)
            session.execute(f"CREATE TABLE IF NOT EXISTS {table} ({listed}){self.dialect.table_end}")
            index = quoted(f"{name}_attempts")
            session.execute(f"CREATE INDEX IF NOT EXISTS {index} ON {table} ({quoted(ATTEMPT)})")

    def check_staging(self, session: Session, batch: StagedBatch, facts: TableFacts) -> None:
        merge, attempts = self.staged(session, batch)
        if not attempts:
            return
        columns = staged_columns(self.merge(decode_schema(batch.manifest.schema)), facts)
        if staged_name(self.owner, self.target.table, columns) != merge.staged.rpartition(".")[2]:
            raise OutputRefusedError(
                f"{merge.table} in {self.place} was changed since the query started: start it again"
            )
        expected = {
            (_attempt_id(file), part.attempt, part.rows) for part in batch.manifest.parts for file in part.files
        }
        listed = ", ".join(str(each) for each in attempts)
        table = self.own_quoted(ATTEMPTS)
        rows = session.execute(f"SELECT id, attempt, staged_rows FROM {table} WHERE id IN ({listed})").rows
        counted = session.execute(counted_statement(merge, attempts)).rows[0][0]
        if set(rows) != expected or counted != batch.manifest.rows:
            raise OutputRefusedError(
                f"rows that were staged of batch {batch.manifest.batch_id} are gone from {merge.staged}"
            )
        self.look_at_staged(session, merge, batch.manifest.rows)

    def look_at_staged(self, session: Session, merge: Merge, rows: int) -> None:
        """Have the database know how many rows it will merge, where it plans by that."""

    def check_rights(self, session: Session, statements: Sequence[str]) -> None:
        for statement in statements:
            session.execute(f"EXPLAIN {statement}")

    def staged(self, session: Session, batch: StagedBatch) -> tuple[Merge, list[int]]:
        schema = decode_schema(batch.manifest.schema)
        files = batch.manifest.files
        tables = sorted({file.path.partition("/")[0] for file in files})
        if len(tables) > 1:
            raise OutputRefusedError(
                f"{self.target.table} in {self.place} was changed while batch {batch.manifest.batch_id} ran"
            )
        if tables and not self.has_table(session, tables[0]):
            raise OutputRefusedError(
                f"the table {tables[0]} is gone, which batch {batch.manifest.batch_id} has rows in"
            )
        return self.merge(schema, self.own(tables[0]) if tables else ""), [_attempt_id(file) for file in files]

    def clear(self, session: Session, merge: Merge, attempts: Sequence[int]) -> None:  # noqa: ARG002 - of all tables
        listed = ", ".join(str(each) for each in attempts)
        session.execute(f"DELETE FROM {self.own_quoted(ATTEMPTS)} WHERE id IN ({listed})")

    def cleared(self, batch: StagedBatch) -> None:
        """The transaction of the end did it."""

    def discard(self, parts: Sequence[StagedPart]) -> None:
        self.remove((file.path.partition("/")[0], _attempt_id(file)) for part in parts for file in part.files)

    def sweep(self, named: frozenset[str], *, older_than_s: float) -> Swept:
        mark = self.dialect.placeholder
        with self.session() as session:
            if not self.has_table(session, ATTEMPTS):
                return Swept()
            statement = (
                f"SELECT id, attempt, staged_in FROM {self.own_quoted(ATTEMPTS)}"
                f" WHERE owner = {mark} AND {self.dialect.age_s} >= {mark}"
            )
            found = session.execute(statement, (self.owner, older_than_s)).rows
        return Swept(
            rows=self.remove((str(table), int(str(number))) for number, attempt, table in found if attempt not in named)
        )

    def _forget(self, session: Session, merge: Merge, attempts: Sequence[int]) -> int:
        """That attempts have staged rows, and then the rows: nobody adds more in between, for whoever does holds the former."""
        session.execute(self.dialect.begin)
        self.clear(session, merge, attempts)
        changed = session.execute(cleared_statement(merge, attempts)).changed if merge.staged else 0
        session.execute("COMMIT")
        return changed

    def remove(self, attempts: Iterable[tuple[str, int]]) -> int:
        """What attempts, by table and number, have staged; the rows that were there."""
        by_table = defaultdict(list)
        for table, attempt in attempts:
            by_table[table].append(attempt)
        if not by_table:
            return 0
        rows = 0
        with self.session() as session:
            for table, numbers in by_table.items():
                there = self.own(table) if self.has_table(session, table) else ""
                rows += self._forget(session, Merge(self.dialect, self.target.table, there, ()), numbers)
        return rows

    def _attempts_statement(self) -> str:
        dialect = self.dialect
        text = dialect.key_types.get("text", dialect.types["text"])
        return (
            f"CREATE TABLE IF NOT EXISTS {self.own_quoted(ATTEMPTS)} (id {dialect.serial} PRIMARY KEY, owner {text} NOT NULL,"
            f" attempt {text} NOT NULL, staged_in {text} NOT NULL, staged_rows bigint,"
            f" staged_at {dialect.clock}){dialect.table_end}"
        )


def _attempt_id(file: StagedFile) -> int:
    return int(file.path.partition("/")[2])
