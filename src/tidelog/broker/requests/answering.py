# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""How answers leave: encoded for the version of their request, given to the connection in the order of the requests, and counted.

    send_now(connection, served, answer, correlation_id)      the answer of a request for which no slot was opened
    encoded_frame(served, answer, correlation_id)             the same as one frame, for several that leave together
    LaterAnswer(served, slot, ...)                            the callback of a `Pending`: sends what it completes with

A typed answer is written with its header and size into one buffer; any other goes through `tidelog.wire.codec`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tidelog import plain_cython
from tidelog.model.pending import Failed
from tidelog.wire.codec import encode_parts, parts_bytes
from tidelog.wire.typed.message import TypedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    import cython

    from tidelog.broker.metrics.request_counts import RequestCounts
    from tidelog.broker.requests.handling import Handler
    from tidelog.net.connection import AnswerSlot, Connection
    from tidelog.wire.apis import Api
    from tidelog.wire.schema import Response
else:
    cython = plain_cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.message import encode_typed_parts
else:
    from tidelog.wire.typed.message import encode_typed_parts

logger = logging.getLogger(__name__)

CORRELATION_BYTES = 4
SIZE_BYTES = 4


class Served:
    """An API in one version, as one listener serves it."""

    __slots__ = (
        "answer",
        "counts",
        "header_version",
        "is_typed",
        "key",
        "metering",
        "request",
        "response_header_version",
        "version",
        "wakes",
    )

    def __init__(self, asked: Api, version: int, handler: Handler, counts: RequestCounts, metering: int) -> None:
        """`metering`: see `quotas.meter.metering_of`."""
        self.key = int(asked.key)
        self.version = version
        self.request = asked.request
        self.is_typed = issubclass(asked.request, TypedMessage)
        self.answer = handler.answer
        self.wakes = handler.wakes
        self.metering = metering
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


def _give_up(slot: AnswerSlot, error: Exception) -> None:
    """An answer that cannot be made, or not be encoded, is a bug: it costs the asker its connection, and nobody else anything."""
    logger.error("closing %s: its answer failed: %r", slot.connection, error, exc_info=error)
    slot.close_connection()


def encoded_frame(served: Served, answer: Response, correlation_id: int) -> bytes | None:
    """A typed answer as one frame, its size in front. None for one that is not typed, or takes several parts."""
    if not isinstance(answer, TypedMessage):
        return None
    parts = encode_typed_parts(answer, served.version, correlation_id, served.response_header_version, True)
    return None if parts is None or len(parts) != 1 else parts[0]


def send_now(connection: Connection, served: Served, answer: Response, correlation_id: int) -> int:
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
