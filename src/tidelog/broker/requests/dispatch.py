# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""From frames to handlers and back: reads a request, finds who answers it, sends the answer into its slot, and counts.

A request that cannot be read, an API that is not served on the listener, or a version that is not announced ends the connection
with one log line, as in Kafka: whoever sends such things has not asked ApiVersions, and no answer would be understood.
ApiVersions itself is answered in any version (KIP-511).

What an API in one version takes is looked up once a listener (`Served`). A typed request is then read in place, and a typed
answer written with its header and size into one buffer; any other goes through `tidelog.wire.codec`, which also says what is
wrong with bytes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tidelog import plain_cython
from tidelog.broker.data.produce_lane import ProduceLane
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import HANDLERS, Handler
from tidelog.model.pending import Failed, Pending
from tidelog.wire.apis import Api, api
from tidelog.wire.codec import decode_from, encode, encode_parts, parts_bytes
from tidelog.wire.errors import MalformedError, UnsupportedVersionError
from tidelog.wire.frames import is_unknown_api_versions, read_request_header, unsupported_version_response
from tidelog.wire.messages.headers import ResponseHeader
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.typed.headers import RequestHeader
from tidelog.wire.typed.message import TypedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    import cython

    from tidelog.broker.metrics.request_counts import RequestCounts
    from tidelog.broker.requests.caller import Authorizer
    from tidelog.broker.requests.node_view import Node
    from tidelog.net.connection import AnswerSlot, Connection
    from tidelog.wire.schema import Response
else:
    cython = plain_cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.fields import blank, frame_start, int16
    from cython.cimports.tidelog.wire.typed.message import encode_typed_parts
else:
    from tidelog.wire.typed._plain_fields import blank, frame_start, int16
    from tidelog.wire.typed.message import encode_typed_parts

logger = logging.getLogger(__name__)

CORRELATION_BYTES = 4
SIZE_BYTES = 4

_PRODUCE_KEY = int(ProduceRequest.api_key)

# More than there are, of either: what is served is kept in one list. Others are not served.
_KEYS = 128
_VERSIONS = 64


class Served:
    """An API in one version, as one listener serves it."""

    __slots__ = (
        "answer",
        "counts",
        "header_version",
        "is_typed",
        "key",
        "request",
        "response_header_version",
        "version",
        "wakes",
    )

    def __init__(self, asked: Api, version: int, handler: Handler, counts: RequestCounts) -> None:
        self.key = int(asked.key)
        self.version = version
        self.request = asked.request
        self.is_typed = issubclass(asked.request, TypedMessage)
        self.answer = handler.answer
        self.wakes = handler.wakes
        self.counts = counts
        self.header_version = asked.request_header_version(version)
        self.response_header_version = asked.response_header_version(version)


class LaterAnswer:
    """What sends the answer of a request that waits: the callback of its `Pending`."""

    __slots__ = ("_begun_ns", "_correlation_id", "_done_ns", "_now_ns", "_request_bytes", "_served", "_slot")

    def __init__(
        self,
        served: Served,
        slot: AnswerSlot,
        correlation_id: int,
        request_bytes: int,
        begun_ns: int,
        done_ns: int,
        now_ns: Callable[[], int],
    ) -> None:
        self._served = served
        self._slot = slot
        self._correlation_id = correlation_id
        self._request_bytes = request_bytes
        self._begun_ns = begun_ns
        self._done_ns = done_ns
        self._now_ns = now_ns

    def __call__(self, answer: Response | Failed) -> None:
        counts = self._served.counts
        if isinstance(answer, Failed):
            counts.waiting -= 1
            _give_up(self._slot, answer.error)
            return
        try:
            sent_bytes = _send(self._slot, self._served, answer, self._correlation_id, self._served.wakes)
            elapsed_ns = self._now_ns() - self._begun_ns
            local_ns = self._done_ns - self._begun_ns
            counts.answered_later(local_ns, elapsed_ns, self._request_bytes, sent_bytes, answer)
        except Exception as error:  # noqa: BLE001 - logged
            # Whoever completed the answer, on whose stack this runs, has done nothing wrong.
            _give_up(self._slot, error)


class Dispatcher:
    """The `FrameHandler` of one listener."""

    __slots__ = (
        "_authorizer",
        "_begun_ns",
        "_caller",
        "_counts",
        "_header",
        "_lane",
        "_listener_kind",
        "_node",
        "_now_ns",
        "_served",
        "is_ready",
    )

    def __init__(self, node: Node, authorizer: Authorizer, listener_kind: str) -> None:
        # What clients send all day has a fast path; the listener of a controller has none.
        self._lane: ProduceLane | None = None
        if listener_kind == "broker":
            self._lane = ProduceLane(node, authorizer)
        self._node = node
        self._authorizer = authorizer
        self._listener_kind = listener_kind
        self._now_ns = node.clock.monotonic_ns
        self._counts = node.metrics.requests
        # By key and version; None where nobody has asked yet.
        self._served: list[Served | None] = [None] * (_KEYS * _VERSIONS)
        # That of the request at hand, until its handler is called.
        self._header: Any = RequestHeader(request_api_key=0, request_api_version=0, correlation_id=0, client_id=None)
        # That of the last request: most of them come from the same client, and ask for the same.
        self._caller: Caller | None = None
        # When the last request of this read was done: the next one begins there. 0 before the first.
        self._begun_ns = 0
        # Nothing is answered before the node knows the cluster: a client would believe what it hears.
        self.is_ready = False

    def connection_opened(self, connection: Connection) -> None:
        if not self.is_ready:
            connection.abort()

    def connection_closed(self, connection: Connection) -> None: ...

    def frames_done(self, connection: Connection) -> None:
        lane = self._lane
        if lane is not None and lane.is_open:
            lane.finish(connection)
        self._begun_ns = 0

    def frame(self, connection: Connection, frame: memoryview) -> None:
        # Only a look at which lane to ask: a frame that is too short, or of no such API, is none of theirs.
        key = frame[1] if len(frame) > 1 else -1
        lane = self._lane
        if lane is not None:
            if key == _PRODUCE_KEY and lane.take(connection, frame):
                return
            # Whatever this request sees, it comes after those before it.
            if lane.is_open:
                lane.finish(connection)
        self._handle(connection, frame, self._begun_ns or self._now_ns())

    # --- requests ----------------------------------------------------------------------------------------------------------

    def _handle(self, connection: Connection, frame: memoryview, begun_ns: int) -> None:
        served = self._known(frame)
        request = None if served is None else self._read(served, frame)
        if served is None or request is None:
            try:
                read = self._read_carefully(connection, frame)
            except (MalformedError, UnsupportedVersionError) as error:
                logger.warning("closing %s: %s", connection, error)
                connection.close_when_sent()
                return
            if read is None:
                return
            served, request = read
        correlation_id = self._header.correlation_id
        outcome = served.answer(request, self._caller_of(connection, served), self._node)
        request_bytes = len(frame)
        counts = served.counts
        if outcome is None:
            self._begun_ns = done_ns = self._now_ns()
            counts.unanswered(done_ns - begun_ns, request_bytes)
        elif isinstance(outcome, Pending):
            slot = connection.expect_answer()
            self._begun_ns = done_ns = self._now_ns()
            counts.waiting += 1
            outcome.then(LaterAnswer(served, slot, correlation_id, request_bytes, begun_ns, done_ns, self._now_ns))
        else:
            sent_bytes = _send_now(connection, served, outcome, correlation_id)
            self._begun_ns = done_ns = self._now_ns()
            counts.answered(done_ns - begun_ns, request_bytes, sent_bytes, outcome)

    def _known(self, frame: memoryview) -> Served | None:
        """What a request asks for, where it was asked for before."""
        if len(frame) < 4:
            return None
        data = frame_start(frame)
        key = int16(data, 0)
        version = int16(data, 2)
        if not 0 <= key < _KEYS or not 0 <= version < _VERSIONS:
            return None
        known: Served | None = self._served[key * _VERSIONS + version]
        return known

    def _read(self, served: Served, frame: memoryview) -> Any:
        """A request of a kind that is served, and its header. None: something is wrong with it."""
        data = frame_start(frame)
        end = len(frame)
        try:
            at = self._header.read(data, 0, end, served.header_version, frame)
            if at < 0:
                return None
            if not served.is_typed:
                return decode_from(served.request, served.version, frame, at)[0]
            typed = blank(served.request)
            return None if typed.read(data, at, end, served.version, frame) < 0 else typed
        except (UnicodeDecodeError, MalformedError):
            return None

    def _read_carefully(self, connection: Connection, frame: memoryview) -> tuple[Served, Any] | None:
        """What a request asks for, and the request. None: it was answered. MalformedError, UnsupportedVersionError: what is
        wrong with it."""
        header, position = read_request_header(frame)
        if is_unknown_api_versions(header):
            head = encode(ResponseHeader(correlation_id=header.correlation_id), 0)
            connection.expect_answer().send([head + encode(unsupported_version_response(), 0)])
            return None
        key, version = header.request_api_key, header.request_api_version
        served = self._serve(key, version)
        request = decode_from(served.request, version, frame, position)[0]
        self._header = header
        return served, request

    def _serve(self, key: int, version: int) -> Served:
        asked = api(key)
        handler = HANDLERS.get(key)
        if handler is None or self._listener_kind not in handler.listener_kinds:
            raise UnsupportedVersionError(f"{asked.name} is not served on this listener")
        if not handler.lowest <= version <= handler.highest:
            raise UnsupportedVersionError(f"{asked.name} is not served in version {version}")
        served = self._served[key * _VERSIONS + version]
        if served is None:
            served = Served(asked, version, handler, self._counts[key, version])
            self._served[key * _VERSIONS + version] = served
        return served

    def _caller_of(self, connection: Connection, served: Served) -> Caller:
        caller = self._caller
        client_id = self._header.client_id
        if (
            caller is None
            or caller.connection is not connection
            or caller.client_id is not client_id
            or caller.api_key != served.key
            or caller.api_version != served.version
        ):
            caller = Caller(connection, client_id, served.key, served.version, self._authorizer)
            self._caller = caller
        return caller


# --- answers ---------------------------------------------------------------------------------------------------------------


def _give_up(slot: AnswerSlot, error: Exception) -> None:
    """An answer that cannot be made, or not be encoded, is a bug: it costs the asker its connection, and nobody else anything."""
    logger.error("closing %s: its answer failed: %r", slot.connection, error, exc_info=error)
    slot.close_connection()


def _send_now(connection: Connection, served: Served, answer: Response, correlation_id: int) -> int:
    """Answers a request for which no slot was opened. How many bytes that takes."""
    if isinstance(answer, TypedMessage):
        parts = encode_typed_parts(answer, served.version, correlation_id, served.response_header_version, True)
        if parts is not None and len(parts) == 1:
            connection.answer_with_frames(parts)
            return len(parts[0]) - SIZE_BYTES
        if parts is not None:
            # The slot puts the size of all in front.
            parts[0] = parts[0][SIZE_BYTES:]
            connection.expect_answer().send(parts)
            return parts_bytes(parts)
    return _send(connection.expect_answer(), served, answer, correlation_id, False)


def _send(slot: AnswerSlot, served: Served, answer: Response, correlation_id: int, at_once: bool) -> int:
    """Gives the answer into its slot. How many bytes it takes."""
    parts: Any = None
    if isinstance(answer, TypedMessage):
        parts = encode_typed_parts(answer, served.version, correlation_id, served.response_header_version, False)
    if parts is None:
        # No tagged fields end the header of newer versions.
        header = correlation_id.to_bytes(CORRELATION_BYTES, "big", signed=True) + bytes(served.response_header_version)
        parts = encode_parts(answer, served.version)
        if isinstance(parts[0], bytes):
            parts[0] = header + parts[0]
        else:
            parts.insert(0, header)
    if at_once:
        # Who sleeps takes long to wake, and there is more to do here: the append that it waited for is still to be answered.
        slot.send_at_once(parts)
    else:
        slot.send(parts)
    return len(parts[0]) if len(parts) == 1 else parts_bytes(parts)
