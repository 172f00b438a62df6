"""Leader: appends, serves fetches, and commits what a majority has on disk."""

from __future__ import annotations

from msgspec import Struct, field

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.messages import FetchRequest
from tidelog.raft.progress import Progress
from tidelog.raft.voter_set import Endpoints, ReplicaKey, VoterSet


class ParkedFetch(Struct, frozen=True):
    """A fetch that found nothing new and waits for something."""

    request_id: int
    request: FetchRequest
    deadline_ms: int


class AddingVoter(Struct):
    """An AddVoter request under way: first the new voter's versions are asked for, then its VotersRecord is to be committed."""

    request_id: int
    voter: ReplicaKey
    endpoints: Endpoints
    is_answered_when_committed: bool
    deadline_ms: int
    probe_request_id: int
    voters_offset: Offset | None = None
    is_answered: bool = False


class RemovingVoter(Struct):
    """A RemoveVoter request whose VotersRecord is to be committed."""

    request_id: int
    voters_offset: Offset
    deadline_ms: int


class Leader(Struct):
    """Until a higher epoch, or until it cannot hear a majority, or until it is asked to go.

    `high_watermark` is None until a record of this epoch is committed: only then is it certain that no other leader can undo what
    earlier epochs left (Raft, section 5.4.2).
    """

    epoch: LeaderEpoch
    leader_id: NodeId
    leader_endpoints: Endpoints
    epoch_start_offset: Offset
    granting_voters: tuple[NodeId, ...]
    progress: Progress
    check_quorum_deadline_ms: int
    begin_epoch_deadline_ms: int
    high_watermark: Offset | None = None
    fetched_voters: set[NodeId] = field(default_factory=set)
    parked: dict[int, ParkedFetch] = field(default_factory=dict)
    change: AddingVoter | RemovingVoter | None = None
    # With static voters: what the voters said of themselves, which a change to kraft.version 1 will write down.
    reported_voters: VoterSet | None = None
    is_resigning: bool = False

    @property
    def voted_key(self) -> ReplicaKey | None:
        return None

    def can_grant_vote(
        self,
        candidate: ReplicaKey,  # noqa: ARG002 - every role is asked the same question
        *,
        is_log_up_to_date: bool,  # noqa: ARG002
        is_pre_vote: bool,  # noqa: ARG002
    ) -> bool:
        return False

    def heard_from(self, replica: ReplicaKey, now_ms: int, check_quorum_timeout_ms: int) -> None:
        """A replica fetched. Once a majority has done so since the last time, the leader may go on for another while."""
        if self.progress.voter(replica) is not None and replica.id != self.leader_id:
            self.fetched_voters.add(replica.id)
        wanted = len(self.progress.voters) // 2 + 1 - self.progress.is_leader_voter
        if sum(voter.key.id in self.fetched_voters for voter in self.progress.voters) >= wanted:
            self.fetched_voters.clear()
            self.check_quorum_deadline_ms = now_ms + check_quorum_timeout_ms

    @property
    def is_quorum_checked(self) -> bool:
        """Whether there is anybody to hear from."""
        return len(self.progress.voters) > 1 or not self.progress.is_leader_voter
