"""The quorum's messages in Kafka's words and back: nothing is lost in the versions that are sent, and nonsense is refused."""

from __future__ import annotations

import pytest

from tidelog.controller.control_batches import build_control_batch
from tidelog.controller.quorum_fields import QuorumMessageError
from tidelog.controller.quorum_requests import request_from_wire, request_to_wire, version_of
from tidelog.controller.quorum_responses import (
    batches_from_bytes,
    refusal_to_wire,
    response_from_wire,
    response_to_wire,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, LeaderEpoch, NodeId, Offset
from tidelog.raft import messages as raft
from tidelog.raft.control_records import KRaftVersion, LeaderChange
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.voter_set import Endpoint, ReplicaKey, VersionRange
from tidelog.wire.apis import api
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages import fetch as fetch_wire, quorum as wire
from tidelog.wire.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from tidelog.wire.schema import Request

LISTENER = "CONTROLLER"
ME = ReplicaKey(NodeId(1), DirectoryId(bytes([1]) * 16))
OTHER = ReplicaKey(NodeId(2), DirectoryId(bytes([2]) * 16))
STATIC = ReplicaKey(NodeId(3))
EPOCH = LeaderEpoch(7)
END = OffsetAndEpoch(offset=Offset(40), epoch=LeaderEpoch(6))
ENDPOINTS = (Endpoint(LISTENER, "node-2", 9093),)
LED = (EPOCH, NodeId(2), ENDPOINTS)

REQUESTS: list[raft.Request] = [
    raft.VoteRequest(ME, EPOCH, END, True, OTHER, "cluster"),
    raft.VoteRequest(STATIC, EPOCH, END, False, STATIC, None),
    raft.BeginQuorumEpochRequest(NodeId(2), EPOCH, ENDPOINTS, ME, "cluster"),
    raft.EndQuorumEpochRequest(NodeId(2), EPOCH, (ME, STATIC), ENDPOINTS, "cluster"),
    raft.FetchRequest(ME, EPOCH, END, Offset(33), 500, 4096, "cluster"),
    raft.FetchSnapshotRequest(ME, EPOCH, END, 12, 4096, "cluster"),
    raft.AddVoterRequest(ME, ENDPOINTS, False, "cluster"),
    raft.RemoveVoterRequest(OTHER, "cluster"),
    raft.UpdateVoterRequest(ME, EPOCH, ENDPOINTS, VersionRange(0, 1), "cluster"),
]
CONTROL = (LeaderChange(NodeId(2), (NodeId(1), NodeId(2)), (NodeId(2),)), KRaftVersion(1))
BATCH_BYTES = build_control_batch(CONTROL, base_offset=40, epoch=7, timestamp_ms=1_704_067_200_000)
BATCH = raft.Batch(Offset(40), Offset(42), EPOCH, CONTROL, BATCH_BYTES)
RESPONSES: list[tuple[Request, raft.Response]] = [
    (wire.VoteRequest(topics=[]), raft.VoteResponse(ErrorCode.NONE, True, *LED)),
    (wire.VoteRequest(topics=[]), raft.VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, False, EPOCH, None, ())),
    (wire.VoteRequest(topics=[]), raft.VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)),
    (request_to_wire(REQUESTS[2]), raft.BeginQuorumEpochResponse(ErrorCode.INVALID_VOTER_KEY, *LED)),
    (request_to_wire(REQUESTS[3]), raft.EndQuorumEpochResponse(ErrorCode.NONE, *LED)),
    (
        request_to_wire(REQUESTS[4]),
        raft.FetchResponse(ErrorCode.NONE, *LED, Offset(39), Offset(3), None, None, (BATCH,)),
    ),
    (request_to_wire(REQUESTS[4]), raft.FetchResponse(ErrorCode.NONE, *LED, None, Offset(0), END)),
    (request_to_wire(REQUESTS[4]), raft.FetchResponse(ErrorCode.NONE, *LED, Offset(39), Offset(0), None, END)),
    (request_to_wire(REQUESTS[4]), raft.FetchResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)),
    (request_to_wire(REQUESTS[5]), raft.FetchSnapshotResponse(ErrorCode.NONE, *LED, END, 100, 12, b"piece")),
    (request_to_wire(REQUESTS[6]), raft.AddVoterResponse(ErrorCode.DUPLICATE_VOTER, "it is there already")),
    (request_to_wire(REQUESTS[7]), raft.RemoveVoterResponse(ErrorCode.NONE, None)),
    (request_to_wire(REQUESTS[8]), raft.UpdateVoterResponse(ErrorCode.NONE, *LED)),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_arrives_as_it_was_sent(request_: raft.Request) -> None:
    message = request_to_wire(request_, timeout_ms=1000)
    version = version_of(message)
    received = decode(type(message), version, encode(message, version))
    assert request_from_wire(received, version) == request_


@pytest.mark.parametrize(("asked", "response"), RESPONSES)
def test_a_response_arrives_as_it_was_sent(asked: Request, response: raft.Response) -> None:
    version = version_of(asked)
    message = response_to_wire(response, version, LISTENER)
    received = decode(api(asked.api_key).response, version, encode(message, version))
    assert response_from_wire(received, LISTENER) == response


@pytest.mark.parametrize(("asked", "response"), RESPONSES)
def test_a_response_can_be_put_in_every_version(asked: Request, response: raft.Response) -> None:
    for version in range(api(asked.api_key).versions.lowest, version_of(asked) + 1):
        encode(response_to_wire(response, version, LISTENER), version)


def test_a_leader_without_an_endpoint_for_the_listener_is_named_without_one() -> None:
    message = response_to_wire(raft.VoteResponse(ErrorCode.NONE, False, *LED), 2, "OTHER")
    assert isinstance(message, wire.VoteResponse)
    assert message.node_endpoints == []
    assert response_from_wire(message, LISTENER) == raft.VoteResponse(ErrorCode.NONE, False, EPOCH, NodeId(2), ())


def test_the_first_versions_name_no_voter() -> None:
    vote = request_to_wire(REQUESTS[0])
    read = request_from_wire(decode(wire.VoteRequest, 0, encode(_without_pre_vote(vote), 0)), 0)
    assert isinstance(read, raft.VoteRequest)
    assert read.voter is None
    assert read.candidate == ReplicaKey(NodeId(1))
    ended = request_to_wire(REQUESTS[3])
    assert isinstance(ended, wire.EndQuorumEpochRequest)
    ended.topics[0].partitions[0].preferred_successors = [3, 1]
    read = request_from_wire(decode(wire.EndQuorumEpochRequest, 0, encode(ended, 0)), 0)
    assert isinstance(read, raft.EndQuorumEpochRequest)
    assert read.preferred_candidates == (ReplicaKey(NodeId(3)), ReplicaKey(NodeId(1)))


def test_a_fetch_of_old_versions_names_the_topic_and_the_replica_otherwise() -> None:
    fetch = request_to_wire(REQUESTS[4])
    assert isinstance(fetch, fetch_wire.FetchRequest)
    fetch.replica_state, fetch.replica_id = fetch_wire.ReplicaState(), 1
    read = request_from_wire(decode(fetch_wire.FetchRequest, 12, encode(fetch, 12)), 12)
    assert isinstance(read, raft.FetchRequest)
    assert (read.replica, read.log_end, read.high_watermark) == (
        ReplicaKey(NodeId(1)),
        END,
        raft.UNKNOWN_HIGH_WATERMARK,
    )


@pytest.mark.parametrize("request_", REQUESTS[:6], ids=lambda each: type(each).__name__)
def test_what_is_not_about_the_metadata_log_is_refused(request_: raft.Request) -> None:
    message = request_to_wire(request_)
    assert hasattr(message, "topics")
    message.topics.append(message.topics[0])
    with pytest.raises(QuorumMessageError):
        request_from_wire(message, version_of(message))
    message.topics.clear()
    with pytest.raises(QuorumMessageError):
        request_from_wire(message, version_of(message))
    refusal = refusal_to_wire(message, ErrorCode.INVALID_REQUEST)
    assert response_from_wire(refusal, LISTENER).error is ErrorCode.INVALID_REQUEST


def test_damaged_batches_are_refused_and_a_cut_one_is_left_out() -> None:
    assert batches_from_bytes(BATCH_BYTES + BATCH_BYTES[:-1]) == (BATCH,)
    damaged = bytearray(BATCH_BYTES)
    damaged[-1] ^= 1
    with pytest.raises(QuorumMessageError):
        batches_from_bytes(bytes(damaged))


def test_the_versions_of_a_voter_to_be_are_those_of_kraft() -> None:
    told = ApiVersionsResponse(
        error_code=0,
        api_keys=[],
        throttle_time_ms=0,
        supported_features=[SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)],
    )
    assert response_from_wire(told, LISTENER) == raft.ApiVersionsResponse(ErrorCode.NONE, VersionRange(0, 1))
    told.supported_features = []
    assert response_from_wire(told, LISTENER) == raft.ApiVersionsResponse(ErrorCode.NONE, None)


def _without_pre_vote(message: Request) -> Request:
    assert isinstance(message, wire.VoteRequest)
    message.topics[0].partitions[0].pre_vote = False
    return message
