from __future__ import annotations

import logging

import pytest

from tests.unit.broker.admin_node import AdminNode, caller_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicName
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

CALLER = caller_of(MetadataRequest(topics=[], include_topic_authorized_operations=False), 12)
ORDERS, PAYMENTS = TopicName("orders"), TopicName("payments")


def response(name: str, error: ErrorCode, message: str | None = None) -> CreateTopicsResponse:
    result = CreatableTopicResult(name=name, topic_id=ZERO_UUID, error_code=error, error_message=message, configs=[])
    return CreateTopicsResponse(throttle_time_ms=0, topics=[result])


def names(node: AdminNode) -> list[list[str]]:
    return [
        [topic.name for topic in request.topics]
        for request in node.forwarded
        if isinstance(request, CreateTopicsRequest)
    ]


def test_a_topic_is_created_once_until_the_controller_has_answered() -> None:
    node = AdminNode()

    node.auto_topics.create([ORDERS], CALLER)
    node.auto_topics.create([ORDERS, PAYMENTS], CALLER)
    assert names(node) == [["orders"], ["payments"]]
    assert node.auto_topics.under_way == {ORDERS, PAYMENTS}

    node.unanswered[0].complete(response("orders", ErrorCode.NONE))
    node.auto_topics.create([ORDERS], CALLER)
    assert names(node) == [["orders"], ["payments"], ["orders"]]


def test_counts_that_are_not_configured_are_left_to_the_controller() -> None:
    node = AdminNode(static={})

    node.auto_topics.create([ORDERS], CALLER)

    (request,) = node.forwarded
    assert isinstance(request, CreateTopicsRequest)
    assert (request.topics[0].num_partitions, request.topics[0].replication_factor) == (-1, -1)


def test_the_configured_counts_are_asked_for() -> None:
    node = AdminNode(static={"num.partitions": "6"})

    node.auto_topics.create([ORDERS], CALLER)

    (request,) = node.forwarded
    assert isinstance(request, CreateTopicsRequest)
    assert request.topics[0].num_partitions == 6
    assert not request.validate_only


def test_kafkas_own_topics_are_left_to_those_who_write_them() -> None:
    node = AdminNode()

    answers = node.auto_topics.create([TopicName("__consumer_offsets"), TopicName("__cluster_metadata")], CALLER)

    assert set(answers.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert node.forwarded == []


@pytest.mark.parametrize(
    ("error", "is_told"),
    [(ErrorCode.NONE, False), (ErrorCode.TOPIC_ALREADY_EXISTS, False), (ErrorCode.INVALID_REPLICATION_FACTOR, True)],
)
def test_a_creation_that_fails_is_in_the_log(error: ErrorCode, is_told: bool, caplog: pytest.LogCaptureFixture) -> None:
    node = AdminNode()
    node.controller = lambda _: response("orders", error, "only 1 broker(s) are registered")

    with caplog.at_level(logging.WARNING):
        node.auto_topics.create([ORDERS], CALLER)

    assert ("only 1 broker(s) are registered" in caplog.text) is is_told
    assert node.auto_topics.under_way == frozenset()
