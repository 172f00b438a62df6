"""What a pipeline reads, makes and writes, as a graph: data for a picture, made of the declaration alone. Pure.

    topics     ->  sources  ->  views  ->  transformation  ->  sinks
                           \\->  dead letters

What is shown of a sink holds no secret: of a URL only where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from tidelog.spark.pipelines.decoders import Avro, Decoder, Json, Protobuf, Text
from tidelog.spark.pipelines.definition import DEFAULT_BOOTSTRAP, FromTopic, Pipeline
from tidelog.spark.pipelines.sinks import EXACTLY_ONCE, Sink, ToDatabase, ToTable, ToTopic
from tidelog.spark.pipelines.views import View, in_order, taken_by

Kind: TypeAlias = Literal["topic", "source", "transform", "sink", "dead letters"]

_CATALOGS = {"rest": "REST", "sql": "SQL"}
_DATABASES = {"postgres": "PostgreSQL", "postgresql": "PostgreSQL", "sqlite": "SQLite"}
_MARIADB = "MariaDB"


class Node(NamedTuple):
    """One box."""

    kind: Kind
    title: str
    about: Sequence[str] = ()
    """A line each."""


class Graph(NamedTuple):
    """Boxes, and lines between them by their numbers, which all lead to a later one."""

    name: str
    nodes: Sequence[Node]
    edges: Sequence[tuple[int, int]]


def graph_of(pipeline: Pipeline) -> Graph:
    """For a declaration whose arguments are of the right types; whether they are right otherwise does not matter."""
    making = _Making(pipeline)
    sources = [making.source(each) for each in pipeline.sources]
    tables = {each.view.lower(): index for each, index in zip(pipeline.sources, sources, strict=True)}

    def taken(query: object) -> list[int]:
        return [tables[name.lower()] for name in taken_by(query, pipeline.tables) if name.lower() in tables]

    ordered, _ = in_order(pipeline.views, pipeline.tables)
    for view in (*ordered, *(each for each in pipeline.views if each not in ordered)):
        tables[view.name.lower()] = making.node(_view(view), taken(view.query))
    result = sources
    has_result = any(each.of is None for each in pipeline.sinks)
    if pipeline.transform is not None or (len(sources) > 1 and has_result):
        result = [making.node(_transform(pipeline), taken(pipeline.transform) if pipeline.views else sources)]
    for sink in pipeline.sinks:
        origin = None if sink.of is None else tables.get(sink.of.lower())
        making.node(_sink(pipeline, sink), result if origin is None else [origin])
    dead: dict[str, list[int]] = {}
    named = [*((each.view, each.dead_letters) for each in pipeline.sources)]
    named += [(each.name, each.dead_letters) for each in pipeline.views]
    for name, letters in named:
        if letters is not None:
            dead.setdefault(letters, []).append(tables[name.lower()])
    for topic, origins in dead.items():
        making.node(Node("dead letters", topic, ("dead letters",)), origins)
    return Graph(pipeline.name, making.nodes, making.edges)


class _Making:
    def __init__(self, pipeline: Pipeline) -> None:
        self.nodes: list[Node] = []
        self.edges: list[tuple[int, int]] = []
        self._pipeline = pipeline
        self._topics: dict[Node, int] = {}

    def node(self, node: Node, origins: Sequence[int]) -> int:
        self.nodes.append(node)
        index = len(self.nodes) - 1
        self.edges += [(each, index) for each in origins]
        return index

    def source(self, source: FromTopic) -> int:
        # A topic that is read twice is one box.
        where = source.bootstrap or self._pipeline.bootstrap or DEFAULT_BOOTSTRAP
        title = source.topic if source.pattern is None else f"/{source.pattern}/"
        topic = Node("topic", title or "?", (f"topic at {_first_of(where)}",))
        if topic not in self._topics:
            self._topics[topic] = self.node(topic, ())
        return self.node(Node("source", source.view or "source", _source_lines(source)), [self._topics[topic]])


def _source_lines(source: FromTopic) -> list[str]:
    lines = [_decoder(source.decode)]
    if source.watermark is not None:
        lines.append(f"late after {source.watermark.delay}")
    return lines + _expected(source.expect)


def _view(view: View) -> Node:
    about = ["view in SQL" if isinstance(view.query, str) else "view in Python"]
    if view.watermark is not None:
        about.append(f"late after {view.watermark.delay}")
    return Node("transform", view.name, (*about, *_expected(view.expect)))


def _expected(expect: Mapping[str, object]) -> list[str]:
    return [f"{len(expect)} expectation{'s' if len(expect) > 1 else ''}"] if expect else []


def _decoder(decoder: Decoder | None) -> str:
    match decoder:
        case None:
            return "records as they are"
        case Json():
            return "JSON"
        case Avro():
            return "Avro"
        case Protobuf(message):
            return f"Protobuf {message}"
        case Text():
            return "text"
    return type(decoder).__name__


def _transform(pipeline: Pipeline) -> Node:
    about = [f"{pipeline.output_mode} mode"]
    if pipeline.trigger is not None:
        about.append("once" if pipeline.trigger == "available_now" else f"every {pipeline.trigger}")
    transform = pipeline.transform
    if transform is None:
        title = "join"
    elif isinstance(transform, str):
        title = "SQL"
    else:
        title = f"{getattr(transform, '__name__', 'function')}()"
    return Node("transform", title, tuple(about))


def _sink(pipeline: Pipeline, sink: Sink) -> Node:
    about: list[str]
    match sink:
        case ToTopic():
            about = [f"topic at {_first_of(sink.bootstrap or pipeline.bootstrap or DEFAULT_BOOTSTRAP)}"]
            about += [f"key {sink.key}"] if sink.key is not None else []
            about.append("exactly once" if sink.delivery == EXACTLY_ONCE else "at least once")
        case ToTable():
            about = [f"{_format(sink)} table", *_changes(sink)]
        case ToDatabase():
            about = [f"{_database(sink.url)} table", *_changes(sink)]
        case _:
            about = ["Parquet files"]
    if not isinstance(sink, ToTopic | ToDatabase) and sink.partition_by:
        about.append(f"by {', '.join(sink.partition_by)}")
    if sink.where is not None:
        about.append(f"where {sink.where}")
    return Node("sink", sink.label, tuple(about))


def _format(sink: ToTable) -> str:
    name = {"delta": "Delta", "iceberg": "Iceberg", "parquet": "Parquet"}.get(sink.format.lower(), sink.format)
    catalog = _CATALOGS.get(str(sink.catalog.get("type", "")).lower())
    return name if catalog is None else f"{name} {catalog}"


def _database(url: str) -> str:
    return _DATABASES.get(urlsplit(url).scheme.partition("+")[0], _MARIADB)


def _changes(sink: ToTable | ToDatabase) -> list[str]:
    if not sink.merge_on:
        return ["rows are added"]
    key = ", ".join(sink.merge_on)
    return [f"history by {key}" if sink.history else f"merged by {key}"]


def _first_of(servers: str) -> str:
    first, _, more = servers.partition(",")
    return f"{first}, ..." if more else first
