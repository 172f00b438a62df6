"""CreateTopics (19), v2-7: new topics, placed by the controller or as the request says; or a look at what would come of it.

v4 -1 for the broker's default counts (KIP-464) · v5 the configuration of the new topic in the answer (KIP-525)
v6 quota errors (KIP-599) · v7 the new topic's id

A broker passes it on. The active controller's node judges who may ask for what before the controller decides. A name that comes
twice, or that belongs to the metadata log, is refused before that. Refused topics come last in the answer.
"""

from __future__ import annotations

from collections import Counter

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.model.pending import when_all
from tidelog.storage.log_directory import METADATA_TOPIC
from tidelog.wire.messages.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


@handles(CreateTopicsRequest)
def create_topics(request: CreateTopicsRequest, caller: Caller, node: Node) -> Answer[CreateTopicsResponse]:
    if not node.is_controller_listener(caller.listener_name):
        return node.forward(request, CreateTopicsResponse, caller)
    counts = Counter(topic.name for topic in request.topics)
    may_create_any = caller.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False)
    refused: list[CreatableTopicResult] = []
    for name, count in counts.items():
        if count > 1:
            refused.append(_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif name == METADATA_TOPIC:
            refused.append(
                _refused(name, ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
            )
        elif not may_create_any and not caller.may(AclOperation.CREATE, ResourceType.TOPIC, name):
            refused.append(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
    # Asked of names that are refused too, as in Kafka, and before anything is created.
    described = {name for name, count in counts.items() if count == 1 and _is_described(name, caller)}
    names = {topic.name for topic in refused}
    wanted = [topic for topic in request.topics if topic.name not in names]
    if not wanted:
        return CreateTopicsResponse(throttle_time_ms=0, topics=refused)
    asked = CreateTopicsRequest(topics=wanted, timeout_ms=request.timeout_ms, validate_only=request.validate_only)

    def answer(decided: list[CreateTopicsResponse]) -> CreateTopicsResponse:
        for topic in decided[0].topics:
            if topic.error_code == ErrorCode.NONE and topic.name not in described:
                _hide_configs(topic)
        return CreateTopicsResponse(throttle_time_ms=decided[0].throttle_time_ms, topics=[*decided[0].topics, *refused])

    return when_all([node.forward(asked, CreateTopicsResponse, caller)], answer)


def _is_described(name: str, caller: Caller) -> bool:
    """A caller may be allowed to create a topic and yet not to see what has become of it."""
    return name != METADATA_TOPIC and caller.may(
        AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, logs_denied=False
    )


def _hide_configs(topic: CreatableTopicResult) -> None:
    topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic.num_partitions = topic.replication_factor = -1
    topic.configs = []


def _refused(name: str, error: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, topic_id=ZERO_UUID, error_code=error, error_message=message, configs=[])
