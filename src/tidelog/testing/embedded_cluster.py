"""A cluster inside of the calling process, for tests: real sockets, real files, no other program.

    with EmbeddedCluster() as cluster:                         # or `async with`
        Producer({"bootstrap.servers": cluster.bootstrap_servers})

The node runs on a thread and an event loop of its own, so that blocking clients in the test do not stop it. It keeps its data in
a temporary directory, in memory where the system has such a file system with room, and listens on free ports of 127.0.0.1 only.

    new -> started -> stopped, each once; `stop` may be called again, and before the start
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.broker.hosting import START_ERRORS, HostedNode, new_event_loop
from tidelog.broker.local_cluster import LocalNode, local_properties
from tidelog.broker.server_properties import check_properties
from tidelog.client.admin import AsyncAdmin
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.errors import ErrorCode

T = TypeVar("T")

MEMORY_DIRECTORY = "/dev/shm"  # noqa: S108 - the one place that Linux has for this; a private directory is made in it

# Containers often have 64 MB there. A full file system would take the cluster down, so a small one is not used.
MEMORY_FREE_BYTES_MIN = 1 << 30

# A start or stop that takes this long will never end; a test should fail then, not hang.
TIMEOUT_S = 30.0


class ClusterError(Exception):
    """The cluster cannot do what it was asked for; one sentence says why."""


class EmbeddedCluster:
    """A cluster of one node. `config` holds keys of `server.properties`; `directory` is kept, a temporary one is removed."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        config: Mapping[str, str | int | bool] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        if nodes != 1:
            raise ClusterError(f"an embedded cluster of {nodes} nodes is not supported yet: only one node is")
        self._config = {name: _as_text(value) for name, value in (config or {}).items()}
        self._given_directory = None if directory is None else str(directory)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hosted: HostedNode | None = None
        self._remove_directory: weakref.finalize[..., EmbeddedCluster] | None = None
        self._is_stopped = False

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given as `bootstrap.servers`."""
        return self._running().node.bootstrap_address

    @property
    def directory(self) -> str:
        """Where the node keeps its data."""
        self._running()
        return self._directory

    @property
    def cluster_id(self) -> str:
        return self._running().node.cluster_id

    # --- topics ------------------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic, ready for use on return. ClusterError where the cluster refuses."""

        async def create(admin: AsyncAdmin) -> None:
            await admin.create_topic(name, partitions=partitions, configs=configs)

        self._administer(create)

    def delete_topic(self, name: str, *, missing_ok: bool = False) -> None:
        """Delete a topic. ClusterError where the cluster refuses; one that does not exist may be fine."""

        async def delete(admin: AsyncAdmin) -> None:
            try:
                await admin.delete_topic(name)
            except RefusedError as error:
                if not missing_ok or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise

        self._administer(delete)

    def _administer(self, work: Callable[[AsyncAdmin], Awaitable[None]]) -> None:
        address = self.bootstrap_servers

        async def administer() -> None:
            async with AsyncAdmin(bootstrap_servers=address) as admin:
                await work(admin)

        try:
            self._call(administer())
        except ClientError as error:
            raise ClusterError(str(error)) from error

    # --- life --------------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Return once the cluster serves. ClusterError says why it cannot."""
        if self._thread is not None or self._is_stopped:
            raise ClusterError("an embedded cluster is started once: make another one")
        self._directory = self._given_directory or self._make_directory()
        node = LocalNode(1, self._directory, 0, 0)
        try:
            config = check_properties({**local_properties(node, [node]), **self._config}).values
            self._loop = new_event_loop()
            self._thread = threading.Thread(target=self._run, name="tidelog-node", daemon=True)
            self._thread.start()
            self._hosted = self._call(HostedNode.start(config))
        except START_ERRORS as error:
            self._end()
            raise ClusterError(str(error)) from error
        except BaseException:
            self._end()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly and remove the temporary directory."""
        hosted, self._hosted = self._hosted, None
        try:
            if hosted is not None:
                self._call(hosted.stop())
        except START_ERRORS as error:
            raise ClusterError(f"the cluster did not stop cleanly: {error}") from error
        finally:
            self._end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _running(self) -> HostedNode:
        if self._hosted is None:
            raise ClusterError("the embedded cluster does not run: use it inside of `with`")
        return self._hosted

    def _make_directory(self) -> str:
        directory = tempfile.mkdtemp(prefix="tidelog-", dir=_memory_directory())
        # Also at the end of the process, for a cluster that nobody stopped: memory is not given back by itself.
        self._remove_directory = weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        return directory

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the node's thread."""
        assert self._loop is not None
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(TIMEOUT_S)
        except TimeoutError:
            if not future.done():
                future.cancel()
                raise ClusterError(f"the embedded cluster did nothing for {TIMEOUT_S:g} s") from None
            raise

    def _end(self) -> None:
        self._is_stopped = True
        thread, self._thread = self._thread, None
        loop, self._loop = self._loop, None
        if thread is not None and loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(TIMEOUT_S)
            if not thread.is_alive():
                loop.close()
        if self._remove_directory is not None:
            self._remove_directory()


def _memory_directory() -> str | None:
    """A file system in memory with room for a cluster's data, or None."""
    if not os.access(MEMORY_DIRECTORY, os.W_OK | os.X_OK):
        return None
    room = os.statvfs(MEMORY_DIRECTORY)
    return MEMORY_DIRECTORY if room.f_bavail * room.f_frsize >= MEMORY_FREE_BYTES_MIN else None


def _as_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
