"""DescribeQuorum: the quorum as its leader sees it."""

from __future__ import annotations

from tidelog.controller.decision import Refusal
from tidelog.controller.image import ClusterImage
from tidelog.controller.quorum import MetadataQuorum
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.raft.progress import ReplicaProgress
from tidelog.storage.log_directory import METADATA_TOPIC
from tidelog.wire.messages import quorum as wire

_UNKNOWN = -1


def describe_quorum(
    request: wire.DescribeQuorumRequest, quorum: MetadataQuorum, image: ClusterImage, clock: Clock
) -> wire.DescribeQuorumResponse:
    """The metadata partition's leader, voters and observers. Only the leader knows, and only that partition has a quorum."""
    wanted = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if wanted != [(METADATA_TOPIC, [0])]:
        topics = [
            wire.DescribeQuorumResponseTopicData(
                topic_name=name,
                partitions=[_failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for index in indexes],
            )
            for name, indexes in wanted
        ]
        return wire.DescribeQuorumResponse(error_code=ErrorCode.NONE, error_message=None, topics=topics, nodes=[])
    description = quorum.describe()
    if description is None:
        return refuse_describe_quorum(request, Refusal.of(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    # The machine knows monotonic time only; people want to read a date.
    offset_ms = clock.now_ms() - clock.monotonic_ms()
    partition = wire.DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        leader_id=description.leader_id,
        leader_epoch=description.epoch,
        high_watermark=_UNKNOWN if description.high_watermark is None else description.high_watermark,
        current_voters=[_replica(replica, offset_ms) for replica in description.voters],
        observers=[_replica(replica, offset_ms) for replica in description.observers],
    )
    topic = wire.DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return wire.DescribeQuorumResponse(
        error_code=ErrorCode.NONE, error_message=None, topics=[topic], nodes=_nodes(quorum, image)
    )


def refuse_describe_quorum(_request: wire.DescribeQuorumRequest, refusal: Refusal) -> wire.DescribeQuorumResponse:
    return wire.DescribeQuorumResponse(error_code=refusal.error, error_message=refusal.message, topics=[], nodes=[])


def cut_describe_quorum(answer: wire.DescribeQuorumResponse, version: int) -> None:
    """Directory ids and the voters' addresses came with v2 (KIP-853)."""
    if version >= 2:
        return
    answer.nodes = []
    for topic in answer.topics:
        for partition in topic.partitions:
            for replica in (*partition.current_voters, *partition.observers):
                replica.replica_directory_id = ZERO_UUID


def _failed(index: int, error: ErrorCode) -> wire.DescribeQuorumResponsePartitionData:
    return wire.DescribeQuorumResponsePartitionData(
        partition_index=index,
        error_code=error,
        error_message=error.message,
        leader_id=_UNKNOWN,
        leader_epoch=_UNKNOWN,
        high_watermark=_UNKNOWN,
        current_voters=[],
        observers=[],
    )


def _replica(replica: ReplicaProgress, offset_ms: int) -> wire.ReplicaState:
    def shown(time_ms: int | None) -> int:
        return _UNKNOWN if time_ms is None else time_ms + offset_ms

    return wire.ReplicaState(
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id or ZERO_UUID,
        log_end_offset=_UNKNOWN if replica.end_offset is None else replica.end_offset,
        last_fetch_timestamp=shown(replica.last_fetch_ms),
        last_caught_up_timestamp=shown(replica.last_caught_up_ms),
    )


def _nodes(quorum: MetadataQuorum, image: ClusterImage) -> list[wire.Node]:
    """Where the voters listen: as they registered, else as the voter set says."""
    nodes = []
    for voter in quorum.voters.voters:
        registered = image.controllers.get(voter.key.id)
        if registered is not None:
            listeners = [wire.Listener(name=each.name, host=each.host, port=each.port) for each in registered.endpoints]
        else:
            listeners = [wire.Listener(name=each.listener, host=each.host, port=each.port) for each in voter.endpoints]
        nodes.append(wire.Node(node_id=voter.key.id, listeners=listeners))
    return nodes
