"""Our share partition and Apache Kafka's SharePartition, driven with the same random calls: the same answers, states and writes.

Left out is what we do otherwise on purpose (`share_partition`, `acquisition`): log starts behind everything in flight, holes that
nobody knows of, and writes that are under way when the log start passes what they are of. There Kafka forgets that a release is
still being written.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.share_world import LOCK_MS, SETTINGS, ShareWorld, batches
from tidelog.broker.share.aborted_records import without_aborted
from tidelog.broker.share.acknowledgement import Acknowledged, Refusal, acknowledge, release
from tidelog.broker.share.acquisition import Acquired
from tidelog.broker.share.log_batches import LogBatch, aborted_batches
from tidelog.broker.share.persister import ShareState, StateBatch
from tidelog.broker.share.share_partition import Change
from tidelog.model.ids import Offset, ProducerId
from tidelog.storage.transaction_index import AbortedTransaction

pytestmark = pytest.mark.compat

SOURCE = REPOSITORY / "tests" / "compat" / "SharePartitionOracle.java"
MEMBERS = ("a", "b", "c")
TYPES = (1, 1, 1, 1, 2, 3, 0)
ACTIONS = ("fetch", "fetch", "fetch", "say", "say", "say", "settle", "settle", "leave", "time", "log_start")
STEPS = 80


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with JavaProcess(kafka, SOURCE) as oracle:
        yield oracle


class Pair:
    """Both of them, in one history."""

    def __init__(
        self,
        oracle: JavaProcess,
        seed: int,
        *,
        moves_log_start: bool = False,
        has_holes: bool = False,
        has_aborts: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.oracle = oracle
        self.moves_log_start = moves_log_start
        self.has_holes = has_holes
        self.settings = SETTINGS._replace(
            deliveries_max=self.random.choice((2, 3, 5, 10)), record_locks_max=self.random.choice((100, 150, 2000))
        )
        self.log = batches(*(self.random.randint(1, 15) for _ in range(40)))
        self.has_aborts = has_aborts
        self.aborted: list[AbortedTransaction] = []
        if has_aborts:
            self.log = self.with_transactions()
        start, states = self.first_state()
        self.world = ShareWorld(self.log, self.settings, ShareState(1, start, states), start)
        self.pending: list[tuple[int, Change]] = []
        self.writes = 0
        self.given: list[tuple[str, int, int]] = []
        question = {
            "do": "begin",
            "deliveries_max": self.settings.deliveries_max,
            "locks_max": self.settings.record_locks_max,
            "lock_ms": LOCK_MS,
            "start": start,
            "states": [list(each) for each in states],
        }
        self.compare(question, self.ask(question), [])

    def with_transactions(self) -> list[LogBatch]:
        """The log with transactions of two producers in it, most of which are aborted."""
        log: list[LogBatch] = []
        open_since: dict[int, int] = {}
        offset = 0
        for batch in self.log:
            producer = self.random.choice((-1, 7, 8))
            last = offset + batch.last_offset - batch.base_offset
            log.append(LogBatch(offset, last, producer_id=producer, holds_transaction=producer >= 0))
            if producer >= 0:
                open_since.setdefault(producer, offset)
            offset = last + 1
            for each, first in list(open_since.items()):
                if self.random.random() < 0.3:
                    log.append(LogBatch(offset, offset, producer_id=each))
                    self.aborted.append(
                        AbortedTransaction(ProducerId(each), Offset(first), Offset(offset), Offset(offset + 1))
                    )
                    del open_since[each]
                    offset += 1
        return log

    def first_state(self) -> tuple[int, tuple[StateBatch, ...]]:
        """What a leader finds that takes over: settled and available offsets, one behind the other."""
        if self.has_aborts or self.random.random() < 0.5:
            return 0, ()
        start = first = self.random.randint(0, 20)
        states = []
        for _ in range(self.random.randint(1, 6)):
            last = first + self.random.randint(0, 8)
            states.append(StateBatch(first, last, self.random.choice((0, 0, 2, 4)), self.random.randint(1, 2) - 1 or 1))
            first = last + 1
            if self.has_holes:
                first += self.random.choice((0, 0, 3, 12))
        return start, tuple(states)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.oracle.ask(question)
        return answer

    # --- what happens ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        getattr(self, self.random.choice(ACTIONS))()

    def fetch(self) -> None:
        offset = self.world.partition.next_fetch_offset()
        readable = self.world.readable(offset)[: self.random.randint(1, 8)]
        if not readable or not self.world.partition.has_room():
            return
        known = self.world.partition.batches
        if self.has_aborts and readable[0].base_offset < (known.first.first if known else offset):
            # Kafka has an exception for a batch that was aborted, and of which some is settled and forgotten.
            return
        aborted = [
            each
            for each in self.aborted
            if each.first_offset <= readable[-1].last_offset and each.last_offset >= readable[0].base_offset
        ]
        member, records = self.random.choice(MEMBERS), self.random.randint(1, 60)
        is_exact, batch_size = self.random.random() < 0.4, self.random.choice((1, 7, records))
        question = {
            "do": "acquire",
            "member": member,
            "exact": is_exact,
            "batch_size": batch_size,
            "records": records,
            "offset": offset,
            "batches": [[each.base_offset, each.last_offset, each.producer_id, _kind(each)] for each in readable],
            # As a read of the log would name them.
            "aborted": [[each.producer_id, each.first_offset] for each in aborted],
        }
        answer = self.ask(question)
        kept, self.world.log = self.world.log, readable
        acquired = self.world.fetch(member, records, is_exact=is_exact, batch_size=batch_size)
        self.world.log = kept
        if aborted and acquired:
            with pytest.MonkeyPatch.context() as patch:
                # Ours passes what was aborted at once, theirs with the next acknowledgement.
                patch.setattr(self.world.partition, "move_start", lambda: False)
                acquired = without_aborted(self.world.partition, acquired, aborted_batches(readable, aborted))
        assert acquired == [Acquired(*row) for row in answer["acquired"]], question
        self.given += [(member, each.first_offset, each.last_offset) for each in acquired]
        self.compare(question, answer, [])

    def say(self) -> None:
        member = self.random.choice(MEMBERS)
        mine = [each for each in self.given if each[0] == member]
        if (self.has_holes or self.has_aborts) and not mine:
            # Kafka has an exception for what lies in a hole at the start, and nothing is known of it.
            return
        if mine and (self.has_holes or self.has_aborts or self.random.random() < 0.9):
            _, first, last = self.random.choice(mine)
        else:
            first = self.random.randint(0, 300)
            last = first + self.random.randint(0, 10)
        if self.random.random() < 0.4:
            first += self.random.randint(0, last - first)
            last -= self.random.randint(0, last - first)
        renews = self.random.random() < 0.1
        count = 1 if self.random.random() < 0.5 else last - first + 1
        types = [4 if renews else self.random.choice(TYPES) for _ in range(count)]
        said = [(first, last, types)]
        if last > first and count == 1 and self.random.random() < 0.3:
            said = [(first, first, types), (first + 1, last, types)]
        question = {"do": "acknowledge", "member": member, "said": [list(each) for each in said]}
        answer = self.ask(question)
        change = acknowledge(self.world.partition, member, [Acknowledged(*each) for each in said], self.world.now_ms)
        if isinstance(change, Refusal):
            assert answer["refused"] == f"{change.error.name}: {change.message}", question
            self.compare(question, answer, [])
            return
        assert answer["refused"] is None, question
        self.begun(question, answer, change)

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        question = {"do": "release", "member": member}
        answer = self.ask(question)
        self.begun(question, answer, release(self.world.partition, member))

    def begun(self, question: dict[str, Any], answer: dict[str, Any], change: Change) -> None:
        if change.parts:
            self.pending.append((self.writes, change))
        self.compare(question, answer, [change.batches] if change.parts else [])

    def settle(self) -> None:
        if not self.pending:
            return
        write, change = self.pending.pop(self.random.randrange(len(self.pending)))
        question = {"do": "settle", "write": write, "written": self.moves_log_start or self.random.random() < 0.8}
        answer = self.ask(question)
        self.world.commit(change, question["written"] is True)
        self.compare(question, answer, [])

    def time(self) -> None:
        elapsed_ms = self.random.choice((1, LOCK_MS // 3, LOCK_MS))
        question = {"do": "time", "ms": elapsed_ms}
        answer = self.ask(question)
        self.world.now_ms += elapsed_ms
        written = self.world.partition.time_out(self.world.now_ms)
        if written:
            self.world.partition.move_start()
        self.compare(question, answer, [written] if written else [])

    def log_start(self) -> None:
        partition = self.world.partition
        if not self.moves_log_start or not partition.batches or self.random.random() < 0.6:
            return
        while self.pending:
            self.settle()
        starts = [
            each.base_offset for each in self.log if partition.start_offset < each.base_offset < partition.end_offset
        ]
        # A batch of the log that stays: what is in flight goes on behind it.
        if len(starts) < 2:
            return
        question = {"do": "log_start", "offset": starts[0]}
        answer = self.ask(question)
        partition.log_start_moved(starts[0])
        self.world.log = [each for each in self.world.log if each.base_offset >= starts[0]]
        self.compare(question, answer, [])

    # --- what both know ----------------------------------------------------------------------------------------------------

    def compare(self, question: dict[str, Any], answer: dict[str, Any], written: list[list[StateBatch]]) -> None:
        theirs = sorted(tuple(row) for each in answer["begun"] for row in each_offset(each["batches"]))
        ours = sorted(row for each in written for row in each_offset(each))
        assert ours == theirs, question
        self.writes += len(answer["begun"])
        states: list[list[Any]] = [
            [offset, int(state), count, member]
            for offset, (state, count, member) in sorted(self.world.states().items())
        ]
        if self.has_holes:
            # Our start may be further on, past what is settled behind the last hole.
            partition = self.world.partition
            start = partition.start_offset
            assert start >= answer["start"], question
            assert partition.next_fetch_offset() == answer["next"], question
            theirs_kept = [row for row in answer["states"] if row[0] >= start]
            assert [row for row in states if row[0] >= start] == theirs_kept, question
            return
        assert states == answer["states"], question
        partition = self.world.partition
        known = (partition.start_offset, partition.end_offset, partition.completed_count, partition.next_fetch_offset())
        assert known == (answer["start"], answer["end"], answer["completed"], answer["next"]), question
        assert partition.has_room() == answer["has_room"], question


def _kind(batch: LogBatch) -> str:
    if batch.holds_transaction:
        return "transaction"
    return "plain" if batch.producer_id < 0 else "abort"


def each_offset(batches_of: list[Any]) -> list[tuple[int, int, int]]:
    """Each offset of a write by itself: neighbours are written together by us, and by the coordinator in the end."""
    return [(offset, state, count) for first, last, state, count in batches_of for offset in range(first, last + 1)]


@pytest.mark.parametrize(
    "case",
    [{}, {"moves_log_start": True}, {"has_holes": True}, {"has_aborts": True}],
    ids=["failing writes", "a log start that moves", "holes after another leader", "aborted transactions"],
)
def test_both_do_the_same_in_random_histories(oracle: JavaProcess, case: dict[str, bool]) -> None:
    for seed in range(150):
        pair = Pair(oracle, seed, **case)
        for step in range(STEPS):
            try:
                pair.step()
            except AssertionError as error:
                error.add_note(f"history {seed}, step {step}")
                raise
