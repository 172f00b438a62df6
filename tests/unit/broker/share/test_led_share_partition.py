from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.appends import produced
from tests.support.data_node import DataNode
from tests.unit.broker.share.memory_persister import MemoryPersister
from tidelog.broker.share.acknowledgement import Acknowledged, Refusal
from tidelog.broker.share.acquisition import Wish, acquire
from tidelog.broker.share.led_share_partition import LeaderSeams, LedSharePartition, ShareStage
from tidelog.broker.share.log_batches import LogBatch
from tidelog.broker.share.persister import PersisterError, ShareState, StateBatch
from tidelog.broker.share.share_limits import ShareLimits, share_limits
from tidelog.broker.share.share_metrics import ShareMetrics
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.share_group_config import SHARE_GROUP_KEYS
from tidelog.wire.records import Record, build_batch

ACCEPT = [1]
GROUP = "workers"


class World:
    """A share partition with nothing settled, of ten records."""

    def __init__(self, *, is_loaded: bool = True) -> None:
        self.node = DataNode()
        self.node.create_topic("orders", partitions=1, replicas=(1, 2), isr=(1,))
        self.persister = MemoryPersister()
        self.due: list[Callable[[], None]] = []
        self.woken = 0
        self.ended: list[LedSharePartition] = []
        self.limits = share_limits(SHARE_GROUP_KEYS.parse({}), {})
        seams = LeaderSeams(self.persister, self.node.clock, self.node.timers, self.due.append)
        self.led = LedSharePartition(
            GROUP, self.node.partition("orders"), seams, self.limits_of, ShareMetrics(), self.ended.append
        )
        self.led.load()
        if is_loaded:
            self.persister.reads[0].complete(ShareState(4, 0, ()))

    def limits_of(self, _group_id: str) -> ShareLimits:
        return self.limits

    def share_partition_changed(self) -> None:
        self.woken += 1

    def acquire(self, member: str, first: int, last: int) -> None:
        acquire(
            self.led.machine,
            Wish(member, 100, 100, False),
            first,
            [LogBatch(first, last)],
            self.node.clock.monotonic_ms(),
        )
        self.led.look_at_locks()

    def say(self, member: str, first: int, last: int) -> Refusal | Pending[Refusal | None] | None:
        return self.led.acknowledge(member, [Acknowledged(first, last, ACCEPT)])

    def end_turn(self) -> None:
        due = list(self.due)
        self.due.clear()
        for work in due:
            work()


@pytest.fixture
def world() -> World:
    made = World()
    made.acquire("a", 0, 4)
    made.acquire("b", 5, 9)
    return made


def test_what_is_said_in_one_turn_is_one_write_and_each_has_its_own_outcome(world: World) -> None:
    first = world.say("a", 0, 4)
    wrong = world.say("a", 5, 9)
    second = world.say("b", 5, 9)
    assert world.persister.writes == []

    world.end_turn()

    assert isinstance(wrong, Refusal)
    assert len(world.persister.writes) == 1
    assert world.persister.writes[0].batches == [StateBatch(0, 4, 2, 1), StateBatch(5, 9, 2, 1)]
    assert isinstance(first, Pending)
    assert isinstance(second, Pending)
    assert not first.is_complete

    world.persister.answer()

    assert first.value is None
    assert second.value is None
    assert world.led.machine.start_offset == 10


def test_what_comes_while_a_write_is_under_way_is_the_next_write(world: World) -> None:
    world.say("a", 0, 4)
    world.end_turn()
    world.say("b", 5, 9)
    world.end_turn()
    assert len(world.persister.writes) == 1

    world.persister.answer()
    world.end_turn()

    assert len(world.persister.writes) == 2
    assert world.persister.writes[1].start_offset == 5


@pytest.mark.parametrize(
    ("error", "told", "stage"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ShareStage.ACTIVE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ShareStage.ACTIVE),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR, ShareStage.ACTIVE),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ShareStage.FENCED),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ShareStage.FENCED),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND, ShareStage.FENCED),
    ],
)
def test_a_write_that_fails_is_told_and_taken_back_and_ends_what_has_no_right_to_go_on(
    world: World, error: ErrorCode, told: ErrorCode, stage: ShareStage
) -> None:
    outcome = world.say("a", 0, 4)
    world.end_turn()

    world.persister.answer(PersisterError(error))

    assert isinstance(outcome, Pending)
    assert outcome.value is not None
    assert outcome.value.error == told
    assert world.led.stage is stage
    assert world.led.machine.start_offset == 0
    assert bool(world.ended) == (stage is ShareStage.FENCED)


def test_one_timer_waits_for_the_first_lock_of_all_and_a_renewal_moves_it(world: World) -> None:
    assert world.node.timers.pending == 1
    world.node.timers.advance(10_000)
    world.led.acknowledge("a", [Acknowledged(0, 4, [4])])
    assert world.node.timers.pending == 1

    world.node.timers.advance(20_000)
    world.end_turn()

    assert world.persister.writes[0].batches == [StateBatch(5, 9, 0, 1)]
    assert world.led.machine.next_lock_ms == world.node.clock.monotonic_ms() + 10_000
    assert world.node.timers.pending == 1


def test_a_lock_that_ends_wakes_those_who_wait_whether_or_not_it_can_be_written(world: World) -> None:
    produced(world.led.partition, build_batch([Record(each, 0, None, b"v") for each in range(10)]))
    world.led.waiting[world] = None
    world.node.timers.advance(30_000)
    world.end_turn()
    woken = world.woken

    world.persister.answer(PersisterError(ErrorCode.NOT_COORDINATOR))

    assert woken == 1
    assert world.led.machine.next_fetch_offset() == 0


def test_a_new_leader_epoch_ends_it_and_nothing_is_taken_any_more(world: World) -> None:
    world.led.waiting[world] = None
    world.node.change("orders", leader=2)

    refused = world.say("a", 0, 4)

    assert world.led.stage is ShareStage.FENCED
    assert isinstance(refused, Refusal)
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.woken == 1
    assert world.node.timers.pending == 0


def test_a_state_that_cannot_be_read_is_told_to_those_who_wait() -> None:
    world = World(is_loaded=False)
    world.led.waiting[world] = None

    world.persister.reads[0].complete(PersisterError(ErrorCode.GROUP_ID_NOT_FOUND))

    assert world.led.stage is ShareStage.FAILED
    assert world.led.refusal is not None
    assert world.led.refusal.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert world.woken == 1


def test_a_state_that_contradicts_itself_is_not_served() -> None:
    world = World(is_loaded=False)

    world.persister.reads[0].complete(ShareState(0, 5, (StateBatch(0, 4, 0, 1),)))

    assert world.led.stage is ShareStage.FAILED
    assert world.ended == [world.led]
