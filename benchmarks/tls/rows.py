"""The rows of the table: reading, a round trip and handshakes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.broker.contestants import Contestant
from benchmarks.broker.course import Course
from benchmarks.broker.figures import OURS, Better, Figure, Goal
from benchmarks.broker.load_client import Job
from benchmarks.broker.rows import COMMON, PARTITIONS_1K, PRODUCE_1K, SIZE_1K, SIZE_100B
from benchmarks.tls import bare_loop, handshakes
from benchmarks.tls.identities import EC, RSA, Identities


@dataclass(frozen=True)
class Sizes:
    """How much of everything that the broker's own rows do not have; `QUICK` only shows that all of it works."""

    bare_bytes: int = 1_000_000_000
    handshakes: int = 4_000


FULL = Sizes()
QUICK = Sizes(bare_bytes=50_000_000, handshakes=200)

CONSUME = Figure("tls_consume_1k_cpu_s", "TLS: consume 1 KB, broker CPU per GB", "s", goal=Goal(0.7))
CONSUME_RATE = Figure("tls_consume_1k_mb_s", "TLS: consume 1 KB", "MB/s", Better.MORE)
PLAIN = Figure("tls_consume_1k_plain_cpu_s", "the same node without TLS: consume 1 KB, broker CPU per GB", "s")
BARE = Figure("tls_bare_cpu_s", "OpenSSL alone, in memory: CPU per GB, beside each broker's turn", "s")
ADDED = Figure(
    "tls_added_over_bare",
    "what TLS adds to the broker's CPU, over OpenSSL alone",
    "×",
    goal=Goal(1.3, is_absolute=True),
)
P50 = Figure("tls_round_trip_p50_ms", "TLS: produce-to-consume round trip, p50", "ms", goal=Goal(1 / 2))
P99 = Figure("tls_round_trip_p99_ms", "TLS: produce-to-consume round trip, p99", "ms")
ROUND_TRIP_CPU = Figure("tls_round_trip_cpu_us", "TLS: produce-to-consume round trip, broker CPU for each", "µs")


@dataclass(frozen=True)
class HandshakeFigures:
    """The lines of the table that one kind of key has."""

    listener: str
    rate: Figure
    cpu: Figure
    ceiling: Figure


def _handshake_figures(listener: str, key: str) -> HandshakeFigures:
    prefix = f"tls_handshakes_{listener.lower()}"
    return HandshakeFigures(
        listener,
        Figure(f"{prefix}_per_s", f"full handshakes, {key}", "handshakes/s", Better.MORE, Goal(1.5)),
        Figure(f"{prefix}_cpu_us", f"full handshakes, {key}: broker CPU for each", "µs"),
        Figure(
            f"{prefix}_ceiling_per_s",
            f"full handshakes, {key}: what a broker that took no CPU at all would come to",
            "handshakes/s",
            Better.MORE,
        ),
    )


EC_FIGURES = _handshake_figures(EC, "P-256")
RSA_FIGURES = _handshake_figures(RSA, "RSA 2048")


@dataclass
class Run:
    """What rows are measured with: two nodes that serve, and the keys they have."""

    course: Course
    sizes: Sizes
    pair: tuple[Contestant, Contestant]
    identities: Identities
    cipher: str


def produce_job(count: int, identities: Identities) -> Job:
    return Job("produce", PARTITIONS_1K, count, SIZE_1K, {**PRODUCE_1K, **identities.client()}, EC)


def consume(run: Run) -> None:
    """One topic for all rounds, read with TLS and without it in every turn, and OpenSSL alone beside it."""
    course = run.course
    written = produce_job(course.sizes.records_1k, run.identities)
    plain = Job("consume", written.partitions, written.count, written.size_bytes, COMMON)
    secured = Job(
        "consume", written.partitions, written.count, written.size_bytes, {**COMMON, **run.identities.client()}, EC
    )
    with contextlib.ExitStack() as held:
        topics = {}
        for node in run.pair:
            course.say(f"filling: {node.name}")
            topics[node.name] = held.enter_context(course.topic(node, written.partitions))
            course.carry(node, written, topics[node.name])
            # What ran before has hardly encrypted anything, and a JVM compiles what it does often.
            for _ in range(course.sizes.running_in_rounds):
                course.carry(node, secured, topics[node.name])
        os.sync()
        for counts, node in course.turns(run.pair):
            with_tls = course.carry(node, secured, topics[node.name])
            without = course.carry(node, plain, topics[node.name])
            bare_s = bare_loop.cpu_s_per_gb(run.identities.key_store(EC), run.sizes.bare_bytes, run.cipher)
            if counts:
                gigabytes = with_tls.carried.bytes / 1e9
                course.record(CONSUME, node.name, with_tls.cpu_s / gigabytes)
                course.record(CONSUME_RATE, node.name, with_tls.carried.bytes / with_tls.carried.seconds / 1e6)
                course.record(PLAIN, node.name, without.cpu_s / gigabytes)
                course.record(BARE, node.name, bare_s)
                course.record(ADDED, node.name, (with_tls.cpu_s - without.cpu_s) / gigabytes / bare_s)


def round_trip(run: Run) -> None:
    course = run.course
    job = Job("round-trip", 1, course.sizes.round_trips, SIZE_100B, {**COMMON, **run.identities.client()}, EC)
    for counts, node in course.turns(run.pair):
        with course.topic(node, 1) as topic:
            used = course.carry(node, job, topic)
        if counts:
            course.record(P50, node.name, used.carried.p50_ms)
            course.record(P99, node.name, used.carried.p99_ms)
            course.record(ROUND_TRIP_CPU, node.name, used.cpu_s / job.count * 1e6)


def handshake(figures: HandshakeFigures) -> Callable[[Run], None]:
    def measure(run: Run) -> None:
        course = run.course
        for counts, node in course.turns(run.pair):
            before_s = node.cpu_s()
            done = handshakes.run(node.listener_ports[figures.listener], run.sizes.handshakes)
            used_s = node.cpu_s() - before_s
            if counts:
                rate = done.handshakes / done.seconds
                # Broker and client share the cores; ours is what would be left if the client had all of them.
                most = done.handshakes * (os.cpu_count() or 1) / max(done.client_cpu_s, 1e-9)
                course.record(figures.rate, node.name, rate)
                course.record(figures.cpu, node.name, used_s / done.handshakes * 1e6)
                course.record(figures.ceiling, node.name, most if node.name == OURS else rate)

    return measure


@dataclass(frozen=True)
class TlsRow:
    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Run], None]


ROWS = (
    TlsRow("consume-1k", (CONSUME, CONSUME_RATE, PLAIN, BARE, ADDED), consume),
    TlsRow("round-trip", (P50, P99, ROUND_TRIP_CPU), round_trip),
    *(
        TlsRow(f"handshakes-{each.listener.lower()}", (each.rate, each.cpu, each.ceiling), handshake(each))
        for each in (EC_FIGURES, RSA_FIGURES)
    ),
)


def all_figures() -> Iterator[Figure]:
    for row in ROWS:
        yield from row.figures
