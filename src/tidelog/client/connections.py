"""A client's connections to the nodes of a cluster: one for each node and purpose, opened when it is first needed.

    connections.send(node_id, request, MetadataResponse, on_answer)           # on_answer(answer) or on_answer(ClientError), once
    answer = await connections.ask(node_id, lambda version: ..., MetadataResponse)

The first request on a connection asks which versions the node speaks; each request then goes in the highest version that both
sides know. A request that depends on its version is given as a function of it. Callbacks come from the loop and never from
within `send`.

Nodes are named by their broker ids. The bootstrap servers have the ids -1, -2 and so on until the metadata says who they are;
a connection to one of them is kept and goes on as the broker's. Nothing is tried twice here: that is for those who know
whether a request may be sent again.

    node: unknown versions → greeting → ready ⇄ throttled; any failure of its connection leads back to the start

A greeting that fails tells that its node is down (see `reachability`). A connection that breaks is therefore greeted anew at
once, whether or not somebody needs it, and a node that is down once a second, for as long as the metadata names it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

from tidelog import __version__
from tidelog.client.client_security import client_security
from tidelog.client.connection_advice import is_refusal, may_pass, with_advice, with_guess
from tidelog.client.errors import (
    AuthenticationError,
    ClientError,
    ClosedError,
    NotReachedError,
    TimedOutError,
    UnsupportedError,
    refusal,
)
from tidelog.client.options import ClientOptions
from tidelog.client.reachability import SILENCE_S, Reachability
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.net.address import Address
from tidelog.net.errors import (
    AuthenticationError as NetAuthenticationError,
    ConnectionClosedError,
    ConnectionLostError,
    RequestFailedError,
    RequestTimedOutError,
)
from tidelog.net.node_connection import NO_SECURITY, ConnectionOptions, ConnectionParts, Event, NodeConnection, State
from tidelog.net.receive_buffers import ReceiveBuffers
from tidelog.net.turn import Turn
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.codec import decode_from, encode, encode_parts
from tidelog.wire.errors import WireError
from tidelog.wire.frames import read_response
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.headers import RequestHeader, ResponseHeader
from tidelog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

Versioned = Callable[[int], Request]
"""A request as a function of the version that the node and this client agreed on."""

# A node that is down is noticed to be back within this time. Its cost is one attempt to connect for each client.
_PROBE_S = 1.0


class Channel(IntEnum):
    """What a connection is for. A broker answers in order, so that a long fetch would hold up a heartbeat behind it."""

    DATA = 0
    COORDINATOR = 1


class _Asked:
    """A request from when it is given until its callback is called."""

    __slots__ = ("answer", "callback", "deadline_s", "request", "timer", "version_max")

    def __init__(
        self,
        request: Request | Versioned,
        answer: type[Response] | None,
        callback: Callable[[Any], None],
        deadline_s: float,
        version_max: int | None,
    ) -> None:
        self.request = request
        self.answer = answer
        self.callback = callback
        self.deadline_s = deadline_s
        self.version_max = version_max
        self.timer: asyncio.TimerHandle | None = None


class _Node:
    """One connection, and what its node speaks."""

    __slots__ = (
        "connection",
        "greeting",
        "has_answered",
        "is_silent",
        "last_used_s",
        "throttle",
        "versions",
        "waiting",
    )

    def __init__(self) -> None:
        self.connection: NodeConnection
        self.versions: Mapping[int, tuple[int, int]] | None = None
        self.greeting = False
        self.has_answered = False
        """Whether it has ever answered anything but a greeting: then it expects of this client what this client does."""
        self.is_silent = False
        """Whether the last request to it timed out. One that is cut off from the controllers greets, and answers little else."""
        # Requests that came before the node was ready.
        self.waiting: deque[_Asked] = deque()
        self.throttle: asyncio.TimerHandle | None = None
        self.last_used_s = 0.0

    @property
    def in_flight(self) -> int:
        return self.connection.in_flight + len(self.waiting)

    @property
    def is_ready(self) -> bool:
        return self.versions is not None and self.throttle is None


class Connections:
    """All connections of one client. Lives on one loop; `close` ends them."""

    def __init__(self, seams: ClientSeams, options: ClientOptions) -> None:
        self._loop = seams.loop
        self._random = seams.random
        self._options = options
        self._nodes: dict[tuple[int, Channel], _Node] = {}
        self._bootstrap = {-1 - index: address for index, address in enumerate(options.bootstrap_servers)}
        self._addresses: dict[int, Address] = dict(self._bootstrap)
        self._brokers: tuple[int, ...] = ()
        self.turn = Turn()
        self._parts = ConnectionParts(seams.loop, seams.transport, seams.random, ReceiveBuffers(), self.turn)
        self._connection_options = ConnectionOptions(
            reconnect_backoff_ms=options.reconnect_backoff_ms,
            reconnect_backoff_max_ms=options.reconnect_backoff_max_ms,
            connect_timeout_ms=options.socket_connection_setup_timeout_ms,
            # Whoever has made a call is told.
            logs_refusals=False,
        )
        self._security = client_security(seams, options)
        self._login = None if self._security is None else self._security.login
        self._features: dict[str, int] = {}
        self._features_epoch = -1
        self._is_closed = False
        self.reachability = Reachability(seams.loop, options.bootstrap_servers)
        self._on_down: Callable[[], None] | None = None
        self._probes: dict[Address, asyncio.TimerHandle] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        if options.connections_max_idle_ms >= 0:
            self._look_for_idle_later()

    # Who there is.

    @property
    def is_bootstrapped(self) -> bool:
        """Whether the metadata has named the brokers."""
        return bool(self._brokers)

    def update_brokers(self, brokers: Mapping[int, Address]) -> None:
        """The brokers of the latest metadata. Connections to an address that is no longer the broker's are given up."""
        for node_id, address in brokers.items():
            self.learn(node_id, address)
            if (node_id, Channel.DATA) not in self._nodes:
                self._adopt_bootstrap(node_id, address)
        if brokers:
            self._brokers = tuple(brokers)
        for address in brokers.values():
            if self.reachability.is_down(address):
                self._probe_later(address)

    def when_down(self, act: Callable[[], None]) -> None:
        """Call `act` on the loop each time that a node turns out to be down."""
        self._on_down = act

    def not_reached(self) -> NotReachedError:
        """Why nobody can be asked."""
        return NotReachedError(self._why() or "no broker is reached")

    def because(self, last: ClientError | None) -> str:
        """What a call met last, as the end of a sentence: that no node was ever reached, if so."""
        why = self._why() if last is None or not self.reachability.was_reached else str(last)
        return "" if why is None else f": {why}"

    def _why(self) -> str | None:
        return self.reachability.why(self._addresses[node_id] for node_id in self._brokers or self._bootstrap)

    def learn(self, node_id: int, address: Address) -> None:
        """A broker's address from elsewhere: an answer that names a leader or a coordinator."""
        known = self._addresses.get(node_id)
        self._addresses[node_id] = address
        if known is not None and known != address:
            for channel in Channel:
                self._drop(node_id, channel, NotReachedError(f"broker {node_id} has moved from {known} to {address}"))

    def rebootstrap(self) -> None:
        """Forget the brokers and begin again with the bootstrap servers (KIP-899)."""
        self._brokers = ()
        self._addresses = dict(self._bootstrap)
        for node_id, channel in list(self._nodes):
            self._drop(node_id, channel, NotReachedError("the client went back to its bootstrap servers"))

    def least_loaded(self) -> int | None:
        """A node to ask what any node knows: best one that is ready and has little to do, at worst one that was down or silent
        when it was last tried. None while all have just failed."""
        candidates = list(self._brokers or self._bootstrap)
        self._random.shuffle(candidates)
        best: tuple[int, int] | None = None
        chosen = None
        for node_id in candidates:
            node = self._nodes.get((node_id, Channel.DATA))
            address = self._addresses.get(node_id)
            is_doubtful = address is not None and self.reachability.is_down(address)
            unready = 2 if is_doubtful or (node is not None and node.is_silent) else 1
            if node is None:
                rank = (unready, 0)
            elif node.is_ready:
                rank = (2 if node.is_silent else 0, node.in_flight)
            elif node.connection.state is State.BACKING_OFF or node.throttle is not None:
                continue
            else:
                rank = (unready, node.in_flight)
            if best is None or rank < best:
                best, chosen = rank, node_id
        return chosen

    def in_flight(self, node_id: int, channel: Channel = Channel.DATA) -> int:
        """How many requests to a node are without an answer."""
        node = self._nodes.get((node_id, channel))
        return 0 if node is None else node.in_flight

    def is_backing_off(self, node_id: int, channel: Channel = Channel.DATA) -> bool:
        """Whether a node was not reached a moment ago. A request to it waits for the next attempt."""
        node = self._nodes.get((node_id, channel))
        return node is not None and node.connection.state is State.BACKING_OFF

    def version_of(self, node_id: int, key: ApiKey, channel: Channel = Channel.DATA) -> int | None:
        """The version in which a request would go, None while that is unknown. UnsupportedError where there is none."""
        node = self._nodes.get((node_id, channel))
        if node is None or node.versions is None:
            return None
        return _common_version(node, node.versions, key)

    def feature_level(self, name: str) -> int:
        """The level of a feature that the cluster has agreed on, as the latest node to be greeted knows it; 0 for none."""
        return self._features.get(name, 0)

    # Asking.

    def send(
        self,
        node_id: int,
        request: Request | Versioned,
        answer: type[R],
        callback: Callable[[R | ClientError], None],
        *,
        timeout_ms: int | None = None,
        channel: Channel = Channel.DATA,
        version_max: int | None = None,
    ) -> None:
        """Ask a node. The answer, whose errors are the caller's to read, or what kept it from coming goes to `callback`, once.

        `version_max` keeps the request below versions that mean something else, or allows one that is not stable yet.
        """
        self._ask(node_id, channel, _Asked(request, answer, callback, self._deadline_s(timeout_ms), version_max))

    def send_unanswered(
        self,
        node_id: int,
        request: Request | Versioned,
        callback: Callable[[ClientError | None], None],
        *,
        channel: Channel = Channel.DATA,
    ) -> None:
        """Send what a node does not answer: Produce with acks=0. `callback` hears when it is on its way, or why not."""
        self._ask(node_id, channel, _Asked(request, None, callback, self._deadline_s(None), None))

    async def ask(
        self,
        node_id: int,
        request: Request | Versioned,
        answer: type[R],
        *,
        timeout_ms: int | None = None,
        channel: Channel = Channel.DATA,
        version_max: int | None = None,
    ) -> R:
        """The answer of a node. ClientError if there is none."""
        future: asyncio.Future[R] = self._loop.create_future()

        def answered(outcome: R | ClientError) -> None:
            if future.done():
                return
            if isinstance(outcome, ClientError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self.send(node_id, request, answer, answered, timeout_ms=timeout_ms, channel=channel, version_max=version_max)
        return await future

    def close(self) -> None:
        """The end: everything that waits fails with ClosedError."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for probe in self._probes.values():
            probe.cancel()
        self._probes.clear()
        self.reachability.close()
        if self._login is not None:
            self._login.close()
        for node_id, channel in list(self._nodes):
            self._drop(node_id, channel, ClosedError("the client is closed"))

    # Nodes.

    def _deadline_s(self, timeout_ms: int | None) -> float:
        return self._loop.time() + (self._options.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000

    def _node(self, node_id: int, channel: Channel) -> _Node | None:
        node = self._nodes.get((node_id, channel))
        if node is None:
            address = self._addresses.get(node_id)
            if address is None:
                return None
            node = self._nodes[node_id, channel] = self._new_node(address)
        return node

    def _new_node(self, address: Address) -> _Node:
        node = _Node()

        def on_event(event: Event) -> None:
            if event is Event.CONNECTED:
                self.reachability.connected(address, node.connection.peer_address)
                return
            was_ready, node.versions = node.versions is not None, None
            if was_ready and not node.greeting:
                # Whether the node is down is for the next greeting to tell.
                self._greet(node, api(ApiKey.API_VERSIONS).versions.highest)

        node.connection = NodeConnection(
            self._parts,
            address.host,
            address.port,
            on_event=on_event,
            options=self._connection_options,
            security=NO_SECURITY if self._security is None else self._security.connection,
        )
        return node

    def _adopt_bootstrap(self, node_id: int, address: Address) -> None:
        """The connection that the metadata came over is as good as a new one to the same place."""
        for bootstrap_id, bootstrap_address in self._bootstrap.items():
            if bootstrap_address == address and (bootstrap_id, Channel.DATA) in self._nodes:
                self._nodes[node_id, Channel.DATA] = self._nodes.pop((bootstrap_id, Channel.DATA))
                return

    def _drop(self, node_id: int, channel: Channel, error: ClientError) -> None:
        node = self._nodes.pop((node_id, channel), None)
        if node is None:
            return
        if node.throttle is not None:
            node.throttle.cancel()
        self._fail_waiting(node, error)
        node.connection.close()

    def _look_for_idle_later(self) -> None:
        self._idle_timer = self._loop.call_later(
            max(1.0, self._options.connections_max_idle_ms / 2000), self._close_idle
        )

    def _close_idle(self) -> None:
        limit_s = self._loop.time() - self._options.connections_max_idle_ms / 1000
        for (node_id, channel), node in list(self._nodes.items()):
            if node.last_used_s <= limit_s and not node.in_flight:
                self._drop(node_id, channel, NotReachedError("the connection was idle for long"))
        self._look_for_idle_later()

    # The way of a request.

    def _ask(self, node_id: int, channel: Channel, asked: _Asked) -> None:
        if self._is_closed:
            self._loop.call_soon(asked.callback, ClosedError("the client is closed"))
            return
        node = self._node(node_id, channel)
        if node is None:
            error = NotReachedError(f"the cluster has no broker {node_id} at the moment{self.because(None)}")
            self._loop.call_soon(asked.callback, error)
            return
        node.last_used_s = self._loop.time()
        if node.versions is not None and node.throttle is None:
            self._dispatch(node, node.versions, asked)
            return
        asked.timer = self._loop.call_at(asked.deadline_s, self._waited_too_long, node, asked)
        node.waiting.append(asked)
        if node.versions is None and not node.greeting:
            self._greet(node, api(ApiKey.API_VERSIONS).versions.highest)

    def _waited_too_long(self, node: _Node, asked: _Asked) -> None:
        node.waiting.remove(asked)
        asked.callback(TimedOutError(f"{node.connection.address} was not reached in time"))

    def _dispatch(self, node: _Node, versions: Mapping[int, tuple[int, int]], asked: _Asked) -> None:
        connection = node.connection
        key = _key_of(asked)
        try:
            version = _common_version(node, versions, key, asked.version_max)
            made = asked.request
            request = made if isinstance(made, Request) else made(version)
            parts = self._encode(connection, request, version)
        except WireError as error:
            unsendable = ClientError(f"the request cannot be sent: {error}")
            # Whoever hands it on can tell that the question was wrong, and no node was asked.
            unsendable.__cause__ = error
            self._loop.call_soon(asked.callback, unsendable)
            return
        except ClientError as error:
            self._loop.call_soon(asked.callback, error)
            return
        answer, callback = asked.answer, asked.callback
        if answer is None:
            lost = None if connection.send_unanswered(parts) else NotReachedError(f"{connection.address} is gone")
            self._loop.call_soon(callback, lost)
            return

        def answered(frame: memoryview | RequestFailedError) -> None:
            if isinstance(frame, RequestFailedError):
                if isinstance(frame, RequestTimedOutError):
                    node.is_silent = True
                callback(self._failed(frame, node, is_greeted=True))
            else:
                node.has_answered = True
                node.is_silent = False
                callback(self._decode(node, answer, version, frame))

        remaining_ms = int((asked.deadline_s - self._loop.time()) * 1000) + 1
        connection.send(parts, answered, timeout_ms=max(1, remaining_ms))

    def _encode(self, connection: NodeConnection, request: Request, version: int) -> list[Any]:
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=connection.next_correlation_id(),
            client_id=self._options.client_id,
        )
        return [encode(header, api(request.api_key).request_header_version(version)), *encode_parts(request, version)]

    def _decode(self, node: _Node, answer: type[R], version: int, frame: memoryview) -> R | ClientError:
        # A copy: records in an answer stay where they are, and the connection needs its buffer again.
        received = bytes(frame)
        try:
            _, position = decode_from(ResponseHeader, api(answer.api_key).response_header_version(version), received)
            decoded = decode_from(answer, version, received, position)[0]
        except WireError as error:
            return NotReachedError(f"{node.connection.address} does not answer as a Kafka node would: {error}")
        throttle_time_ms = getattr(decoded, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self._throttle(node, throttle_time_ms)
        return decoded

    def _throttle(self, node: _Node, throttle_time_ms: int) -> None:
        """The node throttles this client (KIP-219)."""
        if node.throttle is not None:
            node.throttle.cancel()
        node.throttle = self._loop.call_later(throttle_time_ms / 1000, self._throttle_over, node)

    def _throttle_over(self, node: _Node) -> None:
        node.throttle = None
        if node.versions is not None:
            self._dispatch_waiting(node, node.versions)
        elif node.waiting and not node.greeting:
            self._greet(node, api(ApiKey.API_VERSIONS).versions.highest)

    # Nodes that are down.

    def _down(self, address: Address, sentence: str) -> None:
        if self.reachability.failed(address, sentence) and self._on_down is not None:
            self._on_down()
        self._probe_later(address)

    def _up(self, address: Address) -> None:
        probe = self._probes.pop(address, None)
        if probe is not None:
            probe.cancel()
        self.reachability.answered(address)

    def _probe_later(self, address: Address) -> None:
        if address not in self._probes and not self._is_closed:
            self._probes[address] = self._loop.call_later(_PROBE_S, self._probe, address)

    def _probe(self, address: Address) -> None:
        """Look whether a node is back. One that the metadata does not name is none of the cluster's; before there is any, asking
        for it is what finds nodes."""
        del self._probes[address]
        for node_id in self._brokers:
            if self._addresses.get(node_id) == address:
                node = self._node(node_id, Channel.DATA)
                if node is not None and node.versions is None and not node.greeting:
                    self._greet(node, api(ApiKey.API_VERSIONS).versions.highest)
                self._probe_later(address)
                return

    # Greeting.

    def _greet(self, node: _Node, version: int) -> None:
        node.greeting = True
        connection = node.connection
        if self._login is not None and self._login.token() is None:
            # Before there is a connection: a broker need not wait for whoever issues tokens.
            self._login.when_ready(lambda error: self._logged_in(node, version, error))
            return
        request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
        silence = f"{connection.address} has not answered for {SILENCE_S:g} s"
        patience = self._loop.call_later(SILENCE_S, self._down, connection.address, silence)

        def answered(frame: memoryview | RequestFailedError) -> None:
            node.greeting = False
            patience.cancel()
            if isinstance(frame, RequestFailedError):
                failed = self._failed(frame, node, is_greeted=False)
                if isinstance(failed, AuthenticationError):
                    # The node is there; whether it lets this client in is for the next call to find out.
                    if self._login is not None:
                        self._login.refused()
                elif not isinstance(frame, ConnectionClosedError):
                    self._down(connection.address, str(failed))
                self._fail_waiting(node, failed)
                return
            try:
                _, response = read_response(frame, ApiKey.API_VERSIONS, version)
            except WireError as error:
                sentence = f"{connection.address} does not answer as a Kafka node would: {error}"
                self._down(connection.address, sentence)
                self._fail_waiting(node, NotReachedError(sentence))
                return
            self._up(connection.address)
            assert isinstance(response, ApiVersionsResponse)
            self._greeted(node, response, version)

        connection.send(
            self._encode(connection, request, version), answered, timeout_ms=self._options.request_timeout_ms
        )

    def _logged_in(self, node: _Node, version: int, error: AuthenticationError | None) -> None:
        node.greeting = False
        if node.connection.state is State.CLOSED:
            return
        if error is None:
            self._greet(node, version)
        else:
            self._fail_waiting(node, error)

    def _greeted(self, node: _Node, response: ApiVersionsResponse, version: int) -> None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
            # A node older than this client names the versions of ApiVersions that it has (KIP-511).
            theirs = [each.max_version for each in response.api_keys if each.api_key == ApiKey.API_VERSIONS]
            self._greet(node, max(0, min(version - 1, *theirs)) if theirs else 0)
            return
        if response.error_code:
            self._fail_waiting(node, refusal(response.error_code, None, about=str(node.connection.address)))
            return
        node.versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        if response.finalized_features_epoch >= self._features_epoch:
            # A node that is behind must not undo what another one said.
            self._features_epoch = response.finalized_features_epoch
            self._features = {each.name: each.max_version_level for each in response.finalized_features}
        if node.throttle is None:
            self._dispatch_waiting(node, node.versions)

    def _dispatch_waiting(self, node: _Node, versions: Mapping[int, tuple[int, int]]) -> None:
        waiting, node.waiting = node.waiting, deque()
        with self.turn:
            for asked in waiting:
                _stop_timer(asked)
                self._dispatch(node, versions, asked)

    def _failed(self, error: RequestFailedError, node: _Node, *, is_greeted: bool) -> ClientError:
        if self._is_closed:
            return ClosedError("the client is closed")
        sentence = str(error)
        is_lost = isinstance(error, ConnectionLostError)
        if isinstance(error, NetAuthenticationError) or (is_lost and is_refusal(sentence)):
            kind: type[ClientError] = NotReachedError if may_pass(sentence) else AuthenticationError
            return kind(with_advice(sentence, self._options))
        if is_lost and not node.has_answered:
            return NotReachedError(with_guess(sentence, self._options, is_greeted=is_greeted))
        return TimedOutError(sentence) if isinstance(error, RequestTimedOutError) else NotReachedError(sentence)

    def _fail_waiting(self, node: _Node, error: ClientError) -> None:
        waiting, node.waiting = node.waiting, deque()
        self._fail(waiting, error)

    def _fail(self, waiting: Iterable[_Asked], error: ClientError) -> None:
        for asked in waiting:
            _stop_timer(asked)
            self._loop.call_soon(asked.callback, error)


def _stop_timer(asked: _Asked) -> None:
    if asked.timer is not None:
        asked.timer.cancel()
        asked.timer = None


def _key_of(asked: _Asked) -> int:
    """Only Produce goes without an answer."""
    return int(ApiKey.PRODUCE) if asked.answer is None else asked.answer.api_key


def _common_version(
    node: _Node, versions: Mapping[int, tuple[int, int]], key: int, version_max: int | None = None
) -> int:
    ours = api(key)
    lowest, highest = versions.get(key, (0, -1))
    version = min(highest, ours.stable_versions.highest if version_max is None else version_max)
    if version < max(lowest, ours.versions.lowest):
        raise UnsupportedError(f"{node.connection.address} does not offer {ours.name} in a version known here")
    return version
