"""A node's way to the active controller, wherever that is: on this node, on another one, or not yet anywhere.

    channel.ask(request, context).then(answer)

What this node's own controller can decide it decides at once. Otherwise the request goes to the leader of the metadata quorum:
as it is where nodes ask for themselves (registration, heartbeats, in-sync sets, producer ids, directories, internal topics), in
an Envelope with the client's principal where a client asks. Whether that client may is for the controller to say. A request
whose connection breaks, or whose receiver turns out not to be the active controller any more, goes to the next one as soon as
that is known, until its time is up; then it is answered REQUEST_TIMED_OUT. So a request may be decided twice, as in Kafka: the
second time says, for example, that the topic exists.

Clients' requests have a connection of their own. Answers come in order, and a request that breaks its connection breaks it for
all that wait on it: neither may happen to this broker's heartbeats. What a flood of clients asks for waits here, so that the
controller has at most `IN_FLIGHT_MAX` of it at a time, and a request whose connection breaks is sent again ever less often. An
answer that cannot be read is an UNKNOWN_SERVER_ERROR to whoever asked: to ask again would bring the same one.

When another leader is heard of, the connections to the former one are closed: it may be hanging, and heartbeats that wait for it
would cost this broker its session at the new one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from tidelog.broker.cluster import envelopes
from tidelog.controller.controller import ControllerContext
from tidelog.controller.network_peers import Dial
from tidelog.controller.requests import SENT_BY_NODES, is_not_controller, refusal_of
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.net.errors import ConnectionLostError, RequestFailedError
from tidelog.net.node_connection import Event, NodeConnection
from tidelog.raft.voter_set import Node
from tidelog.wire.errors import WireError
from tidelog.wire.frames import read_response
from tidelog.wire.messages.envelope import EnvelopeResponse
from tidelog.wire.schema import Request, Response

logger = logging.getLogger(__name__)

# While there is no leader, or the one that is known does not answer. A change of leader does not wait for it.
RETRY_MS = 50
# A request that breaks its connection waits twice as long each time: it may be what breaks it.
BROKEN_RETRY_MAX_MS = 1_000
# As long as a Kafka client waits by default.
TIMEOUT_MS = 30_000
# Enough to keep the controller busy, and little enough for it to answer in a moment.
IN_FLIGHT_MAX = 50
# As many as the controller parks: more of them mean that it does not answer, and memory has an end.
QUEUED_MAX = 10_000
# So many wait for an active controller. A node's own requests are few, and are not refused for what clients ask.
WAITING_MAX = 10_000


class LocalController(Protocol):
    """This node's own controller."""

    @property
    def is_active(self) -> bool: ...

    def handle(self, request: Request, context: ControllerContext | None) -> Pending[Response]: ...


class LeaderView(Protocol):
    """What is known of the metadata quorum's leader."""

    @property
    def leader_node(self) -> Node | None: ...

    def watch_leader(self, watcher: Callable[[], None]) -> None: ...


class _Question(Struct, eq=False):
    request: Request
    context: ControllerContext | None
    answered: Pending[Response]
    deadline_ms: int
    # How often its connection broke while the leader of now had it.
    breaks: int = 0

    @property
    def is_clients(self) -> bool:
        return self.context is not None

    def refuse(self, error: ErrorCode, message: str | None = None) -> None:
        self.answered.complete(refusal_of(self.request, error, message))


class _Lane:
    """A connection to the leader, for requests of one kind, and those that are not sent yet because enough are under way."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._connection: NodeConnection | None = None
        self.in_flight = 0
        self.queued: deque[_Question] = deque()

    def connection_to(self, leader: Node) -> NodeConnection:
        self.keep_only(leader)
        if self._connection is None:
            self._connection = self._dial(leader.host, leader.port, _ignore)
        return self._connection

    def keep_only(self, leader: Node | None) -> None:
        """Closes the connection to any other node. What waits for its answer fails."""
        connection = self._connection
        if connection is not None and (leader is None or connection.address != (leader.host, leader.port)):
            self._connection = None
            connection.close()


class ControllerChannel:
    """One for each node. `close` it before its node goes: whoever still waits hears nothing any more."""

    def __init__(
        self, local: LocalController, quorum: LeaderView, dial: Dial, timers: Timers, clock: Clock, *, client_id: str
    ) -> None:
        self._local = local
        self._quorum = quorum
        self._timers = timers
        self._clock = clock
        self._client_id = client_id
        self._own_lane, self._clients_lane = _Lane(dial), _Lane(dial)
        # Until when each of them waits, in the order in which they were asked.
        self._waiting: dict[_Question, int] = {}
        self._timer: Timer | None = None
        self._timer_due_ms = 0
        self._is_closed = False
        quorum.watch_leader(self._leader_changed)

    def ask(
        self, request: Request, context: ControllerContext | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> Pending[Response]:
        """What the active controller decides. The answer is always of the request's own kind.

        `context` says on whose behalf it is asked; without one this node asks for itself.
        """
        answered: Pending[Response] = Pending()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._try(_Question(request, None if type(request) in SENT_BY_NODES else context, answered, deadline_ms))
        return answered

    def close(self) -> None:
        """Ask nobody any more."""
        self._is_closed = True
        self._waiting.clear()
        self._cancel_timer()
        for lane in (self._own_lane, self._clients_lane):
            lane.queued.clear()
            lane.keep_only(None)

    def _try(self, question: _Question) -> None:
        if self._is_closed:
            return
        if question.deadline_ms <= self._clock.monotonic_ms():
            question.refuse(ErrorCode.REQUEST_TIMED_OUT, "There is no active controller.")
            return
        if self._local.is_active:
            decided = self._local.handle(question.request, question.context)
            decided.then(lambda answer: self._answered(question, answer))
            return
        leader = self._quorum.leader_node
        if leader is None:
            self._wait(question)
            return
        lane = self._clients_lane if question.is_clients else self._own_lane
        if lane.in_flight < IN_FLIGHT_MAX:
            self._send(question, lane, leader)
        elif len(lane.queued) < QUEUED_MAX:
            lane.queued.append(question)
        else:
            question.refuse(ErrorCode.REQUEST_TIMED_OUT, "The active controller does not answer.")

    def _send(self, question: _Question, lane: _Lane, leader: Node) -> None:
        connection = lane.connection_to(leader)
        request = question.request
        try:
            message = request if question.context is None else envelopes.wrap(request, question.context)
            version = envelopes.version_of(message)
            data = envelopes.request_bytes(message, version, connection.next_correlation_id(), self._client_id)
        except WireError:
            logger.exception("%s cannot be sent to controller %d", type(request).__name__, leader.id)
            question.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return

        def arrived(received: memoryview | RequestFailedError) -> None:
            lane.in_flight -= 1
            if isinstance(received, RequestFailedError):
                logger.debug("%s at controller %d: %s", type(request).__name__, leader.id, received)
                question.breaks += isinstance(received, ConnectionLostError)
                self._wait(question)
            else:
                self._read(question, received, message, version, leader)
            self._send_queued(lane)

        lane.in_flight += 1
        connection.send([data], arrived, timeout_ms=question.deadline_ms - self._clock.monotonic_ms())

    def _send_queued(self, lane: _Lane) -> None:
        while lane.queued and lane.in_flight < IN_FLIGHT_MAX and not self._is_closed:
            self._try(lane.queued.popleft())

    def _read(self, question: _Question, received: memoryview, message: Request, version: int, leader: Node) -> None:
        try:
            answer = _read(received, message, version, question)
        except WireError as error:
            logger.warning("controller %d: %s", leader.id, error)
            question.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "The active controller's answer cannot be read.")
            return
        if answer is None:
            self._wait(question)
        else:
            self._answered(question, answer)

    def _answered(self, question: _Question, answer: Response) -> None:
        if is_not_controller(question.request, answer):
            self._wait(question)
        else:
            question.answered.complete(answer)

    def _wait(self, question: _Question) -> None:
        """Until another leader is known, or for a moment."""
        if self._is_closed:
            return
        if question.is_clients and len(self._waiting) >= WAITING_MAX:
            question.refuse(ErrorCode.REQUEST_TIMED_OUT, "There is no active controller.")
            return
        # Six doublings are more than the maximum.
        delay_ms = min(RETRY_MS << min(max(0, question.breaks - 1), 6), BROKEN_RETRY_MAX_MS)
        due_ms = min(self._clock.monotonic_ms() + delay_ms, question.deadline_ms)
        self._waiting[question] = due_ms
        if self._timer is None or due_ms < self._timer_due_ms:
            self._set_timer(due_ms)

    def _set_timer(self, due_ms: int) -> None:
        self._cancel_timer()
        self._timer_due_ms = due_ms
        self._timer = self._timers.after(max(0, due_ms - self._clock.monotonic_ms()), self._retry_due)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _retry_due(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        due = [question for question, due_ms in self._waiting.items() if due_ms <= now_ms]
        self._retry(due)
        if self._waiting and not self._is_closed:
            self._set_timer(min(self._waiting.values()))

    def _retry(self, questions: list[_Question]) -> None:
        for question in questions:
            del self._waiting[question]
        for question in questions:
            self._try(question)

    def _leader_changed(self) -> None:
        leader = self._quorum.leader_node
        for lane in (self._own_lane, self._clients_lane):
            lane.keep_only(leader)
        if leader is not None or self._local.is_active:
            waiting = [*self._waiting]
            for question in waiting:
                question.breaks = 0
            self._retry(waiting)
            for lane in (self._own_lane, self._clients_lane):
                self._send_queued(lane)


def _read(received: memoryview, message: Request, version: int, question: _Question) -> Response | None:
    """The answer to a question; None where the receiver is not the active controller, or did not understand."""
    _, answer = read_response(received, message.api_key, version)
    if not isinstance(answer, EnvelopeResponse):
        return answer
    if answer.error_code == ErrorCode.NONE and answer.response_data is not None and question.context is not None:
        return envelopes.read_answer(answer.response_data, question.request, question.context)
    error = ErrorCode.of(answer.error_code)
    return None if error is ErrorCode.NOT_CONTROLLER else refusal_of(question.request, error)


def _ignore(_event: Event) -> None:
    """Nothing to do: what happens to a connection shows in the outcome of its requests."""
