"""The rows of the table: what each one does to a group coordinator, which figures it yields, and what is asked of them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import confluent_kafka

from benchmarks.broker.contestants import Contestant, tidelog_environment
from benchmarks.broker.figures import Better, Figure, Goal, Results
from benchmarks.broker.load_client import LoadError
from benchmarks.broker.topics import create_topic
from benchmarks.groups.exchanges import Asked, Connections, Exchange, Replayer
from benchmarks.groups.members import (
    SESSION_TIMEOUT_MS,
    Member,
    answered_well,
    classic_members,
    commit,
    consumer_heartbeat,
    consumer_members,
    heartbeat,
)

# What both nodes have besides the usual. Nobody waits for more members, and no session ends in the other broker's turn.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}
TOPIC = "bench"
PARTITIONS = 10
RECORDS = 100
RECORD_BYTES = 100

COMMIT_CONNECTIONS = 20
COMMIT_DEPTH = 5
MEMBERS = 10
HEARTBEAT_CONNECTIONS = 50
# A fixed rate is held if the time that it took is not longer than this many times what it should.
LATE = 1.1

# The joins of a broker that has just started are nobody's figure.
FIRST_RECORD_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `QUICK` only shows that all of it works."""

    subscriptions: int = 5
    commits: int = 30_000
    commits_paced: int = 12_000
    commits_per_s: int = 3_000
    groups: int = 1_000
    heartbeats: int = 20_000
    heartbeats_per_s: int = 4_000
    running_in: int = 60_000


FULL = Sizes()
QUICK = Sizes(
    subscriptions=1,
    commits=1_000,
    commits_paced=500,
    commits_per_s=1_000,
    groups=20,
    heartbeats=1_000,
    heartbeats_per_s=1_000,
    running_in=0,
)


class Run:
    """Two nodes that serve, loaded in turn. The order changes from round to round, and the first round does not count."""

    def __init__(
        self,
        pair: Sequence[Contestant],
        results: Results,
        replayer: Replayer,
        sizes: Sizes,
        rounds: int,
        say: Callable[[str], None],
    ) -> None:
        self.pair = pair
        self.sizes = sizes
        self.rounds = rounds
        self.say = say
        self.replayer = replayer
        self._results = results

    def prepare(self) -> None:
        """The topic with its records, `__consumer_offsets`, and a broker that is warm: commits as fast as they go."""
        for node in self.pair:
            self.say(f"running in: {node.name}")
            create_topic(node.bootstrap, TOPIC, PARTITIONS)
            _fill(node.bootstrap)
            _first_records(node, "librdkafka", "classic", f"warm-{node.name}", 1)
            if self.sizes.running_in:
                exchanges = self.ask(node, _simple_commits(1, "running-in"), COMMIT_CONNECTIONS)
                self.replay(node, exchanges, self.sizes.running_in, 0, COMMIT_DEPTH)

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

    def ask(self, node: Contestant, asked: Sequence[Asked], connections: int) -> Sequence[Exchange]:
        with Connections(node.port, connections) as opened:
            return answered_well(opened.ask_all(asked))

    def replay(
        self, node: Contestant, exchanges: Sequence[Exchange], count: int, rate_per_s: int, depth: int
    ) -> tuple[float, float]:
        """Requests a second, and the broker's CPU for each in microseconds."""
        before_s = node.cpu_s()
        done = self.replayer.run(node.port, exchanges, count=count, rate_per_s=rate_per_s, depth=depth)
        used_s = node.cpu_s() - before_s
        if rate_per_s and done.seconds > count / rate_per_s * LATE:
            raise LoadError(f"{node.name} did not keep up with {rate_per_s} requests a second")
        return count / done.seconds, used_s / count * 1e6


@dataclass(frozen=True)
class Row:
    """What `--rows` names."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Run], None]


# --- subscribe to first record -------------------------------------------------------------------------------------------------

_CLIENTS = (("tidelog", "tidelog.Consumer"), ("librdkafka", "confluent-kafka"))
_PROTOCOLS = ("classic", "consumer")
_FIRST = {
    (client, protocol): Figure(
        f"first_record_{client}_{protocol}_ms",
        f"subscribe to first record, {protocol} protocol, {named}",
        "ms",
        goal=Goal(1 / 3),
    )
    for client, named in _CLIENTS
    for protocol in _PROTOCOLS
}


def first_record(run: Run) -> None:
    for (client, protocol), figure in _FIRST.items():
        for number, node in run.turns():
            group_id = f"first-{client}-{protocol}-{number}"
            taken_s = _first_records(node, client, protocol, group_id, run.sizes.subscriptions)
            run.record(number, figure, node, statistics.median(taken_s) * 1e3)


def _first_records(node: Contestant, client: str, protocol: str, group_id: str, count: int) -> list[float]:
    arguments = (client, protocol, node.bootstrap, TOPIC, group_id, str(count))
    command = [sys.executable, "-m", "benchmarks.groups.first_record", *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=FIRST_RECORD_TIMEOUT_S,
        env=tidelog_environment(),
    )
    if done.returncode != 0 or done.stderr.strip():
        raise LoadError(f"{client} on {node.name}: {done.stderr.strip() or 'failed'}")
    return [float(line) for line in done.stdout.split()]


def _fill(bootstrap: str) -> None:
    """Records in every partition, so that the first one is there for any assignment."""
    errors: list[str] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "error_cb": lambda e: errors.append(str(e))})
    for number in range(RECORDS * PARTITIONS):
        producer.produce(TOPIC, bytes(RECORD_BYTES), partition=number % PARTITIONS)
    if producer.flush(30.0) or errors:
        raise LoadError(f"the topic was not filled: {errors or 'it took too long'}")


# --- commits -------------------------------------------------------------------------------------------------------------------


def _commit_figures(kind: str, what: str) -> tuple[Figure, Figure]:
    return (
        Figure(f"commits_{kind}_per_s", f"{what}: rate", "commits/s", Better.MORE, goal=Goal(2)),
        Figure(f"commits_{kind}_cpu_us", f"{what}: broker CPU per commit at a fixed rate", "µs", goal=Goal(1 / 2)),
    )


_SIMPLE_1 = _commit_figures("simple_1", "offset commits of simple groups, 1 partition")
_SIMPLE_10 = _commit_figures("simple_10", "offset commits of simple groups, 10 partitions")
_MEMBERS_1 = _commit_figures("members_1", "offset commits of members, 1 partition")


def commits_simple_1(run: Run) -> None:
    _measure_commits(run, _SIMPLE_1, lambda _: _simple_commits(1, "simple"))


def commits_simple_10(run: Run) -> None:
    _measure_commits(run, _SIMPLE_10, lambda _: _simple_commits(10, "simple"))


def commits_members_1(run: Run) -> None:
    _measure_commits(run, _MEMBERS_1, _member_commits)


def _simple_commits(partitions: int, name: str) -> list[Asked]:
    """One group for each partition of the coordinator's log, about, and each connection with several of them."""
    members = [Member(f"{name}-{number}", "", number % COMMIT_CONNECTIONS) for number in range(5 * COMMIT_CONNECTIONS)]
    return [commit(member, TOPIC, partitions) for member in members]


def _member_commits(node: Contestant) -> list[Asked]:
    group_ids = [f"committing-{number}" for number in range(5 * COMMIT_CONNECTIONS)]
    with Connections(node.port, COMMIT_CONNECTIONS) as connections:
        members = classic_members(connections, group_ids, 1, COMMIT_CONNECTIONS, TOPIC)
    return [commit(member, TOPIC, 1) for member in members]


def _measure_commits(run: Run, figures: tuple[Figure, Figure], asked: Callable[[Contestant], list[Asked]]) -> None:
    rate, cpu = figures
    sizes = run.sizes
    exchanges = {node.name: run.ask(node, asked(node), COMMIT_CONNECTIONS) for node in run.pair}
    for number, node in run.turns():
        per_s, _ = run.replay(node, exchanges[node.name], sizes.commits, 0, COMMIT_DEPTH)
        run.record(number, rate, node, per_s)
        os.sync()
        _, cpu_us = run.replay(node, exchanges[node.name], sizes.commits_paced, sizes.commits_per_s, COMMIT_DEPTH)
        run.record(number, cpu, node, cpu_us)
        os.sync()


# --- heartbeats ----------------------------------------------------------------------------------------------------------------

_HEARTBEATS = Figure(
    "heartbeats_cpu_us", "1,000 groups of 10, classic: broker CPU per heartbeat", "µs", goal=Goal(1 / 2)
)
_CONSUMER_HEARTBEATS = Figure(
    "consumer_heartbeats_cpu_us", "1,000 groups of 10, KIP-848: broker CPU per heartbeat", "µs", goal=Goal(1 / 2)
)


def heartbeats(run: Run) -> None:
    _measure_heartbeats(run, _HEARTBEATS, "classic", classic_members, heartbeat)


def consumer_heartbeats(run: Run) -> None:
    _measure_heartbeats(run, _CONSUMER_HEARTBEATS, "consumer", consumer_members, consumer_heartbeat)


def _measure_heartbeats(
    run: Run,
    figure: Figure,
    name: str,
    join: Callable[[Connections, Sequence[str], int, int, str], list[Member]],
    asked: Callable[[Member], Asked],
) -> None:
    sizes = run.sizes
    group_ids = [f"{name}-{number}" for number in range(sizes.groups)]
    exchanges = {}
    for node in run.pair:
        run.say(f"joining {sizes.groups * MEMBERS} members: {node.name}")
        with Connections(node.port, HEARTBEAT_CONNECTIONS) as connections:
            members = join(connections, group_ids, MEMBERS, HEARTBEAT_CONNECTIONS, TOPIC)
        exchanges[node.name] = run.ask(node, [asked(member) for member in members], HEARTBEAT_CONNECTIONS)
    for number, node in run.turns():
        _, cpu_us = run.replay(node, exchanges[node.name], sizes.heartbeats, sizes.heartbeats_per_s, COMMIT_DEPTH)
        run.record(number, figure, node, cpu_us)


ROWS = (
    Row("first-record", tuple(_FIRST.values()), first_record),
    Row("commits-simple-1", _SIMPLE_1, commits_simple_1),
    Row("commits-simple-10", _SIMPLE_10, commits_simple_10),
    Row("commits-members-1", _MEMBERS_1, commits_members_1),
    Row("heartbeats", (_HEARTBEATS,), heartbeats),
    Row("consumer-heartbeats", (_CONSUMER_HEARTBEATS,), consumer_heartbeats),
)
