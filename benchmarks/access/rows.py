"""The rows of the table: real batches, written and read, on a guarded node and on an open one in turn."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.access.rules import ACL_SETTINGS, make_acls, make_quotas
from benchmarks.broker.contestants import Contestant, Contestants
from benchmarks.broker.course import Course, Sizes
from benchmarks.broker.figures import OURS, Better, Figure, Goal
from benchmarks.broker.load_client import Job, LoadClient
from benchmarks.broker.rows import COMMON, ONE_A_REQUEST, PARTITIONS_1K, PRODUCE_1K, SIZE_1K, SIZE_100B
from benchmarks.sitting import Sitting

# What is allowed to be lost: 3 %.
RATE = Goal(0.97)


@dataclass(frozen=True)
class GuardFigures:
    """The lines of the table that one kind of rules has."""

    produce: Figure
    produce_cpu: Figure
    consume: Figure
    consume_cpu: Figure
    request_cpu: Figure


def _figures(kind: str, what: str) -> GuardFigures:
    return GuardFigures(
        Figure(f"{kind}_produce_1k_mb_s", f"{what}: produce 1 KB", "MB/s", Better.MORE, RATE),
        Figure(f"{kind}_produce_1k_cpu_s", f"{what}: produce 1 KB, broker CPU per GB", "s"),
        Figure(f"{kind}_consume_1k_mb_s", f"{what}: consume 1 KB", "MB/s", Better.MORE, RATE),
        Figure(f"{kind}_consume_1k_cpu_s", f"{what}: consume 1 KB, broker CPU per GB", "s"),
        Figure(f"{kind}_one_a_request_cpu_us", f"{what}: one record a request, broker CPU for each", "µs"),
    )


ACLS = _figures("acls", "1,000 ACLs")
QUOTAS = _figures("quotas", "quotas set and not reached")


@dataclass
class Run:
    sitting: Sitting[Run]
    load: LoadClient
    sizes: Sizes

    @contextlib.contextmanager
    def course(self, settings: Mapping[str, str]) -> Iterator[Course]:
        sitting = self.sitting
        contestants = Contestants(sitting.folder / "nodes", sitting.peer, settings)
        with Course(sitting.results, contestants, self.load, self.sizes, sitting.rounds, sitting.say) as course:
            yield course


def guarded(
    figures: GuardFigures, settings: Mapping[str, str], guard: Callable[[Contestant], None]
) -> Callable[[Run], None]:
    def measure(run: Run) -> None:
        with run.course(settings) as course:
            written = Job("produce", PARTITIONS_1K, course.sizes.records_1k, SIZE_1K, PRODUCE_1K)
            pair = course.shared_pair(running_in=written)
            guard(next(node for node in pair if node.name == OURS))
            _bulk(course, pair, written, figures)
            _one_a_request(course, pair, figures.request_cpu)

    return measure


def _bulk(course: Course, pair: tuple[Contestant, Contestant], written: Job, figures: GuardFigures) -> None:
    """What is written in a turn is read in it."""
    read = Job("consume", written.partitions, written.count, written.size_bytes, COMMON)
    for counts, node in course.turns(pair):
        with course.topic(node, written.partitions) as topic:
            produced = course.carry(node, written, topic)
            os.sync()
            consumed = course.carry(node, read, topic)
        if counts:
            for used, rate, cpu in (
                (produced, figures.produce, figures.produce_cpu),
                (consumed, figures.consume, figures.consume_cpu),
            ):
                course.record(rate, node.name, used.carried.bytes / used.carried.seconds / 1e6)
                course.record(cpu, node.name, used.cpu_s / (used.carried.bytes / 1e9))


def _one_a_request(course: Course, pair: tuple[Contestant, Contestant], figure: Figure) -> None:
    job = Job("produce", 1, course.sizes.requests, SIZE_100B, ONE_A_REQUEST)
    for counts, node in course.turns(pair):
        with course.topic(node, 1) as topic:
            used = course.carry(node, job, topic)
        if counts:
            course.record(figure, node.name, used.cpu_s / job.count * 1e6)


@dataclass(frozen=True)
class AccessRow:
    name: str
    figures: GuardFigures
    measure: Callable[[Run], None]


ROWS = (
    AccessRow("acls", ACLS, guarded(ACLS, ACL_SETTINGS, make_acls)),
    AccessRow("quotas", QUOTAS, guarded(QUOTAS, {}, make_quotas)),
)
