"""What a replica is to its partition at the moment. Each role has only what it needs, so that nothing is asked of a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset
from tidelog.replication.follower_progress import FollowerProgress
from tidelog.storage.partition_log import PartitionLog


@dataclass(slots=True)
class Leading:
    """This node's replica takes the writes and says what is committed."""

    log: PartitionLog
    epoch_start_offset: Offset
    """Where the log ended when this epoch began. Below it, the high watermark may be older than what clients have seen."""
    isr: tuple[NodeId, ...]
    followers: dict[NodeId, FollowerProgress]
    """The other replicas, in sync or not."""
    min_in_sync: int
    """`min.insync.replicas`, or the number of replicas where there are fewer than that."""
    joining: tuple[NodeId, ...] = ()
    """Those that the controller was asked to count as in sync. It may have agreed already, and may elect one of them: nothing is
    committed without them from the moment of asking."""


@dataclass(slots=True)
class Following:
    """Another node's replica leads, or none does (`leader` is -1)."""

    log: PartitionLog
    leader: NodeId


@dataclass(slots=True)
class Offline:
    """Nothing can be asked of the replica: its disk failed, it is gone, or it was never opened. `error` is the answer."""

    error: ErrorCode
    reason: str


Role: TypeAlias = Leading | Following | Offline
