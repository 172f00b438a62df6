from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask, broker, topic, topic_id_of
from tidelog.broker.handlers import delete_topics
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

HANDLED = delete_topics
ANYWHERE = (AclOperation.DELETE, ResourceType.CLUSTER, None)
UNKNOWN = b"x" * 16


def by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=ZERO_UUID)


def by_id(topic_id: bytes) -> DeleteTopicState:
    return DeleteTopicState(name=None, topic_id=topic_id)


def deletes(request: DeleteTopicsRequest, error: ErrorCode = ErrorCode.NONE) -> DeleteTopicsResponse:
    topics = request.topics + [by_name(name) for name in request.topic_names]
    return DeleteTopicsResponse(
        throttle_time_ms=0,
        responses=[
            DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=error, error_message=None)
            for each in topics
        ],
    )


def asked(
    node: AdminNode, *topics: DeleteTopicState, version: int = 6, authorizer: Denies | None = None
) -> list[tuple[str | None, bytes, int, str | None]]:
    request = DeleteTopicsRequest(
        topics=list(topics) if version >= 6 else [],
        topic_names=[] if version >= 6 else [each.name or "" for each in topics],
        timeout_ms=5000,
    )
    answer = ask(node, request, DeleteTopicsResponse, version, authorizer=authorizer)
    told = [(each.name, each.topic_id, each.error_code, each.error_message) for each in answer.responses]
    # The order tells nothing.
    return sorted(told, key=repr)


def node_with_topics() -> AdminNode:
    node = AdminNode(broker(1), *topic("mine"), *topic("theirs"))
    node.controller = deletes
    return node


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_passed_on_by_name(version: int) -> None:
    node = node_with_topics()

    assert asked(node, by_name("mine"), version=version)[0][0] == "mine"

    (request,) = node.forwarded
    assert isinstance(request, DeleteTopicsRequest)
    assert request.topic_names == ([] if version == 6 else ["mine"])
    assert [each.name for each in request.topics] == (["mine"] if version == 6 else [])


def test_an_id_is_passed_on_even_if_this_broker_has_not_heard_of_it() -> None:
    node = node_with_topics()

    asked(node, by_id(UNKNOWN))

    assert node.forwarded[0].topics == [by_id(UNKNOWN)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        ([by_id(ZERO_UUID)], (None, ZERO_UUID, 42, "Neither topic name nor id were specified.")),
        (
            [DeleteTopicState(name="mine", topic_id=UNKNOWN)],
            ("mine", UNKNOWN, 42, "You may not specify both topic name and topic id."),
        ),
        ([by_name("mine"), by_name("mine")], ("mine", ZERO_UUID, 42, "Duplicate topic name.")),
        ([by_id(UNKNOWN), by_id(UNKNOWN)], (None, UNKNOWN, 42, "Duplicate topic id.")),
        (
            [by_name("mine"), by_id(topic_id_of("mine"))],
            ("mine", topic_id_of("mine"), 42, "The provided topic name maps to an ID that was already supplied."),
        ),
    ],
)
def test_mistakes_are_refused_once_and_not_passed_on(
    topics: list[DeleteTopicState], told: tuple[str | None, bytes, int, str]
) -> None:
    node = node_with_topics()

    assert asked(node, *topics) == [told]
    assert node.forwarded == []


def test_other_topics_of_the_same_request_are_deleted() -> None:
    told = asked(node_with_topics(), by_name(""), by_name(""), by_name("theirs"), by_id(topic_id_of("mine")))

    assert [(name, error) for name, _, error, _ in told] == [("", 42), ("theirs", 0), (None, 0)]


def test_without_permission_nobody_learns_whether_a_topic_exists() -> None:
    node = node_with_topics()
    denies = Denies(
        ANYWHERE,
        (AclOperation.DELETE, ResourceType.TOPIC, None),
        (AclOperation.DESCRIBE, ResourceType.TOPIC, None),
    )

    told = asked(node, by_name("mine"), by_name("nope"), by_id(topic_id_of("mine")), authorizer=denies)

    assert [(name, error) for name, _, error, _ in told] == [("mine", 29), ("nope", 29), (None, 29)]
    assert node.forwarded == []


def test_who_may_describe_but_not_delete_is_told_what_does_not_exist() -> None:
    node = node_with_topics()
    denies = Denies(ANYWHERE, (AclOperation.DELETE, ResourceType.TOPIC, None))

    told = asked(node, by_name("mine"), by_name("nope"), by_id(topic_id_of("mine")), by_id(UNKNOWN), authorizer=denies)

    assert [(name, error) for name, _, error, _ in told] == [
        ("mine", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("mine", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert node.forwarded == []


def test_permission_on_a_topic_is_enough() -> None:
    node = node_with_topics()
    denies = Denies(ANYWHERE, (AclOperation.DELETE, ResourceType.TOPIC, "theirs"))

    told = asked(node, by_name("theirs"), by_id(topic_id_of("mine")), authorizer=denies)

    assert [(name, error) for name, _, error, _ in told] == [("theirs", 29), (None, 0)]


@pytest.mark.parametrize(("version", "error"), [(1, 42), (2, 42), (3, 73), (6, 73)])
def test_the_error_for_deletion_being_switched_off_is_known_from_v3_on(version: int, error: int) -> None:
    node = node_with_topics()
    node.controller = lambda request: deletes(request, ErrorCode.TOPIC_DELETION_DISABLED)

    assert asked(node, by_name("mine"), version=version)[0][2] == error


def test_the_places_of_the_answers_tell_nothing() -> None:
    node = node_with_topics()
    names = [by_name(f"t{number}") for number in range(20)]
    denies = Denies(ANYWHERE, (AclOperation.DESCRIBE, ResourceType.TOPIC, None))
    request = DeleteTopicsRequest(topics=names, topic_names=[], timeout_ms=5000)

    answer = ask(node, request, DeleteTopicsResponse, 6, authorizer=denies)

    told = [each.name for each in answer.responses]
    assert sorted(told, key=str) == sorted((each.name for each in names), key=str)
    assert told != [each.name for each in names]
