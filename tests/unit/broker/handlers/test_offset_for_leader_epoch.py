"""OffsetForLeaderEpoch: where an epoch ends in this log, for whoever may ask."""

from __future__ import annotations

import pytest

from tests.support.appends import produced
from tests.support.data_node import NODE, OTHER, DataNode, Denying
from tests.support.log_builder import LogBuilder
from tidelog.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

BATCHES = LogBuilder()


@pytest.fixture
def node() -> DataNode:
    """A log with two records of epoch 0 and one of epoch 3."""
    node = DataNode()
    node.create_topic("orders", replicas=(NODE, OTHER))
    partition = node.partition("orders")
    produced(partition, BATCHES.batch("a", "b"))
    for _ in range(3):
        node.change("orders", leader=NODE)
    produced(partition, BATCHES.batch("c"))
    return node


def ask(
    node: DataNode, epoch: int, *, current: int = -1, topic: str = "orders", index: int = 0, version: int = 4
) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    response = node.answered(offset_for_leader_epoch, request, version)
    response = decode(OffsetForLeaderEpochResponse, version, encode(response, version))
    (answer,) = response.topics[0].partitions
    assert isinstance(answer, EpochEndOffset)
    return answer


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_an_epoch_ends(node: DataNode, version: int) -> None:
    ends = [ask(node, epoch, version=version) for epoch in (0, 1, 3, 4, -1)]

    assert [(each.leader_epoch, each.end_offset) for each in ends] == [(0, 2), (0, 2), (3, 3), (-1, -1), (-1, -1)]
    assert [each.error_code for each in ends] == [0] * 5


def test_who_is_behind_and_who_asks_the_wrong_broker(node: DataNode) -> None:
    assert ask(node, 0, current=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(node, 0, current=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(node, 0, current=3).error_code == 0
    assert ask(node, 0, topic="x").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(node, 0, index=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.change("orders", leader=OTHER)
    assert ask(node, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_brokers_may_ask_for_any_topic_and_others_for_those_they_may_describe(node: DataNode) -> None:
    describe, act = (AclOperation.DESCRIBE, "orders"), (AclOperation.CLUSTER_ACTION, None)

    node.authorizer = Denying(describe)
    assert ask(node, 0).error_code == 0
    node.authorizer = Denying(act)
    assert ask(node, 0).error_code == 0
    node.authorizer = Denying(act, describe)
    assert ask(node, 0).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
