"""The rows of the table: what each one does to a cluster of three, which figures it yields, and what is asked of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from benchmarks.broker.figures import Better, Figure, Goal, Results
from benchmarks.broker.load_client import Carried, Job, LoadClient
from benchmarks.broker.rows import COMMON, PRODUCE_1K, SIZE_1K, SIZE_100B
from benchmarks.broker.topics import create_topic, delete_topic
from benchmarks.cluster.clusters import NODES, Cluster, Clusters
from benchmarks.cluster.witness import SteadyWriter, Witness

PARTITIONS_1K = 6
REPLICAS = 3


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `QUICK` only shows that all of it works."""

    records_1k: int = 500_000
    round_trips: int = 5_000
    partitions: int = 2_000
    lost_records: int = 2_000_000
    running_in_rounds: int = 2
    settle_s: float = 3.0
    steady_s: float = 2.0


FULL = Sizes()
QUICK = Sizes(
    records_1k=20_000,
    round_trips=300,
    partitions=60,
    lost_records=50_000,
    running_in_rounds=0,
    settle_s=0.5,
    steady_s=0.5,
)


class Run:
    """One run over the rows; a `with` ends what it has started."""

    def __init__(
        self,
        clusters: Clusters,
        results: Results,
        load: LoadClient,
        sizes: Sizes,
        rounds: int,
        say: Callable[[str], None],
    ) -> None:
        self.clusters = clusters
        self.sizes = sizes
        self.rounds = rounds
        self.say = say
        self._results = results
        self._load = load
        self._shared = contextlib.ExitStack()
        self._shared_pair: tuple[Cluster, Cluster] | None = None
        self._topics_made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shared.close()

    def turns(self, pair: tuple[Cluster, Cluster]) -> Iterator[tuple[int, Cluster]]:
        """The round (0 does not count) and the cluster."""
        for number in range(self.rounds + 1):
            for each in pair if number % 2 else reversed(pair):
                yield number, each

    def shared_pair(self) -> tuple[Cluster, Cluster]:
        """The two clusters that serve the rows about load, run in by some rounds of it."""
        if self._shared_pair is None:
            pair = self._shared.enter_context(self.clusters.pair())
            for each in pair:
                self.say(f"starting: {each.name}")
                each.start()
            for _ in range(self.sizes.running_in_rounds):
                for each in pair:
                    self.say(f"running in: {each.name}")
                    with self.topic(each, PARTITIONS_1K) as topic:
                        self.carry(each, self.job_1k(), topic)
            self._shared_pair = pair
        return self._shared_pair

    def job_1k(self) -> Job:
        return Job("produce", PARTITIONS_1K, self.sizes.records_1k, SIZE_1K, PRODUCE_1K)

    @contextlib.contextmanager
    def topic(self, cluster: Cluster, partitions: int) -> Iterator[str]:
        """A fresh topic, deleted afterwards; what is still to be written to the disk is written before anybody else's turn."""
        name = self.new_topic(cluster, partitions)
        yield name
        delete_topic(cluster.bootstrap, name)
        os.sync()

    def new_topic(self, cluster: Cluster, partitions: int) -> str:
        self._topics_made += 1
        name = f"bench-{self._topics_made}"
        create_topic(cluster.bootstrap, name, partitions, REPLICAS)
        return name

    def carry(self, cluster: Cluster, job: Job, topic: str) -> tuple[Carried, float]:
        """What the load says, and the CPU seconds of all nodes for it."""
        before_s = cluster.cpu_s()
        carried = self._load.run(job, cluster.bootstrap, topic)
        return carried, cluster.cpu_s() - before_s

    def record(self, number: int, figure: Figure, cluster: Cluster, value: float) -> None:
        if number:
            self._results.of(figure).add(cluster.name, value)
        when = f"round {number}" if number else "warming up"
        self.say(f"{when}: {cluster.name}: {figure.what}: {value:.4g} {figure.unit}")


@dataclass(frozen=True)
class Row:
    """What `--rows` names."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Run], None]


START = Figure("start_s", "three nodes: processes started to all serving", "s", goal=Goal(1 / 6))
IDLE = Figure("idle_mb", "three nodes: resident memory, idle", "MB", goal=Goal(1 / 5))


def measure_start(run: Run) -> None:
    for number in range(run.rounds + 1):
        with run.clusters.pair() as pair:
            for cluster in pair if number % 2 else reversed(pair):
                taken_s = cluster.start()
                time.sleep(run.sizes.settle_s)
                run.record(number, START, cluster, taken_s)
                run.record(number, IDLE, cluster, cluster.resident_mb())
                for node in NODES:
                    cluster.kill(node)


RATE = Figure("produce_mb_s", "produce 1 KB, acks=all, 6 partitions, RF 3", "MB/s", Better.MORE, Goal(4))
CPU = Figure("produce_cpu_s", "the same: CPU of all brokers per GB", "s", goal=Goal(1 / 8))


def measure_produce(run: Run) -> None:
    for number, cluster in run.turns(run.shared_pair()):
        with run.topic(cluster, PARTITIONS_1K) as topic:
            carried, used_s = run.carry(cluster, run.job_1k(), topic)
        run.record(number, RATE, cluster, carried.bytes / carried.seconds / 1e6)
        run.record(number, CPU, cluster, used_s / (carried.bytes / 1e9))


P50 = Figure("round_trip_p50_ms", "round trip, RF 3, p50", "ms", goal=Goal(1 / 2))
P99 = Figure("round_trip_p99_ms", "round trip, RF 3, p99", "ms", goal=Goal(1 / 4))


def measure_round_trip(run: Run) -> None:
    job = Job("round-trip", 1, run.sizes.round_trips, SIZE_100B, COMMON)
    for number, cluster in run.turns(run.shared_pair()):
        with run.topic(cluster, 1) as topic:
            carried, _ = run.carry(cluster, job, topic)
        run.record(number, P50, cluster, carried.p50_ms)
        run.record(number, P99, cluster, carried.p99_ms)


GAP = Figure(
    "gap_s",
    "kill -9 of the leader: longest gap in acknowledged writes",
    "s",
    goal=Goal(1, is_absolute=True),
)


def measure_failover(run: Run) -> None:
    """Each time the node that leads is killed, and comes back before the next."""
    for number, cluster in run.turns(run.shared_pair()):
        with run.topic(cluster, 1) as topic:
            witness = Witness(cluster.bootstrap, topic)
            writer = SteadyWriter(cluster.bootstrap, topic)
            writer.write_until_answered()
            writer.write_for(run.sizes.steady_s)
            leader = witness.leaders()[0]
            cluster.kill(leader)
            writer.write_until_answered()
            writer.write_for(run.sizes.steady_s)
            run.record(number, GAP, cluster, writer.longest_gap_s())
            cluster.start(leader)
            witness.wait_until_in_sync(1, REPLICAS)


LED = Figure("led_again_s", "2,000 partitions, RF 3: kill -9 of a node to all led again", "s", goal=Goal(1 / 2))


def measure_many_partitions(run: Run) -> None:
    count = run.sizes.partitions
    for number in range(run.rounds + 1):
        with run.clusters.pair() as pair:
            for cluster in pair if number % 2 else reversed(pair):
                cluster.start()
                topic = run.new_topic(cluster, count)
                witness = Witness(cluster.bootstrap, topic)
                witness.wait_until_in_sync(count, REPLICAS)
                os.sync()
                victim = NODES[number % len(NODES)]
                cluster.kill(victim)
                run.record(number, LED, cluster, witness.wait_until_led(count, without=victim))
                for node in NODES:
                    if node != victim:
                        cluster.kill(node)


CATCH_UP = Figure("catch_up_mb_s", "catching up a wiped replica", "MB/s", Better.MORE, Goal(1.5))
CATCH_UP_CPU = Figure("catch_up_cpu_s", "the same: CPU of all brokers per GB", "s", goal=Goal(1 / 3))


def measure_catch_up(run: Run) -> None:
    """A node is stopped, loses the partitions' directories, and starts again; counted from when it serves to all in sync."""
    sizes = run.sizes
    job = Job("produce", PARTITIONS_1K, sizes.lost_records, SIZE_1K, PRODUCE_1K)
    for number, cluster in run.turns(run.shared_pair()):
        with run.topic(cluster, PARTITIONS_1K) as topic:
            run.carry(cluster, job, topic)
            witness = Witness(cluster.bootstrap, topic)
            witness.wait_until_in_sync(PARTITIONS_1K, REPLICAS)
            node = NODES[number % len(NODES)]
            cluster.stop(node)
            for partition in cluster.data(node).glob(f"{topic}-*"):
                shutil.rmtree(partition)
            os.sync()
            cluster.start(node)
            before_s = cluster.cpu_s()
            taken_s = witness.wait_until_in_sync(PARTITIONS_1K, REPLICAS)
            used_s = cluster.cpu_s() - before_s
        size_gb = sizes.lost_records * SIZE_1K / 1e9
        run.record(number, CATCH_UP, cluster, size_gb * 1e3 / taken_s)
        run.record(number, CATCH_UP_CPU, cluster, used_s / size_gb)


ROWS = (
    Row("start", (START, IDLE), measure_start),
    Row("produce", (RATE, CPU), measure_produce),
    Row("round-trip", (P50, P99), measure_round_trip),
    Row("failover", (GAP,), measure_failover),
    Row("many-partitions", (LED,), measure_many_partitions),
    Row("catch-up", (CATCH_UP, CATCH_UP_CPU), measure_catch_up),
)
