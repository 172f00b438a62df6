"""A connection to another node: requests out, answers back in the same order, and a new connection when it breaks.

    connection = NodeConnection(ConnectionParts(loop, transport, random), "10.0.0.2", 9092, on_event=...)
    connection.send(request, on_answer, timeout_ms=30_000)     # on_answer(memoryview) or on_answer(RequestFailedError), once
    answer = await connection.request(request, timeout_ms=30_000)

A request begins, as all of Kafka's do, with api key and version (int16 each) and the correlation id (int32); an answer begins
with the correlation id. `next_correlation_id` gives them out. The rest of either is the caller's business.

    from \\ event   send, connect      connected    failed, broken       back-off over
    Idle            Connecting         -            -                    -
    Connecting      waits              Connected    BackingOff           -                with a login: once that is done
    Connected       sent at once       -            BackingOff           -
    BackingOff      waits              -            -                    Connecting if something waits or `stay_connected`; Idle
    Closed          fails at once; the end

A login (`ConnectionSecurity.authentication`) is a part of connecting. Where the node wants a new one after some time, it is made
on the same connection; requests wait for it, and those that are under way are answered before.

What waits when an attempt fails, fails with it: only what was sent during the back-off gets the next attempt. A request that gets
no answer in time closes the connection, since Kafka answers in order and everything later is behind it.

An exception of `on_answer` or `on_event` is a bug of the owner's. A node says by `on_bug` what it means for it; a client's
connection is closed, so that whoever waits for something else on it fails instead of waiting for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from math import inf
from random import Random
from socket import gaierror
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from tidelog.model.pending import Pending
from tidelog.net.address import NO_ADDRESS, Address
from tidelog.net.connection_security import ConnectionSecurity
from tidelog.net.errors import (
    AuthenticationError,
    ConnectFailedError,
    ConnectionClosedError,
    ConnectionLostError,
    RequestFailedError,
    RequestTimedOutError,
    TooManyRequestsError,
)
from tidelog.net.node_stream import NodeStream, PendingRequest
from tidelog.net.parts import Bytes
from tidelog.net.receive_buffers import ReceiveBuffers
from tidelog.net.reconnect_backoff import ReconnectBackoff
from tidelog.net.transport import Transport
from tidelog.net.turn import Turn
from tidelog.security.sasl.exchange import SaslError

if TYPE_CHECKING:
    from tidelog.net.connection_security import ClientAuthentication, LoginFrames
    from tidelog.net.node_stream import OnAnswer
    from tidelog.net.tls import ClientTls

log = logging.getLogger(__name__)

# Kafka's `max.in.flight.requests.per.connection` is for producers; other callers bring their own bound, and this is the last.
IN_FLIGHT_MAX = 100

# Kafka's `socket.connection.setup.timeout.ms`.
CONNECT_TIMEOUT_MS = 10_000

_CORRELATION_ID_OF_REQUEST = 4
_int32_at = Struct(">i").unpack_from
_CORRELATION_ID_LIMIT = 1 << 31

# A new login begins within this part of the time that the old one is good for, as in Kafka: before its end, whatever the clocks
# and the network do, and not at the same moment on all connections.
_RENEW_FROM = 0.85
_RENEW_WITHIN = 0.10

# Nodes take one login a second on a connection, and refuse the next before that. A session that ends sooner is renewed late: the
# login is the one request that an ended session still allows.
_RENEW_AFTER_MIN_S = 1.05


class State(Enum):
    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    BACKING_OFF = "backing off"
    CLOSED = "closed"


# An enum member as a module constant: see docs/style.md.
_CLOSED = State.CLOSED


class Event(Enum):
    """What an owner may act on at once, rather than wait for a time-out."""

    CONNECTED = "connected"
    REFUSED = "refused"
    """The host is there, but nothing listens: the process is gone."""
    UNREACHABLE = "unreachable"
    """No connection came about, for another reason or in time."""
    BROKEN = "broken"
    """An established connection ended without this side closing it."""
    TIMED_OUT = "timed out"
    """A request got no answer in time; the connection was closed for it."""


class ConnectionParts(NamedTuple):
    """What the connections of one process to other nodes share. A lone client needs no `buffers` and no `turn` of its own."""

    loop: asyncio.AbstractEventLoop
    transport: Transport
    random: Random
    buffers: ReceiveBuffers | None = None
    turn: Turn | None = None


class ConnectionOptions(NamedTuple):
    """How long a node is waited for, and how much may wait meanwhile."""

    in_flight_max: int = IN_FLIGHT_MAX
    reconnect_backoff_ms: float = 50
    reconnect_backoff_max_ms: float = 1000
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS
    logs_refusals: bool = True
    """Whether a login or handshake that fails is a line in the log: for nodes, where nobody else would tell."""


DEFAULT_OPTIONS = ConnectionOptions()
NO_SECURITY = ConnectionSecurity()


class _Login:
    """A login that is under way on a stream."""

    __slots__ = ("authentication", "is_first", "stream", "timer")

    def __init__(
        self, stream: NodeStream, authentication: ClientAuthentication, timer: asyncio.TimerHandle, *, is_first: bool
    ) -> None:
        self.stream = stream
        self.authentication = authentication
        self.timer = timer
        self.is_first = is_first


class NodeConnection:
    """Requests to one node. All methods are called on the loop's thread; callbacks come from there."""

    def __init__(
        self,
        parts: ConnectionParts,
        host: str,
        port: int,
        *,
        on_event: Callable[[Event], None] | None = None,
        on_bug: Callable[[Exception], None] | None = None,
        stay_connected: bool = False,
        options: ConnectionOptions = DEFAULT_OPTIONS,
        security: ConnectionSecurity = NO_SECURITY,
    ) -> None:
        self.address = Address(host, port)
        self.state = State.IDLE
        self._loop = parts.loop
        self._transport = parts.transport
        self._on_event = on_event or _ignore
        self._on_bug = on_bug or self._break_for
        self._stay_connected = stay_connected
        self._security = security
        self._told = ""
        self._in_flight_max = options.in_flight_max
        self._logs_refusals = options.logs_refusals
        self._backoff = ReconnectBackoff(parts.random, options.reconnect_backoff_ms, options.reconnect_backoff_max_ms)
        self._connect_timeout_s = options.connect_timeout_ms / 1000
        self._buffers = parts.buffers or ReceiveBuffers()
        self._turn = parts.turn or Turn()
        self._random = parts.random
        self._stream: NodeStream | None = None
        self._login: _Login | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._attempt: asyncio.Task[None] | None = None
        self._opening: NodeStream | None = None
        self._backoff_timer: asyncio.TimerHandle | None = None
        # What waits for a connection, then what waits for an answer.
        self._unsent: deque[PendingRequest] = deque()
        self._unanswered: deque[PendingRequest] = deque()
        self._deadline_timer: asyncio.TimerHandle | None = None
        # When it comes; without one, never.
        self._watched_s = inf
        self._correlation_id = -1

    def __str__(self) -> str:
        return f"connection to {self.address}"

    @property
    def in_flight(self) -> int:
        """Requests whose `on_answer` has not been called."""
        return len(self._unsent) + len(self._unanswered)

    @property
    def is_connected(self) -> bool:
        return self.state is State.CONNECTED

    @property
    def peer_address(self) -> Address:
        """Where the node that goes by `address` is, while there is a connection to it."""
        stream = self._login.stream if self._login is not None else self._stream
        return NO_ADDRESS if stream is None else stream.peer_address

    def next_correlation_id(self) -> int:
        """A number for the header of the next request."""
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_ID_LIMIT
        return self._correlation_id

    def connect(self) -> None:
        """Starts connecting, if nothing is under way. The outcome is an event."""
        if self.state is State.IDLE:
            self._start_attempt()

    def send(self, parts: Sequence[Bytes], on_answer: OnAnswer, *, timeout_ms: int) -> None:
        """Sends a request, connecting first where needed. `on_answer` is called once: with the answer or with what failed.

        The first part holds at least the header up to the correlation id. The answer's view is valid during the call only.
        """
        if self.state is _CLOSED:
            self._fail_soon(on_answer, ConnectionClosedError(f"{self} is closed"))
            return
        if len(self._unsent) + len(self._unanswered) >= self._in_flight_max:
            waiting = f"{self}: {self.in_flight} requests are unanswered"
            self._fail_soon(on_answer, TooManyRequestsError(waiting))
            return
        correlation_id = _int32_at(parts[0], _CORRELATION_ID_OF_REQUEST)[0]
        deadline_s = self._loop.time() + timeout_ms / 1000
        pending = PendingRequest(parts, correlation_id, deadline_s, on_answer)
        stream = self._stream
        if stream is not None:
            self._unanswered.append(pending)
            stream.push(parts)
        else:
            self._unsent.append(pending)
            self.connect()
        if deadline_s < self._watched_s:
            self._watch_deadline(deadline_s)

    def send_unanswered(self, parts: Sequence[Bytes]) -> bool:
        """Sends a request that gets no answer. False, and nothing sent, where there is no connection."""
        if self._stream is not None:
            self._stream.push(parts)
            return True
        if self.state is not State.CONNECTED:
            return False
        # A new login is under way on the connection.
        self._unsent.append(PendingRequest(parts, 0, inf, _nobody))
        return True

    async def request(self, parts: Sequence[Bytes], *, timeout_ms: int) -> bytes:
        """The answer, copied. RequestFailedError if there is none. A cancelled wait leaves the connection as it is."""
        future: asyncio.Future[bytes] = self._loop.create_future()

        def answered(answer: memoryview | RequestFailedError) -> None:
            if future.done():
                return
            if isinstance(answer, RequestFailedError):
                future.set_exception(answer)
            else:
                future.set_result(bytes(answer))

        self.send(parts, answered, timeout_ms=timeout_ms)
        return await future

    def close(self) -> None:
        """The end: everything that waits fails with ConnectionClosedError. A second close does nothing."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        for timer in (self._backoff_timer, self._deadline_timer, self._renewal):
            if timer is not None:
                timer.cancel()
        if self._attempt is not None:
            self._attempt.cancel()
        stream = self._forget_stream()
        if stream is not None:
            stream.abort()
        self._fail_all(ConnectionClosedError(f"{self} is closed"))

    # Connecting.

    def _start_attempt(self) -> None:
        self.state = State.CONNECTING
        self._attempt = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        """One attempt. Its outcome is passed on by callbacks; this never raises."""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if self._security.tls is None:
                    stream = await self._transport.connect(self.address.host, self.address.port, self._new_stream)
                else:
                    stream = await self._connect_securely(self._security.tls)
        except asyncio.CancelledError:
            self._abandon_opening()
            raise
        except ConnectionRefusedError:
            self._attempt_failed(Event.REFUSED, "connection refused")
        except TimeoutError:
            self._attempt_failed(Event.UNREACHABLE, f"timed out: no answer within {self._connect_timeout_s:g} s")
        except AuthenticationError as error:
            self._attempt_failed(Event.UNREACHABLE, str(error), AuthenticationError)
        except gaierror:
            self._attempt_failed(Event.UNREACHABLE, "host not found")
        except OSError as error:
            self._attempt_failed(Event.UNREACHABLE, error.strerror or str(error))
        else:
            self._connected(stream)

    async def _connect_securely(self, tls: ClientTls) -> NodeStream:
        """Until the two have shaken hands. AuthenticationError says why they have not."""
        # A client or node without TLS starts without it.
        from tidelog.net.tls_stream import calling  # noqa: PLC0415

        secured: asyncio.Future[None] = self._loop.create_future()
        # It may fail while the connection is given up, and nobody waits for it any more.
        secured.add_done_callback(lambda done: done.cancelled() or done.exception())
        stream = self._new_stream()
        host, port = self.address
        await self._transport.connect(
            host, port, lambda: calling(self._loop, stream, tls, host, self._buffers, secured)
        )
        await secured
        return stream

    def _new_stream(self) -> NodeStream:
        self._opening = NodeStream(
            self._loop, self._buffers, self._turn, str(self), self._unanswered, self._on_bug, self._ended
        )
        return self._opening

    def _abandon_opening(self) -> None:
        """A connection may come about in the very moment in which nobody waits for it any more."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.abort()

    def _connected(self, stream: NodeStream) -> None:
        self._attempt = None
        if self.state is State.CLOSED:
            self._abandon_opening()
            return
        self._opening = None
        if stream.is_closed:
            # It broke before anyone knew of it.
            self._attempt_failed(Event.BROKEN, "closed at once")
            return
        if self._security.authentication is None:
            self._established(stream)
        else:
            self._log_in(stream, self._security.authentication(self.address), is_first=True)

    def _established(self, stream: NodeStream) -> None:
        self._told = ""
        self._backoff.succeeded()
        self._stream = stream
        self.state = State.CONNECTED
        self._tell_event(Event.CONNECTED)
        self._send_waiting(stream)

    def _send_waiting(self, stream: NodeStream) -> None:
        with self._turn:
            while self._unsent and self._stream is stream:
                pending = self._unsent.popleft()
                if pending.on_answer is not _nobody:
                    self._unanswered.append(pending)
                stream.push(pending.parts)

    # Logging in.

    def _log_in(self, stream: NodeStream, authentication: ClientAuthentication, *, is_first: bool) -> None:
        """Until it is done the stream is the login's alone."""
        timer = self._loop.call_later(self._connect_timeout_s, self._login_timed_out)
        login = self._login = _Login(stream, authentication, timer, is_first=is_first)
        self._advance(login, authentication.start)

    def _advance(self, login: _Login, step: Callable[[], LoginFrames]) -> None:
        try:
            frames = step()
        except (SaslError, AuthenticationError) as error:
            self._login_failed(str(error))
            return
        if isinstance(frames, Pending):
            frames.then(lambda said: self._say(login, said))
        else:
            self._say(login, frames)

    def _say(self, login: _Login, frames: list[bytes] | SaslError) -> None:
        if self._login is not login:
            return
        if isinstance(frames, SaslError):
            self._login_failed(str(frames))
            return
        for frame in frames:
            correlation_id = _int32_at(frame, _CORRELATION_ID_OF_REQUEST)[0]
            self._unanswered.append(
                PendingRequest((frame,), correlation_id, inf, lambda answer: self._heard(login, answer))
            )
            login.stream.push((frame,))
        if login.authentication.is_done:
            self._logged_in(login)

    def _heard(self, login: _Login, answer: memoryview | RequestFailedError) -> None:
        # What ends the connection is told by whoever ends it.
        if self._login is login and not isinstance(answer, RequestFailedError):
            self._advance(login, lambda: login.authentication.received(answer))

    def _logged_in(self, login: _Login) -> None:
        self._end_login()
        lifetime_s = login.authentication.session_lifetime_ms / 1000
        if lifetime_s > 0:
            part = _RENEW_FROM + _RENEW_WITHIN * self._random.random()
            self._renewal = self._loop.call_later(max(lifetime_s * part, _RENEW_AFTER_MIN_S), self._log_in_again)
        if login.is_first:
            self._established(login.stream)
        else:
            self._told = ""
            self._stream = login.stream
            self._send_waiting(login.stream)

    def _log_in_again(self) -> None:
        self._renewal = None
        stream = self._stream
        make = self._security.authentication
        if stream is not None and make is not None:
            self._stream = None
            self._log_in(stream, make(self.address), is_first=False)

    def _login_timed_out(self) -> None:
        self._login_failed(f"timed out: no answer within {self._connect_timeout_s:g} s")

    def _login_failed(self, reason: str) -> None:
        login = self._login
        if login is None:
            return
        reason = f"the login with {login.authentication.name} failed: {reason}"
        stream = self._forget_stream()
        if stream is not None:
            stream.abort()
        if login.is_first:
            self._attempt_failed(Event.UNREACHABLE, reason, AuthenticationError)
            return
        self._tell_refused(reason)
        self._back_off()
        self._fail_all(AuthenticationError(f"cannot stay connected to {self.address}: {reason}"))
        self._tell_event(Event.BROKEN)

    def _end_login(self) -> None:
        if self._login is not None:
            self._login.timer.cancel()
            self._login = None

    def _forget_stream(self) -> NodeStream | None:
        """The stream of this connection, which has none from now on; also that of a login."""
        stream = self._login.stream if self._login is not None else self._stream
        self._end_login()
        self._stream = None
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        return stream

    def _attempt_failed(
        self, event: Event, reason: str, kind: type[AuthenticationError | ConnectFailedError] = ConnectFailedError
    ) -> None:
        self._attempt = None
        self._abandon_opening()
        if self.state is State.CLOSED:
            return
        log.debug("%s: %s", self, reason)
        message = f"cannot connect to {self.address}: {reason}"
        self._back_off()
        if kind is AuthenticationError:
            self._tell_refused(reason)
            self._fail_all(AuthenticationError(message))
        else:
            self._fail_all(ConnectFailedError(message, refused=event is Event.REFUSED))
        self._tell_event(event)

    def _tell_refused(self, reason: str) -> None:
        """To try again does not help until somebody changes something: that is worth one line, and not one for each attempt."""
        if reason != self._told and self._logs_refusals:
            self._told = reason
            log.warning("%s: %s", self, reason)

    def _back_off(self) -> None:
        self.state = State.BACKING_OFF
        self._backoff_timer = self._loop.call_later(self._backoff.failed() / 1000, self._backoff_over)

    def _backoff_over(self) -> None:
        self._backoff_timer = None
        if self.state is not State.BACKING_OFF:
            return
        if self._unsent or self._stay_connected:
            self._start_attempt()
        else:
            self.state = State.IDLE

    # Connected.

    def _ended(self, stream: NodeStream, error: BaseException | None) -> None:
        # A write can find out, and nobody expects the answer to `send` to come before it returns.
        self._loop.call_soon(self._broke, stream, error)

    def _broke(self, stream: NodeStream, error: BaseException | None) -> None:
        if self._login is not None and self._login.stream is stream:
            self._login_failed("the node closed the connection")
        elif self._stream is stream:
            reason = (error.strerror if isinstance(error, OSError) else None) or error or "closed by the node"
            self._break(Event.BROKEN, ConnectionLostError(f"{self} broke: {reason}"))

    def _break(self, event: Event, error: RequestFailedError) -> None:
        stream = self._forget_stream()
        if stream is not None:
            stream.abort()
        self._back_off()
        self._fail_all(error)
        self._tell_event(event)

    # Deadlines: one timer for the earliest.

    def _watch_deadline(self, deadline_s: float) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._deadline_timer = self._loop.call_at(deadline_s, self._deadline_passed)
        self._watched_s = deadline_s

    def _deadline_passed(self) -> None:
        self._deadline_timer = None
        self._watched_s = inf
        now_s = self._loop.time()
        late = _take_late(self._unanswered, now_s)
        late_unsent = _take_late(self._unsent, now_s)
        # A login's own requests have none: it has a timer of its own.
        rest = [each.deadline_s for each in (*self._unanswered, *self._unsent) if each.deadline_s < inf]
        if late:
            self._break(Event.TIMED_OUT, ConnectionLostError(f"{self} was closed: an earlier request timed out"))
        elif rest:
            self._watch_deadline(min(rest))
        timed_out = RequestTimedOutError(f"{self}: no answer in time")
        for each in (*late, *late_unsent):
            self._tell(each.on_answer, timed_out)

    def _fail_all(self, error: RequestFailedError) -> None:
        failed = [*self._unanswered, *self._unsent]
        self._unanswered.clear()
        self._unsent.clear()
        for each in failed:
            self._tell(each.on_answer, error)

    def _tell_event(self, event: Event) -> None:
        if self.state is State.CLOSED:
            return
        try:
            self._on_event(event)
        except Exception as error:  # noqa: BLE001 - whose bug it is decides what stops for it
            self._on_bug(error)

    def _fail_soon(self, on_answer: OnAnswer, error: RequestFailedError) -> None:
        # Never from inside of `send`: a caller that sends again on failure would recurse.
        self._loop.call_soon(self._tell, on_answer, error)

    def _tell(self, on_answer: OnAnswer, error: RequestFailedError) -> None:
        try:
            on_answer(error)
        except Exception as bug:  # noqa: BLE001 - the others are to be told all the same
            self._on_bug(bug)

    def _break_for(self, error: Exception) -> None:
        """A client's bug: its connection ends with what waits on it."""
        log.error("%s: closed: handling what came of a request failed: %r", self, error, exc_info=error)
        stream = self._login.stream if self._login is not None else self._stream
        if stream is not None:
            stream.abort(error)


def _take_late(requests: deque[PendingRequest], now_s: float) -> list[PendingRequest]:
    late = [each for each in requests if each.deadline_s <= now_s]
    if late:
        # The deque itself stays: the stream has it too.
        on_time = [each for each in requests if each.deadline_s > now_s]
        requests.clear()
        requests.extend(on_time)
    return late


def _ignore(_event: Event) -> None:
    return


def _nobody(_answer: object) -> None:
    """Whom the answer to a request is for that gets none."""
