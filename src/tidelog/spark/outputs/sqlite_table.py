"""A table of SQLite as a sink. Tasks stage Parquet in the pipeline's staging place; the driver loads it into a table of its own
connection and merges from there, in one transaction with the row of `tidelog_batches`.

A file of this machine: whoever ends a batch has to run where it is.
"""

# ruff: noqa: S608 - names are quoted by the dialect

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tidelog.spark.outputs.database_dialect import SQLITE, affinity
from tidelog.spark.outputs.database_rows import refused_row, staged_rows, value_rows
from tidelog.spark.outputs.database_session import ROWS_READ_MAX, Result, Session
from tidelog.spark.outputs.database_statements import Column, Merge, TableFacts, staged_columns
from tidelog.spark.outputs.database_table import DatabaseKind, RowInBetweenError
from tidelog.spark.outputs.database_url import parse_url
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError, StagingAttempt, Swept
from tidelog.spark.outputs.manifest_store import decode_schema
from tidelog.spark.outputs.parquet_staging import ParquetAttempt
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, StagedPart
from tidelog.spark.outputs.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

_STAGED = "temp.tidelog_staged"
_BATCHES = "batches"
# Somebody else writes, the disk is full or does not answer: it may be tried again.
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
    }
)


class SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Result:
        cursor = self._connection.execute(statement, tuple(parameters))
        return Result(cursor.fetchall(), cursor.rowcount)

    def load(self, table: str, batch: pa.RecordBatch) -> int:
        places = ", ".join("?" * batch.num_columns)
        self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", value_rows(batch, SQLITE))
        return batch.nbytes

    def read(self, statement: str) -> Iterator[list[tuple[object, ...]]]:
        cursor = self._connection.execute(statement)
        while rows := cursor.fetchmany(ROWS_READ_MAX):
            yield rows

    def close(self) -> None:
        self._connection.close()


class _CheckedAttempt:
    """Rows are looked at before they are staged: what SQLite would change in silence is refused in the task."""

    def __init__(self, kind: SqliteKind, inner: ParquetAttempt) -> None:
        self._kind = kind
        self._inner = inner

    def write(self, batch: pa.RecordBatch) -> None:
        if (wrong := refused_row(batch, SQLITE, self._kind.target.changes)) is not None:
            raise OutputRefusedError(f"{self._kind.target.table} in {self._kind.place}: {wrong}")
        self._inner.write(batch)

    def hand_over(self) -> StagedPart:
        return self._inner.hand_over()

    def abort(self) -> None:
        self._inner.abort()


class SqliteKind(DatabaseKind):
    dialect = SQLITE

    @property
    def path(self) -> Path:
        url = parse_url(self.target.place, schemes=("sqlite",), settings=frozenset())
        if url.host or not url.database.startswith("/") or len(url.database) < 2:
            raise OutputRefusedError("the URL of a SQLite database has an absolute path: sqlite:///path/file.db")
        return Path("/" + url.database.lstrip("/"))

    @property
    def place(self) -> str:
        return str(self.path)

    def connect(self) -> Session:
        if not self.path.exists():
            # To SQLite it cannot be opened, which may pass; this does not.
            raise OutputRefusedError(f"there is no database at {self.path}: it was removed, or never made")
        uri = f"file:{quote(str(self.path))}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=self.lock_timeout_s)
        connection.execute("PRAGMA foreign_keys = ON")
        return SqliteSession(connection)

    def failure(self, error: Exception) -> OutputRefusedError | OutputUnreachableError | RowInBetweenError | None:
        if not isinstance(error, sqlite3.Error):
            return None
        # The code of the module itself, such as for a wrong number of values, is none of the database's.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        sentence = f"{self.place}: {error}"
        return OutputUnreachableError(sentence) if code in _PASSING else OutputRefusedError(sentence)

    def wrong_place(self, schema: pa.Schema) -> list[str]:
        found = []
        if not self.path.parent.is_dir():
            found.append(f"there is no directory {self.path.parent} for the database {self.path}")
        if "." in self.target.table or self.target.options.get("schema"):
            found.append("a table of SQLite has no schema: write its name alone")
        changes = self.target.changes
        if changes is not None and changes.sequence_by is not None:
            kind = schema.field(changes.sequence_by).type
            if str(kind).startswith("decimal"):
                found.append(
                    f"sequence_by names {changes.sequence_by}, a decimal, which is text in SQLite and does not sort"
                )
        return found

    def has_place(self) -> bool:
        return self.path.exists()

    def make_place(self) -> None:
        # An empty file is a database without tables.
        try:
            self.path.touch()
        except OSError as error:
            raise OutputRefusedError(f"the database {self.path} cannot be made: {error.strerror}") from None

    def has_table(self, session: Session, name: str) -> bool:
        found = session.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(?)", (name,))
        return bool(found.rows)

    def facts(self, session: Session) -> TableFacts | None:
        table = self.target.table
        found = session.execute("SELECT type, sql FROM sqlite_master WHERE lower(name) = lower(?)", (table,)).rows
        if not found:
            return None
        if found[0][0] != "table":
            return TableFacts((), (), refused=f"{table} in {self.place} is no table but a {found[0][0]}")
        rows = session.execute(
            'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', (table,)
        ).rows
        columns = tuple(
            Column(
                name=str(name),
                type=str(kind),
                base=str(kind),
                is_required=bool(required),
                # What is both number and the only key is made by SQLite itself.
                has_default=default is not None or (bool(key) and str(kind).lower() == "integer"),
                is_generated=hidden in {2, 3},
            )
            for name, kind, required, default, key, hidden in rows
            if hidden != 1
        )
        keys = sorted((int(str(row[4])), str(row[0])) for row in rows if row[4])
        unique = [tuple(name for _, name in keys)] if keys else []
        unknown = [f"{table}'s checks"] if re.search(r"\bcheck\b", str(found[0][1]), re.IGNORECASE) else []
        for name, is_partial in session.execute(
            "SELECT name, partial FROM pragma_index_list(?) WHERE \"unique\" = 1 AND origin <> 'pk'", (table,)
        ).rows:
            indexed = session.execute("SELECT cid, name FROM pragma_index_info(?) ORDER BY seqno", (name,)).rows
            if is_partial or any(int(str(place)) < 0 for place, _ in indexed):
                unknown.append(f"the index {name}")
            else:
                unique.append(tuple(str(each) for _, each in indexed))
        if session.execute("SELECT 1 FROM pragma_foreign_key_list(?) LIMIT 1", (table,)).rows:
            unknown.append("foreign keys")
        others = "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower(?) LIMIT 1"
        if session.execute(others, (table,)).rows:
            unknown.append("triggers")
        if self.target.changes is not None and self._is_referred_to(session):
            unknown.append("foreign keys of other tables")
        return TableFacts(columns, tuple(unique), tuple(unknown))

    def _is_referred_to(self, session: Session) -> bool:
        query = (
            "SELECT 1 FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f"
            " WHERE m.type = 'table' AND lower(f.\"table\") = lower(?) LIMIT 1"
        )
        return bool(session.execute(query, (self.target.table,)).rows)

    def prepare_staging(self, session: Session, schema: pa.Schema, facts: TableFacts) -> None:
        """Staged rows lie in files."""

    def check_staging(self, session: Session, batch: StagedBatch, facts: TableFacts) -> None:  # noqa: ARG002 - files
        storage = self._storage
        for file in batch.manifest.files:
            if storage.size(file.path) != file.bytes:
                raise OutputRefusedError(
                    f"{self.staging}/{file.path} is not what was staged: it was removed or changed"
                )

    def check_rights(self, session: Session, statements: Sequence[str]) -> None:
        # A file that may only be read is found out here.
        session.execute(self.dialect.begin)
        for statement in statements:
            session.execute(f"EXPLAIN {statement}")
        session.execute("ROLLBACK")

    def staged(self, session: Session, batch: StagedBatch) -> tuple[Merge, list[int]]:
        """A table that only this connection has, which its end takes along."""
        schema = decode_schema(batch.manifest.schema)
        merge = self.merge(schema, _STAGED)
        columns = staged_columns(merge, self.there(session))
        listed = ", ".join(f"{SQLITE.quoted(name)} {_plain(kind)}" for name, kind in columns.items())
        session.execute(f"DROP TABLE IF EXISTS {merge.source}")
        session.execute(f"CREATE TABLE {merge.source} ({listed})")
        # For speed; it does not lock the database itself.
        session.execute("BEGIN")
        row = 0
        for part in self._parts(batch):
            session.load(merge.source, staged_rows(part, merge.columns, merge.changes, attempt=0, first_row=row))
            row += part.num_rows
        session.execute("COMMIT")
        if merge.changes is not None:
            keys = ", ".join(SQLITE.quoted(each) for each in merge.changes.merge_on)
            session.execute(f"CREATE INDEX temp.tidelog_staged_keys ON tidelog_staged ({keys})")
        return merge, [0]

    def _parts(self, batch: StagedBatch) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq  # noqa: PLC0415 - in the driver

        storage, schema = self._storage, decode_schema(batch.manifest.schema)
        for file in batch.manifest.files:
            try:
                opened = storage.system.open_input_file(f"{storage.root}/{file.path}")
            except FileNotFoundError:
                raise OutputRefusedError(
                    f"{self.staging}/{file.path} is gone, which batch {batch.manifest.batch_id} has rows in"
                ) from None
            with opened:
                for found in pq.ParquetFile(opened).iter_batches():
                    yield found.cast(schema)

    def clear(self, session: Session, merge: Merge, attempts: Sequence[int]) -> None:
        """What is staged lies outside of the transaction."""

    def cleared(self, batch: StagedBatch) -> None:
        self.discard(batch.manifest.parts)

    def open_attempt(self, name: AttemptName, schema: pa.Schema) -> StagingAttempt:
        return _CheckedAttempt(self, ParquetAttempt(self._storage, name, schema))

    def discard(self, parts: Sequence[StagedPart]) -> None:
        storage = self._storage
        for part in parts:
            for file in part.files:
                storage.delete(file.path)

    def sweep(self, named: frozenset[str], *, older_than_s: float) -> Swept:
        storage, now_s = self._storage, time.time()
        files = size = 0
        for file in list(storage.files(_BATCHES)):
            attempt = file.path.split("/")[1]
            if attempt not in named and now_s - file.modified_s >= older_than_s and storage.delete(file.path):
                files += 1
                size += file.bytes
        return Swept(files, size)

    @property
    def _storage(self) -> Storage:
        return Storage.at(self.staging, self.staging_storage)


def _plain(column_type: str) -> str:
    """A type with the same affinity, whatever words a table has it in."""
    return {"integer": "INTEGER", "text": "TEXT", "real": "REAL", "numeric": "NUMERIC", "blob": ""}[
        affinity(column_type)
    ]
