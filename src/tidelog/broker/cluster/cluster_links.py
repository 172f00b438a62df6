"""A node's ways to the others: the other replicas of the metadata log, the active controller, the brokers it looks after.

links = ClusterLinks(...)                                  connections are made when something is first sent
service = MetadataService.open(..., peers=links.peers)
links.join(service)                                        from here on `channel` and `watch` are there
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.cluster.broker_watch import BrokerWatch
from tidelog.broker.cluster.controller_channel import ControllerChannel
from tidelog.broker.cluster.local_controller import ClientsRequest, LocalController
from tidelog.controller.image import ClusterImage
from tidelog.controller.metadata_service import MetadataService
from tidelog.controller.network_peers import NetworkPeers
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.timers import Timers
from tidelog.net.connection_security import ConnectionSecurity
from tidelog.net.node_connection import NO_SECURITY, ConnectionOptions, ConnectionParts, Event, NodeConnection
from tidelog.wire.messages.broker_lifecycle import ControllerRegistrationResponse
from tidelog.wire.schema import Response

# A node that comes back is to be found soon, and one that died to be noticed: other nodes of a cluster are few and near.
OPTIONS = ConnectionOptions(reconnect_backoff_ms=10, reconnect_backoff_max_ms=500)


class ClusterLinks:
    """One for each node. `close` ends all of it."""

    def __init__(
        self,
        parts: ConnectionParts,
        timers: Timers,
        clock: Clock,
        *,
        node_id: NodeId,
        controller_listener: str,
        request_timeout_ms: int,
        brokers: ConnectionSecurity = NO_SECURITY,
        controllers: ConnectionSecurity = NO_SECURITY,
    ) -> None:
        """`brokers` and `controllers` say how connections to them are made safe."""
        self._parts = parts
        self._timers = timers
        self._clock = clock
        self._node_id = node_id
        self._brokers, self._controllers = brokers, controllers
        self._service: MetadataService | None = None
        self._is_registering = False
        self._is_closed = False
        self.peers = NetworkPeers(
            self.dial_controller,
            listener=controller_listener,
            client_id=f"raft-client-{node_id}",
            request_timeout_ms=request_timeout_ms,
            on_refused=self._refused,
        )
        self.channel: ControllerChannel
        self.watch: BrokerWatch

    def dial_broker(self, host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection:
        """A connection to another broker, on the listener that brokers have for each other."""
        return self._dial(host, port, on_event, self._brokers)

    def dial_controller(
        self, host: str, port: int, on_event: Callable[[Event], None], *, stay_connected: bool = False
    ) -> NodeConnection:
        """A connection to a controller, on its listener for that."""
        return self._dial(host, port, on_event, self._controllers, stay_connected=stay_connected)

    def _probe(self, host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection:
        """A connection by which nothing is sent: whether there is one says all."""
        return self._dial(host, port, on_event, NO_SECURITY)

    def _dial(
        self,
        host: str,
        port: int,
        on_event: Callable[[Event], None],
        security: ConnectionSecurity,
        *,
        stay_connected: bool = False,
    ) -> NodeConnection:
        return NodeConnection(
            self._parts,
            host,
            port,
            on_event=on_event,
            on_bug=self._bug,
            stay_connected=stay_connected,
            options=OPTIONS,
            security=security,
        )

    def join(self, service: MetadataService, for_client: ClientsRequest) -> None:
        """The node has its part in the metadata. Before the service is started.

        `for_client` authorises and decides what clients ask of this node's controller.
        """
        self._service = service
        self.channel = ControllerChannel(
            LocalController(service.controller, for_client),
            service.quorum,
            self.dial_controller,
            self._timers,
            self._clock,
            client_id=str(self._node_id),
        )
        self.watch = BrokerWatch(
            service.controller,
            lambda: service.committed.image,
            self._probe,
            self._timers,
            node_id=self._node_id,
        )
        service.controller.watch_active(self.watch.became_active)
        if service.can_lead:
            service.committed.subscribe(lambda image, _delta: self._register_controller(service, image))

    def close(self) -> None:
        self._is_closed = True
        self.peers.close()
        if self._service is not None:
            self.channel.close()
            self.watch.stop()

    def _bug(self, error: Exception) -> None:
        """Whoever asked another node has failed at its answer: replication, the quorum, a coordinator. The node stops."""
        message = f"what came from another node could not be handled: {error!r}"
        self._parts.loop.call_exception_handler({"message": message, "exception": error})

    def _refused(self, node_id: NodeId) -> None:
        if self._service is not None:
            self._service.quorum.connection_refused(node_id)

    def _register_controller(self, service: MetadataService, image: ClusterImage) -> None:
        """A controller that does not lead tells the one that does where it listens. One that leads has done so itself."""
        known = image.controllers.get(self._node_id)
        is_known = known is not None and known.incarnation_id == service.registration.incarnation_id
        if is_known or self._is_registering or self._is_closed:
            return
        if not image.features or not image.metadata_version.has_controller_registration:
            return
        if service.quorum.leader_node is None or not service.quorum.is_caught_up:
            return
        self._is_registering = True
        self.channel.ask(service.registration).then(self._controller_registered)

    def _controller_registered(self, answer: Response) -> None:
        """Where it failed, the next image is the next occasion; where not, that it shows there may take a moment."""
        assert isinstance(answer, ControllerRegistrationResponse)
        self._is_registering = answer.error_code == ErrorCode.NONE
