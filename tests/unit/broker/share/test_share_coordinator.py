"""The share coordinator of a node: its requests, who may send them, its log over a restart, and what is deleted from that."""

from __future__ import annotations

import pytest

from tests.support.data_node import Denying
from tests.unit.broker.share_node import ShareNode
from tidelog.broker.handlers.find_coordinator import find_coordinator
from tidelog.broker.handlers.share_group_state import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from tidelog.broker.share.persister import PersisterError, ShareState, StateBatch
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName
from tidelog.model.internal_topics import SHARE_GROUP_STATE
from tidelog.wire.messages import share_group_state as wire
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

SHARE = 2


class _Orders:
    """A node with a topic, of which a group keeps where it is."""

    def __init__(self, node: ShareNode) -> None:
        self.node = node
        node.create_topic("orders", partitions=2)
        self.topic_id: TopicId = node.image.topic_ids[TopicName("orders")]

    def key(self, partition: int = 0) -> SharePartitionKey:
        return SharePartitionKey("workers", self.topic_id, PartitionIndex(partition))

    def initialise(self, *partitions: int, epoch: int = 1, start: int = 0) -> list[ErrorCode]:
        asked = [wire.PartitionData(partition=each, state_epoch=epoch, start_offset=start) for each in partitions]
        request = wire.InitializeShareGroupStateRequest(
            group_id="workers", topics=[wire.InitializeStateData(topic_id=self.topic_id, partitions=asked)]
        )
        answer = self.node.tell(initialize_share_group_state, request, wire.InitializeShareGroupStateResponse, 0)
        return [ErrorCode.of(each.error_code) for each in answer.results[0].partitions]

    def read(self, partition: int = 0, leader_epoch: int = 0) -> ShareState | PersisterError:
        return self.node.persister.read("workers", self.topic_id, PartitionIndex(partition), leader_epoch).value

    def write(self, first: int, last: int, partition: int = 0) -> PersisterError | None:
        return self.node.persister.write(
            "workers", self.topic_id, PartitionIndex(partition), 0, 1, -1, 0, [StateBatch(first, last, 2, 1)]
        ).value


@pytest.fixture
def orders() -> _Orders:
    return _Orders(ShareNode())


def test_a_state_is_what_was_written_also_after_a_crash(orders: _Orders) -> None:
    assert orders.initialise(0, 1) == [ErrorCode.NONE] * 2
    assert orders.write(3, 5) is None

    before = orders.read()
    orders.node.restart_share_coordinator()

    assert before == orders.read() == ShareState(1, 0, (StateBatch(3, 5, 2, 1),))
    assert orders.read(1) == ShareState(1, 0, ())


def test_what_is_not_known_is_answered_for_its_partition_alone(orders: _Orders) -> None:
    assert orders.initialise(0, 7) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_all_five_requests_reach_the_same_state(orders: _Orders) -> None:
    node, topic_id = orders.node, orders.topic_id
    orders.initialise(0, start=4)
    changed = wire.WriteShareGroupStatePartitionData(
        partition=0,
        state_epoch=1,
        leader_epoch=0,
        start_offset=6,
        delivery_complete_count=1,
        state_batches=[wire.StateBatch(first_offset=7, last_offset=7, delivery_state=2, delivery_count=1)],
    )
    written = node.tell(
        write_share_group_state,
        wire.WriteShareGroupStateRequest(
            group_id="workers", topics=[wire.WriteStateData(topic_id=topic_id, partitions=[changed])]
        ),
        wire.WriteShareGroupStateResponse,
        1,
    )
    read = node.tell(
        read_share_group_state,
        wire.ReadShareGroupStateRequest(
            group_id="workers",
            topics=[
                wire.ReadStateData(
                    topic_id=topic_id, partitions=[wire.ReadShareGroupStatePartitionData(partition=0, leader_epoch=0)]
                )
            ],
        ),
        wire.ReadShareGroupStateResponse,
        0,
    )
    asked = [wire.ReadShareGroupStateSummaryPartitionData(partition=each, leader_epoch=0) for each in (0, 1)]
    summed_up = node.tell(
        read_share_group_state_summary,
        wire.ReadShareGroupStateSummaryRequest(
            group_id="workers", topics=[wire.ReadStateSummaryData(topic_id=topic_id, partitions=asked)]
        ),
        wire.ReadShareGroupStateSummaryResponse,
        1,
    )
    deleted = node.tell(
        delete_share_group_state,
        wire.DeleteShareGroupStateRequest(
            group_id="workers",
            topics=[
                wire.DeleteStateData(
                    topic_id=topic_id, partitions=[wire.DeleteShareGroupStatePartitionData(partition=0)]
                )
            ],
        ),
        wire.DeleteShareGroupStateResponse,
        0,
    )

    assert written.results[0].partitions[0].error_code == deleted.results[0].partitions[0].error_code == 0
    found = read.results[0].partitions[0]
    assert (found.start_offset, [each.first_offset for each in found.state_batches]) == (6, [7])
    offsets = [(each.start_offset, each.delivery_complete_count) for each in summed_up.results[0].partitions]
    assert offsets == [(6, 1), (-1, -1)]
    refused = orders.read()
    assert isinstance(refused, PersisterError)
    assert refused.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("group_id", ["", "workers"])
def test_a_request_about_nothing_is_answered_with_nothing(orders: _Orders, group_id: str) -> None:
    topics = [wire.ReadStateData(topic_id=orders.topic_id, partitions=[])]
    request = wire.ReadShareGroupStateRequest(group_id=group_id, topics=topics)

    answer = orders.node.tell(read_share_group_state, request, wire.ReadShareGroupStateResponse, 0)

    assert answer.results == []


def test_brokers_alone_may_ask() -> None:
    orders = _Orders(ShareNode(authorizer=Denying((AclOperation.CLUSTER_ACTION, None))))

    assert orders.initialise(0, 1) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    assert _found(orders, str(orders.key())).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _found(orders: _Orders, key: str) -> Coordinator:
    request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])
    return orders.node.tell(find_coordinator, request, FindCoordinatorResponse, 6).coordinators[0]


def test_the_coordinator_of_a_share_partition_is_found_by_its_key(orders: _Orders) -> None:
    found = _found(orders, str(orders.key()))

    assert (found.error_code, found.node_id) == (ErrorCode.NONE, orders.node.node_id)
    assert _found(orders, "workers").error_code == ErrorCode.INVALID_REQUEST


def test_what_no_state_needs_is_deleted_from_the_log_in_time(orders: _Orders) -> None:
    orders.initialise(0)
    for offset in range(3):
        orders.write(offset, offset)
    orders.initialise(0, epoch=2)
    starts = [_log_start(orders)]

    orders.node.timers.advance(300_000)
    starts.append(_log_start(orders))

    assert starts == [0, 4]
    assert orders.read() == ShareState(2, 0, ())


def _log_start(orders: _Orders) -> int:
    """Where the log begins that has the state."""
    logs = [partition.log for partition in orders.node.partitions.named(SHARE_GROUP_STATE).values()]
    (used,) = [log for log in logs if log is not None and log.log_end_offset]
    return used.log_start_offset


def test_a_deleted_topic_takes_its_states_with_it(orders: _Orders) -> None:
    orders.initialise(0, 1)

    orders.node.delete_topic("orders")

    assert sum(shard.state_count for shard in orders.node.share_coordinator.shards()) == 0


def test_writes_are_counted_and_timed(orders: _Orders) -> None:
    orders.initialise(0)
    orders.write(3, 5)
    orders.write(6, 6)

    coordinator = orders.node.share_coordinator
    assert (coordinator.write_count, coordinator.write_ms.count) == (2, 2)
    assert orders.node.persister.queued_bytes == 0
