"""What a replica wants done: everything that `Machine.step` can answer, to be carried out in order.

Nothing follows a `SaveQuorumState` until its `QuorumStateSaved` came back, so whoever carries these out one after another
cannot let a vote, or anything said or written after it, escape before the vote is on disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import Batch, FetchResponse, FetchSnapshotResponse, Request, Response
from tidelog.raft.quorum_state import QuorumState
from tidelog.raft.voter_set import Node


@dataclass(frozen=True, slots=True)
class SaveQuorumState:
    """Replace the file `quorum-state`, durably; then tell `QuorumStateSaved`."""

    save_id: int
    state: QuorumState


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; then tell `ResponseReceived` or `RequestFailed`, or nothing: the machine has its own time-outs."""

    to: Node
    request_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer a request that was received."""

    request_id: int
    response: Response


@dataclass(frozen=True, slots=True)
class RespondWithRecords:
    """Answer a fetch; fill in the batches from `fetch_offset` on, at least one where there is one."""

    request_id: int
    response: FetchResponse
    fetch_offset: Offset
    bytes_max: int


@dataclass(frozen=True, slots=True)
class RespondWithSnapshot:
    """Answer a snapshot fetch; fill in up to `bytes_max` bytes of the snapshot from the response's position on."""

    request_id: int
    response: FetchSnapshotResponse
    bytes_max: int


@dataclass(frozen=True, slots=True)
class AppendToLog:
    """Write batches at the end of the log. Those without payload are control batches to be made from their records."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Make all that the log holds durable; then tell `LogFlushed`. Several may be answered by one sync."""

    flush_id: int


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Remove everything from `end_offset` on."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Write bytes of a snapshot that is being fetched, at `position`; 0 begins it anew."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """The snapshot is complete: make it durable, start the log anew at its end; then tell `SnapshotInstalled`."""

    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class AbandonSnapshot:
    """A snapshot that was being fetched is no longer wanted: remove what was written."""

    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class AdvanceHighWatermark:
    """Everything below `offset` is committed. Never goes back."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Another leader, or none, in this epoch as far as this replica knows."""

    leader_id: NodeId | None
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """This replica leads `epoch`, whose first record is at `epoch_start_offset`. Appends are accepted from here on."""

    epoch: LeaderEpoch
    epoch_start_offset: Offset


@dataclass(frozen=True, slots=True)
class LostLeadership:
    """This replica no longer leads `epoch`. What it appended without seeing it committed may or may not survive."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class AppendAccepted:
    """The records of an `AppendRequested` got these offsets. They count once the high watermark passes them."""

    append_id: int
    base_offset: Offset
    next_offset: Offset


@dataclass(frozen=True, slots=True)
class AppendRefused:
    append_id: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class UpgradeAnswered:
    """NONE where the version was written to the log (or is in force already); it counts once committed."""

    upgrade_id: int
    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ShutdownCompleted:
    """Nothing more to do here; `is_clean` is false where the time ran out before another leader was known."""

    is_clean: bool


Effect = (
    SaveQuorumState
    | Send
    | Respond
    | RespondWithRecords
    | RespondWithSnapshot
    | AppendToLog
    | FlushLog
    | TruncateLog
    | WriteSnapshot
    | InstallSnapshot
    | AbandonSnapshot
    | AdvanceHighWatermark
    | LeaderChanged
    | BecameLeader
    | LostLeadership
    | AppendAccepted
    | AppendRefused
    | UpgradeAnswered
    | ShutdownCompleted
)
