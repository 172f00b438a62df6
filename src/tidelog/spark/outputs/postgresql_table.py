"""A table of PostgreSQL as a sink. Attempts COPY into a table of staged rows; the end is one transaction of the driver."""

# ruff: noqa: S608 - names are quoted by the dialect

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import psycopg

from tidelog.spark.outputs.database_dialect import POSTGRESQL
from tidelog.spark.outputs.database_rows import csv_of
from tidelog.spark.outputs.database_server import DatabaseServerKind
from tidelog.spark.outputs.database_session import ROWS_READ_MAX, Result, Session
from tidelog.spark.outputs.database_statements import Column, Merge, TableFacts
from tidelog.spark.outputs.database_table import RowInBetweenError
from tidelog.spark.outputs.database_url import DatabaseUrl, parse_url
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError

if TYPE_CHECKING:
    import pyarrow as pa

_SETTINGS = frozenset(
    {
        "application_name",
        "channel_binding",
        "connect_timeout",
        "host",
        "passfile",
        "sslcert",
        "sslkey",
        "sslmode",
        "sslpassword",
        "sslrootcert",
        "target_session_attrs",
    }
)
_CONNECT_TIMEOUT_S = 10
# A driver that was stopped in the middle of an end must not keep others from ending it.
_IDLE_IN_TRANSACTION_MS = 60_000
# The server plans well without statistics below it.
_ANALYZED_ROWS_MIN = 10_000
# By class of SQLSTATE: the connection, conflicts between transactions, too little of something, a server that stops, its disks.
_PASSING = frozenset({"08", "25", "40", "53", "57", "58", "XX"})
_LOCK_NOT_AVAILABLE = "55P03"
_UNIQUE_VIOLATION = "23505"

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
  CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod) WHEN 'e' THEN 'enum'
    ELSE format_type(a.atttypid, a.atttypmod) END,
  a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_UNIQUE = """
SELECT x.relname, i.indpred IS NULL AND i.indexprs IS NULL AND i.indimmediate,
  ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE k.place <= i.indnkeyatts ORDER BY k.place)
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = %s AND i.indisunique"""
_UNKNOWN = """
SELECT conname::text FROM pg_constraint WHERE conrelid = %(table)s AND contype IN ('c', 'f', 'x')
UNION ALL SELECT conname::text FROM pg_constraint WHERE confrelid = %(table)s AND contype = 'f'
UNION ALL SELECT tgname::text FROM pg_trigger WHERE tgrelid = %(table)s AND NOT tgisinternal
UNION ALL SELECT rulename::text FROM pg_rewrite WHERE ev_class = %(table)s
UNION ALL SELECT polname::text FROM pg_policy WHERE polrelid = %(table)s
UNION ALL SELECT 'partitions' FROM pg_class WHERE oid = %(table)s AND relkind = 'p'"""


class PostgresqlSession:
    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[object] | dict[str, object] = ()) -> Result:
        with self._connection.cursor() as cursor:
            cursor.execute(statement.encode(), parameters)
            if statement == "COMMIT" and cursor.statusmessage != "COMMIT":
                raise OutputUnreachableError("the server has rolled a transaction back instead of committing it")
            return Result(cursor.fetchall() if cursor.description else [], cursor.rowcount)

    def load(self, table: str, batch: pa.RecordBatch) -> int:
        content = csv_of(batch)
        names = ", ".join(POSTGRESQL.quoted(each) for each in batch.schema.names)
        # Without parameters nobody halves the per cent signs that quoting has doubled.
        statement = f"COPY {table} ({names}) FROM STDIN (FORMAT csv)".replace("%%", "%")
        with self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.write(content)
        return len(content)

    def read(self, statement: str) -> Iterator[list[tuple[object, ...]]]:
        with self._connection.transaction(), self._connection.cursor(name="tidelog_read") as cursor:
            cursor.execute(statement.encode(), ())
            while rows := cursor.fetchmany(ROWS_READ_MAX):
                yield list(rows)

    def close(self) -> None:
        self._connection.close()


class PostgresqlKind(DatabaseServerKind):
    dialect = POSTGRESQL

    @property
    def _url(self) -> DatabaseUrl:
        return parse_url(self.target.place, schemes=("postgresql", "postgres"), settings=_SETTINGS)

    @property
    def place(self) -> str:
        return str(self._url)

    def wrong_place(self, schema: pa.Schema) -> list[str]:  # noqa: ARG002 - every type has its column
        return (
            [] if self._url.database.strip("/") else ["the URL of the database names none: postgresql://HOST/DATABASE"]
        )

    def connect(self) -> Session:
        url = self._url
        settings: dict[str, Any] = {
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "application_name": "tidelog",
            "host": url.host,
            "port": url.port,
            "dbname": url.database.strip("/"),
            # So that the loss of a server is noticed while an answer is waited for.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
        } | url.secrets()
        chosen = {name: value for name, value in settings.items() if value not in {None, ""}}
        connection = psycopg.connect(autocommit=True, prepare_threshold=None, client_encoding="utf8", **chosen)
        session = PostgresqlSession(connection)
        session.execute(
            "SELECT set_config('timezone', 'UTC', false), set_config('lock_timeout', %s, false),"
            " set_config('idle_in_transaction_session_timeout', %s, false),"
            " set_config('default_transaction_isolation', 'read committed', false)",
            (str(int(self.lock_timeout_s * 1000)), str(_IDLE_IN_TRANSACTION_MS)),
        )
        return session

    def failure(self, error: Exception) -> OutputRefusedError | OutputUnreachableError | RowInBetweenError | None:
        if not isinstance(error, psycopg.Error):
            return None
        state = error.sqlstate
        words = [error.diag.message_primary or str(error).strip().replace("\n", " "), error.diag.message_detail]
        if error.diag.context and "COPY" in error.diag.context:
            words.append(error.diag.context.partition("\n")[0])
        sentence = f"{self.target.table} in {self.place}: {'; '.join(each for each in words if each)}"
        if state == _UNIQUE_VIOLATION and self.target.changes is not None:
            return RowInBetweenError(sentence)
        if state is None or state[:2] in _PASSING or state == _LOCK_NOT_AVAILABLE:
            return OutputUnreachableError(sentence)
        return OutputRefusedError(sentence)

    def begin_attempt(self, session: Session) -> None:
        # The last commit of the attempt waits for the disk, and for all before it.
        session.execute("SET synchronous_commit = off")

    def make_durable(self, session: Session) -> None:
        session.execute("SET synchronous_commit = on")

    def look_at_staged(self, session: Session, merge: Merge, rows: int) -> None:
        if merge.changes is not None and rows >= _ANALYZED_ROWS_MIN:
            session.execute(f"ANALYZE {merge.source}")

    def has_table(self, session: Session, name: str) -> bool:
        return bool(session.execute(f"SELECT to_regclass({self._literal(self.own(name))})").rows[0][0])

    def facts(self, session: Session) -> TableFacts | None:
        table = self.target.table
        query = f"SELECT oid, relkind FROM pg_class WHERE oid = to_regclass({self._literal(table)})"
        found = session.execute(query).rows
        if not found:
            return None
        number, kind = found[0]
        if kind not in {"r", "p", b"r", b"p"}:
            return TableFacts(
                (), (), refused=f"{table} in {self.place} is no table of its own: a view, or a foreign one"
            )
        columns = tuple(
            Column(str(name), str(written), str(base), bool(required), bool(default), bool(generated))
            for name, written, base, required, default, generated in session.execute(_COLUMNS, (number,)).rows
        )
        unique, unknown = [], []
        for name, is_plain, names in session.execute(_UNIQUE, (number,)).rows:
            if is_plain and isinstance(names, list):
                unique.append(tuple(str(each) for each in names))
            else:
                unknown.append(str(name))
        unknown += [str(row[0]) for row in session.execute(_UNKNOWN.replace("%(table)s", str(number))).rows]
        return TableFacts(columns, tuple(unique), tuple(unknown))

    def _literal(self, name: str) -> str:
        doubled = self.dialect.qualified(name).replace("'", "''")
        return f"'{doubled}'"
