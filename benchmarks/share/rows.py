"""The rows of the table: what members of share groups do to a broker, which figures it yields, and what is asked of them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.broker.contestants import Contestant, tidelog_environment
from benchmarks.broker.course import Course
from benchmarks.broker.figures import Better, Figure, Goal
from benchmarks.broker.load_client import Job, LoadError
from benchmarks.broker.rows import ONE_A_REQUEST, PRODUCE_1K, SIZE_1K
from tidelog import Admin
from tidelog.client.admin import ResourceKind

# What both nodes have besides the usual: locks as long as they may be, since a topic is written while its first records are held.
SETTINGS = {
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.record.lock.duration.ms": "60000",
    "group.share.partition.max.record.locks": "10000",
    "group.share.max.partition.max.record.locks": "10000",
}
MEMBERS = 4
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `QUICK` only shows that all of it works."""

    records: int = 500_000
    acknowledgements: int = 5_000
    groups: int = 1_000
    idle_s: float = 30.0


FULL = Sizes()
QUICK = Sizes(records=20_000, acknowledgements=200, groups=20, idle_s=2.0)


@dataclass
class Run:
    """What rows are measured with."""

    course: Course
    sizes: Sizes
    pair: tuple[Contestant, Contestant]
    groups_made: int = 0

    def new_group(self, node: Contestant, **settings: str) -> str:
        """A group that nobody has seen before, with settings of its own."""
        self.groups_made += 1
        name = f"share-{self.groups_made}"
        values = {
            "share.heartbeat.interval.ms": "1000",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        with Admin(bootstrap_servers=node.bootstrap) as admin:
            admin.alter_config(ResourceKind.GROUP, name, set=values)
        return name


@dataclass(frozen=True)
class Row:
    """What `--rows` names."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Run], None]


class Member:
    """A process of `benchmarks.share.member`."""

    def __init__(self, kind: str, node: Contestant, topic: str, group: str, count: int) -> None:
        command = [sys.executable, "-m", "benchmarks.share.member", kind, node.bootstrap, topic, group, str(count)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=tidelog_environment(),
        )
        self._kind = kind

    def ready(self) -> None:
        """Waits until it is in its group."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            self.done()
            raise LoadError(f"a member that was to {self._kind} was never ready")

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def done(self) -> Mapping[str, float]:
        """What it says of itself at its end."""
        try:
            out, complaint = self._process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LoadError(f"a member that was to {self._kind} did not end within {TIMEOUT_S:.0f} s") from None
        finally:
            self.kill()
        if self._process.returncode != 0:
            raise LoadError(f"a member that was to {self._kind} failed: {complaint.strip()[-500:]}")
        told: dict[str, float] = json.loads(out.splitlines()[-1])
        return told

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def members(count: int, kind: str, node: Contestant, topic: str, group: str, size: int = 0) -> Iterator[list[Member]]:
    """So many of one group, ready; none is left afterwards."""
    made = [Member(kind, node, topic, group, size) for _ in range(count)]
    try:
        for each in made:
            each.ready()
        yield made
    finally:
        for each in made:
            each.kill()


# --- reading -------------------------------------------------------------------------------------------------------------------

_READ_RATE = Figure(
    "share_read_per_s",
    "1 KB records, 1 partition, 4 members, implicit acknowledgement",
    "records/s",
    Better.MORE,
    goal=Goal(2),
)
_READ_CPU = Figure("share_read_cpu_us", "the same: broker CPU per record", "µs", goal=Goal(1 / 2))


def read(run: Run) -> None:
    """All of the group's members are there before the records are. What they cost the broker while these are written is not
    counted; how fast they are depends on the members too, which share the machine with it."""
    count = run.sizes.records
    job = Job("produce", 1, count, SIZE_1K, PRODUCE_1K)
    for counts, node in run.course.turns(run.pair):
        group = run.new_group(node)
        with run.course.topic(node, 1) as topic, members(MEMBERS, "read", node, topic, group) as reading:
            run.course.carry(node, job, topic)
            before_s = node.cpu_s()
            for each in reading:
                each.go()
            told = [each.done() for each in reading]
            used_s = node.cpu_s() - before_s
            _check_all_came(told, count, node)
        seconds = max(each["last_s"] for each in told) - min(each["first_s"] for each in told if each["records"])
        if counts:
            run.course.record(_READ_RATE, node.name, count / max(seconds, 1e-9))
            run.course.record(_READ_CPU, node.name, used_s / count * 1e6)


def _check_all_came(told: Sequence[Mapping[str, float]], count: int, node: Contestant) -> None:
    came = sum(each["records"] for each in told)
    if came != count:
        raise LoadError(f"{node.name} gave {came:.0f} of {count} records to the members of a share group")


# --- acknowledging -------------------------------------------------------------------------------------------------------------

_ACKNOWLEDGE_P50 = Figure("share_acknowledge_p50_ms", "acknowledgement of one record: p50", "ms", goal=Goal(1 / 2))
_ACKNOWLEDGE_P99 = Figure("share_acknowledge_p99_ms", "acknowledgement of one record: p99", "ms")
_ACKNOWLEDGE_CPU = Figure("share_acknowledge_cpu_us", "a record fetched and acknowledged alone: broker CPU", "µs")


def acknowledge(run: Run) -> None:
    count = run.sizes.acknowledgements
    job = Job("produce", 1, count, SIZE_1K, ONE_A_REQUEST)
    for counts, node in run.course.turns(run.pair):
        group = run.new_group(node)
        with (
            run.course.topic(node, 1) as topic,
            members(1, "acknowledge", node, topic, group, count) as acknowledging,
        ):
            run.course.carry(node, job, topic)
            before_s = node.cpu_s()
            acknowledging[0].go()
            told = acknowledging[0].done()
            used_s = node.cpu_s() - before_s
        if counts:
            run.course.record(_ACKNOWLEDGE_P50, node.name, told["p50_ms"])
            run.course.record(_ACKNOWLEDGE_P99, node.name, told["p99_ms"])
            run.course.record(_ACKNOWLEDGE_CPU, node.name, used_s / count * 1e6)


# --- nothing to do -------------------------------------------------------------------------------------------------------------

_IDLE = Figure(
    "share_idle_cpu", "1,000 share groups of a member that gets nothing: broker CPU", "% of a core", goal=Goal(1 / 2)
)


def idle(run: Run) -> None:
    """Heartbeats and fetches that wait for half a second, as of any member that has nothing to do."""
    for counts, node in run.course.turns(run.pair):
        prefix = f"idle-{run.groups_made}-{int(counts)}-{node.name.replace(' ', '')}"
        run.groups_made += 1
        with run.course.topic(node, 1) as topic, members(1, "idle", node, topic, prefix, run.sizes.groups) as polling:
            time.sleep(run.sizes.idle_s / 10)
            before_s, begun_s = node.cpu_s(), time.monotonic()
            time.sleep(run.sizes.idle_s)
            used_s, seconds = node.cpu_s() - before_s, time.monotonic() - begun_s
            polling[0].go()
            polling[0].done()
        if counts:
            run.course.record(_IDLE, node.name, used_s / seconds * 100)


ROWS = (
    Row("read", (_READ_RATE, _READ_CPU), read),
    Row("acknowledge", (_ACKNOWLEDGE_P50, _ACKNOWLEDGE_P99, _ACKNOWLEDGE_CPU), acknowledge),
    Row("idle", (_IDLE,), idle),
)
