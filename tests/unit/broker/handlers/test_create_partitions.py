from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask
from tidelog.broker.handlers import create_partitions
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

HANDLED = create_partitions


def asked(*names: str) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in names]
    return CreatePartitionsRequest(topics=topics, timeout_ms=5000, validate_only=True)


def adds(request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    results = [CreatePartitionsTopicResult(name=each.name, error_code=ErrorCode.NONE) for each in request.topics]
    return CreatePartitionsResponse(throttle_time_ms=0, results=results)


def told(answer: CreatePartitionsResponse) -> list[tuple[str, int, str | None]]:
    return [(each.name, each.error_code, each.error_message) for each in answer.results]


@pytest.mark.parametrize("version", range(4))
def test_the_controllers_answer_is_passed_back(version: int) -> None:
    node = AdminNode()
    node.controller = adds

    assert told(ask(node, asked("orders"), CreatePartitionsResponse, version)) == [("orders", 0, None)]
    (request,) = node.forwarded
    assert isinstance(request, CreatePartitionsRequest)
    assert (request.timeout_ms, request.validate_only) == (5000, True)


def test_duplicates_and_topics_of_others_are_refused() -> None:
    node = AdminNode()
    node.controller = adds
    denies = Denies((AclOperation.ALTER, ResourceType.TOPIC, "theirs"))

    answer = ask(node, asked("a", "theirs", "a", "b"), CreatePartitionsResponse, 3, authorizer=denies)

    assert told(answer) == [
        ("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("theirs", ErrorCode.TOPIC_AUTHORIZATION_FAILED, None),
        ("b", ErrorCode.NONE, None),
    ]


def test_the_controller_is_not_asked_where_nothing_is_left() -> None:
    node = AdminNode()

    assert told(ask(node, asked("a", "a"), CreatePartitionsResponse, 3))[0][1] == ErrorCode.INVALID_REQUEST
    assert node.forwarded == []
