"""The rows of the table: the same three loads by each client, and sessions that are wide or many."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.broker.contestants import Contestant
from benchmarks.broker.course import Course
from benchmarks.broker.figures import Better, Figure, Goal
from benchmarks.broker.load_client import Job
from benchmarks.broker.rows import COMMON, ONE_A_REQUEST, PARTITIONS_1K, SIZE_1K, SIZE_100B
from benchmarks.instructions.operations import JAVA_FETCH, Client, check, check_fetched, fetch
from benchmarks.sessions.loads import Load, franz_load, java_load, own_load
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

WIDE_PARTITIONS = 500
IDLE_SESSIONS = 1_000


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `QUICK` only shows that all of it works."""

    records: int = 500_000
    round_trips: int = 5_000
    answers: int = 5_000
    requests: int = 40_000


FULL = Sizes()
QUICK = Sizes(records=20_000, round_trips=200, answers=200, requests=2_000)


@dataclass(frozen=True)
class ClientFigures:
    """The lines of the table that one client has."""

    load: Load
    produce_cpu: Figure
    produce_rate: Figure
    consume_cpu: Figure
    consume_rate: Figure
    round_trip_cpu: Figure
    mean: Figure
    p99: Figure


def _figures(load: Load, who: str, consume: Goal | None, round_trip: Goal | None, mean: Goal | None) -> ClientFigures:
    def figure(key: str, what: str, unit: str, better: Better = Better.LESS, goal: Goal | None = None) -> Figure:
        return Figure(f"{load.name}_{key}", f"{who}: {what}", unit, better, goal)

    return ClientFigures(
        load,
        figure("produce_cpu_s", "produce 1 KB, broker CPU per GB", "s"),
        figure("produce_mb_s", "produce 1 KB", "MB/s", Better.MORE),
        figure("consume_cpu_s", "consume 1 KB, broker CPU per GB", "s", goal=consume),
        figure("consume_mb_s", "consume 1 KB", "MB/s", Better.MORE),
        figure("round_trip_cpu_us", "round trip, broker CPU for each", "µs", goal=round_trip),
        figure("round_trip_mean_ms", "round trip, mean", "ms", goal=mean),
        figure("round_trip_p99_ms", "round trip, p99", "ms"),
    )


CLIENTS = (
    _figures(java_load(), "Java client", Goal(0.33), Goal(0.12), Goal(0.40)),
    _figures(own_load(), "tidelog's client", None, None, None),
    _figures(franz_load(), "franz-go", None, None, None),
)

NARROW_CPU = Figure("session_1_cpu_us", "a session of 1 partition with news: broker CPU per answer", "µs")
WIDE_CPU = Figure("session_500_cpu_us", "a session of 500 partitions, 1 with news: broker CPU per answer", "µs")
WIDE_RATIO = Figure("session_500_over_1", "the second over the first", "×", goal=Goal(1.3, is_absolute=True))
ALONE_CPU = Figure("no_sessions_cpu_us", "one record a request, no sessions: broker CPU per request", "µs")
CROWDED_CPU = Figure(
    "idle_sessions_cpu_us", "one record a request, 1,000 idle sessions on its topic: broker CPU per request", "µs"
)
CROWDED_RATIO = Figure("idle_sessions_over_none", "the second over the first", "×", goal=Goal(1.1, is_absolute=True))


@dataclass
class Run:
    """What rows are measured with."""

    course: Course
    sizes: Sizes
    pair: tuple[Contestant, Contestant]


def produce(figures: ClientFigures) -> Callable[[Run], None]:
    def measure(run: Run) -> None:
        for counts, node in run.course.turns(run.pair):
            with run.course.topic(node, PARTITIONS_1K) as topic:
                done = figures.load.run(node, "produce", topic, PARTITIONS_1K, run.sizes.records, SIZE_1K)
            if counts:
                run.course.record(figures.produce_cpu, node.name, done.broker_cpu_s / (done.bytes / 1e9))
                run.course.record(figures.produce_rate, node.name, done.bytes / done.seconds / 1e6)

    return measure


def consume(figures: ClientFigures) -> Callable[[Run], None]:
    """What the client itself has written, once, and reads in every round."""

    def measure(run: Run) -> None:
        course, count = run.course, run.sizes.records
        with contextlib.ExitStack() as held:
            topics = {}
            for node in run.pair:
                topics[node.name] = held.enter_context(course.topic(node, PARTITIONS_1K))
                figures.load.run(node, "produce", topics[node.name], PARTITIONS_1K, count, SIZE_1K)
            os.sync()
            for counts, node in course.turns(run.pair):
                done = figures.load.run(node, "consume", topics[node.name], PARTITIONS_1K, count, SIZE_1K)
                if counts:
                    course.record(figures.consume_cpu, node.name, done.broker_cpu_s / (done.bytes / 1e9))
                    course.record(figures.consume_rate, node.name, done.bytes / done.seconds / 1e6)

    return measure


def round_trip(figures: ClientFigures) -> Callable[[Run], None]:
    def measure(run: Run) -> None:
        for counts, node in run.course.turns(run.pair):
            with run.course.topic(node, 1) as topic:
                done = figures.load.run(node, "round-trip", topic, 1, run.sizes.round_trips, SIZE_100B)
            if counts:
                run.course.record(figures.round_trip_cpu, node.name, done.broker_cpu_s / done.records * 1e6)
                run.course.record(figures.mean, node.name, done.mean_ms)
                run.course.record(figures.p99, node.name, done.p99_ms)

    return measure


def wide(run: Run) -> None:
    """One batch an answer, in a session that holds this partition alone, or 499 others that have nothing new."""
    course, answers = run.course, run.sizes.answers
    for counts, node in course.turns(run.pair):
        taken_us = [_session_cpu_us(course, node, partitions, answers) for partitions in (1, WIDE_PARTITIONS)]
        if counts:
            course.record(NARROW_CPU, node.name, taken_us[0])
            course.record(WIDE_CPU, node.name, taken_us[1])
            course.record(WIDE_RATIO, node.name, taken_us[1] / max(taken_us[0], 1e-9))


def _session_cpu_us(course: Course, node: Contestant, partitions: int, answers: int) -> float:
    with course.topic(node, partitions) as topic:
        # One batch more: opening the session sends one.
        course.carry(node, Job("produce", 1, answers + 1, SIZE_1K, {**COMMON, "batch.num.messages": 1}), topic)
        client = Client(node.port)
        topic_id = topic_id_of(client, topic)
        opened = client.ask(
            fetch(topic_id, dict.fromkeys(range(partitions), 0), session=(0, 0)), JAVA_FETCH, FetchResponse
        )
        check(opened.error_code)
        frames = [
            client.frame(fetch(topic_id, {0: number}, session=(opened.session_id, number)), JAVA_FETCH)
            for number in range(1, answers + 1)
        ]
        before_s = node.cpu_s()
        for frame in frames:
            client.send(frame)
            check_fetched(client.answer(FetchResponse, JAVA_FETCH))
        used_s = node.cpu_s() - before_s
        client.close()
    return used_s / answers * 1e6


def topic_id_of(client: Client, topic: str) -> bytes:
    asked = [MetadataRequestTopic(topic_id=ZERO_UUID, name=topic)]
    request = MetadataRequest(topics=asked, include_topic_authorized_operations=False)
    return client.ask(request, 12, MetadataResponse).topics[0].topic_id


def idle_sessions(run: Run) -> None:
    """Sessions that hold the topic and do not ask: what they cost a writer."""
    job = Job("produce", 1, run.sizes.requests, SIZE_100B, ONE_A_REQUEST)
    course = run.course
    for counts, node in course.turns(run.pair):
        with course.topic(node, 1) as topic:
            alone_us = course.carry(node, job, topic).cpu_s / job.count * 1e6
        with course.topic(node, 1) as topic, opened_sessions(node, topic):
            crowded_us = course.carry(node, job, topic).cpu_s / job.count * 1e6
        if counts:
            course.record(ALONE_CPU, node.name, alone_us)
            course.record(CROWDED_CPU, node.name, crowded_us)
            course.record(CROWDED_RATIO, node.name, crowded_us / max(alone_us, 1e-9))


@contextlib.contextmanager
def opened_sessions(node: Contestant, topic: str) -> Iterator[None]:
    """As many as a broker keeps, all at the end of the topic's partition; closed afterwards."""
    client = Client(node.port)
    topic_id = topic_id_of(client, topic)
    opened = []
    for _ in range(IDLE_SESSIONS):
        answer = client.ask(fetch(topic_id, {0: 0}, session=(0, 0)), JAVA_FETCH, FetchResponse)
        check(answer.error_code)
        opened.append(answer.session_id)
    yield
    for session_id in opened:
        client.ask(fetch(topic_id, {}, session=(session_id, -1)), JAVA_FETCH, FetchResponse)
    client.close()


@dataclass(frozen=True)
class SessionRow:
    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Run], None]


ROWS = (
    *(
        row
        for each in CLIENTS
        for row in (
            SessionRow(f"{each.load.name}-produce", (each.produce_cpu, each.produce_rate), produce(each)),
            SessionRow(f"{each.load.name}-consume", (each.consume_cpu, each.consume_rate), consume(each)),
            SessionRow(f"{each.load.name}-round-trip", (each.round_trip_cpu, each.mean, each.p99), round_trip(each)),
        )
    ),
    SessionRow("wide", (NARROW_CPU, WIDE_CPU, WIDE_RATIO), wide),
    SessionRow("idle-sessions", (ALONE_CPU, CROWDED_CPU, CROWDED_RATIO), idle_sessions),
)


def all_figures() -> Iterator[Figure]:
    for row in ROWS:
        yield from row.figures
