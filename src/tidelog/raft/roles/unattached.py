"""Unattached: knows the epoch, but no leader that it could follow."""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.voter_set import Endpoints, ReplicaKey


class Unattached(Struct):
    """Waits for a leader to be heard of, asking around; as a voter until its election time-out.

    It may know the leader's name and not its address (after a restart, where the leader is not in the voter set). An
    observer has no election time-out.
    """

    epoch: LeaderEpoch
    leader_id: NodeId | None
    voted_key: ReplicaKey | None
    election_deadline_ms: int | None

    @property
    def leader_endpoints(self) -> Endpoints:
        return ()

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return can_grant_without_leader(self.leader_id, self.voted_key, candidate, is_log_up_to_date, is_pre_vote)


def can_grant_without_leader(
    leader_id: NodeId | None,
    voted_key: ReplicaKey | None,
    candidate: ReplicaKey,
    is_log_up_to_date: bool,
    is_pre_vote: bool,
) -> bool:
    """Whether a replica that follows nobody votes for a candidate of its own epoch: once an epoch, and not beside a leader."""
    if is_pre_vote:
        return is_log_up_to_date
    if voted_key is not None:
        return voted_key.matches(candidate)
    return leader_id is None and is_log_up_to_date
