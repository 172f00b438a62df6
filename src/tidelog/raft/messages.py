"""What replicas say to each other, without versions: the edge translates to and from Kafka's requests and responses.

Optional fields that an older version lacks come as None (or the default), so that nothing in the machine asks for a version.
A response that failed as a whole (wrong cluster, not allowed, not supported) has the epoch NO_EPOCH: it says nothing about
the quorum.
"""

from __future__ import annotations

from msgspec import Struct, field

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.control_records import ControlRecord
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.voter_set import Endpoints, ReplicaKey, VersionRange

NO_EPOCH = LeaderEpoch(-1)
# One below the largest int32 of requests, records and `quorum-state`, so that the epoch after any that is believed still fits.
# No quorum comes here by elections. One that a wrong request has led here elects nobody any more, but no node dies of it.
EPOCH_MAX = LeaderEpoch(0x7FFFFFFF - 1)
# Fetch below version 18 does not tell the follower's high watermark: by this default no leader answers early because of it.
UNKNOWN_HIGH_WATERMARK = Offset(0x7FFFFFFFFFFFFFFF)
_FIRST_OFFSET = Offset(0)


class Batch(Struct, frozen=True):
    """One record batch of the log: where it lies, and what consensus must know of its content.

    `payload` is the caller's: the machine hands it on unread. `control` holds the records of a control batch; in a batch
    that the machine makes itself they are the content, and `payload` is None.
    """

    base_offset: Offset
    next_offset: Offset
    epoch: LeaderEpoch
    control: tuple[ControlRecord, ...] = ()
    payload: object = None


class VoteRequest(Struct, frozen=True):
    """Asks for a vote in `epoch`, or (KIP-996) whether one would be given in the epoch after it."""

    candidate: ReplicaKey
    epoch: LeaderEpoch
    log_end: OffsetAndEpoch
    pre_vote: bool
    voter: ReplicaKey | None = None
    cluster_id: str | None = None


class VoteResponse(Struct, frozen=True):
    error: ErrorCode
    granted: bool = False
    epoch: LeaderEpoch = NO_EPOCH
    leader_id: NodeId | None = None
    leader_endpoints: Endpoints = ()


class BeginQuorumEpochRequest(Struct, frozen=True):
    """A leader makes itself known."""

    leader_id: NodeId
    epoch: LeaderEpoch
    leader_endpoints: Endpoints = ()
    voter: ReplicaKey | None = None
    cluster_id: str | None = None


class BeginQuorumEpochResponse(Struct, frozen=True):
    error: ErrorCode
    epoch: LeaderEpoch = NO_EPOCH
    leader_id: NodeId | None = None
    leader_endpoints: Endpoints = ()


class EndQuorumEpochRequest(Struct, frozen=True):
    """A leader resigns, and names who should follow it, best first."""

    leader_id: NodeId
    epoch: LeaderEpoch
    preferred_candidates: tuple[ReplicaKey, ...] = ()
    leader_endpoints: Endpoints = ()
    cluster_id: str | None = None


class EndQuorumEpochResponse(Struct, frozen=True):
    error: ErrorCode
    epoch: LeaderEpoch = NO_EPOCH
    leader_id: NodeId | None = None
    leader_endpoints: Endpoints = ()


class FetchRequest(Struct, frozen=True):
    """Asks for what follows the end of the asker's log, which thereby is acknowledged. A negative replica id is no replica's."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    log_end: OffsetAndEpoch
    high_watermark: Offset = UNKNOWN_HIGH_WATERMARK
    wait_ms_max: int = 0
    bytes_max: int = 1 << 20
    cluster_id: str | None = None


class FetchResponse(Struct, frozen=True):
    """Batches, or what is in their way: a log that diverged, or a snapshot that must come first."""

    error: ErrorCode
    epoch: LeaderEpoch = NO_EPOCH
    leader_id: NodeId | None = None
    leader_endpoints: Endpoints = ()
    high_watermark: Offset | None = None
    log_start_offset: Offset = _FIRST_OFFSET
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    batches: tuple[Batch, ...] = ()


class FetchSnapshotRequest(Struct, frozen=True):
    """Asks for bytes of a snapshot from a position on."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot_id: OffsetAndEpoch
    position: int
    bytes_max: int = 1 << 20
    cluster_id: str | None = None


class FetchSnapshotResponse(Struct, frozen=True):
    error: ErrorCode
    epoch: LeaderEpoch = NO_EPOCH
    leader_id: NodeId | None = None
    leader_endpoints: Endpoints = ()
    snapshot_id: OffsetAndEpoch | None = None
    size_bytes: int = 0
    position: int = 0
    data: bytes = b""


class AddVoterRequest(Struct, frozen=True):
    """Asks the leader to count a caught-up observer among the voters (KIP-853)."""

    voter: ReplicaKey
    endpoints: Endpoints
    ack_when_committed: bool = True
    cluster_id: str | None = None


class AddVoterResponse(Struct, frozen=True):
    error: ErrorCode
    message: str | None = None


class RemoveVoterRequest(Struct, frozen=True):
    voter: ReplicaKey
    cluster_id: str | None = None


class RemoveVoterResponse(Struct, frozen=True):
    error: ErrorCode
    message: str | None = None


class UpdateVoterRequest(Struct, frozen=True):
    """A voter tells its leader where it listens now and which versions it supports."""

    voter: ReplicaKey
    epoch: LeaderEpoch
    endpoints: Endpoints
    kraft_versions: VersionRange
    cluster_id: str | None = None


class UpdateVoterResponse(Struct, frozen=True):
    error: ErrorCode
    epoch: LeaderEpoch = NO_EPOCH
    leader_id: NodeId | None = None
    leader_endpoints: Endpoints = ()


class ApiVersionsRequest(Struct, frozen=True):
    """Asks a voter to be which kraft.version it supports."""


class ApiVersionsResponse(Struct, frozen=True):
    error: ErrorCode
    kraft_versions: VersionRange | None = field(default=None)


# Answers that tell who leads in which epoch.
QuorumResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | ApiVersionsRequest
)
Response = QuorumResponse | AddVoterResponse | RemoveVoterResponse | ApiVersionsResponse
