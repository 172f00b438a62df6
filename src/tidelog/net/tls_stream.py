"""TLS between a transport and the stream of frames on it.

    transport  <->  TlsStream  <->  FrameStream

To the transport it is a protocol, to the stream a transport, which is there once the handshake is done. A listener without TLS
has nothing of this in its way.

    in     what arrives goes into OpenSSL's buffer piece by piece, and is decrypted straight into the buffer of the stream
    out    the stream's channel is a `TlsChannel`

    from \\ event     bytes arrive           the stream pauses        wrong, or late            closed by either side
    Handshaking       goes on; then Open     -                        Failing: alert, delay     Closed
    Open              decrypted              kept until it resumes    Closed                    Closed
    Failing           not read               -                        -                         Closed

Before the handshake is done a peer costs one `ssl` object and what OpenSSL keeps of an incomplete message, which has limits of
its own; nothing of a request is held for somebody who has not proven who he is.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from tidelog.net.channel import OWN_CHANNEL, open_channel
from tidelog.net.errors import AuthenticationError
from tidelog.net.receive_buffers import PIECE_BYTES, ReceiveBuffers
from tidelog.net.tls import HANDSHAKE_MS_MAX, ClientTls, ServerTls, TlsSession, session_of
from tidelog.net.tls_channel import TlsChannel
from tidelog.net.tls_problems import not_tls, tls_problem

if TYPE_CHECKING:
    from tidelog.model.slow_work import SlowWork
    from tidelog.net.backlog import Backlog
    from tidelog.net.connection import Connection
    from tidelog.net.stream import FrameStream

log = logging.getLogger(__name__)

# A read before the handshake is done, and all of them together: most of it is a chain of certificates, of at most 100 KB.
_HANDSHAKE_READ_BYTES = 16 * 1024
_HANDSHAKE_BYTES_MAX = 256 * 1024

# Where memory is short still enough for a record's head and more.
_READ_BYTES_MIN = 4 * 1024


class _State(Enum):
    HANDSHAKING = "handshaking"
    OPEN = "open"
    FAILING = "failing"
    CLOSED = "closed"


_OPEN = _State.OPEN


class TlsStream:
    """One end of one connection. All methods are called on the loop's thread."""

    __slots__ = (
        "_arrived",
        "_backlog",
        "_buffers",
        "_channel",
        "_end",
        "_failing_ms",
        "_handshake_bytes",
        "_held_bytes",
        "_incoming",
        "_is_paused",
        "_loop",
        "_new_end",
        "_on_failed",
        "_on_secured",
        "_outgoing",
        "_peer",
        "_slow_work",
        "_state",
        "_stream",
        "_timer",
        "_transport",
        "handshake_ms_max",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stream: FrameStream,
        buffers: ReceiveBuffers,
        new_end: Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject],
        *,
        peer: str,
        on_secured: Callable[[TlsSession], None],
        on_failed: Callable[[str], None],
        handshake_ms_max: int = HANDSHAKE_MS_MAX,
        failing_ms: int = 0,
        slow_work: SlowWork | None = None,
        backlog: Backlog | None = None,
    ) -> None:
        """`peer` is what the other end is, `client` or `node`. `on_secured` may refuse it with a ValueError. `on_failed` hears,
        once and in half a sentence, why there is no handshake; the connection is closed `failing_ms` later."""
        self._loop = loop
        self._stream = stream
        self._buffers = buffers
        self._new_end = new_end
        self._peer = peer
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._failing_ms = failing_ms
        self._slow_work = slow_work
        self._backlog = backlog
        self._state = _State.HANDSHAKING
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        # Made with the first bytes of a client: one that sends nothing costs nothing.
        self._end: ssl.SSLObject | None = None
        self._transport: asyncio.Transport | None = None
        self._channel: TlsChannel | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handshake_bytes = 0
        # Encrypted bytes that are not in OpenSSL's buffer yet.
        self._arrived: memoryview | None = None
        self._held_bytes = 0
        self._is_paused = False
        self.handshake_ms_max = handshake_ms_max

    def __str__(self) -> str:
        return str(self._stream)

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        under = open_channel(self._loop, self._transport)
        self._channel = TlsChannel(self._outgoing, under, self._buffers, self._stream.abort, self._slow_work)
        self._stream.connection_opening(cast("asyncio.BaseTransport", self))
        if self._state is not _State.HANDSHAKING:
            return
        self._timer = self._loop.call_later(self.handshake_ms_max / 1000, self._too_late)
        if self._peer == "node":
            self._handshake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._state is _State.HANDSHAKING and (self._handshake_bytes or self._peer == "node"):
            hint = "does it trust the certificate here?" if self._peer == "client" else "is its listener one with TLS?"
            self._on_failed(f"the {self._peer} closed the connection during the TLS handshake ({hint})")
        self._closed()
        self._stream.connection_lost(exc)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._channel is not None:
            self._channel.pause()

    def resume_writing(self) -> None:
        if self._channel is not None:
            self._channel.resume()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._state is not _OPEN:
            return self._buffers.cipher[:_HANDSHAKE_READ_BYTES]
        wanted_bytes = len(self._stream.get_buffer(sizehint))
        return self._buffers.cipher[: max(wanted_bytes, _READ_BYTES_MIN)]

    def buffer_updated(self, nbytes: int) -> None:
        self._arrived = self._buffers.cipher[:nbytes]
        if self._state is _OPEN:
            self._decrypt()
        elif self._state is _State.HANDSHAKING:
            self._handshake_arrived(nbytes)
        if self._arrived is not None:
            # The buffer is another connection's next.
            self._keep(self._arrived if self._state is _OPEN else None)

    # The stream's side: it takes this for its transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == OWN_CHANNEL:
            return self._channel
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def pause_reading(self) -> None:
        if not self._is_paused and not self.is_closing():
            self._is_paused = True
            if self._transport is not None:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and not self.is_closing():
            self._is_paused = False
            # Never from inside of the stream: it is in the middle of what it has read.
            self._loop.call_soon(self._go_on)

    def abort(self) -> None:
        transport = self._transport
        self._closed()
        if transport is not None:
            transport.abort()

    # The handshake.

    def _handshake_arrived(self, count: int) -> None:
        arrived = self._arrived
        assert arrived is not None
        self._handshake_bytes += count
        if self._end is None:
            problem = not_tls(arrived)
            if problem is not None:
                self._fail(problem)
                return
        if self._handshake_bytes > _HANDSHAKE_BYTES_MAX:
            self._fail(
                f"the {self._peer} sent more than {_HANDSHAKE_BYTES_MAX} bytes before the TLS handshake was done"
            )
            return
        self._incoming.write(arrived)
        self._arrived = None
        self._handshake()

    def _handshake(self) -> None:
        assert self._channel is not None
        try:
            if self._end is None:
                self._end = self._new_end(self._incoming, self._outgoing)
            self._end.do_handshake()
        except ssl.SSLWantReadError:
            self._send_protocol()
            return
        except ssl.SSLError as error:
            self._send_protocol()
            self._fail(tls_problem(error, self._peer))
            return
        except ValueError as error:
            # A host name that cannot be one.
            self._fail(str(error))
            return
        try:
            self._on_secured(session_of(self._end))
        except ValueError as error:
            self._fail(str(error))
            return
        self._send_protocol()
        if self._state is not _State.HANDSHAKING:
            return
        self._stop_timer()
        self._state = _OPEN
        self._channel.begin(self._end)
        self._stream.connection_made(cast("asyncio.BaseTransport", self))
        # Requests may have come with the last message of the handshake.
        self._decrypt()

    def _send_protocol(self) -> None:
        if self._channel is not None and self._state is not _State.CLOSED:
            try:
                self._channel.send_protocol()
            except OSError as error:
                self._stream.abort(error)

    def _too_late(self) -> None:
        self._timer = None
        if self._state is _State.HANDSHAKING:
            self._fail(f"the TLS handshake was not done within {self.handshake_ms_max / 1000:g} s")

    def _fail(self, problem: str) -> None:
        if self._state is not _State.HANDSHAKING:
            return
        self._stop_timer()
        self._state = _State.FAILING
        self._on_failed(problem)
        self.pause_reading()
        # Whoever guesses, or tries again at once, is to wait.
        self._timer = self._loop.call_later(self._failing_ms / 1000, self._stream.abort, AuthenticationError(problem))

    # Decrypting.

    def _decrypt(self) -> None:
        """Decrypts what has arrived into the stream's buffer, until there is none or the stream takes no more."""
        stream, end = self._stream, self._end
        assert end is not None
        read = cast("Callable[[int, memoryview], int]", end.read)
        while self._state is _OPEN and not self._is_paused:
            view = stream.get_buffer(-1)
            room_bytes = len(view)
            filled = 0
            is_ended = is_empty = False
            problem: ssl.SSLError | None = None
            while filled < room_bytes:
                try:
                    count = read(room_bytes - filled, view[filled:])
                except ssl.SSLWantReadError:
                    if self._feed():
                        continue
                    is_empty = True
                    break
                except ssl.SSLZeroReturnError:
                    # The end, where this side has said so too.
                    is_ended = True
                    break
                except ssl.SSLError as error:
                    problem = error
                    break
                if not count:
                    is_ended = True
                    break
                filled += count
            if filled:
                stream.buffer_updated(filled)
            if problem is not None:
                self._broken(problem)
            elif is_ended:
                self._peer_closed()
            elif not is_empty:
                continue
            break
        if self._outgoing.pending:
            self._send_protocol()

    def _feed(self) -> bool:
        """Gives OpenSSL the next piece of what has arrived: in pieces, since its buffer never gets smaller again."""
        arrived = self._arrived
        if arrived is None:
            return False
        self._incoming.write(arrived[:PIECE_BYTES])
        self._arrived = arrived[PIECE_BYTES:] if len(arrived) > PIECE_BYTES else None
        return True

    def _keep(self, rest: memoryview | None) -> None:
        """Keeps what the stream cannot take now, counted with what waits on other connections."""
        self._arrived = None if rest is None else memoryview(bytes(rest))
        self._hold(0 if rest is None else len(rest))

    def _hold(self, count: int) -> None:
        if self._backlog is not None and count != self._held_bytes:
            self._backlog.hold(count - self._held_bytes)
            self._held_bytes = count

    def _go_on(self) -> None:
        """The stream reads again: first what has arrived meanwhile."""
        if self._state is not _OPEN or self._is_paused:
            return
        self._decrypt()
        self._hold(0 if self._arrived is None else len(self._arrived))
        if not self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _peer_closed(self) -> None:
        """It has said that nothing more will come: as the end of a plain connection."""
        if self._transport is not None:
            self._transport.close()

    def _broken(self, error: ssl.SSLError) -> None:
        if self._state is _OPEN:
            problem = tls_problem(error, self._peer)
            log.warning("%s: closed: %s", self, problem)
            self._send_protocol()
            self._stream.abort(AuthenticationError(problem))

    # The end.

    def _closed(self) -> None:
        self._state = _State.CLOSED
        self._stop_timer()
        self._arrived = None
        self._hold(0)
        # It refers back to us; a closed connection should not have to wait for the collector.
        self._transport = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def accepting(
    loop: asyncio.AbstractEventLoop,
    connection: Connection,
    tls: ServerTls,
    buffers: ReceiveBuffers,
    *,
    failing_ms: int,
    slow_work: SlowWork | None = None,
    backlog: Backlog | None = None,
) -> TlsStream:
    """For a connection that has come in. Its handler hears of it when the handshake is done and it is known who is there."""

    def secured(session: TlsSession) -> None:
        connection.principal = tls.principal(session)
        connection.tls = session
        tls.handshakes += 1

    def failed(problem: str) -> None:
        tls.failed_handshakes += 1
        log.warning("%s: closed: %s", connection, problem)

    return TlsStream(
        loop,
        connection,
        buffers,
        tls.new_object,
        peer="client",
        on_secured=secured,
        on_failed=failed,
        handshake_ms_max=tls.handshake_ms_max,
        failing_ms=failing_ms,
        slow_work=slow_work,
        backlog=backlog,
    )


def calling(
    loop: asyncio.AbstractEventLoop,
    stream: FrameStream,
    tls: ClientTls,
    host: str,
    buffers: ReceiveBuffers,
    secured: asyncio.Future[None],
) -> TlsStream:
    """For a connection to another node. `secured` completes with the handshake, or fails with an AuthenticationError."""

    def succeeded(_session: TlsSession) -> None:
        if not secured.done():
            secured.set_result(None)

    def failed(problem: str) -> None:
        if not secured.done():
            secured.set_exception(AuthenticationError(problem))

    return TlsStream(
        loop,
        stream,
        buffers,
        lambda incoming, outgoing: tls.new_object(host, incoming, outgoing),
        peer="node",
        on_secured=succeeded,
        on_failed=failed,
    )
