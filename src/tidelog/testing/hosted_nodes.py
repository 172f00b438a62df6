"""The nodes of an embedded cluster in the process of the test: on one thread, as real as any, and gone at once when killed.

A node that is killed is abandoned: it writes nothing more, and its files stay as they are, without the flush and the marks of a
clean stop. For a process that really dies there is `NodeProcesses`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from tidelog.broker.node.hosting import HostedNode
from tidelog.model.config import ConfigValues
from tidelog.model.ids import TopicId, TopicName
from tidelog.testing.faults import Faults
from tidelog.testing.loop_thread import LoopThread
from tidelog.testing.network import CuttableTransport, Network, Side


class HostedNodes:
    """Started once, by their numbers."""

    def __init__(self, thread: LoopThread, faults: Faults) -> None:
        self._thread = thread
        self._faults = faults
        self._network = Network()
        self._hosted: dict[int, HostedNode] = {}
        # Set whenever a node has heard something new of the cluster.
        self._heard = asyncio.Event()
        faults.serve(self._on_thread, self._names_at)

    def start(self, configs: Mapping[int, ConfigValues]) -> dict[int, str]:
        """Return once all serve: where each does. START_ERRORS; where one cannot start, none is left."""
        self._thread.call(self._start_all(configs))
        return {node_id: each.node.bootstrap_address for node_id, each in self._hosted.items()}

    @property
    def cluster_id(self) -> str:
        return next(iter(self._hosted.values())).node.cluster_id

    @property
    def running(self) -> list[int]:
        return sorted(self._hosted)

    def kill(self, node_id: int) -> None:
        """It stops as a crash would have it stop. One that does not run stays so."""
        hosted = self._hosted.pop(node_id, None)
        if hosted is None:
            return

        async def abandon() -> None:
            self._faults.node_ended(node_id)
            hosted.abandon()

        self._thread.call(abandon())

    def restart(self, node_id: int, config: ConfigValues) -> None:
        """Return once it serves again. START_ERRORS."""
        self._thread.call(self._start_all({node_id: config}))

    def stop(self, *, is_kept: bool) -> None:
        """Stop all, and only then raise what the first of them met. What is not kept is not stopped cleanly either."""
        hosted, self._hosted = self._hosted, {}
        if hosted:
            self._thread.call(self._stop_all(hosted, is_kept=is_kept))

    async def known_everywhere(self, topic: str) -> None:
        """Return once every node has heard of a topic: a client may ask any of them."""
        while not all(TopicName(topic) in each.node.image.topic_ids for each in self._hosted.values()):
            self._heard.clear()
            await self._heard.wait()

    def cut(self, sides: Iterable[Iterable[Side]], nodes: Iterable[int]) -> None:
        async def cut() -> None:
            self._network.cut([frozenset(side) for side in sides], nodes)

        self._thread.call(cut())

    def heal(self) -> None:
        async def heal() -> None:
            self._network.heal()

        self._thread.call(heal())

    # ------------------------------------------------------------------------------------------------------------------------

    def _on_thread(self, work: Callable[[], None]) -> None:
        async def do() -> None:
            work()

        self._thread.call(do())

    def _names_at(self, node_id: int) -> Callable[[bytes], str | None]:
        def name_of(topic_id: bytes) -> str | None:
            hosted = self._hosted.get(node_id)
            known = None if hosted is None else hosted.node.image.topics.get(TopicId(topic_id))
            return None if known is None else known.name

        return name_of

    async def _start_all(self, configs: Mapping[int, ConfigValues]) -> None:
        loop = asyncio.get_running_loop()
        started = await asyncio.gather(
            *(
                HostedNode.start(config, transport=CuttableTransport(loop, self._network, node_id))
                for node_id, config in configs.items()
            ),
            return_exceptions=True,
        )
        for outcome in started:
            if isinstance(outcome, BaseException):
                for each in started:
                    if isinstance(each, HostedNode):
                        each.abandon()
                raise outcome
        for node_id, hosted in zip(configs, started, strict=True):
            assert isinstance(hosted, HostedNode)
            self._hosted[node_id] = hosted
            hosted.node.on_image(self._heard.set)
            self._faults.node_started(node_id, hosted.node.listeners)

    async def _stop_all(self, hosted: Mapping[int, HostedNode], *, is_kept: bool) -> None:
        for node_id in hosted:
            self._faults.node_ended(node_id)
        if len(hosted) > 1 and not is_kept:
            # A clean stop of the last node waits seconds for a quorum that is gone, to write what nobody reads.
            faults = [each.node.fault for each in hosted.values() if each.node.fault is not None]
            for each in hosted.values():
                each.abandon()
            if faults:
                raise faults[0]
            return
        for outcome in await asyncio.gather(*(each.stop() for each in hosted.values()), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
