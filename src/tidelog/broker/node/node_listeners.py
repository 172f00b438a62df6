"""The listeners of a node: who answers on each, where it is reached, how many connections it takes and how fast.

    await listeners.open()                 every listener is there, and nobody is answered yet
    listeners.serve_controllers(...)       the metadata quorum's own listeners answer
    listeners.serve()                      all do
    listeners.follow(config)               limits that were changed at run time hold from now on

As in Kafka a listener that is not the only one for brokers keeps its place whatever clients do: neither `max.connections` nor
`max.connection.creation.rate` of the node holds back the listener between brokers, nor that of the controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.cluster.broker_watch import BrokerWatch
from tidelog.broker.config.listeners import ListenerSpec, inter_broker_listener
from tidelog.broker.node.node_security import NodeSecurity
from tidelog.broker.node.node_tls import NodeTls
from tidelog.broker.quotas.node_quotas import connection_rates_of
from tidelog.broker.requests.controller_dispatcher import ControllerDispatcher
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.controller.image import Endpoint, QuotaEntity
from tidelog.model.config import ConfigValues
from tidelog.model.listener_config import (
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
    parse_connection_overrides,
)
from tidelog.model.quota_config import MAX_CONNECTION_CREATION_RATE, QUOTA_WINDOW_NUM, QUOTA_WINDOW_SIZE_SECONDS
from tidelog.model.security_protocol import SecurityProtocol
from tidelog.model.timers import Timers
from tidelog.net.connection import FrameHandler
from tidelog.net.connection_rates import NO_RATE, ConnectionRates
from tidelog.net.limits import NO_CONNECTION_LIMIT
from tidelog.net.socket_server import SocketServer
from tidelog.security.listener_settings import ListenerSettings

if TYPE_CHECKING:
    from tidelog.broker.requests.caller import Authorizer
    from tidelog.broker.requests.handling import Interposer
    from tidelog.broker.requests.node_view import Node


class NodeListeners:
    """One for each node."""

    def __init__(
        self,
        config: ConfigValues,
        specs: list[ListenerSpec],
        server: SocketServer,
        loop: asyncio.AbstractEventLoop,
        connections_max: int,
    ) -> None:
        """`config` is what the node is started with. `connections_max`: what its descriptors are enough for."""
        self._specs = specs
        self._server = server
        self._loop = loop
        self._connections_max = connections_max
        self._config = config
        self._limits = _limits_of(config, specs)
        self._dispatchers: list[Dispatcher] = []
        self._endpoints: dict[str, Endpoint] = {}
        self._address_rates: dict[str | None, int] = {}
        self._is_stopped = False
        # Names of hosts are looked up, which takes a while: one change after the other.
        self._limiting: asyncio.Task[None] | None = None
        self._protocols = {spec.name: spec.security_protocol for spec in specs}
        self._protected = {spec.name for spec in specs if spec.is_controller}
        if len(specs) - len(self._protected) > 1:
            # One that is alone is the clients' too.
            self._protected.add(inter_broker_listener(config))
        server.rates = ConnectionRates(config[QUOTA_WINDOW_NUM], config[QUOTA_WINDOW_SIZE_SECONDS] * 1000)
        server.rates_of = self.connection_rates

    def security_protocol(self, name: str) -> SecurityProtocol:
        return self._protocols[name]

    def endpoint(self, name: str) -> Endpoint:
        """Where a listener is reached, once it is open."""
        return self._endpoints[name]

    @property
    def for_controllers(self) -> list[Endpoint]:
        return [self._endpoints[spec.name] for spec in self._specs if spec.is_controller]

    @property
    def for_brokers(self) -> list[Endpoint]:
        """Those for clients and other brokers."""
        return [self._endpoints[spec.name] for spec in self._specs if not spec.is_controller]

    @property
    def bootstrap_address(self) -> str:
        """What a client on this machine is given to start with."""
        endpoint = (self.for_brokers or self.for_controllers)[0]
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return f"{host}:{endpoint.port}"

    # --- serving -----------------------------------------------------------------------------------------------------------

    async def open(
        self,
        node: Node,
        authorizer: Authorizer,
        security: NodeSecurity,
        tls: NodeTls,
        timers: Timers,
        on_closed: Callable[[int], None],
    ) -> None:
        """Listen everywhere. Until it is told to serve, a listener closes whoever connects. `on_closed` hears of the end of each
        connection, by its id."""
        for spec in self._specs:
            dispatcher = (
                ControllerDispatcher(node, authorizer) if spec.is_controller else Dispatcher(node, authorizer, "broker")
            )
            dispatcher.on_closed = on_closed
            self._dispatchers.append(dispatcher)
            handler: FrameHandler = dispatcher
            if spec.security_protocol.uses_sasl:
                handler = security.sasl_listener(
                    spec.name,
                    dispatcher,
                    lambda: node.image.scram_credentials,
                    node.token_credentials,
                    node.metrics.authentication,
                    timers,
                )
            listener = await self._server.listen(
                spec.name,
                spec.host,
                spec.port,
                handler,
                connections_max=self._limits.of_listeners[spec.name],
                protected=spec.name in self._protected,
                # Whoever holds up the controllers holds up everybody.
                exempt=spec.is_controller,
                tls=tls.server(spec.name),
            )
            self._endpoints[spec.name] = spec.endpoint(listener.address.port, "localhost")

    def serve_controllers(self, watch: BrokerWatch, serves: Callable[[str], bool]) -> None:
        """Answer on the listeners for controllers that are chosen, unless they do so already."""
        for spec, dispatcher in zip(self._specs, self._dispatchers, strict=True):
            if isinstance(dispatcher, ControllerDispatcher) and not dispatcher.is_ready and serves(spec.name):
                dispatcher.begin(watch)

    def serve(self) -> None:
        for dispatcher in self._dispatchers:
            dispatcher.is_ready = True

    def interpose(self, interposer: Interposer | None) -> None:
        """Have each request of clients and other brokers go through `interposer`; None ends that."""
        for dispatcher in self._dispatchers:
            if not isinstance(dispatcher, ControllerDispatcher):
                dispatcher.interpose(interposer)

    async def drain_clients(self, timeout_ms: int) -> None:
        """Answer what clients and brokers have asked, and close them. The controllers' listeners go on."""
        await self._server.drain(timeout_ms, [spec.name for spec in self._specs if not spec.is_controller])

    # --- limits ------------------------------------------------------------------------------------------------------------

    def follow(self, config: ConfigValues) -> None:
        """The configuration has become this."""
        self._config = config
        limits = _limits_of(config, self._specs)
        if limits != self._limits:
            self._limits = limits
            self._limit(
                lambda: self._server.set_quota(
                    min(limits.of_node, self._connections_max),
                    limits.of_address,
                    limits.of_addresses,
                    limits.of_listeners,
                )
            )

    def follow_quotas(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """How fast connections may come from each address, as an image of the cluster says."""
        rates = connection_rates_of(quotas)
        if rates != self._address_rates:
            self._address_rates = rates
            self._limit(lambda: self._server.limit_addresses(rates))

    def stop(self) -> None:
        self._is_stopped = True
        if self._limiting is not None:
            self._limiting.cancel()

    def _limit(self, limit: Callable[[], Awaitable[None]]) -> None:
        async def limit_next(former: asyncio.Task[None] | None) -> None:
            if former is not None:
                await asyncio.wait([former])
            await limit()

        if not self._is_stopped:
            self._limiting = self._loop.create_task(limit_next(self._limiting))

    def connection_rates(self, listener_name: str) -> tuple[int, int]:
        """How many connections a second this node and a listener of it may accept."""
        settings = ListenerSettings(self._config.given, listener_name)
        of_node = NO_RATE if listener_name in self._protected else self._config[MAX_CONNECTION_CREATION_RATE]
        is_own = settings.is_own(MAX_CONNECTION_CREATION_RATE)
        return of_node, settings[MAX_CONNECTION_CREATION_RATE] if is_own else NO_RATE


class _Limits(NamedTuple):
    """How many connections there may be at a time."""

    of_node: int
    of_address: int
    of_addresses: dict[str, int]
    of_listeners: dict[str, int]


def _limits_of(config: ConfigValues, specs: list[ListenerSpec]) -> _Limits:
    of_listeners = {}
    for spec in specs:
        settings = ListenerSettings(config.given, spec.name)
        # What is set for the node is not that of each listener, too.
        is_own = settings.is_own(MAX_CONNECTIONS)
        of_listeners[spec.name] = settings[MAX_CONNECTIONS] if is_own else NO_CONNECTION_LIMIT
    return _Limits(
        config[MAX_CONNECTIONS],
        config[MAX_CONNECTIONS_PER_IP],
        parse_connection_overrides(config[MAX_CONNECTIONS_PER_IP_OVERRIDES]),
        of_listeners,
    )
