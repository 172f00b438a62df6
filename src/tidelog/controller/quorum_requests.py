"""What replicas of the metadata log ask each other, in Kafka's requests.

    raft message    <->  wire message, api            version sent
    Vote                 Vote (52)                    2
    BeginQuorumEpoch     BeginQuorumEpoch (53)        1
    EndQuorumEpoch       EndQuorumEpoch (54)          1
    Fetch                Fetch (1)                    18
    FetchSnapshot        FetchSnapshot (59)           1
    AddVoter             AddRaftVoter (80)            1
    RemoveVoter          RemoveRaftVoter (81)         0
    UpdateVoter          UpdateRaftVoter (82)         0
    ApiVersions          ApiVersions (18)             4

Received requests are read in every version. One that is not about the one partition of the metadata log is a
`QuorumMessageError`.
"""

from __future__ import annotations

from tidelog.controller.metadata_log import METADATA_TOPIC_ID
from tidelog.controller.quorum_fields import (
    NONE,
    PARTITION,
    TOPIC,
    QuorumMessageError,
    directory_of,
    endpoints_of,
    leader_endpoints_of,
    listeners_of,
    only_partition,
    replica_of,
    voter_of,
)
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft import messages as raft
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.voter_set import ReplicaKey, VersionRange
from tidelog.wire.messages import (
    api_versions as versions_wire,
    fetch as fetch_wire,
    fetch_snapshot as snapshot_wire,
    quorum as wire,
    raft_voters as voters_wire,
)
from tidelog.wire.schema import Request

_SOFTWARE = "tidelog"
_SOFTWARE_VERSION = "1"
_VERSIONS: dict[type[Request], int] = {
    wire.VoteRequest: 2,
    wire.BeginQuorumEpochRequest: 1,
    wire.EndQuorumEpochRequest: 1,
    fetch_wire.FetchRequest: 18,
    snapshot_wire.FetchSnapshotRequest: 1,
    voters_wire.AddRaftVoterRequest: 1,
    voters_wire.RemoveRaftVoterRequest: 0,
    voters_wire.UpdateRaftVoterRequest: 0,
    versions_wire.ApiVersionsRequest: 4,
}


def version_of(request: Request) -> int:
    """The version in which a request is sent to another replica."""
    return _VERSIONS[type(request)]


# --- that leave ----------------------------------------------------------------------------------------------------------


def request_to_wire(request: raft.Request, *, timeout_ms: int = 0) -> Request:
    """A request in Kafka's words. `timeout_ms` is what an AddVoter may take."""
    match request:
        case raft.VoteRequest():
            return _vote_to_wire(request)
        case raft.BeginQuorumEpochRequest():
            return _begin_epoch_to_wire(request)
        case raft.EndQuorumEpochRequest():
            return _end_epoch_to_wire(request)
        case raft.FetchRequest():
            return _fetch_to_wire(request)
        case raft.FetchSnapshotRequest():
            return _fetch_snapshot_to_wire(request)
        case raft.AddVoterRequest():
            return voters_wire.AddRaftVoterRequest(
                cluster_id=request.cluster_id,
                timeout_ms=timeout_ms,
                voter_id=request.voter.id,
                voter_directory_id=directory_of(request.voter),
                listeners=listeners_of(request.endpoints),
                ack_when_committed=request.ack_when_committed,
            )
        case raft.RemoveVoterRequest():
            return voters_wire.RemoveRaftVoterRequest(
                cluster_id=request.cluster_id,
                voter_id=request.voter.id,
                voter_directory_id=directory_of(request.voter),
            )
        case raft.UpdateVoterRequest():
            return voters_wire.UpdateRaftVoterRequest(
                cluster_id=request.cluster_id,
                current_leader_epoch=request.epoch,
                voter_id=request.voter.id,
                voter_directory_id=directory_of(request.voter),
                listeners=listeners_of(request.endpoints),
                kraft_version_feature=voters_wire.KRaftVersionFeature(
                    min_supported_version=request.kraft_versions.minimum,
                    max_supported_version=request.kraft_versions.maximum,
                ),
            )
        case raft.ApiVersionsRequest():
            return versions_wire.ApiVersionsRequest(
                client_software_name=_SOFTWARE, client_software_version=_SOFTWARE_VERSION
            )


def _vote_to_wire(request: raft.VoteRequest) -> wire.VoteRequest:
    partition = wire.PartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=directory_of(request.candidate),
        voter_directory_id=directory_of(request.voter),
        last_offset_epoch=request.log_end.epoch,
        last_offset=request.log_end.offset,
        pre_vote=request.pre_vote,
    )
    return wire.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=NONE if request.voter is None else request.voter.id,
        topics=[wire.TopicData(topic_name=TOPIC, partitions=[partition])],
    )


def _begin_epoch_to_wire(request: raft.BeginQuorumEpochRequest) -> wire.BeginQuorumEpochRequest:
    partition = wire.BeginQuorumEpochPartitionData(
        partition_index=PARTITION,
        voter_directory_id=directory_of(request.voter),
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return wire.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=NONE if request.voter is None else request.voter.id,
        topics=[wire.BeginQuorumEpochTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=leader_endpoints_of(request.leader_endpoints),
    )


def _end_epoch_to_wire(request: raft.EndQuorumEpochRequest) -> wire.EndQuorumEpochRequest:
    partition = wire.EndQuorumEpochPartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            wire.ReplicaInfo(candidate_id=each.id, candidate_directory_id=directory_of(each))
            for each in request.preferred_candidates
        ],
    )
    return wire.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[wire.EndQuorumEpochTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=leader_endpoints_of(request.leader_endpoints),
    )


def _fetch_to_wire(request: raft.FetchRequest) -> fetch_wire.FetchRequest:
    partition = fetch_wire.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.log_end.offset,
        last_fetched_epoch=request.log_end.epoch,
        partition_max_bytes=0,
        replica_directory_id=directory_of(request.replica),
        high_watermark=request.high_watermark,
    )
    return fetch_wire.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=fetch_wire.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.wait_ms_max,
        min_bytes=0,
        max_bytes=request.bytes_max,
        topics=[fetch_wire.FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        forgotten_topics_data=[],
    )


def _fetch_snapshot_to_wire(request: raft.FetchSnapshotRequest) -> snapshot_wire.FetchSnapshotRequest:
    partition = snapshot_wire.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=snapshot_wire.SnapshotId(end_offset=request.snapshot_id.offset, epoch=request.snapshot_id.epoch),
        position=request.position,
        replica_directory_id=directory_of(request.replica),
    )
    return snapshot_wire.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.bytes_max,
        topics=[snapshot_wire.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


# --- that come in --------------------------------------------------------------------------------------------------------


def request_from_wire(request: Request, version: int) -> raft.Request:
    """What a replica, or an administrator, asks. `QuorumMessageError` where it is not about the metadata log."""
    match request:
        case wire.VoteRequest():
            return _vote_from_wire(request, version)
        case wire.BeginQuorumEpochRequest():
            announced = only_partition(request.topics)
            return raft.BeginQuorumEpochRequest(
                NodeId(announced.leader_id),
                LeaderEpoch(announced.leader_epoch),
                endpoints_of(request.leader_endpoints),
                voter_of(request.voter_id, announced.voter_directory_id),
                request.cluster_id,
            )
        case wire.EndQuorumEpochRequest():
            return _end_epoch_from_wire(request, version)
        case fetch_wire.FetchRequest():
            return _fetch_from_wire(request, version)
        case snapshot_wire.FetchSnapshotRequest():
            return _fetch_snapshot_from_wire(request)
        case voters_wire.AddRaftVoterRequest():
            return raft.AddVoterRequest(
                replica_of(request.voter_id, request.voter_directory_id),
                endpoints_of(request.listeners),
                request.ack_when_committed,
                request.cluster_id,
            )
        case voters_wire.RemoveRaftVoterRequest():
            return raft.RemoveVoterRequest(replica_of(request.voter_id, request.voter_directory_id), request.cluster_id)
        case voters_wire.UpdateRaftVoterRequest():
            feature = request.kraft_version_feature
            return raft.UpdateVoterRequest(
                replica_of(request.voter_id, request.voter_directory_id),
                LeaderEpoch(request.current_leader_epoch),
                endpoints_of(request.listeners),
                VersionRange(feature.min_supported_version, feature.max_supported_version),
                request.cluster_id,
            )
        case _:
            raise QuorumMessageError(f"{type(request).__name__} is not for the quorum")


def _vote_from_wire(request: wire.VoteRequest, version: int) -> raft.VoteRequest:
    asked = only_partition(request.topics)
    return raft.VoteRequest(
        replica_of(asked.replica_id, asked.replica_directory_id),
        LeaderEpoch(asked.replica_epoch),
        OffsetAndEpoch(offset=Offset(asked.last_offset), epoch=LeaderEpoch(asked.last_offset_epoch)),
        asked.pre_vote,
        voter_of(request.voter_id, asked.voter_directory_id) if version >= 1 else None,
        request.cluster_id,
    )


def _end_epoch_from_wire(request: wire.EndQuorumEpochRequest, version: int) -> raft.EndQuorumEpochRequest:
    ended = only_partition(request.topics)
    if version >= 1:
        candidates = [replica_of(each.candidate_id, each.candidate_directory_id) for each in ended.preferred_candidates]
    else:
        candidates = [ReplicaKey(NodeId(each)) for each in ended.preferred_successors]
    return raft.EndQuorumEpochRequest(
        NodeId(ended.leader_id),
        LeaderEpoch(ended.leader_epoch),
        tuple(candidates),
        endpoints_of(request.leader_endpoints),
        request.cluster_id,
    )


def _fetch_from_wire(request: fetch_wire.FetchRequest, version: int) -> raft.FetchRequest:
    is_named = version < 13
    topics = [
        each for each in request.topics if (each.topic == TOPIC if is_named else each.topic_id == METADATA_TOPIC_ID)
    ]
    partitions = [partition for topic in topics for partition in topic.partitions]
    if len(request.topics) != 1 or len(partitions) != 1 or partitions[0].partition != PARTITION:
        raise QuorumMessageError(f"a replica of {TOPIC} fetches that partition and no other")
    fetched = partitions[0]
    replica_id = request.replica_id if version < 15 else request.replica_state.replica_id
    return raft.FetchRequest(
        replica_of(replica_id, fetched.replica_directory_id),
        LeaderEpoch(fetched.current_leader_epoch),
        OffsetAndEpoch(offset=Offset(fetched.fetch_offset), epoch=LeaderEpoch(fetched.last_fetched_epoch)),
        Offset(fetched.high_watermark),
        request.max_wait_ms,
        request.max_bytes,
        request.cluster_id,
    )


def _fetch_snapshot_from_wire(request: snapshot_wire.FetchSnapshotRequest) -> raft.FetchSnapshotRequest:
    partitions = [partition for topic in request.topics if topic.name == TOPIC for partition in topic.partitions]
    if len(request.topics) != 1 or len(partitions) != 1 or partitions[0].partition != PARTITION:
        raise QuorumMessageError(f"there are snapshots of {TOPIC} only")
    wanted = partitions[0]
    return raft.FetchSnapshotRequest(
        replica_of(request.replica_id, wanted.replica_directory_id),
        LeaderEpoch(wanted.current_leader_epoch),
        OffsetAndEpoch(offset=Offset(wanted.snapshot_id.end_offset), epoch=LeaderEpoch(wanted.snapshot_id.epoch)),
        wanted.position,
        request.max_bytes,
        request.cluster_id,
    )
