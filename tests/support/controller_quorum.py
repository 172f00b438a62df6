"""Controllers on simulated machines: the real quorum, log, controller, listener and connections, on one virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import cast

from tests.support.metadata_node import CLUSTER_ID, MetadataNode, creatable
from tidelog.broker.metrics.broker_metrics import BrokerMetrics
from tidelog.broker.node.node import load_handlers
from tidelog.broker.quotas.node_quotas import NodeQuotas
from tidelog.broker.requests.caller import AllowAll
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.node_view import Node as NodeView
from tidelog.controller.controller import ControllerContext
from tidelog.controller.image import ClusterImage, Endpoint
from tidelog.controller.network_peers import NetworkPeers
from tidelog.controller.quorum import MetadataQuorum
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, NodeId
from tidelog.model.pending import Pending
from tidelog.model.quota_config import QUOTA_KEYS
from tidelog.net.node_connection import ConnectionOptions, ConnectionParts, Event, NodeConnection
from tidelog.net.socket_server import SocketServer
from tidelog.raft.voter_set import Endpoint as QuorumEndpoint, ReplicaKey, Voter, VoterSet
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.simulation.network import SimulatedNetwork
from tidelog.simulation.slow_disk import SlowDisk
from tidelog.wire.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.schema import Response

PORT = 9093
LISTENER = "CONTROLLER"
REQUEST_TIMEOUT_MS = 2_000


class ControllerHost:
    """One machine. Between `start` and `kill` it is what the dispatcher of a controller's listener sees of a node."""

    def __init__(self, quorum: ControllerQuorum, node_id: int, voters: VoterSet) -> None:
        self.node_id = NodeId(node_id)
        self.cluster_id = CLUSTER_ID
        self.name = f"node-{node_id}"
        self.disk = SimulatedDisk()
        self.metrics = BrokerMetrics()
        self.clock = VirtualClock(quorum.loop)
        self.quotas = NodeQuotas(ConfigValues(QUOTA_KEYS, {}), self.clock)
        self._quorum = quorum
        self._host = quorum.network.host(self.name)
        self.node = MetadataNode(
            disk=self.disk,
            config=quorum.config,
            seed=quorum.random.getrandbits(32),
            loop=quorum.loop,
            node_id=self.node_id,
            voters=voters,
            endpoint=Endpoint(LISTENER, self.name, PORT, 0),
        )
        self._server: SocketServer | None = None
        self._peers: NetworkPeers | None = None
        self._slow: SlowDisk | None = None

    @property
    def is_running(self) -> bool:
        return self._server is not None

    @property
    def quorum(self) -> MetadataQuorum:
        assert self.node.service is not None
        return self.node.service.quorum

    @property
    def image(self) -> ClusterImage:
        return self.node.image

    @property
    def is_active(self) -> bool:
        return self.node.service is not None and self.node.service.controller.is_active

    def is_controller_listener(self, listener_name: str) -> bool:
        return listener_name == LISTENER

    async def start(self) -> None:
        loop, random = self._quorum.loop, self._quorum.random
        self._slow = self.node.slow_work = SlowDisk(loop, random)
        self._peers = self.node.peers = NetworkPeers(
            self._dial,
            listener=LISTENER,
            client_id=f"raft-client-{self.node_id}",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            on_refused=self._refused,
        )
        dispatcher = Dispatcher(cast("NodeView", self), AllowAll(), "controller")
        dispatcher.is_ready = True
        self.node.open()
        self._server = SocketServer(loop, self._host, clock=VirtualClock(loop))
        await self._server.listen(LISTENER, self.name, PORT, dispatcher, protected=True)
        assert self.node.service is not None
        self.node.service.start()

    def _refused(self, node_id: NodeId) -> None:
        self.quorum.connection_refused(node_id)

    def _dial(self, host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection:
        return NodeConnection(
            ConnectionParts(self._quorum.loop, self._host, self._quorum.random),
            host,
            port,
            on_event=on_event,
            options=ConnectionOptions(reconnect_backoff_ms=10, reconnect_backoff_max_ms=500),
        )

    def kill(self, *, lose_power: bool = False) -> None:
        """The process dies, or the machine: then a write that was not synced is lost or kept by chance."""
        assert self._peers is not None
        assert self._slow is not None
        assert self._server is not None
        if lose_power:
            self._host.lose_power()
        else:
            self._host.kill()
        self._slow.is_dead = True
        self._peers.close()
        self.node.forget()
        self._server.abort()
        self._server = None
        if lose_power:
            self.disk.crash(self._quorum.random)
            self._host.restore_power()
        else:
            self.disk.kill()


class ControllerQuorum:
    """Voters 1 to `size`, each on its machine. The same seed gives the same run."""

    def __init__(self, seed: int, size: int = 3, config: Mapping[str, str] | None = None) -> None:
        load_handlers()
        self.random = Random(seed)
        self.config = {"broker.session.timeout.ms": "100000000", **(config or {})}
        self.loop = VirtualTimeLoop()
        self.network = SimulatedNetwork(self.loop, self.random)
        voters = VoterSet(
            Voter(
                ReplicaKey(NodeId(node), DirectoryId(bytes([0xC0 + node]) * 16)),
                (QuorumEndpoint(LISTENER, f"node-{node}", PORT),),
            )
            for node in range(1, size + 1)
        )
        self.hosts = {node: ControllerHost(self, node, voters) for node in range(1, size + 1)}

    def run(self, story: Callable[[ControllerQuorum], Awaitable[None]]) -> None:
        async def told() -> None:
            try:
                await story(self)
            finally:
                for host in self.hosts.values():
                    if host.is_running:
                        host.kill()

        try:
            self.loop.run_until_complete(told())
        finally:
            self.loop.close()

    async def start_all(self) -> None:
        for host in self.hosts.values():
            if not host.is_running:
                await host.start()

    @property
    def active(self) -> ControllerHost | None:
        """The active controller of the highest epoch."""
        active = [host for host in self.hosts.values() if host.is_running and host.is_active]
        return max(active, key=lambda host: host.quorum.epoch, default=None)

    async def until(self, condition: Callable[[], bool], what: str, within_s: float = 20.0) -> float:
        """Waits until something holds. How long it took, in seconds."""
        began_s = self.loop.time()
        while not condition():
            if self.loop.time() - began_s > within_s:
                raise AssertionError(f"waited {within_s} s in vain for {what}")
            await asyncio.sleep(0.002)
        return self.loop.time() - began_s

    async def elected(self, *, other_than: int | None = None) -> ControllerHost:
        """The active controller, as soon as there is one."""
        await self.until(lambda: self.active is not None and self.active.node_id != other_than, "an active controller")
        assert self.active is not None
        return self.active

    async def settled(self) -> None:
        """Until all that run have seen the same."""
        await self.until(
            lambda: len({host.image.offset for host in self.hosts.values() if host.is_running}) == 1,
            "the same image everywhere",
        )

    def ask_for_topic(self, name: str) -> Pending[Response] | None:
        """Has the active controller make a topic. None where none is active."""
        host = self.active
        if host is None:
            return None
        request = CreateTopicsRequest(topics=[creatable(name)])
        return host.node.controller.handle(request, ControllerContext())

    async def create_topic(self, name: str) -> ErrorCode:
        """The outcome of making a topic at the present active controller."""
        pending = self.ask_for_topic(name)
        assert pending is not None
        await self.until(lambda: pending.is_complete, f"an answer about {name}")
        assert isinstance(pending.value, CreateTopicsResponse)
        return ErrorCode.of(pending.value.topics[0].error_code)


def topic_names(host: ControllerHost) -> set[str]:
    return {str(topic.name) for topic in host.image.topics.values()}
