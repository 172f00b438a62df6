"""A table of MariaDB as a sink. Attempts insert many rows at a time into a table of staged rows; the end is one transaction of
the driver.

Where it differs from PostgreSQL: a text in a key has at most 255 characters and is compared byte by byte, no number is NaN or
infinite, and tables of engines without transactions are refused. MySQL is refused: nobody has tried it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from tidelog.spark.outputs.database_dialect import MARIADB
from tidelog.spark.outputs.database_rows import value_rows
from tidelog.spark.outputs.database_server import DatabaseServerKind
from tidelog.spark.outputs.database_session import ROWS_READ_MAX, Result, Session
from tidelog.spark.outputs.database_statements import Column, TableFacts
from tidelog.spark.outputs.database_table import RowInBetweenError
from tidelog.spark.outputs.database_url import DatabaseUrl, parse_url
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError

if TYPE_CHECKING:
    import pyarrow as pa

_SETTINGS = frozenset({"ssl_ca", "ssl_cert", "ssl_key"})
_PORT = 3306
_CONNECT_TIMEOUT_S = 10
# A driver that was stopped in the middle of an end must not keep others from ending it.
_IDLE_IN_TRANSACTION_S = 60
# INSERT ... RETURNING came with it.
_VERSION_MIN = (10, 5)
_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+-MariaDB")
_MODE = "STRICT_ALL_TABLES,ANSI_QUOTES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO"
# Locks and deadlocks, connections that are lost, refused or killed, a server that stops, a disk that is full.
_PASSING = frozenset(
    {
        0,
        1020,
        1021,
        1040,
        1053,
        1114,
        1158,
        1159,
        1160,
        1161,
        1205,
        1213,
        1317,
        1927,
        1969,
        2002,
        2003,
        2006,
        2013,
        2014,
        2055,
    }
)
_DUPLICATE = 1062

_COLUMNS = """
SELECT column_name, column_type, character_set_name, collation_name, is_nullable, column_default, extra, is_generated
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""
_UNIQUE = """
SELECT index_name, column_name, sub_part FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND non_unique = 0 ORDER BY index_name, seq_in_index"""
_UNKNOWN = (
    "SELECT trigger_name FROM information_schema.triggers WHERE event_object_schema = %s AND event_object_table = %s",
    "SELECT constraint_name FROM information_schema.check_constraints WHERE constraint_schema = %s AND table_name = %s",
    "SELECT constraint_name FROM information_schema.referential_constraints WHERE constraint_schema = %s AND table_name = %s",
    (
        "SELECT constraint_name FROM information_schema.referential_constraints"
        " WHERE unique_constraint_schema = %s AND referenced_table_name = %s"
    ),
    (
        "SELECT partition_name FROM information_schema.partitions"
        " WHERE table_schema = %s AND table_name = %s AND partition_name IS NOT NULL"
    ),
)


class MariaDbSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Result:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(parameters))
            return Result([tuple(each) for each in cursor.fetchall()], int(cursor.rowcount))

    def load(self, table: str, batch: pa.RecordBatch) -> int:
        places = ", ".join(["%s"] * batch.num_columns)
        with self._connection.cursor() as cursor:
            # Many rows to a statement, as long as the library makes them.
            cursor.executemany(f"INSERT INTO {table} VALUES ({places})", list(value_rows(batch, MARIADB)))  # noqa: S608
        return batch.nbytes

    def read(self, statement: str) -> Iterator[list[tuple[object, ...]]]:
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(statement, ())
            while rows := cursor.fetchmany(ROWS_READ_MAX):
                yield [tuple(each) for each in rows]

    def close(self) -> None:
        self._connection.close()


class MariaDbKind(DatabaseServerKind):
    dialect = MARIADB

    @property
    def _url(self) -> DatabaseUrl:
        return parse_url(self.target.place, schemes=("mariadb", "mysql"), settings=_SETTINGS)

    @property
    def place(self) -> str:
        return str(self._url)

    def wrong_place(self, schema: pa.Schema) -> list[str]:  # noqa: ARG002 - every type has its column
        return [] if self._url.database.strip("/") else ["the URL of the database names none: mariadb://HOST/DATABASE"]

    def connect(self) -> Session:
        url = self._url
        found = url.secrets()
        try:
            connection: Any = pymysql.connect(
                host=url.host or "localhost",
                port=url.port or _PORT,
                user=found.pop("user"),
                password=found.pop("password"),
                database=url.database.strip("/"),
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=_CONNECT_TIMEOUT_S,
                # An UPDATE tells of the rows that it has found: one that changes nothing is one row all the same.
                client_flag=CLIENT.FOUND_ROWS,
                **({"ssl_verify_cert": True, "ssl_verify_identity": True, **found} if found else {}),
            )
        except OSError as error:
            raise OutputRefusedError(
                f"a file of {', '.join(sorted(found))} cannot be read: {error.strerror or error}"
            ) from None
        version = _VERSION.search(connection.get_server_info())
        if version is None or (int(version[1]), int(version[2])) < _VERSION_MIN:
            connection.close()
            least = ".".join(str(each) for each in _VERSION_MIN)
            raise OutputRefusedError(
                f"{self.place} is no MariaDB of version {least} or later: no other server was tried"
            )
        session = MariaDbSession(connection)
        wait_s = max(1, round(self.lock_timeout_s))
        session.execute(
            f"SET SESSION sql_mode = '{_MODE}', time_zone = '+00:00', innodb_lock_wait_timeout = {wait_s},"
            f" lock_wait_timeout = {wait_s}, idle_transaction_timeout = {_IDLE_IN_TRANSACTION_S},"
            " tx_isolation = 'READ-COMMITTED', foreign_key_checks = 1, unique_checks = 1"
        )
        return session

    def failure(self, error: Exception) -> OutputRefusedError | OutputUnreachableError | RowInBetweenError | None:
        if not isinstance(error, pymysql.err.MySQLError):
            return None
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        words = str(error.args[1]) if len(error.args) > 1 and error.args[1] else "the connection is lost"
        sentence = f"{self.target.table} in {self.place}: {words}"
        if code == _DUPLICATE and self.target.changes is not None:
            return RowInBetweenError(sentence)
        return OutputUnreachableError(sentence) if code in _PASSING else OutputRefusedError(sentence)

    def has_table(self, session: Session, name: str) -> bool:
        query = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        return bool(session.execute(query, self._parts(self.own(name))).rows)

    def facts(self, session: Session) -> TableFacts | None:
        table = self._parts(self.target.table)
        query = "SELECT table_type, engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        found = session.execute(query, table).rows
        if not found:
            return None
        kind, engine = found[0]
        if kind != "BASE TABLE" or str(engine).lower() != "innodb":
            refused = f"{self.target.table} in {self.place} is no table of InnoDB, and others cannot be taken back"
            return TableFacts((), (), refused=refused)
        rows = session.execute(_COLUMNS, table).rows
        refused = ""
        for name, _, _, collation, *_ in rows:
            is_key = self.target.changes is not None and name in self.target.changes.merge_on
            if is_key and collation is not None and not str(collation).endswith("_bin"):
                refused = (
                    f"{self.target.table} compares its key {name} by {collation}, which takes different keys for one"
                )
        columns = tuple(_column(row) for row in rows)
        by_index: dict[str, list[str]] = {}
        unknown: list[str] = []
        for index, column, part in session.execute(_UNIQUE, table).rows:
            by_index.setdefault(str(index), []).append(str(column))
            if part is not None or column is None:
                unknown.append(str(index))
        for statement in _UNKNOWN:
            unknown += [str(row[0]) for row in session.execute(statement, table).rows]
        unique = tuple(tuple(names) for index, names in by_index.items() if index not in unknown)
        return TableFacts(columns, unique, tuple(unknown), refused)

    def _parts(self, table: str) -> tuple[str, str]:
        schema, _, name = table.rpartition(".")
        return schema or self._url.database.strip("/"), name


def _column(row: Sequence[object]) -> Column:
    name, kind, characters, collation, nullable, default, extra, generated = row
    written = str(kind) if characters is None else f"{kind} CHARACTER SET {characters} COLLATE {collation}"
    return Column(
        name=str(name),
        type=written,
        base=str(kind),
        is_required=nullable == "NO",
        has_default=(default is not None and default != "NULL") or "auto_increment" in str(extra),
        is_generated=generated == "ALWAYS",
    )
