"""From frames to handlers and back: reads a request, finds who answers it, sends the answer into its slot.

A request that cannot be read, an API that is not served on the listener, or a version that is not announced ends the connection
with one log line, as in Kafka: whoever sends such things has not asked ApiVersions, and no answer would be understood.
ApiVersions itself is answered in any version (KIP-511).
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

from tidelog.broker.data.fetch_lane import FETCH_KEY, FetchLane
from tidelog.broker.data.produce_lane import ProduceLane
from tidelog.broker.data.replica_lane import ReplicaLane
from tidelog.broker.groups.group_lane import GroupLane
from tidelog.broker.requests.caller import Authorizer, Caller
from tidelog.broker.requests.handling import HANDLERS, Handler
from tidelog.broker.requests.node_view import Node
from tidelog.broker.transactions.transaction_lane import TransactionLane
from tidelog.kernel_choice import load
from tidelog.model.pending import Failed, Pending
from tidelog.net.connection import AnswerSlot, Connection
from tidelog.wire.apis import api
from tidelog.wire.codec import Part, encode, encode_parts, parts_bytes
from tidelog.wire.errors import MalformedError, UnsupportedVersionError
from tidelog.wire.frames import (
    is_unknown_api_versions,
    read_request,
    read_request_header,
    unsupported_version_response,
)
from tidelog.wire.messages.headers import ResponseHeader
from tidelog.wire.schema import Response

if TYPE_CHECKING:
    from tidelog.broker.data.kernels.dispatch_kernel import DispatcherCore, Taker
else:
    DispatcherCore = load("tidelog.broker.data.kernels", "dispatch_kernel").DispatcherCore

logger = logging.getLogger(__name__)

CORRELATION_BYTES = 4


class Dispatcher(DispatcherCore):
    """The `FrameHandler` of one listener."""

    def __init__(self, node: Node, authorizer: Authorizer, listener_kind: str) -> None:
        # What clients send all day has a short way; the listener of a controller has none.
        lane: ProduceLane | None = None
        takers: dict[int, tuple[Taker, ...]] = {}
        if listener_kind == "broker":
            lane = ProduceLane(node, authorizer)
            others = {**GroupLane(node, authorizer).takers(), **TransactionLane(node, authorizer).takers()}
            takers = {key: (take,) for key, take in others.items()}
            takers[FETCH_KEY] = (FetchLane(node, authorizer).take, ReplicaLane(node, authorizer).take)
        super().__init__(node.clock, lane, takers)
        self._node = node
        self._authorizer = authorizer
        self._listener_kind = listener_kind
        self._handlers: dict[tuple[int, int], Handler] = {}
        self._counts = node.metrics.requests
        # Nothing is answered before the node knows the cluster: a client would believe what it hears.
        self.is_ready = False

    def connection_opened(self, connection: Connection) -> None:
        if not self.is_ready:
            connection.abort()

    def connection_closed(self, connection: Connection) -> None: ...

    def _handle(self, connection: Connection, frame: memoryview, begun_ns: int) -> None:
        try:
            header, position = read_request_header(frame)
            if is_unknown_api_versions(header):
                answer = unsupported_version_response()
                _send(connection.expect_answer(), answer, 0, header.correlation_id)
                return
            version = header.request_api_version
            key = header.request_api_key
            handler = self._handlers.get((key, version)) or self._handler_of(key, version)
            request = read_request(frame, header, position)
        except (MalformedError, UnsupportedVersionError) as error:
            logger.warning("closing %s: %s", connection, error)
            connection.close_when_sent()
            return
        caller = Caller(connection, header.client_id, header.request_api_key, version, self._authorizer)
        outcome = handler.answer(request, caller, self._node)
        counts = self._counts[header.request_api_key, version]
        request_bytes = len(frame)
        if outcome is None:
            self._begun_ns = done_ns = self._now_ns()
            counts.unanswered(done_ns - begun_ns, request_bytes)
            return
        slot, correlation_id = connection.expect_answer(), header.correlation_id
        if isinstance(outcome, Pending):
            self._begun_ns = done_ns = self._now_ns()

            def answer_later(answer: Response | Failed) -> None:
                if isinstance(answer, Failed):
                    counts.waiting -= 1
                    _give_up(slot, answer.error)
                    return
                try:
                    sent_bytes = _send(slot, answer, version, correlation_id)
                    elapsed_ns = self._now_ns() - begun_ns
                    counts.answered_later(done_ns - begun_ns, elapsed_ns, request_bytes, sent_bytes, answer)
                except Exception as error:  # noqa: BLE001 - logged
                    # Whoever completed the answer, on whose stack this runs, has done nothing wrong.
                    _give_up(slot, error)

            counts.waiting += 1
            outcome.then(answer_later)
        else:
            sent_bytes = _send(slot, outcome, version, correlation_id)
            self._begun_ns = done_ns = self._now_ns()
            counts.answered(done_ns - begun_ns, request_bytes, sent_bytes, outcome)

    def _handler_of(self, key: int, version: int) -> Handler:
        handler, served = HANDLERS.get(key), api(key)
        if handler is None or self._listener_kind not in handler.listener_kinds:
            raise UnsupportedVersionError(f"{served.name} is not served on this listener")
        if not handler.lowest <= version <= handler.highest:
            raise UnsupportedVersionError(f"{served.name} is not served in version {version}")
        self._handlers[key, version] = handler
        return handler


@cache
def _header_end(api_key: int, version: int) -> bytes:
    """What follows the correlation id in an answer's header: the tagged fields of newer versions, of which there are none."""
    header_version = api(api_key).response_header_version(version)
    return encode(ResponseHeader(correlation_id=0), header_version)[CORRELATION_BYTES:]


def _give_up(slot: AnswerSlot, error: Exception) -> None:
    """An answer that cannot be made, or not be encoded, is a bug: it costs the asker its connection, and nobody else anything."""
    logger.error("closing %s: its answer failed: %r", slot.connection, error, exc_info=error)
    slot.close_connection()


def _send(slot: AnswerSlot, answer: Response, version: int, correlation_id: int) -> int:
    """Gives the answer into its slot. How many bytes it takes."""
    header = correlation_id.to_bytes(CORRELATION_BYTES, "big", signed=True) + _header_end(answer.api_key, version)
    parts: list[Any] = encode_parts(answer, version)
    first: Part = parts[0]
    if isinstance(first, bytes):
        parts[0] = header + first
    else:
        parts.insert(0, header)
    slot.send(parts)
    return len(parts[0]) if len(parts) == 1 else parts_bytes(parts)
