"""What the driver adds to a batch: from the tasks' last row to a batch that is finished, without Spark.

python -m benchmarks.spark_commit [--quick] [--rounds N] [--json FILE]

So many transactions of one record each lie open on a node of ours, as tasks leave them; then one batch is committed, by a
committer that is new, as Spark's process for a data source makes it, and by one that a pipeline's driver keeps. Beside it
stands the least that any driver has to do: to end the same number of transactions. Ends with 1 where a goal was missed (not
with --quick).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from uuid import uuid4

from benchmarks.compare import RESULTS
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin, AsyncAdmin
from tidelog.client.admin.outcomes import each_of, value_of
from tidelog.client.background import Background
from tidelog.client.producer.producer import Producer
from tidelog.client.seams import ClientSeams
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, transactional_id

TOPIC = "bench"
PARTITIONS = 2
ROUNDS = 9
# By the number of tasks: how many milliseconds a committer that is kept may take.
GOALS_MS = {2: 60.0, 200: 300.0}
KEPT, NEW, BARE = "kept", "new", "ends alone"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_commit", description="the commit of a batch")
    parser.add_argument("--quick", action="store_true", help="one round: shows that all works, and measures nothing")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"counted rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/spark_commit.json)")
    given = parser.parse_args()
    samples = measure(given.rounds or (1 if given.quick else ROUNDS))
    missed = report(samples)
    if not given.quick or given.json:
        path = given.json or RESULTS / "spark_commit.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"milliseconds": samples}, indent=1) + "\n")
    if missed and not given.quick:
        sys.exit(1)


def measure(rounds: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made:
        node = TidelogNode.at(Path(made) / "tidelog", transaction_two_phase_commit_enable="true")
        with node.running():
            with Admin(bootstrap_servers=node.bootstrap) as admin:
                admin.create_topic(TOPIC, partitions=PARTITIONS)
            for tasks in GOALS_MS:
                for name, taken in measure_tasks(node.bootstrap, tasks, rounds).items():
                    samples[f"{tasks} tasks, {name}"] = taken
    return dict(samples)


def measure_tasks(bootstrap: str, tasks: int, rounds: int) -> dict[str, list[float]]:
    """The batches of one query: each round has three, of which the middle one is committed anew."""
    samples: dict[str, list[float]] = defaultdict(list)
    identity, run = SinkIdentity(f"query-{uuid4().hex[:8]}"), uuid4().hex
    settings: dict[str, object] = {"bootstrap_servers": bootstrap}
    writers = Writers(bootstrap, identity, run, tasks)
    batch = 0
    with SinkCommitter(identity, run, settings) as kept:
        for turn in range(rounds + 1):
            for name in (KEPT, NEW, BARE):
                participants = writers.written()
                began_s = time.perf_counter()
                if name == BARE:
                    end_all(bootstrap, participants)
                else:
                    committer = kept if name == KEPT else SinkCommitter(identity, run, settings)
                    given = BatchInput(uuid4().hex, tasks, 0)
                    committer.commit(BatchWork.of_topic(batch, participants, given))
                    batch += 1
                if turn:
                    samples[name].append((time.perf_counter() - began_s) * 1e3)
    writers.close()
    return samples


class Writers:
    """The tasks: each has a producer, and leaves a transaction open."""

    def __init__(self, bootstrap: str, identity: SinkIdentity, run: str, tasks: int) -> None:
        self._is_begun = False
        self._producers = []
        for number in range(tasks):
            name = transactional_id(identity, run, "worker", number)
            self._producers.append(Producer(bootstrap_servers=bootstrap, transactional_id=name, linger_ms=0))

    def written(self) -> list[Participant]:
        participants = []
        for number, producer in enumerate(self._producers):
            if self._is_begun:
                producer.resume_transactions()
            else:
                producer.init_transactions()
            producer.begin_transaction()
            producer.send(TOPIC, b"value", partition=number % PARTITIONS)
            prepared = producer.hand_over_transaction()
            participants.append(
                Participant(prepared.transactional_id, prepared.producer_id, prepared.producer_epoch, 1)
            )
        self._is_begun = True
        return participants

    def close(self) -> None:
        for producer in self._producers:
            producer.close(timeout_ms=0)


def end_all(bootstrap: str, participants: list[Participant]) -> None:
    background = Background.acquire()

    async def end() -> None:
        async with AsyncAdmin.on(ClientSeams.of(background.loop), bootstrap_servers=bootstrap) as admin:
            outcomes = await each_of(
                participants,
                lambda each: admin.end_transaction(
                    each.transactional_id, each.producer_id, each.producer_epoch, commit=True
                ),
            )
            for each in outcomes.values():
                value_of(each)

    try:
        background.call(end())
    finally:
        background.release()


def report(samples: dict[str, list[float]]) -> bool:
    """Print the table; whether a goal was missed."""
    missed = False
    print(f"{'tasks':>6} {'kept, ms':>9} {'goal':>6} {'new, ms':>9} {'ends alone, ms':>15}")
    for tasks, goal_ms in GOALS_MS.items():
        kept, new, bare = (statistics.median(samples[f"{tasks} tasks, {name}"]) for name in (KEPT, NEW, BARE))
        missed = missed or kept > goal_ms
        print(f"{tasks:>6} {kept:>9.1f} {goal_ms:>6.0f} {new:>9.1f} {bare:>15.1f}")
    return missed


if __name__ == "__main__":
    main()
