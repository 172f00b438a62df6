"""The rows of the table: which transactions, which figures they yield, and what is asked of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.broker.contestants import Contestant
from benchmarks.broker.figures import OURS, Better, Figure, Goal, Results
from benchmarks.broker.topics import create_topic, delete_topic
from benchmarks.transactions.load_program import Done, LoadProgram

PARTITIONS = 6
SIZE_BYTES = 100
PRODUCERS = 50
RECORDS = 100
READ_SIZE_BYTES = 1_000
ABORTED_OF_TEN = 1
# Transactions of each producer before those that count: as the program has it.
DISCARDED = 20
# What a load takes at least, of whatever is left of its time: the clock of a process's CPU is a coarse one.
LEAST_S = 1e-3


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `QUICK` only shows that all of it works."""

    single: int = 3_000
    transactions: int = 40
    read_transactions: int = 1_000
    read_records: int = 400
    read_passes: int = 5
    running_in: int = 4_000


FULL = Sizes()
QUICK = Sizes(single=100, transactions=3, read_transactions=20, read_records=50, read_passes=1, running_in=0)


class Run:
    """Two nodes that serve, loaded in turn. The order changes from round to round, and the first round does not count."""

    def __init__(
        self,
        pair: Sequence[Contestant],
        results: Results,
        load: LoadProgram,
        sizes: Sizes,
        rounds: int,
        say: Callable[[str], None],
    ) -> None:
        self.pair = pair
        self.sizes = sizes
        self.rounds = rounds
        self.say = say
        self._load = load
        self._results = results
        self._topics_made = 0

    def prepare(self) -> None:
        """Both coordinators' topics, and brokers that are warm."""
        for node in self.pair:
            self.say(f"running in: {node.name}")
            with self.topic(node) as topic:
                self.write(node, topic, 1, max(1, self.sizes.running_in), 1, SIZE_BYTES)

    def turns(self) -> Iterator[tuple[int, Contestant]]:
        """The round (0 does not count) and the node."""
        for number in range(self.rounds + 1):
            for node in self.pair if number % 2 else reversed(self.pair):
                yield number, node

    def record(self, number: int, figure: Figure, node: Contestant, value: float) -> None:
        if number:
            self._results.of(figure).add(node.name, value)
        when = f"round {number}" if number else "warming up"
        self.say(f"{when}: {node.name}: {figure.what}: {value:.4g} {figure.unit}")

    @contextmanager
    def topic(self, node: Contestant) -> Iterator[str]:
        """A fresh topic, deleted afterwards; what is still to be written to the disk is written before anybody else's turn."""
        self._topics_made += 1
        name = f"bench-{self._topics_made}"
        create_topic(node.bootstrap, name, PARTITIONS)
        yield name
        delete_topic(node.bootstrap, name)
        os.sync()

    def write(
        self, node: Contestant, topic: str, producers: int, transactions: int, records: int, size: int, aborted: int = 0
    ) -> tuple[Done, float]:
        """What the load says, and the broker's CPU for it in seconds."""
        numbers = (PARTITIONS, producers, transactions, records, size, aborted)
        # No warnings: Apache Kafka has the first producers come again until it has made its topic.
        arguments = ["write", node.bootstrap, topic, *map(str, numbers), "linger.ms=0", "log_level=3"]
        return self._load.run(arguments, node.cpu_s)

    def write_with_own_client(self, node: Contestant, topic: str, transactions: int, size: int) -> tuple[Done, float]:
        """The same of one producer of Tidelog's own, with one record in each transaction."""
        arguments = [node.bootstrap, topic, *map(str, (PARTITIONS, transactions, size))]
        return LoadProgram.own_client().run(arguments, node.cpu_s)

    def read(self, node: Contestant, topic: str, count: int, size: int, level: str) -> tuple[Done, float]:
        arguments = ["read", node.bootstrap, topic, *map(str, (PARTITIONS, count, size)), f"isolation.level={level}"]
        return self._load.run([*arguments, "group.id=unused"], node.cpu_s)


@dataclass(frozen=True)
class Row:
    """What `--rows` names."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Run], None]


SINGLE_RATE = Figure(
    "single-rate", "transactions of one record, one after another", "transactions/s", Better.MORE, Goal(4)
)
SINGLE_P99 = Figure("single-p99", "the same: 99th percentile", "ms", Better.LESS, Goal(1 / 4))
SINGLE_CPU = Figure("single-cpu", "the same: CPU of the broker for each", "µs", Better.LESS)
SINGLE_CEILING = Figure(
    "single-ceiling", "the same: what a broker that took no time at all would come to", "transactions/s", Better.MORE
)


def measure_single(run: Run) -> None:
    for number, node in run.turns():
        with run.topic(node) as topic:
            done, used_s = run.write(node, topic, 1, run.sizes.single, 1, SIZE_BYTES)
        run.record(number, SINGLE_RATE, node, done.transactions / done.seconds)
        run.record(number, SINGLE_P99, node, done.p99_ms)
        run.record(number, SINGLE_CPU, node, used_s / done.transactions * 1e6)
        # One producer waits for every answer: what is not the broker's is the load's own, and the way between them.
        own_s = max(done.seconds - used_s, LEAST_S) if node.name == OURS else done.seconds
        run.record(number, SINGLE_CEILING, node, done.transactions / own_s)


OWN_RATE = Figure(
    "own-rate", "transactions of one record, by tidelog.AsyncProducer", "transactions/s", Better.MORE, Goal(4)
)
OWN_P99 = Figure("own-p99", "the same: 99th percentile", "ms", Better.LESS, Goal(1 / 4))
OWN_CPU = Figure("own-cpu", "the same: CPU of the broker for each", "µs", Better.LESS)


def measure_own(run: Run) -> None:
    for number, node in run.turns():
        with run.topic(node) as topic:
            done, used_s = run.write_with_own_client(node, topic, run.sizes.single, SIZE_BYTES)
        run.record(number, OWN_RATE, node, done.transactions / done.seconds)
        run.record(number, OWN_P99, node, done.p99_ms)
        run.record(number, OWN_CPU, node, used_s / done.transactions * 1e6)


MANY_RATE = Figure(
    "many-rate",
    f"{PRODUCERS} producers with transactions of {RECORDS} records",
    "transactions/s",
    Better.MORE,
    Goal(2),
)
MANY_CPU = Figure("many-cpu", "the same: CPU of the broker for each", "µs", Better.LESS, Goal(1 / 2))
MANY_LOAD_CPU = Figure("many-load-cpu", "the same: CPU of the load itself for each", "µs", Better.LESS)
MANY_CEILING = Figure(
    "many-ceiling", "the same: what a broker that took no CPU at all would come to", "transactions/s", Better.MORE
)


def measure_many(run: Run) -> None:
    for number, node in run.turns():
        with run.topic(node) as topic:
            done, used_s = run.write(node, topic, PRODUCERS, run.sizes.transactions, RECORDS, SIZE_BYTES)
        run.record(number, MANY_RATE, node, done.transactions / done.seconds)
        run.record(number, MANY_CPU, node, used_s / done.transactions * 1e6)
        load_s = done.client_cpu_s / (done.transactions + DISCARDED * PRODUCERS)
        run.record(number, MANY_LOAD_CPU, node, load_s * 1e6)
        # All cores for the load, which is on the same machine.
        ceiling = (os.cpu_count() or 1) / load_s
        run.record(number, MANY_CEILING, node, ceiling if node.name == OURS else done.transactions / done.seconds)


COMMITTED_CPU = Figure("committed-cpu", "read_committed with a tenth aborted: CPU of the broker", "s/GB", Better.LESS)
UNCOMMITTED_CPU = Figure("uncommitted-cpu", "read_uncommitted of the same: CPU of the broker", "s/GB", Better.LESS)
COMMITTED_RATIO = Figure(
    "committed-ratio", "the first over the second, on Tidelog", "×", Better.LESS, Goal(1.1, is_absolute=True)
)


def measure_reading(run: Run) -> None:
    sizes = run.sizes
    count = sizes.read_transactions * sizes.read_records
    committed = count - count * ABORTED_OF_TEN // 10
    for number, node in run.turns():
        with run.topic(node) as topic:
            run.write(node, topic, 1, sizes.read_transactions, sizes.read_records, READ_SIZE_BYTES, ABORTED_OF_TEN)
            # The load's own first transactions are all committed.
            first = DISCARDED * sizes.read_records
            used = {"read_committed": 0.0, "read_uncommitted": 0.0}
            for _ in range(sizes.read_passes):
                # Next to each other: what else the machine does falls on both.
                for level in used:
                    wanted = first + (committed if level == "read_committed" else count)
                    used[level] += run.read(node, topic, wanted, READ_SIZE_BYTES, level)[1]
        # The same bytes leave the broker either way: it is the reader that drops what was aborted.
        gb = sizes.read_passes * (first + count) * READ_SIZE_BYTES / 1e9
        run.record(number, COMMITTED_CPU, node, used["read_committed"] / gb)
        run.record(number, UNCOMMITTED_CPU, node, used["read_uncommitted"] / gb)
        if node.name == OURS and used["read_uncommitted"]:
            run.record(number, COMMITTED_RATIO, node, used["read_committed"] / used["read_uncommitted"])


ROWS = (
    Row("single", (SINGLE_RATE, SINGLE_P99, SINGLE_CPU, SINGLE_CEILING), measure_single),
    Row("single-own", (OWN_RATE, OWN_P99, OWN_CPU), measure_own),
    Row("many", (MANY_RATE, MANY_CPU, MANY_LOAD_CPU, MANY_CEILING), measure_many),
    Row("reading", (COMMITTED_CPU, UNCOMMITTED_CPU, COMMITTED_RATIO), measure_reading),
)
