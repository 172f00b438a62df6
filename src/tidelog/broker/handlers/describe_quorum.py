"""DescribeQuorum (55), v0-2: the metadata quorum as its leader sees it: who votes, who follows, how far each of them is.

v1 when a replica last fetched and was last caught up · v2 directory ids, the voters' addresses, error texts (KIP-853)

Only the leader knows. A broker that is not the leader passes the question on; a controller that is not says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from tidelog.broker.caller import Caller
from tidelog.broker.handling import Answer, handles
from tidelog.broker.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, Offset
from tidelog.raft.machine import QuorumDescription
from tidelog.raft.progress import ReplicaProgress
from tidelog.raft.voter_set import VoterSet
from tidelog.storage.log_directory import METADATA_TOPIC
from tidelog.wire.messages import quorum as wire

_METADATA_PARTITION = 0


@handles(wire.DescribeQuorumRequest)
def describe_quorum(
    request: wire.DescribeQuorumRequest, caller: Caller, node: Node
) -> Answer[wire.DescribeQuorumResponse]:
    if not caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return wire.DescribeQuorumResponse(error_code=error, error_message=error.message, topics=[], nodes=[])
    asked = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if asked != [(METADATA_TOPIC, _METADATA_PARTITION)]:
        return _refused(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    description = node.quorum.describe()
    if description is not None:
        return _described(description, node.quorum.voters, node.clock, caller.api_version)
    if node.is_controller_listener(caller.listener_name):
        return _refused(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return node.forward(request, wire.DescribeQuorumResponse, caller)


def _described(quorum: QuorumDescription, voters: VoterSet, clock: Clock, version: int) -> wire.DescribeQuorumResponse:
    # The quorum counts on a clock that never jumps; people want to know the hour.
    since_1970_ms = clock.now_ms() - clock.monotonic_ms()
    # A leader that has not committed anything in its epoch knows no high watermark.
    high_watermark = -1 if quorum.high_watermark is None else quorum.high_watermark
    partition = wire.DescribeQuorumResponsePartitionData(
        partition_index=_METADATA_PARTITION,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=high_watermark,
        current_voters=_replicas(quorum.voters, since_1970_ms, version),
        observers=_replicas(quorum.observers, since_1970_ms, version),
    )
    topic = wire.DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    nodes = []
    if version >= 2:
        for voter in voters.voters:
            listeners = [
                wire.Listener(name=point.listener, host=point.host, port=point.port) for point in voter.endpoints
            ]
            nodes.append(wire.Node(node_id=voter.key.id, listeners=listeners))
    return wire.DescribeQuorumResponse(error_code=ErrorCode.NONE, error_message="", topics=[topic], nodes=nodes)


def _replicas(replicas: Iterable[ReplicaProgress], since_1970_ms: int, version: int) -> list[wire.ReplicaState]:
    def hour(time_ms: int | None) -> int:
        return -1 if time_ms is None else time_ms + since_1970_ms

    return [
        wire.ReplicaState(
            replica_id=replica.key.id,
            replica_directory_id=(replica.key.directory_id or ZERO_UUID) if version >= 2 else ZERO_UUID,
            log_end_offset=cast("Offset", -1) if replica.end_offset is None else replica.end_offset,
            last_fetch_timestamp=hour(replica.last_fetch_ms),
            last_caught_up_timestamp=hour(replica.last_caught_up_ms),
        )
        for replica in replicas
    ]


def _refused(request: wire.DescribeQuorumRequest, error: ErrorCode) -> wire.DescribeQuorumResponse:
    """The same for every partition that was asked for; nothing where nothing was."""
    topics = [
        wire.DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                wire.DescribeQuorumResponsePartitionData(
                    partition_index=each.partition_index,
                    error_code=error,
                    error_message=error.message,
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=[],
                    observers=[],
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return wire.DescribeQuorumResponse(error_code=ErrorCode.NONE, error_message="", topics=topics, nodes=[])
