"""Where consumers are sent: to a replica of their own rack that has what they want, and otherwise nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.appends import produced
from tests.support.data_node import DataNode
from tests.support.log_builder import LogBuilder
from tidelog.broker.handlers.fetch import fetch
from tidelog.model.data_plane_config import DATA_PLANE_KEYS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicName
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

LATEST = 18
BYTES = 1 << 20
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER = "org.apache.kafka.common.replica.LeaderSelector"


@pytest.fixture
def node() -> DataNode:
    """Leads `orders`, with ten records, in room r1; brokers 2 and 3 follow in r2 and have all of it."""
    node = DataNode()
    node.config = DATA_PLANE_KEYS.parse({"replica.selector.class": RACK_AWARE})
    for number, rack in ((1, "r1"), (2, "r2"), (3, "r2"), (4, "r4")):
        node.register_broker(number, f"node-{number}", 9092, rack=rack)
    node.create_topic("orders", replicas=(1, 2, 3, 4))
    builder = LogBuilder()
    for _ in range(10):
        produced(node.partition("orders"), builder.batch("x"))
    for number in (2, 3, 4):
        follow(node, number, 10)
    return node


def follow(node: DataNode, number: int, offset: int, log_start_offset: int = 0) -> None:
    node.partition("orders").read_as_follower(
        NodeId(number),
        offset,
        BYTES,
        broker_epoch=number,
        log_start_offset=log_start_offset,
        current_leader_epoch=0,
        last_fetched_epoch=0,
    )


def ask(
    node: DataNode, *, rack: str = "r2", offset: int = 5, version: int = LATEST, wait_ms: int = 500, **fields: Any
) -> PartitionData:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=BYTES, **fields)
    topic = FetchTopic(topic="orders", topic_id=node.image.topic_ids[TopicName("orders")], partitions=[partition])
    request = FetchRequest(
        topics=[topic],
        forgotten_topics_data=[],
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=BYTES,
        session_epoch=-1,
        rack_id=rack,
    )
    answer: FetchResponse = node.answered(fetch, request, version)
    return answer.responses[0].partitions[0]


def size(data: PartitionData) -> int:
    return len(data.records) if isinstance(data.records, bytes) else getattr(data.records, "count", 0)


def test_a_consumer_is_sent_to_its_own_rack_at_once_and_with_nothing(node: DataNode) -> None:
    # At the end there would be something to wait for.
    data = ask(node, offset=10)
    assert (data.preferred_read_replica, size(data), data.error_code) == (3, 0, 0)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (10, 10, 0)


def test_the_one_that_is_furthest_is_chosen(node: DataNode) -> None:
    produced(node.partition("orders"), LogBuilder().batch("y"))
    follow(node, 2, 11)
    assert ask(node).preferred_read_replica == 2


@pytest.mark.parametrize("rack", ["r1", "", "nowhere"])
def test_who_is_with_the_leader_or_nowhere_reads_here(node: DataNode, rack: str) -> None:
    data = ask(node, rack=rack)
    assert data.preferred_read_replica == -1
    assert size(data) > 0


@pytest.mark.parametrize("selector", ["", LEADER])
def test_without_the_selector_all_read_from_the_leader(node: DataNode, selector: str) -> None:
    node.config = DATA_PLANE_KEYS.parse({"replica.selector.class": selector})
    assert ask(node).preferred_read_replica == -1


def test_versions_before_eleven_cannot_be_sent_anywhere(node: DataNode) -> None:
    data = ask(node, version=10)
    assert data.preferred_read_replica == -1
    assert size(data) > 0


def test_a_replica_that_lags_or_begins_later_or_is_gone_is_not_chosen(node: DataNode) -> None:
    produced(node.partition("orders"), LogBuilder().batch("y"))
    assert ask(node, offset=11, wait_ms=0).preferred_read_replica == -1
    follow(node, 3, 11, log_start_offset=7)
    assert ask(node, offset=5).preferred_read_replica == 2
    node.change("orders", isr=[1, 3, 4])
    assert ask(node, offset=5).preferred_read_replica == -1
    assert ask(node, offset=8).preferred_read_replica == 3
    node.register_broker(3, "node-3", 9092, rack="r2", fenced=True)
    assert ask(node, offset=8).preferred_read_replica == -1


def test_an_epoch_that_is_over_is_still_an_error(node: DataNode) -> None:
    assert ask(node, current_leader_epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_follower_sends_nobody_on(node: DataNode) -> None:
    node.change("orders", leader=2)
    node.register_broker(1, "node-1", 9092, rack="r9")
    data = ask(node, offset=0)
    assert data.preferred_read_replica == -1
