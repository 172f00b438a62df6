from __future__ import annotations

import errno

import pytest

from tests.support.appends import produced
from tests.support.data_node import DataNode
from tests.unit.broker.share.memory_persister import MemoryPersister
from tidelog.broker.share.acquisition import Wish
from tidelog.broker.share.delayed_share_fetch import DelayedShareFetch, FetchBounds, ShareFetchEntry
from tidelog.broker.share.led_share_partition import LeaderSeams, LedSharePartition
from tidelog.broker.share.persister import ShareState
from tidelog.broker.share.share_limits import ShareLimits, share_limits
from tidelog.broker.share.share_metrics import ShareMetrics
from tidelog.broker.share.share_sessions import FetchedPartition, SessionKey, ShareSession
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName
from tidelog.model.pending import Pending
from tidelog.model.share_group_config import SHARE_GROUP_KEYS
from tidelog.storage.fetched import FetchIsolation
from tidelog.wire.records import Record, build_batch

GROUP = "workers"
ORDERS = TopicName("orders")
BATCH_BYTES = 1100


class World:
    """A topic of three partitions, and share partitions of one group on them."""

    def __init__(self) -> None:
        self.node = DataNode()
        self.topic_id = self.node.create_topic("orders", partitions=3)
        self.persister = MemoryPersister()
        self.may_read = True
        limits = share_limits(SHARE_GROUP_KEYS.parse({}), {})
        self.session = ShareSession(SessionKey(GROUP, "a"), [self.key(each) for each in range(3)], 1)

        def limits_of(_group: str) -> ShareLimits:
            return limits

        seams = LeaderSeams(self.persister, self.node.clock, self.node.timers, lambda work: work())
        self.led = [
            LedSharePartition(
                GROUP, self.node.partition("orders", each), seams, limits_of, ShareMetrics(), lambda _led: None
            )
            for each in range(3)
        ]
        for led in self.led:
            led.load()

    def key(self, index: int) -> FetchedPartition:
        return FetchedPartition(self.topic_id, PartitionIndex(index))

    def load(self) -> None:
        for read in self.persister.reads:
            read.complete(ShareState(0, 0, ()))

    def write(self, index: int, batches: int = 1) -> None:
        """Batches of ten records."""
        for _ in range(batches):
            records = [Record(each, 0, None, b"v" * 100) for each in range(10)]
            produced(self.node.partition("orders", index), build_batch(records))

    def fetch(
        self, *indexes: int, records: int = 500, max_bytes: int = 1 << 20, min_bytes: int = 1, wait_ms: int = 1000
    ) -> DelayedShareFetch:
        entries = []
        for index in indexes or range(3):
            entry = ShareFetchEntry(ORDERS, self.key(index))
            entry.led = self.led[index]
            entries.append(entry)
        return DelayedShareFetch(
            entries,
            Wish("a", records, records, False),
            FetchBounds(min_bytes, max_bytes, wait_ms),
            FetchIsolation.HIGH_WATERMARK,
            self.session,
            clock=self.node.clock,
            timers=self.node.timers,
            metrics=ShareMetrics(),
            may_read=lambda _entry: self.may_read,
        )


@pytest.fixture
def world() -> World:
    made = World()
    made.load()
    return made


def acquired(fetch: DelayedShareFetch) -> list[list[tuple[int, int]]]:
    return [[(each.first_offset, each.last_offset) for each in entry.acquired] for entry in fetch.entries]


def test_bytes_are_shared_out_evenly_among_partitions_that_have_something(world: World) -> None:
    world.write(0, batches=9)
    world.write(1, batches=9)

    fetch = world.fetch(0, 1, max_bytes=6 * BATCH_BYTES + 600)

    assert fetch.start() is True
    assert acquired(fetch) == [[(0, 29)], [(0, 29)]]


def test_records_that_are_wanted_are_taken_from_partitions_in_their_order(world: World) -> None:
    for index in range(3):
        world.write(index)

    fetch = world.fetch(2, 0, 1, records=20)

    assert fetch.start() is True
    assert acquired(fetch) == [[(0, 9)], [(0, 9)], []]


def test_a_fetch_waits_for_a_share_partition_that_is_still_being_read() -> None:
    world = World()
    world.write(0)
    fetch = world.fetch()
    outcome = fetch.start()
    assert isinstance(outcome, Pending)

    world.load()

    assert outcome.value is True
    assert acquired(fetch)[0] == [(0, 9)]


def test_nothing_is_acquired_by_a_fetch_that_wants_more_than_there_is_until_its_time_is_up(world: World) -> None:
    world.write(0)
    fetch = world.fetch(min_bytes=10_000)
    outcome = fetch.start()
    assert isinstance(outcome, Pending)
    assert not world.led[0].machine.batches

    world.node.timers.advance(1000)

    assert outcome.value is True
    assert acquired(fetch)[0] == [(0, 9)]


def test_of_many_who_wait_the_first_takes_it_and_the_others_go_on_waiting(world: World) -> None:
    fetches = [world.fetch(0) for _ in range(3)]
    outcomes = [fetch.start() for fetch in fetches]

    world.write(0)

    assert [isinstance(each, Pending) and each.is_complete for each in outcomes] == [True, False, False]
    assert len(world.led[0].waiting) == 2


def test_a_fetch_that_is_given_up_acquires_nothing_and_leaves_no_trace(world: World) -> None:
    fetch = world.fetch()
    outcome = fetch.start()
    world.session.stop_waiting()
    world.write(0)

    assert isinstance(outcome, Pending)
    assert outcome.value is False
    assert not world.led[0].machine.batches
    assert not any(led.waiting for led in world.led)
    assert world.node.timers.pending == 0


def test_a_fetch_is_answered_at_once_if_none_of_its_partitions_can_be_fetched(world: World) -> None:
    outcome = world.fetch().start()
    assert isinstance(outcome, Pending)

    for led in world.led:
        led.drop()

    assert outcome.value is True


def test_one_partition_that_cannot_be_fetched_is_told_with_what_comes_of_others(world: World) -> None:
    fetch = world.fetch()
    outcome = fetch.start()
    world.led[1].drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    told: list[bool] = []
    assert isinstance(outcome, Pending)
    outcome.then(told.append)
    assert told == []

    world.write(2)

    assert told == [True]
    assert [entry.refusal and entry.refusal.error for entry in fetch.entries] == [
        None,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        None,
    ]
    assert acquired(fetch)[2] == [(0, 9)]


def test_who_has_lost_the_right_to_read_gets_nothing_more(world: World) -> None:
    fetch = world.fetch(0)
    outcome = fetch.start()
    world.may_read = False

    world.write(0)

    assert isinstance(outcome, Pending)
    assert outcome.is_complete
    assert acquired(fetch) == [[]]
    assert fetch.entries[0].refusal is not None
    assert fetch.entries[0].refusal.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not world.led[0].machine.batches


def test_what_is_given_back_was_not_delivered_and_wakes_another(world: World) -> None:
    world.write(0)
    fetch = world.fetch(0)
    assert fetch.start() is True
    other = world.fetch(0)
    outcome = other.start()
    assert isinstance(outcome, Pending)

    fetch.give_back()

    assert outcome.is_complete
    assert [each.delivery_count for each in other.entries[0].acquired] == [1]


def test_where_the_log_begins_later_the_group_goes_on_there_in_the_same_fetch(world: World) -> None:
    world.write(0, batches=3)
    assert world.node.partition("orders").delete_records(20) == 20

    fetch = world.fetch(0)

    assert fetch.start() is True
    assert acquired(fetch) == [[(20, 29)]]
    assert world.led[0].machine.start_offset == 20


@pytest.mark.parametrize(
    ("is_waiting", "error"), [(True, ErrorCode.NOT_LEADER_OR_FOLLOWER), (False, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_a_disk_that_fails_is_told_and_stops_nothing(world: World, is_waiting: bool, error: ErrorCode) -> None:
    fetch = world.fetch(min_bytes=10_000 if is_waiting else 1)
    world.write(0)
    if is_waiting:
        outcome = fetch.start()
        world.node.disk.fail("pread", "*.log", errno.EIO)
        world.led[0].tell_waiting()
        world.node.timers.advance(1000)
        assert isinstance(outcome, Pending)
        assert outcome.is_complete
    else:
        world.node.disk.fail("pread", "*.log", errno.EIO)
        assert fetch.start() is True

    refusal = fetch.entries[0].refusal
    assert refusal is not None
    assert refusal.error == error
    assert acquired(fetch) == [[], [], []]
