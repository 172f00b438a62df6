"""The replica's part in its quorum: its role, and the one gate through which the role changes.

    from \\ because of   higher epoch   leader heard of   own timer          votes counted              otherwise
    Unattached          Unattached     Follower          Prospective (1)    -                          Unattached, voted
    Prospective         Unattached     Follower (2)      as if lost         won: Candidate, lost: (3)  Prospective, voted
    Candidate           Unattached     Follower          Prospective        won: Leader                -
    Follower            Unattached     Follower (4)      Prospective (1)    -                          -
    Leader              Unattached     Follower (5)      Resigned (6)       -                          Resigned (7)
    Resigned            Unattached     Follower (5)      Unattached (8)     -                          Prospective (9)

    (1) voters only, and those who may still be (`may_stand`): an observer has no election timer
    (2) of a higher epoch, or from the leader itself: an answer that merely repeats its name proves nothing
    (3) Follower of the leader it had lost if it knows its address, else Unattached, in the same epoch
    (4) of a higher epoch, or the same leader with more endpoints
    (5) of a higher epoch: this replica is the leader of its own
    (6) no fetches from a majority in time
    (7) asked to, shutting down, or removed from the voters by a record that is now committed
    (8) in the next epoch: in the one that it led, its own name would keep it from following anyone
    (9) at start, where it is the only voter and need not wait for anybody

A higher epoch makes a Follower where its leader is known with an address, else an Unattached.

Epoch, leader and vote go to disk with every change of them, and nothing is said or written afterwards until they are
there (`outbox`). A role that changes none of the three (Prospective, Resigned) is not written: a Prospective that restarts is
what it was before, and a leader restarts as Resigned.
"""

from __future__ import annotations

from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.ballot import Ballot
from tidelog.raft.config import LocalReplica, QuorumConfig
from tidelog.raft.connections import Connections
from tidelog.raft.control_records import ControlHistory
from tidelog.raft.effects import (
    AbandonSnapshot,
    AdvanceHighWatermark,
    BecameLeader,
    LeaderChanged,
    LostLeadership,
    Respond,
    Send,
)
from tidelog.raft.errors import invariant
from tidelog.raft.local_log import LocalLog
from tidelog.raft.log_view import LogView, OffsetAndEpoch
from tidelog.raft.messages import (
    EPOCH_MAX,
    AddVoterResponse,
    FetchResponse,
    RemoveVoterResponse,
    Request,
)
from tidelog.raft.outbox import Outbox
from tidelog.raft.progress import Progress
from tidelog.raft.quorum_state import DYNAMIC_VOTERS, STATIC_VOTERS, QuorumState
from tidelog.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from tidelog.raft.roles.leader import AddingVoter
from tidelog.raft.voter_set import Endpoints, Node, ReplicaKey, VoterSet, endpoint_for

_TRANSITIONS: dict[type[Role], tuple[type[Role], ...]] = {
    Unattached: (Unattached, Follower, Prospective),
    Prospective: (Prospective, Unattached, Follower, Candidate),
    Candidate: (Unattached, Follower, Prospective, Leader),
    Follower: (Unattached, Follower, Prospective),
    Leader: (Unattached, Follower, Resigned),
    Resigned: (Unattached, Follower, Prospective),
}


class Quorum:
    """What a replica knows of its quorum and itself. Handlers read it freely and change the role only by `become_*`."""

    def __init__(
        self,
        local: LocalReplica,
        config: QuorumConfig,
        log: LogView,
        control: ControlHistory,
        stored: QuorumState | None,
        random: Random,
    ) -> None:
        self.local = local
        self.config = config
        self.control = control
        self.random = random
        self.log = LocalLog(log)
        self.outbox = Outbox()
        self.connections = Connections(config.request_timeout_ms, config.retry_backoff_ms)
        self.now_ms = 0
        self.high_watermark: Offset | None = None
        # A complete snapshot that the caller is putting in place of the log: until it is there, no fetch and no election.
        self.installing: OffsetAndEpoch | None = None
        self.shutdown_deadline_ms: int | None = None
        self._stored = stored
        self.role: Role = Unattached(LeaderEpoch(0), None, None, None)

    # What follows from the role

    @property
    def voters(self) -> VoterSet:
        return self.control.voters

    @property
    def is_voter(self) -> bool:
        return self.control.voters.is_voter(self.local.key)

    @property
    def is_only_voter(self) -> bool:
        return self.control.voters.is_only_voter(self.local.key)

    @property
    def epoch(self) -> LeaderEpoch:
        return self.role.epoch

    @property
    def is_shutting_down(self) -> bool:
        return self.shutdown_deadline_ms is not None

    @property
    def may_stand(self) -> bool:
        """Whether this replica may be elected.

        Also one that the latest voter set leaves out, as long as that set may not be committed: it may be the only one with
        the longest log, and then nobody else can be elected (Raft dissertation, 4.2.2). It does not count its own vote.
        """
        if self.is_voter:
            return True
        former, offset = self.control.former_voters, self.control.voters_offset
        if former is None or offset is None or not former.is_voter(self.local.key):
            return False
        return self.high_watermark is None or offset >= self.high_watermark

    @property
    def has_next_epoch(self) -> bool:
        return self.epoch < EPOCH_MAX

    @property
    def may_start_election(self) -> bool:
        return self.may_stand and self.has_next_epoch and self.installing is None and not self.is_shutting_down

    def election_timeout_ms(self) -> int:
        """Between once and twice the configured time, so that voters who wait together do not stand together."""
        timeout_ms = self.config.election_timeout_ms
        return timeout_ms + self.random.randrange(timeout_ms) if timeout_ms else 0

    def fetch_deadline_ms(self) -> int:
        """How long a follower that heard from its leader now waits for more.

        Jittered: the followers of a leader that hangs heard from it together, and must not all stand in the same moment.
        """
        jitter_ms = self.random.randrange(self.config.leader_lost_jitter_ms + 1)
        return self.now_ms + self.config.fetch_timeout_ms + jitter_ms

    def send(self, to: Node, request: Request) -> int:
        """Sends a request to a peer that is ready for one."""
        request_id = self.connections.sent(to.id, self.now_ms)
        self.outbox.emit(Send(to, request_id, request))
        return request_id

    def advance_high_watermark(self, offset: Offset) -> bool:
        if self.high_watermark is not None and offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.outbox.emit(AdvanceHighWatermark(offset))
        return True

    # The first role

    def start(self) -> None:
        """Begins in the role that the election's state on disk calls for."""
        stored = self._stored or QuorumState(LeaderEpoch(0))
        log_epoch = self.log.end.epoch
        deadline_ms = self.now_ms + self.election_timeout_ms()
        if stored.epoch < log_epoch:
            # The file is older than the log, as after a move from another directory: what it says of votes is void.
            self._begin_as(Unattached(log_epoch, None, None, deadline_ms))
        elif stored.leader_id == self.local.key.id:
            unacknowledged = [voter_id for voter_id in self.voters.ids if voter_id != self.local.key.id]
            self._begin_as(
                Resigned(stored.epoch, self.local.key.id, self.local.endpoints, (), unacknowledged, deadline_ms)
            )
        elif stored.voted_key is not None and stored.voted_key.matches(self.local.key) and self.may_stand:
            self._begin_as(Candidate(stored.epoch, self.local.key, Ballot(self.voters, self.local.key), deadline_ms))
        elif stored.leader_id is not None and self._is_reachable(self.voters.endpoints_of(stored.leader_id)):
            endpoints = self.voters.endpoints_of(stored.leader_id)
            self._begin_as(self._follower(stored.epoch, stored.leader_id, endpoints, stored.voted_key))
        else:
            # The last voter to come up need not wait: asking for pre-votes disturbs nobody, should there be a leader after all.
            deadline_ms = self.now_ms + self.random.randrange(self.config.leader_lost_jitter_ms + 1)
            self._begin_as(Unattached(stored.epoch, stored.leader_id, stored.voted_key, deadline_ms))

    def _begin_as(self, role: Role) -> None:
        self.role = role
        self._save_election()
        self.outbox.emit(LeaderChanged(role.leader_id, role.epoch))

    # The roles after that

    def become_unattached(self, epoch: LeaderEpoch, leader_id: NodeId | None = None) -> None:
        deadline_ms: int | None = None
        if self.may_stand:
            match self.role:
                case Prospective(ballot=ballot) if ballot.is_hopeless:
                    deadline_ms = None
                case Unattached() | Prospective() | Candidate() | Resigned():
                    # A stream of higher epochs must not put off this replica's own election for ever.
                    deadline_ms = self.role.election_deadline_ms
                case Follower() | Leader():
                    deadline_ms = None
            if deadline_ms is None:
                deadline_ms = self.now_ms + self.election_timeout_ms()
        voted_key = self.role.voted_key if epoch == self.epoch else None
        self._become(Unattached(epoch, leader_id, voted_key, deadline_ms))

    def become_voted(self, candidate: ReplicaKey) -> None:
        """Grants the vote of this epoch."""
        deadline_ms = self.now_ms + self.election_timeout_ms()
        match self.role:
            case Unattached(epoch=epoch, leader_id=leader_id, voted_key=None):
                self._become(Unattached(epoch, leader_id, candidate, deadline_ms))
            case Prospective(epoch=epoch, leader_id=leader_id, leader_endpoints=endpoints, voted_key=None):
                ballot = Ballot(self.voters, self.local.key)
                self._become(Prospective(epoch, leader_id, endpoints, candidate, ballot, deadline_ms))
            case _:
                voted_key = self.role.voted_key
                invariant(
                    voted_key is not None and voted_key.matches(candidate),
                    f"a second vote in epoch {self.epoch}, by {self.role}",
                )

    def become_prospective(self) -> None:
        role = self.role
        self._become(
            Prospective(
                role.epoch,
                role.leader_id,
                role.leader_endpoints if role.leader_id != self.local.key.id else (),
                role.voted_key,
                Ballot(self.voters, self.local.key),
                self.now_ms + self.election_timeout_ms(),
            )
        )

    def become_candidate(self) -> None:
        self._become(
            Candidate(
                LeaderEpoch(self.epoch + 1),
                self.local.key,
                Ballot(self.voters, self.local.key),
                self.now_ms + self.election_timeout_ms(),
            )
        )

    def become_follower(self, epoch: LeaderEpoch, leader_id: NodeId, endpoints: Endpoints) -> None:
        invariant(leader_id != self.local.key.id, f"a replica cannot follow itself, in epoch {epoch}")
        voted_key = self.role.voted_key if epoch == self.epoch else None
        self._become(self._follower(epoch, leader_id, endpoints, voted_key))

    def become_leader(self) -> None:
        candidate = self.role
        invariant(isinstance(candidate, Candidate) and candidate.ballot.is_won, "only a majority makes a leader")
        assert isinstance(candidate, Candidate)
        reported = None
        if not self.control.is_reconfigurable:
            reported = self.voters.with_updated_voter(self.local.voter, any_directory=True)
        self._become(
            Leader(
                epoch=candidate.epoch,
                leader_id=self.local.key.id,
                leader_endpoints=self.local.endpoints,
                epoch_start_offset=self.log.end.offset,
                granting_voters=candidate.ballot.granting_voters,
                progress=Progress(self.voters, self.local.key),
                check_quorum_deadline_ms=self.now_ms + self.config.check_quorum_timeout_ms,
                begin_epoch_deadline_ms=self.now_ms,
                reported_voters=reported,
            )
        )
        self.outbox.emit(BecameLeader(self.epoch, self.log.end.offset))

    def become_resigned(self) -> None:
        leader = self.role
        assert isinstance(leader, Leader)
        self._become(
            Resigned(
                leader.epoch,
                leader.leader_id,
                leader.leader_endpoints,
                leader.progress.successors(),
                [voter_id for voter_id in self.voters.ids if voter_id != self.local.key.id],
                self.now_ms + self.election_timeout_ms(),
            )
        )

    def learn(self, epoch: LeaderEpoch, leader_id: NodeId | None, endpoints: Endpoints) -> bool:
        """Takes in what a peer says of the quorum. Whether it changed anything.

        A peer that names another leader for this epoch than the one this replica knows is wrong or lying; it is not believed.
        """
        if not self.epoch <= epoch <= EPOCH_MAX:
            return False
        if leader_id is not None and not self._is_reachable(endpoints):
            endpoints = self.voters.endpoints_of(leader_id)
        is_followable = leader_id is not None and leader_id != self.local.key.id and self._is_reachable(endpoints)
        if epoch > self.epoch:
            if is_followable and leader_id is not None:
                self.become_follower(epoch, leader_id, endpoints)
            else:
                self.become_unattached(epoch, leader_id)
            return True
        if not is_followable or leader_id is None or self.role.leader_id not in {None, leader_id}:
            return False
        if self.role.leader_id is None or len(endpoints) > len(self.role.leader_endpoints):
            self.become_follower(epoch, leader_id, endpoints)
            return True
        return False

    # The gate

    def _become(self, role: Role) -> None:
        former = self.role
        invariant(
            type(role) in _TRANSITIONS[type(former)] and former.epoch <= role.epoch <= max(former.epoch, EPOCH_MAX),
            f"no way from {former} to {role}",
        )
        if isinstance(former, Leader):
            self.outbox.emit(LostLeadership(former.epoch))
        if isinstance(former, Follower) and former.download is not None:
            self.outbox.emit(AbandonSnapshot(former.download.snapshot_id))
        self.role = role
        self.connections.reset()
        self._save_election()
        if (role.leader_id, role.epoch) != (former.leader_id, former.epoch):
            self.outbox.emit(LeaderChanged(role.leader_id, role.epoch))
        if isinstance(former, Leader):
            self._answer_waiting(former)

    def _answer_waiting(self, leader: Leader) -> None:
        """Answers waiting fetches of a leader that is no more, with the name of the next leader where it is known."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = FetchResponse(error, self.role.epoch, self.role.leader_id, self.role.leader_endpoints)
        for parked in leader.parked.values():
            self.outbox.emit(Respond(parked.request_id, answer))
        change = leader.change
        if isinstance(change, AddingVoter):
            if not change.is_answered:
                self.outbox.emit(Respond(change.request_id, AddVoterResponse(error)))
        elif change is not None:
            self.outbox.emit(Respond(change.request_id, RemoveVoterResponse(error)))

    def _save_election(self) -> None:
        state = QuorumState(
            self.role.epoch,
            self.role.leader_id,
            self.role.voted_key,
            () if self.control.is_reconfigurable else self.voters.ids,
            DYNAMIC_VOTERS if self.control.is_reconfigurable else STATIC_VOTERS,
        )
        if self._stored is None or not self._stored.same_election(state):
            self._stored = state
            self.outbox.save(state)

    def _follower(
        self, epoch: LeaderEpoch, leader_id: NodeId, endpoints: Endpoints, voted_key: ReplicaKey | None
    ) -> Follower:
        update_voter_deadline_ms = self.now_ms + self.config.fetch_timeout_ms
        return Follower(epoch, leader_id, endpoints, voted_key, self.fetch_deadline_ms(), update_voter_deadline_ms)

    def _is_reachable(self, endpoints: Endpoints) -> bool:
        return endpoint_for(endpoints, self.local.listener) is not None
