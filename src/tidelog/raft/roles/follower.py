"""Follower: fetches from the leader of its epoch. Voters and observers alike."""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.voter_set import Endpoints, ReplicaKey


class SnapshotDownload(Struct):
    """A snapshot on its way: `position` bytes of it are written."""

    snapshot_id: OffsetAndEpoch
    position: int = 0


class Follower(Struct):
    """Until its fetch time-out, which every answer of the leader renews.

    `has_fetched` is what protects a living leader: a follower that heard from it in this role grants no pre-votes. It is taken
    back when the leader's port turns out to be closed; `is_leader_lost` then says why the deadline is near.
    """

    epoch: LeaderEpoch
    leader_id: NodeId
    leader_endpoints: Endpoints
    voted_key: ReplicaKey | None
    fetch_deadline_ms: int
    update_voter_deadline_ms: int
    has_fetched: bool = False
    has_updated_leader: bool = False
    is_leader_lost: bool = False
    has_yielded: bool = False
    download: SnapshotDownload | None = None

    def can_grant_vote(
        self,
        candidate: ReplicaKey,  # noqa: ARG002 - every role is asked the same question
        *,
        is_log_up_to_date: bool,
        is_pre_vote: bool,
    ) -> bool:
        return is_pre_vote and is_log_up_to_date and not self.has_fetched

    def fetched(self, fetch_deadline_ms: int) -> None:
        """The leader answered."""
        self.fetch_deadline_ms = fetch_deadline_ms
        self.has_fetched = True
        self.is_leader_lost = False
