"""The counting of one election's votes, real or preliminary."""

from __future__ import annotations

from tidelog.model.ids import NodeId
from tidelog.raft.voter_set import ReplicaKey, VoterSet


class Ballot:
    """Who was asked, and what they said. The voters are those of the moment in which the election began."""

    def __init__(self, voters: VoterSet, own_key: ReplicaKey) -> None:
        self._voters = voters
        self._granted: dict[NodeId, bool] = {own_key.id: True} if voters.is_voter(own_key) else {}
        self._unreachable: set[NodeId] = set()

    def record(self, voter_id: NodeId, *, granted: bool) -> None:
        """Notes an answer; one from a node that is no voter of this election counts for nothing."""
        if self._voters.get(voter_id) is not None:
            self._granted[voter_id] = granted

    def record_unreachable(self, voter_id: NodeId) -> None:
        """Notes that a voter's process is gone. It may come back and answer, but there is no use in waiting for it."""
        self._unreachable.add(voter_id)

    @property
    def is_won(self) -> bool:
        return sum(self._granted.values()) >= self._voters.majority

    @property
    def is_lost(self) -> bool:
        """Whether those who have not answered yet could no longer make up a majority."""
        return sum(self._granted.values()) + len(self.unanswered) < self._voters.majority

    @property
    def is_hopeless(self) -> bool:
        """Whether those who have not answered yet and still run could no longer make up a majority."""
        waiting = sum(key.id not in self._unreachable for key in self.unanswered)
        return sum(self._granted.values()) + waiting < self._voters.majority

    @property
    def unanswered(self) -> tuple[ReplicaKey, ...]:
        return tuple(key for key in self._voters.keys if key.id not in self._granted)

    @property
    def granting_voters(self) -> tuple[NodeId, ...]:
        return tuple(voter_id for voter_id in self._voters.ids if self._granted.get(voter_id))
