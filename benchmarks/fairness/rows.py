"""The rows of the table: each attack, and what a well-behaved client has to wait before it, during it and after it."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import confluent_kafka

from benchmarks.broker.contestants import Contestant, tidelog_environment
from benchmarks.broker.figures import OURS, Figure, Goal, Results
from benchmarks.broker.load_client import LoadError
from benchmarks.broker.topics import create_topic

TOPIC = "bench"
PARTITIONS = 6
RECORD_BYTES = 1000
# How soon after an attack everything is to be as before.
RECOVERY_S = 1.0
# Beyond what a process is asked to take.
PROCESS_TIMEOUT_S = 180.0
QUIET_TIMES_MAX = 3


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `QUICK` only shows that all of it works."""

    seconds: float = 5.0
    requests: int = 4000
    never_reading: int = 500
    consumers: int = 2000
    records: int = 60_000


FULL = Sizes()
QUICK = Sizes(seconds=1.0, requests=1000, never_reading=50, consumers=100, records=6000)


@dataclass(frozen=True)
class Waited:
    """The round trips of one stretch of time, in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


class Run:
    """Two nodes that serve, attacked in turn. The order changes from round to round, and the first round does not count."""

    def __init__(
        self, pair: Sequence[Contestant], results: Results, sizes: Sizes, rounds: int, say: Callable[[str], None]
    ) -> None:
        self.pair = pair
        self.sizes = sizes
        self.rounds = rounds
        self.say = say
        self._results = results

    def prepare(self) -> None:
        """A topic with records for those who fetch, and brokers that have answered before."""
        for node in self.pair:
            self.say(f"running in: {node.name}")
            create_topic(node.bootstrap, TOPIC, PARTITIONS)
            _fill(node.bootstrap, self.sizes.records)
            self.wait(node)

    def turns(self) -> Iterator[tuple[int, Contestant]]:
        """The round (0 does not count) and the node."""
        for number in range(self.rounds + 1):
            for node in self.pair if number % 2 else reversed(self.pair):
                yield number, node

    def record(self, number: int, figure: Figure, node: Contestant, value: float) -> None:
        if number:
            self._results.of(figure).add(node.name, value)
        self.say(
            f"{f'round {number}' if number else 'warming up'}: {node.name}: {figure.what}: {value:.4g} {figure.unit}"
        )

    def wait(self, node: Contestant) -> Waited:
        """Round trips of the well-behaved client, from now on."""
        arguments = (str(node.port), TOPIC, str(self.sizes.seconds))
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.fairness.polite", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_TIMEOUT_S,
            env=tidelog_environment(),
        )
        taken_ms = sorted(float(line) / 1000 for line in done.stdout.split())
        if done.returncode != 0 or not taken_ms:
            raise LoadError(f"round trips on {node.name}: {done.stderr.strip() or 'none'}")
        return Waited(statistics.median(taken_ms), taken_ms[int(len(taken_ms) * 0.99)], taken_ms[-1])

    @contextmanager
    def attacked(self, node: Contestant, *attack: object) -> Iterator[None]:
        """Inside, the node is under attack; afterwards the attackers have just gone."""
        # Longer than the round trips take to be measured, the start of a process included.
        seconds = self.sizes.seconds + 2.0
        arguments = (str(node.port), str(seconds), *map(str, attack))
        with subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fairness.attack", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=tidelog_environment(),
        ) as attacker:
            try:
                assert attacker.stdout is not None
                if attacker.stdout.readline().strip() != "attacking":
                    raise LoadError(f"no attack on {node.name}: {attacker.communicate()[1].strip()}")
                yield
                errors = attacker.communicate(timeout=PROCESS_TIMEOUT_S)[1].strip()
                if attacker.returncode != 0:
                    raise LoadError(f"the attack on {node.name} ended: {errors}")
            finally:
                attacker.kill()


@dataclass(frozen=True)
class Figures:
    """Those of one attack."""

    quiet_p50: Figure
    quiet_p99: Figure
    during_p50: Figure
    during_p99: Figure
    during_max: Figure
    during_times: Figure
    after_p99: Figure
    after_times: Figure

    @classmethod
    def of(cls, key: str, what: str) -> Figures:
        times = Goal(QUIET_TIMES_MAX, is_absolute=True)
        return cls(
            Figure(f"{key}-quiet-p50", f"{what}: before it, p50", "ms"),
            Figure(f"{key}-quiet-p99", f"{what}: before it, p99", "ms"),
            Figure(f"{key}-during-p50", f"{what}: during it, p50", "ms"),
            Figure(f"{key}-during-p99", f"{what}: during it, p99", "ms"),
            Figure(f"{key}-during-max", f"{what}: during it, the longest", "ms", goal=Goal(1)),
            Figure(f"{key}-during-times", f"{what}: p99 during it over before, on Tidelog", "×", goal=times),
            Figure(f"{key}-after-p99", f"{what}: a second after it, p99", "ms"),
            Figure(f"{key}-after-times", f"{what}: p99 after it over before, on Tidelog", "×", goal=times),
        )

    @property
    def all(self) -> tuple[Figure, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)


@dataclass(frozen=True)
class Row:
    """What `--rows` names."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Run], None]


def _row(name: str, what: str, attack: Callable[[Sizes], Sequence[object]]) -> Row:
    figures = Figures.of(name, what)

    def measure(run: Run) -> None:
        for number, node in run.turns():
            quiet = run.wait(node)
            with run.attacked(node, *attack(run.sizes)):
                during = run.wait(node)
            time.sleep(RECOVERY_S)
            after = run.wait(node)
            run.record(number, figures.quiet_p50, node, quiet.p50_ms)
            run.record(number, figures.quiet_p99, node, quiet.p99_ms)
            run.record(number, figures.during_p50, node, during.p50_ms)
            run.record(number, figures.during_p99, node, during.p99_ms)
            run.record(number, figures.during_max, node, during.max_ms)
            run.record(number, figures.after_p99, node, after.p99_ms)
            if node.name == OURS:
                run.record(number, figures.during_times, node, during.p99_ms / quiet.p99_ms)
                run.record(number, figures.after_times, node, after.p99_ms / quiet.p99_ms)

    return Row(name, figures.all, measure)


def _fill(bootstrap: str, records: int) -> None:
    errors: list[str] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "error_cb": lambda error: errors.append(str(error))}
    )
    for number in range(records):
        producer.produce(TOPIC, bytes(RECORD_BYTES), partition=number % PARTITIONS)
    if producer.flush(60.0) or errors:
        raise LoadError(f"the topic was not filled: {errors or 'it took too long'}")


ROWS = (
    *(
        _row(
            f"pipeline-{connections}",
            f"4,000 small requests at once on {connections} connection{'s' if connections > 1 else ''}",
            lambda sizes, connections=connections: ("pipeline", connections, sizes.requests),  # type: ignore[misc]
        )
        for connections in (1, 10, 50)
    ),
    _row(
        "metadata-never-read",
        "500 connections that send Metadata and never read",
        lambda sizes: ("metadata", sizes.never_reading),
    ),
    _row(
        "consumers-never-read",
        "2,000 consumers that never read",
        lambda sizes: ("consumers", sizes.consumers, TOPIC, PARTITIONS),
    ),
)
