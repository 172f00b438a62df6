"""A node's part as a broker, put together: its replicas, the coordinators that live in some of them, and its registration.

    broker.load()                 the logs are opened, and replicas have the roles that the metadata gives them
    await broker.register()       the controller has let it in
    broker.start()                it follows, moves and cleans by itself
    await broker.leave(...)       others lead what it led; nothing goes on any more, and the logs can be closed

A node that is a controller alone has none of this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

from tidelog.broker.cluster.departure import Departure
from tidelog.broker.cluster.directory_assignments import DirectoryAssignments
from tidelog.broker.cluster.registration import Registration
from tidelog.broker.config.current_config import CurrentConfig
from tidelog.broker.config.listeners import inter_broker_listener
from tidelog.broker.groups.group_coordinator import GroupCoordinator
from tidelog.broker.maintenance.cleaner_metrics import register_log_cleaner
from tidelog.broker.maintenance.log_cleaner import LogCleaner
from tidelog.broker.maintenance.replica_moves import ReplicaMoves, keep_one_of_each, moves_throttle
from tidelog.broker.maintenance.upkeep import Upkeep
from tidelog.broker.node import node_gauges
from tidelog.broker.node.loop_wait import wait
from tidelog.broker.node.node_metadata import NodeMetadata
from tidelog.broker.node.node_parts import NodeParts
from tidelog.broker.node.node_replication import NodeReplication
from tidelog.broker.share.cluster_persister import ClusterPersister
from tidelog.broker.share.coordinator_gauges import register_share_coordinator
from tidelog.broker.share.group_states import GroupStates
from tidelog.broker.share.led_share_partition import LeaderSeams
from tidelog.broker.share.partition_ends import PartitionEnds
from tidelog.broker.share.share_coordinator import ShareCoordinator
from tidelog.broker.share.share_gauges import register_share_groups
from tidelog.broker.share.share_leader import ShareLeader
from tidelog.broker.transactions.producer_ids import ProducerIds
from tidelog.broker.transactions.stable_offset_holders import StableOffsetHolders
from tidelog.broker.transactions.transaction_admission import TransactionAdmission
from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transactions.transaction_gauges import register_transactions
from tidelog.broker.transactions.transaction_questions import TransactionQuestions
from tidelog.controller.image import ClusterImage, Endpoint
from tidelog.controller.image_delta import ImageDelta
from tidelog.model import broker_config as keys
from tidelog.model.ids import DirectoryId
from tidelog.model.pending import Pending
from tidelog.model.shared_timers import SharedTimers
from tidelog.replication.partitions import Partitions
from tidelog.replication.throttles import ReplicationThrottles
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.wire.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.schema import Request, Response

logger = logging.getLogger(__name__)


class NodeBroker:
    """One for each node that has the role `broker`. Coordinators see their node as this."""

    def __init__(
        self,
        parts: NodeParts,
        opened: list[LogDirectory],
        metadata: NodeMetadata,
        config: CurrentConfig,
        endpoints: list[Endpoint],
        *,
        is_stopped: Callable[[], bool],
    ) -> None:
        """`endpoints` are those for clients and other brokers."""
        node_id, seams, timers, static_config = parts.node_id, parts.seams, parts.timers, parts.config
        self.node_id = node_id
        self.directories = LogDirectories(opened)
        self._parts = parts
        self._opened = opened
        self._metadata = metadata
        self._config = config
        self._turn = parts.server.turn
        self._stopping = parts.stopping
        self._endpoints = endpoints
        self._is_stopped = is_stopped
        self.registration = Registration(
            self._ask_controller,
            timers,
            seams.random,
            node_id=node_id,
            cluster_id=parts.cluster_id,
            heartbeat_interval_ms=static_config[keys.BROKER_HEARTBEAT_INTERVAL_MS],
            metadata_offset=lambda: self.image.offset,
            offline_directories=self._offline_directories,
        )
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self._assignments = DirectoryAssignments(
            self._ask_controller,
            timers,
            node_id=node_id,
            broker_epoch=lambda: self.registration.epoch,
            is_wanted=lambda: self.image.metadata_version.has_directories,
        )
        self.replication = NodeReplication(
            metadata.links,
            lambda: self.image,
            static_config,
            timers,
            seams.clock,
            node_id=node_id,
            broker_epoch=lambda: self.registration.epoch,
            listener=inter_broker_listener(static_config),
        )
        self._stopping.append(self.replication.stop)
        self.partitions = Partitions(
            node_id,
            self.directories,
            seams.clock,
            config_of=config.topic,
            on_placed=self._assignments.placed,
            later=self._later,
            on_role=self.replication.role_changed,
            throttles=ReplicationThrottles(node_id, seams.clock, lambda: config.now),
        )
        self.replication.join(self.partitions)
        self.replica_moves = ReplicaMoves(
            self.directories,
            self.partitions,
            timers,
            seams.slow_work,
            moves_throttle(seams.clock, lambda: config.now),
            on_placed=self._assignments.placed,
        )
        self._log_cleaner = LogCleaner(self.directories, seams, timers, lambda: config.now, parts.housekeeping)
        self._add_coordinators()

    def _add_coordinators(self) -> None:
        parts, config = self._parts, self._config
        seams, timers = parts.seams, parts.timers
        self.groups = GroupCoordinator(self, parts.config, seams, timers, self._turn, config_now=lambda: config.now)
        self._stopping.append(self.groups.stop)
        self.transactions = TransactionCoordinator(
            self,
            parts.config,
            seams,
            timers,
            self._turn,
            groups=self.groups,
            next_producer_id=self.producer_ids.next,
            link_to=self.replication.link_to,
        )
        self._stopping.append(self.transactions.stop)
        self.share_coordinator = ShareCoordinator(self, parts.config, seams, timers, self._turn)
        self._stopping.append(self.share_coordinator.stop)
        self.persister = ClusterPersister(
            self,
            self.share_coordinator,
            parts.internal_topics,
            self.replication.link_to,
            timers,
            seams.random,
            self._turn,
        )
        self._stopping.append(self.persister.stop)
        self._partition_ends = PartitionEnds(self, self.replication.link_to, self._turn)
        self._stopping.append(self._partition_ends.stop)
        self.group_states = GroupStates(self.groups, self.persister, self._partition_ends)
        self.share_leader = ShareLeader(
            parts.share_sessions,
            # Locks of records: one timer of the loop for all of them.
            LeaderSeams(self.persister, seams.clock, SharedTimers(timers, seams.clock), self._later),
            lambda: config.now,
            lambda: self.image,
        )
        self._stopping.append(self.share_leader.stop)
        self._transaction_questions = TransactionQuestions(
            self.node_id, self.transactions, self.replication.link_to, self._turn
        )
        self._stopping.append(self._transaction_questions.stop)
        self.transaction_admission = TransactionAdmission(
            self._transaction_questions, seams.clock, timers, lambda: config.now
        )

    @property
    def image(self) -> ClusterImage:
        return self._metadata.service.committed.image

    def load(self) -> None:
        """Open the logs, and give each replica the role that the metadata gives it."""
        for directory in self._opened:
            directory.load(is_stray=lambda log: self.partitions.is_stray(self.image, log))
        keep_one_of_each(self.directories)
        self.replication.follow(self.image)
        self.partitions.apply(self.image)
        self.groups.follow(self.image)
        self.transactions.follow(self.image)
        self.share_coordinator.follow(self.image)
        self._stopping.append(self._log_cleaner.stop)
        self._metadata.service.committed.subscribe(self._image_changed)

    async def register(self) -> None:
        """Until the controller has let this broker in, or the node has failed."""
        registration = self.registration
        self._stopping.append(registration.stop)
        ids = [directory.identity.directory_id for directory in self._opened if directory.identity is not None]
        registration.begin(
            self._endpoints,
            [each for each in ids if each is not None],
            rack=self._parts.config[keys.BROKER_RACK] or None,
            previous_epoch=self._opened[0].last_broker_epoch,
        )
        # A node that fails meanwhile does not wait for what cannot come any more.
        self._stopping.append(lambda: registration.serving.complete(None))
        await wait(self._parts.loop, registration.serving)

    def start(self) -> None:
        """What goes on by itself from here on: following, moving, cleaning, and what is due when time has passed."""
        self.replication.start()
        self._stopping.append(self._assignments.stop)
        self._assignments.start()
        self._stopping.append(self.replica_moves.stop)
        self.replica_moves.resume()
        self.share_coordinator.start()
        self._upkeep = Upkeep(self.directories, self._parts.timers, self._config.now, self._parts.housekeeping)
        self._stopping.append(self._upkeep.stop)
        self._log_cleaner.start()

    def register_metrics(self, offline_paths: Callable[[], list[str]]) -> None:
        """Show what there is to read of all this."""
        registry = self._parts.metrics.registry
        node_gauges.register_partitions(registry, self.partitions)
        node_gauges.register_traffic(registry, self.partitions.traffic)
        node_gauges.register_directories(registry, self.directories, offline_paths)
        register_log_cleaner(registry, self._log_cleaner, self.directories)
        node_gauges.register_groups(registry, self.groups)
        register_transactions(
            registry, self.transactions, self.transaction_admission, self.partitions, self._parts.seams.clock
        )
        StableOffsetHolders(self.partitions, self._parts.seams.clock).register(registry)
        register_share_groups(registry, self.share_leader)
        register_share_coordinator(registry, self.share_coordinator, self.persister)

    async def leave(self, departure: Departure, timeout_ms: int) -> None:
        """Have others lead what this broker leads, and serve nobody any more."""
        # Members that wait for others would wait beyond the end.
        self.transactions.stop()
        self.share_leader.stop()
        self.persister.stop()
        self.share_coordinator.stop()
        self.groups.stop()
        let_go = self.registration.leave()
        await wait(self._parts.loop, departure.unless_lost(let_go), timeout_ms=timeout_ms)
        if not let_go.is_complete:
            why = "too many controllers are gone" if departure.is_quorum_lost else "the time for it is up"
            logger.warning("no controller has let this broker go, and it goes all the same: %s", why)
        self.registration.stop()
        self._transaction_questions.stop()
        self.replication.stop()
        self._assignments.stop()
        self.replica_moves.stop()
        self._upkeep.stop()
        self._log_cleaner.stop()

    # --- following the cluster ---------------------------------------------------------------------------------------------

    def _image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        self.replication.follow(image)
        with self._turn:
            self.partitions.apply(image, delta)
            self.groups.follow(image, delta)
            self.transactions.follow(image, delta)
            self.share_coordinator.follow(image, delta)
            self.persister.follow(image)
            self._partition_ends.follow(image)
            self.share_leader.follow()
            self._transaction_questions.follow(image)
            # After the partitions: whoever hears of a new leader here may turn to this node.
            self.replication.doubted.follow(image)
        self.registration.follow(image)
        self._assignments.look_again()
        if delta.configs_changed:
            self._log_cleaner.look_soon()
        for name in delta.topics_removed.values():
            # Only now: a fetch that waited for the topic has just been answered, and counted.
            self._parts.metrics.topics.remove(name)
            self.share_leader.metrics.topic_removed(name)

    def _later(self, work: Callable[[], None]) -> None:
        """Do something at the end of the turn."""
        self._parts.loop.call_soon(self._in_turn, work)

    def _in_turn(self, work: Callable[[], None]) -> None:
        if not self._is_stopped():
            with self._turn:
                work()

    def directory_failed(self, directory: LogDirectory) -> None:
        """A log directory went offline. The controller hears of it at once, so that others lead what lay there."""
        self.partitions.directory_failed(directory)
        self.registration.report()

    # --- what the controller is asked and told -----------------------------------------------------------------------------

    def _ask_controller(self, request: Request) -> Pending[Response]:
        """On this node's own behalf."""
        return self._metadata.links.channel.ask(request)

    def _allocate_producer_ids(self) -> Pending[AllocateProducerIdsResponse]:
        request = AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self.registration.epoch)
        return cast("Pending[AllocateProducerIdsResponse]", self._ask_controller(request))

    def _offline_directories(self) -> list[DirectoryId]:
        offline = (directory.identity for directory in self.directories.offline)
        return [identity.directory_id for identity in offline if identity is not None and identity.directory_id]
