"""A node's way to the active controller, wherever that is: on this node, on another one, or not yet anywhere.

    channel.ask(request, context).then(answer)

What this node's own controller can decide it decides at once. Otherwise the request goes to the leader of the metadata quorum:
as it is where nodes ask for themselves (registration, heartbeats, in-sync sets, producer ids, directories), in an Envelope with
the client's principal where a client asks. A request whose connection breaks, or whose receiver turns out not to be the active
controller any more, goes to the next one as soon as that is known, until its time is up; then it is answered
REQUEST_TIMED_OUT. So a request may be decided twice, as in Kafka: the second time says, for example, that the topic exists.

When another leader is heard of, the connection to the former one is closed: it may be hanging, and heartbeats that wait for it
would cost this broker its session at the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from tidelog.broker import envelopes
from tidelog.controller.controller import ControllerContext
from tidelog.controller.network_peers import Dial
from tidelog.controller.requests import SENT_BY_NODES, is_not_controller, refusal_of
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.net.errors import RequestFailedError
from tidelog.net.node_connection import Event, NodeConnection
from tidelog.raft.voter_set import Node
from tidelog.wire.errors import MalformedError
from tidelog.wire.frames import read_response
from tidelog.wire.messages.envelope import EnvelopeResponse
from tidelog.wire.schema import Request, Response

logger = logging.getLogger(__name__)

# While there is no leader, or the one that is known does not answer. A change of leader does not wait for it.
RETRY_MS = 50
# As long as a Kafka client waits by default.
TIMEOUT_MS = 30_000


class LocalController(Protocol):
    """This node's own controller."""

    @property
    def is_active(self) -> bool: ...

    def handle(self, request: Request, context: ControllerContext) -> Pending[Response]: ...


class LeaderView(Protocol):
    """What is known of the metadata quorum's leader."""

    @property
    def leader_node(self) -> Node | None: ...

    def watch_leader(self, watcher: Callable[[], None]) -> None: ...


class _Question(Struct, eq=False):
    request: Request
    context: ControllerContext
    answered: Pending[Response]
    deadline_ms: int


class ControllerChannel:
    """One for each node. `close` it before its node goes: whoever still waits hears nothing any more."""

    def __init__(
        self, local: LocalController, quorum: LeaderView, dial: Dial, timers: Timers, clock: Clock, *, client_id: str
    ) -> None:
        self._local = local
        self._quorum = quorum
        self._dial = dial
        self._timers = timers
        self._clock = clock
        self._client_id = client_id
        self._connection: NodeConnection | None = None
        # In the order in which they were asked.
        self._waiting: dict[_Question, None] = {}
        self._timer: Timer | None = None
        self._is_closed = False
        quorum.watch_leader(self._leader_changed)

    def ask(
        self, request: Request, context: ControllerContext | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> Pending[Response]:
        """What the active controller decides. The answer is always of the request's own kind."""
        answered: Pending[Response] = Pending()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._try(_Question(request, context or ControllerContext(), answered, deadline_ms))
        return answered

    def close(self) -> None:
        """Ask nobody any more."""
        self._is_closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._disconnect()

    def _try(self, question: _Question) -> None:
        if self._is_closed:
            return
        left_ms = question.deadline_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            error = ErrorCode.REQUEST_TIMED_OUT
            question.answered.complete(refusal_of(question.request, error, "There is no active controller."))
            return
        if self._local.is_active:
            decided = self._local.handle(question.request, question.context)
            decided.then(lambda answer: self._answered(question, answer))
            return
        leader = self._quorum.leader_node
        if leader is None:
            self._wait(question)
        else:
            self._send(question, leader, left_ms)

    def _send(self, question: _Question, leader: Node, left_ms: int) -> None:
        connection = self._connection
        if connection is None or connection.address != (leader.host, leader.port):
            self._disconnect()
            connection = self._connection = self._dial(leader.host, leader.port, _ignore)
        request = question.request
        is_own = type(request) in SENT_BY_NODES
        message = request if is_own else envelopes.wrap(request, question.context)
        version = envelopes.version_of(message)
        data = envelopes.request_bytes(message, version, connection.next_correlation_id(), self._client_id)

        def arrived(received: memoryview | RequestFailedError) -> None:
            if isinstance(received, RequestFailedError):
                logger.debug("%s at controller %d: %s", type(request).__name__, leader.id, received)
                self._wait(question)
                return
            try:
                answer = _read(received, message, version, question)
            except MalformedError as error:
                logger.warning("controller %d: %s", leader.id, error)
                answer = None
            if answer is None:
                self._wait(question)
            else:
                self._answered(question, answer)

        connection.send([data], arrived, timeout_ms=left_ms)

    def _answered(self, question: _Question, answer: Response) -> None:
        if is_not_controller(question.request, answer):
            self._wait(question)
        else:
            question.answered.complete(answer)

    def _wait(self, question: _Question) -> None:
        """Until another leader is known, or for a moment."""
        if self._is_closed:
            return
        self._waiting[question] = None
        if self._timer is None:
            self._timer = self._timers.after(RETRY_MS, self._retry)

    def _retry(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for question in waiting:
            self._try(question)

    def _leader_changed(self) -> None:
        leader, connection = self._quorum.leader_node, self._connection
        if connection is not None and (leader is None or connection.address != (leader.host, leader.port)):
            self._disconnect()
        if leader is not None or self._local.is_active:
            self._retry()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _read(received: memoryview, message: Request, version: int, question: _Question) -> Response | None:
    """The answer to a question; None where the receiver is not the active controller, or did not understand."""
    _, answer = read_response(received, message.api_key, version)
    if not isinstance(answer, EnvelopeResponse):
        return answer
    if answer.error_code == ErrorCode.NONE and answer.response_data is not None:
        return envelopes.read_answer(answer.response_data, question.request, question.context)
    error = ErrorCode.of(answer.error_code)
    return None if error is ErrorCode.NOT_CONTROLLER else refusal_of(question.request, error)


def _ignore(_event: Event) -> None:
    """A connection's state shows in what becomes of its requests."""
