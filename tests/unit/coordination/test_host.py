"""The host of coordinators' shards: loading, deciding, waiting for the commit, timers, and the loss of leadership."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from tests.support.appends import own_batch
from tests.support.data_node import NODE, OTHER, DataNode
from tidelog.broker.coordinators.led_partition import LedPartition
from tidelog.coordination.active_shard import RETRY_MS
from tidelog.coordination.coordinator_log import CoordinatorPartition
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Decision, TransactionalProducer, record, tombstone
from tidelog.coordination.host import CoordinatorHost, HostSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TimestampMs
from tidelog.model.pending import Pending
from tidelog.replication.partition import ALL_IN_SYNC
from tidelog.storage.verification_guard import NO_GUARD
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.internal_records import CoordinatorLog, CoordinatorRecord
from tidelog.wire.messages.internal.offset_records import OffsetCommitKey, OffsetCommitValue

TOPIC = "__consumer_offsets"


class NotesShard:
    """A number under each name: as little as a coordinator can remember."""

    def __init__(self) -> None:
        self.deadlines = Deadlines()
        self.notes: dict[str, int] = {}
        self.pending: dict[int, dict[str, int]] = {}
        self.is_loaded = False
        self.is_unloaded = False

    def write(self, name: str, number: int | None) -> Decision[str]:
        return Decision(f"{name} is {number}", (note(name, number),))

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int, now_ms: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, OffsetCommitKey)
        if value is None:
            self.notes.pop(key.group, None)
        else:
            assert isinstance(value, OffsetCommitValue)
            notes = self.notes if producer_id < 0 else self.pending.setdefault(producer_id, {})
            notes[key.group] = value.offset

    def end_transaction(self, producer_id: int, offset: int, *, is_committed: bool) -> None:
        pending = self.pending.pop(producer_id, {})
        if is_committed:
            self.notes.update(pending)

    def loaded(self, now_ms: int) -> list[Decision[None]]:
        self.is_loaded = True
        return []

    def unload(self) -> None:
        self.is_unloaded = True


def note(name: str, number: int | None) -> CoordinatorRecord:
    key = OffsetCommitKey(group=name, topic="t", partition=0)
    if number is None:
        return tombstone(key)
    return record(key, OffsetCommitValue(offset=number, metadata="", commit_timestamp=0), 4)


class Hosted:
    """A host on a node whose metadata the test writes."""

    def __init__(self, node: DataNode, required_acks: int = ALL_IN_SYNC) -> None:
        self.node = node
        self.required_acks = required_acks
        self.shards: list[NotesShard] = []
        self.host = self._new_host()

    def _new_host(self) -> CoordinatorHost[NotesShard]:
        return CoordinatorHost(
            CoordinatorLog.CONSUMER_OFFSETS,
            self._new_shard,
            HostSeams(self.node.clock, self.node.timers, self.node.seams.slow_work, nullcontext()),
            required_acks=self.required_acks,
            commit_timeout_ms=5_000,
            load_buffer_bytes=100,
        )

    def _new_shard(self, _index: int, _leader_epoch: int, _partition: CoordinatorPartition) -> NotesShard:
        self.shards.append(NotesShard())
        return self.shards[-1]

    def elect(self) -> NotesShard:
        partition = self.node.partition(TOPIC)
        self.host.elected(0, LedPartition(partition), partition.leader_epoch)
        self.settle()
        return self.shards[-1]

    def settle(self) -> None:
        for _ in range(100):
            self.node.timers.advance(0)

    def write(self, name: str, number: int | None) -> str | Pending[str]:
        return self.host.decide(0, lambda shard, _now_ms: shard.write(name, number), lambda error: error.name)

    def write_in_transaction(self, name: str, number: int, producer: TransactionalProducer) -> str | Pending[str]:
        def decide(_shard: NotesShard, _now_ms: int) -> Decision[str]:
            return Decision(f"{name} will be {number}", (note(name, number),), producer=producer)

        return self.host.decide(0, decide, lambda error: error.name)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> ErrorCode | Pending[ErrorCode]:
        marker = build_end_txn_marker(
            ControlType.COMMIT if is_committed else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=3,
            timestamp=1,
        )
        return self.host.end_transaction(0, own_batch(marker))

    def read(self, name: str) -> str | Pending[str]:
        return self.host.read(0, lambda shard: str(shard.notes.get(name)), lambda error: error.name)


@pytest.fixture
def hosted() -> Hosted:
    node = DataNode()
    node.create_topic(TOPIC)
    return Hosted(node)


def replicated() -> Hosted:
    node = DataNode()
    node.create_topic(TOPIC, replicas=(NODE, OTHER))
    return Hosted(node)


def follower_fetches(node: DataNode) -> None:
    """The other replica has everything that there is now."""
    partition = node.partition(TOPIC)
    end = node.log(TOPIC).log_end_offset
    partition.read_as_follower(
        OTHER, end, 1000, broker_epoch=7, log_start_offset=0, current_leader_epoch=partition.leader_epoch
    )


def test_decides_and_remembers(hosted: Hosted) -> None:
    assert hosted.write("a", 1) == "NOT_COORDINATOR"
    hosted.elect()
    assert hosted.write("a", 1) == "a is 1"
    assert hosted.read("a") == "1"
    assert hosted.write("a", None) == "a is None"
    assert hosted.read("a") == "None"


def test_a_restart_comes_to_the_same_state_piece_by_piece(hosted: Hosted) -> None:
    first = hosted.elect()
    for number in range(50):
        hosted.write(f"note {number % 7}", number)
    hosted.write("note 3", None)
    hosted.node.restart()
    again = Hosted(hosted.node)
    shard = again.elect()
    assert shard.is_loaded
    assert shard.notes == first.notes
    assert len(shard.notes) == 6


def test_says_that_it_is_loading(hosted: Hosted) -> None:
    hosted.elect()
    for number in range(50):
        hosted.write("a", number)
    hosted.node.restart()
    again = Hosted(hosted.node)
    partition = again.node.partition(TOPIC)
    again.host.elected(0, LedPartition(partition), partition.leader_epoch)
    assert again.write("a", 1) == "COORDINATOR_LOAD_IN_PROGRESS"
    loading = [again.host.is_loading]
    again.settle()
    loading.append(again.host.is_loading)
    assert loading == [True, False]
    assert again.read("a") == "49"


def test_an_answer_waits_for_the_commit() -> None:
    hosted = replicated()
    hosted.elect()
    answer, read = hosted.write("a", 1), hosted.read("a")
    assert isinstance(answer, Pending)
    assert isinstance(read, Pending)
    told: list[str] = []
    answer.then(told.append)
    read.then(told.append)
    assert told == []
    follower_fetches(hosted.node)
    assert told == ["a is 1", "1"]


def test_a_commit_that_takes_too_long_is_said_to() -> None:
    hosted = replicated()
    hosted.elect()
    answer = hosted.write("a", 1)
    assert isinstance(answer, Pending)
    hosted.node.timers.advance(5_001)
    assert answer.value == "COORDINATOR_NOT_AVAILABLE"
    follower_fetches(hosted.node)
    assert answer.value == "COORDINATOR_NOT_AVAILABLE"


def test_whoever_waits_is_sent_elsewhere_when_another_node_leads() -> None:
    hosted = replicated()
    shard = hosted.elect()
    answer = hosted.write("a", 1)
    assert isinstance(answer, Pending)
    hosted.node.change(TOPIC, leader=OTHER)
    hosted.host.resigned(0)
    assert answer.value == "NOT_COORDINATOR"
    assert shard.is_unloaded
    assert hosted.write("a", 1) == "NOT_COORDINATOR"


def test_a_newer_epoch_loads_anew_and_an_older_one_is_ignored(hosted: Hosted) -> None:
    first = hosted.elect()
    hosted.write("a", 1)
    assert hosted.elect() is first
    hosted.node.change(TOPIC, leader=NODE)
    second = hosted.elect()
    assert second is not first
    assert first.is_unloaded
    assert second.notes == {"a": 1}


def test_nothing_changes_where_nothing_can_be_written(hosted: Hosted) -> None:
    shard = hosted.elect()
    hosted.write("a", 1)
    settled: list[ErrorCode] = []
    hosted.node.disk.fail("pwritev", "*", errno.EIO)
    answer = hosted.host.decide(
        0, lambda _shard, _now_ms: Decision("done", (note("a", 2),), settled=settled.append), lambda error: error.name
    )
    assert answer == "NOT_COORDINATOR"
    assert settled == [ErrorCode.NOT_COORDINATOR]
    assert shard.notes == {"a": 1}


def test_more_than_a_batch_holds_is_refused(hosted: Hosted) -> None:
    hosted.node.configure(TOPIC, {"max.message.bytes": "500"})
    shard = hosted.elect()
    many = tuple(note(f"note {number}", number) for number in range(100))
    answer = hosted.host.decide(0, lambda _shard, _now_ms: Decision("done", many), lambda error: error.name)
    assert answer == "UNKNOWN_SERVER_ERROR"
    assert shard.notes == {}


def test_what_a_decision_says_is_in_memory_already_is_not_replayed(hosted: Hosted) -> None:
    shard = hosted.elect()
    hosted.host.decide(
        0, lambda _shard, _now_ms: Decision("done", (note("a", 1),), replays=False), lambda error: error.name
    )
    assert shard.notes == {}
    hosted.node.restart()
    assert Hosted(hosted.node).elect().notes == {"a": 1}


def remind(shard: NotesShard, at_ms: int, then: Callable[[int], Decision[None]]) -> Decision[None]:
    shard.deadlines.set("reminder", at_ms, then)
    return Decision(None)


def test_acts_when_something_falls_due(hosted: Hosted) -> None:
    shard = hosted.elect()
    now_ms = hosted.host.now_ms()
    hosted.host.decide_everywhere(
        lambda shard, _now_ms: remind(shard, now_ms + 100, lambda _due_ms: Decision(None, (note("due", 1),)))
    )
    hosted.node.timers.advance(99)
    assert shard.notes == {}
    hosted.node.timers.advance(1)
    assert shard.notes == {"due": 1}


def test_what_falls_due_and_cannot_be_written_is_tried_again() -> None:
    hosted = replicated()
    hosted.node.configure(TOPIC, {"min.insync.replicas": "2"})
    shard = hosted.elect()
    hosted.node.change(TOPIC, isr=[int(NODE)])
    now_ms = hosted.host.now_ms()
    hosted.host.decide_everywhere(
        lambda shard, _now_ms: remind(shard, now_ms + 100, lambda _due_ms: Decision(None, (note("due", 1),)))
    )
    hosted.node.timers.advance(100)
    assert shard.notes == {}
    hosted.node.change(TOPIC, isr=[int(NODE), int(OTHER)])
    hosted.node.timers.advance(RETRY_MS)
    assert shard.notes == {"due": 1}


def test_a_log_that_is_damaged_is_not_loaded_by_half(hosted: Hosted, caplog: pytest.LogCaptureFixture) -> None:
    hosted.elect()
    hosted.write("a", 1)
    hosted.write("b", 2)
    log = hosted.node.log(TOPIC)
    path = f"{log.directory}/00000000000000000000.log"
    hosted.node.disk.open(path).pwritev([b"\xff"], hosted.node.disk.size_of(path) - 3)
    again = Hosted(hosted.node)
    again.elect()
    assert again.write("a", 1) == "NOT_COORDINATOR"
    assert "cannot be loaded" in caplog.text


class SetClock:
    """A wall clock that somebody sets; the other one goes on as ever."""

    def __init__(self) -> None:
        self.wall_ms = 1_000_000
        self.passed_ms = 7

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self.wall_ms)

    def monotonic_ms(self) -> int:
        return self.passed_ms

    def monotonic_ns(self) -> int:
        return self.passed_ms * 1_000_000


def test_time_does_not_jump_with_the_clock(hosted: Hosted) -> None:
    clock = SetClock()
    seams = HostSeams(clock, hosted.node.timers, hosted.node.seams.slow_work, nullcontext())
    host = CoordinatorHost(
        CoordinatorLog.CONSUMER_OFFSETS,
        lambda _index, _leader_epoch, _partition: NotesShard(),
        seams,
        required_acks=ALL_IN_SYNC,
        commit_timeout_ms=5_000,
        load_buffer_bytes=100,
    )
    assert host.now_ms() == 1_000_000
    clock.wall_ms -= 3_600_000
    clock.passed_ms += 10
    assert host.now_ms() == 1_000_010


# Too few replicas


def below_min_isr(required_acks: int) -> Hosted:
    node = DataNode()
    node.create_topic(TOPIC, replicas=(NODE, OTHER), isr=(NODE,), configs={"min.insync.replicas": "2"})
    hosted = Hosted(node, required_acks)
    hosted.elect()
    return hosted


def test_with_acks_of_all_nothing_is_written_below_min_isr() -> None:
    hosted = below_min_isr(ALL_IN_SYNC)
    assert hosted.write("a", 1) == "COORDINATOR_NOT_AVAILABLE"
    assert hosted.node.log(TOPIC).log_end_offset == 0


def test_with_acks_of_the_leader_it_is_written_and_waits_below_min_isr() -> None:
    hosted = below_min_isr(1)
    answer = hosted.write("a", 1)
    assert isinstance(answer, Pending)
    assert not answer.is_complete
    assert hosted.node.log(TOPIC).log_end_offset == 1
    hosted.node.timers.advance(4_999)
    assert not answer.is_complete
    hosted.node.timers.advance(1)
    assert answer.value == "COORDINATOR_NOT_AVAILABLE"


def test_what_is_committed_is_read_below_min_isr() -> None:
    assert below_min_isr(1).read("a") == "None"
    assert below_min_isr(ALL_IN_SYNC).read("a") == "COORDINATOR_NOT_AVAILABLE"


# Transactions


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_is_written_in_a_transaction_counts_when_it_has_ended_well(hosted: Hosted, is_committed: bool) -> None:
    shard = hosted.elect()

    hosted.write_in_transaction("a", 1, TransactionalProducer(7, 0, None))
    assert (shard.notes, shard.pending) == ({}, {7: {"a": 1}})
    assert hosted.end_transaction(7, is_committed=is_committed) is ErrorCode.NONE

    assert (shard.notes, shard.pending) == ({"a": 1} if is_committed else {}, {})


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_is_the_same_after_a_replay(hosted: Hosted, is_committed: bool) -> None:
    hosted.elect()
    hosted.write_in_transaction("a", 1, TransactionalProducer(7, 0, None))
    hosted.write_in_transaction("b", 2, TransactionalProducer(8, 0, None))
    hosted.end_transaction(7, is_committed=is_committed)

    hosted.host.resigned(0)
    shard = hosted.elect()

    assert (shard.notes, shard.pending) == ({"a": 1} if is_committed else {}, {8: {"b": 2}})


def test_a_transaction_that_nobody_has_verified_writes_nothing(hosted: Hosted) -> None:
    shard = hosted.elect()

    assert hosted.write_in_transaction("a", 1, TransactionalProducer(7, 0, NO_GUARD)) == "INVALID_TXN_STATE"
    assert (shard.notes, shard.pending) == ({}, {})

    guard = hosted.node.partition(TOPIC).begin_verification(7, 0, -1, raises_epochs=True)
    assert isinstance(guard, int)
    hosted.write_in_transaction("a", 1, TransactionalProducer(7, 0, guard))
    assert shard.pending == {7: {"a": 1}}


def test_a_marker_for_a_partition_without_a_shard_is_to_be_tried_again(hosted: Hosted) -> None:
    assert hosted.end_transaction(7, is_committed=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert hosted.host.leader_epoch(0) is None

    hosted.elect()
    assert hosted.end_transaction(7, is_committed=True) is ErrorCode.NONE
    assert hosted.host.leader_epoch(0) == hosted.node.partition(TOPIC).leader_epoch
