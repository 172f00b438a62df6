"""Produce: what is appended, what is refused and with which code, and when the answer comes."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.support.data_node import NODE, OTHER, DataNode, Denying
from tests.support.log_builder import LogBuilder
from tidelog.broker.handlers.produce import ADMIN_CLIENT_ID, produce
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicName
from tidelog.model.pending import Pending
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

BATCHES = LogBuilder()
LATEST = 13
BY_NAME = 12


@pytest.fixture
def node() -> DataNode:
    return DataNode()


def request_for(
    node: DataNode,
    *batches: tuple[str, int, bytes | bytearray | None],
    acks: int = -1,
    transactional_id: str | None = None,
    timeout_ms: int = 1000,
) -> ProduceRequest:
    """A request as a decoder makes it, by name and by id."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=node.image.topic_ids.get(TopicName(topic), ZERO_UUID),
                partition_data=[PartitionProduceData(index=index, records=memoryview(records) if records else None)],
            )
            for topic, index, records in batches
        ],
    )


def produced(
    node: DataNode, *batches: tuple[str, int, bytes | bytearray | None], version: int = LATEST, **options: Any
) -> list[PartitionProduceResponse]:
    """The answers for the partitions, of a request that is answered at once; encoded and decoded, as a client sees them."""
    response = node.answered(produce, request_for(node, *batches, **options), version)
    response = decode(ProduceResponse, version, encode(response, version))
    return [partition for topic in response.responses for partition in topic.partition_responses]


def error_of(node: DataNode, records: bytes | bytearray | None, version: int = LATEST, **options: Any) -> ErrorCode:
    (answer,) = produced(node, ("orders", 0, records), version=version, **options)
    return ErrorCode.of(answer.error_code)


# What goes well


@pytest.mark.parametrize("version", range(3, 14))
def test_records_are_appended_and_their_offsets_answered(node: DataNode, version: int) -> None:
    node.create_topic("orders", partitions=2)

    first, second = produced(
        node,
        ("orders", 0, BATCHES.batch("a", "b")),
        ("orders", 1, BATCHES.batch("c")),
        version=version,
    )
    (third,) = produced(node, ("orders", 0, BATCHES.batch("d")), version=version, acks=1)

    assert [each.error_code for each in (first, second, third)] == [0, 0, 0]
    assert [each.base_offset for each in (first, second, third)] == [0, 0, 2]
    assert first.log_append_time_ms == -1
    assert first.log_start_offset == (0 if version >= 5 else -1)
    assert BATCHES.values(node.log("orders", 0)) == ["a", "b", "d"]
    assert BATCHES.values(node.log("orders", 1)) == ["c"]


def test_the_answer_names_its_topics_as_the_request_does(node: DataNode) -> None:
    topic_id = node.create_topic("orders")

    by_name = node.answered(produce, request_for(node, ("orders", 0, BATCHES.batch("a"))), BY_NAME)
    by_id = node.answered(produce, request_for(node, ("orders", 0, BATCHES.batch("a"))), LATEST)

    assert by_name.responses[0].name == "orders"
    assert by_id.responses[0].topic_id == topic_id


def test_a_duplicate_gets_the_first_answer(node: DataNode) -> None:
    node.create_topic("orders")
    batch = BATCHES.batch("a", "b", producer_id=7, producer_epoch=0, base_sequence=0)
    produced(node, ("orders", 0, BATCHES.batch("before")))
    produced(node, ("orders", 0, bytearray(batch)))

    (again,) = produced(node, ("orders", 0, bytearray(batch)))

    assert (again.error_code, again.base_offset) == (0, 1)
    assert node.log("orders").log_end_offset == 3


def test_a_gap_in_the_sequence_is_refused(node: DataNode) -> None:
    node.create_topic("orders")
    error_of(node, BATCHES.batch("a", producer_id=7, producer_epoch=0, base_sequence=0))

    assert error_of(node, BATCHES.batch("b", producer_id=7, producer_epoch=0, base_sequence=2)) is (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )


def test_log_append_time_is_answered(node: DataNode) -> None:
    node.create_topic("orders", configs={"message.timestamp.type": "LogAppendTime"})

    (answer,) = produced(node, ("orders", 0, BATCHES.batch("a", timestamps=[5])))

    assert answer.log_append_time_ms == node.clock.ms


def test_bytes_that_may_not_be_written_to_are_appended_too(node: DataNode) -> None:
    node.create_topic("orders")

    assert error_of(node, bytes(BATCHES.batch("a"))) is ErrorCode.NONE


# acks


def test_without_acks_there_is_no_answer(node: DataNode) -> None:
    node.create_topic("orders")

    assert node.ask(produce, request_for(node, ("orders", 0, BATCHES.batch("a")), acks=0), LATEST) is None

    assert node.log("orders").log_end_offset == 1
    assert not node.connection.is_closed


def test_without_acks_an_error_closes_the_connection(node: DataNode) -> None:
    assert node.ask(produce, request_for(node, ("orders", 0, BATCHES.batch("a")), acks=0), BY_NAME) is None

    assert node.connection.is_closed


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(node: DataNode, acks: int) -> None:
    node.create_topic("orders")

    assert error_of(node, BATCHES.batch("a"), acks=acks) is ErrorCode.INVALID_REQUIRED_ACKS
    assert node.log("orders").log_end_offset == 0


def test_acks_all_waits_for_the_in_sync_replicas(node: DataNode) -> None:
    node.create_topic("orders", replicas=(NODE, OTHER))
    node.create_topic("single")
    request = request_for(node, ("orders", 0, BATCHES.batch("a")), ("single", 0, BATCHES.batch("b")))

    answer = node.ask(produce, request, LATEST)
    assert isinstance(answer, Pending)
    assert not answer.is_complete
    node.partition("orders").read_as_follower(OTHER, 1, 1000, broker_epoch=1, log_start_offset=0)

    assert [topic.partition_responses[0].error_code for topic in answer.value.responses] == [0, 0]
    assert answer.value.responses[0].partition_responses[0].base_offset == 0
    assert node.timers.pending == 0


def test_acks_all_gives_up_after_the_time_out_and_the_records_stay(node: DataNode) -> None:
    node.create_topic("orders", replicas=(NODE, OTHER))
    answer = node.ask(produce, request_for(node, ("orders", 0, BATCHES.batch("a")), timeout_ms=500), LATEST)

    node.timers.advance(499)
    assert not answer.is_complete
    node.timers.advance(1)

    (partition,) = answer.value.responses[0].partition_responses
    assert partition.error_code == ErrorCode.REQUEST_TIMED_OUT
    node.partition("orders").read_as_follower(OTHER, 1, 1000, broker_epoch=1, log_start_offset=0)
    assert partition.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert node.log("orders").high_watermark == 1


def test_acks_one_waits_for_nobody(node: DataNode) -> None:
    node.create_topic("orders", replicas=(NODE, OTHER))

    assert error_of(node, BATCHES.batch("a"), acks=1) is ErrorCode.NONE


def test_acks_all_needs_enough_replicas_in_sync(node: DataNode) -> None:
    node.create_topic("orders", replicas=(NODE, OTHER), isr=(NODE,), configs={"min.insync.replicas": "2"})

    assert error_of(node, BATCHES.batch("a")) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.log("orders").log_end_offset == 0


def test_a_leader_that_is_deposed_while_a_write_waits_says_so(node: DataNode) -> None:
    node.create_topic("orders", replicas=(NODE, OTHER))
    answer = node.ask(produce, request_for(node, ("orders", 0, BATCHES.batch("a"))), LATEST)

    node.change("orders", leader=OTHER)

    assert answer.value.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Where records may not go


def test_an_unknown_topic_or_partition(node: DataNode) -> None:
    node.create_topic("orders")

    answers = produced(node, ("x", 0, BATCHES.batch("a")), ("orders", 1, BATCHES.batch("a")), version=BY_NAME)
    (by_id,) = produced(node, ("x", 0, BATCHES.batch("a")))

    assert [each.error_code for each in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert by_id.base_offset == -1


def test_the_id_of_a_deleted_topic_is_not_taken_for_its_successor(node: DataNode) -> None:
    node.create_topic("orders")
    request = request_for(node, ("orders", 0, BATCHES.batch("a")))
    node.delete_topic("orders")
    node.create_topic("orders")

    response = node.answered(produce, request, LATEST)

    assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [9, 10, 13])
def test_who_asks_the_wrong_broker_is_told_where_to_go(node: DataNode, version: int) -> None:
    node.register_broker(OTHER, "other.example", 9093)
    node.create_topic("orders", replicas=(NODE, OTHER), leader=OTHER)

    response = node.answered(produce, request_for(node, ("orders", 0, BATCHES.batch("a"))), version)
    response = decode(ProduceResponse, version, encode(response, version))

    (partition,) = response.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert partition.current_leader == LeaderIdAndEpoch(leader_id=OTHER, leader_epoch=0)
        assert response.node_endpoints == [NodeEndpoint(node_id=OTHER, host="other.example", port=9093, rack="r1")]


def test_a_failed_disk(node: DataNode) -> None:
    node.create_topic("orders")
    node.disk.fail("pwritev", "*.log", errno.EIO)

    assert error_of(node, BATCHES.batch("a")) is ErrorCode.KAFKA_STORAGE_ERROR
    assert error_of(node, BATCHES.batch("a")) is ErrorCode.KAFKA_STORAGE_ERROR


def test_internal_topics_are_for_brokers_and_kafkas_admin_tools(node: DataNode) -> None:
    node.create_topic("__consumer_offsets")
    request = request_for(node, ("__consumer_offsets", 0, BATCHES.batch("a")))

    refused = node.ask(produce, request, LATEST)
    allowed = node.ask(produce, request, LATEST, client_id=ADMIN_CLIENT_ID)

    assert refused.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert allowed.responses[0].partition_responses[0].error_code == 0


def test_a_topic_that_the_caller_may_not_write_to() -> None:
    node = DataNode(authorizer=Denying((AclOperation.WRITE, "orders")))
    node.create_topic("orders")
    node.create_topic("payments")

    answers = produced(node, ("orders", 0, BATCHES.batch("a")), ("payments", 0, BATCHES.batch("a")))

    assert [each.error_code for each in answers] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0]
    assert node.log("orders").log_end_offset == 0


# Transactions: `test_transactions` has the rest


def transactional() -> bytearray:
    return BATCHES.batch("a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)


def test_transactional_records_need_an_id_that_is_the_callers(node: DataNode) -> None:
    node.create_topic("orders")

    refused = produced(node, ("orders", 0, transactional()), ("orders", 0, BATCHES.batch("a")))
    node.authorizer = Denying((AclOperation.WRITE, "t"))
    denied = produced(node, ("orders", 0, transactional()), transactional_id="t")

    failed = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert [each.error_code for each in (*refused, *denied)] == [failed] * 3


# Many partitions and those who watch them


def test_who_watches_several_partitions_is_told_after_the_last_append(node: DataNode) -> None:
    node.create_topic("orders", partitions=3)
    seen: list[list[int]] = []

    class Watcher:
        is_waiting = True

        def partition_changed(self, _partition: object) -> None:
            seen.append([node.log("orders", index).log_end_offset for index in range(3)])

    watcher = Watcher()
    for index in range(3):
        node.partition("orders", index).watch(watcher)

    produced(node, *[("orders", index, BATCHES.batch("a")) for index in range(3)])

    assert seen == [[1, 1, 1]] * 3
