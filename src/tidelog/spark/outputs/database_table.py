"""A table of a database as a sink: what SQLite, PostgreSQL and MariaDB have in common.

    tidelog_batches     the last batch of each pipeline's sink, advanced in the same transaction as the batch's rows
    the end             BEGIN; advance from below N to N (one row, or it was done); merge; clear what was staged; COMMIT

No transaction is held across processes, and no DDL is in an end. Two ends of one batch wait for the row of `tidelog_batches`: the
second one finds it advanced. Whoever lost an answer reads that row.
"""

# ruff: noqa: S608 - names are quoted by the dialect, and everything else is numbers of ours

from __future__ import annotations

import abc
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar

from tidelog.spark.outputs.database_dialect import Dialect
from tidelog.spark.outputs.database_rows import arrow_rows
from tidelog.spark.outputs.database_session import Session
from tidelog.spark.outputs.database_statements import (
    OWN_PREFIX,
    Merge,
    TableFacts,
    batch_mark,
    cleared_statement,
    counted_statement,
    create_table,
    merge_statements,
    missing_columns,
    needs_trial,
    refusals,
    table_columns,
    widening,
    wrong_columns,
)
from tidelog.spark.outputs.kind import OutputKind, OutputRefusedError, OutputUnreachableError, RowsGoneError
from tidelog.spark.outputs.manifest_store import decode_schema
from tidelog.spark.outputs.staged import (
    INTERNAL,
    UNCHANGED,
    VALID_FROM,
    VALID_TO,
    Manifest,
    StagedBatch,
    sum_checksums,
)
from tidelog.spark.row_checksum import row_checksum

if TYPE_CHECKING:
    import pyarrow as pa

BATCHES = "tidelog_batches"
NO_BATCH = -1
# Somebody else's lock: longer than a transaction of theirs should take.
LOCK_TIMEOUT_S = 30.0
# Nobody waits for longer without knowing why.
LOCK_TIMEOUT_S_MAX = 3600.0
_OPTIONS = frozenset({"batch_column", "schema", "lock_timeout_s"})
# Another one's row may come in between twice; three times is a rule of the table.
_TRIES_MAX = 3
# The target with its index, and three of ours with one.
_TABLES_MADE_MAX = 6


class RowInBetweenError(Exception):
    """Somebody else has added a row with the same key while the batch was merged."""


class DatabaseKind(OutputKind):
    """Subclasses connect, look at tables, and stage."""

    dialect: ClassVar[Dialect]

    @abc.abstractmethod
    def connect(self) -> Session:
        """OutputRefusedError, OutputUnreachableError, or one of the database's own errors."""

    @abc.abstractmethod
    def failure(self, error: Exception) -> OutputRefusedError | OutputUnreachableError | RowInBetweenError | None:
        """What an error of the database means; None where it is none."""

    @abc.abstractmethod
    def facts(self, session: Session) -> TableFacts | None:
        """Of the target; None where there is no such table."""

    @abc.abstractmethod
    def has_table(self, session: Session, name: str) -> bool:
        """One of our own."""

    @abc.abstractmethod
    def staged(self, session: Session, batch: StagedBatch) -> tuple[Merge, list[int]]:
        """The rows that the manifest names, where the session can merge from. OutputRefusedError where they are not there."""

    @abc.abstractmethod
    def prepare_staging(self, session: Session, schema: pa.Schema, facts: TableFacts) -> None: ...

    @abc.abstractmethod
    def check_staging(self, session: Session, batch: StagedBatch, facts: TableFacts) -> None: ...

    @abc.abstractmethod
    def clear(self, session: Session, merge: Merge, attempts: Sequence[int]) -> None:
        """In the transaction of an end."""

    @abc.abstractmethod
    def cleared(self, batch: StagedBatch) -> None:
        """After it, and again whenever the batch is found ended."""

    @abc.abstractmethod
    def check_rights(self, session: Session, statements: Sequence[str]) -> None: ...

    def validate(self, schema: pa.Schema) -> Sequence[str]:
        if wrong := self._wrong_words(schema):
            return wrong
        try:
            if not self.has_place():
                return []
            with self.session() as session:
                facts = self.facts(session)
        except (OutputRefusedError, OutputUnreachableError) as error:
            return [str(error)]
        if facts is None:
            return []
        return wrong_columns(self.merge(schema), facts, schema, widens=self.target.widens)

    def prepare(self, schema: pa.Schema) -> None:
        if wrong := self.validate(schema):
            raise OutputRefusedError(wrong[0])
        self.make_place()
        for tries in range(1, _TABLES_MADE_MAX + 1):
            try:
                self._make(schema)
            except (OutputRefusedError, RowInBetweenError) as error:
                # Queries that start at once make the same tables: whoever is second at one finds it there.
                if tries == _TABLES_MADE_MAX:
                    raise OutputRefusedError(str(error)) from None
            else:
                return

    def _make(self, schema: pa.Schema) -> None:
        merge = self.merge(schema)
        with self.session() as session:
            if not self.has_table(session, BATCHES):
                session.execute(self.batches_statement())
            facts = self.facts(session)
            statements = [create_table(merge, schema)] if facts is None else widening(merge, facts, schema)
            for statement in statements:
                session.execute(statement)
            self.prepare_staging(session, schema, self.there(session))

    def check(self, batch: StagedBatch) -> None:
        with self.session() as session:
            facts = self.there(session)
            if facts.refused:
                raise OutputRefusedError(facts.refused)
            self._check_unchanged(batch, facts)
            self.check_staging(session, batch, facts)
            merge, attempts = self.staged(session, batch)
            for sentence, query in refusals(merge, facts, attempts) if attempts else ():
                if session.execute(query).rows:
                    raise OutputRefusedError(sentence)
            self._begin_row(session, batch.manifest.app_id)
            statements = self._end_statements(merge, attempts, batch.manifest)
            if needs_trial(merge, facts):
                self._try(session, statements)
            else:
                self.check_rights(session, statements)

    def end(self, batch: StagedBatch) -> None:
        for tries in range(1, _TRIES_MAX + 1):
            try:
                with self.session() as session:
                    self._end(session, batch)
            except RowInBetweenError as error:
                if tries == _TRIES_MAX:
                    raise OutputRefusedError(str(error)) from None
                continue
            except (OutputRefusedError, OutputUnreachableError):
                # Another end may have been faster, and have cleared what was staged; or the answer to ours was lost.
                if self._is_ended(batch.manifest):
                    break
                raise
            break
        with suppress(OSError, OutputUnreachableError):
            self.cleared(batch)

    def last_batch(self, app_id: str) -> int | None:
        with self.session() as session:
            return self._last_batch(session, app_id)

    def gone(self) -> str:
        if not self.has_place():
            return f"there is no database at {self.place}"
        with self.session() as session:
            return "" if self.facts(session) is not None else self._no_table()

    def read_back(self, batch: StagedBatch) -> tuple[int, int]:
        with self.session() as session:
            facts = self.there(session)
            if self.has_table(session, BATCHES) and not self._has(session, batch.manifest):
                raise RowsGoneError(
                    f"{self.own(BATCHES)} in {self.place} does not have batch {batch.manifest.batch_id}: it was set back"
                )
            return self._counted(session, batch.manifest, facts)

    def _counted(self, session: Session, manifest: Manifest, facts: TableFacts) -> tuple[int, int]:
        if self.target.changes is not None:
            raise OutputRefusedError(
                f"{self.target.table} keeps one row of a key, or closes versions: rows of one batch cannot be told apart later"
            )
        if not self.batch_column:
            raise OutputRefusedError(
                f"{self.target.table} does not tell of which batch a row is: the option batch_column adds a column that does"
            )
        schema = decode_schema(manifest.schema)
        if missing := missing_columns(self.merge(schema), facts, schema):
            raise RowsGoneError(f"{self.target.table} in {self.place} has the column {next(iter(missing))} no more")
        quoted = self.dialect.quoted
        names = ", ".join(quoted(each) for each in schema.names)
        mark = batch_mark(manifest.app_id, manifest.batch_id)
        query = f"SELECT {names} FROM {self.dialect.qualified(self.target.table)} WHERE {quoted(self.batch_column)} = '{mark}'"
        rows = checksum = 0
        for found in session.read(query):
            try:
                whole = arrow_rows(found, schema, self.dialect)
            except (ArithmeticError, TypeError, ValueError) as error:
                raise RowsGoneError(f"{self.target.table} in {self.place} holds other values: {error}") from error
            rows += whole.num_rows
            checksum = sum_checksums((checksum, row_checksum(whole)))
        return rows, checksum

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors of the database in our words."""
        try:
            yield
        except Exception as error:
            found = self.failure(error)
            if found is None:
                raise
            # The library's own error may have more of the connection in it than anybody should read.
            raise found from None

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A connection whose errors are ours."""
        with self.told():
            session = self.connect()
            try:
                yield session
            finally:
                with suppress(Exception):
                    session.close()

    def merge(self, schema: pa.Schema, staged: str = "") -> Merge:
        columns = tuple(each for each in schema.names if each not in INTERNAL)
        leaves_out = UNCHANGED in schema.names
        return Merge(
            self.dialect, self.target.table, staged, columns, self.target.changes, self.batch_column, leaves_out
        )

    def there(self, session: Session) -> TableFacts:
        """Of the target. OutputRefusedError where it is gone."""
        facts = self.facts(session)
        if facts is None:
            raise OutputRefusedError(self._no_table())
        return facts

    def _no_table(self) -> str:
        return f"there is no table {self.target.table} in {self.place}"

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """The database in messages, without secrets."""

    @property
    def batch_column(self) -> str:
        return self.target.options.get("batch_column", "")

    @property
    def lock_timeout_s(self) -> float:
        return float(self.target.options.get("lock_timeout_s", LOCK_TIMEOUT_S))

    @property
    def owner(self) -> str:
        """This sink, among those that stage in one database."""
        return hashlib.sha256(self.staging.rstrip("/").encode()).hexdigest()[:16]

    def own(self, name: str) -> str:
        """A table of ours, qualified: beside the target, or in the schema that is said."""
        schema = self.target.options.get("schema") or self.target.table.rpartition(".")[0]
        return f"{schema}.{name}" if schema else name

    def own_quoted(self, name: str) -> str:
        return self.dialect.qualified(self.own(name))

    def batches_statement(self) -> str:
        text = self.dialect.key_types.get("text", self.dialect.types["text"])
        return (
            f"CREATE TABLE IF NOT EXISTS {self.own_quoted(BATCHES)}"
            f" (app_id {text} NOT NULL PRIMARY KEY, batch_id bigint NOT NULL){self.dialect.table_end}"
        )

    def _wrong_words(self, schema: pa.Schema) -> list[str]:
        """What is wrong with the target's words for these rows, before anybody is asked."""
        target, changes = self.target, self.target.changes
        found = [
            f"there is no option {each} of a database; known are {', '.join(sorted(_OPTIONS))}"
            for each in sorted(set(target.options) - _OPTIONS)
        ]
        try:
            if not 0 < self.lock_timeout_s <= LOCK_TIMEOUT_S_MAX:
                found.append(f"lock_timeout_s must be more than 0, and at most {LOCK_TIMEOUT_S_MAX:.0f}")
        except ValueError:
            found.append(f"lock_timeout_s is {target.options['lock_timeout_s']}, expected seconds")
        if target.partition_by:
            found.append("a table of a database is not divided here: leave partition_by out")
        if target.storage:
            found.append("a database has no settings of an object store: leave storage out")
        if not target.table:
            found.append("the target has no table: table= names it")
        names = [each for each in schema.names if each not in INTERNAL]
        folded = [each.lower() if self.dialect.ignores_case else each for each in names]
        found += [
            f"the rows have the column {each} twice" for each in sorted({n for n in folded if folded.count(n) > 1})
        ]
        found += [
            f"the column {each} has a name that is Tidelog's own" for each in names if each.startswith(OWN_PREFIX)
        ]
        if self.batch_column and self.batch_column in names:
            found.append(f"batch_column names {self.batch_column}, which is a column of the rows")
        if changes is not None:
            ordered = [changes.sequence_by] if changes.sequence_by is not None else []
            found += [f"the rows have no column {each}" for each in (*changes.merge_on, *ordered) if each not in names]
            if not changes.merge_on:
                found.append("merge_on names no column")
            if changes.history and changes.sequence_by is None:
                found.append("history needs sequence_by=: it says from when a version is valid")
            if changes.history:
                found += [
                    f"the rows have a column {each}, which a history makes"
                    for each in (VALID_FROM, VALID_TO)
                    if each in names
                ]
        if found:
            return found
        try:
            merge = self.merge(schema)
            for kind in table_columns(merge, schema).values():
                self.dialect.column_type(kind)
            create_table(merge, schema)
            self.own_quoted(BATCHES)
            return self.wrong_place(schema)
        except OutputRefusedError as error:
            return [str(error)]

    def wrong_place(self, schema: pa.Schema) -> list[str]:  # noqa: ARG002 - for kinds that look at more
        """What is wrong with the URL, and with rows of this schema in this database."""
        return []

    def has_place(self) -> bool:
        """Whether there is a database at all. A server says it by itself."""
        return True

    def make_place(self) -> None:
        """Make the database, where that is ours to do."""

    def _check_unchanged(self, batch: StagedBatch, facts: TableFacts) -> None:
        schema = decode_schema(batch.manifest.schema)
        if wrong := wrong_columns(self.merge(schema), facts, schema, widens=False):
            raise OutputRefusedError(f"{wrong[0]}: the table was changed since the query started")

    def _end_statements(self, merge: Merge, attempts: Sequence[int], manifest: Manifest) -> list[str]:
        return merge_statements(merge, attempts, batch_mark(manifest.app_id, manifest.batch_id)) if attempts else []

    def _end(self, session: Session, batch: StagedBatch) -> None:
        manifest = batch.manifest
        if self._has(session, manifest):
            return
        merge, attempts = self.staged(session, batch)
        if attempts and session.execute(counted_statement(merge, attempts)).rows[0][0] != manifest.rows:
            raise OutputRefusedError(
                f"not all rows that were staged of batch {manifest.batch_id} are in {merge.staged}"
            )
        self._begin_row(session, manifest.app_id)
        session.execute(self.dialect.begin)
        if not self._advance(session, manifest):
            # Another end of this batch, or of a later one, was faster.
            session.execute("ROLLBACK")
            return
        for statement in self._end_statements(merge, attempts, manifest):
            session.execute(statement)
        if attempts:
            # They were counted before the transaction: a sweep may have taken them since, and nothing would have been merged.
            if session.execute(cleared_statement(merge, attempts)).changed != manifest.rows:
                session.execute("ROLLBACK")
                raise OutputRefusedError(
                    f"rows that were staged of batch {manifest.batch_id} went from {merge.staged} while they were merged"
                )
            self.clear(session, merge, attempts)
        session.execute("COMMIT")

    def _try(self, session: Session, statements: Sequence[str]) -> None:
        """The statements of an end, taken back."""
        session.execute(self.dialect.begin)
        try:
            for statement in statements:
                session.execute(statement)
        except Exception as error:
            found = self.failure(error)
            if isinstance(found, RowInBetweenError):
                raise OutputRefusedError(str(found)) from None
            raise
        session.execute("ROLLBACK")

    def _begin_row(self, session: Session, app_id: str) -> None:
        """The row that an end advances. On its own: an end hits exactly one row, or stops."""
        mark, table = self.dialect.placeholder, self.own_quoted(BATCHES)
        if not session.execute(f"SELECT 1 FROM {table} WHERE app_id = {mark}", (app_id,)).rows:
            ignore = (
                f"INSERT IGNORE INTO {table} (app_id, batch_id) VALUES ({mark}, {NO_BATCH})"
                if self.dialect.joins == "join"
                else f"INSERT INTO {table} (app_id, batch_id) VALUES ({mark}, {NO_BATCH}) ON CONFLICT DO NOTHING"
            )
            session.execute(ignore, (app_id,))

    def _advance(self, session: Session, manifest: Manifest) -> bool:
        mark, table = self.dialect.placeholder, self.own_quoted(BATCHES)
        statement = f"UPDATE {table} SET batch_id = {mark} WHERE app_id = {mark} AND batch_id < {mark}"
        return session.execute(statement, (manifest.batch_id, manifest.app_id, manifest.batch_id)).changed == 1

    def _has(self, session: Session, manifest: Manifest) -> bool:
        last = self._last_batch(session, manifest.app_id)
        return last is not None and last >= manifest.batch_id

    def _is_ended(self, manifest: Manifest) -> bool:
        """By a connection of its own; False where nobody knows."""
        with suppress(OutputRefusedError, OutputUnreachableError), self.session() as session:
            return self._has(session, manifest)
        return False

    def _last_batch(self, session: Session, app_id: str) -> int | None:
        if not self.has_table(session, BATCHES):
            return None
        statement = f"SELECT batch_id FROM {self.own_quoted(BATCHES)} WHERE app_id = {self.dialect.placeholder}"
        rows = session.execute(statement, (app_id,)).rows
        found = int(str(rows[0][0])) if rows else NO_BATCH
        return None if found == NO_BATCH else found
