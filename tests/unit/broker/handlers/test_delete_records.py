"""DeleteRecords: the start of a log moves, the answer says where it is, and waits for the other replicas."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.appends import produced
from tests.support.data_node import NODE, OTHER, DataNode, Denying
from tests.support.log_builder import LogBuilder
from tidelog.broker.handlers.delete_records import delete_records
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

BATCHES = LogBuilder()
LATEST = 2


@pytest.fixture
def node() -> DataNode:
    node = DataNode()
    node.create_topic("orders")
    produced(node.partition("orders"), BATCHES.batch("a", "b", "c"))
    return node


def request_for(topic: str, offset: int, index: int = 0, timeout_ms: int = 1000) -> DeleteRecordsRequest:
    wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=timeout_ms)


def ask(
    node: DataNode, offset: int, *, topic: str = "orders", index: int = 0, version: int = LATEST
) -> tuple[int, int]:
    """Error and low watermark."""
    response: Any = node.answered(delete_records, request_for(topic, offset, index), version)
    response = decode(DeleteRecordsResponse, version, encode(response, version))
    (result,) = response.topics[0].partitions
    assert isinstance(result, DeleteRecordsPartitionResult)
    return result.error_code, result.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_start_of_a_log_moves_forward_and_never_back(node: DataNode, version: int) -> None:
    assert ask(node, 2, version=version) == (0, 2)
    assert ask(node, 1, version=version) == (0, 2)
    assert ask(node, -1, version=version) == (0, 3)
    assert node.log("orders").log_start_offset == 3


def test_what_cannot_be_deleted(node: DataNode) -> None:
    node.create_topic("compacted", configs={"cleanup.policy": "compact"})
    node.create_topic("both", configs={"cleanup.policy": "compact,delete"})
    node.create_topic("__consumer_offsets")
    node.create_topic("elsewhere", replicas=(OTHER,), leader=OTHER)

    assert ask(node, 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert ask(node, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert ask(node, 0, index=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert ask(node, 0, topic="x") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert ask(node, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert ask(node, 0, topic="both") == (0, 0)
    assert ask(node, 0, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert ask(node, 0, topic="elsewhere") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_topic_that_the_caller_may_not_delete_from(node: DataNode) -> None:
    node.authorizer = Denying((AclOperation.DELETE, "orders"))

    assert ask(node, 1) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
    assert node.log("orders").log_start_offset == 0


def replicated(node: DataNode) -> Pending[DeleteRecordsResponse]:
    """A deletion that waits for a follower."""
    node.create_topic("copied", replicas=(NODE, OTHER))
    produced(node.partition("copied"), BATCHES.batch("a", "b"))
    follow(node, log_start_offset=0)
    answer = node.ask(delete_records, request_for("copied", 2, timeout_ms=500), LATEST)
    assert isinstance(answer, Pending)
    assert not answer.is_complete
    return answer


def follow(node: DataNode, *, log_start_offset: int) -> None:
    node.partition("copied").read_as_follower(OTHER, 2, 1000, broker_epoch=1, log_start_offset=log_start_offset)


def result_of(answer: Pending[DeleteRecordsResponse]) -> tuple[int, int]:
    (result,) = answer.value.topics[0].partitions
    return result.error_code, result.low_watermark


def test_the_answer_waits_for_the_followers(node: DataNode) -> None:
    answer = replicated(node)

    follow(node, log_start_offset=2)

    assert result_of(answer) == (0, 2)
    assert node.timers.pending == 0


def test_the_answer_does_not_wait_for_ever(node: DataNode) -> None:
    answer = replicated(node)

    node.timers.advance(500)
    follow(node, log_start_offset=2)

    assert result_of(answer) == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_a_leader_that_is_deposed_meanwhile_says_so(node: DataNode) -> None:
    answer = replicated(node)

    node.change("copied", leader=OTHER)

    assert result_of(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
