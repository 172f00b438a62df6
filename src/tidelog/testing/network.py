"""The network between the nodes of an embedded cluster and to its clients, which a test may cut.

    network.cut([{1}, {2, 3, CLIENTS}])      what is on different sides hears nothing of each other any more
    network.heal()                           what was sent meanwhile arrives

A cut is silent, as that of a cable is: nobody reads what arrives, so that nothing is answered and nothing fails before somebody's
time-out, or until the system's buffers are full. Who connects waits as well. Each node has a `CuttableTransport` in place of the
real one: a connection is recorded when it is made, and has no part in what is sent on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from tidelog.net.address import Address
from tidelog.net.limits import SocketOptions
from tidelog.net.transport import Acceptor, Admit, BufferedStream, LoopTransport, P
from tidelog.testing.errors import ClusterError

CLIENTS = "clients"
"""The side of all that are no nodes."""

Side = int | str
"""A node by its number, or `CLIENTS`."""


class Network:
    """Of one cluster. Everything happens on the nodes' thread."""

    def __init__(self) -> None:
        self._sides: list[frozenset[Side]] = []
        self._links: set[_Link] = set()
        # Who listens, and who called from where: both ends of a connection between nodes are here.
        self.listeners: dict[int, int] = {}
        self.callers: dict[int, int] = {}
        self._healed = asyncio.Event()

    def cut(self, sides: Sequence[Iterable[Side]], nodes: Iterable[int]) -> None:
        """ClusterError where a side names something that is not there, or two name the same."""
        named: list[Side] = []
        wanted = [frozenset(side) for side in sides]
        for side in wanted:
            named += side
        known = {*nodes, CLIENTS}
        for each in named:
            if each not in known:
                raise ClusterError(
                    f"there is no {each!r} to cut off: there are {', '.join(map(str, sorted(nodes)))} and {CLIENTS!r}"
                )
        if len(wanted) < 2 or len(set(named)) < len(named):
            raise ClusterError("a partition of the network has two sides or more, and each node is on one of them")
        self._sides = wanted
        self._apply()

    def heal(self) -> None:
        self._sides = []
        self._apply()
        self._healed.set()
        self._healed = asyncio.Event()

    def hears(self, one: Side, other: Side) -> bool:
        side = next((side for side in self._sides if one in side), None)
        opposite = next((side for side in self._sides if other in side), None)
        return side is None or opposite is None or side is opposite

    async def reachable(self, one: Side, other: Side) -> None:
        """Return once one may hear of the other."""
        while not self.hears(one, other):
            await self._healed.wait()

    def opened(self, link: _Link) -> None:
        self._links.add(link)
        if self._sides:
            # A loop begins to read when `connection_made` has returned, whatever that says.
            asyncio.get_running_loop().call_soon(self._apply)

    def closed(self, link: _Link) -> None:
        self._links.discard(link)

    def _apply(self) -> None:
        for link in self._links:
            link.hold(not self.hears(link.here, link.there))


class CuttableTransport(LoopTransport):
    """The network as one node sees it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, network: Network, node_id: int) -> None:
        super().__init__(loop)
        self._network = network
        self._node_id = node_id

    async def listen(self, host: str, port: int, admit: Admit, options: SocketOptions) -> Acceptor:
        def admit_link(peer: Address) -> asyncio.BaseProtocol | BufferedStream | None:
            protocol = admit(peer)
            if not hasattr(protocol, "get_buffer"):
                return protocol  # it reads nothing: the connection was refused
            stream = cast("BufferedStream", protocol)
            return _Link(self._network, self._node_id, stream, lambda: self._network.callers.get(peer.port, CLIENTS))

        acceptor = await super().listen(host, port, admit_link, options)
        self._network.listeners[acceptor.addresses[0].port] = self._node_id
        return acceptor

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], P]) -> P:
        there: Side = self._network.listeners.get(port, CLIENTS)
        await self._network.reachable(self._node_id, there)
        made: list[P] = []

        def make() -> BufferedStream:
            made.append(protocol_factory())
            stream = cast("BufferedStream", made[0])
            return _Link(self._network, self._node_id, stream, lambda: there, is_caller=True)

        await super().connect(host, port, make)
        return made[0]


class _Link:
    """One end of a connection. What the loop calls for each read is the protocol's own."""

    def __init__(
        self,
        network: Network,
        here: int,
        protocol: BufferedStream,
        there: Callable[[], Side],
        *,
        is_caller: bool = False,
    ) -> None:
        self.here: Side = here
        self._network = network
        self._protocol = protocol
        self._there = there
        self._is_caller = is_caller
        self._port = 0
        self._transport: _HeldTransport | None = None
        self.get_buffer = protocol.get_buffer
        self.buffer_updated = protocol.buffer_updated
        self.eof_received = protocol.eof_received
        self.pause_writing = protocol.pause_writing
        self.resume_writing = protocol.resume_writing

    @property
    def there(self) -> Side:
        return self._there()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _HeldTransport(cast("asyncio.Transport", transport))
        name = transport.get_extra_info("sockname")
        if self._is_caller and name is not None:
            self._port = name[1]
            self._network.callers[self._port] = cast("int", self.here)
        self._protocol.connection_made(cast("asyncio.BaseTransport", self._transport))
        self._network.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._network.closed(self)
        if self._is_caller:
            self._network.callers.pop(self._port, None)
        self._protocol.connection_lost(exc)

    def hold(self, held: bool) -> None:
        if self._transport is not None:
            self._transport.hold(held)


class _HeldTransport:
    """A transport that reads only while its owner wants to and the network lets it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_wanted = True
        self._is_held = False
        self._is_reading = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def pause_reading(self) -> None:
        self._is_wanted = False
        self._apply()

    def resume_reading(self) -> None:
        self._is_wanted = True
        self._apply()

    def hold(self, held: bool) -> None:
        self._is_held = held
        self._apply()

    def _apply(self) -> None:
        wanted = self._is_wanted and not self._is_held
        if wanted == self._is_reading or self._transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
