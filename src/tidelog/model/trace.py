"""Who listens to something that happens: a partition, a group, a transaction.

    trace.tell(event)      where it happens, only while somebody listens: whoever tells has a slot that is None otherwise
    ring.take(256)         where it is sent: what has come since, with its number and its time

Nothing ever waits for a listener. Each has a ring of its own; what does not fit is dropped, counted, and told in its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidelog.model.trace_events import Dropped, TraceEvent

# About 2 MB of a node's memory for a listener that never reads.
RING_EVENTS_MAX = 4096


class TraceRing:
    """The events that one listener has still to get, bounded. `wake` is called when something comes after it had taken all."""

    __slots__ = ("_dropped", "_entries", "_is_awake", "_sequence", "_wake", "is_ended")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._is_awake = False
        self._entries: deque[tuple[int, int, TraceEvent]] = deque()
        self._sequence = 0
        self._dropped = 0
        self.is_ended = False
        """Whether nothing more comes."""

    def offer(self, at_ns: int, event: TraceEvent) -> None:
        """Add an event, or count it as dropped where there is no room."""
        entries = self._entries
        if len(entries) >= RING_EVENTS_MAX:
            self._dropped += 1
            return
        if self._dropped:
            self._tell_dropped(at_ns)
        entries.append((self._sequence, at_ns, event))
        self._sequence += 1
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def take(self, count: int, now_ns: int) -> list[tuple[int, int, TraceEvent]]:
        """The next events, at most so many, each with its number and when it happened. None left: the next one wakes."""
        entries = self._entries
        taken = [entries.popleft() for _ in range(min(count, len(entries)))]
        if not entries and self._dropped:
            # What was dropped is told also where nothing comes after it.
            self._tell_dropped(now_ns)
        if not taken and not entries:
            self._is_awake = False
        return taken

    def end(self, at_ns: int, event: TraceEvent) -> None:
        """The last event, for which there is always room."""
        if self._dropped:
            self._tell_dropped(at_ns)
        self._entries.append((self._sequence, at_ns, event))
        self.is_ended = True
        self._is_awake = True
        self._wake()

    def _tell_dropped(self, at_ns: int) -> None:
        self._entries.append((self._sequence, at_ns, Dropped(self._dropped)))
        # The numbers of what was dropped are not given again.
        self._sequence += 1 + self._dropped
        self._dropped = 0


class Trace:
    """The listeners of one thing. Whoever makes it sees to it that it is let go when the last one has left."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._rings: list[TraceRing] = []

    @property
    def is_heard(self) -> bool:
        return bool(self._rings)

    def add(self, ring: TraceRing) -> None:
        self._rings.append(ring)

    def remove(self, ring: TraceRing) -> None:
        """Harmless for one that does not listen."""
        if ring in self._rings:
            self._rings.remove(ring)

    def tell(self, event: TraceEvent) -> None:
        """Something has just happened."""
        at_ns = self._now_ns()
        for ring in self._rings:
            ring.offer(at_ns, event)

    def end(self, event: TraceEvent) -> None:
        """Nothing more will happen to it."""
        at_ns = self._now_ns()
        rings, self._rings = self._rings, []
        for ring in rings:
            ring.end(at_ns, event)
