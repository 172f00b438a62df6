"""A cluster inside of the calling process, for tests: real sockets, real files, no other program.

    with EmbeddedCluster() as cluster:                         # or `async with`
        Producer({"bootstrap.servers": cluster.bootstrap_servers})

The nodes run on a thread and an event loop of their own, so that blocking clients in the test do not stop them. They keep their
data in a temporary directory, in memory where the system has such a file system with room, and listen on free ports of 127.0.0.1
only. One node has the directory itself; several have it as `tidelog up` lays it out.

    new -> started -> stopped, each once; `stop` may be called again, and before the start
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.broker.config.server_properties import check_properties, resolve_properties
from tidelog.broker.node.hosting import START_ERRORS, HostedNode, new_event_loop
from tidelog.broker.node.local_cluster import (
    HOST,
    NODES_MAX,
    LocalNode,
    check_local_settings,
    controller_ports_of,
    local_properties,
    log_directory_of,
    write_server_properties,
)
from tidelog.broker.node.local_formatting import format_nodes
from tidelog.broker.node.local_security import ADMIN, USER, LocalSecurity, SecurityMode
from tidelog.client.admin import BROKER_DEFAULT, AsyncAdmin
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.clock import SystemClock
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.storage.os_files import OsFiles
from tidelog.wire.internal_records import FramedRecord

T = TypeVar("T")

MEMORY_DIRECTORY = "/dev/shm"  # noqa: S108 - the one place that Linux has for this; a private directory is made in it

# Containers often have 64 MB there. A full file system would take the cluster down, so a small one is not used.
MEMORY_FREE_BYTES_MIN = 1 << 30

# A start or stop that takes this long will never end; a test should fail then, not hang.
TIMEOUT_S = 30.0


class ClusterError(Exception):
    """The cluster cannot do what it was asked for; one sentence says why."""


class EmbeddedCluster:
    """A cluster. `config` holds keys of `server.properties`; `directory` is kept, a temporary one is removed."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        config: Mapping[str, str | int | bool] | None = None,
        directory: str | Path | None = None,
        security: str | None = None,
    ) -> None:
        """`security`: `tls`, `mtls`, `plain`, `scram` or `oauthbearer`, or `tls` and one of the last three, as in `tls+scram`.

        Then there are the users `alice`, who may use topics and groups, and `admin`, who may do everything.
        """
        if not isinstance(nodes, int) or not 1 <= nodes <= NODES_MAX:
            raise ClusterError(f"an embedded cluster has 1 to {NODES_MAX} nodes, not {nodes!r}")
        self._count = nodes
        self._config = {name: _as_text(value) for name, value in (config or {}).items()}
        self._mode = None if security is None else SecurityMode.parse(security)
        self._security: LocalSecurity | None = None
        self._given_directory = None if directory is None else str(directory)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hosted: list[HostedNode] = []
        # Set whenever a node has heard something new of the cluster.
        self._heard = asyncio.Event()
        self._remove_directory: weakref.finalize[..., EmbeddedCluster] | None = None
        self._is_stopped = False

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given as `bootstrap.servers`."""
        return ",".join(each.node.bootstrap_address for each in self._running())

    def client_options(self, user: str = USER) -> dict[str, Any]:
        """The keyword arguments with which Tidelog's clients reach the cluster as a user, as in `Producer(**options)`."""
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap_servers}
        return options if self._security is None else {**options, **self._security.client_options(user)}

    def client_properties(self, user: str = USER) -> dict[str, str]:
        """The same under the names of Kafka's own clients."""
        properties = {"bootstrap.servers": self.bootstrap_servers}
        return properties if self._security is None else {**properties, **self._security.client_properties(user)}

    def librdkafka_properties(self, user: str = USER) -> dict[str, str]:
        """The same for librdkafka: confluent-kafka, kcat."""
        properties = {"bootstrap.servers": self.bootstrap_servers}
        return properties if self._security is None else {**properties, **self._security.librdkafka_properties(user)}

    @property
    def directory(self) -> str:
        """Where the cluster keeps its data."""
        self._running()
        return self._directory

    @property
    def cluster_id(self) -> str:
        return self._running()[0].node.cluster_id

    # --- topics ------------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, ready for use on return. ClusterError where the cluster refuses."""

        async def create(admin: AsyncAdmin) -> None:
            factor = BROKER_DEFAULT if replication_factor is None else replication_factor
            await admin.create_topic(name, partitions=partitions, replication_factor=factor, configs=configs)
            # The other nodes hear of it a moment after the controller, and a client may ask any of them.
            while not self._is_known_everywhere(name):
                self._heard.clear()
                await self._heard.wait()

        self._administer(create)

    def _is_known_everywhere(self, topic: str) -> bool:
        return all(TopicName(topic) in each.node.image.topic_ids for each in self._hosted)

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
        options = self.client_options(ADMIN)

        async def administer() -> None:
            async with AsyncAdmin(**options) as admin:
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
        try:
            configs = self._configs(self._directory)
            self._loop = new_event_loop()
            self._thread = threading.Thread(target=self._run, name="tidelog-node", daemon=True)
            self._thread.start()
            self._hosted = self._call(_start_all(configs, self._heard.set))
        except START_ERRORS as error:
            self._end()
            raise ClusterError(str(error)) from error
        except BaseException:
            self._end()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly and remove the temporary directory."""
        hosted, self._hosted = self._hosted, []
        try:
            if hosted:
                self._call(_stop_all(hosted, is_kept=self._given_directory is not None))
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

    def _running(self) -> list[HostedNode]:
        if not self._hosted:
            raise ClusterError("the embedded cluster does not run: use it inside of `with`")
        return self._hosted

    def _configs(self, directory: str) -> list[ConfigValues]:
        """What each node starts with. The directories of several are formatted on return."""
        if self._count == 1 and self._mode is None:
            nodes = [LocalNode(1, directory, 0, 0)]
            return [_checked({**local_properties(nodes[0], nodes), **self._config})]
        kind = "of several nodes" if self._count > 1 else "that is secured"
        check_local_settings(self._config, self._count, f"an embedded cluster {kind}")
        files = OsFiles()
        known = controller_ports_of(files, directory)
        if known and len(known) != self._count:
            raise ClusterError(f"{directory} holds a cluster of {len(known)} nodes, not of {self._count}")
        nodes = [
            LocalNode(number, log_directory_of(directory, number), 0, port)
            for number, port in enumerate(known or _free_ports(self._count), start=1)
        ]
        random = SystemRandom()
        first_records: tuple[FramedRecord, ...] = ()
        if self._mode is not None:
            self._security = LocalSecurity.open(files, directory, self._mode, nodes, clock=SystemClock(), random=random)
            first_records = self._security.first_records(random)
        properties = [{**local_properties(node, nodes), **self._secured(node, nodes), **self._config} for node in nodes]
        configs = [_checked(each) for each in properties]
        format_nodes(nodes, files=files, clock=SystemClock(), random=random, first_records=first_records)
        for node, each in zip(nodes, properties, strict=True):
            write_server_properties(files, node, each, "Written by an embedded cluster at every start.")
        return configs

    def _secured(self, node: LocalNode, nodes: Sequence[LocalNode]) -> dict[str, str]:
        return {} if self._security is None else self._security.node_properties(node, nodes)

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


async def _start_all(configs: Sequence[ConfigValues], heard: Callable[[], None]) -> list[HostedNode]:
    """All nodes, once all serve: they need each other. Where one cannot start, none is left."""
    started = await asyncio.gather(*map(HostedNode.start, configs), return_exceptions=True)
    hosted = [each for each in started if isinstance(each, HostedNode)]
    for outcome in started:
        if isinstance(outcome, BaseException):
            for each in hosted:
                each.abandon()
            raise outcome
    for each in hosted:
        each.node.on_image(heard)
    return hosted


async def _stop_all(hosted: Sequence[HostedNode], *, is_kept: bool) -> None:
    """Stop all nodes, and only then raise what the first of them met."""
    if len(hosted) > 1 and not is_kept:
        # A clean stop of the last node waits seconds for a quorum that is gone, to write what nobody reads.
        faults = [each.node.fault for each in hosted if each.node.fault is not None]
        for each in hosted:
            each.abandon()
        if faults:
            raise faults[0]
        return
    for outcome in await asyncio.gather(*(each.stop() for each in hosted), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. All are held until all are found, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def _memory_directory() -> str | None:
    """A file system in memory with room for a cluster's data, or None."""
    if not os.access(MEMORY_DIRECTORY, os.W_OK | os.X_OK):
        return None
    room = os.statvfs(MEMORY_DIRECTORY)
    return MEMORY_DIRECTORY if room.f_bavail * room.f_frsize >= MEMORY_FREE_BYTES_MIN else None


def _checked(given: Mapping[str, str]) -> ConfigValues:
    return check_properties(resolve_properties(given, os.environ), strict=True).values


def _as_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
