"""The machine: one replica of a quorum as a function from events to effects.

    machine = Machine(local, config, log, control, stored, random)
    effects = machine.step(Start(), now_ms)
    ...
    effects = machine.step(event, now_ms)        # and Tick() when machine.deadline_ms has come

It has no I/O, no clock and no randomness of its own. The caller carries out the effects of a step in order, all of them
before the next step (a `SaveQuorumState` or `FlushLog` is carried out by starting it), and reports what happened as further
events. Times are those of a clock that never goes back.

The transition table is in `tidelog.raft.quorum`; what each role does is in `voting`, `following`, `leading` and `membership`.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec import Struct

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft import following, leading, membership, voting
from tidelog.raft.config import LocalReplica, QuorumConfig
from tidelog.raft.control_records import ControlHistory
from tidelog.raft.effects import Effect, Respond, ShutdownCompleted
from tidelog.raft.errors import invariant
from tidelog.raft.events import (
    AppendRequested,
    ConnectionRefused,
    Event,
    LogFlushed,
    LogStartMoved,
    QuorumStateSaved,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    ShutdownRequested,
    SnapshotInstalled,
    Start,
    Tick,
    UpgradeRequested,
)
from tidelog.raft.log_view import LogView, OffsetAndEpoch
from tidelog.raft.messages import (
    NO_EPOCH,
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.progress import ReplicaProgress
from tidelog.raft.quorum import Quorum
from tidelog.raft.quorum_state import QuorumState
from tidelog.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from tidelog.raft.voter_set import VoterSet

# A step moves through a few roles at most: the only voter goes Unattached, Prospective, Candidate, Leader.
_ROLE_CHANGES_MAX = 8


class QuorumDescription(Struct, frozen=True):
    """What a leader can tell of its quorum, for DescribeQuorum. Times are those of the machine."""

    leader_id: NodeId
    epoch: LeaderEpoch
    high_watermark: Offset | None
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]


class Machine:
    """One replica. Not to be shared between threads."""

    def __init__(
        self,
        local: LocalReplica,
        config: QuorumConfig,
        log: LogView,
        control: ControlHistory,
        stored: QuorumState | None,
        random: Random,
    ) -> None:
        """`control` are the control records of snapshot and log; `stored` is the content of `quorum-state`, if there is one."""
        self._quorum = Quorum(local, config, log, control, stored, random)
        self._is_started = False
        self._is_stopped = False

    # What others may know

    @property
    def role(self) -> Role:
        """The role, for reading."""
        return self._quorum.role

    @property
    def epoch(self) -> LeaderEpoch:
        return self._quorum.epoch

    @property
    def leader_id(self) -> NodeId | None:
        return self._quorum.role.leader_id

    @property
    def voters(self) -> VoterSet:
        return self._quorum.voters

    @property
    def is_voter(self) -> bool:
        return self._quorum.is_voter

    @property
    def kraft_version(self) -> int:
        return self._quorum.control.kraft_version

    @property
    def high_watermark(self) -> Offset | None:
        """Everything below is committed; None where this replica does not know yet."""
        return self._quorum.high_watermark

    @property
    def log_end(self) -> OffsetAndEpoch:
        return self._quorum.log.end

    @property
    def held_effects(self) -> int:
        """How much waits for the disk. A caller that is asked much while its disk hangs should stop reading requests."""
        return self._quorum.outbox.held

    def voters_at(self, offset: Offset) -> VoterSet | None:
        """The voters that the log names at an offset, for the head of a snapshot; None where they are static."""
        return self._quorum.control.voters_at(offset)

    def kraft_version_at(self, offset: Offset) -> int:
        return self._quorum.control.kraft_version_at(offset)

    def describe(self, now_ms: int) -> QuorumDescription | None:
        """The quorum as its leader sees it; None where this replica does not lead."""
        leader = self._quorum.role
        if not isinstance(leader, Leader):
            return None
        leader.progress.forget_silent_observers(now_ms)
        end_offset, own_key = self._quorum.log.end.offset, self._quorum.local.key

        def described(replica: ReplicaProgress) -> ReplicaProgress:
            # By the name that the voter set has for it: a static one knows no directories, not even the leader's.
            is_own = replica.key.matches(own_key)
            return ReplicaProgress(replica.key, end_offset, now_ms, now_ms) if is_own else replica

        voters, observers = (
            tuple(map(described, group)) for group in (leader.progress.voters, leader.progress.observers)
        )
        return QuorumDescription(leader.leader_id, leader.epoch, leader.high_watermark, voters, observers)

    @property
    def deadline_ms(self) -> int | None:
        """When to tick next, if nothing else happens before."""
        if self._is_stopped:
            return None
        # What is due but was not done waits for an event: a timer would fire at once, again and again.
        return min((deadline for deadline in self._deadlines() if deadline > self._quorum.now_ms), default=None)

    # Events

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Takes in one event. What is to be done about it, in order."""
        quorum = self._quorum
        if self._is_started == isinstance(event, Start):
            # Formatting an event is expensive, since it may carry many records: only where it is needed.
            invariant(False, f"{event} came before the start, or after it")
        if self._is_stopped:
            # What was decided before still has to leave; nothing new is.
            if isinstance(event, QuorumStateSaved):
                quorum.outbox.saved(event.save_id)
            return quorum.outbox.drain()
        quorum.now_ms = max(quorum.now_ms, now_ms)
        quorum.connections.expire(quorum.now_ms)
        self._take(event)
        self._poll()
        return quorum.outbox.drain()

    def _take(self, event: Event) -> None:
        quorum = self._quorum
        match event:
            case Start():
                self._is_started = True
                quorum.start()
                if quorum.is_only_voter and quorum.has_next_epoch and not isinstance(quorum.role, Candidate):
                    quorum.become_prospective()
            case Tick():
                pass
            case RequestReceived(request_id, request):
                self._answer(request_id, request)
            case ResponseReceived(request_id, response):
                self._take_response(request_id, response)
            case RequestFailed(request_id):
                membership.probe_failed(quorum, request_id)
                quorum.connections.failed(request_id, quorum.now_ms)
            case ConnectionRefused(node_id):
                quorum.connections.back_off(node_id, quorum.now_ms)
                voting.voter_is_gone(quorum, node_id)
            case QuorumStateSaved(save_id):
                quorum.outbox.saved(save_id)
            case LogFlushed(flush_id):
                quorum.log.flushed(flush_id)
            case AppendRequested():
                leading.append_records(quorum, event)
            case SnapshotInstalled():
                following.snapshot_installed(quorum, event)
            case LogStartMoved(start_offset):
                quorum.control.forget_before(start_offset)
            case ResignRequested(epoch):
                if isinstance(quorum.role, Leader) and quorum.role.epoch == epoch:
                    quorum.role.is_resigning = True
            case UpgradeRequested():
                membership.upgrade(quorum, event)
            case ShutdownRequested(timeout_ms):
                if quorum.shutdown_deadline_ms is None:
                    quorum.shutdown_deadline_ms = quorum.now_ms + timeout_ms

    def _answer(self, request_id: int, request: Request) -> None:
        quorum = self._quorum
        match request:
            case VoteRequest():
                quorum.outbox.emit(Respond(request_id, voting.answer_vote(quorum, request)))
            case BeginQuorumEpochRequest():
                quorum.outbox.emit(Respond(request_id, voting.answer_begin_epoch(quorum, request)))
            case EndQuorumEpochRequest():
                quorum.outbox.emit(Respond(request_id, voting.answer_end_epoch(quorum, request)))
            case FetchRequest():
                leading.answer_fetch(quorum, request_id, request)
            case FetchSnapshotRequest():
                leading.answer_fetch_snapshot(quorum, request_id, request)
            case AddVoterRequest():
                membership.answer_add_voter(quorum, request_id, request)
            case RemoveVoterRequest():
                membership.answer_remove_voter(quorum, request_id, request)
            case UpdateVoterRequest():
                quorum.outbox.emit(Respond(request_id, membership.answer_update_voter(quorum, request)))
            case ApiVersionsRequest():
                versions = quorum.local.kraft_versions
                quorum.outbox.emit(Respond(request_id, ApiVersionsResponse(ErrorCode.NONE, versions)))

    def _take_response(self, request_id: int, response: Response) -> None:
        quorum = self._quorum
        node_id = quorum.connections.answered(request_id)
        if node_id is None:
            return
        role = quorum.role
        match response:
            case ApiVersionsResponse():
                is_sound = membership.take_versions(quorum, node_id, response)
            case AddVoterResponse() | RemoveVoterResponse():
                # Whether it was done shows in the log; if not, this replica asks again.
                is_sound = response.error is ErrorCode.NONE
            case _:
                is_sound = self._take_quorum_response(node_id, response)
        if not is_sound and quorum.role is role:
            quorum.connections.back_off(node_id, quorum.now_ms)

    def _take_quorum_response(self, node_id: NodeId, response: QuorumResponse) -> bool:
        """Takes in what an answer says of the quorum, then the answer itself. Whether it was of use."""
        quorum = self._quorum
        is_redirect = response.error in {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        if response.epoch != NO_EPOCH:
            if response.epoch > quorum.epoch or is_redirect:
                return quorum.learn(response.epoch, response.leader_id, response.leader_endpoints)
            if response.epoch < quorum.epoch or response.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
                return False
            if response.leader_id is not None and quorum.role.leader_id is None:
                quorum.learn(response.epoch, response.leader_id, response.leader_endpoints)
        role = quorum.role
        match response:
            case VoteResponse():
                return voting.take_vote(quorum, node_id, response)
            case BeginQuorumEpochResponse():
                return response.error is ErrorCode.NONE
            case EndQuorumEpochResponse():
                return voting.take_end_epoch_answer(quorum, node_id, response)
            case FetchResponse() if isinstance(role, Follower):
                return following.take_fetch(quorum, role, response)
            case FetchSnapshotResponse() if isinstance(role, Follower):
                return following.take_fetch_snapshot(quorum, role, response)
            case UpdateVoterResponse() if isinstance(role, Follower):
                return following.take_update_voter_answer(quorum, role, response)
            case _:
                return False

    # Time

    def _poll(self) -> None:
        """Does what the role, the time and the free connections ask for, until the role stays what it is."""
        for _ in range(_ROLE_CHANGES_MAX):
            if not self._poll_role():
                break
        else:
            invariant(False, f"the role does not come to rest: {self._quorum.role}")
        self._poll_shutdown()

    def _poll_role(self) -> bool:
        quorum = self._quorum
        role = quorum.role
        if isinstance(role, Unattached) and role.election_deadline_ms is None and quorum.may_stand:
            # An observer that became a voter while it had no leader.
            role.election_deadline_ms = quorum.now_ms + quorum.election_timeout_ms()
        if voting.poll_election(quorum):
            return True
        match role:
            case Unattached():
                if not quorum.is_shutting_down:
                    following.poll_unattached(quorum)
            case Follower():
                following.poll_follower(quorum, role)
            case Leader():
                leading.commit(quorum, role)
                membership.poll_change(quorum, role)
                return leading.poll_leader(quorum, role)
            case Resigned():
                return voting.poll_resigned(quorum, role)
            case Prospective() | Candidate():
                pass
        return False

    def _poll_shutdown(self) -> None:
        quorum = self._quorum
        if quorum.shutdown_deadline_ms is None:
            return
        has_successor = quorum.role.leader_id not in {None, quorum.local.key.id}
        is_clean = not quorum.is_voter or quorum.is_only_voter or has_successor
        if is_clean or quorum.shutdown_deadline_ms <= quorum.now_ms:
            self._is_stopped = True
            quorum.outbox.emit(ShutdownCompleted(is_clean))

    def _deadlines(self) -> Iterator[int]:
        quorum = self._quorum
        role = quorum.role
        if quorum.shutdown_deadline_ms is not None:
            yield quorum.shutdown_deadline_ms
        if quorum.connections.deadline_ms is not None:
            yield quorum.connections.deadline_ms
        match role:
            case Unattached():
                if role.election_deadline_ms is not None:
                    yield role.election_deadline_ms
            case Follower():
                yield role.update_voter_deadline_ms
                if quorum.may_stand:
                    yield role.fetch_deadline_ms
            case Prospective() | Candidate() | Resigned():
                yield role.election_deadline_ms
            case Leader():
                yield role.begin_epoch_deadline_ms
                if role.is_quorum_checked:
                    yield role.check_quorum_deadline_ms
                if role.change is not None:
                    yield role.change.deadline_ms
                for parked in role.parked.values():
                    yield parked.deadline_ms
