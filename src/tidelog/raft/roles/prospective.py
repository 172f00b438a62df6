"""Prospective: asks whether an election could be won, before it disturbs anybody with one (KIP-996)."""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.ballot import Ballot
from tidelog.raft.roles.unattached import can_grant_without_leader
from tidelog.raft.voter_set import Endpoints, ReplicaKey


class Prospective(Struct):
    """Still in the epoch of the leader that it lost, whose name and address it keeps in case that leader lives."""

    epoch: LeaderEpoch
    leader_id: NodeId | None
    leader_endpoints: Endpoints
    voted_key: ReplicaKey | None
    ballot: Ballot
    election_deadline_ms: int

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return can_grant_without_leader(self.leader_id, self.voted_key, candidate, is_log_up_to_date, is_pre_vote)
