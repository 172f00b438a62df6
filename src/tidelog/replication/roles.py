"""What a replica is to its partition at the moment. Each role has only what it needs, so that nothing is asked of a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tidelog.kernel_choice import load
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from tidelog.replication.kernels.partition_kernel import Leading
else:
    Leading = load("tidelog.replication.kernels", "partition_kernel").Leading

__all__ = ["Following", "Leading", "Offline", "Role"]


@dataclass(slots=True)
class Following:
    """Another node's replica leads, or none does (`leader` is -1)."""

    log: PartitionLog
    leader: NodeId
    refusal: ErrorCode = ErrorCode.NONE
    """Why what the leader sent last could not be appended; NONE where it could."""


@dataclass(slots=True)
class Offline:
    """Nothing can be asked of the replica: its disk failed, it is gone, or it was never opened. `error` is the answer."""

    error: ErrorCode
    reason: str


Role: TypeAlias = Leading | Following | Offline
