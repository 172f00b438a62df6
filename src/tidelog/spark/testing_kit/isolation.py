"""A pipeline as a test runs it: the same declarations, with topics, tables, paths and a cluster that nobody else has. Pure.

    isolated(pipelines, Place("7f3a9c21", "127.0.0.1:40123", login))

Everything that is written lies below the directory of the file that the pipelines are said to be in: paths become relative, and
so do databases, which are SQLite's, and Iceberg tables, which are in a catalog of the test's own. What a topic, a view and a sink
are called in the pipeline stays.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.sinks import Sink, ToDatabase, ToFiles, ToTable, ToTopic
from tidelog.spark.pipelines.views import View
from tidelog.spark.testing_kit.errors import PipelineTestError
from tidelog.spark.testing_kit.time_marks import MarkedWatermark, mark_of

# Of a name, so that what makes it a test's own fits behind it: Kafka's topics have 249 characters, pipelines 200.
_NAME_CHARACTERS_MAX = 180
# How clients get in, which is the test cluster's matter.
_LOGIN = ("security.", "ssl.", "sasl.")
# A test's topics hold what the test has given, and all of it is read.
_STARTS = re.compile(r"(starting|ending)(offsets|timestamp).*", re.IGNORECASE)
_FILES = ("parquet", "orc", "json", "csv", "text", "avro")
# They write nothing that stays.
_HARMLESS = ("noop", "console", "memory")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the pipelines of one test are."""

    tag: str
    """What tells its names from those of others."""
    bootstrap: str
    login: Mapping[str, str] = field(default_factory=dict)
    """How clients get in, by Kafka's names."""
    warehouse: str = ""
    """A directory for catalogs, absolute."""

    def topic(self, name: str) -> str:
        """The test's own topic for one that a pipeline names."""
        return f"{name[:_NAME_CHARACTERS_MAX]}.{self.tag}"

    def pipeline(self, name: str) -> str:
        return f"{name[:_NAME_CHARACTERS_MAX]}.{self.tag}"

    def declared(self, text: str) -> str:
        """A text in which names of the test's own are those of the declarations."""
        return text.replace(f".{self.tag}", "")


def isolated(pipelines: Sequence[Pipeline], place: Place) -> list[Pipeline]:
    """PipelineTestError for one that cannot be kept apart from what is not the test's."""
    return [_isolated(each, place) for each in pipelines]


def sources_of(pipelines: Sequence[Pipeline], topic: str) -> list[FromTopic]:
    """Those that read a topic, by the name that it has in the declarations."""
    return [source for each in pipelines for source in each.sources if _reads(source, topic)]


def source_topics(pipelines: Sequence[Pipeline]) -> list[str]:
    """All that are read by name, each once."""
    found = (name.strip() for each in pipelines for source in each.sources for name in (source.topic or "").split(","))
    return [name for name in dict.fromkeys(found) if name]


def written_topics(pipelines: Sequence[Pipeline]) -> list[str]:
    """Those of sinks and of dead letters, each once."""
    sinks = [sink.topic for each in pipelines for sink in each.sinks if isinstance(sink, ToTopic)]
    dead = [topic for each in pipelines for topic in each.dead_letter_topics]
    return list(dict.fromkeys([*sinks, *dead]))


def in_reading_order(pipelines: Sequence[Pipeline]) -> list[Pipeline]:
    """Whoever writes a topic before those that read it; else, and where they read each other's, as declared."""
    left, ordered = list(pipelines), list[Pipeline]()
    while left:
        waits = [each for each in left if not any(_feeds(other, each) for other in left if other is not each)]
        chosen = waits[0] if waits else left[0]
        ordered.append(chosen)
        left.remove(chosen)
    return ordered


def _feeds(writer: Pipeline, reader: Pipeline) -> bool:
    return any(sources_of([reader], topic) for topic in written_topics([writer]))


def _reads(source: FromTopic, topic: str) -> bool:
    if source.topic is not None:
        return topic in [each.strip() for each in source.topic.split(",")]
    return source.pattern is not None and re.fullmatch(source.pattern, topic) is not None


def _isolated(pipeline: Pipeline, place: Place) -> Pipeline:
    name = place.pipeline(pipeline.name)
    return replace(
        pipeline,
        name=name,
        source=[_own_source(each, place) for each in pipeline.sources],
        views=[_own_view(each, place) for each in pipeline.views],
        sink=[_own_sink(pipeline, each, place) for each in pipeline.sinks],
        checkpoint=f"checkpoints/{name}",
        staging=None,
        storage={},
        bootstrap=place.bootstrap,
        kafka={**_without_login(pipeline.kafka), **place.login},
        # A batch begins when the test says so.
        trigger=None,
    )


def _own_source(source: FromTopic, place: Place) -> FromTopic:
    topic, pattern, watermark = source.topic, source.pattern, source.watermark
    if topic is not None:
        topic = ",".join(place.topic(each.strip()) for each in topic.split(","))
    if pattern is not None:
        pattern = rf"(?:{pattern})\.{place.tag}"
    if watermark is not None:
        watermark = MarkedWatermark(watermark.column, watermark.delay, watermark.expression, mark_of(place.tag))
    options = {name: value for name, value in source.options.items() if not _STARTS.fullmatch(name)}
    return replace(
        source,
        topic=topic,
        pattern=pattern,
        name=source.view or None,
        dead_letters=None if source.dead_letters is None else place.topic(source.dead_letters),
        watermark=watermark,
        options=_without_login(options),
        bootstrap=None,
    )


def _own_view(view: View, place: Place) -> View:
    return view if view.dead_letters is None else replace(view, dead_letters=place.topic(view.dead_letters))


def _own_sink(pipeline: Pipeline, sink: Sink, place: Place) -> Sink:
    match sink:
        case ToTopic():
            if not sink.topic:
                raise PipelineTestError(
                    f"{pipeline.name} writes to topics that its rows name, which tests cannot be kept apart by: "
                    "give ToTopic its topic"
                )
            own = place.topic(sink.topic)
            return replace(sink, topic=own, name=sink.label, options=_without_login(sink.options), bootstrap=None)
        case ToTable():
            return _own_table(pipeline, sink, place)
        case ToFiles():
            return replace(sink, path=f"files/{sink.label}", name=sink.label, storage={})
        case ToDatabase():
            is_sqlite = sink.url.startswith("sqlite")
            # A database of another make takes options that SQLite does not have.
            options = sink.options if is_sqlite else {}
            url = f"sqlite:///database-{hashlib.sha256(sink.url.encode()).hexdigest()[:8]}.db"
            return replace(sink, url=url, options=options, name=sink.label)


def _own_table(pipeline: Pipeline, sink: ToTable, place: Place) -> ToTable:
    form = sink.format.lower()
    if form == "iceberg":
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{place.warehouse}/catalog.db",
            "warehouse": f"file://{place.warehouse}/warehouse",
        }
        return replace(sink, catalog=catalog, storage={})
    if sink.is_ours:
        return replace(sink, path=f"tables/{sink.label}", name=sink.label, storage={})
    if form in _HARMLESS:
        return sink
    if sink.name is not None:
        return replace(sink, name=f"{sink.name}_{place.tag}")
    if form in _FILES:
        return replace(sink, path=f"tables/{sink.label}")
    raise PipelineTestError(
        f"{pipeline.name} writes in the format {sink.format}, which a test would write to where the pipeline does: "
        "give the test a pipeline with another sink"
    )


def _without_login(options: Mapping[str, str | int | bool]) -> dict[str, str | int | bool]:
    return {
        name: value for name, value in options.items() if not name.lower().removeprefix("kafka.").startswith(_LOGIN)
    }
