"""A node on this machine's own clock, disk, network and threads: what a process or a test program runs.

The one place beside the simulator that fills in the seams.
"""

from __future__ import annotations

import asyncio
from random import SystemRandom
from typing import Self

from tidelog.broker.metrics.process_metrics import register_process
from tidelog.broker.node.crash import CrashHandler
from tidelog.broker.node.node import BrokerNode, NodeError
from tidelog.controller.errors import MetadataError
from tidelog.controller.formatting import FormatError
from tidelog.model.clock import SystemClock
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.slow_work import ThreadSlowWork
from tidelog.net.address import Address
from tidelog.net.errors import NetError
from tidelog.net.http_endpoint import OPEN_ACCESS, HttpAccess
from tidelog.net.transport import LoopTransport, Transport
from tidelog.storage.errors import StorageError
from tidelog.storage.os_files import OsFiles
from tidelog.storage.seams import Seams

START_ERRORS = (ConfigError, FormatError, MetadataError, NodeError, NetError, StorageError)
"""Why a node cannot start, each in one sentence. Anything else is a bug."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop that there is."""
    try:
        import uvloop  # noqa: PLC0415 - not built for every interpreter
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class HostedNode:
    """A node that serves, with the threads that work for it. Lives on the loop that was running when it started."""

    def __init__(self, node: BrokerNode, slow_work: ThreadSlowWork) -> None:
        self.node = node
        self._slow_work = slow_work

    @classmethod
    async def start(
        cls,
        config: ConfigValues,
        *,
        metrics_address: Address | None = None,
        metrics_access: HttpAccess = OPEN_ACCESS,
        transport: Transport | None = None,
    ) -> Self:
        """START_ERRORS say why it cannot be. With an address for them, the node shows its metrics and its health there.
        `transport` is the machine's own unless another is given."""
        loop = asyncio.get_running_loop()
        slow_work = ThreadSlowWork(loop.call_soon_threadsafe)
        seams = Seams(OsFiles(), SystemClock(), slow_work, SystemRandom())
        try:
            node = await BrokerNode.start(
                config,
                seams,
                loop,
                LoopTransport(loop) if transport is None else transport,
                metrics_address=metrics_address,
                metrics_access=metrics_access,
                crashes=CrashHandler.of(loop),
            )
        except BaseException:
            slow_work.close()
            raise
        register_process(node.metrics.registry)
        return cls(node, slow_work)

    async def stop(self) -> None:
        """Stop cleanly: the next start reads no log."""
        try:
            await self.node.stop()
        finally:
            self._slow_work.close()

    def abandon(self) -> None:
        """Stop at once, as a crash would."""
        self.node.abandon()
        self._slow_work.close()
