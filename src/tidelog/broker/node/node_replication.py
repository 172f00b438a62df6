"""A node's part in replication, put together: it follows the leaders of its replicas, and watches those who follow it."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.cluster.cluster_links import ClusterLinks
from tidelog.broker.cluster.doubted_brokers import DoubtedBrokers
from tidelog.controller.cluster_view import is_active
from tidelog.controller.image import ClusterImage
from tidelog.controller.metadata_version import NEWEST
from tidelog.model.clock import Clock
from tidelog.model.cluster_config import REPLICA_LAG_TIME_MAX_MS
from tidelog.model.config import ConfigValues
from tidelog.model.ids import BrokerEpoch, NodeId
from tidelog.model.timers import Timers
from tidelog.replication.in_sync_sets import InSyncSets
from tidelog.replication.leader_link import HostAndPort, LeaderLink
from tidelog.replication.partition import Partition
from tidelog.replication.partitions import Partitions
from tidelog.replication.replica_fetcher import FetchSettings, ReplicaFetcher
from tidelog.replication.replica_fetchers import ReplicaFetchers

_ANY_EPOCH = -1


class NodeReplication:
    """One for each broker. `role_changed` is for `Partitions` to call; `join` when those are there, `start` once registered."""

    def __init__(
        self,
        links: ClusterLinks,
        image: Callable[[], ClusterImage],
        config: ConfigValues,
        timers: Timers,
        clock: Clock,
        *,
        node_id: NodeId,
        broker_epoch: Callable[[], BrokerEpoch],
        listener: str,
    ) -> None:
        """`listener` is the one by which brokers reach each other."""
        self.node_id = node_id
        self.fetch_version = NEWEST.fetch
        self.list_offsets_version = NEWEST.list_offsets
        self._broker_epoch = broker_epoch
        self._links = links
        self._image = image
        self._config = config
        self._timers = timers
        self._clock = clock
        self._listener = listener
        self._settings = FetchSettings.from_values(config)
        self.doubted = DoubtedBrokers(timers)
        self._fetchers = ReplicaFetchers(self._new_fetcher)
        self._partitions: Partitions | None = None
        self._in_sync: InSyncSets | None = None

    @property
    def broker_epoch(self) -> BrokerEpoch:
        return self._broker_epoch()

    def follow(self, image: ClusterImage) -> None:
        """The cluster is like this by now: its level says how leaders are asked."""
        version = image.metadata_version
        self.fetch_version, self.list_offsets_version = version.fetch, version.list_offsets

    def role_changed(self, partition: Partition) -> None:
        """The metadata gave a partition a role."""
        self._fetchers.role_changed(partition)

    def join(self, partitions: Partitions) -> None:
        """These are the node's replicas. Before the first of them gets a role."""
        self._partitions = partitions
        self._in_sync = InSyncSets(
            partitions,
            self._links.channel.ask,
            self,
            self._serves,
            self._timers,
            self._clock,
            lag_time_max_ms=lambda: self._config[REPLICA_LAG_TIME_MAX_MS],
        )
        partitions.wakeups.on_caught_up = self._in_sync.caught_up

    def start(self) -> None:
        """The broker is registered."""
        if self._in_sync is not None:
            self._in_sync.start()

    def stop(self) -> None:
        """Follow nobody, and ask for nothing, any more."""
        self._fetchers.stop()
        self.doubted.stop()
        if self._in_sync is not None:
            self._in_sync.stop()

    def link_to(self, broker: NodeId, purpose: str) -> LeaderLink:
        """A connection to another broker, for one purpose."""
        client_id = f"broker-{self.node_id}-{purpose}-{broker}"
        doubts = self.doubted.connection_of(broker)
        return LeaderLink(self._links.dial_broker, self._address_asked_often(broker), client_id, doubts)

    def _new_fetcher(self, leader: NodeId) -> ReplicaFetcher:
        assert self._partitions is not None
        link = self.link_to(leader, "fetcher")
        return ReplicaFetcher(
            leader,
            link,
            self._settings,
            self,
            self._partitions.wakeups,
            self._timers,
            self._clock,
            self._partitions.throttles,
            self._partitions.traffic,
        )

    def _address_asked_often(self, leader: NodeId) -> Callable[[], HostAndPort | None]:
        """`_address_of`, looked up once for each image."""
        get_image = self._image
        image: ClusterImage | None = None
        address: HostAndPort | None = None

        def current() -> HostAndPort | None:
            nonlocal image, address
            now = get_image()
            if now is not image:
                image, address = now, self._address_of(leader)
            return address

        return current

    def _address_of(self, leader: NodeId) -> HostAndPort | None:
        broker = self._image().brokers.get(leader)
        if broker is None:
            return None
        endpoint = next((each for each in broker.endpoints if each.name == self._listener), None)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _serves(self, node: NodeId, epoch: BrokerEpoch) -> bool:
        """Whether a follower's broker may be in sync. One that has registered again since its fetch may have lost its disk.

        Followers name their epoch from metadata.version 3.5-IV1 on.
        """
        broker = self._image().brokers.get(node)
        return broker is not None and is_active(broker) and epoch in {_ANY_EPOCH, broker.epoch}
