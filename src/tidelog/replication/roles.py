# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What a replica is to its partition at the moment. Each role has only what it needs, so that nothing is asked of a wrong one.

    Leading      takes the writes, knows how far its followers are, and what is committed
    Following    copies the leader's log
    Offline      has no log

Each has an `error`: what whoever asks for the leader is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tidelog.model.errors import ErrorCode
from tidelog.replication.follower_progress import FollowerProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.model.ids import NodeId, Offset
    from tidelog.storage.partition_log import PartitionLog

# A member that is reached through its class costs more, and every commit asks for the first.
_NONE = ErrorCode.NONE
_NOT_ENOUGH_REPLICAS_AFTER_APPEND = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class Leading:
    """This node's replica takes the writes and says what is committed."""

    __slots__ = ("epoch_start_offset", "followers", "isr", "joining", "log", "min_in_sync")

    def __init__(
        self,
        log: PartitionLog,
        epoch_start_offset: Offset,
        isr: tuple[NodeId, ...],
        followers: dict[NodeId, FollowerProgress],
        min_in_sync: int,
    ) -> None:
        self.log = log
        # Where the log ended when this epoch began. Below it, the high watermark may be older than what clients have seen.
        self.epoch_start_offset = epoch_start_offset
        self.isr = isr
        # The other replicas, in sync or not.
        self.followers = followers
        # `min.insync.replicas`, or the number of replicas where there are fewer than that.
        self.min_in_sync = min_in_sync
        # Those that the controller was asked to count as in sync. It may have agreed already, and may elect one of them: nothing
        # is committed without them from the moment of asking.
        self.joining: tuple[NodeId, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Leading(log={self.log!r}, epoch_start_offset={self.epoch_start_offset!r}, isr={self.isr!r}, "
            f"followers={self.followers!r}, min_in_sync={self.min_in_sync!r}, joining={self.joining!r})"
        )

    @property
    def error(self) -> ErrorCode:
        return _NONE

    def has_enough_in_sync(self) -> bool:
        """Whether a write that waits for all in-sync replicas is taken, and anything is committed."""
        return len(self.isr) >= self.min_in_sync

    def commit_error(self) -> ErrorCode:
        """What a write is told whose records are committed."""
        return _NONE if len(self.isr) >= self.min_in_sync else _NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def replicated_up_to(self, end: int) -> int:
        """The smallest log end among the in-sync replicas and those that may be, where the leader's own is `end`."""
        isr = self.isr
        joining = self.joining
        for node, follower in self.followers.items():
            if follower.log_end_offset < end and (node in isr or node in joining):
                end = follower.log_end_offset
        return end

    def has_committed(self, follower: FollowerProgress) -> bool:
        """Whether a follower has all that is committed, and all that was there when this epoch began: then it may join."""
        return follower.log_end_offset >= max(self.log.high_watermark, self.epoch_start_offset)

    def low_watermark(self) -> Offset:
        """Where the log starts on all in-sync replicas."""
        lowest: int = self.log.log_start_offset
        for node, follower in self.followers.items():
            if follower.log_start_offset < lowest and node in self.isr:
                lowest = follower.log_start_offset
        return lowest  # type: ignore[return-value] # an offset is a number


class Following:
    """Another node's replica leads, or none does (`leader` is -1)."""

    __slots__ = ("leader", "log", "refusal")

    def __init__(self, log: PartitionLog, leader: NodeId) -> None:
        self.log = log
        self.leader = leader
        # Why what the leader sent last could not be appended; NONE where it could.
        self.refusal = _NONE

    @property
    def error(self) -> ErrorCode:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


class Offline:
    """Nothing can be asked of the replica: its disk failed, it is gone, or it was never opened. `error` is the answer."""

    __slots__ = ("error", "reason")

    def __init__(self, error: ErrorCode, reason: str) -> None:
        self.error = error
        self.reason = reason


def lead_on(
    before: Leading | None,
    log: PartitionLog,
    isr: tuple[NodeId, ...],
    others: Sequence[NodeId],
    min_in_sync: int,
    now_ms: int,
) -> Leading:
    """Lead with this in-sync set, and `others` as followers. What was known of them before in the same epoch, still is."""
    start = log.log_end_offset if before is None else before.epoch_start_offset
    known = {} if before is None else before.followers
    followers = {node: known.get(node) or FollowerProgress(last_caught_up_ms=now_ms) for node in others}
    return Leading(log, start, isr, followers, min_in_sync)


Role: TypeAlias = Leading | Following | Offline
