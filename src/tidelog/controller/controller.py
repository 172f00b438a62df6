"""The controller: decides for the cluster while it leads the metadata quorum.

    standby -> active        it leads, and has seen everything that earlier leaders committed
    active -> standby        it no longer leads: whoever waits is told NOT_CONTROLLER, and nobody else

A request is decided on the image as it will be once everything decided so far is committed, its records are appended as one
batch, and the answer waits until the batch is committed and every subscriber has seen the image that it made. So decisions
follow each other without waiting for the disk, and no answer is given that could turn out not to be true.

What an active controller does by itself: it writes the first records of a new cluster, registers, fences brokers that fall
silent, gives leadership back to first replicas, removes delegation tokens that have expired, and writes an idle record now and
then.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container, Sequence

from msgspec import Struct, field

from tidelog.controller import brokers, delegation_tokens, partitions
from tidelog.controller.broker_sessions import BrokerSessions
from tidelog.controller.cluster_features import eligible_leader_replicas_records
from tidelog.controller.cluster_view import has_eligible_leader_replicas
from tidelog.controller.committed_image import CommittedImage
from tidelog.controller.decision import Decision, Refusal, RefusedError
from tidelog.controller.errors import InconsistentMetadataError
from tidelog.controller.features import METADATA_VERSION
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.metadata_log import LoggedBatch
from tidelog.controller.mutation_quota import NO_LIMIT, MutationLimits
from tidelog.controller.quorum import Appended, MetadataQuorum
from tidelog.controller.requests import APIS, STRICT_VERSIONS, Situation
from tidelog.controller.settings import ControllerSettings
from tidelog.controller.snapshot_file import Snapshot
from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NO_OFFSET, BrokerEpoch, LeaderEpoch, NodeId, Offset
from tidelog.model.pending import Pending
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.model.timers import Timer, Timers
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.storage.seams import Seams
from tidelog.wire.internal_records import FramedRecord, encode_metadata_record
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    UnregisterBrokerRequest,
)
from tidelog.wire.messages.internal.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from tidelog.wire.schema import Request, Response

logger = logging.getLogger(__name__)

# As in Kafka. Only what follows from a broker's coming and going can be more, and is as true in parts.
RECORDS_PER_BATCH_MAX = 10_000

# More than this many requests without an answer means that the log does not move: the others are told to try again.
PARKED_MAX = 10_000


class ControllerContext(Struct, frozen=True):
    """On whose behalf something is asked."""

    principal: Principal = ANONYMOUS
    client_id: str | None = None
    host: str = "127.0.0.1"
    """From where, in Java's form."""
    api_version: int | None = None
    """That of the client's request, whose answer must fit it; None where this is no client's request."""


class _Parked(Struct, frozen=True):
    """An answer that holds once everything below `offset` is committed."""

    offset: Offset
    pending: Pending[Response]
    answer: Response
    refuse: Callable[[Refusal], Response]


class _Term(Struct):
    """One term as the active controller."""

    epoch: LeaderEpoch
    image: ClusterImage
    sessions: BrokerSessions
    appended: Offset
    is_registered: bool = False
    parked: deque[_Parked] = field(default_factory=deque)
    timers: dict[str, Timer] = field(default_factory=dict)


class Controller:
    """One node's controller. A `QuorumListener`, to be added after the `CommittedImage`."""

    def __init__(
        self,
        quorum: MetadataQuorum,
        committed: CommittedImage,
        settings: ControllerSettings,
        seams: Seams,
        timers: Timers,
        *,
        bootstrap: Sequence[FramedRecord],
        registration: ControllerRegistrationRequest | None = None,
    ) -> None:
        """`bootstrap` is what a new cluster's log begins with; `registration` what this node says of itself when it leads."""
        self._quorum = quorum
        self._committed = committed
        self._settings = settings
        self._clock = seams.clock
        self._random = seams.random
        self._timers = timers
        self._bootstrap = tuple(bootstrap)
        self._registration = registration
        self._term: _Term | None = None
        self._active_watchers: list[Callable[[], None]] = []
        self._mutation_limits: MutationLimits | None = None
        self._hosts: Container[str] = ()

    def limit_mutations(self, limits: MutationLimits) -> None:
        """From now on clients may not have more partitions created or deleted than this."""
        self._mutation_limits = limits

    def know_hosts(self, hosts: Container[str]) -> None:
        """From now on these names of hosts stand for addresses."""
        self._hosts = hosts

    @property
    def is_active(self) -> bool:
        return self._term is not None

    def watch_active(self, watcher: Callable[[], None]) -> None:
        """Tell whenever this controller has become the active one."""
        self._active_watchers.append(watcher)

    def is_heard(self, broker: NodeId) -> bool:
        """Whether a broker has registered or sent a heartbeat since this controller became active."""
        session = None if self._term is None else self._term.sessions.get(broker)
        return session is not None and session.is_heard

    def end_session(self, broker: NodeId, epoch: BrokerEpoch) -> None:
        """A broker's process is gone: it is fenced now rather than when its session would be over."""
        term = self._term
        known = None if term is None else term.image.brokers.get(broker)
        if term is None or known is None or known.epoch != epoch or known.fenced:
            return
        logger.warning("broker %d of epoch %d is fenced: its process is gone", broker, epoch)
        term.sessions.forget(broker)
        self._append(term, brokers.fence_records(term.image, known, self._settings.topic_defaults))

    # --- requests ----------------------------------------------------------------------------------------------------------

    def handle(self, request: Request, context: ControllerContext) -> Pending[Response]:
        """Decide. The answer comes when what was decided is committed and visible, or at once where nothing was to be."""
        api = APIS.get(type(request))
        if api is None:
            raise TypeError(f"{type(request).__name__} is not for the controller")
        pending: Pending[Response] = Pending()

        def refuse(refusal: Refusal) -> Response:
            return api.refuse(request, refusal)

        term = self._term
        if term is None:
            pending.complete(refuse(Refusal.of(ErrorCode.NOT_CONTROLLER)))
            return pending
        if len(term.parked) >= PARKED_MAX:
            pending.complete(refuse(Refusal(ErrorCode.REQUEST_TIMED_OUT, "The metadata log does not move.")))
            return pending
        try:
            decided = api.decide(request, self._situation(term, request, context))
            if isinstance(decided, Pending):
                return decided
            decision = decided
            if decision.records and self._append(term, decision.records) is None:
                pending.complete(refuse(Refusal.of(ErrorCode.NOT_CONTROLLER)))
                return pending
        except RefusedError as refused:
            decision = Decision(refuse(refused.refusal))
        except Exception:
            # A decision is pure, and its records are tried before they are written: nothing has changed, and the next request
            # is as good as if this one had never come.
            logger.exception("%s cannot be decided", type(request).__name__)
            decision = Decision(refuse(Refusal.of(ErrorCode.UNKNOWN_SERVER_ERROR)))
        else:
            self._note(term, request, decision.answer)
            if decision.records:
                asking = f"{context.principal}, client {context.client_id}"
                logger.debug("%s of %s: %d records", type(request).__name__, asking, len(decision.records))
        if term.appended <= self._quorum.delivered:
            pending.complete(decision.answer)
        elif self._term is not term:
            pending.complete(refuse(Refusal.of(ErrorCode.NOT_CONTROLLER)))
        else:
            # Also an answer without records may rest on some that are not committed yet.
            term.parked.append(_Parked(term.appended, pending, decision.answer, refuse))
        return pending

    def _situation(self, term: _Term, request: Request, context: ControllerContext) -> Situation:
        mutations = NO_LIMIT
        strict_version = STRICT_VERSIONS.get(type(request))
        if strict_version is not None and self._mutation_limits is not None:
            # What a node asks for a client, such as a topic that it named, is asked in the newest version.
            is_strict = context.api_version is None or context.api_version >= strict_version
            limited = self._mutation_limits.of(context.principal.name, context.client_id, is_strict=is_strict)
            mutations = limited or NO_LIMIT
        return Situation(
            term.image,
            self._settings,
            term.sessions,
            self._quorum,
            self._clock,
            self._random,
            str(context.principal),
            mutations,
            self._hosts,
        )

    def _append(self, term: _Term, records: Sequence[FramedRecord]) -> Appended | None:
        """Append, and go on from the image that the records make. They are tried on it first: a bad one must not be written."""
        base_offset = self._quorum.next_offset
        delta = ImageDelta(term.image)
        for number, record in enumerate(records):
            delta.apply(record.message, Offset(base_offset + number))
            # Only tried here, and done again where the log is written: a record that cannot be encoded must fail before
            # anything has changed. Inside a step of the quorum it would stop the node, and every leader that is asked next.
            encode_metadata_record(record.message, record.version)
        image = delta.image(Offset(base_offset + len(records) - 1), term.epoch, self._clock.now_ms())
        # The image moves before the append: on a disk without delay the commit comes from within it.
        former, term.image, term.appended = term.image, image, Offset(base_offset + len(records))
        for start in range(0, len(records), RECORDS_PER_BATCH_MAX):
            appended = self._quorum.append(records[start : start + RECORDS_PER_BATCH_MAX], term.epoch)
            if appended is None:
                term.image, term.appended = former, base_offset
                return None
            if appended.base_offset != base_offset + start:
                raise BugError(f"records for offset {base_offset + start} went to {appended.base_offset}")
        return Appended(base_offset, Offset(base_offset + len(records)))

    def _note(self, term: _Term, request: Request, answer: Response) -> None:
        """Update what the active controller keeps in memory beside the log. Not by refused requests: they come from
        registrations that have been replaced.
        """
        now_ms = self._clock.monotonic_ms()
        match request, answer:
            case BrokerRegistrationRequest(), BrokerRegistrationResponse():
                term.sessions.heard(NodeId(request.broker_id), BrokerEpoch(answer.broker_epoch), now_ms)
            case BrokerHeartbeatRequest(), _:
                offset = Offset(request.current_metadata_offset)
                epoch = BrokerEpoch(request.broker_epoch)
                session = term.sessions.heard(NodeId(request.broker_id), epoch, now_ms, offset)
                if request.want_shut_down and session.shutdown_offset is None:
                    session.shutdown_offset = Offset(term.appended - 1)
                self._watch_sessions(term)
            case UnregisterBrokerRequest(), _:
                term.sessions.forget(NodeId(request.broker_id))
            case _:
                pass

    # --- what the quorum tells ---------------------------------------------------------------------------------------------

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None: ...

    def commit(self, batches: Sequence[LoggedBatch]) -> None:
        term = self._term
        if term is None:
            return
        committed = batches[-1].next_offset
        if committed >= term.appended and self._committed.open_transaction_offset is None:
            # Nothing is on its way: both images say the same, and one of them is enough.
            term.image = self._committed.image
        while term.parked and term.parked[0].offset <= committed:
            parked = term.parked.popleft()
            parked.pending.complete(parked.answer)
            if self._term is not term:
                return
        # The level may have been raised to one at which controllers register.
        self._register(term)

    def _register(self, term: _Term) -> None:
        """Say where this controller listens and what it supports, once a term, where the level has a record for it."""
        is_due = not term.is_registered and term.image.metadata_version.has_controller_registration
        if self._registration is not None and is_due and self._term is term:
            term.is_registered = True
            self._append(term, brokers.decide_register_controller(term.image, self._registration).records)

    def lead(self, epoch: LeaderEpoch) -> None:
        now_ms = self._clock.monotonic_ms()
        sessions = BrokerSessions(self._settings.broker_session_timeout_ms)
        image = self._committed.image
        for broker in image.brokers.values():
            sessions.open(broker.node_id, broker.epoch, now_ms)
        term = self._term = _Term(epoch, image, sessions, self._quorum.next_offset)
        logger.info("node %d is the active controller of epoch %d", self._settings.node_id, epoch)
        records = self._activation_records()
        if records:
            self._append(term, records)
        self._register(term)
        self._watch_sessions(term)
        self._repeat(term, "idle", self._settings.max_idle_interval_ms, self._write_no_op)
        self._repeat(
            term, "leaders", self._settings.leader_imbalance_check_interval_seconds * 1000, self._balance_leaders
        )
        if self._settings.token_secret is not None:
            interval_ms = self._settings.delegation_token_expiry_check_interval_ms
            self._repeat(term, "tokens", interval_ms, self._sweep_tokens)
        for watcher in self._active_watchers:
            watcher()

    def resign(self, epoch: LeaderEpoch) -> None:
        term, self._term = self._term, None
        if term is None:
            return
        logger.info("node %d is no longer the active controller of epoch %d", self._settings.node_id, epoch)
        for timer in term.timers.values():
            timer.cancel()
        for parked in term.parked:
            parked.pending.complete(parked.refuse(Refusal.of(ErrorCode.NOT_CONTROLLER)))

    def _activation_records(self) -> tuple[FramedRecord, ...]:
        """What a leader finds missing in the log: everything, where it is the cluster's first; the end of a transaction that the
        last one could not finish."""
        is_empty = self._committed.is_empty
        image = _first_image(self._bootstrap) if is_empty else self._committed.image
        version = image.metadata_version
        open_offset = self._committed.open_transaction_offset
        if open_offset is not None and not version.has_transactions:
            raise InconsistentMetadataError(
                f"a metadata transaction begins at offset {open_offset}, and metadata.version {version.name} has none"
            )
        records: list[FramedRecord] = []
        if open_offset is not None:
            records.append(FramedRecord(AbortTransactionRecord(reason="Controller failover"), 0))
        if is_empty:
            first = list(self._bootstrap)
            if has_eligible_leader_replicas(image):
                first += eligible_leader_replicas_records(image, self._settings.topic_defaults)
            if version.has_transactions:
                first.insert(0, FramedRecord(BeginTransactionRecord(name="Bootstrap records"), 0))
                first.append(FramedRecord(EndTransactionRecord(), 0))
            records += first
        return tuple(records)

    # --- what time brings --------------------------------------------------------------------------------------------------

    def _repeat(self, term: _Term, name: str, interval_ms: int, work: Callable[[_Term], None]) -> None:
        """Do something again and again while this term lasts; never, where the interval is 0."""
        if interval_ms <= 0:
            return

        def again() -> None:
            if self._term is term:
                work(term)
                self._repeat(term, name, interval_ms, work)

        if self._term is term:
            term.timers[name] = self._timers.after(interval_ms, again)

    def _write_no_op(self, term: _Term) -> None:
        self._append(term, (FramedRecord(NoOpRecord(), 0),))

    def _balance_leaders(self, term: _Term) -> None:
        records = tuple(
            partitions.leadership_repairs(
                term.image, self._settings.topic_defaults, rebalance=self._settings.auto_leader_rebalance_enable
            )
        )
        if records:
            self._append(term, records)

    def _sweep_tokens(self, term: _Term) -> None:
        """Remove the delegation tokens that have expired, in batches that others need not wait for."""
        now_ms = self._clock.now_ms()
        while self._term is term:
            records = delegation_tokens.expired_token_records(term.image, now_ms)
            if not records or self._append(term, records) is None:
                return
            logger.info("%d delegation tokens have expired", len(records))

    def _watch_sessions(self, term: _Term) -> None:
        """Wake up when the next broker that serves may have been silent for too long. Sessions only ever come to end later."""
        if "sessions" in term.timers:
            return
        expiries = [
            expires_ms
            for broker in term.image.brokers.values()
            if not broker.fenced and (expires_ms := term.sessions.expires_ms(broker.node_id)) is not None
        ]
        if expiries and self._term is term:
            delay_ms = max(0, min(expiries) - self._clock.monotonic_ms())
            term.timers["sessions"] = self._timers.after(delay_ms, lambda: self._fence_silent(term))

    def _fence_silent(self, term: _Term) -> None:
        """Fence the brokers whose session is over. One after another, so that each decision sees the one before."""
        term.timers.pop("sessions", None)
        now_ms = self._clock.monotonic_ms()
        for node in list(term.image.brokers):
            broker = term.image.brokers.get(node)
            expires_ms = term.sessions.expires_ms(node)
            if self._term is not term or broker is None or broker.fenced or expires_ms is None or expires_ms > now_ms:
                continue
            logger.warning("broker %d of epoch %d is fenced: its session is over", node, broker.epoch)
            if self._append(term, brokers.fence_records(term.image, broker, self._settings.topic_defaults)) is None:
                # It does not lead any longer, and will be told so.
                return
        if self._term is term:
            self._watch_sessions(term)


def _first_image(bootstrap: Sequence[FramedRecord]) -> ClusterImage:
    """What a new cluster agrees on. MetadataError where this release cannot do that, or cannot tell."""
    delta = ImageDelta(ClusterImage())
    for framed in bootstrap:
        delta.apply(framed.message, NO_OFFSET)
    image = delta.image(NO_OFFSET, NO_LEADER_EPOCH, -1)
    if METADATA_VERSION not in image.features:
        raise InconsistentMetadataError("the bootstrap file of the node names no level of metadata.version")
    return image
