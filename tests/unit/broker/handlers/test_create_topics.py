from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask, topic_id_of
from tidelog.broker.handlers import create_topics
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

HANDLED = create_topics
ANYWHERE = (AclOperation.CREATE, ResourceType.CLUSTER, None)


def asked(*names: str, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=validate_only)


def creates(request: CreateTopicsRequest) -> CreateTopicsResponse:
    config = CreatableTopicConfigs(name="retention.ms", value="1", read_only=False, config_source=1, is_sensitive=False)
    topics = [
        CreatableTopicResult(
            name=each.name,
            topic_id=topic_id_of(each.name),
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=each.num_partitions,
            replication_factor=each.replication_factor,
            configs=[config],
        )
        for each in request.topics
    ]
    return CreateTopicsResponse(throttle_time_ms=0, topics=topics)


def node_that(controller: Callable[[CreateTopicsRequest], CreateTopicsResponse] = creates) -> AdminNode:
    node = AdminNode()
    node.controller = controller
    return node


def told(answer: CreateTopicsResponse) -> list[tuple[str, int, str | None]]:
    return [(each.name, each.error_code, each.error_message) for each in answer.topics]


@pytest.mark.parametrize("version", range(2, 8))
def test_the_controllers_answer_is_passed_back(version: int) -> None:
    node = node_that()

    answer = ask(node, asked("orders", validate_only=True), CreateTopicsResponse, version)

    assert told(answer) == [("orders", 0, None)]
    assert answer.topics[0].num_partitions == (2 if version >= 5 else -1)
    (request,) = node.forwarded
    assert isinstance(request, CreateTopicsRequest)
    assert (request.validate_only, request.timeout_ms, len(request.topics)) == (True, 5000, 1)


def test_a_name_that_comes_twice_and_the_metadata_logs_are_refused() -> None:
    node = node_that()

    answer = ask(node, asked("a", "b", "a", "__cluster_metadata"), CreateTopicsResponse, 7)

    assert told(answer) == [
        ("b", 0, None),
        ("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        (
            "__cluster_metadata",
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    ]
    assert answer.topics[1].configs == []


def test_creation_takes_permission_on_the_cluster_or_the_topic() -> None:
    node = node_that()
    denies = Denies(ANYWHERE, (AclOperation.CREATE, ResourceType.TOPIC, "theirs"))

    answer = ask(node, asked("mine", "theirs"), CreateTopicsResponse, 7, authorizer=denies)

    assert told(answer) == [
        ("mine", 0, None),
        ("theirs", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."),
    ]
    assert ask(node, asked("theirs"), CreateTopicsResponse, 7, authorizer=Denies(ANYWHERE)).topics[0].error_code == 0


def test_the_controller_is_not_asked_where_nothing_is_left() -> None:
    node = node_that()
    denies = Denies(ANYWHERE, (AclOperation.CREATE, ResourceType.TOPIC, None))

    ask(node, asked("a"), CreateTopicsResponse, 7, authorizer=denies)

    assert node.forwarded == []


def test_what_has_become_of_a_topic_is_hidden_from_those_who_may_not_see_its_configuration() -> None:
    denies = Denies((AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "theirs"))

    mine, theirs = ask(node_that(), asked("mine", "theirs"), CreateTopicsResponse, 7, authorizer=denies).topics

    assert (mine.num_partitions, mine.topic_config_error_code, len(mine.configs or ())) == (2, 0, 1)
    assert (theirs.num_partitions, theirs.replication_factor, theirs.configs) == (-1, -1, [])
    assert theirs.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (theirs.error_code, theirs.topic_id) == (0, topic_id_of("theirs"))


def test_the_answer_waits_for_the_controller() -> None:
    node = AdminNode()

    with pytest.raises(LookupError):
        ask(node, asked("orders"), CreateTopicsResponse, 7)

    assert len(node.unanswered) == 1
