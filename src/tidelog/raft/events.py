"""What happens to a replica: everything that `Machine.step` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.control_records import ControlRecord
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import Request, Response


@dataclass(frozen=True, slots=True)
class Start:
    """The first event, once. Everything in the log is durable by then: the caller synced it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """`Machine.deadline_ms` has come. Early or superfluous ticks do no harm."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A peer or an administrator asks. Answered by exactly one `Respond...` effect with the same id, perhaps later."""

    request_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """An answer to the request of a `Send` effect."""

    request_id: int
    response: Response


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The connection broke before the answer came, or the peer could not be understood."""

    request_id: int


@dataclass(frozen=True, slots=True)
class ConnectionRefused:
    """A node's connection broke and its port was found closed on reconnect: its process is gone, not slow."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class QuorumStateSaved:
    """The file of a `SaveQuorumState` effect is on disk, name and all."""

    save_id: int


@dataclass(frozen=True, slots=True)
class LogFlushed:
    """Everything that was in the log when `FlushLog` came is on disk. One sync may answer several, in order."""

    flush_id: int


@dataclass(frozen=True, slots=True)
class AppendRequested:
    """The leader's user wants records in the log. `payload` is handed on unread in the `AppendToLog` effect.

    Answered at once by `AppendAccepted`, or by `AppendRefused` where the replica no longer leads in `epoch`.
    """

    append_id: int
    epoch: LeaderEpoch
    record_count: int
    payload: object = None


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """The snapshot of an `InstallSnapshot` effect is durable, and the log begins and ends where it ends.

    `control` are the control records at its head.
    """

    snapshot_id: OffsetAndEpoch
    control: tuple[ControlRecord, ...]


@dataclass(frozen=True, slots=True)
class LogStartMoved:
    """Records below `start_offset` were removed, since a snapshot holds them."""

    start_offset: Offset


@dataclass(frozen=True, slots=True)
class ResignRequested:
    """The leader's user wants another leader. Ignored in another epoch."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class UpgradeRequested:
    """The leader's user wants another kraft.version. Answered by `UpgradeAnswered`."""

    upgrade_id: int
    epoch: LeaderEpoch
    kraft_version: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
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
