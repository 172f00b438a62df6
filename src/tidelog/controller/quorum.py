"""Hosts this node's replica of the metadata quorum: feeds `tidelog.raft.Machine`, carries out its effects, tells the listeners.

    event -> step -> effects, in order, all of them -> next event ... -> then, and only then, the listeners hear of it

A listener may append from within a call: that is a step of its own, and whoever is still to be told of something older is
told of it afterwards, in order. Nothing is delivered before it is committed; everything committed is delivered once, in
order, from the last snapshot on. Listeners hear that this node leads when they know all that earlier leaders committed.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tidelog.controller.errors import MetadataError, MetadataFault
from tidelog.controller.metadata_log import LoggedBatch, MetadataLog
from tidelog.controller.snapshot_file import Snapshot, SnapshotHead
from tidelog.model import controller_config as keys
from tidelog.model.bugs import BugError
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.raft import effects as do, events
from tidelog.raft.config import LocalReplica, QuorumConfig
from tidelog.raft.control_records import ControlHistory, ControlRecord, KRaftVersion, Voters
from tidelog.raft.events import Event
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.machine import Machine, QuorumDescription
from tidelog.raft.messages import FetchResponse, Request, Response
from tidelog.raft.voter_set import Node, VoterSet, endpoint_for
from tidelog.storage.errors import StorageError
from tidelog.storage.seams import Seams
from tidelog.wire.internal_records import FramedRecord

# Committed batches are delivered in pieces of about this size, so that a start holds no more of the log in memory.
_DELIVERY_BYTES = 1024 * 1024


class QuorumListener(Protocol):
    """Who follows the metadata log. Called on the node's thread, never from within a step."""

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        """Forget everything; this is what the log said up to the snapshot's end."""
        ...

    def commit(self, batches: Sequence[LoggedBatch]) -> None:
        """These follow, committed."""
        ...

    def lead(self, epoch: LeaderEpoch) -> None:
        """This node leads, and all that was committed before its epoch has been delivered. It may append from here on."""
        ...

    def resign(self, epoch: LeaderEpoch) -> None:
        """This node no longer leads. What it appended and has not seen committed may or may not survive."""
        ...


class Peers(Protocol):
    """The way to the other replicas. A quorum of one has none."""

    def send(self, to: Node, request: Request, then: Callable[[Response | None], None]) -> None:
        """Send a request; `then` gets the answer, or None where there was none to be understood."""
        ...


class Appended(Struct, frozen=True):
    """Where records went. They count once they are delivered."""

    base_offset: Offset
    next_offset: Offset


def quorum_config(values: ConfigValues) -> QuorumConfig:
    """The settings of the quorum among the node's configuration."""
    return QuorumConfig(
        election_timeout_ms=values[keys.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS],
        fetch_timeout_ms=values[keys.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS],
        election_backoff_max_ms=values[keys.CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS],
        request_timeout_ms=values[keys.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
        retry_backoff_ms=values[keys.CONTROLLER_QUORUM_RETRY_BACKOFF_MS],
        auto_join_enable=values[keys.CONTROLLER_QUORUM_AUTO_JOIN_ENABLE],
    )


class MetadataQuorum:
    """One replica. `start` once all listeners are there; `shutdown` and then `close`, or `abandon`."""

    def __init__(
        self,
        log: MetadataLog,
        local: LocalReplica,
        config: QuorumConfig,
        seams: Seams,
        timers: Timers,
        *,
        on_fault: Callable[[MetadataFault], None],
        static_voters: VoterSet | None = None,
        peers: Peers | None = None,
    ) -> None:
        """`static_voters` are those of the configuration, which count as long as log and snapshots name none."""
        self.log = log
        log.tell_faults(self.fail)
        self.local = local
        self._clock = seams.clock
        self._timers = timers
        self._peers = peers
        self._on_fault = on_fault
        control = ControlHistory(static_voters or VoterSet(), log.control_records())
        self._machine = Machine(local, config, log, control, log.read_quorum_state(), seams.random)
        self._listeners: list[QuorumListener] = []
        self._leader_watchers: list[Callable[[], None]] = []
        # Where the leader's committed log ended when it last answered a fetch of this replica.
        self._leader_high_watermark: Offset | None = None
        self._events: deque[Event] = deque()
        self._notices: deque[Callable[[], None]] = deque()
        self._is_stepping = False
        self._is_notifying = False
        self._is_stopped = False
        self._timer: Timer | None = None
        self._timer_deadline_ms: int | None = None
        self._ids = itertools.count(1)
        self._answers: dict[int, Pending[Response]] = {}
        self._appended: dict[int, Appended | None] = {}
        self._upgrades: dict[int, do.UpgradeAnswered] = {}
        self._shutdown: Pending[bool] | None = None
        self._committed = Offset(0)
        self._delivered = Offset(0)
        # The epoch that this replica leads, from `BecameLeader` on; and whether the listeners have been told.
        self._leading: do.BecameLeader | None = None
        self._is_announced = False

    # --- what others may know ----------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> NodeId | None:
        """The leader as far as this replica knows."""
        return self._machine.leader_id

    @property
    def leader_node(self) -> Node | None:
        """The leader and where it is reached, unless it is this replica, or not known."""
        role = self._machine.role
        endpoint = endpoint_for(role.leader_endpoints, self.local.listener)
        if role.leader_id is None or role.leader_id == self.local.key.id or endpoint is None:
            return None
        return Node(role.leader_id, endpoint.host, endpoint.port)

    @property
    def is_caught_up(self) -> bool:
        """Whether the listeners know all that was committed when this replica began to lead, or last heard from its leader."""
        return self.is_leader or (
            self._leader_high_watermark is not None and self._delivered >= self._leader_high_watermark
        )

    @property
    def epoch(self) -> LeaderEpoch:
        return self._machine.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads and its listeners know everything that was committed before."""
        return self._leading is not None and self._is_announced

    @property
    def role_name(self) -> str:
        """What this replica is at the moment, as Kafka's metrics call it."""
        name = type(self._machine.role).__name__.lower()
        return "observer" if name == "follower" and not self._machine.is_voter else name

    @property
    def voters(self) -> VoterSet:
        return self._machine.voters

    @property
    def kraft_version(self) -> int:
        return self._machine.kraft_version

    @property
    def high_watermark(self) -> Offset:
        return self._committed

    @property
    def delivered(self) -> Offset:
        """Everything below is committed, and the listeners know it."""
        return self._delivered

    @property
    def next_offset(self) -> Offset:
        """What the next append gets, as long as this replica leads."""
        return self._machine.log_end.offset

    def describe(self) -> QuorumDescription | None:
        """The quorum as its leader sees it; None where this replica does not lead. Times are those of the monotonic clock."""
        return self._machine.describe(self._clock.monotonic_ms())

    # --- its life ----------------------------------------------------------------------------------------------------------

    def add_listener(self, listener: QuorumListener) -> None:
        """Before the start. Listeners are told in the order in which they were added."""
        self._listeners.append(listener)

    def watch_leader(self, watcher: Callable[[], None]) -> None:
        """Tell of every other leader, and of none, as far as this replica knows. Called like a listener."""
        self._leader_watchers.append(watcher)

    def start(self) -> None:
        """Load the newest snapshot and take part. A quorum of one leads when its first writes are durable."""
        self._load_snapshot()
        self._post(events.Start())

    def shutdown(self, timeout_ms: int) -> Pending[bool]:
        """Hand over, if this replica leads. Completes within the time; whether another leader was found, or none is needed."""
        if self._shutdown is None:
            self._shutdown = Pending()
            if self._is_stopped:
                self._shutdown.complete(False)
            else:
                self._post(events.ShutdownRequested(timeout_ms))
        return self._shutdown

    def close(self) -> None:
        """Stop cleanly: the log is closed and durable."""
        if not self._is_stopped:
            self._stop()
            self._notify()
            self.log.close()

    def abandon(self) -> None:
        """Stop as a crash would."""
        self._stop()
        self._notify()
        self.log.release()

    def _stop(self) -> None:
        """Take in nothing more. Listeners that think this replica leads are told that it does not."""
        self._is_stopped = True
        self._events.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        leading, self._leading = self._leading, None
        if leading is not None and self._is_announced:
            self._notices.append(lambda: self._tell_resigned(leading.epoch))

    # --- what it is asked --------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[FramedRecord], epoch: LeaderEpoch) -> Appended | None:
        """Put records in the log as one batch. None where this replica does not lead in `epoch`, as far as it knows."""
        if self._is_stopped or self._leading is None or self._leading.epoch != epoch:
            return None
        if self._is_stepping:
            raise BugError("records are appended between steps")
        append_id = next(self._ids)
        self._post(events.AppendRequested(append_id, epoch, len(records), tuple(records)))
        return self._appended.pop(append_id, None)

    def receive(self, request: Request) -> Pending[Response]:
        """A request of another replica, or of an administrator."""
        request_id = next(self._ids)
        answer = self._answers[request_id] = Pending()
        self._post(events.RequestReceived(request_id, request))
        return answer

    def connection_refused(self, node_id: NodeId) -> None:
        """A node's port was found closed after its connection broke."""
        self._post(events.ConnectionRefused(node_id))

    def upgrade(self, kraft_version: int, *, validate_only: bool = False) -> do.UpgradeAnswered | None:
        """Raise kraft.version, or try whether it could be. What stands in the way, or None; it counts once committed."""
        upgrade_id = next(self._ids)
        self._post(events.UpgradeRequested(upgrade_id, self.epoch, kraft_version, validate_only))
        answer = self._upgrades.pop(upgrade_id, None) or do.UpgradeAnswered(upgrade_id, ErrorCode.NOT_CONTROLLER)
        return None if answer.error is ErrorCode.NONE else answer

    def resign(self) -> None:
        """Let another replica lead, if this one does."""
        if self._leading is not None:
            self._post(events.ResignRequested(self._leading.epoch))

    def write_snapshot(
        self, end: OffsetAndEpoch, last_contained_ms: int, records: Callable[[], Iterable[FramedRecord]]
    ) -> bool:
        """Write a snapshot of what was delivered up to `end`; `records` is called on another thread. Whether it was begun."""
        last_offset = Offset(end.offset - 1)
        control: list[ControlRecord] = []
        kraft_version = self._machine.kraft_version_at(last_offset)
        if kraft_version > 0:
            control.append(KRaftVersion(kraft_version))
            voters = self._machine.voters_at(last_offset)
            if voters is not None:
                control.append(Voters(voters))
        return self.log.write_snapshot(end, SnapshotHead(last_contained_ms, tuple(control)), records, self.clean)

    def clean(self) -> None:
        """Remove what newer snapshots have made superfluous and retention no longer covers."""
        if not self._is_stopped:
            start_offset = self.log.clean()
            if start_offset is not None:
                self._post(events.LogStartMoved(start_offset))

    # --- steps -------------------------------------------------------------------------------------------------------------

    def _post(self, event: Event) -> None:
        if self._is_stopped:
            return
        self._events.append(event)
        if not self._is_stepping:
            self._advance()

    def _advance(self) -> None:
        self._is_stepping = True
        try:
            while self._events:
                for effect in self._machine.step(self._events.popleft(), self._clock.monotonic_ms()):
                    self._carry_out(effect)
        except StorageError as error:
            self._fail(error)
        except Exception as error:
            raise BugError("a step of the metadata quorum broke off") from error
        finally:
            self._is_stepping = False
        self._set_timer()
        self._notify()

    def _notify(self) -> None:
        if self._is_notifying:
            return
        self._is_notifying = True
        try:
            while self._notices:
                try:
                    self._notices.popleft()()
                except (StorageError, MetadataError) as error:
                    # Puts a notice of its own at the end, which tells of the fault.
                    self._fail(error)
                except Exception as error:
                    raise BugError("following the metadata broke off") from error
        finally:
            self._is_notifying = False

    def _set_timer(self) -> None:
        deadline_ms = None if self._is_stopped else self._machine.deadline_ms
        if self._timer is not None:
            if deadline_ms == self._timer_deadline_ms:
                return
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            self._timer_deadline_ms = deadline_ms
            self._timer = self._timers.after(deadline_ms - self._clock.monotonic_ms(), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._post(events.Tick())

    def fail(self, error: StorageError) -> None:
        """The disk of the metadata log failed, in the background: this replica stops."""
        self._fail(error)
        if not self._is_stepping:
            self._notify()

    def _fail(self, error: MetadataFault) -> None:
        if self._is_stopped:
            return
        self._stop()
        self.log.release()
        self._notices.append(lambda: self._on_fault(error))

    # --- effects -----------------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: do.Effect) -> None:
        match effect:
            case do.SaveQuorumState(save_id, state):
                self.log.save_quorum_state(state, lambda: self._post(events.QuorumStateSaved(save_id)))
            case do.AppendToLog(batches):
                self.log.append(batches)
            case do.FlushLog(flush_id):
                self.log.flush(lambda: self._post(events.LogFlushed(flush_id)))
            case do.TruncateLog(end_offset):
                self.log.truncate(end_offset)
            case do.AdvanceHighWatermark(offset):
                self.log.committed(offset)
                self._committed = offset
                self._notices.append(self._deliver)
            case do.Send():
                self._send(effect)
            case do.Respond() | do.RespondWithRecords() | do.RespondWithSnapshot():
                self._respond(effect)
            case do.BecameLeader():
                self._leading = effect
                self._is_announced = False
                self._notices.append(self._announce)
            case do.LostLeadership(epoch):
                self._leading = None
                if self._is_announced:
                    self._notices.append(lambda: self._tell_resigned(epoch))
            case do.AppendAccepted(append_id, base_offset, next_offset):
                self._appended[append_id] = Appended(base_offset, next_offset)
            case do.AppendRefused(append_id):
                self._appended[append_id] = None
            case do.WriteSnapshot(snapshot_id, position, data):
                self.log.write_part(snapshot_id, position, data)
            case do.InstallSnapshot(snapshot_id):
                head = self.log.install_part(snapshot_id)
                self._post(events.SnapshotInstalled(snapshot_id, head.control))
            case do.AbandonSnapshot():
                self.log.abandon_part()
            case do.ShutdownCompleted(is_clean):
                self._notices.append(lambda: self._shut_down(is_clean=is_clean))
            case do.LeaderChanged():
                self._notices.append(self._tell_leader_changed)
            case do.UpgradeAnswered(upgrade_id):
                self._upgrades[upgrade_id] = effect

    def _send(self, sent: do.Send) -> None:
        request_id = sent.request_id

        def answered(response: Response | None) -> None:
            if isinstance(response, FetchResponse) and response.high_watermark is not None:
                self._leader_high_watermark = response.high_watermark
            self._post(
                events.RequestFailed(request_id) if response is None else events.ResponseReceived(request_id, response)
            )

        if self._peers is None:
            answered(None)
        else:
            self._peers.send(sent.to, sent.request, answered)

    def _respond(self, effect: do.Respond | do.RespondWithRecords | do.RespondWithSnapshot) -> None:
        response: Response = effect.response
        if isinstance(effect, do.RespondWithRecords):
            batches = self.log.read_for_follower(effect.fetch_offset, effect.bytes_max)
            response = replace(effect.response, batches=batches)
        elif isinstance(effect, do.RespondWithSnapshot):
            snapshot_id = effect.response.snapshot_id
            assert snapshot_id is not None
            data = self.log.read_snapshot_bytes(snapshot_id, effect.response.position, effect.bytes_max)
            response = replace(effect.response, data=data)
        answer = self._answers.pop(effect.request_id)
        self._notices.append(lambda: _complete(answer, response))

    def _shut_down(self, *, is_clean: bool) -> None:
        if self._shutdown is not None:
            self._shutdown.complete(is_clean)

    # --- listeners ---------------------------------------------------------------------------------------------------------

    def _load_snapshot(self) -> None:
        found = self.log.latest_snapshot()
        if found is None:
            return
        snapshot_id, snapshot = found
        self._delivered = snapshot_id.offset
        for listener in self._listeners:
            listener.load_snapshot(snapshot_id, snapshot)

    def _deliver(self) -> None:
        """Tell the listeners everything that is committed and that they do not know yet."""
        if self._is_stopped:
            return
        if self._delivered < self.log.start_offset():
            # A snapshot has taken the place of what was still to be delivered.
            self._load_snapshot()
        batches: list[LoggedBatch] = []
        size = 0
        for batch in self.log.batches(self._delivered, self._committed):
            batches.append(batch)
            size += batch.size_bytes
            if size >= _DELIVERY_BYTES:
                self._tell_committed(batches)
                batches, size = [], 0
        if batches:
            self._tell_committed(batches)
        self._announce()

    def _tell_committed(self, batches: list[LoggedBatch]) -> None:
        self._delivered = batches[-1].next_offset
        for listener in self._listeners:
            listener.commit(batches)

    def _announce(self) -> None:
        """Tell the listeners that this replica leads, once they know all that came before its epoch."""
        leading = self._leading
        if leading is None or self._is_announced or self._delivered <= leading.epoch_start_offset:
            return
        self._is_announced = True
        for listener in self._listeners:
            listener.lead(leading.epoch)

    def _tell_leader_changed(self) -> None:
        for watcher in self._leader_watchers:
            watcher()

    def _tell_resigned(self, epoch: LeaderEpoch) -> None:
        self._is_announced = False
        for listener in self._listeners:
            listener.resign(epoch)


def _complete(answer: Pending[Response], response: Response) -> None:
    answer.complete(response)
