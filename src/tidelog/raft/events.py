"""What happens to a replica: everything that `Machine.step` can be told."""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.control_records import ControlRecord
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import Request, Response


class Start(Struct, frozen=True):
    """The first event, once. Everything in the log is durable by then: the caller synced it."""


class Tick(Struct, frozen=True):
    """`Machine.deadline_ms` has come. Early or superfluous ticks do no harm."""


class RequestReceived(Struct, frozen=True):
    """A peer or an administrator asks. Answered by exactly one `Respond...` effect with the same id, perhaps later."""

    request_id: int
    request: Request


class ResponseReceived(Struct, frozen=True):
    """An answer to the request of a `Send` effect."""

    request_id: int
    response: Response


class RequestFailed(Struct, frozen=True):
    """The connection broke before the answer came, or the peer could not be understood."""

    request_id: int


class ConnectionRefused(Struct, frozen=True):
    """A node's connection broke and its port was found closed on reconnect: its process is gone, not slow."""

    node_id: NodeId


class QuorumStateSaved(Struct, frozen=True):
    """The file of a `SaveQuorumState` effect is on disk, name and all."""

    save_id: int


class LogFlushed(Struct, frozen=True):
    """Everything that was in the log when `FlushLog` came is on disk. One sync may answer several, in order."""

    flush_id: int


class AppendRequested(Struct, frozen=True):
    """The leader's user wants records in the log. `payload` is handed on unread in the `AppendToLog` effect.

    Answered at once by `AppendAccepted`, or by `AppendRefused` where the replica no longer leads in `epoch`.
    """

    append_id: int
    epoch: LeaderEpoch
    record_count: int
    payload: object = None


class SnapshotInstalled(Struct, frozen=True):
    """The snapshot of an `InstallSnapshot` effect is durable, and the log begins and ends where it ends.

    `control` are the control records at its head.
    """

    snapshot_id: OffsetAndEpoch
    control: tuple[ControlRecord, ...]


class LogStartMoved(Struct, frozen=True):
    """Records below `start_offset` were removed, since a snapshot holds them."""

    start_offset: Offset


class ResignRequested(Struct, frozen=True):
    """The leader's user wants another leader. Ignored in another epoch."""

    epoch: LeaderEpoch


class UpgradeRequested(Struct, frozen=True):
    """The leader's user wants another kraft.version. Answered by `UpgradeAnswered`."""

    upgrade_id: int
    epoch: LeaderEpoch
    kraft_version: int
    validate_only: bool = False


class ShutdownRequested(Struct, frozen=True):
    """The node stops: a leader hands over first. `ShutdownCompleted` follows within `timeout_ms`."""

    timeout_ms: int


Event = (
    Start
    | Tick
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | ConnectionRefused
    | QuorumStateSaved
    | LogFlushed
    | AppendRequested
    | SnapshotInstalled
    | LogStartMoved
    | ResignRequested
    | UpgradeRequested
    | ShutdownRequested
)
