"""A quorum of real machines on virtual time, with a network and disks that fail as a seed decides.

Everything that could differ between two runs comes from one `Random`: delays, losses, crashes, what a crash takes. The same seed
gives the same trace, whose digest is `Cluster.trace_digest()`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from random import Random

from msgspec.structs import replace

from tests.simulation.raft_disk import SNAPSHOT_BYTES, Disk, Snapshot
from tests.simulation.raft_invariants import Invariants
from tidelog.model.ids import DirectoryId, LeaderEpoch, NodeId, Offset
from tidelog.raft.config import LocalReplica, QuorumConfig
from tidelog.raft.control_records import ControlHistory, ControlRecord, KRaftVersion, Voters
from tidelog.raft.effects import (
    AbandonSnapshot,
    AdvanceHighWatermark,
    AppendAccepted,
    AppendRefused,
    AppendToLog,
    BecameLeader,
    Effect,
    FlushLog,
    InstallSnapshot,
    LeaderChanged,
    LostLeadership,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    SaveQuorumState,
    Send,
    ShutdownCompleted,
    TruncateLog,
    UpgradeAnswered,
    WriteSnapshot,
)
from tidelog.raft.events import (
    AppendRequested,
    ConnectionRefused,
    Event,
    LogFlushed,
    LogStartMoved,
    QuorumStateSaved,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SnapshotInstalled,
    Start,
    Tick,
)
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.machine import Machine
from tidelog.raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    Batch,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    RemoveVoterResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.quorum_state import from_text, to_text
from tidelog.raft.roles import Follower, Leader
from tidelog.raft.voter_set import Endpoint, Node, ReplicaKey, Voter, VoterSet

LISTENER = "CONTROLLER"
CLUSTER_ID = "simulated"
SNAPSHOT_EVERY = 40


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad network and disks are. Probabilities a message, delays in milliseconds."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms_max: int = 5
    straggler: float = 0.0
    disk_ms_max: int = 5


CALM = Weather()
ROUGH = Weather(loss=0.05, duplication=0.05, delay_ms_max=40, straggler=0.02, disk_ms_max=30)


def replica_key(node_id: int, incarnation: int = 0) -> ReplicaKey:
    return ReplicaKey(NodeId(node_id), DirectoryId(bytes([incarnation + 1]) * 15 + bytes([node_id])))


def endpoint(node_id: int) -> Endpoint:
    return Endpoint(LISTENER, f"host-{node_id}", 9000 + node_id)


def voter(node_id: int) -> Voter:
    return Voter(replica_key(node_id), (endpoint(node_id),))


@dataclass(frozen=True, slots=True)
class Question:
    """What a replica was asked and has not answered: who asked, under which name and id, in which of its lives, and what."""

    asker: NodeId
    to: NodeId
    request_id: int
    incarnation: int
    request: Request


@dataclass(slots=True)
class Replica:
    """A machine with its disk, or only the disk while it is down."""

    key: ReplicaKey
    disk: Disk
    machine: Machine | None = None
    incarnation: int = 0
    disk_generation: int = 0
    next_request_id: int = 0
    asked: dict[int, Question] = field(default_factory=dict)
    leading: LeaderEpoch | None = None
    waiting_appends: dict[int, Offset] = field(default_factory=dict)
    snapshot_bytes: dict[OffsetAndEpoch, int] = field(default_factory=dict)
    tick_at_ms: int | None = None
    flush_id_last: int = 0


class Cluster:
    """The simulated world."""

    def __init__(
        self,
        seed: int,
        voters: int,
        *,
        observers: int = 0,
        are_observers_brokers: bool = False,
        static: bool = False,
        weather: Weather = CALM,
        config: QuorumConfig | None = None,
        refuses: bool = True,
    ) -> None:
        self.random = Random(seed)
        self.weather = weather
        self.config = config or QuorumConfig()
        self.refuses = refuses
        self.now_ms = 0
        self.invariants = Invariants()
        self.steps = 0
        self.is_static = static
        self.are_observers_brokers = are_observers_brokers
        self.initial_voters = VoterSet(voter(node_id) for node_id in range(1, voters + 1))
        self.replicas: dict[NodeId, Replica] = {}
        self.partitioned: set[tuple[NodeId, NodeId]] = set()
        self.is_peaceful = False
        self.accepted = 0
        self.acknowledged = 0
        self.membership_answers: list[AddVoterResponse | RemoveVoterResponse] = []
        self.upgrades: list[UpgradeAnswered] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._append_ids = itertools.count(1)
        self._digest = blake2b(digest_size=16)
        self.trace: list[str] | None = None
        self.follow: Callable[[Replica, Event, list[Effect]], None] | None = None
        for node_id in range(1, voters + observers + 1):
            self.add_replica(node_id)

    # Population

    def add_replica(self, node_id: int) -> Replica:
        """A freshly formatted node. Observers are formatted without voters, as `--no-initial-controllers` does."""
        bootstrap: tuple[ControlRecord, ...] = ()
        if not self.is_static:
            is_initial = self.initial_voters.get(NodeId(node_id)) is not None
            bootstrap = (KRaftVersion(1), Voters(self.initial_voters)) if is_initial else (KRaftVersion(1),)
        replica = Replica(replica_key(node_id), Disk(bootstrap=bootstrap))
        self.replicas[replica.key.id] = replica
        return replica

    def start(self, node_id: int) -> None:
        replica = self.replicas[NodeId(node_id)]
        if replica.machine is not None:
            return
        static_voters = VoterSet(
            Voter(ReplicaKey(known.key.id), known.endpoints) for known in self.initial_voters.voters
        )
        servers = tuple(
            Node(NodeId(-2 - position), f"host-{known}", 9000 + known)
            for position, known in enumerate(self.initial_voters.ids)
        )
        local = LocalReplica(
            replica.key,
            CLUSTER_ID,
            LISTENER,
            (endpoint(node_id),),
            can_become_voter=replica.key.id in self.initial_voters.ids or not self.are_observers_brokers,
            bootstrap_servers=() if self.is_static else servers,
        )
        control = ControlHistory(static_voters if self.is_static else VoterSet(), _control_records(replica.disk))
        stored = None if replica.disk.quorum_state is None else from_text(replica.disk.quorum_state)
        replica.incarnation += 1
        replica.machine = Machine(
            local, self.config, replica.disk, control, stored, Random(self.random.getrandbits(32))
        )
        self.step(replica, Start())

    def start_all(self) -> None:
        for node_id in self.replicas:
            self.start(node_id)

    def crash(self, node_id: int) -> None:
        """Power loss, unless peace was made since it was ordered."""
        replica = self.replicas[NodeId(node_id)]
        if replica.machine is None or self.is_peaceful:
            return
        if self.refuses:
            for question in replica.asked.values():
                self.at(self._delay_ms(), partial(self._refuse, replica, question))
        self._stop(replica)
        replica.disk.crash(self.random)
        self.invariants.crashed(replica.key.id)
        self._note(f"{replica.key.id} crashes, its log ends at {replica.disk.end()}")

    def _refuse(self, replica: Replica, question: Question) -> None:
        """A connection broke with its node, and whoever tries again finds the port closed, unless it is open again by then."""
        asker = self.replicas.get(question.asker)
        is_cut = self._is_cut(question.asker, replica.key.id)
        if asker and asker.machine and asker.incarnation == question.incarnation and not replica.machine and not is_cut:
            self.step(asker, ConnectionRefused(question.to))

    def _stop(self, replica: Replica) -> None:
        replica.machine = None
        replica.incarnation += 1
        replica.disk_generation += 1
        replica.asked.clear()
        replica.leading = None
        replica.waiting_appends.clear()
        replica.snapshot_bytes.clear()
        replica.tick_at_ms = None
        replica.flush_id_last = 0

    def isolate(self, node_id: int) -> None:
        for other in self.replicas:
            self.partitioned.update({(NodeId(node_id), other), (other, NodeId(node_id))})

    def cut(self, sender: int, receiver: int) -> None:
        """One way only."""
        self.partitioned.add((NodeId(sender), NodeId(receiver)))

    def heal(self) -> None:
        self.partitioned.clear()

    # Time

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._order), action))

    def run_for(self, duration_ms: int, until: Callable[[], bool] | None = None) -> bool:
        """Lets time pass; ends early when `until` holds. Whether it did."""
        end_ms = self.now_ms + duration_ms
        while self._queue and self._queue[0][0] <= end_ms:
            if until is not None and until():
                return True
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
        if until is not None and until():
            return True
        self.now_ms = end_ms
        return False

    # What one can ask

    def leaders(self) -> list[Replica]:
        return [
            replica
            for replica in self.replicas.values()
            if replica.machine and isinstance(replica.machine.role, Leader)
        ]

    def leader(self) -> Replica | None:
        """The leader of the highest epoch, if it has announced itself to its user."""
        leading = [replica for replica in self.replicas.values() if replica.leading is not None]
        return max(leading, key=lambda replica: replica.leading or 0, default=None)

    def is_settled(self) -> bool:
        """Whether there is a leader that has committed in its epoch and everybody who runs follows it, with all of its log."""
        leader = self.leader()
        if leader is None or leader.machine is None or not isinstance(leader.machine.role, Leader):
            return False
        if leader.machine.role.high_watermark != leader.machine.log_end.offset:
            return False
        for replica in self.replicas.values():
            machine = replica.machine
            if machine is None or replica is leader:
                continue
            if not isinstance(machine.role, Follower) or machine.leader_id != leader.key.id:
                return False
            if machine.epoch != leader.machine.epoch or machine.high_watermark != leader.machine.high_watermark:
                return False
        return True

    def trace_digest(self) -> str:
        return self._digest.hexdigest()

    # Clients

    def append(self, record_count: int = 1) -> bool:
        """A user of the leader appends. Whether there was anybody to ask."""
        leader = self.leader()
        if leader is None or leader.leading is None:
            return False
        append_id = next(self._append_ids)
        self.step(leader, AppendRequested(append_id, leader.leading, record_count, append_id))
        return True

    def keep_appending(self, interval_ms: int) -> None:
        def once() -> None:
            if not self.is_peaceful:
                self.append(self.random.randint(1, 3))
            self.at(self.random.randint(1, 2 * interval_ms), once)

        self.at(0, once)

    def ask_leader(self, request: Request) -> bool:
        """An administrator asks the leader. The answer goes to `membership_answers`."""
        leader = self.leader()
        if leader is None:
            return False
        self._deliver_request(NodeId(-1), 0, 0, leader.key.id, request)
        return True

    def add_voter(self, node_id: int) -> bool:
        return self.ask_leader(AddVoterRequest(self.replicas[NodeId(node_id)].key, (endpoint(node_id),)))

    def remove_voter(self, node_id: int) -> bool:
        return self.ask_leader(RemoveVoterRequest(self.replicas[NodeId(node_id)].key))

    # Steps

    def step(self, replica: Replica, event: Event) -> None:
        machine = replica.machine
        assert machine is not None
        self.steps += 1
        effects = machine.step(event, self.now_ms)
        self._note(f"{replica.key.id} {event} -> {effects}")
        if self.follow is not None:
            self.follow(replica, event, effects)
        if isinstance(machine.role, Leader):
            self.invariants.led(replica.key.id, machine.epoch)
        for effect in effects:
            self._carry_out(replica, effect)
        deadline_ms = machine.deadline_ms
        if deadline_ms is not None and (replica.tick_at_ms is None or deadline_ms < replica.tick_at_ms):
            replica.tick_at_ms = deadline_ms
            self._later(replica, deadline_ms - self.now_ms, lambda: self._tick(replica))

    def _tick(self, replica: Replica) -> None:
        if replica.tick_at_ms is not None and replica.tick_at_ms <= self.now_ms:
            replica.tick_at_ms = None
            self.step(replica, Tick())

    def _later(self, replica: Replica, delay_ms: int, action: Callable[[], None]) -> None:
        """Something that only happens if the replica lives until then."""
        incarnation = replica.incarnation

        def unless_dead() -> None:
            if replica.incarnation == incarnation:
                action()

        self.at(delay_ms, unless_dead)

    def _carry_out(self, replica: Replica, effect: Effect) -> None:
        disk = replica.disk
        match effect:
            case SaveQuorumState(save_id, state):
                disk.quorum_state_pending = to_text(state)
                self._later(replica, self._disk_delay_ms(), lambda: self._saved(replica, save_id))
            case Send(to, request_id, request):
                self._send(replica, to, request_id, request)
            case Respond(request_id, response):
                self._respond(replica, request_id, response)
            case RespondWithRecords(request_id, fetch_response, fetch_offset, _):
                batches = disk.read(fetch_offset, self.random.randint(1, 8))
                self._respond(replica, request_id, replace(fetch_response, batches=batches))
            case RespondWithSnapshot(request_id, snapshot_response, _):
                assert snapshot_response.snapshot_id in disk.snapshots
                count = min(400, SNAPSHOT_BYTES - snapshot_response.position)
                self._respond(replica, request_id, replace(snapshot_response, data=b"s" * count))
            case AppendToLog(batches):
                self.invariants.wrote(replica.key.id, batches[:1], disk)
                disk.append(batches)
                self.invariants.wrote(replica.key.id, batches, disk)
            case FlushLog(flush_id):
                written, generation = list(disk.batches), replica.disk_generation
                self._later(
                    replica, self._disk_delay_ms(), lambda: self._flushed(replica, flush_id, written, generation)
                )
            case TruncateLog(end_offset):
                disk.truncate(end_offset)
            case WriteSnapshot(snapshot_id, position, data):
                assert replica.snapshot_bytes.get(snapshot_id, 0) == position or position == 0
                replica.snapshot_bytes[snapshot_id] = position + len(data)
            case InstallSnapshot(snapshot_id):
                assert replica.snapshot_bytes.pop(snapshot_id) == SNAPSHOT_BYTES
                self._later(replica, self._disk_delay_ms(), lambda: self._installed(replica, snapshot_id))
            case AbandonSnapshot(snapshot_id):
                replica.snapshot_bytes.pop(snapshot_id, None)
            case AdvanceHighWatermark(offset):
                self._advanced(replica, offset)
            case LeaderChanged():
                pass
            case BecameLeader(epoch, _):
                replica.leading = epoch
                self.invariants.took_office(replica.key.id, epoch, disk)
            case LostLeadership():
                replica.leading = None
                replica.waiting_appends.clear()
            case AppendAccepted(append_id, _, next_offset):
                self.accepted += 1
                replica.waiting_appends[append_id] = next_offset
            case AppendRefused():
                pass
            case UpgradeAnswered():
                self.upgrades.append(effect)
            case ShutdownCompleted():
                self._stop(replica)
                self.invariants.crashed(replica.key.id)

    # Disk

    def _disk_delay_ms(self) -> int:
        if self.random.random() < self.weather.straggler:
            return self.random.randint(0, 30 * self.weather.disk_ms_max)
        return self.random.randint(0, self.weather.disk_ms_max)

    def _saved(self, replica: Replica, save_id: int) -> None:
        replica.disk.quorum_state = replica.disk.quorum_state_pending
        replica.disk.quorum_state_pending = None
        self.step(replica, QuorumStateSaved(save_id))

    def _flushed(self, replica: Replica, flush_id: int, written: list[Batch], generation: int) -> None:
        if replica.disk_generation == generation and flush_id > replica.flush_id_last:
            # Syncs may end in another order than they began; each leaves at least what was there when it began.
            replica.flush_id_last = flush_id
            start = replica.disk.start
            replica.disk.flushed([batch for batch in written if batch.base_offset >= start])
        self.step(replica, LogFlushed(flush_id))

    def _installed(self, replica: Replica, snapshot_id: OffsetAndEpoch) -> None:
        control, batches = self._committed_until(snapshot_id.offset)
        replica.disk_generation += 1
        replica.disk.install(Snapshot(snapshot_id, control, batches))
        self.step(replica, SnapshotInstalled(snapshot_id, control))

    def _committed_until(self, offset: Offset) -> tuple[tuple[ControlRecord, ...], tuple[Batch, ...]]:
        batches = tuple(batch for batch in self.invariants.committed if batch.next_offset <= offset)
        latest: dict[type[ControlRecord], ControlRecord] = {}
        for batch in batches:
            for record in batch.control:
                if isinstance(record, KRaftVersion | Voters):
                    latest[type(record)] = record
        return tuple(latest.values()), batches

    def _advanced(self, replica: Replica, high_watermark: Offset) -> None:
        machine, disk = replica.machine, replica.disk
        assert machine is not None
        before = self.invariants.watermarks.get(replica.key.id, Offset(0))
        self.invariants.advanced(replica.key.id, high_watermark, disk, machine.epoch)
        if isinstance(machine.role, Leader):
            voters = [(key.id, self.replicas[key.id].disk) for key in machine.voters.keys if key.id in self.replicas]
            self.invariants.leader_committed(replica.key.id, high_watermark, voters)
        for append_id, next_offset in list(replica.waiting_appends.items()):
            if next_offset <= high_watermark:
                del replica.waiting_appends[append_id]
                self.acknowledged += 1
        if before // SNAPSHOT_EVERY != high_watermark // SNAPSHOT_EVERY:
            self._later(replica, self.random.randint(1, 50), lambda: self._take_snapshot(replica))

    def _take_snapshot(self, replica: Replica) -> None:
        """A replica writes what is committed into a snapshot, and removes what is before it, or before the one before it."""
        machine, disk = replica.machine, replica.disk
        assert machine is not None
        high_watermark = machine.high_watermark
        latest = disk.latest_snapshot_id()
        if high_watermark is None or high_watermark > disk.end().offset or (latest and latest.offset >= high_watermark):
            return
        if not any(batch.next_offset == high_watermark for batch in disk.batches):
            return
        control, batches = self._committed_until(high_watermark)
        # A machine must be able to tell the head of the snapshot by itself.
        named = machine.voters_at(Offset(high_watermark - 1))
        assert named is None or Voters(named) in control or self.is_static or not control
        older = [snapshot_id for snapshot_id in disk.snapshots if snapshot_id.offset > disk.start]
        snapshot_id = OffsetAndEpoch(offset=high_watermark, epoch=disk.epoch_before(high_watermark))
        disk.add_snapshot(Snapshot(snapshot_id, control, batches))
        keep_from = snapshot_id if not older or self.random.random() < 0.5 else older[0]
        if disk.durable and disk.durable[-1].next_offset >= keep_from.offset:
            disk.clean(keep_from)
            self.step(replica, LogStartMoved(keep_from.offset))

    # Network

    def _delay_ms(self) -> int:
        if self.random.random() < self.weather.straggler:
            return self.random.randint(0, 50 * self.weather.delay_ms_max)
        return self.random.randint(1, self.weather.delay_ms_max)

    def _copies(self) -> int:
        if self.random.random() < self.weather.loss:
            return 0
        return 2 if self.random.random() < self.weather.duplication else 1

    def _is_cut(self, sender: NodeId, receiver: NodeId) -> bool:
        return (sender, receiver) in self.partitioned

    def _send(self, replica: Replica, to: Node, request_id: int, request: Request) -> None:
        sender, receiver = replica.key.id, NodeId(to.port - 9000)
        epoch = _epoch_of(request)
        if epoch is not None:
            self.invariants.spoke(sender, epoch)
        if self._is_cut(sender, receiver):
            return
        delivery = partial(self._deliver_request, sender, replica.incarnation, request_id, receiver, request, to)
        for _ in range(self._copies()):
            self.at(self._delay_ms(), delivery)

    def _deliver_request(
        self,
        sender: NodeId,
        incarnation: int,
        sender_request_id: int,
        receiver: NodeId,
        request: Request,
        to: Node | None = None,
    ) -> None:
        target = self.replicas.get(receiver)
        if self._is_cut(sender, receiver):
            return
        if target is None or target.machine is None:
            asker = self.replicas.get(sender)
            if asker is not None and asker.machine is not None and asker.incarnation == incarnation and to is not None:
                if self.refuses:
                    self.step(asker, ConnectionRefused(to.id))
                else:
                    self.step(asker, RequestFailed(sender_request_id))
            return
        target.next_request_id += 1
        to_id = receiver if to is None else to.id
        target.asked[target.next_request_id] = Question(sender, to_id, sender_request_id, incarnation, request)
        self.step(target, RequestReceived(target.next_request_id, request))

    def _respond(self, replica: Replica, request_id: int, response: Response) -> None:
        question = replica.asked.pop(request_id)
        receiver, request = question.asker, question.request
        sender = replica.key.id
        if isinstance(request, VoteRequest) and not request.pre_vote:
            assert isinstance(response, VoteResponse)
            if response.granted:
                self.invariants.voted(sender, request.epoch, request.candidate)
        if receiver == -1:
            assert isinstance(response, AddVoterResponse | RemoveVoterResponse)
            self.membership_answers.append(response)
            return
        if self._is_cut(sender, receiver):
            return
        for _ in range(self._copies()):
            self.at(self._delay_ms(), partial(self._deliver_response, sender, question, response))

    def _deliver_response(self, sender: NodeId, question: Question, response: Response) -> None:
        target = self.replicas[question.asker]
        if self._is_cut(sender, target.key.id) or not target.machine or target.incarnation != question.incarnation:
            return
        self.step(target, ResponseReceived(question.request_id, response))

    def _note(self, line: str) -> None:
        line = f"{self.now_ms:>8} {line}"
        self._digest.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)


def _epoch_of(request: Request) -> LeaderEpoch | None:
    match request:
        case (
            VoteRequest()
            | BeginQuorumEpochRequest()
            | EndQuorumEpochRequest()
            | FetchRequest()
            | FetchSnapshotRequest()
        ):
            return request.epoch
        case ApiVersionsRequest() | _:
            return None


def _control_records(disk: Disk) -> list[tuple[Offset, ControlRecord]]:
    """The control records of snapshot and log, as a node reads them when it starts."""
    records: list[tuple[Offset, ControlRecord]] = []
    for snapshot_id, snapshot in disk.snapshots.items():
        if snapshot_id.offset == disk.start:
            records += [(Offset(snapshot_id.offset - 1), record) for record in snapshot.control]
    if disk.start == 0:
        records += [(Offset(-1), record) for record in disk.bootstrap]
    for batch in disk.batches:
        records += [(Offset(batch.base_offset + position), record) for position, record in enumerate(batch.control)]
    return records
