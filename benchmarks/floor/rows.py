"""The rows of the table: those of the broker that show how far it is from what nobody can leave out."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.broker.contestants import Contestant
from benchmarks.broker.course import Course
from benchmarks.broker.figures import FLOOR, OURS, Figure, Goal
from benchmarks.broker.load_client import Job
from benchmarks.broker.rows import COMMON, PARTITIONS_1K, PRODUCE_1K, SIZE_1K, SIZE_100B
from benchmarks.net import Server

PRODUCE_CPU = Figure("floor_produce_cpu_s", "produce 1 KB, 6 partitions: CPU per GB", "s", goal=Goal(1.25))
CONSUME_CPU = Figure("floor_consume_cpu_s", "consume 1 KB: CPU per GB", "s", goal=Goal(1.4))
P50 = Figure("floor_round_trip_p50_ms", "produce-to-consume round trip, p50", "ms", goal=Goal(2))
P99 = Figure("floor_round_trip_p99_ms", "produce-to-consume round trip, p99", "ms", goal=Goal(2))
ROUND_TRIP_CPU = Figure("floor_round_trip_cpu_us", "produce-to-consume round trip: CPU for each", "µs")
ECHO_P50 = Figure("echo_p50_us", "a frame of 200 bytes to and fro: a connection of ours, a bare uvloop echo; p50", "µs")
ECHO_CPU = Figure("echo_cpu_us", "the same: CPU for each", "µs")

ECHO_BYTES = 200
ECHO_WARM_UP = 500


@dataclass
class Run:
    """What rows are measured with: a node and the C program, both of which serve."""

    course: Course
    pair: tuple[Contestant, Contestant]


@dataclass(frozen=True)
class FloorRow:
    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Run], None]


def produce(run: Run) -> None:
    course = run.course
    job = _job(course)
    for counts, node in course.turns(run.pair):
        with course.topic(node, job.partitions) as topic:
            used = course.carry(node, job, topic)
        if counts:
            course.record(PRODUCE_CPU, node.name, used.cpu_s / (used.carried.bytes / 1e9))


def _job(course: Course) -> Job:
    return Job("produce", PARTITIONS_1K, course.sizes.records_1k, SIZE_1K, PRODUCE_1K)


def consume(run: Run) -> None:
    """One topic for all rounds, as the broker's row has it."""
    course = run.course
    written = _job(course)
    read = Job("consume", written.partitions, written.count, written.size_bytes, COMMON)
    with contextlib.ExitStack() as held:
        topics = {}
        for node in run.pair:
            topics[node.name] = held.enter_context(course.topic(node, written.partitions))
            course.carry(node, written, topics[node.name])
        os.sync()
        for counts, node in course.turns(run.pair):
            used = course.carry(node, read, topics[node.name])
            if counts:
                course.record(CONSUME_CPU, node.name, used.cpu_s / (used.carried.bytes / 1e9))


def round_trip(run: Run) -> None:
    course = run.course
    job = Job("round-trip", 1, course.sizes.round_trips, SIZE_100B, COMMON)
    for counts, node in course.turns(run.pair):
        with course.topic(node, 1) as topic:
            used = course.carry(node, job, topic)
        if counts:
            course.record(P50, node.name, used.carried.p50_ms)
            course.record(P99, node.name, used.carried.p99_ms)
            course.record(ROUND_TRIP_CPU, node.name, used.cpu_s / job.count * 1e6)


def echo(run: Run) -> None:
    """One frame at a time from a blocking client: the server of `tidelog.net` with nothing behind it, and uvloop alone."""
    course = run.course
    frame = ECHO_BYTES.to_bytes(4, "big") + bytes(ECHO_BYTES)
    scratch = bytearray(len(frame))
    with tempfile.NamedTemporaryFile() as file:
        servers = {OURS: Server("tidelog", file.name), FLOOR: Server("bare", file.name)}
        try:
            for _ in range(course.rounds):
                for name, server in servers.items():
                    taken_us = []
                    before_s = 0.0
                    for number in range(-ECHO_WARM_UP, course.sizes.round_trips):
                        if number == 0:
                            before_s = server.used()[0]
                        begun_s = time.perf_counter()
                        server.socket.sendall(frame)
                        server.receive(len(frame), scratch)
                        if number >= 0:
                            taken_us.append((time.perf_counter() - begun_s) * 1e6)
                    used_s = server.used()[0] - before_s
                    course.record(ECHO_P50, name, statistics.median(taken_us))
                    course.record(ECHO_CPU, name, used_s / len(taken_us) * 1e6)
        finally:
            for server in servers.values():
                server.close()


ROWS = (
    FloorRow("produce-1k", (PRODUCE_CPU,), produce),
    FloorRow("consume-1k", (CONSUME_CPU,), consume),
    FloorRow("round-trip", (P50, P99, ROUND_TRIP_CPU), round_trip),
    FloorRow("echo", (ECHO_P50, ECHO_CPU), echo),
)
