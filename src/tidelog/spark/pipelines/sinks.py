"""Where a pipeline's rows go, as a file says it: data that knows nothing of Spark, of clusters and of tables.

    ToTopic      records of a topic
    ToTable      a Delta or Iceberg table; or any format that Spark itself writes, which then is the only sink
    ToFiles      Parquet files in a directory
    ToDatabase   a table of SQLite, PostgreSQL or MariaDB

A pipeline has one or several. All of them see one computation, and a batch counts in all of them or in none. `sink_validation`
finds what is wrong with them, `sink_targets` makes of them what a decision names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

from tidelog.spark.pipelines.declaration import Declaration, lenient
from tidelog.spark.pipelines.decoders import Encoder

EXACTLY_ONCE = "exactly_once"
# Written by tasks of ours, in whatever Spark. All other formats are Spark's own, as sinks of its own.
OUR_FORMATS = ("delta", "iceberg")


@lenient
@dataclass(frozen=True, slots=True)
class ToTopic(Declaration):
    """A topic for what comes out, each row once."""

    topic: str
    _: KW_ONLY
    name: str | None = None
    """What the pipeline calls this sink. Without it the topic's name."""
    of: str | None = None
    """The view or source that it takes from. Without it what the transformation gives."""
    where: str | None = None
    """A condition in SQL over the columns that come out: which rows are for this sink."""
    key: str | None = None
    """An expression in SQL over the columns that come out; text or bytes."""
    encode: str | Encoder = "json"
    """json: each row is one value. columns: what comes out has the columns of a record already, value and others. Or Avro, Json
    or Protobuf with a subject, for readers who ask a registry."""
    delivery: str = EXACTLY_ONCE
    by_partition: bool = False
    """Whether rows are shuffled first, so that each partition of the topic is written by one task of a batch."""
    options: Mapping[str, str | int | bool] = field(default_factory=dict, repr=False)
    """More of the sink's."""
    bootstrap: str | None = None

    @property
    def label(self) -> str:
        return self.name or self.topic


@lenient
@dataclass(frozen=True, slots=True)
class ToTable(Declaration):
    """A table in a directory, or one of a catalog."""

    path: str | None = None
    _: KW_ONLY
    name: str | None = None
    """Of a table in a catalog, instead of a path. Of a Delta table what the pipeline calls this sink."""
    of: str | None = None
    format: str = "parquet"
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Iceberg: the properties of the catalog, as in {"type": "rest", "uri": "http://127.0.0.1:8181"}."""
    partition_by: Sequence[str] = ()
    where: str | None = None
    merge_on: Sequence[str] = ()
    """The columns by which a row takes the place of one that is there. Without it rows are only added."""
    sequence_by: str | None = None
    """A column that orders the changes of a key: the last one counts."""
    deletes: str | None = None
    """A condition in SQL over the columns that come out: rows that take one away."""
    history: bool = False
    """Every version stays, with valid_from and valid_to."""
    widen: bool = True
    """Whether a column that is new in the rows is added to the table."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of an object store: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID. Secrets as references: ${env:AWS_SECRET_ACCESS_KEY}."""
    options: Mapping[str, str | int | bool] = field(default_factory=dict, repr=False)
    """More of the format's."""

    @property
    def is_ours(self) -> bool:
        """Whether it is written by tasks of ours, and not by Spark's own sink."""
        return self.format.lower() in OUR_FORMATS

    @property
    def label(self) -> str:
        return self.name or _last_part(self.path or "")


@lenient
@dataclass(frozen=True, slots=True)
class ToFiles(Declaration):
    """Parquet files in a directory, told of by a manifest for each batch."""

    path: str
    _: KW_ONLY
    name: str | None = None
    of: str | None = None
    where: str | None = None
    partition_by: Sequence[str] = ()
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def label(self) -> str:
        return self.name or _last_part(self.path)


@lenient
@dataclass(frozen=True, slots=True)
class ToDatabase(Declaration):
    """A table of a database."""

    url: str
    """sqlite:///orders.db, postgresql://user:${env:PASSWORD}@host/db, mariadb://...: a password only as a reference."""
    _: KW_ONLY
    table: str
    name: str | None = None
    of: str | None = None
    where: str | None = None
    merge_on: Sequence[str] = ()
    sequence_by: str | None = None
    deletes: str | None = None
    history: bool = False
    widen: bool = True
    options: Mapping[str, str | int | bool] = field(default_factory=dict, repr=False)
    """More of the kind's."""

    @property
    def label(self) -> str:
        return self.name or self.table


Sink: TypeAlias = ToTopic | ToTable | ToFiles | ToDatabase
Changing: TypeAlias = ToTable | ToDatabase
"""Those whose rows may take the place of others."""


def is_decided(sink: object) -> bool:
    """Whether what it has of a batch is part of a decision; else Spark's own sink, or one without transactions, writes it."""
    match sink:
        case ToTopic():
            return sink.delivery == EXACTLY_ONCE
        case ToTable():
            return sink.is_ours
        case ToFiles() | ToDatabase():
            return True
    return False


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
