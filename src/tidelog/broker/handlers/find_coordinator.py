"""FindCoordinator (10), v0-6: the broker that keeps a group, or the transactions of an id.

v1 kinds of keys · v4 several keys · v5 TRANSACTION_ABORTABLE · v6 share partitions

The first to ask brings the coordinators' topic into being, and waits for it (`internal_topics`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from tidelog.broker.cluster.endpoints import NO_NODE, endpoint_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicName
from tidelog.model.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tidelog.model.pending import when_all
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

SEVERAL_KEYS_VERSION = 4
SHARE_VERSION = 6


class KeyType(IntEnum):
    """What a key is the name of."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@handles(FindCoordinatorRequest)
def find_coordinator(request: FindCoordinatorRequest, caller: Caller, node: Node) -> Answer[FindCoordinatorResponse]:
    keys = request.coordinator_keys if caller.api_version >= SEVERAL_KEYS_VERSION else [request.key]
    problems = {key: _problem(key, request.key_type, caller) for key in keys}
    if all(problems.values()):
        return _answer(keys, problems, ErrorCode.NONE, caller, node, lambda _key: None)
    topic, leader_of = _where(KeyType(request.key_type), node)
    return when_all(
        [node.internal_topics.ensure(topic)],
        lambda outcome: _answer(keys, problems, outcome[0], caller, node, leader_of),
    )


def _where(key_type: KeyType, node: Node) -> tuple[TopicName, Callable[[str], NodeId | None]]:
    """The topic that keeps what is looked for, and who leads which part of it."""
    match key_type:
        case KeyType.GROUP:
            return CONSUMER_OFFSETS, node.groups.leader_of
        case KeyType.TRANSACTION:
            return TRANSACTION_STATE, node.transactions.leader_of
        case KeyType.SHARE:
            return SHARE_GROUP_STATE, lambda key: node.share_coordinator.leader_of(SharePartitionKey.of_text(key))


def _problem(key: str, key_type: int, caller: Caller) -> tuple[ErrorCode, str] | None:
    """Why nobody is looked for."""
    if key_type == KeyType.GROUP:
        if not caller.may(AclOperation.DESCRIBE, ResourceType.GROUP, key):
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return error, error.message
        return None
    if key_type == KeyType.TRANSACTION:
        if not caller.may(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return error, error.message
        return None
    if key_type == KeyType.SHARE and caller.api_version >= SHARE_VERSION:
        if not caller.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return error, error.message
        try:
            SharePartitionKey.of_text(key)
        except ValueError as error:
            return ErrorCode.INVALID_REQUEST, str(error)
        return None
    return ErrorCode.INVALID_REQUEST, f"there is no coordinator for keys of type {key_type}"


def _answer(
    keys: list[str],
    problems: dict[str, tuple[ErrorCode, str] | None],
    created: ErrorCode,
    caller: Caller,
    node: Node,
    leader_of: Callable[[str], NodeId | None],
) -> FindCoordinatorResponse:
    found = []
    for key in keys:
        problem = problems[key]
        if problem is None and created is not ErrorCode.NONE:
            problem = created, created.message
        found.append(_lookup(key, caller, node, leader_of) if problem is None else _nobody(key, *problem))
    if caller.api_version >= SEVERAL_KEYS_VERSION:
        return FindCoordinatorResponse(throttle_time_ms=0, coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        throttle_time_ms=0,
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
        coordinators=[],
    )


def _lookup(key: str, caller: Caller, node: Node, leader_of: Callable[[str], NodeId | None]) -> Coordinator:
    leader = leader_of(key)
    broker = None if leader is None else node.image.brokers.get(leader)
    endpoint = None if broker is None or broker.fenced else endpoint_of(broker.endpoints, caller.listener_name)
    if leader is None or endpoint is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _nobody(key, error, error.message)
    return Coordinator(
        key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_code=0, error_message=None
    )


def _nobody(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, host="", port=-1, error_code=error, error_message=message)
