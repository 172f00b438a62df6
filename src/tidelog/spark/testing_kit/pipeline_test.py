"""A pipeline under test: records in, run, rows out. What the fixture `tidelog_pipeline` gives.

    pipeline = tidelog_pipeline("revenue.py")
    pipeline.given("orders", [{"id": "a", "product": "apples", "price": 1.5, "at": "2026-11-18T08:00:10Z"}])
    pipeline.advance_time("5 minutes")
    pipeline.run()
    pipeline.expect("revenue", [{"product": "apples", "revenue": 1.5}])

Topics, tables and sinks are called as the pipeline calls them; each test has its own (`isolation`). What was done is kept as a
list of acts, so that all of it can be done again beside kills.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.model.clock import system_now_ms
from tidelog.model.config import did_you_mean
from tidelog.spark.pipelines.dead_letter_replay import ReplayChoice, replay_dead_letters
from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.progress import PipelineProgress
from tidelog.spark.pipelines.validation import problems_of
from tidelog.spark.testing_kit.errors import PipelineTestError
from tidelog.spark.testing_kit.event_time import latest_event
from tidelog.spark.testing_kit.given_records import GivenRecord, Record, Value, columns_of, records_of
from tidelog.spark.testing_kit.isolation import (
    Place,
    in_reading_order,
    isolated,
    source_topics,
    sources_of,
    written_topics,
)
from tidelog.spark.testing_kit.own_topics import OwnTopics
from tidelog.spark.testing_kit.row_differences import check_rows
from tidelog.spark.testing_kit.seen_rows import DeadLetter, Row, SeenSinks, committed_records, dead_letters_of
from tidelog.spark.testing_kit.tested_pipelines import tested_pipelines
from tidelog.spark.testing_kit.time_marks import duration_of, mark_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.testing_kit.kills import KillReport

# A run of a test that takes this long will not end.
RUN_TIMEOUT_S = 300.0


class ClusterOfTests(Protocol):
    """`EmbeddedCluster`, as far as it is needed here."""

    @property
    def bootstrap_servers(self) -> str: ...

    def create_topic(self, name: str, *, partitions: int = 1) -> None: ...

    def client_options(self, user: str = ...) -> dict[str, Any]: ...

    def client_properties(self, user: str = ...) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Give:
    """An act: records into a topic, by the name that the pipeline has for it."""

    topic: str
    records: tuple[GivenRecord, ...]


@dataclass(frozen=True, slots=True)
class Advance:
    """An act: event time moved to a moment, by copies of these records."""

    micros: int
    templates: Mapping[str, GivenRecord] = field(default_factory=dict)
    """By topic."""


@dataclass(frozen=True, slots=True)
class Run:
    """An act: everything that is there is processed."""


@dataclass(frozen=True, slots=True)
class Replay:
    """An act: dead letters go back to where they came from."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class Upgrade:
    """An act: other declarations go on with the topics, tables and checkpoints that are there."""

    declared: tuple[Pipeline, ...]


Act = Give | Advance | Run | Replay | Upgrade


class PipelineTest:
    """The pipelines of a file, or objects, in one test."""

    __test__ = False

    def __init__(
        self,
        spark: SparkSession,
        cluster: ClusterOfTests,
        pipelines: Sequence[Pipeline],
        directory: Path,
        tag: str,
        *,
        partitions: int = 1,
        places: Sequence[Path] = (),
    ) -> None:
        """DefinitionError for pipelines with mistakes, PipelineTestError for those that no test can have. The file of another
        version is looked for in `places`."""
        if problems := problems_of(pipelines):
            raise DefinitionError(problems)
        self.declared = list(pipelines)
        self.spark = spark
        self.cluster = cluster
        self.directory = directory
        self.acts: list[Act] = []
        self._tag = tag
        self._worlds = 0
        self.partitions = partitions
        self._places = places
        self._times: dict[str, int] = {}
        """By topic: the event time that a mark or a row has brought, in microseconds."""
        self._given: dict[str, list[GivenRecord]] = {}
        # What every course of the test begins with.
        self._first = tuple(self.declared)
        self.world = World.of(self, tag, self._first)

    # What a test says.

    def given(self, topic: str, rows: Sequence[Record | Value]) -> None:
        """Write rows or records to a topic that a pipeline reads. PipelineTestError for a topic or a column that none has."""
        source = self._source(topic)
        decoder = source.decode
        records = records_of(rows, topic, decoder, lambda: columns_of(self.spark, decoder))
        # The same time in every course of the test.
        now_ms = system_now_ms()
        records = [each if each.timestamp_ms is not None else replace(each, timestamp_ms=now_ms) for each in records]
        self._given.setdefault(topic, []).extend(records)
        self._do(Give(topic, tuple(records)))

    def advance_time(self, by: str | dt.timedelta) -> None:
        """Have event time go on from the latest event that was given, or from the last call: in all sources with a watermark."""
        duration = duration_of(by)
        templates: dict[str, GivenRecord] = {}
        timed = self._timed_sources()
        if not timed:
            raise PipelineTestError("no source has a watermark=: there is no event time that could advance")
        for topic, source in timed.items():
            latest = latest_event(self.spark, source, self._given.get(topic, []))
            if latest is None:
                raise PipelineTestError(
                    f"no row that {topic} could count has been given: its watermark goes on from one, and holds all others back"
                )
            templates[topic] = latest.record
            self._times[topic] = max(self._times.get(topic, latest.micros), latest.micros)
        now = max(self._times.values()) + duration // dt.timedelta(microseconds=1)
        self._times = dict.fromkeys(self._times, now)
        self._do(Advance(now, templates))

    def run(self) -> list[PipelineProgress]:
        """Process everything that is there, as `tidelog pipeline run --until-caught-up` does. QueryFailedError where it stops."""
        self._do(Run())
        return self.world.progress

    def replay_dead_letters(self, reason: str | None = None) -> int:
        """Send dead letters back, as `tidelog pipeline replay-dead-letters --execute` does: those whose reason begins so, or all.
        How many have gone."""
        if not any(source.dead_letters for each in self.declared for source in each.sources):
            raise PipelineTestError("no source has dead_letters=: there are none that could be sent again")
        self._do(Replay(reason))
        return self.world.replayed

    def upgrade(self, what: str | Path | Pipeline | Sequence[Pipeline], *, only: Sequence[str] = ()) -> None:
        """Have another version of the pipelines go on from here, in the place of the one before: what has the same name has the
        same topics, tables and checkpoint. DefinitionError, PipelineTestError."""
        declared = tested_pipelines(what, [only] if isinstance(only, str) else only, self._places or (Path.cwd(),))
        if problems := problems_of(declared):
            raise DefinitionError(problems)
        self._do(Upgrade(tuple(declared)))
        self.declared = declared

    def result(self, sink: str | None = None) -> list[Row]:
        """The rows of a sink, which a test with one sink need not name: of a topic the committed ones."""
        return self.world.rows(*self._sink(sink))

    def records(self, topic: str) -> list[Any]:
        """The committed records of a topic that a pipeline reads or writes, with keys and headers."""
        known = [*source_topics(self.declared), *written_topics(self.declared)]
        if topic not in known:
            raise PipelineTestError(f"no pipeline names the topic {topic}{_known(topic, known)}")
        return self.world.records(topic)

    def dead_letters(self, topic: str | None = None) -> list[DeadLetter]:
        """What was set apart, of one topic of dead letters or of all."""
        known = [each for one in self.declared for each in one.dead_letter_topics]
        if topic is not None and topic not in known:
            raise PipelineTestError(f"no source has dead_letters={topic!r}{_known(topic, known)}")
        if not known:
            raise PipelineTestError("no source has dead_letters=: what cannot be decoded stops the pipeline")
        names = dict.fromkeys(known if topic is None else [topic])
        return [letter for name in names for letter in self.world.dead_letters(name)]

    def expect(self, sink: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """RowsDifferError unless the sink has these rows, each as often, in any order; compared by the columns that they name."""
        check_rows(sink, rows, self.result(sink))

    def survives_kills(self, ignore: Sequence[str] = ()) -> KillReport:
        """Everything that the test did, again, with the driver killed at every step of the protocol. RowsDifferError where a sink
        has other rows then than undisturbed; columns of `ignore` are never the same twice, and not compared."""
        from tidelog.spark.testing_kit.kills import survive  # noqa: PLC0415 - few tests need it

        acts = list(self.acts)
        if not acts:
            raise PipelineTestError("nothing has been given: there is nothing that a kill could lose")
        if not isinstance(acts[-1], Run):
            acts.append(Run())
        return survive(self, acts, [ignore] if isinstance(ignore, str) else ignore)

    def another_world(self) -> World:
        """In which the test has done nothing yet."""
        self._worlds += 1
        return World.of(self, f"{self._tag}w{self._worlds}", self._first)

    # How it is done.

    def _do(self, act: Act) -> None:
        self.world.do(act)
        self.acts.append(act)

    def _source(self, topic: str) -> FromTopic:
        found = sources_of(self.declared, topic)
        if not found:
            known = source_topics(self.declared)
            raise PipelineTestError(f"no source reads the topic {topic}{_known(topic, known)}")
        return found[0]

    def _timed_sources(self) -> dict[str, FromTopic]:
        """By topic, one source that has a watermark."""
        # What another pipeline of the test writes brings its own times.
        written = set(written_topics(self.declared))
        found: dict[str, FromTopic] = {}
        for topic in [*source_topics(self.declared), *self._given]:
            timed = [each for each in sources_of(self.declared, topic) if each.watermark is not None]
            if timed and topic not in written:
                found.setdefault(topic, timed[0])
        return found

    def _sink(self, label: str | None) -> tuple[int, int]:
        """The pipeline and its sink, by their places."""
        known = {
            sink.label: (number, place)
            for number, each in enumerate(self.declared)
            for place, sink in enumerate(each.sinks)
        }
        if label is None and len(known) == 1:
            return next(iter(known.values()))
        if label is None:
            raise PipelineTestError(f"there are several sinks: name one of {', '.join(known)}")
        if label not in known:
            raise PipelineTestError(f"there is no sink {label}{_known(label, known)}")
        return known[label]


class World:
    """Everything that one course of a test has for itself: topics, tables, checkpoints."""

    def __init__(
        self,
        spark: SparkSession,
        place: Place,
        pipelines: Sequence[Pipeline],
        directory: Path,
        topics: OwnTopics,
        settings: Mapping[str, Any],
    ) -> None:
        self.place = place
        self.pipelines = pipelines
        self.file = PipelineFile(directory / "pipelines.py", in_reading_order(pipelines), [])
        self.progress: list[PipelineProgress] = []
        self.replayed = 0
        """How many dead letters the last replay has sent."""
        self._spark = spark
        self._topics = topics
        self._settings = settings
        self._sinks = SeenSinks(spark, settings, self.file.beside)

    @classmethod
    def of(cls, test: PipelineTest, tag: str, declared: Sequence[Pipeline]) -> World:
        """A new one for a test, with its topics."""
        cluster = test.cluster
        settings = cluster.client_options("admin")
        login = {name: text for name, text in cluster.client_properties("admin").items() if name != "bootstrap.servers"}
        directory = test.directory / tag
        directory.mkdir(parents=True)
        place = Place(tag, cluster.bootstrap_servers, login, str(directory))
        own = isolated(declared, place)
        topics = OwnTopics(cluster.create_topic, settings, test.partitions)
        _make_topics(topics, own)
        return cls(test.spark, place, own, directory, topics, settings)

    def do(self, act: Act) -> None:
        match act:
            case Run():
                self._run()
            case Give(topic, records):
                self._topics.send(self.place.topic(topic), records)
            case Advance(micros, templates):
                key = mark_key(self.place.tag, micros)
                for topic, template in templates.items():
                    self._topics.send(self.place.topic(topic), [replace(template, key=key)])
            case Replay(reason):
                self._replay(ReplayChoice(reason=reason))
            case Upgrade(declared):
                self._upgrade(isolated(declared, self.place))

    @staticmethod
    def is_run(act: Act) -> bool:
        return isinstance(act, Run)

    def own_query(self, declared: str) -> str:
        """The name of a query here, from that which it has in the declarations."""
        for each in self.pipelines:
            name = self.place.declared(each.name)
            if declared == name or declared.startswith(f"{name}."):
                return each.name + declared.removeprefix(name)
        raise PipelineTestError(f"no pipeline has the query {declared}")

    def declared_query(self, own: str) -> str:
        return self.place.declared(own)

    def declared_text(self, text: str) -> str:
        return self.place.declared(text)

    def everything(self) -> dict[str, list[Row]]:
        """The rows of all sinks, and dead letters, by the names that declarations have for them."""
        found: dict[str, list[Row]] = {}
        for pipeline in self.pipelines:
            for sink in pipeline.sinks:
                # Where rows change, the last one of each key is what counts.
                found[sink.label] = self._sinks.rows(sink, is_last_of_key=pipeline.output_mode != "append")
            for each_topic in pipeline.dead_letter_topics:
                topic = self.place.declared(each_topic)
                letters = self.dead_letters(topic)
                found[topic] = [{"value": each.text, "reason": each.reason} for each in letters]
        return found

    def rows(self, number: int, place: int) -> list[Row]:
        """Of a sink, by its place and its pipeline's."""
        return self._sinks.rows(self.pipelines[number].sinks[place])

    def records(self, topic: str) -> list[Any]:
        found = committed_records(self._settings, self.place.topic(topic))
        return [replace(each, topic=topic) for each in found]

    def dead_letters(self, topic: str) -> list[DeadLetter]:
        found = committed_records(self._settings, self.place.topic(topic))
        return dead_letters_of(found, self.place.declared)

    def _replay(self, choice: ReplayChoice) -> None:
        letting = [each for each in self.pipelines if any(source.dead_letters for source in each.sources)]
        self.replayed = sum(replay_dead_letters(each, choice, executes=True).chosen for each in letting)

    def _upgrade(self, pipelines: Sequence[Pipeline]) -> None:
        _make_topics(self._topics, pipelines)
        self.pipelines = pipelines
        self.file = replace(self.file, pipelines=in_reading_order(pipelines))

    def _run(self) -> None:
        from tidelog.spark.testing_kit.caught_up import run_to_the_end  # noqa: PLC0415 - imports PySpark

        # One after another: what one writes the next one has to read.
        self.progress = []
        for each in self.file.pipelines:
            self.progress += run_to_the_end(self._spark, replace(self.file, pipelines=[each]), RUN_TIMEOUT_S)


def _make_topics(topics: OwnTopics, pipelines: Sequence[Pipeline]) -> None:
    for name in dict.fromkeys([*source_topics(pipelines), *written_topics(pipelines)]):
        topics.ensure(name)


def _known(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(name, names) or (f": there are {', '.join(names)}" if names else ": there is none")
