"""One node: the composition root. A single node is a cluster of one, and runs what nine would run.

    start   lock and, on first use, format the log directories; open the metadata log; lead the quorum (of one, for now);
            learn the cluster; open the partitions; listen; register; serve once the controller has let the broker in
    stop    leave; accept nothing more and answer what is in flight; leave the quorum, after others that are leaving too; write
            everything down in the order that Kafka expects

Everything that reaches outside comes in through the constructor: clock, chance, files, slow work, the event loop's timers and
the transport. Nothing below this module knows which ones.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import pkgutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from random import Random
from typing import TYPE_CHECKING, TypeVar, cast

from tidelog.broker import handlers
from tidelog.broker.cluster.auto_topics import AutoTopics
from tidelog.broker.cluster.broker_watch import BrokerWatch
from tidelog.broker.cluster.departure import Departure
from tidelog.broker.cluster.doubted_brokers import DoubtedBrokers
from tidelog.broker.cluster.known_hosts import KnownHosts
from tidelog.broker.cluster.local_controller import answer_forwarded
from tidelog.broker.config.current_config import CurrentConfig
from tidelog.broker.config.listeners import listener_specs
from tidelog.broker.config.node_config import check_config, log_directories, voters_problem
from tidelog.broker.coordinators.internal_topics import InternalTopics
from tidelog.broker.data.fetch_sessions import FetchSessions
from tidelog.broker.groups.group_coordinator import GroupCoordinator
from tidelog.broker.groups.streams_topics import StreamsTopics
from tidelog.broker.maintenance.replica_moves import ReplicaMoves
from tidelog.broker.metrics.broker_metrics import BrokerMetrics
from tidelog.broker.node import node_gauges
from tidelog.broker.node.crash import CrashHandler
from tidelog.broker.node.health import BrokerState, Health, health_page
from tidelog.broker.node.loop_wait import wait
from tidelog.broker.node.node_access import NodeAccess
from tidelog.broker.node.node_broker import NodeBroker
from tidelog.broker.node.node_directories import format_opened, open_directories
from tidelog.broker.node.node_listeners import NodeListeners
from tidelog.broker.node.node_metadata import NodeMetadata
from tidelog.broker.node.node_parts import NodeParts
from tidelog.broker.node.node_security import NodeSecurity
from tidelog.broker.node.node_tls import NodeTls
from tidelog.broker.quotas.mutations import MutationQuotas
from tidelog.broker.quotas.node_quotas import NodeQuotas
from tidelog.broker.quotas.quota_gauges import register_quotas
from tidelog.broker.requests.caller import Caller
from tidelog.broker.share.group_states import GroupStates
from tidelog.broker.share.share_coordinator import ShareCoordinator
from tidelog.broker.share.share_leader import ShareLeader
from tidelog.broker.share.share_sessions import ShareSessions
from tidelog.broker.telemetry.client_telemetry import ClientTelemetry
from tidelog.broker.transactions.transaction_admission import TransactionAdmission
from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
from tidelog.controller.cluster_view import BROKER_RESOURCE
from tidelog.controller.controller import ControllerContext
from tidelog.controller.errors import MetadataFault
from tidelog.controller.image import ClusterImage, Endpoint
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.quorum import MetadataQuorum
from tidelog.controller.requests import cut_to_version, is_not_controller
from tidelog.model import broker_config as keys, data_plane_config, metrics_text
from tidelog.model.bugs import Housekeeping
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigValues
from tidelog.model.ids import BrokerEpoch, NodeId
from tidelog.model.listener_config import MAX_CONNECTIONS
from tidelog.model.pending import Pending
from tidelog.model.security_protocol import SecurityProtocol
from tidelog.model.share_group_config import GROUP_SHARE_MAX_SHARE_SESSIONS
from tidelog.model.shared_timers import SharedTimers
from tidelog.model.timers import LoopTimers
from tidelog.model.token_config import DELEGATION_TOKEN_SECRET_KEY
from tidelog.net.address import Address
from tidelog.net.errors import ListenError
from tidelog.net.http_endpoint import OPEN_ACCESS, Answer, HttpAccess, HttpEndpoint, HttpRequest, Page, Pages
from tidelog.net.limits import NodeLimits
from tidelog.net.socket_server import SocketServer
from tidelog.net.transport import Transport
from tidelog.replication.partitions import Partitions
from tidelog.security.delegation_tokens import TokenCredentials, TokenSecret
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.open_segments import (
    DESCRIPTORS_PER_SEGMENT,
    OpenSegments,
    connections_beside,
    segments_beside,
)
from tidelog.storage.seams import Seams
from tidelog.wire.schema import Request, Response

if TYPE_CHECKING:
    from tidelog.broker.watching.inside_pages import InsidePages

logger = logging.getLogger(__name__)

A = TypeVar("A", bound=Response)

# Any port is one below those that systems give out: one of these may have been chosen for a node that is yet to start.
_HTTP_PORTS = (12_000, 20_000)
_HTTP_PORT_ATTEMPTS_MAX = 20

_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - how such an address is known

# How long a stopping node waits for answers that are under way, and for the controller to let it go.
DRAIN_TIMEOUT_MS = 5_000
LEAVE_TIMEOUT_MS = 5_000


class NodeError(Exception):
    """The node cannot start, in one sentence with what to do."""


class NodeCrashedError(NodeError):
    """A bug has stopped the node. The sentence says what and where; the log has its traceback."""


def load_handlers() -> None:
    """Import every handler, so that the table is complete."""
    for module in pkgutil.iter_modules(handlers.__path__):
        importlib.import_module(f"{handlers.__name__}.{module.name}")


class BrokerNode:
    """A running node. `await BrokerNode.start(...)`, then `await node.stop()`."""

    # What handlers see of a broker: there once it serves, and never where the node is a controller alone.
    partitions: Partitions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    transaction_admission: TransactionAdmission
    share_coordinator: ShareCoordinator
    group_states: GroupStates
    share_leader: ShareLeader
    doubted_brokers: DoubtedBrokers
    log_directories: LogDirectories
    replica_moves: ReplicaMoves

    def __init__(
        self,
        config: ConfigValues,
        seams: Seams,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        metrics_address: Address | None = None,
        metrics_access: HttpAccess = OPEN_ACCESS,
    ) -> None:
        self.static_config = config
        self.node_id = NodeId(config[keys.NODE_ID])
        self.is_broker = "broker" in config[keys.PROCESS_ROLES]
        self.is_controller = "controller" in config[keys.PROCESS_ROLES]
        # Asked by every Fetch.
        controller_listeners: tuple[str, ...] = config[keys.CONTROLLER_LISTENER_NAMES]
        self._controller_listeners = frozenset(controller_listeners)
        self.cluster_id = ""
        self.fault: BaseException | None = None
        self.stopped: asyncio.Future[None] = loop.create_future()
        """Completes when the node has stopped, or fails with the fault that stopped it."""
        self._seams = seams
        self._loop = loop
        self._timers = LoopTimers(loop)
        self._housekeeping = Housekeeping()
        # Of requests that wait: one for nearly every Fetch.
        self.timers = SharedTimers(
            self._timers, seams.clock, partial(self._housekeeping.failed, "the time-out of a request")
        )
        self._transport = transport
        descriptors_max = seams.files.descriptors_max()
        segments_max = segments_beside(descriptors_max, config[MAX_CONNECTIONS])
        limits = NodeLimits.from_config(config).within(connections_beside(descriptors_max, segments_max))
        self._open_segments = OpenSegments(segments_max)
        self._server = SocketServer(
            loop, transport, limits, slow_work=seams.slow_work, housekeeping=self._housekeeping, clock=seams.clock
        )
        specs = listener_specs(config)
        self.listeners = NodeListeners(
            config, specs, self._server, loop, connections_beside(descriptors_max, segments_max)
        )
        self._access = NodeAccess(config)
        secret = config[DELEGATION_TOKEN_SECRET_KEY]
        self.token_secret = TokenSecret(secret) if secret else None
        self.token_credentials = TokenCredentials(
            self.token_secret, lambda: self.image.delegation_tokens, seams.clock, seams.random
        )
        self.tls = NodeTls(config, specs, seams.slow_work)
        self._security = NodeSecurity(config, self.tls, seams, self._timers, lambda: self.config)
        logger.info(
            "of %d open files that this process may have, up to %d are for connections and %d for segments",
            descriptors_max,
            limits.connections_max,
            segments_max * DESCRIPTORS_PER_SEGMENT,
        )
        self._config = CurrentConfig(config, self.node_id, lambda: self.image)
        self._metadata: NodeMetadata | None = None
        self.metrics = BrokerMetrics()
        self.state = BrokerState.STARTING
        self._metrics_address = metrics_address
        self._metrics_access = metrics_access
        self._http: HttpEndpoint | None = None
        self._looking_inside: InsidePages | None = None
        self.fetch_sessions = FetchSessions(
            config[data_plane_config.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS],
            seams.clock,
            seams.random,
            config[data_plane_config.FETCH_MAX_BYTES],
        )
        self._share_sessions = ShareSessions(config[GROUP_SHARE_MAX_SHARE_SESSIONS])
        self.quotas = NodeQuotas(config, seams.clock)
        self.telemetry = ClientTelemetry(config, seams.clock.monotonic_ms, seams.random)
        self.known_hosts = KnownHosts(seams.slow_work)
        self.auto_topics = AutoTopics(self)
        self.streams_topics = StreamsTopics(self, seams.clock.monotonic_ms)
        self.internal_topics = InternalTopics(self)
        self._opened: list[LogDirectory] = []
        self._on_directory_failed: Callable[[LogDirectory], None] = lambda _directory: None
        # How to stop each part that has been started, for an end at whatever moment.
        self._stopping: list[Callable[[], object]] = []
        self._is_stopping = False

    # --- what handlers see -------------------------------------------------------------------------------------------------

    @property
    def config(self) -> ConfigValues:
        return self._config.now

    @property
    def clock(self) -> Clock:
        return self._seams.clock

    @property
    def random(self) -> Random:
        return self._seams.random

    @property
    def image(self) -> ClusterImage:
        return self._service.committed.image

    @property
    def quorum(self) -> MetadataQuorum:
        return self._service.quorum

    def is_controller_listener(self, listener_name: str) -> bool:
        return listener_name in self._controller_listeners

    def security_protocol(self, listener_name: str) -> SecurityProtocol:
        return self.listeners.security_protocol(listener_name)

    def forward(self, request: Request, answer: type[A], caller: Caller | None) -> Pending[A]:  # noqa: ARG002 - `answer` is the type
        version, context = None, None
        if caller is not None:
            # A handler may also ask for something of its own: for a topic, say, that a Metadata request has named.
            version = caller.api_version if caller.api_key == request.api_key else None
            context = ControllerContext(caller.principal, caller.client_id, caller.host, version)
        answered: Pending[A] = Pending()

        def answer_with(answer: Response) -> None:
            forwarded = None if caller is None else caller.forwarded
            if forwarded is not None and is_not_controller(request, answer):
                forwarded.is_controller_elsewhere = True
            answered.complete(cast("A", cut_to_version(request, answer, version)))

        if caller is not None and context is not None and self.is_controller_listener(caller.listener_name):
            # Whoever asks a controller means that one, and learns if it is not the active one.
            self._service.controller.handle(request, context).then(answer_with)
            return answered
        decided = self._links.channel.ask(request, context)
        # Whoever asks for a topic uses it next, so this node's replicas are there before the answer is.
        decided.then(lambda answer: self.partitions.opened().then(lambda _: answer_with(answer)))
        return answered

    @property
    def is_active_controller(self) -> bool:
        return self._service.controller.is_active

    def decide(self, request: Request, context: ControllerContext) -> Pending[Response]:
        name = self.static_config[keys.CONTROLLER_LISTENER_NAMES][0]
        return answer_forwarded(request, context, self, self._access.authorizer, name)

    @property
    def broker_watch(self) -> BrokerWatch:
        return self._links.watch

    def on_image(self, heard: Callable[[], None]) -> None:
        """Tell of every image of the cluster from the next one on, once this node goes by it."""
        self._service.committed.subscribe(lambda _image, _delta: heard())

    def next_producer_id(self) -> Pending[int]:
        return self._broker.producer_ids.next()

    def endpoint(self, listener_name: str) -> Endpoint:
        """Where a listener of this node is reached."""
        return self.listeners.endpoint(listener_name)

    @property
    def bootstrap_address(self) -> str:
        """What a client on this machine is given to start with."""
        return self.listeners.bootstrap_address

    # --- starting ----------------------------------------------------------------------------------------------------------

    @classmethod
    async def start(
        cls,
        config: ConfigValues,
        seams: Seams,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        *,
        metrics_address: Address | None = None,
        metrics_access: HttpAccess = OPEN_ACCESS,
        crashes: CrashHandler | None = None,
    ) -> BrokerNode:
        """A node that serves. One of `hosting.START_ERRORS` says in one sentence why it cannot be.

        With a `metrics_address` it shows its metrics and its health there, from the first moment to the last, to those whom
        `metrics_access` lets in. `crashes` stops it for bugs; without one the loop has its own way, as the simulator's has.
        """
        load_handlers()
        node = cls(config, seams, loop, transport, metrics_address, metrics_access)
        if crashes is not None:
            crashes.add(node)
            node.stopped.add_done_callback(lambda _stopped: crashes.remove(node))
        try:
            await node._start()
        except BaseException:
            node.abandon()
            raise
        return node

    async def _start(self) -> None:
        check_config(self.static_config)
        # First of all: a recovery may take long, and whoever watches wants to see that it goes on.
        await self._show_metrics()
        opened = self._open_directories()
        await self.listeners.open(
            self,
            self._access.authorizer,
            self._security,
            self.tls,
            self._timers,
            self._connection_closed,
        )
        endpoints = tuple(self.listeners.for_controllers)
        self.cluster_id = format_opened(opened, self.static_config, self._seams, endpoints)
        parts = self._parts()
        await self._start_metadata(parts, opened[0], endpoints)
        if self.is_broker:
            await self._start_broker(parts, opened)
            self._broker.register_metrics(self._offline_paths)
        self.tls.start(self._timers)
        self.state = BrokerState.RUNNING
        self.listeners.serve()

    def _connection_closed(self, connection_id: int) -> None:
        self._share_sessions.connection_closed(connection_id)
        self.telemetry.connection_closed(connection_id)

    def _parts(self) -> NodeParts:
        """What those that are put together below share, now that it is known which cluster this node is of."""
        return NodeParts(
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            config=self.static_config,
            seams=self._seams,
            loop=self._loop,
            timers=self._timers,
            transport=self._transport,
            server=self._server,
            metrics=self.metrics,
            housekeeping=self._housekeeping,
            internal_topics=self.internal_topics,
            share_sessions=self._share_sessions,
            security=self._security,
            stopping=self._stopping,
        )

    async def _start_broker(self, parts: NodeParts, opened: list[LogDirectory]) -> None:
        """What a node is beyond its part in the metadata, unless it is a controller alone."""
        assert self._metadata is not None
        broker = self._broker = NodeBroker(
            parts,
            opened,
            self._metadata,
            self._config,
            self.listeners.for_brokers,
            is_stopped=self.stopped.done,
        )
        self.partitions = broker.partitions
        self.groups = broker.groups
        self.transactions = broker.transactions
        self.transaction_admission = broker.transaction_admission
        self.share_coordinator = broker.share_coordinator
        self.group_states = broker.group_states
        self.share_leader = broker.share_leader
        self.doubted_brokers = broker.replication.doubted
        self.log_directories = broker.directories
        self.replica_moves = broker.replica_moves
        self._on_directory_failed = broker.directory_failed
        broker.load()
        await broker.register()
        self._raise_fault()
        broker.start()

    def _open_directories(self) -> list[LogDirectory]:
        opened = self._opened
        open_directories(
            self.static_config,
            self._seams,
            opened,
            config_of=lambda topic: self._config.topic(topic).log,
            on_offline=self._directory_failed,
            open_segments=self._open_segments,
        )
        return opened

    async def _start_metadata(self, parts: NodeParts, directory: LogDirectory, endpoints: tuple[Endpoint, ...]) -> None:
        """Until the image of the cluster is there: with a quorum of one, as soon as the disk has the first records; otherwise
        when this node has caught up with the leader."""
        metadata = self._metadata = NodeMetadata(
            parts,
            directory,
            endpoints,
            can_lead=self.is_controller,
            for_client=self.decide,
            on_fault=self._metadata_failed,
        )
        self._raise_fault()
        self._links, self._service = metadata.links, metadata.service
        metadata.service.controller.limit_mutations(MutationQuotas(self.quotas.mutations, self.quotas.now_ms))
        metadata.service.controller.know_hosts(self.known_hosts)
        self._follow_quotas(metadata.image)
        metadata.service.committed.subscribe(self._image_changed)
        problem = voters_problem(metadata.service.quorum.voters, self.static_config)
        if problem is not None:
            raise NodeError(problem)
        self._access.follow(metadata)
        self.listeners.serve_controllers(self._links.watch, self._access.serves_early)
        metadata.start()
        await wait(self._loop, metadata.is_led)
        self._raise_fault()
        version = self.image.metadata_version
        paths = self.static_config[keys.LOG_DIRS] or self.static_config[keys.LOG_DIR]
        if self.is_broker and len(paths) > 1 and not version.has_directories:
            raise NodeError(
                f"several log directories need metadata.version 3.7-IV2 or higher, and the cluster is at {version.name}: "
                "name one in log.dirs, or raise the level first"
            )
        self._access.warn_of(self.image)
        self.listeners.serve_controllers(self._links.watch, lambda _name: True)
        self._config.read_anew()
        self._config_changed()
        node_gauges.register_metadata(self.metrics.registry, metadata.service)

    def _image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        """What any node follows, also one that is a controller alone."""
        self._config.follow(delta)
        if any(resource.type == BROKER_RESOURCE for resource in delta.configs_changed):
            self._config_changed()
        self._follow_quotas(image)

    def _config_changed(self) -> None:
        self.tls.follow(self.config)
        self.listeners.follow(self.config)

    def _follow_quotas(self, image: ClusterImage) -> None:
        self.quotas.follow(image.quotas)
        self.listeners.follow_quotas(image.quotas)

    # --- being watched -----------------------------------------------------------------------------------------------------

    @property
    def metrics_url(self) -> str | None:
        """Where the metrics are shown, if they are."""
        return None if self._http is None else f"{self._http.scheme}://{self._http.address}/metrics"

    @property
    def http_address(self) -> str:
        """Where its port for watchers is reached, as a URL without a path; empty where it has none."""
        if self._http is None:
            return ""
        address = self._http.address
        if address.host in _ANY_ADDRESS:
            # Others know this machine by the name that it gives them.
            known = self.listeners.for_brokers or self.listeners.for_controllers
            address = Address(known[0].host, address.port)
        return f"{self._http.scheme}://{address}"

    def _inside(self, request: HttpRequest) -> Answer | Pending[Page]:
        """`/trace` and `/log`, which tell more than numbers: only to this machine, or over TLS with the token."""
        assert self._http is not None
        if self._looking_inside is None:
            # Nobody pays for it at a start who does not look.
            from tidelog.broker.watching.inside_pages import InsidePages  # noqa: PLC0415

            self._looking_inside = InsidePages(self, self._http, self._seams.slow_work)
        return self._looking_inside.page(request, serves=self.is_broker and self.state is BrokerState.RUNNING)

    @property
    def health(self) -> Health:
        return Health(
            self.state,
            self.node_id,
            self.cluster_id,
            self._metadata is not None and self._metadata.service.controller.is_active,
            self._offline_paths(),
        )

    def _offline_paths(self) -> list[str]:
        """The log directories that cannot be used, also those that could not even be opened."""
        if self.state is BrokerState.STARTING:
            return []
        online = {directory.path for directory in self._opened if not directory.is_offline}
        return [path for path in log_directories(self.static_config) if path not in online]

    async def _show_metrics(self) -> None:
        registry = self.metrics.registry
        registry.gauge("kafka_server_kafka_server_broker_state", "Kafka's number of the state.", lambda: self.state)
        node_gauges.register_server(registry, self._server)
        node_gauges.register_tls(registry, self._server, self.tls, self._seams.clock)
        register_quotas(registry, self.quotas)
        self.telemetry.register(registry)
        node_gauges.register_housekeeping(registry, self._housekeeping)
        node_gauges.register_waiting(registry, self.metrics.requests)
        node_gauges.register_fetch_sessions(registry, self.fetch_sessions)
        self._access.register_metrics(registry)
        node_gauges.register_flushes(registry, self._seams.flush_times_ms)
        if self._metrics_address is not None:
            pages: Pages = {
                "/metrics": lambda _request: Page(
                    HTTPStatus.OK, metrics_text.CONTENT_TYPE, metrics_text.render(registry)
                ),
                "/health": lambda _request: health_page(self.health),
                "/trace": self._inside,
                "/log": self._inside,
            }
            self._http = await self._open_http(self._metrics_address, pages)

    async def _open_http(self, address: Address, pages: Pages) -> HttpEndpoint:
        """Where the address says; at any port for 0."""
        host, wanted = address
        for _ in range(0 if wanted else _HTTP_PORT_ATTEMPTS_MAX):
            port = self._seams.random.randrange(*_HTTP_PORTS)
            with suppress(ListenError):
                return await HttpEndpoint.open(self._loop, self._transport, host, port, pages, self._metrics_access)
        return await HttpEndpoint.open(self._loop, self._transport, host, wanted, pages, self._metrics_access)

    # --- faults ------------------------------------------------------------------------------------------------------------

    def _directory_failed(self, directory: LogDirectory, error: StorageError) -> None:
        logger.error("log directory %s is offline: %s", directory.path, error)
        self._on_directory_failed(directory)
        if directory in self._opened[:1] and not self._is_stopping:
            # Not now: whoever met the fault is in the middle of a request.
            self._loop.call_soon(self._metadata_failed, error)

    def _metadata_failed(self, error: MetadataFault) -> None:
        """Without its metadata log, the directory it lies in, or a log that it can follow, the node knows nothing for certain.

        With one log directory this is also Kafka's rule that a node without any directory stops.
        """
        if self.fault is None:
            logger.critical("the metadata log cannot be followed any further, the node stops: %s", error)
            self.fault = error
            self.abandon()

    def crash(self, where: str, error: BaseException) -> None:
        """A bug, and what it has left half done is unknown: stop at once, as a crash would. The next start recovers."""
        if self.fault is None and not self.stopped.done():
            what = f"{type(error).__name__}: {error}" if error.__cause__ is None else f"{error}: {error.__cause__!r}"
            sentence = f"a bug stops the node: {what} ({where})"
            logger.critical("%s", sentence, exc_info=error)
            self.fault = NodeCrashedError(sentence)
            self.abandon()

    def _raise_fault(self) -> None:
        if self.fault is not None:
            raise self.fault

    # --- stopping ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop cleanly: the next start reads no log."""
        if self._is_stopping:
            await asyncio.shield(self.stopped)
            return
        self._is_stopping = True
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        departure = self._depart()
        if self.is_broker:
            await self._broker.leave(departure, LEAVE_TIMEOUT_MS)
            # The other controllers may still need this one, and what is in flight may need it too.
            await self.listeners.drain_clients(DRAIN_TIMEOUT_MS)
        if self.is_controller:
            await wait(self._loop, departure.others_left(self.image), timeout_ms=LEAVE_TIMEOUT_MS)
        handed_over = self._service.quorum.shutdown(LEAVE_TIMEOUT_MS)
        await wait(self._loop, departure.unless_lost(handed_over), timeout_ms=LEAVE_TIMEOUT_MS)
        departure.end()
        await self._server.drain(DRAIN_TIMEOUT_MS)
        if not self.stopped.done():  # or a fault has ended it meanwhile
            self._links.close()
            await self._close()
        self._raise_fault()

    def _depart(self) -> Departure:
        departure = Departure(
            self.node_id,
            self._service.quorum.voters,
            self.static_config[keys.CONTROLLER_LISTENER_NAMES][0],
            lambda host, port, on_event: self._links.dial_controller(host, port, on_event, stay_connected=True),
        )
        self._stopping.append(departure.end)
        self._service.committed.subscribe(lambda image, _delta: departure.follow(image))
        departure.begin()
        return departure

    async def _close(self) -> None:
        """Write everything down. A directory that fails leaves its mark unwritten, and the others theirs not."""
        try:
            self._service.close()
        except StorageError as error:
            logger.critical("the metadata log is not closed, its next start recovers: %s", error)
            self.fault = error
            self._service.abandon()
        epoch = self._broker.registration.epoch if self.is_broker else BrokerEpoch(-1)
        for closed in [directory.close(epoch) for directory in self._opened]:
            await wait(self._loop, closed)
        self._end()

    def abandon(self) -> None:
        """Stop at once, as a crash would: nothing more is written."""
        self._is_stopping = True
        self._server.abort()
        parts = [*reversed(self._stopping), *(directory.abandon for directory in self._opened)]
        self._stopping.clear()
        for stop in parts:
            try:
                stop()
            except Exception:
                # What has crashed may not be fit to be stopped; the others are to be stopped all the same.
                logger.exception("a part of the node cannot be stopped")
        self._end()
        # Whoever waits for the start learns from the fault that there is nothing to wait for.
        if self._metadata is not None:
            self._metadata.is_led.complete(None)

    def _end(self) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.tls.stop()
        self._security.close()
        self.listeners.stop()
        if self._http is not None:
            self._http.close()
        if not self.stopped.done():
            if self.fault is None:
                self.stopped.set_result(None)
            else:
                self.stopped.set_exception(self.fault)
                self.stopped.exception()


def describe(node: BrokerNode) -> str:
    """One line about a node that serves."""
    return f"node {node.node_id} of cluster {node.cluster_id} at {node.bootstrap_address}"
