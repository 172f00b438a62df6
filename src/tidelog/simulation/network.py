"""A network in memory, on virtual time: latency, partitions, resets, hosts that die. The same seed gives the same run.

    network = SimulatedNetwork(loop, Random(7))
    one, two = network.host("node-1"), network.host("node-2")      # each is a Transport, for one node
    network.partition({"node-1"}, {"node-2"})                      # what is on its way is held, as TCP does
    network.slow("node-1", "node-2", 200)                          # up to 200 ms one way: connections overtake each other
    network.heal()
    two.kill()                                                     # the process dies: peers see a reset
    two.lose_power()                                               # the machine dies: peers see nothing

A connection behaves like TCP. Bytes arrive in order, cut into other pieces than they were written in. A receiver that does not
read makes its sender wait. What a closing sender has written still arrives; what an aborting one has written may not.

What a node does in answer to the network belongs to its host (`VirtualTimeLoop.stall`); what is on its way belongs to nobody: a
stalled process still accepts connections and bytes, as its kernel does, and hears of them later.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, TypeVar, cast

from tidelog.net.address import Address
from tidelog.net.errors import ListenError
from tidelog.net.limits import SocketOptions
from tidelog.net.transport import Admit, BufferedStream
from tidelog.simulation.loop import VirtualTimeLoop, owned_by

P = TypeVar("P", bound=asyncio.BaseProtocol | BufferedStream)

# What a sender may have on its way before it is told to wait, and when it is told to go on.
WINDOW_BYTES = 256 * 1024
WINDOW_BYTES_LOW = 64 * 1024

# How long a sender tries to reach a silent host before the connection counts as broken, and how long it tries to connect. Linux
# takes a quarter of an hour and two minutes; a simulation is as convincing with less.
RETRANSMISSION_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 120.0

# A connection request that is lost is sent again, later and later, as Linux does it.
CONNECT_RETRY_S = 1.0

# How often a piece is cut in two on arrival, so that no reader gets used to whole frames.
CUT_PROBABILITY = 0.3

FIRST_PORT = 20_000


class SimulatedNetwork:
    """All hosts and the links between them."""

    def __init__(
        self, loop: VirtualTimeLoop, random: Random, *, latency_ms_min: float = 0.1, latency_ms_max: float = 1.0
    ) -> None:
        self.loop = loop
        self.random = random
        self.latency_ms_min = latency_ms_min
        self.latency_ms_max = latency_ms_max
        self._hosts: dict[str, SimulatedHost] = {}
        self._cut: set[tuple[str, str, int | None, str | None]] = set()
        self._slow: dict[tuple[str, str], float] = {}
        self._held: list[_Direction] = []
        self.context = contextvars.Context()
        """The context of callbacks that belong to no host."""

    def host(self, name: str) -> SimulatedHost:
        """The host of that name; a new one the first time."""
        if name not in self._hosts:
            self._hosts[name] = SimulatedHost(self, name)
        return self._hosts[name]

    def cut(self, source: str, target: str, port: int | None = None, server: str | None = None) -> None:
        """Nothing gets from `source` to `target` any more. The other way is another link.

        With a `port` only connections to a server at that port are cut, whichever of the two it is on, unless `server` says.
        """
        self._cut.add((source, target, port, server))

    def partition(self, *groups: Iterable[str]) -> None:
        """Cuts all links between hosts of different groups, both ways."""
        sides = [list(group) for group in groups]
        for mine in sides:
            for theirs in sides:
                if mine is not theirs:
                    self._cut.update((source, target, None, None) for source in mine for target in theirs)

    def slow(self, source: str, target: str, latency_ms_max: float) -> None:
        """Each packet takes any time up to that; those of one connection stay in order."""
        self._slow[source, target] = latency_ms_max

    def mend(self, source: str, target: str, port: int | None = None, server: str | None = None) -> None:
        """Restores one link, one way, that was cut or slowed down."""
        self._cut.discard((source, target, port, server))
        self._slow.pop((source, target), None)
        self.retry_held()

    def heal(self) -> None:
        """Restores every link."""
        self._cut.clear()
        self._slow.clear()
        self.retry_held()

    def retry_held(self) -> None:
        """What was held goes on where it can."""
        held, self._held = self._held, []
        for direction in held:
            direction.release()

    def reset(self, one: str, other: str) -> None:
        """Breaks all connections between two hosts, at both ends."""
        for source, target in ((one, other), (other, one)):
            for endpoint in self.host(source).endpoints():
                if endpoint.peer_host == target:
                    endpoint.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def passes(self, source: str, target: str, server: Address) -> bool:
        """Whether a packet arrives that is sent now on a connection to a server."""
        if self._cut:
            for port, host in ((None, None), (server.port, None), (server.port, server.host)):
                if (source, target, port, host) in self._cut:
                    return False
        return self.host(source).has_power and self.host(target).has_power

    def latency_s(self, source: str, target: str) -> float:
        latency_ms_max = self._slow.get((source, target), self.latency_ms_max) if self._slow else self.latency_ms_max
        return self.random.uniform(self.latency_ms_min, latency_ms_max) / 1000

    def hold(self, direction: _Direction) -> None:
        self._held.append(direction)


class SimulatedHost:
    """One machine with one node on it: the node's `Transport`."""

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        self.name = name
        self.has_power = True
        self.context = owned_by(name)
        self._network = network
        self._acceptors: dict[int, _Acceptor] = {}
        self._endpoints: dict[int, Endpoint] = {}
        self._next_port = FIRST_PORT
        self._next_endpoint = 0

    async def listen(self, host: str, port: int, admit: Admit, options: SocketOptions) -> _Acceptor:
        if host not in {"", "0.0.0.0", "::", "localhost", "127.0.0.1", self.name}:  # noqa: S104
            raise ListenError(f"cannot listen on {Address(host, port)}: not an address of {self.name}")
        port = port or self.free_port()
        if port in self._acceptors:
            raise ListenError(f"cannot listen on {Address(host, port)}: Address already in use")
        acceptor = _Acceptor(self, port, admit, options.backlog)
        self._acceptors[port] = acceptor
        return acceptor

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], P]) -> P:
        network = self._network
        target = self if host in {"localhost", "127.0.0.1"} else network.host(host)
        connected: asyncio.Future[Endpoint] = network.loop.create_future()
        near, far = _connection(network, self, target, Address(self.name, self.free_port()), Address(target.name, port))
        arrive = partial(target._arrive, port, near, far, connected, CONNECT_RETRY_S)  # noqa: SLF001 - hosts know each other
        network.loop.call_later(network.latency_s(self.name, target.name), arrive, context=network.context)
        gave_up = network.loop.call_later(CONNECT_TIMEOUT_S, _give_up, connected)
        try:
            await connected
        except BaseException:
            near.abort()
            raise
        finally:
            gave_up.cancel()
        protocol = protocol_factory()
        near.start(protocol)
        return protocol

    async def resolve(self, host: str) -> list[str]:
        return [host]

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def endpoints(self) -> list[Endpoint]:
        """The open ends of connections on this host, oldest first."""
        return list(self._endpoints.values())

    def kill(self) -> None:
        """The process dies: nothing listens, and every peer gets a reset. No protocol of this host hears anything."""
        self._forget_node(tell_peers=True)

    def lose_power(self) -> None:
        """The machine dies: nothing leaves or arrives until `restore_power`."""
        self.has_power = False
        self._forget_node(tell_peers=False)

    def restore_power(self) -> None:
        """The machine is back, without its connections. Peers that still use them are reset."""
        self.has_power = True
        self._network.retry_held()

    def _forget_node(self, *, tell_peers: bool) -> None:
        for acceptor in list(self._acceptors.values()):
            acceptor.close()
        for endpoint in self.endpoints():
            endpoint.vanish(tell_peer=tell_peers)

    def _arrive(
        self, port: int, near: Endpoint, far: Endpoint, connected: asyncio.Future[Endpoint], retry_s: float
    ) -> None:
        """A connection request has come, unless it was lost on the way."""
        network = self._network
        if connected.done():
            return
        back_s = network.latency_s(self.name, near.own_host)
        acceptor = self._acceptors.get(port)
        own = near.peer_address
        if not network.passes(near.own_host, self.name, own) or not network.passes(self.name, near.own_host, own):
            again = partial(self._arrive, port, near, far, connected, 2 * retry_s)
            network.loop.call_later(retry_s, again, context=network.context)
        elif acceptor is None:
            refused = ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('{self.name}', {port})")
            network.loop.call_later(back_s, _fail, connected, refused, context=network.context)
        elif acceptor.take(far):
            network.loop.call_later(back_s, _succeed, connected, near, context=network.context)

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Something that the process on this host does, when it runs."""
        self._network.loop.call_soon(callback, *args, context=self.context)

    def _register(self, endpoint: Endpoint) -> int:
        self._next_endpoint += 1
        self._endpoints[self._next_endpoint] = endpoint
        return self._next_endpoint

    def _unregister(self, number: int) -> None:
        self._endpoints.pop(number, None)

    def _stop_listening(self, port: int) -> None:
        self._acceptors.pop(port, None)


class _Acceptor:
    """A listening port with its backlog."""

    def __init__(self, host: SimulatedHost, port: int, admit: Admit, backlog: int) -> None:
        self.addresses = [Address(host.name, port)]
        self._host = host
        self._admit = admit
        self._backlog_max = backlog
        self._backlog: deque[Endpoint] = deque()
        self._paused = False

    def take(self, endpoint: Endpoint) -> bool:
        """Whether there was room. A connection counts as open for its peer as soon as it is in the backlog."""
        if len(self._backlog) >= self._backlog_max:
            return False
        endpoint.open()
        self._backlog.append(endpoint)
        self._host.call_soon(self._accept)
        return True

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._accept()

    def close(self) -> None:
        self._host._stop_listening(self.addresses[0].port)  # noqa: SLF001 - a part of its host
        backlog, self._backlog = self._backlog, deque()
        for endpoint in backlog:
            endpoint.abort()

    def _accept(self) -> None:
        while self._backlog and not self._paused:
            endpoint = self._backlog.popleft()
            protocol = self._admit(endpoint.peer_address)
            if protocol is None:
                endpoint.close()
            else:
                endpoint.start(protocol)


class Endpoint(asyncio.Transport):
    """One end of a connection: what the protocol of a node writes to. Has no socket, so files are copied."""

    def __init__(self, network: SimulatedNetwork, host: SimulatedHost, own: Address, peer: Address) -> None:
        super().__init__({"peername": tuple(peer), "sockname": tuple(own)})
        self._network = network
        self._host = host
        self._number: int | None = None
        self.own_host, self.peer_host = own.host, peer.host
        self.peer_address = peer
        self.outgoing: _Direction
        self._protocol: asyncio.BaseProtocol | BufferedStream | None = None
        self._reading = True
        self._writing_paused = False
        self._closing = False
        self._lost = False
        self._arrived: deque[memoryview] = deque()
        self._peer_finished = False
        self._delivering = False

    def start(self, protocol: asyncio.BaseProtocol | BufferedStream) -> None:
        """The node has accepted, or connected."""
        self.open()
        self._protocol = protocol
        protocol.connection_made(self)
        self._deliver_soon()

    def open(self) -> None:
        """From now on its host knows of it."""
        if self._number is None:
            self._number = self._host._register(self)  # noqa: SLF001 - a part of its host

    def _forget(self) -> None:
        if self._number is not None:
            self._host._unregister(self._number)  # noqa: SLF001

    # What a protocol calls.

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return cast("asyncio.BaseProtocol", self._protocol)

    def set_protocol(self, protocol: asyncio.BaseProtocol | BufferedStream) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._deliver_soon()

    def write(self, data: Any) -> None:
        if self._closing or not data:
            return
        self.outgoing.write(bytes(data))
        if not self._writing_paused and self.outgoing.pending_bytes > WINDOW_BYTES:
            self._writing_paused = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.outgoing.pending_bytes

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing:
            self.outgoing.finish()

    def close(self) -> None:
        if not self._closing:
            self.outgoing.finish()
            self._lose(None)

    def abort(self) -> None:
        if not self._lost:
            if not self._closing:
                self.outgoing.reset()
            self._lose(None)

    # What the network calls.

    def fail(self, error: OSError) -> None:
        """The connection is broken, as this end sees it."""
        if not self._lost:
            self._lose(error)

    def vanish(self, *, tell_peer: bool) -> None:
        """The node is gone; its protocol hears nothing any more."""
        if tell_peer and not self._closing:
            self.outgoing.reset()
        self._closing = self._lost = True
        self._protocol = None
        self._forget()

    def arrive(self, data: bytes) -> None:
        if self._lost or self._closing:
            # Nobody is there for it: a real host answers with a reset.
            self.outgoing.reset()
            return
        self._arrived.append(memoryview(data))
        self._deliver_soon()

    def peer_finished(self) -> None:
        self._peer_finished = True
        self._deliver_soon()

    def room_made(self) -> None:
        if self._writing_paused and self.outgoing.pending_bytes <= WINDOW_BYTES_LOW:
            self._writing_paused = False
            self._host.call_soon(self._resume_writing)

    def _resume_writing(self) -> None:
        if self._protocol is not None and not self._lost and not self._writing_paused:
            self._protocol.resume_writing()

    def _lose(self, error: OSError | None) -> None:
        self._closing = self._lost = True
        self._arrived.clear()
        self._forget()
        if self._protocol is not None:
            self._host.call_soon(self._protocol.connection_lost, error)

    def _deliver_soon(self) -> None:
        if not self._delivering:
            self._delivering = True
            self._host.call_soon(self._deliver)

    def _deliver(self) -> None:
        """Hands over one piece, or the end. Each in a step of its own, as a real loop would."""
        self._delivering = False
        protocol = self._protocol
        if protocol is None or self._closing or not self._reading:
            return
        if self._arrived:
            count = self._hand_over(protocol, self._arrived[0])
            if self.is_closing():
                return
            rest = self._arrived[0][count:]
            if len(rest):
                self._arrived[0] = rest
            else:
                self._arrived.popleft()
            peer = self.outgoing.target_end
            peer.outgoing.consumed(count)
            if self._arrived or self._peer_finished:
                self._deliver_soon()
        elif self._peer_finished:
            eof_received = getattr(protocol, "eof_received", None)
            if eof_received is None or not eof_received():
                self.close()

    def _hand_over(self, protocol: asyncio.BaseProtocol | BufferedStream, data: memoryview) -> int:
        random = self._network.random
        if len(data) > 1 and random.random() < CUT_PROBABILITY:
            data = data[: random.randrange(1, len(data))]
        if isinstance(protocol, asyncio.Protocol):
            protocol.data_received(bytes(data))
            return len(data)
        into = cast("BufferedStream", protocol)
        buffer = memoryview(into.get_buffer(len(data)))
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        into.buffer_updated(count)
        return count


class _Direction:
    """What is on its way from one end to the other, in order."""

    def __init__(self, network: SimulatedNetwork, source_end: Endpoint, target_end: Endpoint, server: Address) -> None:
        self._network = network
        self._server = server
        self._source_end = source_end
        self.target_end = target_end
        # Written and not yet handed to the receiving node.
        self.pending_bytes = 0
        self._packets: deque[bytes | None] = deque()
        self._arrives_s_min = 0.0
        self._held = False
        self._finished = False
        self._was_reset = False

    def write(self, data: bytes) -> None:
        if not self._finished:
            self.pending_bytes += len(data)
            self._send(data)

    def finish(self) -> None:
        if not self._finished:
            self._finished = True
            self._send(None)

    def reset(self) -> None:
        """The end without order: what is on its way may or may not arrive before it."""
        if self._was_reset:
            return
        self._finished = self._was_reset = True
        if self._network.random.random() < 0.5:
            self._packets.clear()
        self._network.loop.call_later(self._latency_s(), self._reset_arrives, context=self._network.context)

    def consumed(self, count: int) -> None:
        self.pending_bytes -= count
        self._source_end.room_made()

    def release(self) -> None:
        """The link is back."""
        if self._held:
            self._held = False
            if self._was_reset:
                self._reset_arrives()
            for _ in range(len(self._packets)):
                self._schedule()

    def _send(self, packet: bytes | None) -> None:
        self._packets.append(packet)
        if not self._held:
            self._schedule()

    def _schedule(self) -> None:
        loop = self._network.loop
        # Nothing overtakes what was sent before it.
        self._arrives_s_min = max(self._arrives_s_min, loop.time() + self._latency_s())
        loop.call_at(self._arrives_s_min, self._packet_arrives, context=self._network.context)

    def _latency_s(self) -> float:
        return self._network.latency_s(self._source_end.own_host, self._source_end.peer_host)

    def _packet_arrives(self) -> None:
        if self._held or not self._packets:
            return
        if not self._passes():
            self._hold()
            return
        packet = self._packets.popleft()
        if packet is None:
            self.target_end.peer_finished()
        else:
            self.target_end.arrive(packet)

    def _reset_arrives(self) -> None:
        if not self._passes():
            self._hold()
            return
        self._packets.clear()
        self.target_end.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _passes(self) -> bool:
        return self._network.passes(self._source_end.own_host, self._source_end.peer_host, self._server)

    def _hold(self) -> None:
        if not self._held:
            self._held = True
            self._network.hold(self)
            self._network.loop.call_later(RETRANSMISSION_TIMEOUT_S, self._give_up, context=self._network.context)

    def _give_up(self) -> None:
        if self._held:
            self._source_end.fail(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))


def _connection(
    network: SimulatedNetwork, source: SimulatedHost, target: SimulatedHost, own: Address, peer: Address
) -> tuple[Endpoint, Endpoint]:
    near = Endpoint(network, source, own, peer)
    far = Endpoint(network, target, peer, own)
    near.outgoing = _Direction(network, near, far, peer)
    far.outgoing = _Direction(network, far, near, peer)
    return near, far


def _succeed(connected: asyncio.Future[Endpoint], near: Endpoint) -> None:
    if not connected.done():
        connected.set_result(near)


def _fail(connected: asyncio.Future[Endpoint], error: OSError) -> None:
    if not connected.done():
        connected.set_exception(error)


def _give_up(connected: asyncio.Future[Endpoint]) -> None:
    _fail(connected, TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
