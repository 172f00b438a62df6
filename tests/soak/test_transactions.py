"""Copiers that crash, stall, are fenced and time out for minutes, while their node is killed: each record is copied once.

`SOAK_MINUTES` says for how long, `SOAK_SEED` which history; what the seed fixes is what happens to whom, not how long that takes.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.copiers import ABORTED, CLIENTS, CopierProcess
from tests.support.group_topics import GROUP_SETTINGS, Topics, numbers
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.soak

PARTITIONS = 4
TARGETS = 2
COPIERS = 3
NAMES = 4
ROUND_S = 1.0
RECORDS_A_ROUND = 40
TIMEOUT_MS = 2_000
END_TIMEOUT_S = 120.0
GROUP = "copiers"
SETTINGS = GROUP_SETTINGS | {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class CommittedReader:
    """Reads all that is committed in the targets, from the start on, and looks at each record as it comes."""

    def __init__(self, bootstrap: str, targets: list[str]) -> None:
        self.seen: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.problem: str | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.assign([TopicPartition(target, index, 0) for target in targets for index in range(PARTITIONS)])
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._is_over.is_set() and self.problem is None:
            for record in self._consumer.consume(1_000, 0.2):
                if record.error() is None:
                    self._look_at(record)

    def _look_at(self, record: Any) -> None:
        value = record.value().decode()
        before = self.seen[record.topic(), record.partition()]
        where = f"{record.topic()}-{record.partition()} at {record.offset()}"
        if value.startswith(ABORTED):
            self.problem = f"{where}: a record of an aborted transaction is seen: {value}"
        elif before and before[-1] >= int(value):
            self.problem = f"{where}: {value} comes after {before[-1]}"
        else:
            before.append(int(value))

    def has_all(self, target: str, count: int) -> bool:
        return sum(len(values) for (topic, _), values in self.seen.items() if topic == target) == count

    def check(self) -> None:
        assert self.problem is None, self.problem

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()


def test_every_record_is_copied_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED") or SystemRandom().randrange(2**32))
    minutes = float(os.environ.get("SOAK_MINUTES") or 3)
    print(f"SOAK_SEED={seed}")
    random = Random(seed)
    node = TidelogNode.at(tmp_path, **SETTINGS)
    node.start()
    topics = Topics(node.bootstrap)
    source = topics.make(PARTITIONS)
    targets = [topics.make(PARTITIONS) for _ in range(TARGETS)]
    reader = CommittedReader(node.bootstrap, targets)
    copiers: list[CopierProcess] = []
    stalled: list[CopierProcess] = []
    kills = crashes = stalls = fenced = 0

    def begin(name: str) -> None:
        client = random.choice(CLIENTS)
        copiers.append(
            CopierProcess(
                client,
                node.bootstrap,
                GROUP,
                name,
                source,
                targets,
                timeout_ms=TIMEOUT_MS,
                seed=random.randrange(2**32),
            ).__enter__()
        )

    sent = 0
    try:
        end_s = time.monotonic() + 60 * minutes
        while time.monotonic() < end_s:
            round_end_s = time.monotonic() + ROUND_S
            while len(copiers) < COPIERS:
                # Of several with one name, all but the last are fenced.
                begin(f"copier-{random.randrange(NAMES)}")
            victim = random.choice(copiers)
            what = random.choice(("crash", "stall", "go on", "nothing", "nothing"))
            if what == "crash":
                victim.kill()
                copiers.remove(victim)
                crashes += 1
            elif what == "stall":
                victim.stall()
                copiers.remove(victim)
                stalled.append(victim)
                stalls += 1
            elif what == "go on" and stalled:
                stalled[0].go_on()
                copiers.append(stalled.pop(0))
            for copier in [each for each in copiers if not each.is_running]:
                assert copier.was_fenced, str(copier)
                copiers.remove(copier)
                copier.kill()
                fenced += 1
            if random.random() < 0.05:
                random.choice((node.stop, node.kill))()
                node.start()
                kills += 1
            topics.send(source, PARTITIONS, numbers(sent, sent + RECORDS_A_ROUND))
            sent += RECORDS_A_ROUND
            reader.check()
            time.sleep(max(0.0, round_end_s - time.monotonic()))
        for copier in (*copiers, *stalled):
            copier.kill()
        copiers, stalled = [], []
        begin("the last")
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while not all(reader.has_all(target, sent) for target in targets):
            reader.check()
            assert time.monotonic() < deadline_s, {where: len(values) for where, values in reader.seen.items()}
            time.sleep(0.2)
        assert sum(topics.committed(GROUP, source, PARTITIONS)) == sent
        for target in targets:
            everything = sorted(
                value for (topic, _), values in reader.seen.items() if topic == target for value in values
            )
            assert everything == list(range(sent))
        copiers.pop().end()
        print(
            f"{sent} records copied once: {crashes} crashes, {stalls} stalls, {fenced} fenced, {kills} restarts of the node"
        )
    finally:
        for copier in (*copiers, *stalled):
            copier.kill()
        reader.close()
        node.kill()
