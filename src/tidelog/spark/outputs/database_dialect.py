"""What databases differ in, as data: how names are quoted, which column holds which type of Arrow, how tables are joined to
change one of them. Pure.

A column of Arrow belongs to a family; a family has a type for a table that is made, and a pattern of the types of a table that
is there. Only what keeps every value fits: no rounding, no cut text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from tidelog.spark.outputs.kind import OutputRefusedError

if TYPE_CHECKING:
    import pyarrow as pa

# ruff: noqa: PLC0415 - Arrow is loaded by whoever has a schema

_NUMERIC_ARGUMENTS = re.compile(r"\((\d+)(?:,\s*(\d+))?\)")


class Dialect(msgspec.Struct, frozen=True):
    """One database's SQL."""

    name: str
    placeholder: str
    types: Mapping[str, str]
    """By family: the type of a column that is made."""
    fitting: Mapping[str, str]
    """By family: a pattern of all of a column's type, in lower case."""
    name_bytes_max: int
    joins: str
    """How rows of one table change another: "from" (UPDATE FROM, DELETE USING), "join" (UPDATE JOIN), "in" (UPDATE FROM,
    DELETE IN)."""
    ignores_case: bool = False
    """Of the names of columns."""
    key_types: Mapping[str, str] = {}
    """By family: the type of a column in a key, where it is another one."""
    has_nan: bool = True
    has_infinity: bool = True
    begin: str = "BEGIN"
    serial: str = ""
    """The type of a number that the database counts up, of servers; and of the time when a row came, and its age."""
    clock: str = ""
    age_s: str = ""
    table_end: str = ""
    """What is added to CREATE TABLE."""

    def quoted(self, name: str) -> str:
        """An identifier. OutputRefusedError for one that the database cannot have."""
        if not name or "\0" in name or len(name.encode()) > self.name_bytes_max:
            raise OutputRefusedError(f"{name!r} cannot be a name in {self.name}: it is empty, has a NUL or is too long")
        doubled = name.replace('"', '""')
        if self.placeholder == "%s":
            doubled = doubled.replace("%", "%%")
        return f'"{doubled}"'

    def qualified(self, name: str) -> str:
        """A table, with its schema before a dot where one is said."""
        return ".".join(self.quoted(part) for part in name.split("."))

    def column_type(self, kind: pa.DataType, *, is_key: bool = False) -> str:
        """Of a column that is made for this type of Arrow. OutputRefusedError where there is none."""
        found = self.types.get(family(kind))
        if found is None:
            raise OutputRefusedError(f"{self.name} has no column for the type {kind}{_advice(kind)}")
        if is_key:
            found = self.key_types.get(family(kind), found)
        return found.format(*decimal_arguments(kind))

    def fits(self, kind: pa.DataType, column_type: str) -> bool:
        """Whether a column of this type keeps every value of that type of Arrow, or refuses it when it is staged."""
        name = family(kind)
        found = column_type.lower()
        if re.fullmatch(self.fitting.get(name, "(?!)"), found) is None:
            return False
        return name != "decimal" or self._keeps_decimal(kind, found)

    def _keeps_decimal(self, kind: pa.DataType, column_type: str) -> bool:
        precision, scale = decimal_arguments(kind)
        if self.name == "SQLite":
            # Beside text its numbers are doubles, which keep 15 digits.
            return affinity(column_type) in {"text", "blob"} or precision <= 15
        arguments = _NUMERIC_ARGUMENTS.search(column_type)
        # A smaller scale rounds in silence; a smaller precision refuses what is too large.
        return arguments is None or int(arguments[2] or 0) >= scale


def family(kind: pa.DataType) -> str:
    """The name of a family of types; empty for what a column of a database does not hold."""
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_int8(kind) or types.is_int16(kind) or types.is_uint8(kind):
        return "int16"
    if types.is_int32(kind) or types.is_uint16(kind):
        return "int32"
    if types.is_int64(kind) or types.is_uint32(kind):
        return "int64"
    if types.is_float32(kind):
        return "float"
    if types.is_float64(kind):
        return "double"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "binary"
    if types.is_date32(kind):
        return "date"
    if types.is_decimal(kind):
        return "decimal"
    if types.is_timestamp(kind) and kind.unit in {"s", "ms", "us"}:
        return "timestamp" if kind.tz is None else "instant"
    return ""


def affinity(column_type: str) -> str:
    """SQLite's rules for what a column does to a value."""
    name = column_type.lower()
    if "int" in name:
        return "integer"
    if any(each in name for each in ("char", "clob", "text")):
        return "text"
    if "blob" in name or not name or name == "any":
        return "blob"
    return "real" if any(each in name for each in ("real", "floa", "doub")) else "numeric"


def decimal_arguments(kind: pa.DataType) -> tuple[int, int]:
    """Precision and scale; zeros for what is no decimal."""
    import pyarrow as pa

    return (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (0, 0)


def _advice(kind: pa.DataType) -> str:
    import pyarrow as pa

    nested = pa.types.is_nested(kind)
    return ": to_json() makes text of it" if nested else ": cast it to one that it has"


_WHOLE = "smallint|integer|bigint|numeric(\\(\\d+(,\\d+)?\\))?"

POSTGRESQL = Dialect(
    name="PostgreSQL",
    placeholder="%s",
    types={
        "boolean": "boolean",
        "int16": "smallint",
        "int32": "integer",
        "int64": "bigint",
        "float": "real",
        "double": "double precision",
        "text": "text",
        "binary": "bytea",
        "date": "date",
        "decimal": "numeric({0},{1})",
        "timestamp": "timestamp without time zone",
        "instant": "timestamp with time zone",
    },
    # A number that is too large for a smaller column is refused by COPY, when it is staged.
    fitting={
        "boolean": "boolean",
        "int16": _WHOLE,
        "int32": _WHOLE,
        "int64": _WHOLE,
        "float": "real|double precision",
        "double": "double precision",
        "text": "text|character varying(\\(\\d+\\))?|citext|uuid|jsonb?|xml|inet|cidr|enum",
        "binary": "bytea",
        "date": "date",
        "decimal": "numeric(\\(\\d+(,\\d+)?\\))?",
        "timestamp": "timestamp without time zone",
        "instant": "timestamp with time zone",
    },
    name_bytes_max=63,
    serial="bigint GENERATED BY DEFAULT AS IDENTITY",
    clock="timestamp with time zone NOT NULL DEFAULT now()",
    age_s="extract(epoch FROM now() - staged_at)",
    joins="from",
)

_SQLITE_WHOLE = ".*int.*|boolean|bool|numeric.*|decimal.*|blob|any|"
_SQLITE_TIME = "(?!.*int).*(text|char|clob).*|date|datetime|timestamp|blob|any|"

SQLITE = Dialect(
    name="SQLite",
    placeholder="?",
    # Dates and times are text of one width, which sorts as they do. Decimals are text, for its numbers are doubles.
    types={
        "boolean": "INTEGER",
        "int16": "INTEGER",
        "int32": "INTEGER",
        "int64": "INTEGER",
        "float": "REAL",
        "double": "REAL",
        "text": "TEXT",
        "binary": "BLOB",
        "date": "TEXT",
        "decimal": "TEXT",
        "timestamp": "TEXT",
        "instant": "TEXT",
    },
    fitting={
        "boolean": _SQLITE_WHOLE,
        "int16": _SQLITE_WHOLE,
        "int32": _SQLITE_WHOLE,
        "int64": _SQLITE_WHOLE,
        "float": "real|double( precision)?|float|numeric.*|blob|any|",
        "double": "real|double( precision)?|float|numeric.*|blob|any|",
        "text": "(?!.*int).*(text|char|clob).*|blob|any|",
        "binary": "(?!.*int).*blob.*|any|",
        "date": _SQLITE_TIME,
        "decimal": "(?!.*int).*(text|char|clob).*|numeric.*|decimal.*|blob|any|",
        "timestamp": _SQLITE_TIME,
        "instant": _SQLITE_TIME,
    },
    name_bytes_max=1000,
    joins="in",
    ignores_case=True,
    has_nan=False,
    begin="BEGIN IMMEDIATE",
)

_MARIADB_WHOLE = "(tiny|small|medium|big)?int(\\(\\d+\\))?( unsigned)?|decimal(\\(\\d+(,\\d+)?\\))?"

MARIADB = Dialect(
    name="MariaDB",
    placeholder="%s",
    types={
        "boolean": "tinyint(1)",
        "int16": "smallint",
        "int32": "int",
        "int64": "bigint",
        # Its own floats are rounded to six digits when they are read.
        "float": "double",
        "double": "double",
        "text": "longtext",
        "binary": "longblob",
        "date": "date",
        "decimal": "decimal({0},{1})",
        "timestamp": "datetime(6)",
        "instant": "datetime(6)",
    },
    fitting={
        "boolean": "tinyint(\\(\\d+\\))?",
        "int16": _MARIADB_WHOLE,
        "int32": _MARIADB_WHOLE,
        "int64": _MARIADB_WHOLE,
        "float": "double",
        "double": "double",
        "text": "varchar\\(\\d+\\)|(tiny|medium|long)?text|json|uuid|enum\\(.*\\)",
        "binary": "varbinary\\(\\d+\\)|(tiny|medium|long)?blob",
        "date": "date",
        "decimal": "decimal(\\(\\d+(,\\d+)?\\))?",
        "timestamp": "datetime\\(6\\)",
        "instant": "datetime\\(6\\)|timestamp\\(6\\)",
    },
    name_bytes_max=64,
    serial="bigint NOT NULL AUTO_INCREMENT",
    clock="timestamp(6) NOT NULL DEFAULT current_timestamp(6)",
    age_s="timestampdiff(microsecond, staged_at, now(6)) / 1000000",
    joins="join",
    ignores_case=True,
    # As long as an index of several columns can have it.
    key_types={"text": "varchar(255)", "binary": "varbinary(255)"},
    has_nan=False,
    has_infinity=False,
    begin="START TRANSACTION",
    table_end=" ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
)
