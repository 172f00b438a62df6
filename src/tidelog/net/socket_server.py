"""The listeners of a node and all connections that came in through them.

    server = SocketServer(loop, LoopTransport(loop), limits)
    listener = await server.listen("PLAINTEXT", "127.0.0.1", 9092, handler)
    ...
    server.close()                       # accepts nothing more
    await server.drain(timeout_ms=5000)  # answers what is in flight, then closes

One sweep, not a timer each, closes idle connections. A connection on which this side owes an answer is not idle; one that does
not read what it asked for is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from tidelog.model.bugs import Housekeeping
from tidelog.model.clock import Clock, SystemClock
from tidelog.model.slow_work import SlowWork
from tidelog.net.address import Address
from tidelog.net.backlog import Backlog
from tidelog.net.connection import Connection, FrameHandler
from tidelog.net.connection_quota import Admission, ConnectionQuota
from tidelog.net.connection_rates import ConnectionRates
from tidelog.net.held_connection import HeldConnection
from tidelog.net.limits import NO_CONNECTION_LIMIT, NodeLimits
from tidelog.net.receive_buffers import ReceiveBuffers
from tidelog.net.transport import Acceptor, BufferedStream, Transport
from tidelog.net.turn import Turn

if TYPE_CHECKING:
    from tidelog.net.tls import ServerTls

log = logging.getLogger(__name__)

# The sweep comes this often within `connections.max.idle.ms`: a connection lives at most this part longer than it should.
SWEEPS_PER_IDLE_TIME = 8
SWEEP_MS_MAX = 30_000

# How long a drained connection waits for the peer to close its side too.
LINGER_MS_MAX = 500

# A full node pauses accepting, and resumes when a connection ends, which may be often. The warning is rate-limited to one in
# this time.
FULL_NOTICE_INTERVAL_MS = 60_000

# Connections that are accepted only to be closed later each hold a descriptor. Beyond this many they are closed at once.
HELD_MAX = 1_000

# What `max.connection.creation.rate` is of the node and of a listener, at this moment.
RatesOf = Callable[[str], tuple[int, int]]


class ListenerCounts:
    """What was counted of the connections of one listener. `bytes_in` and `bytes_out` are those of ended ones."""

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "expired")

    def __init__(self) -> None:
        self.accepted = 0
        self.closed = 0
        self.expired = 0
        self.bytes_in = 0
        self.bytes_out = 0


class Listener:
    """One named address of a node. Made by `SocketServer.listen`."""

    def __init__(
        self, server: SocketServer, name: str, handler: FrameHandler, tls: ServerTls | None, *, is_exempt: bool
    ) -> None:
        self.name = name
        self.tls = tls
        self.is_exempt = is_exempt
        self._server = server
        self._handler = handler
        self._acceptor: Acceptor | None = None
        self._is_closed = False
        # It accepts nothing for now: connections have come too fast.
        self._waiting: asyncio.TimerHandle | None = None

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"

    @property
    def address(self) -> Address:
        """Where it listens; the first, if a host name stands for several addresses."""
        return self.addresses[0]

    @property
    def addresses(self) -> tuple[Address, ...]:
        assert self._acceptor is not None
        return tuple(self._acceptor.addresses)

    def close(self) -> None:
        """Accepts nothing more. Its connections go on."""
        self._is_closed = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._acceptor is not None:
            self._acceptor.close()

    def _open(self, acceptor: Acceptor) -> None:
        self._acceptor = acceptor

    def _accept_if(self, has_room: bool) -> None:
        if self._acceptor is not None and not self._is_closed:
            if has_room and self._waiting is None:
                self._acceptor.resume()
            else:
                self._acceptor.pause()

    def _wait(self, loop: asyncio.AbstractEventLoop, wait_ms: int) -> None:
        """Accepts nothing for so long."""

        def over() -> None:
            self._waiting = None
            self._server._accept_where_possible()  # noqa: SLF001 - a listener is a part of its server

        if self._waiting is None and not self._is_closed:
            self._waiting = loop.call_later(wait_ms / 1000, over)
            self._accept_if(False)

    def _admit(self, peer: Address) -> BufferedStream | HeldConnection | None:
        return self._server._admit(self, self._handler, peer)  # noqa: SLF001 - a listener is a part of its server


class SocketServer:
    """All listeners of one node, on one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        limits: NodeLimits | None = None,
        *,
        slow_work: SlowWork | None = None,
        housekeeping: Housekeeping | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`slow_work` reads files that are not in memory before they are sent; without it the loop waits for the disk."""
        self._housekeeping = housekeeping or Housekeeping()
        self.limits = limits or NodeLimits()
        self.turn = Turn()
        self.backlog = Backlog(loop, self.turn, (clock or SystemClock()).monotonic_ns, self.limits.backlog)
        self.buffers = ReceiveBuffers()
        self.listeners: dict[str, Listener] = {}
        self.counts: dict[str, ListenerCounts] = {}
        # In the order of accepting, which is also the order of closing.
        self.connections: dict[int, Connection] = {}
        self._loop = loop
        self._transport = transport
        self._slow_work = slow_work
        self._quota = ConnectionQuota(self.limits.connections_max, self.limits.connections_per_ip_max, {})
        self._overrides_resolved = False
        self.rates = ConnectionRates()
        """Of connections. Whoever knows the windows puts another one here before the first listener is opened."""
        self.rates_of: RatesOf | None = None
        """Asked for every connection, where it is known: both may be changed at run time."""
        self._held: set[HeldConnection] = set()
        # By listener, how often connections were held.
        self.throttled: dict[str, int] = {}
        self._next_connection_id = 0
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._draining: frozenset[str] = frozenset()
        self._drained: asyncio.Future[None] | None = None
        self._is_closed = False
        self._full_told_ms: float | None = None

    async def listen(
        self,
        name: str,
        host: str,
        port: int,
        handler: FrameHandler,
        *,
        connections_max: int = NO_CONNECTION_LIMIT,
        protected: bool = False,
        exempt: bool = False,
        tls: ServerTls | None = None,
    ) -> Listener:
        """Opens a listener. ListenError says why it cannot be.

        `protected` marks the listener of the cluster's own traffic, which the node's `max.connections` does not keep out.
        `exempt`: its connections never wait in the backlog. With `tls` the handler hears of a connection when it is secured.
        """
        if not self._overrides_resolved:
            self._quota.per_ip_overrides = await self._resolved(self.limits.connections_per_ip_overrides)
            self._overrides_resolved = True
        self._quota.add_listener(name, connections_max, protected=protected)
        listener = Listener(self, name, handler, tls, is_exempt=exempt)
        self.counts[name] = ListenerCounts()
        acceptor = await self._transport.listen(host, port, listener._admit, self.limits.socket)  # noqa: SLF001
        listener._open(acceptor)  # noqa: SLF001
        listener._accept_if(self._quota.has_room(name))  # noqa: SLF001
        self.listeners[name] = listener
        if self._sweep_timer is None and self.limits.connection.idle_ms_max >= 0:
            self._schedule_sweep()
        return listener

    async def set_quota(
        self,
        connections_max: int,
        per_ip_max: int,
        per_ip_overrides: Mapping[str, int],
        listeners_max: Mapping[str, int],
    ) -> None:
        """Changes the limits of `max.connections*` at run time. As in Kafka what is beyond the node's limit is closed, the
        longest idle first; a listener or an address that has too many keeps them."""
        self._quota.per_ip_overrides = await self._resolved(per_ip_overrides)
        self._overrides_resolved = True
        self._quota.connections_max = connections_max
        self._quota.per_ip_max = per_ip_max
        self._quota.limit_listeners(listeners_max)
        for _ in range(self._quota.count - connections_max):
            self._close_longest_idle("there are more connections than there may be now")
        self._accept_where_possible()

    async def limit_addresses(self, rates: Mapping[str | None, int]) -> None:
        """How many connections a second each address may make; of any other, the rate of None. Names of hosts are looked up."""
        known: dict[str | None, int] = {None: rates[None]} if None in rates else {}
        known.update(await self._resolved({host: rate for host, rate in rates.items() if host is not None}))
        self.rates.limit_addresses(known)

    def close(self) -> None:
        """Stops listening everywhere. Connections go on until `drain` or `abort`."""
        self._is_closed = True
        for listener in self.listeners.values():
            listener.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    async def drain(self, timeout_ms: int, listeners: Collection[str] | None = None) -> None:
        """Closes, after the answers to all requests that were taken have left. What takes longer is cut off.

        With names of `listeners` only those are closed, and all others go on.
        """
        if listeners is None:
            self.close()
            self._let_held_go()
        self._draining = frozenset(self.listeners if listeners is None else listeners)
        for name in self._draining:
            self.listeners[name].close()
        for connection in self._undrained():
            connection.finish(lambda finished=connection: self._linger(finished))  # type: ignore[misc]
        if self._undrained():
            self._drained = self._loop.create_future()
            cut = self._loop.call_later(timeout_ms / 1000, self._cut_off)
            await self._drained
            cut.cancel()

    def _undrained(self) -> list[Connection]:
        return [each for each in self.connections.values() if each.listener_name in self._draining]

    def _cut_off(self) -> None:
        for connection in self._undrained():
            connection.abort()

    def abort(self) -> None:
        """Closes everything now."""
        self.close()
        self._let_held_go()
        for connection in list(self.connections.values()):
            connection.abort()

    def _let_held_go(self) -> None:
        for held in list(self._held):
            held.abort()

    async def _resolved(self, overrides: Mapping[str, int]) -> dict[str, int]:
        resolved: dict[str, int] = {}
        for host, limit in overrides.items():
            try:
                addresses = await self._transport.resolve(host)
            except OSError as error:
                log.warning(
                    "the connection limit of %s has no effect, because its address is not known: %s", host, error
                )
                continue
            resolved.update(dict.fromkeys(addresses, limit))
        return resolved

    def _hold(self, listener: Listener, peer: Address, wait_ms: int) -> HeldConnection | None:
        self.throttled[listener.name] = self.throttled.get(listener.name, 0) + 1
        log.debug("%s: %s makes too many connections, and is not served for %d ms", listener, peer, wait_ms)
        if len(self._held) >= HELD_MAX:
            return None
        held = HeldConnection(self._loop, wait_ms, self._held.discard)
        self._held.add(held)
        return held

    def _admit(
        self, listener: Listener, handler: FrameHandler, peer: Address
    ) -> BufferedStream | HeldConnection | None:
        now_ms = int(self._now_ms())
        if self.rates.limits_addresses:
            wait_ms = self.rates.from_address(peer.host, now_ms)
            if wait_ms:
                return self._hold(listener, peer, wait_ms)
        if self.rates_of is not None:
            wait_ms = self.rates.accepted(listener.name, *self.rates_of(listener.name), now_ms)
            if wait_ms:
                listener._wait(self._loop, wait_ms)  # noqa: SLF001
        admission = self._quota.admit(listener.name, peer.host)
        if admission is Admission.REFUSED:
            log.info(
                "%s: refused %s, which has %d connections", listener, peer, self._quota.connections_from(peer.host)
            )
            return None
        if admission is Admission.ADMITTED_FOR_ANOTHER:
            self._close_longest_idle("the cluster's own traffic needs its place")
        self._next_connection_id += 1
        connection = Connection(
            self._loop,
            handler,
            self.limits.connection,
            self.buffers,
            self.turn,
            self.backlog,
            listener_name=listener.name,
            connection_id=self._next_connection_id,
            peer_address=peer,
            on_closed=self._closed,
            slow_work=self._slow_work,
            is_exempt=listener.is_exempt,
        )
        connection.idle_since_ms = self._now_ms()
        self.connections[connection.connection_id] = connection
        self.counts[listener.name].accepted += 1
        self._accept_where_possible()
        if listener.tls is None:
            return connection
        # A node without TLS starts without it.
        from tidelog.net.tls_stream import accepting  # noqa: PLC0415

        return accepting(
            self._loop,
            connection,
            listener.tls,
            self.buffers,
            failing_ms=self.limits.connection.failed_authentication_delay_ms,
            slow_work=self._slow_work,
            backlog=self.backlog,
        )

    def _closed(self, connection: Connection) -> None:
        del self.connections[connection.connection_id]
        counts = self.counts[connection.listener_name]
        counts.closed += 1
        counts.bytes_in += connection.bytes_in
        counts.bytes_out += connection.bytes_out
        self._quota.release(connection.listener_name, connection.peer_address.host)
        self._accept_where_possible()
        if self._drained is not None and not self._drained.done() and not self._undrained():
            self._drained.set_result(None)

    def _accept_where_possible(self) -> None:
        if not self._is_closed:
            for name, listener in self.listeners.items():
                has_room = self._quota.has_room(name)
                listener._accept_if(has_room)  # noqa: SLF001
                if not has_room:
                    self._tell_full(listener)

    def _tell_full(self, listener: Listener) -> None:
        now_ms = self._now_ms()
        if self._full_told_ms is None or now_ms - self._full_told_ms >= FULL_NOTICE_INTERVAL_MS:
            self._full_told_ms = now_ms
            log.warning(
                "%s: there are %d connections, which is all that may be; others wait until one ends",
                listener,
                self._quota.count,
            )

    def _close_longest_idle(self, why: str) -> None:
        self._note_activity()
        others = [each for each in self.connections.values() if not self._quota.is_protected(each.listener_name)]
        if others:
            idlest = min(others, key=lambda each: each.idle_since_ms)
            log.info("%s: closed: %s", idlest, why)
            idlest.abort()

    def _linger(self, connection: Connection) -> None:
        connection.half_close()
        self._loop.call_later(LINGER_MS_MAX / 1000, connection.abort)

    # Idle connections.

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    def _schedule_sweep(self) -> None:
        interval_ms = min(SWEEP_MS_MAX, max(1.0, self.limits.connection.idle_ms_max / SWEEPS_PER_IDLE_TIME))
        self._sweep_timer = self._loop.call_later(interval_ms / 1000, self._sweep)

    def _sweep(self) -> None:
        try:
            self._close_idle()
        except Exception as error:  # noqa: BLE001 - counted and logged
            self._housekeeping.failed("closing idle connections", error)
        self._schedule_sweep()

    def _close_idle(self) -> None:
        self._note_activity()
        idle_since_ms = self._now_ms() - self.limits.connection.idle_ms_max
        for connection in list(self.connections.values()):
            if connection.idle_since_ms <= idle_since_ms and not connection.owes_answers:
                log.info("%s: closed: idle for %d ms", connection, self.limits.connection.idle_ms_max)
                self.counts[connection.listener_name].expired += 1
                connection.abort()

    def _note_activity(self) -> None:
        now_ms = self._now_ms()
        for connection in self.connections.values():
            if connection.is_active:
                connection.is_active = False
                connection.idle_since_ms = now_ms
            else:
                connection.release_idle_buffer()
