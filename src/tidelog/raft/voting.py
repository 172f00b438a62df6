"""Elections: votes asked for and given, their outcome, and the announcements of an epoch's begin and end.

Vote, BeginQuorumEpoch and EndQuorumEpoch. A vote is granted at most once an epoch, and only to a log that holds everything this
replica ever acknowledged. A pre-vote binds nobody and is granted by whoever has no living leader.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.leading import take_office
from tidelog.raft.messages import (
    EPOCH_MAX,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Candidate, Follower, Nominee, Prospective, Resigned, Unattached
from tidelog.raft.voter_set import ReplicaKey


def answer_vote(quorum: Quorum, request: VoteRequest) -> VoteResponse:
    """Gives or refuses a vote."""
    if not is_same_cluster(quorum, request.cluster_id):
        return VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
    # A candidate stands in an epoch after its last record's; a prospective has not taken that step yet.
    last_epoch_max = request.epoch if request.pre_vote else request.epoch - 1
    if request.candidate.id < 0 or request.log_end.offset < 0 or not 0 <= request.log_end.epoch <= last_epoch_max:
        return _vote_answer(quorum, ErrorCode.INVALID_REQUEST)
    if request.epoch > EPOCH_MAX:
        return _vote_answer(quorum, ErrorCode.INVALID_REQUEST)
    if request.epoch < quorum.epoch:
        return _vote_answer(quorum, ErrorCode.FENCED_LEADER_EPOCH)
    if request.epoch > quorum.epoch:
        quorum.become_unattached(request.epoch)
    if not is_addressed_to(quorum, request.voter):
        return _vote_answer(quorum, ErrorCode.INVALID_VOTER_KEY)
    granted = request.candidate.id != quorum.local.key.id and quorum.role.can_grant_vote(
        request.candidate,
        is_log_up_to_date=request.log_end >= quorum.log.durable_end(),
        is_pre_vote=request.pre_vote,
    )
    if granted:
        if not request.pre_vote:
            quorum.become_voted(request.candidate)
        elif isinstance(quorum.role, Follower) and quorum.role.is_leader_lost and not quorum.role.has_yielded:
            # Two voters that lost their leader in the same moment: let the one that asked first go first, once.
            quorum.role.has_yielded = True
            quorum.role.fetch_deadline_ms += quorum.config.leader_lost_jitter_ms
    return _vote_answer(quorum, ErrorCode.NONE, granted=granted)


def take_vote(quorum: Quorum, voter_id: NodeId, response: VoteResponse) -> bool:
    """Counts a vote. The answer's word on epoch and leader was taken in before."""
    role = quorum.role
    if response.error is ErrorCode.UNSUPPORTED_VERSION and isinstance(role, Prospective):
        # A voter that does not know pre-votes: elections must be possible while nodes are upgraded one by one.
        quorum.become_candidate()
        return True
    if response.error not in {ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY}:
        return False
    if isinstance(role, Nominee) and response.epoch == role.epoch:
        role.ballot.record(voter_id, granted=response.granted)
        settle_election(quorum)
    return True


def voter_is_gone(quorum: Quorum, node_id: NodeId) -> None:
    """A node's port is closed: it will not vote, and if it led, it does so no more."""
    role = quorum.role
    match role:
        case Follower(leader_id=leader_id) if leader_id == node_id:
            role.has_fetched = False
            if not role.is_leader_lost and quorum.may_stand:
                role.is_leader_lost = True
                jitter_ms = quorum.random.randrange(quorum.config.leader_lost_jitter_ms + 1)
                role.fetch_deadline_ms = min(role.fetch_deadline_ms, quorum.now_ms + jitter_ms)
        case Prospective(ballot=ballot) | Candidate(ballot=ballot):
            ballot.record_unreachable(node_id)
            settle_election(quorum)
        case _:
            pass


def settle_election(quorum: Quorum) -> None:
    """Changes role where the votes so far decide the election."""
    role = quorum.role
    match role:
        case Prospective(ballot=ballot):
            if ballot.is_won:
                quorum.become_candidate()
                settle_election(quorum)
            elif ballot.is_hopeless:
                lose_pre_election(quorum, role)
        case Candidate(ballot=ballot):
            if ballot.is_won:
                take_office(quorum)
            elif ballot.is_hopeless:
                # Waiting for the whole time-out would gain nothing. A random back-off, since whoever took the votes away is in
                # the same position.
                backoff_ms = quorum.random.randrange(quorum.config.election_backoff_max_ms + 1)
                role.election_deadline_ms = min(role.election_deadline_ms, quorum.now_ms + backoff_ms)
        case _:
            pass


def lose_pre_election(quorum: Quorum, prospective: Prospective) -> None:
    """Nobody else misses the leader: back to it, or to waiting where its address is not known."""
    if prospective.leader_id is not None and prospective.leader_endpoints:
        quorum.become_follower(prospective.epoch, prospective.leader_id, prospective.leader_endpoints)
    else:
        quorum.become_unattached(prospective.epoch, prospective.leader_id)


def poll_election(quorum: Quorum) -> bool:
    """Lets an election run: asks who was not asked, gives up when its time is over. Whether the role changed."""
    role = quorum.role
    match role:
        case Unattached(election_deadline_ms=deadline_ms):
            if quorum.may_start_election and deadline_ms is not None and deadline_ms <= quorum.now_ms:
                quorum.become_prospective()
                return True
        case Follower(fetch_deadline_ms=deadline_ms):
            if quorum.may_start_election and deadline_ms <= quorum.now_ms:
                quorum.become_prospective()
                return True
        case Prospective(election_deadline_ms=deadline_ms):
            if role.ballot.is_won:
                quorum.become_candidate()
                return True
            if deadline_ms <= quorum.now_ms and not quorum.is_shutting_down:
                lose_pre_election(quorum, role)
                return True
            _ask_for_votes(quorum, role, pre_vote=True)
        case Candidate(election_deadline_ms=deadline_ms):
            if role.ballot.is_won:
                take_office(quorum)
                return True
            if deadline_ms <= quorum.now_ms and quorum.has_next_epoch and not quorum.is_shutting_down:
                quorum.become_prospective()
                return True
            _ask_for_votes(quorum, role, pre_vote=False)
        case _:
            pass
    return False


def _ask_for_votes(quorum: Quorum, nominee: Nominee, *, pre_vote: bool) -> None:
    if nominee.ballot.is_lost:
        return
    for voter in nominee.ballot.unanswered:
        node = quorum.voters.node(voter.id, quorum.local.listener)
        if node is not None and voter.id != quorum.local.key.id and quorum.connections.is_ready(voter.id):
            quorum.send(
                node,
                VoteRequest(
                    quorum.local.key, nominee.epoch, quorum.log.durable_end(), pre_vote, voter, quorum.local.cluster_id
                ),
            )


def answer_begin_epoch(quorum: Quorum, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """Takes notice of a leader."""
    error = _take_announcement(quorum, request)
    if error is ErrorCode.NONE:
        if isinstance(quorum.role, Prospective) and quorum.role.leader_id == request.leader_id:
            # The leader itself speaks: it is alive, whatever this replica thought.
            lose_pre_election(quorum, quorum.role)
        if not is_addressed_to(quorum, request.voter):
            error = ErrorCode.INVALID_VOTER_KEY
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return BeginQuorumEpochResponse(error)
    return BeginQuorumEpochResponse(error, quorum.epoch, quorum.role.leader_id, quorum.role.leader_endpoints)


def answer_end_epoch(quorum: Quorum, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """Takes notice that a leader resigns, and stands for election in the order that it proposes."""
    error = _take_announcement(quorum, request)
    role = quorum.role
    if error is ErrorCode.NONE and isinstance(role, Follower) and role.leader_id == request.leader_id:
        backoff_ms = _succession_backoff_ms(quorum, request.preferred_candidates)
        role.fetch_deadline_ms = quorum.now_ms + backoff_ms
        role.has_fetched = False
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return EndQuorumEpochResponse(error)
    return EndQuorumEpochResponse(error, quorum.epoch, quorum.role.leader_id, quorum.role.leader_endpoints)


def take_end_epoch_answer(quorum: Quorum, voter_id: NodeId, response: EndQuorumEpochResponse) -> bool:
    if response.error is ErrorCode.NONE and isinstance(quorum.role, Resigned):
        quorum.role.unacknowledged = [other for other in quorum.role.unacknowledged if other != voter_id]
    return response.error is ErrorCode.NONE


def poll_resigned(quorum: Quorum, resigned: Resigned) -> bool:
    """Tells the voters that the epoch is over, until it is time for the next one. Whether the role changed."""
    if resigned.election_deadline_ms <= quorum.now_ms and quorum.has_next_epoch and not quorum.is_shutting_down:
        # Out of the epoch that it led: in it, its own name would keep it from following anyone.
        quorum.become_unattached(LeaderEpoch(resigned.epoch + 1))
        return True
    for voter_id in resigned.unacknowledged:
        node = quorum.voters.node(voter_id, quorum.local.listener)
        if node is not None and quorum.connections.is_ready(voter_id):
            quorum.send(
                node,
                EndQuorumEpochRequest(
                    resigned.leader_id,
                    resigned.epoch,
                    resigned.preferred_successors,
                    resigned.leader_endpoints,
                    quorum.local.cluster_id,
                ),
            )
    return False


def is_same_cluster(quorum: Quorum, cluster_id: str | None) -> bool:
    """Whether a request was meant for this cluster; one that names none is believed."""
    return cluster_id is None or cluster_id == quorum.local.cluster_id


def is_addressed_to(quorum: Quorum, voter: ReplicaKey | None) -> bool:
    """Whether a request was meant for this replica, and not for one that had its id before."""
    return voter is None or voter.matches(quorum.local.key)


def _take_announcement(quorum: Quorum, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> ErrorCode:
    if not is_same_cluster(quorum, request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.epoch < quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if request.leader_id < 0 or request.leader_id == quorum.local.key.id or request.epoch > EPOCH_MAX:
        return ErrorCode.INVALID_REQUEST
    quorum.learn(request.epoch, request.leader_id, request.leader_endpoints)
    if quorum.role.leader_id not in {None, request.leader_id}:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _succession_backoff_ms(quorum: Quorum, preferred: tuple[ReplicaKey, ...]) -> int:
    """How long to wait before standing: the first in the list not at all, each one after it twice as long as the one before."""
    if not preferred:
        # A leader that restarted knows of no successor better than another: whoever comes first.
        return quorum.random.randrange(quorum.config.leader_lost_jitter_ms + 1)
    backoff_max_ms = quorum.config.election_backoff_max_ms
    for position, candidate in enumerate(preferred):
        if candidate.matches(quorum.local.key):
            return (backoff_max_ms >> (len(preferred) - 1)) << (position - 1) if position else 0
    return backoff_max_ms


def _vote_answer(quorum: Quorum, error: ErrorCode, *, granted: bool = False) -> VoteResponse:
    return VoteResponse(error, granted, quorum.epoch, quorum.role.leader_id, quorum.role.leader_endpoints)
