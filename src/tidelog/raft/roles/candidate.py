"""Candidate: stands for election in an epoch of its own."""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.ballot import Ballot
from tidelog.raft.voter_set import Endpoints, ReplicaKey


class Candidate(Struct):
    """Voted for itself, so for nobody else in this epoch."""

    epoch: LeaderEpoch
    voted_key: ReplicaKey
    ballot: Ballot
    election_deadline_ms: int

    @property
    def leader_id(self) -> NodeId | None:
        return None

    @property
    def leader_endpoints(self) -> Endpoints:
        return ()

    def can_grant_vote(
        self,
        candidate: ReplicaKey,  # noqa: ARG002 - every role is asked the same question
        *,
        is_log_up_to_date: bool,
        is_pre_vote: bool,
    ) -> bool:
        return is_pre_vote and is_log_up_to_date
