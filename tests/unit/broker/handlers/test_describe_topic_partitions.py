from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import DIRECTORY, AdminNode, Denies, ask, broker, topic, topic_id_of
from tidelog.broker.handlers import describe_topic_partitions
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.config import ConfigKeys, ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.metadata_config import MAX_REQUEST_PARTITION_SIZE_LIMIT
from tidelog.wire.messages.topics import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

HANDLED = describe_topic_partitions


def described(
    node: AdminNode,
    *names: str,
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
    authorizer: Denies | None = None,
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return ask(node, request, DescribeTopicPartitionsResponse, 0, authorizer=authorizer)


def pages(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int, list[int]]]:
    return [(each.name, each.error_code, [p.partition_index for p in each.partitions]) for each in answer.topics]


def next_of(answer: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = answer.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def node_with_topics() -> AdminNode:
    return AdminNode(broker(1), *topic("c", 2), *topic("a", 3), *topic("__consumer_offsets"))


def test_a_partition_is_told_with_its_eligible_leaders() -> None:
    node = AdminNode(
        broker(1),
        *topic(
            "orders",
            replicas=[1, 2],
            isr=[1],
            directories=[DIRECTORY] * 2,
            eligible_leader_replicas=[2],
            last_known_elr=[1],
        ),
    )

    (found,) = described(node, "orders").topics

    assert (found.topic_id, found.is_internal, found.topic_authorized_operations) == (
        topic_id_of("orders"),
        False,
        3576,
    )
    (partition,) = found.partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 4)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1, 2], [1], [2])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([2], [1])


def test_a_leader_out_of_reach_is_not_named() -> None:
    node = AdminNode(broker(1, listeners=("INSIDE",)), *topic("orders"))

    partition = described(node, "orders").topics[0].partitions[0]

    assert (partition.error_code, partition.leader_id) == (ErrorCode.NONE, -1)


def test_topics_come_in_the_order_of_their_names_with_errors_in_place() -> None:
    answer = described(node_with_topics(), "nope", "c", "a b", "a", "a")

    assert pages(answer) == [("a", 0, [0, 1, 2]), ("a b", 17, []), ("c", 0, [0, 1]), ("nope", 3, [])]
    assert next_of(answer) is None


def test_no_topics_means_all() -> None:
    answer = described(node_with_topics())

    assert [(each.name, each.is_internal) for each in answer.topics] == [
        ("__consumer_offsets", True),
        ("a", False),
        ("c", False),
    ]


@pytest.mark.parametrize(
    ("limit", "cursor", "found", "following"),
    [
        (2, None, [("a", 0, [0, 1])], ("a", 2)),
        (2, ("a", 2), [("a", 0, [2]), ("c", 0, [0])], ("c", 1)),
        (2, ("c", 1), [("c", 0, [1])], None),
        (3, None, [("a", 0, [0, 1, 2])], ("c", 0)),
        (0, None, [("a", 0, [0])], ("a", 1)),
        (9, ("c", 7), [("c", 0, [])], None),
    ],
)
def test_a_page_ends_with_a_cursor_to_the_next(
    limit: int,
    cursor: tuple[str, int] | None,
    found: list[tuple[str, int, list[int]]],
    following: tuple[str, int] | None,
) -> None:
    answer = described(node_with_topics(), "a", "c", limit=limit, cursor=cursor)

    assert (pages(answer), next_of(answer)) == (found, following)


def test_a_cursor_to_a_topic_that_is_gone_goes_on_with_the_next_where_all_are_asked_for() -> None:
    answer = described(node_with_topics(), cursor=("b", 1))

    assert pages(answer) == [("c", 0, [0, 1])]


def test_the_broker_has_a_limit_of_its_own() -> None:
    node = node_with_topics()
    name = MAX_REQUEST_PARTITION_SIZE_LIMIT.name
    node.config = ConfigValues(ConfigKeys([MAX_REQUEST_PARTITION_SIZE_LIMIT]), {name: 1})

    assert next_of(described(node, "a")) == ("a", 1)


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
def test_a_cursor_that_points_nowhere_refuses_the_request(cursor: tuple[str, int]) -> None:
    answer = described(node_with_topics(), "a", "c", cursor=cursor)

    assert pages(answer) == [("a", ErrorCode.INVALID_REQUEST, []), ("c", ErrorCode.INVALID_REQUEST, [])]


def test_topics_that_a_caller_may_not_describe_come_last_or_not_at_all() -> None:
    denies = Denies((AclOperation.DESCRIBE, ResourceType.TOPIC, "a"))

    named = described(node_with_topics(), "a", "c", authorizer=denies)

    assert pages(named) == [("c", 0, [0, 1]), ("a", ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])]
    assert named.topics[1].topic_id == bytes(16)
    assert [each.name for each in described(node_with_topics(), authorizer=denies).topics] == [
        "__consumer_offsets",
        "c",
    ]
