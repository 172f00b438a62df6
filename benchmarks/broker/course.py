"""One run over the rows: whose turn it is, on which nodes, with which topics, and where the samples go.

Two nodes that both serve are loaded in turn, never at once: idle ones take little (Tidelog 0.005 of a core, Apache Kafka 0.05),
while starting one anew for every sample would measure a cold JVM. The order within a round changes from round to round. Before
the first row about load both are run in: over its first GB, Apache Kafka's CPU for each falls to a third, presumably as the JVM
compiles. A row's first round is discarded as well: it brings up whatever only that row uses.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from benchmarks.broker.contestants import Contestant, Contestants
from benchmarks.broker.figures import Figure, Results
from benchmarks.broker.load_client import Carried, Job, LoadClient
from benchmarks.broker.topics import create_topic, delete_topic


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `QUICK` only shows that all of it works."""

    records_1k: int = 1_000_000
    records_100b: int = 5_000_000
    requests: int = 40_000
    round_trips: int = 8_000
    round_trips_crowded: int = 4_000
    connections: int = 5_000
    partitions: int = 5_000
    embedded_starts: int = 7
    running_in_rounds: int = 3
    settle_s: float = 3.0


FULL = Sizes()
QUICK = Sizes(
    records_1k=50_000,
    records_100b=300_000,
    requests=3_000,
    round_trips=1_000,
    round_trips_crowded=500,
    connections=500,
    partitions=300,
    embedded_starts=2,
    running_in_rounds=0,
    settle_s=0.5,
)


@dataclass(frozen=True)
class Used:
    """What a load came to, and what it took the broker."""

    carried: Carried
    cpu_s: float
    resident_mb: float


class Course:
    """`close` ends what the run has started; a `with` calls it."""

    def __init__(
        self,
        results: Results,
        contestants: Contestants,
        load: LoadClient,
        sizes: Sizes,
        rounds: int,
        say: Callable[[str], None],
    ) -> None:
        self.contestants = contestants
        self.sizes = sizes
        self.rounds = rounds
        self.say = say
        self._results = results
        self._load = load
        self._shared = contextlib.ExitStack()
        self._shared_pair: tuple[Contestant, Contestant] | None = None
        self._topics_made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shared.close()

    def shared_pair(self, running_in: Job) -> tuple[Contestant, Contestant]:
        """The two nodes that serve all rows about load, one after the other, run in by some rounds of a load."""
        if self._shared_pair is None:
            self._shared_pair = self._shared.enter_context(self.contestants.running_pair(self.say))
            for _ in range(self.sizes.running_in_rounds):
                for node in self._shared_pair:
                    self.say(f"running in: {node.name}")
                    with self.topic(node, running_in.partitions) as topic:
                        self.carry(node, running_in, topic)
        return self._shared_pair

    def turns(self, pair: Sequence[Contestant]) -> Iterator[tuple[bool, Contestant]]:
        """Every contestant once a round, and whether the round counts."""
        for number in range(self.rounds + 1):
            for each in pair if number % 2 else reversed(pair):
                self.say(f"{f'round {number}' if number else 'warming up'}: {each.name}")
                yield number > 0, each

    def record(self, figure: Figure, contestant: str, value: float) -> None:
        self._results.of(figure).add(contestant, value)

    def new_topic(self, node: Contestant, partitions: int) -> str:
        self._topics_made += 1
        name = f"bench-{self._topics_made}"
        create_topic(node.bootstrap, name, partitions)
        return name

    @contextlib.contextmanager
    def topic(self, node: Contestant, partitions: int) -> Iterator[str]:
        """A fresh topic, deleted afterwards; what is still to be written to the disk is written before anybody else's turn."""
        name = self.new_topic(node, partitions)
        yield name
        delete_topic(node.bootstrap, name)
        os.sync()

    def carry(self, node: Contestant, job: Job, topic: str) -> Used:
        before_s = node.cpu_s()
        carried = self._load.run(job, node.address(job.listener), topic)
        return Used(carried, node.cpu_s() - before_s, node.resident_mb())
