"""The names that topics, tables and files have in OpenLineage, by its naming conventions. Pure.

    topic       kafka://HOST:PORT      TOPIC               the first bootstrap server
    directory   file | s3://BUCKET     PATH                tables in it, too
    SQLite      file                   PATH/TABLE
    PostgreSQL  postgres://HOST:PORT   DATABASE.SCHEMA.TABLE
    MariaDB     mysql://HOST:PORT      DATABASE.TABLE
    Iceberg     the catalog's URI      NAMESPACE.TABLE

Two programs that name one thing alike are one line in the graph of a collector. No name holds a user or a password.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.query_options import cluster_of, dead_letter_options, own_cluster
from tidelog.spark.pipelines.sinks import Sink, ToDatabase, ToFiles, ToTable, ToTopic

Beside = Callable[[str], str]

_SQLITE = "sqlite:///"
_POSTGRES_PORT, _MYSQL_PORT = 5432, 3306
_POSTGRES_SCHEMA = "public"


class Dataset(NamedTuple):
    namespace: str
    name: str


def topic_of(bootstrap: str, topic: str) -> Dataset:
    first = bootstrap.split(",", maxsplit=1)[0].strip()
    return Dataset(f"kafka://{first}", topic)


def source_topics(pipeline: Pipeline, source: FromTopic, seen: list[str]) -> list[Dataset]:
    """Those that a source names, or, of a pattern, those that it was seen to read."""
    bootstrap = source.bootstrap or own_cluster(pipeline)
    named = [each.strip() for each in source.topic.split(",")] if source.topic else seen
    return [topic_of(bootstrap, each) for each in named]


def dead_letter_topics(pipeline: Pipeline) -> list[Dataset]:
    bootstrap = dead_letter_options(pipeline)["kafka.bootstrap.servers"]
    return [topic_of(bootstrap, each) for each in pipeline.dead_letter_topics]


def sink_dataset(pipeline: Pipeline, sink: Sink, beside: Beside) -> Dataset:
    match sink:
        case ToTopic():
            return topic_of(cluster_of(pipeline, sink), sink.topic)
        case ToTable() if sink.format.lower() == "iceberg":
            return Dataset(_without_user(sink.catalog.get("uri", "iceberg")), sink.name or "")
        case ToTable():
            # A table of Spark's own catalog has a name alone.
            return _directory(beside(sink.path)) if sink.path else Dataset("spark", sink.name or "")
        case ToFiles():
            return _directory(beside(sink.path))
        case ToDatabase():
            return _table(sink, beside)


def _table(sink: ToDatabase, beside: Beside) -> Dataset:
    if sink.url.startswith(_SQLITE):
        return Dataset("file", f"{beside(sink.url.removeprefix(_SQLITE))}/{sink.table}")
    parts = urlsplit(sink.url)
    database = unquote(parts.path.strip("/"))
    if parts.scheme.startswith("postgres"):
        table = sink.table if "." in sink.table else f"{_POSTGRES_SCHEMA}.{sink.table}"
        return Dataset(f"postgres://{parts.hostname}:{parts.port or _POSTGRES_PORT}", f"{database}.{table}")
    return Dataset(f"mysql://{parts.hostname}:{parts.port or _MYSQL_PORT}", f"{database}.{sink.table}")


def _directory(place: str) -> Dataset:
    parts = urlsplit(place)
    if len(parts.scheme) > 1:
        # Spark's name of the store is not that of everybody else's.
        scheme = "s3" if parts.scheme in {"s3a", "s3n"} else parts.scheme
        return Dataset(f"{scheme}://{parts.netloc}", parts.path.strip("/"))
    return Dataset("file", place)


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
