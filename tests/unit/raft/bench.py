"""One machine on a bench: its disk and its peers are the test."""

from __future__ import annotations

from random import Random

from tests.simulation.raft_cluster import CLUSTER_ID, LISTENER, endpoint, replica_key, voter
from tests.simulation.raft_disk import Disk
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.config import LocalReplica, QuorumConfig
from tidelog.raft.control_records import ControlHistory, KRaftVersion, Voters
from tidelog.raft.effects import (
    AdvanceHighWatermark,
    AppendToLog,
    Effect,
    FlushLog,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    SaveQuorumState,
    Send,
    TruncateLog,
)
from tidelog.raft.events import (
    Event,
    LogFlushed,
    QuorumStateSaved,
    RequestReceived,
    ResponseReceived,
    Start,
    Tick,
)
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.machine import Machine
from tidelog.raft.messages import Batch, Request, Response
from tidelog.raft.quorum_state import QuorumState
from tidelog.raft.roles import Leader
from tidelog.raft.voter_set import ReplicaKey, Voter, VoterSet

CONFIG = QuorumConfig()
# After this time at the latest a follower has lost its patience.
FETCH_TIMEOUT_MS_MAX = CONFIG.fetch_timeout_ms + CONFIG.leader_lost_jitter_ms


def position(offset: int, epoch: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(offset=Offset(offset), epoch=LeaderEpoch(epoch))


def batch(base_offset: int, next_offset: int, epoch: int, payload: object = "x") -> Batch:
    return Batch(Offset(base_offset), Offset(next_offset), LeaderEpoch(epoch), (), payload)


def state(epoch: int, leader: int | None = None, voted: ReplicaKey | None = None) -> QuorumState:
    return QuorumState(LeaderEpoch(epoch), None if leader is None else NodeId(leader), voted, (), 1)


class Bench:
    """Node 1 of a quorum. With a fast disk, saves and flushes are done before the next event."""

    def __init__(
        self,
        voters: int = 3,
        *,
        node_id: int = 1,
        stored: QuorumState | None = None,
        batches: tuple[Batch, ...] = (),
        config: QuorumConfig = CONFIG,
        static: bool = False,
        is_voter: bool = True,
        is_disk_fast: bool = True,
        can_become_voter: bool = True,
    ) -> None:
        voter_set = VoterSet(voter(other) for other in range(1, voters + 1) if is_voter or other != node_id)
        control = ControlHistory(VoterSet(), [(Offset(-1), KRaftVersion(1)), (Offset(-1), Voters(voter_set))])
        if static:
            control = ControlHistory(
                VoterSet(Voter(ReplicaKey(known.key.id), known.endpoints) for known in voter_set.voters)
            )
        self.disk = Disk(bootstrap=() if static else (KRaftVersion(1), Voters(voter_set)))
        if batches:
            self.disk.append(batches)
        self.key = replica_key(node_id)
        local = LocalReplica(self.key, CLUSTER_ID, LISTENER, (endpoint(node_id),), can_become_voter)
        self.machine = Machine(local, config, self.disk, control, stored, Random(7))
        self.is_disk_fast = is_disk_fast
        self.now_ms = 1_000
        self.effects: list[Effect] = []
        self.answers: dict[int, Response] = {}
        self.reads: list[RespondWithRecords | RespondWithSnapshot] = []
        self.unsent_answers: set[int] = set()
        self._sent: list[Send] = []
        self._request_id = 0

    def start(self) -> Bench:
        self.step(Start())
        return self

    def step(self, event: Event) -> list[Effect]:
        """One event and, with a fast disk, what the disk says to it. All effects of it."""
        self.effects = []
        pending: list[Event] = [event]
        while pending:
            for effect in self.machine.step(pending.pop(0), self.now_ms):
                self.effects.append(effect)
                match effect:
                    case SaveQuorumState(save_id, _) if self.is_disk_fast:
                        pending.append(QuorumStateSaved(save_id))
                    case FlushLog(flush_id) if self.is_disk_fast:
                        pending.append(LogFlushed(flush_id))
                    case AppendToLog(batches):
                        self.disk.append(batches)
                    case TruncateLog(end_offset):
                        self.disk.truncate(end_offset)
                    case Send():
                        self._sent.append(effect)
                    case Respond(request_id, response):
                        self.answers[request_id] = response
                    case RespondWithRecords(request_id, response) | RespondWithSnapshot(request_id, response):
                        self.reads.append(effect)
                        self.answers[request_id] = response
                    case _:
                        pass
        return self.effects

    def pass_time(self, duration_ms: int) -> list[Effect]:
        """Lets the machine tick at each of its deadlines until so much time has passed. All effects of it."""
        end_ms = self.now_ms + duration_ms
        effects: list[Effect] = []
        while (deadline_ms := self.machine.deadline_ms) is not None and deadline_ms <= end_ms:
            assert deadline_ms > self.now_ms, "a deadline that does not move on"
            self.now_ms = deadline_ms
            effects += self.step(Tick())
        self.now_ms = end_ms
        return effects

    def ask(self, request: Request) -> Response | None:
        """A request from outside. The answer, if it came at once."""
        self._request_id += 1
        self.step(RequestReceived(self._request_id, request))
        return self.answers.get(self._request_id)

    @property
    def last_request_id(self) -> int:
        return self._request_id

    def sent(self, kind: type[Request]) -> list[Send]:
        """Takes the requests of a kind that were sent since the last time."""
        found = [send for send in self._sent if isinstance(send.request, kind)]
        self._sent = [send for send in self._sent if not isinstance(send.request, kind)]
        return found

    def answer(self, send: Send, response: Response) -> list[Effect]:
        return self.step(ResponseReceived(send.request_id, response))

    @property
    def role_name(self) -> str:
        return type(self.machine.role).__name__

    @property
    def leader_role(self) -> Leader:
        assert isinstance(self.machine.role, Leader)
        return self.machine.role

    def of_kind(self, kind: type[Effect]) -> list[Effect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def high_watermarks(self) -> list[int]:
        return [effect.offset for effect in self.effects if isinstance(effect, AdvanceHighWatermark)]
