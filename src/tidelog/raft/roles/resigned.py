"""Resigned: led this epoch and does so no more, but may not vote in it either."""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.voter_set import Endpoints, ReplicaKey


class Resigned(Struct):
    """Tells the voters that the epoch is over until each has acknowledged it, or until its election time-out.

    A leader that restarts begins here: records that it appended and lost must not come again under the same epoch.
    """

    epoch: LeaderEpoch
    leader_id: NodeId
    leader_endpoints: Endpoints
    preferred_successors: tuple[ReplicaKey, ...]
    unacknowledged: list[NodeId]
    election_deadline_ms: int

    @property
    def voted_key(self) -> ReplicaKey | None:
        return None

    def can_grant_vote(
        self,
        candidate: ReplicaKey,  # noqa: ARG002 - every role is asked the same question
        *,
        is_log_up_to_date: bool,
        is_pre_vote: bool,
    ) -> bool:
        return is_pre_vote and is_log_up_to_date
