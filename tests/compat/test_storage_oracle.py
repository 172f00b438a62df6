"""The small files of a partition and the rules behind them, against Apache Kafka's own classes, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.java_process import JavaProcess
from tests.unit.storage.producers import ProducerLog, batch, checked, control_batch
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    BrokerEpoch,
    DirectoryId,
    NodeId,
    Offset,
    PartitionIndex,
    ProducerId,
    TopicId,
    TopicName,
    TopicPartition,
    uuid_from_text,
)
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.append import AppendRule
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.checkpoint_file import RECOVERY_POINT_CHECKPOINT, write_offsets
from tidelog.storage.clean_shutdown import write_clean_shutdown
from tidelog.storage.leader_epochs import LeaderEpochs
from tidelog.storage.meta_properties import MetaProperties, write_meta_properties
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_metadata import write_partition_metadata
from tidelog.storage.producer import NO_TRANSACTION, Duplicate, EndTransactionMarker
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.storage.time_index import TimeIndex
from tidelog.storage.transaction_index import AbortedTransaction, TransactionIndex

pytestmark = pytest.mark.compat

ORACLE = Path(__file__).parent / "StorageOracle.java"
HISTORIES = 200
# Kafka syncs its file at every new epoch: a second for three histories.
EPOCH_HISTORIES = 25
STEPS = 60
MODULUS = 2**31
EPOCH_MAX = 2**15 - 1

Step: TypeAlias = list[str | int | bool]


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with JavaProcess(kafka, ORACLE) as started:
        yield started


# Kafka's origins.
RULES = {
    "CLIENT": AppendRule.LEADER,
    "COORDINATOR": AppendRule.COORDINATOR,
    "REPLICATION": AppendRule.FOLLOWER,
}


class ProducerHistory:
    """Steps by chance, most of them good and some of them bad, and what our table makes of each."""

    def __init__(self, random: Random) -> None:
        disk = SimulatedDisk()
        disk.make_directory("/logs")
        self.table = ProducerStateTable(disk, "/logs", producer_id_expiration_ms=1_000_000)
        self.random = random
        self.start = self.end = 0
        self.steps: list[Step] = []
        self.states: list[str] = []
        for _ in range(STEPS):
            kind = random.choices(
                [self.batch, self.marker, self.high_watermark, self.log_start, self.expire, self.snapshot, self.reload],
                [60, 20, 7, 3, 2, 5, 3],
            )[0]
            answer = kind()
            self.states.append(answer + self.state())

    def batch(self) -> str:
        random = self.random
        producer_id = random.randint(1, 3)
        state = self.table.producer(producer_id)
        epoch = self.epoch_near(state.epoch if state is not None else 0)
        batches = state.batches if state is not None else []
        last_sequence = batches[-1].last_sequence if batches else -1
        sequence = random.choice([*[(last_sequence + 1) % MODULUS] * 6, 0, MODULUS - 2, (last_sequence + 2) % MODULUS])
        count = random.randint(1, 4)
        if batches and random.random() < 0.25:
            again = random.choice(batches)
            sequence, count = again.first_sequence, again.offset_delta + random.choice([1, 1, 1, 2])
        origin = random.choice(["CLIENT"] * 4 + ["COORDINATOR", "REPLICATION"])
        if origin == "COORDINATOR" and random.random() < 0.5:
            sequence = -1
        is_open = state is not None and state.transaction_first_offset != NO_TRANSACTION
        transactional = random.random() < (0.9 if is_open else 0.5)
        timestamp = random.randint(0, 100)
        self.steps.append(["batch", producer_id, epoch, sequence, count, transactional, timestamp, origin])
        header = batch(
            producer_id, epoch=epoch, sequence=sequence, count=count, timestamp=timestamp, transactional=transactional
        )
        return self.take(checked(header), RULES[origin], count)

    def marker(self) -> str:
        random = self.random
        producer_id, coordinator_epoch = random.randint(1, 3), random.randint(0, 2)
        state = self.table.producer(producer_id)
        epoch = self.epoch_near(state.epoch if state is not None else 0)
        commit, version, timestamp = random.random() < 0.5, random.choice([0, 1, 2, 2]), random.randint(0, 100)
        origin = random.choice(["COORDINATOR"] * 3 + ["REPLICATION"])
        self.steps.append(["marker", producer_id, epoch, coordinator_epoch, commit, version, timestamp, origin])
        marker = EndTransactionMarker(commit, coordinator_epoch, timestamp, version)
        rule = AppendRule.FOLLOWER if origin == "REPLICATION" else AppendRule.MARKER
        return self.take(checked(control_batch(producer_id, epoch=epoch), marker=marker), rule, 1)

    def take(self, wanted: CheckedBatch, rule: AppendRule, count: int) -> str:
        judged = self.table.judge(wanted, rule)
        match judged:
            case ErrorCode():
                return f"error {int(judged)}"
            case Duplicate():
                return f"duplicate {judged.first_offset} {judged.last_offset} {judged.timestamp}"
        answer = "written"
        was_open = judged.transaction_first_offset != NO_TRANSACTION
        self.table.take_in(judged, wanted, self.end)
        if wanted.is_control and was_open:
            # What the last stable offset is once the marker is written.
            answer += f" {next(iter(self.table.ongoing), self.end + 1)}"
        self.end += count
        self.table.map_end_offset = Offset(self.end)
        return answer

    def epoch_near(self, epoch: int) -> int:
        if self.random.random() < 0.02:
            return EPOCH_MAX
        return min(EPOCH_MAX, max(0, epoch + self.random.choice([0, 0, 0, 0, 1, -1])))

    def high_watermark(self) -> str:
        high_watermark = self.random.randint(0, self.end + 1)
        self.steps.append(["high watermark", high_watermark])
        self.table.on_high_watermark_updated(high_watermark)
        return ""

    def log_start(self) -> str:
        self.start = self.random.randint(self.start, self.end)
        self.steps.append(["log start", self.start])
        self.table.on_log_start_offset_incremented(self.start)
        return ""

    def expire(self) -> str:
        now_ms = self.random.choice([1_000_000, 1_000_050, 1_000_100])
        self.steps.append(["expire", now_ms])
        self.table.remove_expired(now_ms)
        return ""

    def snapshot(self) -> str:
        self.steps.append(["snapshot"])
        return "taken" if self.table.take_snapshot(sync=False) is not None else "not taken"

    def reload(self) -> str:
        end = self.random.choice([self.end, self.random.randint(self.start, self.end)])
        now_ms = self.random.choice([0, 1_000_060])
        self.steps.append(["reload", self.start, end, now_ms])
        self.table.truncate_and_reload(self.start, end, now_ms)
        self.end = self.table.map_end_offset
        latest = self.table.snapshots.latest
        return str(-1 if latest is None else latest)

    def state(self) -> str:
        unstable, undecided = self.table.first_unstable_offset, self.table.first_undecided_offset
        text = f" | {-1 if unstable is None else unstable} {-1 if undecided is None else undecided} {self.table.map_end_offset}"
        for state in sorted(self.table.each_producer(), key=lambda state: state.producer_id):
            text += f" [{state.producer_id} {state.epoch} {state.coordinator_epoch} {state.last_timestamp}"
            text += f" {state.transaction_first_offset}"
            for known in state.batches:
                text += f" {known.last_sequence}:{known.last_offset}:{known.offset_delta}:{known.timestamp}"
            text += "]"
        return text


def test_the_state_of_producers_is_kafkas_after_every_step(oracle: JavaProcess) -> None:
    answers: Counter[str] = Counter()
    for seed in range(HISTORIES):
        history = ProducerHistory(Random(seed))

        kafkas = oracle.ask({"do": "producers", "steps": history.steps})

        for number, (ours, theirs) in enumerate(zip(history.states, kafkas, strict=True)):
            assert ours == theirs, f"history {seed}, step {number}: {history.steps[number]}"
        answers.update(state.partition(" |")[0] for state in history.states)
    refused = {answer for answer in answers if answer.startswith("error")}
    assert refused == {"error 45", "error 47", "error 48", "error 52"}
    assert any(answer.startswith("duplicate") for answer in answers)


def test_leader_epochs_are_kafkas_after_every_step(oracle: JavaProcess) -> None:
    for seed in range(EPOCH_HISTORIES):
        random = Random(seed)
        epochs = LeaderEpochs(SimulatedDisk(), "/leader-epoch-checkpoint")
        steps: list[Step] = []
        states: list[str] = []
        for _ in range(STEPS):
            epoch, offset = random.randint(0, 12), random.randint(0, 60)
            kind = random.choice(["assign", "assign", "assign", "from end", "from start", "end offset", "epoch for"])
            answer = ""
            match kind:
                case "assign":
                    # Mostly as a log grows, now and then against all order.
                    latest = epochs.latest
                    if latest is not None and random.random() < 0.8:
                        epoch, offset = latest.epoch + random.randint(0, 2), latest.start_offset + random.randint(0, 9)
                    epochs.assign(epoch, offset)
                    steps.append([kind, epoch, offset])
                case "from end":
                    epochs.truncate_from_end(offset)
                    steps.append([kind, offset])
                case "from start":
                    epochs.truncate_from_start(offset)
                    steps.append([kind, offset])
                case "end offset":
                    found = epochs.end_offset_for(epoch - 1, 1000)
                    answer = f"{found.leader_epoch} {found.end_offset}"
                    steps.append([kind, epoch - 1, 1000])
                case _:
                    known = epochs.epoch_for_offset(offset)
                    answer = str(-1 if known is None else known)
                    steps.append([kind, offset])
            states.append(
                " ".join([f"{answer} |", *(f"{entry.epoch}:{entry.start_offset}" for entry in epochs.entries)])
            )

        kafkas = oracle.ask({"do": "epochs", "steps": steps})

        for number, (ours, theirs) in enumerate(zip(states, kafkas, strict=True)):
            assert ours == theirs, f"history {seed}, step {number}: {steps[number]}"


def test_one_file_of_each_kind_is_read_by_kafkas_own_classes(oracle: JavaProcess, tmp_path: Path) -> None:
    files, directory = OsFiles(), str(tmp_path)
    log = ProducerLog(files, directory)
    log.append(batch(1, sequence=2**31 - 3, count=5, timestamp=10))
    log.append(batch(1, sequence=2, count=2, timestamp=20))
    log.append(batch(2, epoch=4, sequence=8, timestamp=30, transactional=True))
    log.end_transaction(3, commit=True, epoch=6, coordinator_epoch=9, timestamp=40)
    log.table.take_snapshot()
    offsets = OffsetIndex(files, f"{directory}/{100:020d}.index", Offset(100), bytes_max=1 << 20, active=True)
    offsets.append(110, 4096)
    offsets.append(99 + 2**31, 8200)
    offsets.close()
    times = TimeIndex(files, f"{directory}/{100:020d}.timeindex", Offset(100), bytes_max=1 << 20, active=True)
    times.maybe_append(1_700_000_000_000, 110)
    times.maybe_append(1_700_000_000_001, 120)
    times.close()
    aborted = AbortedTransaction(ProducerId(1), Offset(100), Offset(110), Offset(105))
    transactions = TransactionIndex(files, f"{directory}/{100:020d}.txnindex", 100)
    transactions.append(aborted)
    transactions.close()
    epochs = LeaderEpochs(files, f"{directory}/leader-epoch-checkpoint")
    epochs.assign(0, 0)
    epochs.assign(3, 2**40)
    partition = TopicPartition(TopicName("orders"), PartitionIndex(3))
    write_offsets(files, f"{directory}/{RECOVERY_POINT_CHECKPOINT}", {partition: Offset(2**40)})
    write_partition_metadata(files, directory, TopicId(uuid_from_text("F6Q5sCdKR3mLmpUTYTnHrQ")))
    write_clean_shutdown(files, directory, BrokerEpoch(42))
    directory_id = DirectoryId(uuid_from_text("hUvdzVNQSYeaRVTRpKxbaw"))
    write_meta_properties(files, directory, MetaProperties("cluster", NodeId(7), directory_id))

    assert oracle.ask({"do": "read", "directory": directory}) == {
        "snapshot": [
            [1, 0, 3, 6, 1, 20, -1, -1],
            [2, 4, 8, 7, 0, 30, -1, 7],
            [3, 6, -1, -1, 0, 40, 9, -1],
        ],
        "index": [[110, 4096], [99 + 2**31, 8200]],
        "timeindex": [[1_700_000_000_000, 110], [1_700_000_000_001, 120]],
        "txnindex": [list(aborted)],
        "leader-epoch-checkpoint": [[0, 0], [3, 2**40]],
        "recovery-point-offset-checkpoint": {"orders-3": 2**40},
        "partition.metadata": "F6Q5sCdKR3mLmpUTYTnHrQ",
        ".kafka_cleanshutdown": 42,
        "meta.properties": [1, "cluster", 7, "hUvdzVNQSYeaRVTRpKxbaw"],
    }


def test_java_cannot_take_a_lock_that_we_hold(oracle: JavaProcess, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = OsFiles().lock(path)
    question = {"do": "lock", "path": path}

    while_held = oracle.ask(question)
    held.release()

    assert [while_held, oracle.ask(question)] == [False, True]
