"""DeleteTopics (20), v1-6: topics and all their records, by name or by id.

v3 TOPIC_DELETION_DISABLED, which is INVALID_REQUEST before that · v5 error texts, quota errors · v6 by id

A broker passes it on. The active controller's node judges who may before the controller decides. An answer never tells the name
of a topic to a caller that may not describe it, nor whether there is one: its parts are shuffled, so that their places tell
nothing.
"""

from __future__ import annotations

from collections import Counter

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicId, TopicName
from tidelog.model.pending import when_all
from tidelog.wire.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


@handles(DeleteTopicsRequest)
def delete_topics(request: DeleteTopicsRequest, caller: Caller, node: Node) -> Answer[DeleteTopicsResponse]:
    if not node.is_controller_listener(caller.listener_name):
        return node.forward(request, DeleteTopicsResponse, caller)
    asked = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names] + request.topics
    wanted, refused = _well_formed(asked)
    if not caller.may(AclOperation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False):
        problems = [_permission_problem(topic, caller, node) for topic in wanted]
        refused += [problem for problem in problems if problem is not None]
        wanted = [topic for topic, problem in zip(wanted, problems, strict=True) if problem is None]
    # Not before the caller is known to be allowed both: the answer tells which id belongs to which name.
    wanted = _not_named_twice(wanted, refused, node)
    if not wanted:
        node.random.shuffle(refused)
        return DeleteTopicsResponse(throttle_time_ms=0, responses=refused)
    by_name = caller.api_version < 6
    passed_on = DeleteTopicsRequest(
        topics=[] if by_name else wanted,
        topic_names=[topic.name for topic in wanted if topic.name is not None] if by_name else [],
        timeout_ms=request.timeout_ms,
    )

    def answer(decided: list[DeleteTopicsResponse]) -> DeleteTopicsResponse:
        responses = [*decided[0].responses, *refused]
        if caller.api_version < 3:
            for topic in responses:
                if topic.error_code == ErrorCode.TOPIC_DELETION_DISABLED:
                    topic.error_code = ErrorCode.INVALID_REQUEST
        node.random.shuffle(responses)
        return DeleteTopicsResponse(throttle_time_ms=decided[0].throttle_time_ms, responses=responses)

    return when_all([node.forward(passed_on, DeleteTopicsResponse, caller)], answer)


def _well_formed(asked: list[DeleteTopicState]) -> tuple[list[DeleteTopicState], list[DeletableTopicResult]]:
    """The topics that are named once, by name or by id; and what is said of the others."""
    refused: list[DeletableTopicResult] = []
    named: Counter[tuple[str | None, bytes]] = Counter()
    for topic in asked:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            refused.append(_invalid(topic, "Neither topic name nor id were specified."))
        elif topic.name is not None and topic.topic_id != ZERO_UUID:
            refused.append(_invalid(topic, "You may not specify both topic name and topic id."))
        else:
            named[topic.name, topic.topic_id] += 1
    wanted = []
    for (name, topic_id), count in named.items():
        topic = DeleteTopicState(name=name, topic_id=topic_id)
        if count == 1:
            wanted.append(topic)
        else:
            refused.append(_invalid(topic, f"Duplicate topic {'id' if name is None else 'name'}."))
    return wanted, refused


def _not_named_twice(
    wanted: list[DeleteTopicState], refused: list[DeletableTopicResult], node: Node
) -> list[DeleteTopicState]:
    """Without topics that are there under their name and their id: such a one is not deleted, and is told of once."""
    ids = {topic.topic_id for topic in wanted}
    for topic in list(wanted):
        topic_id = None if topic.name is None else node.image.topic_ids.get(TopicName(topic.name))
        if topic_id is not None and topic_id in ids:
            message = "The provided topic name maps to an ID that was already supplied."
            refused.append(_invalid(DeleteTopicState(name=topic.name, topic_id=topic_id), message))
            wanted = [each for each in wanted if each is not topic and each.topic_id != topic_id]
    return wanted


def _permission_problem(topic: DeleteTopicState, caller: Caller, node: Node) -> DeletableTopicResult | None:
    """What a caller that may not delete just any topic is told of one; None if it may delete this one."""
    image = node.image
    if topic.name is None:
        known = image.topics.get(TopicId(topic.topic_id))
        if known is None:
            return _result(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        may_describe = caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, known.name)
        if caller.may(AclOperation.DELETE, ResourceType.TOPIC, known.name):
            return None
        shown = DeleteTopicState(name=known.name if may_describe else None, topic_id=topic.topic_id)
        return _result(shown, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    may_describe = caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
    may_delete = caller.may(AclOperation.DELETE, ResourceType.TOPIC, topic.name)
    if not may_describe:
        return _result(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if may_delete:
        return None
    exists = TopicName(topic.name) in image.topic_ids
    return _result(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _result(topic: DeleteTopicState, error: ErrorCode) -> DeletableTopicResult:
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=error.message)


def _invalid(topic: DeleteTopicState, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=message
    )
