"""StreamsGroupHeartbeat (88), v0: a member of a streams group says what it has, and is told its tasks (KIP-1071).

Offered while the cluster's `streams.version` is at least 1 and `group.coordinator.rebalance.protocols` has not excluded it.

The topics that an application needs for itself are created here, as the member's principal: it needs CREATE on them, or on the
cluster. Its answer does not wait for that.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.groups.group_coordinator import member_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.topic_names import name_problem
from tidelog.coordination.streams.configured_topology import StatusCode
from tidelog.coordination.streams.heartbeats import HeartbeatResult, refused_heartbeat
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import after
from tidelog.wire.messages.streams_groups import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

_FAILURES_SHOWN_MAX = 3


@handles(StreamsGroupHeartbeatRequest)
def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, caller: Caller, node: Node
) -> Answer[StreamsGroupHeartbeatResponse]:
    groups = node.groups
    if not groups.serves_streams_protocol:
        return refused_heartbeat(ErrorCode.UNSUPPORTED_VERSION, None)
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refused_heartbeat(ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    refused = None if request.topology is None else _topics_refusal(request.topology, caller)
    if refused is not None:
        return refused
    active = groups.active(request.group_id)
    if active is None:
        return _refuse(groups.refusal(request.group_id)).response
    decided = active.carry_out(active.shard.streams_heartbeat(request, member_of(caller), active.now_ms()), _refuse)

    def answer(result: HeartbeatResult) -> StreamsGroupHeartbeatResponse:
        if result.missing_topics:
            _create(result, caller, node, request.group_id)
        return result.response

    return after(decided, answer)


def _topics_refusal(topology: Topology, caller: Caller) -> StreamsGroupHeartbeatResponse | None:
    """What is wrong with the topics that a topology names, for this caller."""
    names = dict.fromkeys(
        TopicName(name)
        for part in topology.subtopologies
        for name in (
            *part.source_topics,
            *part.repartition_sink_topics,
            *(topic.name for topic in part.repartition_source_topics),
            *(topic.name for topic in part.state_changelog_topics),
        )
    )
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        message = f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        return refused_heartbeat(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    invalid = [name for name in names if name_problem(name) is not None]
    if invalid:
        message = f"Topic names {','.join(invalid)} are not valid topic names."
        return refused_heartbeat(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    # Each is asked for, so that each is in the audit log.
    if [name for name in names if not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)]:
        return refused_heartbeat(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    return None


def _create(result: HeartbeatResult, caller: Caller, node: Node, group_id: str) -> None:
    """Have missing topics created, and tell the member why some are not."""
    names = [topic.name for topic in result.missing_topics]
    unauthorized = _may_not_create(names, caller)
    if unauthorized:
        _tell(result.response, f"Unauthorized to CREATE on topics {', '.join(unauthorized)}.")
        return
    remember_ms = 2 * node.groups.streams_limits_of(group_id).heartbeat_interval_ms
    node.streams_topics.create(result.missing_topics, caller, remember_ms=remember_ms)
    failures = [f"{name} ({reason})" for name, reason in node.streams_topics.failures(names).items()]
    if failures:
        more = len(failures) - _FAILURES_SHOWN_MAX
        shown = ", ".join(failures[:_FAILURES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        _tell(result.response, f"Creation failed: {shown}.")


def _may_not_create(names: Sequence[TopicName], caller: Caller) -> list[TopicName]:
    if caller.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False):
        return []
    return [name for name in names if not caller.may(AclOperation.CREATE, ResourceType.TOPIC, name)]


def _tell(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    """More about the topics that are missing, behind which ones."""
    statuses = response.status or []
    for status in statuses:
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"
            return
    response.status = [*statuses, Status(status_code=StatusCode.MISSING_INTERNAL_TOPICS, status_detail=detail)]


def _refuse(error: ErrorCode) -> HeartbeatResult:
    """An error of the coordinator as a whole."""
    return HeartbeatResult(refused_heartbeat(error, error.message))
