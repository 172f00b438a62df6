"""What replicas of the metadata log answer each other, in Kafka's responses.

A response names the leader by one endpoint, that of the listener which the request came in by; what comes back is taken for an
endpoint of the listener by which controllers talk. An answer that no replica gives is a `QuorumMessageError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.controller.control_batches import read_control
from tidelog.controller.metadata_log import METADATA_TOPIC_ID
from tidelog.controller.quorum_fields import (
    NONE,
    PARTITION,
    TOPIC,
    QuorumMessageError,
    leader_id_of,
    leader_nodes,
    leader_of,
    offset_and_epoch,
    only_partition,
    payload_of,
    sentence_of,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft import messages as raft
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.voter_set import Endpoint, VersionRange, endpoint_for
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.errors import MalformedError
from tidelog.wire.messages import (
    api_versions as versions_wire,
    fetch as fetch_wire,
    fetch_snapshot as snapshot_wire,
    quorum as wire,
    raft_voters as voters_wire,
)
from tidelog.wire.record_batch import check_batch, each_batch
from tidelog.wire.records import decode_batch
from tidelog.wire.schema import Request, Response
from tidelog.wire.varint import Buffer

# From here on a Fetch can say where a log diverged and who leads: what a replica cannot do without.
FETCH_VERSION_MIN = 12

_KRAFT_VERSION = "kraft.version"

# --- that leave ----------------------------------------------------------------------------------------------------------


def response_to_wire(response: raft.Response, version: int, listener: str) -> Response:
    """An answer in Kafka's words, for a request that came in by `listener` in `version`."""
    match response:
        case raft.VoteResponse():
            return _answer(
                wire.VoteResponse,
                wire.VoteTopicData,
                wire.VotePartitionData,
                response,
                version,
                listener,
                vote_granted=response.granted,
            )
        case raft.BeginQuorumEpochResponse():
            return _answer(
                wire.BeginQuorumEpochResponse,
                wire.BeginQuorumEpochResponseTopicData,
                wire.BeginQuorumEpochResponsePartitionData,
                response,
                version,
                listener,
            )
        case raft.EndQuorumEpochResponse():
            return _answer(
                wire.EndQuorumEpochResponse,
                wire.EndQuorumEpochResponseTopicData,
                wire.EndQuorumEpochResponsePartitionData,
                response,
                version,
                listener,
            )
        case raft.FetchResponse():
            return _fetch_answer_to_wire(response, version, listener)
        case raft.FetchSnapshotResponse():
            return _snapshot_answer_to_wire(response, version, listener)
        case raft.AddVoterResponse():
            return voters_wire.AddRaftVoterResponse(
                throttle_time_ms=0, error_code=response.error, error_message=sentence_of(response)
            )
        case raft.RemoveVoterResponse():
            return voters_wire.RemoveRaftVoterResponse(
                throttle_time_ms=0, error_code=response.error, error_message=sentence_of(response)
            )
        case raft.UpdateVoterResponse():
            answer = voters_wire.UpdateRaftVoterResponse(throttle_time_ms=0, error_code=response.error)
            if response.epoch != raft.NO_EPOCH:
                endpoint = endpoint_for(response.leader_endpoints, listener)
                answer.current_leader = voters_wire.CurrentLeader(
                    leader_id=leader_id_of(response),
                    leader_epoch=response.epoch,
                    host="" if endpoint is None else endpoint.host,
                    port=0 if endpoint is None else endpoint.port,
                )
            return answer
        case raft.ApiVersionsResponse():
            # ApiVersions is the node's own to answer: it tells of more than the quorum.
            raise TypeError("ApiVersions is not answered by the quorum")


def _answer(
    answer: Callable[..., Response],
    topic: Callable[..., Any],
    partition: Callable[..., Any],
    response: raft.VoteResponse | raft.BeginQuorumEpochResponse | raft.EndQuorumEpochResponse,
    version: int,
    listener: str,
    **more: object,
) -> Response:
    """What the three requests of an election are answered: they differ in their classes, and in what a vote says `more`."""
    if response.epoch == raft.NO_EPOCH:
        # It failed as a whole.
        return answer(error_code=response.error, topics=[])
    answered = partition(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=leader_id_of(response),
        leader_epoch=response.epoch,
        **more,
    )
    topics = [topic(topic_name=TOPIC, partitions=[answered])]
    return answer(
        error_code=0, topics=topics, node_endpoints=leader_nodes(wire.NodeEndpoint, response, listener, version >= 1)
    )


def _fetch_answer_to_wire(response: raft.FetchResponse, version: int, listener: str) -> fetch_wire.FetchResponse:
    if response.epoch == raft.NO_EPOCH:
        return fetch_wire.FetchResponse(throttle_time_ms=0, error_code=response.error, responses=[])
    records = b"".join(payload_of(batch) for batch in response.batches)
    data = fetch_wire.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=NONE if response.high_watermark is None else response.high_watermark,
        log_start_offset=response.log_start_offset,
        aborted_transactions=None,
        records=records,
    )
    if version >= FETCH_VERSION_MIN:
        data.current_leader = fetch_wire.LeaderIdAndEpoch(leader_id=leader_id_of(response), leader_epoch=response.epoch)
        if response.diverging is not None:
            data.diverging_epoch = fetch_wire.EpochEndOffset(
                epoch=response.diverging.epoch, end_offset=response.diverging.offset
            )
        if response.snapshot_id is not None:
            data.snapshot_id = fetch_wire.SnapshotId(
                end_offset=response.snapshot_id.offset, epoch=response.snapshot_id.epoch
            )
    topic = fetch_wire.FetchableTopicResponse(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data])
    return fetch_wire.FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        responses=[topic],
        node_endpoints=leader_nodes(fetch_wire.NodeEndpoint, response, listener, version >= 17),
    )


def _snapshot_answer_to_wire(
    response: raft.FetchSnapshotResponse, version: int, listener: str
) -> snapshot_wire.FetchSnapshotResponse:
    if response.epoch == raft.NO_EPOCH:
        return snapshot_wire.FetchSnapshotResponse(throttle_time_ms=0, error_code=response.error, topics=[])
    snapshot_id = response.snapshot_id
    piece = snapshot_wire.FetchSnapshotPartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=snapshot_wire.SnapshotId(
            end_offset=0 if snapshot_id is None else snapshot_id.offset,
            epoch=0 if snapshot_id is None else snapshot_id.epoch,
        ),
        current_leader=snapshot_wire.LeaderIdAndEpoch(leader_id=leader_id_of(response), leader_epoch=response.epoch),
        size=response.size_bytes,
        position=response.position,
        unaligned_records=response.data,
    )
    return snapshot_wire.FetchSnapshotResponse(
        throttle_time_ms=0,
        error_code=0,
        topics=[snapshot_wire.FetchSnapshotTopicSnapshot(name=TOPIC, partitions=[piece])],
        node_endpoints=leader_nodes(snapshot_wire.NodeEndpoint, response, listener, version >= 1),
    )


def refusal_to_wire(request: Request, error: ErrorCode) -> Response:
    """The answer to a request that the quorum never gets to see."""
    match request:
        case wire.VoteRequest():
            return wire.VoteResponse(error_code=error, topics=[])
        case wire.BeginQuorumEpochRequest():
            return wire.BeginQuorumEpochResponse(error_code=error, topics=[])
        case wire.EndQuorumEpochRequest():
            return wire.EndQuorumEpochResponse(error_code=error, topics=[])
        case fetch_wire.FetchRequest():
            return fetch_wire.FetchResponse(throttle_time_ms=0, error_code=error, responses=[])
        case snapshot_wire.FetchSnapshotRequest():
            return snapshot_wire.FetchSnapshotResponse(throttle_time_ms=0, error_code=error, topics=[])
        case voters_wire.AddRaftVoterRequest():
            return voters_wire.AddRaftVoterResponse(throttle_time_ms=0, error_code=error, error_message=error.message)
        case voters_wire.RemoveRaftVoterRequest():
            return voters_wire.RemoveRaftVoterResponse(
                throttle_time_ms=0, error_code=error, error_message=error.message
            )
        case voters_wire.UpdateRaftVoterRequest():
            return voters_wire.UpdateRaftVoterResponse(throttle_time_ms=0, error_code=error)
        case _:
            raise TypeError(f"{type(request).__name__} is not for the quorum")


# --- that come in --------------------------------------------------------------------------------------------------------


def response_from_wire(response: Response, listener: str) -> raft.Response:
    """What another replica answered; `listener` is the one by which controllers talk.

    `QuorumMessageError` for an answer that no replica gives, damaged batches included.
    """
    match response:
        case wire.VoteResponse():
            if response.error_code:
                return raft.VoteResponse(ErrorCode.of(response.error_code))
            vote = only_partition(response.topics)
            return raft.VoteResponse(
                ErrorCode.of(vote.error_code),
                vote.vote_granted,
                LeaderEpoch(vote.leader_epoch),
                *leader_of(vote.leader_id, response.node_endpoints, listener),
            )
        case wire.BeginQuorumEpochResponse():
            if response.error_code:
                return raft.BeginQuorumEpochResponse(ErrorCode.of(response.error_code))
            begun = only_partition(response.topics)
            leader = leader_of(begun.leader_id, response.node_endpoints, listener)
            return raft.BeginQuorumEpochResponse(
                ErrorCode.of(begun.error_code), LeaderEpoch(begun.leader_epoch), *leader
            )
        case wire.EndQuorumEpochResponse():
            if response.error_code:
                return raft.EndQuorumEpochResponse(ErrorCode.of(response.error_code))
            ended = only_partition(response.topics)
            leader = leader_of(ended.leader_id, response.node_endpoints, listener)
            return raft.EndQuorumEpochResponse(ErrorCode.of(ended.error_code), LeaderEpoch(ended.leader_epoch), *leader)
        case fetch_wire.FetchResponse():
            return _fetch_answer_from_wire(response, listener)
        case snapshot_wire.FetchSnapshotResponse():
            return _snapshot_answer_from_wire(response, listener)
        case voters_wire.AddRaftVoterResponse():
            return raft.AddVoterResponse(ErrorCode.of(response.error_code), response.error_message)
        case voters_wire.RemoveRaftVoterResponse():
            return raft.RemoveVoterResponse(ErrorCode.of(response.error_code), response.error_message)
        case voters_wire.UpdateRaftVoterResponse():
            told = response.current_leader
            endpoints = (Endpoint(listener, told.host, told.port),) if told.host else ()
            leader_id = None if told.leader_id < 0 else NodeId(told.leader_id)
            return raft.UpdateVoterResponse(
                ErrorCode.of(response.error_code), LeaderEpoch(told.leader_epoch), leader_id, endpoints
            )
        case versions_wire.ApiVersionsResponse():
            levels = [each for each in response.supported_features if each.name == _KRAFT_VERSION]
            supported = VersionRange(levels[0].min_version, levels[0].max_version) if levels else None
            return raft.ApiVersionsResponse(ErrorCode.of(response.error_code), supported)
        case _:
            raise QuorumMessageError(f"{type(response).__name__} is no answer of the quorum")


def _fetch_answer_from_wire(response: fetch_wire.FetchResponse, listener: str) -> raft.FetchResponse:
    if response.error_code:
        return raft.FetchResponse(ErrorCode.of(response.error_code))
    partitions = [partition for topic in response.responses for partition in topic.partitions]
    if len(partitions) != 1 or partitions[0].partition_index != PARTITION:
        raise QuorumMessageError(f"an answer to a fetch of {TOPIC} is about that partition and no other")
    data = partitions[0]
    diverging, snapshot_id = data.diverging_epoch, data.snapshot_id
    leader_id, endpoints = leader_of(data.current_leader.leader_id, response.node_endpoints, listener)
    return raft.FetchResponse(
        ErrorCode.of(data.error_code),
        LeaderEpoch(data.current_leader.leader_epoch),
        leader_id,
        endpoints,
        None if data.high_watermark < 0 else Offset(data.high_watermark),
        Offset(data.log_start_offset),
        offset_and_epoch(diverging.end_offset, diverging.epoch),
        offset_and_epoch(snapshot_id.end_offset, snapshot_id.epoch),
        batches_from_bytes(_in_memory(data.records)),
    )


def _snapshot_answer_from_wire(
    response: snapshot_wire.FetchSnapshotResponse, listener: str
) -> raft.FetchSnapshotResponse:
    if response.error_code:
        return raft.FetchSnapshotResponse(ErrorCode.of(response.error_code))
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    if len(partitions) != 1 or partitions[0].index != PARTITION:
        raise QuorumMessageError(f"an answer about snapshots of {TOPIC} is about that partition and no other")
    piece = partitions[0]
    leader_id, endpoints = leader_of(piece.current_leader.leader_id, response.node_endpoints, listener)
    return raft.FetchSnapshotResponse(
        ErrorCode.of(piece.error_code),
        LeaderEpoch(piece.current_leader.leader_epoch),
        leader_id,
        endpoints,
        OffsetAndEpoch(offset=Offset(piece.snapshot_id.end_offset), epoch=LeaderEpoch(piece.snapshot_id.epoch)),
        piece.size,
        piece.position,
        bytes(_in_memory(piece.unaligned_records)),
    )


def batches_from_bytes(records: Buffer) -> tuple[raft.Batch, ...]:
    """The whole batches of a fetch, checked. What a leader cut off at the end is left out."""
    data = bytes(records)
    found: list[raft.Batch] = []
    try:
        for position, header in each_batch(data):
            check_batch(data, header, position)
            control = read_control(decode_batch(data, header, position)) if header.is_control else ()
            found.append(
                raft.Batch(
                    Offset(header.base_offset),
                    Offset(header.next_offset),
                    LeaderEpoch(header.partition_leader_epoch),
                    control,
                    data[position : position + header.size_bytes],
                )
            )
    except (CorruptBatchError, MalformedError) as error:
        raise QuorumMessageError(f"the leader sent a batch that cannot be read: {error}") from error
    return tuple(found)


def _in_memory(records: object) -> Buffer:
    """Records of a message that was decoded; those that lie in files are only ever sent."""
    if records is None:
        return b""
    if not isinstance(records, bytes | memoryview):
        raise TypeError(f"{type(records).__name__} was not read from a connection")
    return records
