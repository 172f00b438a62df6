"""Throttles of replication: the average, whom it holds back as a leader, and what it leaves out as a follower."""

from __future__ import annotations

import pytest

from tests.support.appends import produced
from tests.support.data_node import NODE, OTHER, THIRD, DataNode
from tests.support.log_builder import LogBuilder, ManualClock
from tidelog.broker.handlers.fetch import fetch
from tidelog.model.config import LONG_MAX, ConfigError
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.model.throttle_config import THROTTLE_KEYS
from tidelog.model.topic_config import LEADER_REPLICATION_THROTTLED_REPLICAS, TOPIC_KEYS
from tidelog.replication.throttled_replicas import ThrottledReplicas
from tidelog.replication.throttles import DELAY_MS_MAX, ReplicationThrottles, Throttle
from tidelog.replication.topic_config import TopicConfig
from tidelog.storage.fetched import Fetched
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState

WORDS = LogBuilder()
LIMIT = 1000


class TestTheAverage:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    def throttle(self, clock: ManualClock, limit: int = LIMIT, *, windows: int = 11) -> Throttle:
        return Throttle(clock, lambda: limit, windows=windows, window_seconds=1)

    def test_nothing_has_passed_and_anything_may(self, clock: ManualClock) -> None:
        throttle = self.throttle(clock)

        assert (throttle.is_exceeded, throttle.delay_ms) == (False, 0)

    def test_a_little_at_once_is_no_high_rate(self, clock: ManualClock) -> None:
        throttle = self.throttle(clock)

        throttle.record(LIMIT)

        assert not throttle.is_exceeded

    def test_what_is_too_much_is_paid_for_by_waiting(self, clock: ManualClock) -> None:
        throttle = self.throttle(clock)

        throttle.record(LIMIT * 3 // 2)
        clock.advance(900)
        left = throttle.delay_ms
        clock.advance(left - 1)
        early = throttle.is_exceeded
        clock.advance(1)

        assert left == 600
        assert early
        assert not throttle.is_exceeded

    def test_it_is_asked_again_after_a_second_at_the_latest(self, clock: ManualClock) -> None:
        throttle = self.throttle(clock)

        throttle.record(100 * LIMIT)

        assert throttle.delay_ms == DELAY_MS_MAX

    def test_old_windows_are_forgotten(self, clock: ManualClock) -> None:
        throttle = self.throttle(clock, windows=2)
        throttle.record(100 * LIMIT)
        clock.advance(1999)
        before = throttle.is_exceeded
        clock.advance(1)

        assert before
        assert not throttle.is_exceeded

    def test_over_a_long_time_the_limit_is_what_passes(self, clock: ManualClock) -> None:
        throttle = self.throttle(clock)
        passed = 0

        for _ in range(60_000 // 10):
            if not throttle.is_exceeded:
                throttle.record(700)
                passed += 700
            clock.advance(10)

        assert 0.9 < passed / 60 / LIMIT < 1.1

    def test_a_limit_of_nothing(self, clock: ManualClock) -> None:
        throttle = self.throttle(clock, 0)

        first = throttle.is_exceeded
        throttle.record(1)

        assert not first
        assert (throttle.is_exceeded, throttle.delay_ms) == (True, DELAY_MS_MAX)

    def test_no_limit(self, clock: ManualClock) -> None:
        throttle = self.throttle(clock, LONG_MAX)

        throttle.record(10**18)

        assert not throttle.is_limited
        assert not throttle.is_exceeded


class TestTheListOfReplicas:
    def config(self, text: str) -> TopicConfig:
        return TopicConfig.from_values(TOPIC_KEYS.parse({LEADER_REPLICATION_THROTTLED_REPLICAS.name: text}))

    def test_partitions_and_brokers(self) -> None:
        listed = self.config("0:101, 3:2").leader_throttled_replicas

        assert listed == ThrottledReplicas(frozenset({(0, 101), (3, 2)}))
        assert (3, 2) in listed
        assert (3, 101) not in listed

    def test_all(self) -> None:
        assert (7, 7) in self.config("*").leader_throttled_replicas

    def test_none(self) -> None:
        assert (0, 1) not in self.config("").leader_throttled_replicas
        assert (0, 1) not in self.config("0:1").follower_throttled_replicas

    @pytest.mark.parametrize("text", ["0", "0:1:2", "a:b", "*,0:1", "-1:2", "0:99999999999"])
    def test_what_is_no_list(self, text: str) -> None:
        with pytest.raises(ConfigError, match="must be the literal"):
            self.config(text)


def limited(node: DataNode, **rates: int) -> ReplicationThrottles:
    """A node whose throttles have these limits, and that uses them."""
    given = {f"{name}.replication.throttled.rate": str(rate) for name, rate in rates.items()}
    values = THROTTLE_KEYS.parse(given)
    throttles = node.partitions.throttles = ReplicationThrottles(NODE, node.clock, lambda: values)
    return throttles


class TestLeading:
    """Broker 2 is in sync, broker 3 is not."""

    @pytest.fixture
    def node(self) -> DataNode:
        node = DataNode()
        configs = {LEADER_REPLICATION_THROTTLED_REPLICAS.name: "0:1"}
        node.create_topic("orders", partitions=2, replicas=(NODE, OTHER, THIRD), isr=(NODE, OTHER), configs=configs)
        for index in (0, 1):
            produced(node.partition("orders", index), WORDS.batch("x" * 500))
        return node

    def fetch(self, node: DataNode, follower: NodeId, index: int = 0, *, max_wait_ms: int = 0) -> object:
        asked = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic="", topic_id=node.partition("orders").topic_id, partitions=[asked])
        request = FetchRequest(
            topics=[topic],
            forgotten_topics_data=[],
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            replica_state=ReplicaState(replica_id=follower, replica_epoch=1),
        )
        return node.ask(fetch, request, 17)

    def has_records(self, answer: object) -> bool:
        assert isinstance(answer, FetchResponse)
        [partition] = answer.responses[0].partitions
        assert partition.error_code == 0
        return bool(partition.records)

    def test_who_is_not_in_sync_gets_nothing_when_it_has_had_too_much(self, node: DataNode) -> None:
        limited(node, leader=100)

        first = self.has_records(self.fetch(node, THIRD))
        second = self.has_records(self.fetch(node, THIRD))
        node.clock.advance(11_000)

        assert (first, second) == (True, False)
        assert self.has_records(self.fetch(node, THIRD))

    def test_who_is_in_sync_gets_all_and_it_counts(self, node: DataNode) -> None:
        limited(node, leader=100)

        assert [self.has_records(self.fetch(node, OTHER)) for _ in range(3)] == [True] * 3
        assert not self.has_records(self.fetch(node, THIRD))

    def test_other_partitions_are_not_held_back(self, node: DataNode) -> None:
        limited(node, leader=100)
        self.fetch(node, THIRD)

        assert self.has_records(self.fetch(node, THIRD, index=1))

    def test_without_a_limit_nobody_is(self, node: DataNode) -> None:
        assert [self.has_records(self.fetch(node, THIRD)) for _ in range(3)] == [True] * 3

    def test_it_waits_as_if_there_were_nothing(self, node: DataNode) -> None:
        limited(node, leader=100)
        self.fetch(node, THIRD)

        waiting = self.fetch(node, THIRD, max_wait_ms=500)
        assert isinstance(waiting, Pending)
        before = waiting.is_complete
        node.timers.advance(500)

        assert not before
        assert not self.has_records(waiting.value)

    def test_a_follower_that_is_held_back_tells_how_far_it_is_all_the_same(self, node: DataNode) -> None:
        throttles = limited(node, leader=0)
        throttles.leader.record(1)
        partition = node.partition("orders")

        self.fetch(node, THIRD)

        read = partition.read_as_follower(THIRD, 0, 1 << 20, broker_epoch=1, log_start_offset=0)
        assert isinstance(read, Fetched)
        assert throttles.holds_back(partition, THIRD)
        assert not throttles.holds_back(partition, OTHER)


class TestFollowing:
    @pytest.fixture
    def node(self) -> DataNode:
        node = DataNode()
        configs = {"follower.replication.throttled.replicas": "0:1"}
        node.create_topic("orders", partitions=2, replicas=(OTHER, NODE), leader=OTHER, configs=configs)
        return node

    def test_what_is_listed_is_left_out_while_it_is_too_much(self, node: DataNode) -> None:
        throttles = limited(node, follower=100)
        listed, other = node.partition("orders", 0), node.partition("orders", 1)

        before = throttles.leaves_out(listed)
        throttles.received(listed, 200)
        after = throttles.leaves_out(listed)

        assert (before, after, throttles.leaves_out(other)) == (False, True, False)
        node.clock.advance(2000)
        assert not throttles.leaves_out(listed)

    def test_what_is_not_listed_does_not_count(self, node: DataNode) -> None:
        throttles = limited(node, follower=100)

        throttles.received(node.partition("orders", 1), 10_000)

        assert not throttles.leaves_out(node.partition("orders", 0))
