"""The seam between a node and the network: how connections are accepted and made.

`LoopTransport` is the real one, over whatever event loop it is given. The simulator has another, in memory and on virtual time.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

from tidelog.net.address import Address, address_of
from tidelog.net.errors import ListenError
from tidelog.net.limits import SocketOptions

log = logging.getLogger(__name__)


class BufferedStream(Protocol):
    """`asyncio.BufferedProtocol`, for compiled classes, which cannot have asyncio's as their base."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def get_buffer(self, sizehint: int) -> memoryview: ...

    def buffer_updated(self, nbytes: int) -> None: ...

    def eof_received(self) -> bool: ...


P = TypeVar("P", bound=asyncio.BaseProtocol | BufferedStream)

# What a socket calls an address: host, port and, for IPv6, two numbers more.
SocketName = tuple[str | int, ...]

# Decides about a connection that has come in: the protocol that serves it, or None to close it at once.
Admit = Callable[[Address], asyncio.BaseProtocol | BufferedStream | None]

# Those who have a connection are not to wait for a crowd that opens its own: after so many the loop turns to others.
ACCEPTED_AT_ONCE_MAX = 8

# How long accepting pauses when the process has no descriptor left. Trying at once would fail at once, for ever.
OUT_OF_DESCRIPTORS_PAUSE_S = 1.0
# A handshake of the loop's own TLS takes a few round trips: what takes longer is somebody who holds a place.
HANDSHAKE_TIMEOUT_S = 5.0

_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


ADVICE = {
    errno.EADDRINUSE: "; stop the program that listens there, or choose another port",
    errno.EADDRNOTAVAIL: "; choose an address that this machine has",
    errno.EACCES: "; choose a port from 1024 on",
}


class Acceptor(Protocol):
    """An open listening address."""

    @property
    def addresses(self) -> Sequence[Address]:
        """Where it listens, one or more, all with the same port."""
        ...

    def pause(self) -> None:
        """Accepts nothing for now; connections wait in the backlog."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None:
        """Stops listening. Accepted connections are not touched."""
        ...


class Transport(Protocol):
    """The network, as a node sees it."""

    async def listen(self, host: str, port: int, admit: Admit, options: SocketOptions) -> Acceptor:
        """Listens on every address of `host` (all of the machine's if it is empty), port 0 for any free one. ListenError."""
        ...

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], P]) -> P:
        """Connects; the protocol has had its `connection_made`. OSError if that fails, such as ConnectionRefusedError."""
        ...

    async def resolve(self, host: str) -> list[str]:
        """The addresses of a host name, an address itself unchanged. OSError if there are none."""
        ...


class LoopTransport:
    """Sockets on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def listen(self, host: str, port: int, admit: Admit, options: SocketOptions) -> Acceptor:
        sockets: list[socket.socket] = []
        try:
            for family, name in await self._bindable(host, port):
                if port == 0 and sockets:
                    name = (name[0], sockets[0].getsockname()[1], *name[2:])  # noqa: PLW2901 - the same port on every address
                sockets.append(_listening_socket(family, name, options))
        except OSError as error:
            for each in sockets:
                each.close()
            advice = ADVICE.get(error.errno or 0, "")
            raise ListenError(f"cannot listen on {Address(host, port)}: {error.strerror or error}{advice}") from error
        return _SocketAcceptor(self._loop, sockets, admit, options)

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], P]) -> P:
        made: list[P] = []

        def make() -> asyncio.BaseProtocol:
            made.append(protocol_factory())
            return _protocol_of(self._loop, made[0])

        transport, _ = await self._loop.create_connection(make, host, port)
        sock = transport.get_extra_info("socket")
        if sock is not None and not transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return made[0]

    async def resolve(self, host: str) -> list[str]:
        found = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in found))

    async def _bindable(self, host: str, port: int) -> list[tuple[socket.AddressFamily, SocketName]]:
        if not host:
            # One socket for both families, where the machine has both.
            if socket.has_dualstack_ipv6():
                return [(socket.AF_INET6, ("::", port))]
            return [(socket.AF_INET, ("0.0.0.0", port))]  # noqa: S104 - an empty host asks for all interfaces
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        usable = [info for info in found if info[0] in {socket.AF_INET, socket.AF_INET6}]
        if len(usable) > 1:
            # A name such as localhost may stand for an IPv6 address on a machine without IPv6.
            usable = [info for info in usable if _is_local(info[0], cast("SocketName", info[4]))] or usable[:1]
        return list(dict.fromkeys((info[0], cast("SocketName", info[4])) for info in usable))


class _SocketAcceptor:
    """Accepts with its own reader, not with the loop's server: that cannot leave connections in the backlog."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sockets: list[socket.socket], admit: Admit, options: SocketOptions
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._admit = admit
        self._options = options
        self._closed = False
        # Two reasons not to accept: the owner's, and having no descriptor for one more connection.
        self._paused = False
        self._resting = False
        self._watching = False
        self._starting: set[asyncio.Task[None]] = set()
        self.addresses = [address_of(each.getsockname()) for each in sockets]
        self._watch()

    def pause(self) -> None:
        self._paused = True
        self._watch()

    def resume(self) -> None:
        self._paused = False
        self._watch()

    def close(self) -> None:
        self._closed = True
        self._watch()
        for each in self._sockets:
            each.close()

    def _rest(self) -> None:
        self._resting = True
        self._watch()
        self._loop.call_later(OUT_OF_DESCRIPTORS_PAUSE_S, self._end_rest)

    def _end_rest(self) -> None:
        self._resting = False
        self._watch()

    def _watch(self) -> None:
        wanted = not (self._closed or self._paused or self._resting)
        if wanted == self._watching:
            return
        self._watching = wanted
        for each in self._sockets:
            if wanted:
                self._loop.add_reader(each.fileno(), self._accept, each)
            else:
                self._loop.remove_reader(each.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            if not self._watching:
                return
            try:
                sock, name = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                log.warning("%s: no connection can be accepted for now: %s", self.addresses[0], error.strerror)
                self._rest()
                return
            self._start(sock, name)

    def _start(self, sock: socket.socket, name: object) -> None:
        sock.setblocking(False)
        protocol = self._admit(address_of(name))
        if protocol is None:
            sock.close()
            return
        try:
            _set_options(sock, self._options)
        except OSError as error:
            # The peer has gone already; some systems say so here.
            sock.close()
            protocol.connection_lost(error)
            return
        task = self._loop.create_task(self._serve(sock, protocol))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _serve(self, sock: socket.socket, protocol: asyncio.BaseProtocol | BufferedStream) -> None:
        try:
            context = self._options.ssl_context
            await self._loop.connect_accepted_socket(
                lambda: _protocol_of(self._loop, protocol),
                sock,
                ssl=context,
                ssl_handshake_timeout=None if context is None else HANDSHAKE_TIMEOUT_S,
            )
        except OSError as error:
            sock.close()
            protocol.connection_lost(error)


class _AsyncioProtocol(asyncio.BufferedProtocol):
    """What asyncio's own loops take for a `BufferedProtocol`. Its methods are the stream's, with nothing in between."""

    __slots__ = (
        "buffer_updated",
        "connection_lost",
        "connection_made",
        "eof_received",
        "get_buffer",
        "pause_writing",
        "resume_writing",
    )

    def __init__(self, stream: BufferedStream) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(stream, name))


def _protocol_of(
    loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol | BufferedStream
) -> asyncio.BaseProtocol:
    """uvloop looks for `get_buffer`, asyncio for its own class."""
    if isinstance(protocol, asyncio.BaseProtocol) or not isinstance(loop, asyncio.BaseEventLoop):
        return cast("asyncio.BaseProtocol", protocol)
    return _AsyncioProtocol(protocol)


def _listening_socket(family: socket.AddressFamily, name: SocketName, options: SocketOptions) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(name[0] != "::"))
        if options.receive_buffer_bytes >= 0:
            # Before the connection exists: its window is agreed on while it opens.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        sock.setblocking(False)
        sock.bind(name)
        sock.listen(options.backlog)
    except OSError:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket, options: SocketOptions) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if options.send_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)


def _is_local(family: socket.AddressFamily, name: SocketName) -> bool:
    """Whether an address is one of this machine's: a socket can be bound to it."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((name[0], 0, *name[2:]))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
        return True
