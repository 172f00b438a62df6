"""The rows of the table: what each one does to a broker, which figures it yields, and what is asked of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.broker.contestants import Contestant, TidelogUp, tidelog_environment
from benchmarks.broker.course import Course
from benchmarks.broker.figures import OURS, Better, Figure, Goal
from benchmarks.broker.idle_connections import idle_connections
from benchmarks.broker.load_client import Job, Properties

PARTITIONS_1K = 6
SIZE_1K = 1_000
SIZE_100B = 100

# Small writes leave at once on both sides of every connection, as they do with Kafka's own client.
COMMON: Properties = {"socket.nagle.disable": "true"}
PRODUCE_1K: Properties = {**COMMON, "linger.ms": 5, "batch.size": 131_072, "queue.buffering.max.messages": 1_000_000}
# The record limit is out of the way: batches end at 1 MB.
PRODUCE_100B: Properties = {
    **COMMON,
    "linger.ms": 50,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 2_000_000,
}
ONE_A_REQUEST: Properties = {**COMMON, "linger.ms": 0, "batch.num.messages": 1}

START = Figure("start_s", "process start to first answer, with format", "s", goal=Goal(1 / 8), is_pictured=True)
UP = Figure("up_s", "`tidelog up`: process start to first answer", "s", goal=Goal(1 / 7))
IDLE = Figure("idle_mb", "resident memory, idle", "MB", goal=Goal(1 / 5), is_pictured=True)
RATE_1K = Figure("produce_1k_mb_s", "produce 1 KB, 6 partitions", "MB/s", Better.MORE, goal=Goal(1.5), is_pictured=True)
CPU_1K = Figure(
    "produce_1k_cpu_s", "produce 1 KB, 6 partitions: broker CPU per GB", "s", goal=Goal(1 / 4), is_pictured=True
)
AFTER = Figure(
    "after_produce_mb", "resident memory after producing 1 KB records", "MB", goal=Goal(1 / 6), is_pictured=True
)
RATE_100B = Figure("produce_100b_mb_s", "produce 100 B, 1 partition, 1 MB batches", "MB/s", Better.MORE)
CPU_100B = Figure(
    "produce_100b_cpu_s",
    "produce 100 B, 1 partition, 1 MB batches: broker CPU per GB",
    "s",
    goal=Goal(1 / 3),
    is_pictured=True,
)
REQUESTS = Figure(
    "one_a_request_per_s", "one record a request, pipelined", "requests/s", Better.MORE, goal=Goal(3), is_pictured=True
)
REQUEST_CPU = Figure(
    "one_a_request_cpu_us",
    "one record a request: broker CPU per request",
    "µs",
    goal=Goal(1 / 5),
    is_pictured=True,
)
CONSUME_1K = Figure("consume_1k_cpu_s", "consume 1 KB: broker CPU per GB", "s", goal=Goal(1 / 2), is_pictured=True)
CONSUME_1K_RATE = Figure("consume_1k_mb_s", "consume 1 KB", "MB/s", Better.MORE)
CONSUME_100B = Figure("consume_100b_cpu_s", "consume 100 B: broker CPU per GB", "s", goal=Goal(1 / 2), is_pictured=True)
CONSUME_100B_RATE = Figure("consume_100b_mb_s", "consume 100 B", "MB/s", Better.MORE)
P50 = Figure("round_trip_p50_ms", "produce-to-consume round trip, p50", "ms", goal=Goal(1 / 2), is_pictured=True)
P99 = Figure("round_trip_p99_ms", "produce-to-consume round trip, p99", "ms", goal=Goal(1 / 4), is_pictured=True)
ROUND_TRIP_CPU = Figure("round_trip_cpu_us", "produce-to-consume round trip: broker CPU for each", "µs")
EMBEDDED = Figure(
    "embedded_start_ms", "embedded cluster: first start in a process", "ms", goal=Goal(150, is_absolute=True)
)
CONNECTIONS_MB = Figure("connections_mb", "5,000 idle connections: resident memory", "MB", goal=Goal(1))
CONNECTIONS_P99 = Figure("connections_p99_ms", "5,000 idle connections: round trip p99", "ms", goal=Goal(1))
PARTITIONS_MB = Figure("partitions_mb", "5,000 partitions: resident memory", "MB", goal=Goal(1))
PARTITIONS_P99 = Figure("partitions_p99_ms", "5,000 partitions: round trip p99", "ms", goal=Goal(1))


@dataclass(frozen=True)
class Row:
    """What `--rows` names: one way to load the brokers, and the lines of the table that come of it."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Course], None]


def start(course: Course) -> None:
    """Nodes of their own, one at a time, each on an empty directory; the discarded round brings the programs into the cache."""
    with course.contestants.pair() as pair:
        for counts, node in course.turns(pair):
            taken_s = node.start()
            time.sleep(course.sizes.settle_s)
            resident_mb = node.resident_mb()
            node.stop()
            if counts:
                course.record(START, node.name, taken_s)
                course.record(IDLE, node.name, resident_mb)


def up(course: Course) -> None:
    """As `start`, with the command that starts, watches and stops a node of its own: two processes of ours."""
    with course.contestants.pair(TidelogUp) as pair:
        for counts, node in course.turns(pair):
            taken_s = node.start()
            node.stop()
            if counts:
                course.record(UP, node.name, taken_s)


def produce_1k(course: Course) -> None:
    _produce(course, _job_1k(course), RATE_1K, CPU_1K, AFTER)


def _job_1k(course: Course) -> Job:
    return Job("produce", PARTITIONS_1K, course.sizes.records_1k, SIZE_1K, PRODUCE_1K)


def _shared_pair(course: Course) -> tuple[Contestant, Contestant]:
    return course.shared_pair(running_in=_job_1k(course))


def produce_100b(course: Course) -> None:
    job = Job("produce", 1, course.sizes.records_100b, SIZE_100B, PRODUCE_100B)
    _produce(course, job, RATE_100B, CPU_100B, None)


def _produce(course: Course, job: Job, rate: Figure, cpu: Figure, memory: Figure | None) -> None:
    for counts, node in course.turns(_shared_pair(course)):
        with course.topic(node, job.partitions) as topic:
            used = course.carry(node, job, topic)
        if counts:
            course.record(rate, node.name, used.carried.bytes / used.carried.seconds / 1e6)
            course.record(cpu, node.name, used.cpu_s / (used.carried.bytes / 1e9))
            if memory is not None:
                course.record(memory, node.name, used.resident_mb)


def one_a_request(course: Course) -> None:
    job = Job("produce", 1, course.sizes.requests, SIZE_100B, ONE_A_REQUEST)
    for counts, node in course.turns(_shared_pair(course)):
        with course.topic(node, 1) as topic:
            used = course.carry(node, job, topic)
        if counts:
            course.record(REQUESTS, node.name, job.count / used.carried.seconds)
            course.record(REQUEST_CPU, node.name, used.cpu_s / job.count * 1e6)


def consume_1k(course: Course) -> None:
    _consume(course, _job_1k(course), CONSUME_1K, CONSUME_1K_RATE)


def consume_100b(course: Course) -> None:
    written = Job("produce", 1, course.sizes.records_100b, SIZE_100B, PRODUCE_100B)
    _consume(course, written, CONSUME_100B, CONSUME_100B_RATE)


def _consume(course: Course, written: Job, cpu: Figure, rate: Figure) -> None:
    """One topic for all rounds, read from the start in each; it stays in the page cache."""
    read = Job("consume", written.partitions, written.count, written.size_bytes, COMMON)
    with contextlib.ExitStack() as held:
        topics = {}
        for node in _shared_pair(course):
            course.say(f"filling: {node.name}")
            topics[node.name] = held.enter_context(course.topic(node, written.partitions))
            course.carry(node, written, topics[node.name])
        os.sync()
        for counts, node in course.turns(_shared_pair(course)):
            used = course.carry(node, read, topics[node.name])
            if counts:
                course.record(cpu, node.name, used.cpu_s / (used.carried.bytes / 1e9))
                course.record(rate, node.name, used.carried.bytes / used.carried.seconds / 1e6)


def round_trip(course: Course) -> None:
    job = Job("round-trip", 1, course.sizes.round_trips, SIZE_100B, COMMON)
    for counts, node in course.turns(_shared_pair(course)):
        with course.topic(node, 1) as topic:
            used = course.carry(node, job, topic)
        if counts:
            course.record(P50, node.name, used.carried.p50_ms)
            course.record(P99, node.name, used.carried.p99_ms)
            course.record(ROUND_TRIP_CPU, node.name, used.cpu_s / job.count * 1e6)


def embedded(course: Course) -> None:
    for number in range(course.sizes.embedded_starts + 1):
        command = [sys.executable, "-m", "benchmarks.broker.embedded_start"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=tidelog_environment())
        if number:
            course.record(EMBEDDED, OURS, float(done.stdout))


def connections(course: Course) -> None:
    with course.contestants.running_pair(course.say) as pair, contextlib.ExitStack() as opened:
        topics = {node.name: course.new_topic(node, 1) for node in pair}
        for node in pair:
            course.say(f"opening {course.sizes.connections} connections: {node.name}")
            opened.enter_context(idle_connections(node.port, course.sizes.connections))
        _crowded(course, pair, topics, CONNECTIONS_MB, CONNECTIONS_P99)


def partitions(course: Course) -> None:
    with course.contestants.running_pair(course.say) as pair:
        topics = {}
        for node in pair:
            course.say(f"making {course.sizes.partitions} partitions: {node.name}")
            topics[node.name] = course.new_topic(node, course.sizes.partitions)
        os.sync()
        _crowded(course, pair, topics, PARTITIONS_MB, PARTITIONS_P99)


def _crowded(course: Course, pair: Sequence[Contestant], topics: dict[str, str], memory: Figure, p99: Figure) -> None:
    """Round trips through nodes that hold much else. Memory is what a node has while it holds it."""
    job = Job("round-trip", 1, course.sizes.round_trips_crowded, SIZE_100B, COMMON)
    for counts, node in course.turns(pair):
        used = course.carry(node, job, topics[node.name])
        if counts:
            course.record(memory, node.name, used.resident_mb)
            course.record(p99, node.name, used.carried.p99_ms)


ROWS = (
    Row("start", (START, IDLE), start),
    Row("up", (UP,), up),
    Row("produce-1k", (RATE_1K, CPU_1K, AFTER), produce_1k),
    Row("produce-100b", (RATE_100B, CPU_100B), produce_100b),
    Row("one-a-request", (REQUESTS, REQUEST_CPU), one_a_request),
    Row("consume-1k", (CONSUME_1K, CONSUME_1K_RATE), consume_1k),
    Row("consume-100b", (CONSUME_100B, CONSUME_100B_RATE), consume_100b),
    Row("round-trip", (P50, P99, ROUND_TRIP_CPU), round_trip),
    Row("embedded", (EMBEDDED,), embedded),
    Row("connections", (CONNECTIONS_MB, CONNECTIONS_P99), connections),
    Row("partitions", (PARTITIONS_MB, PARTITIONS_P99), partitions),
)


def all_figures() -> Iterator[Figure]:
    for row in ROWS:
        yield from row.figures
