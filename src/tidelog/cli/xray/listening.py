"""Listens to all nodes that have a partition, and to the coordinators of its groups: their events, put together.

    with Listening(pages, partition, nodes) as listening:
        await listening.begun()
        ...
        await listening.wait(lambda events: ..., timeout_s)      the events so far, in one order

Nodes without such a port are left out; why a node tells nothing is kept as a sentence.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from tidelog.cli.xray.node_pages import Listener, NodePages
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.trace_clocks import ClockView
from tidelog.console.trace_merge import Merged, TraceMerge
from tidelog.model.clock import SystemClock

Event = Mapping[str, Any]

_BEGIN_S = 5.0
_TURN_S = 0.01
# What is kept of what was heard: a probe's events are among the last.
EVENTS_MAX = 50_000


class Listening:
    """From `with` on, in threads of its own."""

    def __init__(
        self, pages: NodePages, partition: TopicPartition, nodes: Iterable[int], groups: Mapping[str, int]
    ) -> None:
        """`groups` with the nodes that coordinate them."""
        self.problems: dict[int, str] = {}
        self._pages = pages
        self._partition = partition
        self._nodes = [node for node in nodes if node in pages.urls]
        self._groups = {group: node for group, node in groups.items() if node in pages.urls}
        self._lines: queue.SimpleQueue[tuple[str, int, Mapping[str, Any] | str]] = queue.SimpleQueue()
        self._listeners: list[Listener] = []
        self._clock = SystemClock()
        # They are put in order when all of a record's have come, not before.
        self._merge = TraceMerge(hold_s=float("inf"))
        self._events: list[Event] = []
        self._come: list[Event] = []

    @property
    def traced(self) -> list[int]:
        """The nodes that tell what happens in them."""
        return [node for node in self._nodes if node not in self.problems]

    def __enter__(self) -> Self:
        topic, index = self._partition
        for node in self._nodes:
            self._listen(f"node {node}", node, {"topic": topic, "partition": str(index)})
        for group, node in self._groups.items():
            self._listen(f"group {group}", node, {"group": group})
        return self

    def __exit__(self, *failure: object) -> None:
        for listener in self._listeners:
            listener.close()

    def _listen(self, source: str, node: int, query: Mapping[str, str]) -> None:
        self._listeners.append(self._pages.listen(node, query, lambda line: self._lines.put((source, node, line))))

    async def begun(self) -> None:
        """Every stream has begun, or will not: what happens from now on is heard."""
        for listener in self._listeners:
            await asyncio.to_thread(listener.is_open.wait, _BEGIN_S)
        self._take()

    def clocks(self) -> dict[int, ClockView]:
        return self._merge.clocks()

    async def wait(self, is_enough: Callable[[Sequence[Event]], bool], timeout_s: float) -> bool:
        """Until the lines that have come, each node's in their order, are enough; whether they were, in time."""
        deadline_ms = self._clock.monotonic_ms() + int(timeout_s * 1000)
        while True:
            self._take()
            if is_enough(self._come):
                return True
            if self._clock.monotonic_ms() >= deadline_ms:
                return False
            await asyncio.sleep(_TURN_S)

    def heard(self) -> list[Event]:
        """All that was heard since the last time, in one order."""
        self._take()
        self._keep(self._merge.flush())
        heard, self._events, self._come = self._events, [], []
        return heard

    def _take(self) -> None:
        now_s = self._clock.monotonic_ms() / 1000
        while True:
            try:
                source, node, line = self._lines.get_nowait()
            except queue.Empty:
                break
            if isinstance(line, str):
                if source.startswith("node"):
                    self.problems[node] = line
                self._keep(self._merge.lost(source, line, now_s))
            else:
                self._come.append(line)
                self._keep(self._merge.feed(source, [line], now_s))
        del self._come[:-EVENTS_MAX]

    def _keep(self, merged: Iterable[Merged]) -> None:
        self._events += [
            {**each.line, "at_us": each.at_us, "uncertainty_us": each.uncertainty_us, "sentence": each.sentence}
            for each in merged
        ]
        if len(self._events) > EVENTS_MAX:
            del self._events[: len(self._events) - EVENTS_MAX]
