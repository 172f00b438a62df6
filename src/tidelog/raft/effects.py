"""What a replica wants done: everything that `Machine.step` can answer, to be carried out in order.

Nothing follows a `SaveQuorumState` until its `QuorumStateSaved` came back, so whoever carries these out one after another
cannot let a vote, or anything said or written after it, escape before the vote is on disk.
"""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import Batch, FetchResponse, FetchSnapshotResponse, Request, Response
from tidelog.raft.quorum_state import QuorumState
from tidelog.raft.voter_set import Node


class SaveQuorumState(Struct, frozen=True):
    """Replace the file `quorum-state`, durably; then tell `QuorumStateSaved`."""

    save_id: int
    state: QuorumState


class Send(Struct, frozen=True):
    """Send a request; then tell `ResponseReceived` or `RequestFailed`, or nothing: the machine has its own time-outs."""

    to: Node
    request_id: int
    request: Request


class Respond(Struct, frozen=True):
    """Answer a request that was received."""

    request_id: int
    response: Response


class RespondWithRecords(Struct, frozen=True):
    """Answer a fetch; fill in the batches from `fetch_offset` on, at least one where there is one."""

    request_id: int
    response: FetchResponse
    fetch_offset: Offset
    bytes_max: int


class RespondWithSnapshot(Struct, frozen=True):
    """Answer a snapshot fetch; fill in up to `bytes_max` bytes of the snapshot from the response's position on."""

    request_id: int
    response: FetchSnapshotResponse
    bytes_max: int


class AppendToLog(Struct, frozen=True):
    """Write batches at the end of the log. Those without payload are control batches to be made from their records."""

    batches: tuple[Batch, ...]


class FlushLog(Struct, frozen=True):
    """Make all that the log holds durable; then tell `LogFlushed`. Several may be answered by one sync."""

    flush_id: int


class TruncateLog(Struct, frozen=True):
    """Remove everything from `end_offset` on."""

    end_offset: Offset


class WriteSnapshot(Struct, frozen=True):
    """Write bytes of a snapshot that is being fetched, at `position`; 0 begins it anew."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: bytes


class InstallSnapshot(Struct, frozen=True):
    """The snapshot is complete: make it durable, start the log anew at its end; then tell `SnapshotInstalled`."""

    snapshot_id: OffsetAndEpoch


class AbandonSnapshot(Struct, frozen=True):
    """A snapshot that was being fetched is no longer wanted: remove what was written."""

    snapshot_id: OffsetAndEpoch


class AdvanceHighWatermark(Struct, frozen=True):
    """Everything below `offset` is committed. Never goes back."""

    offset: Offset


class LeaderChanged(Struct, frozen=True):
    """Another leader, or none, in this epoch as far as this replica knows."""

    leader_id: NodeId | None
    epoch: LeaderEpoch


class BecameLeader(Struct, frozen=True):
    """This replica leads `epoch`, whose first record is at `epoch_start_offset`. Appends are accepted from here on."""

    epoch: LeaderEpoch
    epoch_start_offset: Offset


class LostLeadership(Struct, frozen=True):
    """This replica no longer leads `epoch`. What it appended without seeing it committed may or may not survive."""

    epoch: LeaderEpoch


class AppendAccepted(Struct, frozen=True):
    """The records of an `AppendRequested` got these offsets. They count once the high watermark passes them."""

    append_id: int
    base_offset: Offset
    next_offset: Offset


class AppendRefused(Struct, frozen=True):
    append_id: int
    error: ErrorCode


class UpgradeAnswered(Struct, frozen=True):
    """NONE where the version was written to the log (or is in force already); it counts once committed."""

    upgrade_id: int
    error: ErrorCode
    message: str | None = None


class ShutdownCompleted(Struct, frozen=True):
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
