"""A listener: what it is sent, as lines of JSON.

Each line has `node`, `boot` (another one after each start of the node), `seq` (without a gap, but for what is `dropped`),
`mono_ns` and `wall_ms` of the node's clocks, `type`, and what the type has (`model.trace_events`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from tidelog.model.clock import Clock
from tidelog.model.ids import NodeId
from tidelog.model.trace import TraceRing
from tidelog.model.trace_events import TraceEvent

# One write of a connection, and one turn's worth of encoding.
LINES_PER_PIECE_MAX = 128

_NS_PER_MS = 1_000_000
_encode = msgspec.json.Encoder().encode


class Subject(Protocol):
    """What is listened to."""

    def listen(self, ring: TraceRing) -> TraceEvent:
        """Tell the ring of everything from now on. How things are at the moment."""
        ...

    def leave(self, ring: TraceRing) -> None:
        """Tell it of nothing more."""
        ...

    def beat(self) -> TraceEvent:
        """What a listener is told every few seconds, whatever happens."""
        ...


class TraceFeed:
    """One listener's page: a `PushSource`."""

    def __init__(self, subject: Subject, node_id: NodeId, boot: str, clock: Clock) -> None:
        self._subject = subject
        self._clock = clock
        self._ring: TraceRing | None = None
        self._prefix = f'{{"node":{node_id},"boot":"{boot}","seq":%d,"mono_ns":%d,"wall_ms":%.3f,'
        self._wall_ahead_ns = 0

    def open(self, wake: Callable[[], None]) -> None:
        ring = self._ring = TraceRing(wake)
        self._read_clocks()
        ring.offer(self._clock.monotonic_ns(), self._subject.listen(ring))

    def take(self) -> bytes | None:
        ring = self._ring
        if ring is None:
            return None
        taken = ring.take(LINES_PER_PIECE_MAX, self._clock.monotonic_ns())
        if not taken and ring.is_ended:
            return None
        return b"".join([self._line(number, at_ns, event) for number, at_ns, event in taken])

    def heartbeat(self) -> None:
        if self._ring is not None and not self._ring.is_ended:
            self._read_clocks()
            self._ring.offer(self._clock.monotonic_ns(), self._subject.beat())

    def close(self) -> None:
        ring, self._ring = self._ring, None
        if ring is not None:
            self._subject.leave(ring)

    def _read_clocks(self) -> None:
        self._wall_ahead_ns = self._clock.now_ms() * _NS_PER_MS - self._clock.monotonic_ns()

    def _line(self, number: int, at_ns: int, event: TraceEvent) -> bytes:
        head = self._prefix % (number, at_ns, (at_ns + self._wall_ahead_ns) / _NS_PER_MS)
        return head.encode() + _encode(event)[1:] + b"\n"
