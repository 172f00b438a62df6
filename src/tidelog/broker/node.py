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
from http import HTTPStatus
from random import Random
from typing import Any, TypeVar, cast

from tidelog.broker import handlers, node_gauges
from tidelog.broker.auto_topics import AutoTopics
from tidelog.broker.broker_watch import BrokerWatch
from tidelog.broker.caller import AllowAll, Caller
from tidelog.broker.cleaner_metrics import register_log_cleaner
from tidelog.broker.cluster_links import ClusterLinks
from tidelog.broker.config_resources import ConfigResourceType
from tidelog.broker.config_view import BrokerConfigView, effective_config, static_topic_defaults, topic_values
from tidelog.broker.controller_dispatcher import ControllerDispatcher
from tidelog.broker.departure import Departure
from tidelog.broker.directory_assignments import DirectoryAssignments
from tidelog.broker.dispatch import Dispatcher
from tidelog.broker.doubted_brokers import DoubtedBrokers
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.group_limits import group_config_problem
from tidelog.broker.health import BrokerState, Health, health_page
from tidelog.broker.internal_topics import InternalTopics
from tidelog.broker.listeners import ListenerSpec, listener_specs
from tidelog.broker.log_cleaner import LogCleaner
from tidelog.broker.metrics import BrokerMetrics
from tidelog.broker.node_config import bootstrap_servers, check_config, voters_of, voters_problem
from tidelog.broker.node_directories import format_opened, open_directories
from tidelog.broker.node_replication import NodeReplication
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.registration import Registration
from tidelog.broker.replica_moves import ReplicaMoves, keep_one_of_each, moves_throttle
from tidelog.broker.transaction_admission import TransactionAdmission
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_gauges import register_transactions
from tidelog.broker.transaction_questions import TransactionQuestions
from tidelog.broker.upkeep import Upkeep
from tidelog.controller.cluster_view import BROKER_RESOURCE, TopicDefaults
from tidelog.controller.controller import ControllerContext
from tidelog.controller.image import ClusterImage, Endpoint
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.metadata_service import MetadataService
from tidelog.controller.quorum import MetadataQuorum
from tidelog.controller.settings import ControllerSettings
from tidelog.model import broker_config as keys, data_plane_config, metrics_text
from tidelog.model.client_metrics_config import CLIENT_METRICS_KEYS
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigValues
from tidelog.model.controller_config import CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS
from tidelog.model.group_config import GROUP_KEYS
from tidelog.model.ids import BrokerEpoch, DirectoryId, NodeId, TopicName
from tidelog.model.listener_config import MAX_CONNECTIONS
from tidelog.model.pending import Pending
from tidelog.model.shared_timers import SharedTimers
from tidelog.model.timers import LoopTimers, Timers
from tidelog.model.topic_config import TOPIC_KEYS, compaction_lag_problem
from tidelog.net.address import Address
from tidelog.net.http_endpoint import HttpEndpoint, Page
from tidelog.net.limits import NodeLimits
from tidelog.net.socket_server import SocketServer
from tidelog.net.transport import Transport
from tidelog.replication.partitions import Partitions
from tidelog.replication.throttles import ReplicationThrottles
from tidelog.replication.topic_config import TopicConfig
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.open_segments import OpenSegments, connections_beside, segments_beside
from tidelog.storage.seams import Seams
from tidelog.wire.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.schema import Request, Response

logger = logging.getLogger(__name__)

A = TypeVar("A", bound=Response)

# How long a stopping node waits for answers that are under way, and for the controller to let it go.
DRAIN_TIMEOUT_MS = 5_000
LEAVE_TIMEOUT_MS = 5_000


class NodeError(Exception):
    """The node cannot start, in one sentence with what to do."""


def load_handlers() -> None:
    """Import every handler, so that the table is complete."""
    for module in pkgutil.iter_modules(handlers.__path__):
        importlib.import_module(f"{handlers.__name__}.{module.name}")


class BrokerNode:
    """A running node. `await BrokerNode.start(...)`, then `await node.stop()`."""

    def __init__(
        self,
        config: ConfigValues,
        seams: Seams,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        metrics_address: Address | None = None,
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
        # Of requests that wait: one for nearly every Fetch.
        self._request_timers = SharedTimers(self._timers, seams.clock)
        self._transport = transport
        descriptors_max = seams.files.descriptors_max()
        segments_max = segments_beside(descriptors_max, config[MAX_CONNECTIONS])
        limits = NodeLimits.from_config(config).within(connections_beside(descriptors_max, segments_max))
        self._open_segments = OpenSegments(segments_max)
        self._server = SocketServer(loop, transport, limits, slow_work=seams.slow_work)
        self._specs = listener_specs(config)
        self._view = BrokerConfigView.of(config, ClusterImage(), self.node_id)
        self._is_led: Pending[None] = Pending()
        self._config = config
        self.metrics = BrokerMetrics()
        self.state = BrokerState.STARTING
        self._metrics_address = metrics_address
        self._http: HttpEndpoint | None = None
        self._topic_configs: dict[TopicName, TopicConfig] = {}
        self.fetch_sessions = FetchSessions(
            config[data_plane_config.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS], seams.clock, seams.random
        )
        self.auto_topics = AutoTopics(self)
        self.internal_topics = InternalTopics(self)
        self._producer_ids = ProducerIds(self._allocate_producer_ids)
        self._assignments = DirectoryAssignments(
            self._ask_controller,
            self._timers,
            node_id=self.node_id,
            broker_epoch=lambda: self._registration.epoch,
        )
        self._dispatchers: list[Dispatcher] = []
        self._endpoints: dict[str, Endpoint] = {}
        self._opened: list[LogDirectory] = []
        self._on_directory_failed: Callable[[LogDirectory], None] = lambda _directory: None
        self._is_controller_active: Callable[[], bool] = lambda: False
        # How to stop each part that has been started, for an end at whatever moment.
        self._stopping: list[Callable[[], object]] = []
        self._is_stopping = False

    # --- what handlers see -------------------------------------------------------------------------------------------------

    @property
    def config(self) -> ConfigValues:
        return self._config

    @property
    def clock(self) -> Clock:
        return self._seams.clock

    @property
    def timers(self) -> Timers:
        return self._request_timers

    @property
    def random(self) -> Random:
        return self._seams.random

    @property
    def image(self) -> ClusterImage:
        return self._service.committed.image

    @property
    def quorum(self) -> MetadataQuorum:
        return self._service.quorum

    @property
    def partitions(self) -> Partitions:
        return self._partitions

    @property
    def groups(self) -> GroupCoordinator:
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self._transactions

    @property
    def transaction_admission(self) -> TransactionAdmission:
        return self._transaction_admission

    @property
    def doubted_brokers(self) -> DoubtedBrokers:
        return self._replication.doubted

    @property
    def log_directories(self) -> LogDirectories:
        return self._directories

    @property
    def replica_moves(self) -> ReplicaMoves:
        return self._replica_moves

    def is_controller_listener(self, listener_name: str) -> bool:
        return listener_name in self._controller_listeners

    def forward(self, request: Request, answer: type[A], caller: Caller) -> Pending[A]:  # noqa: ARG002 - `answer` is the type
        # A handler may also ask for something of its own: for a topic, say, that a Metadata request has named.
        version = caller.api_version if caller.api_key == request.api_key else None
        context = ControllerContext(str(caller.principal), caller.client_id, caller.host, version)
        if self.is_controller_listener(caller.listener_name):
            # Whoever asks a controller means that one, and learns if it is not the active one.
            return cast("Pending[A]", self.decide(request, context))
        decided = cast("Pending[A]", self._links.channel.ask(request, context))
        answered: Pending[A] = Pending()
        # Whoever asks for a topic uses it next, so this node's replicas are there before the answer is.
        decided.then(lambda answer: self._partitions.opened().then(lambda _: answered.complete(answer)))
        return answered

    def decide(self, request: Request, context: ControllerContext) -> Pending[Response]:
        return self._service.controller.handle(request, context)

    @property
    def broker_watch(self) -> BrokerWatch:
        return self._links.watch

    def on_image(self, heard: Callable[[], None]) -> None:
        """Tell of every image of the cluster from the next one on, once this node goes by it."""
        self._service.committed.subscribe(lambda _image, _delta: heard())

    def _in_turn(self, work: Callable[[], None]) -> None:
        if not self.stopped.done():
            with self._server.turn:
                work()

    def next_producer_id(self) -> Pending[int]:
        return self._producer_ids.next()

    def endpoint(self, listener_name: str) -> Endpoint:
        """Where a listener of this node is reached."""
        return self._endpoints[listener_name]

    @property
    def bootstrap_address(self) -> str:
        """What a client on this machine is given to start with."""
        names = [spec.name for spec in self._specs if not spec.is_controller] or [self._specs[0].name]
        name = names[0]
        endpoint = self._endpoints[name]
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return f"{host}:{endpoint.port}"

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
    ) -> BrokerNode:
        """A node that serves. NodeError, StorageError, ConfigError or NetError say in one sentence why it cannot be.

        With a `metrics_address` it shows its metrics and its health there, from the first moment to the last.
        """
        load_handlers()
        node = cls(config, seams, loop, transport, metrics_address)
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
        for spec in self._specs:
            await self._listen(spec)
        self.cluster_id = format_opened(opened, self.static_config, self._seams, self._controller_endpoints())
        self._start_quorum(opened[0])
        await self._active()
        if self.is_broker:
            await self._start_broker(opened)
        self._register_metrics()
        self.state = BrokerState.RUNNING
        for dispatcher in self._dispatchers:
            dispatcher.is_ready = True

    async def _start_broker(self, opened: list[LogDirectory]) -> None:
        """What a node is beyond its part in the metadata, unless it is a controller alone."""
        self._directories = LogDirectories(opened)
        self._registration = self._new_registration()
        self._replication = NodeReplication(
            self._links,
            lambda: self.image,
            self.static_config,
            self._timers,
            self._seams.clock,
            node_id=self.node_id,
            broker_epoch=lambda: self._registration.epoch,
            own_listener=next(spec.name for spec in self._specs if not spec.is_controller),
        )
        self._stopping.append(self._replication.stop)
        self._partitions = Partitions(
            self.node_id,
            self._directories,
            self._seams.clock,
            config_of=self.topic_config,
            on_placed=self._assignments.placed,
            later=lambda work: self._loop.call_soon(self._in_turn, work),
            on_role=self._replication.role_changed,
            throttles=ReplicationThrottles(self.node_id, self._seams.clock, lambda: self._config),
        )
        self._replication.join(self._partitions)
        self._on_directory_failed = self._partitions.directory_failed
        for directory in opened:
            directory.load(is_stray=lambda log: self._partitions.is_stray(self.image, log))
        keep_one_of_each(self._directories)
        self._partitions.apply(self.image)
        self._groups = GroupCoordinator(
            self,
            self.static_config,
            self._seams,
            self._timers,
            self._server.turn,
            config_now=lambda: self._config,
        )
        self._stopping.append(self._groups.stop)
        self._start_transactions()
        self._groups.follow(self.image)
        self._transactions.follow(self.image)
        self._log_cleaner = LogCleaner(self._directories, self._seams, self._timers, lambda: self._config)
        self._stopping.append(self._log_cleaner.stop)
        self._service.committed.subscribe(self._image_changed)
        await self._register(opened)
        self._replication.start()
        self._stopping.append(self._assignments.stop)
        self._assignments.start()
        self._replica_moves = ReplicaMoves(
            self._directories,
            self._partitions,
            self._timers,
            self._seams.slow_work,
            moves_throttle(self._seams.clock, lambda: self._config),
            on_placed=self._assignments.placed,
        )
        self._stopping.append(self._replica_moves.stop)
        self._replica_moves.resume()
        self._upkeep = Upkeep(self._directories, self._timers, self._config)
        self._stopping.append(self._upkeep.stop)
        self._log_cleaner.start()

    def _start_transactions(self) -> None:
        self._transactions = TransactionCoordinator(
            self,
            self.static_config,
            self._seams,
            self._timers,
            self._server.turn,
            groups=self._groups,
            next_producer_id=self.next_producer_id,
            link_to=self._replication.link_to,
        )
        self._stopping.append(self._transactions.stop)
        self._transaction_questions = TransactionQuestions(
            self.node_id, self._transactions, self._replication.link_to, self._server.turn
        )
        self._stopping.append(self._transaction_questions.stop)
        self._transaction_admission = TransactionAdmission(
            self._transaction_questions, self._seams.clock, self._timers, lambda: self._config
        )

    def _open_directories(self) -> list[LogDirectory]:
        opened = self._opened
        open_directories(
            self.static_config,
            self._seams,
            opened,
            config_of=lambda topic: self.topic_config(topic).log,
            on_offline=self._directory_failed,
            open_segments=self._open_segments,
        )
        return opened

    def _start_quorum(self, metadata: LogDirectory) -> None:
        assert metadata.identity is not None
        config = self.static_config
        listener = config[keys.CONTROLLER_LISTENER_NAMES][0]
        self._links = ClusterLinks(
            self._loop,
            self._transport,
            self._seams.random,
            self._timers,
            self._seams.clock,
            node_id=self.node_id,
            controller_listener=listener,
            request_timeout_ms=config[CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
            buffers=self._server.buffers,
            turn=self._server.turn,
        )
        self._stopping.append(self._links.close)
        self._service = MetadataService.open(
            self._seams,
            self._timers,
            directory=metadata.path,
            identity=metadata.identity,
            listener=listener,
            endpoints=self._controller_endpoints(),
            config=config,
            settings=ControllerSettings.from_values(
                config,
                node_id=self.node_id,
                cluster_id=self.cluster_id,
                topic_defaults=TopicDefaults(static_topic_defaults(config)),
                config_keys={
                    ConfigResourceType.TOPIC: TOPIC_KEYS,
                    # A broker checks its own keys before it passes a change on.
                    ConfigResourceType.BROKER: None,
                    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
                    ConfigResourceType.GROUP: GROUP_KEYS,
                },
                config_problems={
                    ConfigResourceType.GROUP: lambda own: group_config_problem(config, own),
                    ConfigResourceType.TOPIC: compaction_lag_problem,
                },
            ),
            on_fault=self._metadata_failed,
            static_voters=voters_of(config),
            bootstrap_servers=bootstrap_servers(config),
            peers=self._links.peers,
            can_become_voter=self.is_controller,
        )
        self._stopping.append(self._service.abandon)
        self._is_controller_active = lambda: self._service.controller.is_active
        problem = voters_problem(self._service.quorum.voters, config)
        if problem is not None:
            raise NodeError(problem)
        self._service.committed.subscribe(self._look_if_caught_up)
        self._links.join(self._service)
        for dispatcher in self._dispatchers:
            if isinstance(dispatcher, ControllerDispatcher):
                dispatcher.begin(self._links.watch)
        self._service.start()

    def _controller_endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(self._endpoints[spec.name] for spec in self._specs if spec.is_controller)

    def _look_if_caught_up(self, image: ClusterImage, _delta: ImageDelta) -> None:
        """An active controller writes records all the time, so that an image follows in which all of this holds."""
        if self._service.quorum.is_caught_up and image.features:
            self._is_led.complete(None)

    async def _active(self) -> None:
        """Until the image of the cluster is there: with a quorum of one, as soon as the disk has the first records; otherwise
        when this node has caught up with the leader."""
        await _wait(self._loop, self._is_led)
        self._raise_fault()
        if self.image.access_control:
            raise NodeError(
                "the cluster's metadata holds ACLs, and authorisation is not supported yet: remove them first"
            )
        self._config_changed()

    async def _listen(self, spec: ListenerSpec) -> None:
        if spec.is_controller:
            dispatcher: Dispatcher = ControllerDispatcher(self, AllowAll())
        else:
            dispatcher = Dispatcher(self, AllowAll(), "broker")
        self._dispatchers.append(dispatcher)
        listener = await self._server.listen(spec.name, spec.host, spec.port, dispatcher, protected=spec.is_controller)
        self._endpoints[spec.name] = spec.endpoint(listener.address.port, "localhost")

    def _new_registration(self) -> Registration:
        return Registration(
            self._ask_controller,
            self._timers,
            self._seams.random,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            heartbeat_interval_ms=self.static_config[keys.BROKER_HEARTBEAT_INTERVAL_MS],
            metadata_offset=lambda: self.image.offset,
            offline_directories=self._offline_directories,
        )

    async def _register(self, opened: list[LogDirectory]) -> None:
        self._stopping.append(self._registration.stop)
        ids = [directory.identity.directory_id for directory in opened if directory.identity is not None]
        self._registration.begin(
            [self._endpoints[spec.name] for spec in self._specs if not spec.is_controller],
            [each for each in ids if each is not None],
            rack=self.static_config[keys.BROKER_RACK] or None,
            previous_epoch=opened[0].last_broker_epoch,
        )
        # A node that fails meanwhile does not wait for what cannot come any more.
        self._stopping.append(lambda: self._registration.serving.complete(None))
        await _wait(self._loop, self._registration.serving)
        self._raise_fault()

    # --- being watched -----------------------------------------------------------------------------------------------------

    @property
    def metrics_url(self) -> str | None:
        """Where the metrics are shown, if they are."""
        return None if self._http is None else f"http://{self._http.address}/metrics"

    @property
    def health(self) -> Health:
        return Health(self.state, self.node_id, self.cluster_id, self._is_controller_active(), self._offline_paths())

    def _offline_paths(self) -> list[str]:
        """The log directories that cannot be used, also those that could not even be opened."""
        if self.state is BrokerState.STARTING:
            return []
        paths = self.static_config[keys.LOG_DIRS] or self.static_config[keys.LOG_DIR]
        online = {directory.path for directory in self._opened if not directory.is_offline}
        return [path for path in paths if path not in online]

    async def _show_metrics(self) -> None:
        registry = self.metrics.registry
        registry.gauge("kafka_server_kafka_server_broker_state", "Kafka's number of the state.", lambda: self.state)
        node_gauges.register_server(registry, self._server)
        node_gauges.register_waiting(registry, self.metrics.requests)
        node_gauges.register_fetch_sessions(registry, self.fetch_sessions)
        node_gauges.register_flushes(registry, self._seams.flush_times_ms)
        if self._metrics_address is not None:
            pages = {
                "/metrics": lambda: Page(HTTPStatus.OK, metrics_text.CONTENT_TYPE, metrics_text.render(registry)),
                "/health": lambda: health_page(self.health),
            }
            self._http = await HttpEndpoint.open(self._loop, self._transport, *self._metrics_address, pages)

    def _register_metrics(self) -> None:
        """What there is to read once the node has all of its parts."""
        registry = self.metrics.registry
        node_gauges.register_metadata(registry, self._service)
        if not self.is_broker:
            return
        node_gauges.register_partitions(registry, self._partitions)
        node_gauges.register_directories(registry, self._directories, self._offline_paths)
        register_log_cleaner(registry, self._log_cleaner, self._directories)
        node_gauges.register_groups(registry, self._groups)
        register_transactions(
            registry, self._transactions, self._transaction_admission, self._partitions, self._seams.clock
        )

    # --- following the cluster ---------------------------------------------------------------------------------------------

    def topic_config(self, topic: TopicName) -> TopicConfig:
        """What a topic's configuration comes to on this node."""
        known = self._topic_configs.get(topic)
        if known is None:
            known = TopicConfig.from_values(topic_values(self._view, self.image, topic))
            self._topic_configs[topic] = known
        return known

    def _image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        for resource in delta.configs_changed:
            if resource.type == BROKER_RESOURCE:
                self._config_changed()
            else:
                self._topic_configs.pop(TopicName(resource.name), None)
        for name in delta.topics_removed.values():
            self._topic_configs.pop(name, None)
        with self._server.turn:
            self._partitions.apply(image, delta)
            self._groups.follow(image, delta)
            self._transactions.follow(image, delta)
            self._transaction_questions.follow(image)
            # After the partitions: whoever hears of a new leader here may turn to this node.
            self._replication.doubted.follow(image)
        self._registration.follow(image)
        if delta.configs_changed:
            self._log_cleaner.look_soon()
        for name in delta.topics_removed.values():
            # Only now: a fetch that waited for the topic has just been answered, and counted.
            self.metrics.topics.remove(name)

    def _config_changed(self) -> None:
        self._topic_configs.clear()
        self._view = BrokerConfigView.of(self.static_config, self.image, self.node_id)
        self._config = effective_config(self.static_config, self._view)

    def _allocate_producer_ids(self) -> Pending[AllocateProducerIdsResponse]:
        request = AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self._registration.epoch)
        return cast("Pending[AllocateProducerIdsResponse]", self._ask_controller(request))

    def _ask_controller(self, request: Request) -> Pending[Response]:
        """On this node's own behalf."""
        return self._links.channel.ask(request)

    # --- faults ------------------------------------------------------------------------------------------------------------

    def _offline_directories(self) -> list[DirectoryId]:
        offline = (directory.identity for directory in self._directories.offline)
        return [identity.directory_id for identity in offline if identity is not None and identity.directory_id]

    def _directory_failed(self, directory: LogDirectory, error: StorageError) -> None:
        logger.error("log directory %s is offline: %s", directory.path, error)
        self._on_directory_failed(directory)
        if directory in self._opened[:1] and not self._is_stopping:
            # Not now: whoever met the fault is in the middle of a request.
            self._loop.call_soon(self._metadata_failed, error)

    def _metadata_failed(self, error: StorageError) -> None:
        """Without its metadata log, or the directory it lies in, the node knows nothing for certain any more.

        With one log directory this is also Kafka's rule that a node without any directory stops.
        """
        if self.fault is None:
            logger.critical("the directory of the metadata log failed, the node stops: %s", error)
            self.fault = error
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
            await self._leave(departure)
            # The other controllers may still need this one, and what is in flight may need it too.
            await self._server.drain(DRAIN_TIMEOUT_MS, [spec.name for spec in self._specs if not spec.is_controller])
        if self.is_controller:
            await _wait(self._loop, departure.others_left(self.image), timeout_ms=LEAVE_TIMEOUT_MS)
        handed_over = self._service.quorum.shutdown(LEAVE_TIMEOUT_MS)
        await _wait(self._loop, departure.unless_lost(handed_over), timeout_ms=LEAVE_TIMEOUT_MS)
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
            lambda host, port, on_event: self._links.dial(host, port, on_event, stay_connected=True),
        )
        self._stopping.append(departure.end)
        self._service.committed.subscribe(lambda image, _delta: departure.follow(image))
        departure.begin()
        return departure

    async def _leave(self, departure: Departure) -> None:
        """Have others lead what this broker leads, and serve nobody any more."""
        # Members that wait for others would wait beyond the end.
        self._transactions.stop()
        self._groups.stop()
        let_go = self._registration.leave()
        await _wait(self._loop, departure.unless_lost(let_go), timeout_ms=LEAVE_TIMEOUT_MS)
        if not let_go.is_complete:
            why = "too many controllers are gone" if departure.is_quorum_lost else "the time for it is up"
            logger.warning("no controller has let this broker go, and it goes all the same: %s", why)
        self._registration.stop()
        self._transaction_questions.stop()
        self._replication.stop()
        self._assignments.stop()
        self._replica_moves.stop()
        self._upkeep.stop()
        self._log_cleaner.stop()

    async def _close(self) -> None:
        """Write everything down. A directory that fails leaves its mark unwritten, and the others theirs not."""
        try:
            self._service.close()
        except StorageError as error:
            logger.critical("the metadata log is not closed, its next start recovers: %s", error)
            self.fault = error
            self._service.abandon()
        epoch = self._registration.epoch if self.is_broker else BrokerEpoch(-1)
        for closed in [directory.close(epoch) for directory in self._opened]:
            await _wait(self._loop, closed)
        self._end()

    def abandon(self) -> None:
        """Stop at once, as a crash would: nothing more is written."""
        self._is_stopping = True
        self._server.abort()
        while self._stopping:
            self._stopping.pop()()
        for directory in self._opened:
            directory.abandon()
        self._end()
        # Whoever waits for the start learns from the fault that there is nothing to wait for.
        self._is_led.complete(None)

    def _end(self) -> None:
        self.state = BrokerState.NOT_RUNNING
        if self._http is not None:
            self._http.close()
        if not self.stopped.done():
            if self.fault is None:
                self.stopped.set_result(None)
            else:
                self.stopped.set_exception(self.fault)
                self.stopped.exception()


async def _wait(loop: asyncio.AbstractEventLoop, pending: Pending[Any], *, timeout_ms: float | None = None) -> None:
    """Until an answer is there, or the time is up."""
    done: asyncio.Future[None] = loop.create_future()

    def answered(_value: object) -> None:
        if not done.done():
            done.set_result(None)

    pending.then(answered)
    timer = None if timeout_ms is None else loop.call_later(timeout_ms / 1000, answered, None)
    try:
        await done
    finally:
        if timer is not None:
            timer.cancel()


def describe(node: BrokerNode) -> str:
    """One line about a node that serves."""
    return f"node {node.node_id} of cluster {node.cluster_id} at {node.bootstrap_address}"
