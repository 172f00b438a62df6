"""CreatePartitions (37), v0-3: more partitions for topics that exist, placed by the controller or as the request says.

v3 quota errors (KIP-599)

A broker passes it on. The active controller's node judges who may ask before the controller decides. Refused topics come first
in the answer.
"""

from __future__ import annotations

from collections import Counter

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import when_all
from tidelog.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


@handles(CreatePartitionsRequest)
def create_partitions(request: CreatePartitionsRequest, caller: Caller, node: Node) -> Answer[CreatePartitionsResponse]:
    if not node.is_controller_listener(caller.listener_name):
        return node.forward(request, CreatePartitionsResponse, caller)
    refused: list[CreatePartitionsTopicResult] = []
    for name, count in Counter(topic.name for topic in request.topics).items():
        if count > 1:
            refused.append(
                CreatePartitionsTopicResult(
                    name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
                )
            )
        elif not caller.may(AclOperation.ALTER, ResourceType.TOPIC, name):
            refused.append(CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    names = {topic.name for topic in refused}
    wanted = [topic for topic in request.topics if topic.name not in names]
    if not wanted:
        return CreatePartitionsResponse(throttle_time_ms=0, results=refused)
    asked = CreatePartitionsRequest(topics=wanted, timeout_ms=request.timeout_ms, validate_only=request.validate_only)

    def answer(decided: list[CreatePartitionsResponse]) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            throttle_time_ms=decided[0].throttle_time_ms, results=[*refused, *decided[0].results]
        )

    return when_all([node.forward(asked, CreatePartitionsResponse, caller)], answer)
