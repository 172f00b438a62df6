# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""From frames to handlers and back: reads a request, finds who answers it, sends the answer into its slot, and counts.

One way for every request: `frame` decodes it, calls its handler, and passes on what that returns (`answering`). The Produce
requests of one read are gathered by their handler (`data.produce_gather`); the gather is closed before any other request is
handled, and when the read is done.

A request that cannot be read, an API that is not served on the listener, or a version that is not announced ends the connection
with one log line, as in Kafka: whoever sends such things has not asked ApiVersions, and no answer would be understood.
ApiVersions itself is answered in any version (KIP-511).

What an API in one version takes is looked up once a listener (`Served`). A typed request is then read in place; any other goes
through `tidelog.wire.codec`, which also says what is wrong with bytes.

Where clients have quotas, each request has a `Meter` (`quotas.meter`); without any, one look at a flag is all.

Something may be put between a listener and its handlers (`interpose`), as tests do that make requests fail. It takes the place of
the handler in what is looked up, so that requests pay nothing while there is none.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog import plain_cython
from tidelog.broker.data.produce_answer import ProduceAnswer
from tidelog.broker.data.produce_gather import ProduceGather
from tidelog.broker.quotas.meter import ConnectionThrottle, Meter, MeteredAnswer, meter_of, metering_of
from tidelog.broker.requests.answering import LaterAnswer, Served
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import HANDLERS
from tidelog.model.pending import Pending
from tidelog.wire.apis import api
from tidelog.wire.codec import decode_from, encode
from tidelog.wire.errors import MalformedError, UnsupportedVersionError
from tidelog.wire.frames import is_unknown_api_versions, read_request_header, unsupported_version_response
from tidelog.wire.messages.headers import ResponseHeader
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.typed.headers import RequestHeader

if TYPE_CHECKING:
    from collections.abc import Callable

    import cython

    from tidelog.broker.requests.caller import Authorizer
    from tidelog.broker.requests.handling import Interposer
    from tidelog.broker.requests.node_view import Node
    from tidelog.net.connection import Connection
else:
    cython = plain_cython

if cython.compiled:
    from cython.cimports.tidelog.broker.requests.answering import send_now
    from cython.cimports.tidelog.wire.typed.fields_inline import blank, frame_start, int16
else:
    from tidelog.broker.requests.answering import send_now
    from tidelog.wire.typed.fields import blank, frame_start, int16

logger = logging.getLogger(__name__)

_PRODUCE_KEY = int(ProduceRequest.api_key)

# More than there are, of either: what is served is kept in one list. Others are not served.
_KEYS = 128
_VERSIONS = 64


class Dispatcher:
    """The `FrameHandler` of one listener."""

    __slots__ = (
        "_authorizer",
        "_begun_ns",
        "_caller",
        "_counts",
        "_gather",
        "_header",
        "_interposer",
        "_listener_kind",
        "_node",
        "_now_ns",
        "_quotas",
        "_served",
        "is_ready",
        "on_closed",
    )

    def __init__(self, node: Node, authorizer: Authorizer, listener_kind: str) -> None:
        self._node = node
        self._authorizer = authorizer
        self._listener_kind = listener_kind
        self._now_ns = node.clock.monotonic_ns
        self._counts = node.metrics.requests
        self._quotas = node.quotas
        # The Produce requests of the read at hand that are still to be appended and answered.
        self._gather = ProduceGather(node)
        # By key and version; None where nobody has asked yet.
        self._served: list[Served | None] = [None] * (_KEYS * _VERSIONS)
        self._interposer: Interposer | None = None
        # That of the request at hand, until its handler is called.
        self._header: Any = RequestHeader(request_api_key=0, request_api_version=0, correlation_id=0, client_id=None)
        # That of the last request: most of them come from the same client, and ask for the same.
        self._caller: Caller | None = None
        # When the last request of this read was done: the next one begins there. 0 before the first.
        self._begun_ns = 0
        # Nothing is answered before the node knows the cluster: a client would believe what it hears.
        self.is_ready = False
        self.on_closed: Callable[[int], None] | None = None
        """Hears of the end of each connection, by its id."""

    def interpose(self, interposer: Interposer | None) -> None:
        """Have each request of this listener go through `interposer` on its way to its handler, from the next one on."""
        self._interposer = interposer
        self._served = [None] * (_KEYS * _VERSIONS)

    def connection_opened(self, connection: Connection) -> None:
        if not self.is_ready:
            connection.abort()

    def connection_closed(self, connection: Connection) -> None:
        throttle = connection.throttle
        if isinstance(throttle, ConnectionThrottle):
            throttle.close()
        if self.on_closed is not None:
            self.on_closed(connection.connection_id)

    def frames_done(self, connection: Connection) -> None:  # noqa: ARG002
        if self._gather.is_open:
            self._gather.close()
        self._begun_ns = 0

    def frame(self, connection: Connection, frame: memoryview) -> None:
        served = self._known(frame)
        request = None if served is None else self._read(served, frame)
        gather = self._gather
        if gather.is_open and (request is None or served is None or served.key != _PRODUCE_KEY):
            # Whatever this request sees, it comes after those before it.
            gather.close()
            self._begun_ns = gather.done_ns
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
        begun_ns = gather.begun_ns if gather.is_open else self._begun_ns or self._now_ns()
        correlation_id = self._header.correlation_id
        request_bytes = len(frame)
        caller = self._caller_of(connection, served)
        caller.correlation_id = correlation_id
        meter: Meter | None = None
        if self._quotas.is_on:
            meter = caller.meter = self._meter_of(connection, served, begun_ns)
        outcome: Any = served.answer(request, caller, self._node)
        if meter is not None:
            # The caller may be that of later requests, too.
            caller.meter = None
            if served.key == _PRODUCE_KEY:
                meter.produced(request_bytes)
        if type(outcome) is ProduceAnswer:
            # It is sent when the gather is closed.
            gathered = outcome
            gathered.served = served
            gathered.correlation_id = correlation_id
            gathered.request_bytes = request_bytes
            gather.begun_ns = begun_ns
            if meter is not None:
                self._gathered(gathered, meter)
            return
        # The handler may have closed the gather first.
        begun_ns = max(begun_ns, gather.done_ns)
        if meter is not None:
            meter.begins_at(begun_ns)
        counts = served.counts
        if outcome is None:
            self._begun_ns = done_ns = self._now_ns()
            if meter is not None:
                meter.unanswered(done_ns)
            counts.unanswered(done_ns - begun_ns, request_bytes)
        elif isinstance(outcome, Pending):
            slot = connection.expect_answer()
            self._begun_ns = done_ns = self._now_ns()
            counts.waiting += 1
            answer: Any = LaterAnswer(served, slot, correlation_id, request_bytes, begun_ns, done_ns, self._now_ns)
            if meter is not None:
                meter.handled(done_ns)
                answer = MeteredAnswer(meter, answer, self._now_ns)
            outcome.then(answer)
        else:
            if meter is not None:
                outcome = meter.settled(outcome)
            sent_bytes = send_now(connection, served, outcome, correlation_id)
            self._begun_ns = done_ns = self._now_ns()
            if meter is not None:
                meter.sent(done_ns)
            counts.answered(done_ns - begun_ns, request_bytes, sent_bytes, outcome)

    def answer_api_versions(self, connection: Connection, frame: memoryview) -> None:
        """To a client that has not logged in. As in Kafka it is neither metered nor counted: it is not known yet whose it is."""
        read = self._read_carefully(connection, frame)
        if read is not None:
            served, request = read
            caller = Caller(connection, self._header.client_id, served.key, served.version, self._authorizer)
            answer = served.answer(request, caller, self._node)
            send_now(connection, served, answer, self._header.correlation_id)

    def _meter_of(self, connection: Connection, served: Served, begun_ns: int) -> Meter:
        """What the request takes of its sender's quotas: the answer tells how long the sender is to wait, and nothing more is
        taken from it until then."""
        return meter_of(
            self._quotas,
            self._node.timers,
            self._now_ns,
            connection,
            self._header.client_id,
            served.metering,
            begun_ns,
        )

    def _gathered(self, gathered: ProduceAnswer, meter: Meter) -> None:
        gather = self._gather
        gather.meter = meter
        if meter.produce_throttle_ms:
            # It is the last that is taken for now.
            gathered.response.throttle_time_ms = meter.produce_throttle_ms
            gather.close()
            self._begun_ns = gather.done_ns

    # --- reading -----------------------------------------------------------------------------------------------------------

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
            if self._interposer is not None:
                handler = handler._replace(answer=partial(self._interposer, handler.answer))
            metering = metering_of(key, self._listener_kind == "controller")
            served = Served(asked, version, handler, self._counts[key, version], metering)
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
            caller = Caller(connection, client_id, served.key, served.version, self._authorizer, self._gather)
            self._caller = caller
        return caller
