"""A node as clients meet it: real sockets, real files, on a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from tidelog.broker.config.server_properties import check_properties
from tidelog.broker.node.crash import CrashHandler
from tidelog.broker.node.node import BrokerNode
from tidelog.model.clock import Clock, SystemClock
from tidelog.model.slow_work import ThreadSlowWork
from tidelog.net.address import Address
from tidelog.net.transport import LoopTransport
from tidelog.storage.os_files import OsFiles
from tidelog.storage.seams import Seams

T = TypeVar("T")

# Far beyond anything that passes; a test that gets here has failed.
DEADLINE_S = 30.0


def node_properties(directory: Path, *, port: int = 0, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The configuration of a node of its own cluster on this machine; port 0 is any free one."""
    return {
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory),
        **(settings or {}),
    }


async def start_node(
    properties: Mapping[str, str],
    metrics_address: Address | None = None,
    *,
    clock: Clock | None = None,
    random: Random | None = None,
) -> tuple[BrokerNode, ThreadSlowWork]:
    """A node that serves on the running loop, and the threads to close once it has stopped."""
    loop = asyncio.get_running_loop()
    slow_work = ThreadSlowWork(loop.call_soon_threadsafe)
    seams = Seams(OsFiles(), clock or SystemClock(), slow_work, random or Random())
    try:
        config = check_properties(properties, strict=True).values
        node = await BrokerNode.start(
            config, seams, loop, LoopTransport(loop), metrics_address=metrics_address, crashes=CrashHandler.of(loop)
        )
    except BaseException:
        slow_work.close()
        raise
    return node, slow_work


class RunningNode:
    """Serves inside a `with`, then stops cleanly. A second one on the same directory is the same node, started again."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        metrics_address: Address | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._clock, self._random = clock, random
        self._metrics_address = metrics_address
        self._properties = node_properties(directory, port=port, settings=settings)
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="node", daemon=True)

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap_address

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the node's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.node, self._slow_work = self.run(
                start_node(self._properties, self._metrics_address, clock=self._clock, random=self._random)
            )
        except BaseException:
            self._end_loop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run(self.node.stop())
            self._slow_work.close()
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()
