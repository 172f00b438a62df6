"""A cluster for tests: real sockets, real files, no other program.

    with EmbeddedCluster() as cluster:                         # or `async with`
        Producer({"bootstrap.servers": cluster.bootstrap_servers})

The nodes run in the calling process, on a thread and an event loop of their own, so that blocking clients in the test do not
stop them; with `processes=True` each is a process. They keep their data in a temporary directory, in memory where the system has
such a file system with room, and listen on free ports of 127.0.0.1 only. One node in this process has the directory itself;
others have it as `tidelog up` lays it out.

    new -> started -> stopped, each once; `stop` may be called again, and before the start

What a test does to the cluster (`kill_node`, `fail`, `delay`, `disconnect`, `partition_network`) lasts until it is undone, or
until `reset`, which pytest's plugin calls after each test.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tidelog.broker.config.server_properties import check_properties, resolve_properties
from tidelog.broker.node.hosting import START_ERRORS
from tidelog.broker.node.local_cluster import (
    HOST,
    NODES_MAX,
    LocalNode,
    check_local_settings,
    controller_ports_of,
    local_properties,
    log_directory_of,
    server_properties_of,
    write_server_properties,
)
from tidelog.broker.node.local_formatting import format_nodes
from tidelog.broker.node.local_security import ADMIN, USER, LocalSecurity, SecurityMode
from tidelog.client.admin import BROKER_DEFAULT, AsyncAdmin
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.clock import SystemClock
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.storage.os_files import OsFiles
from tidelog.testing.errors import ClusterError
from tidelog.testing.faults import Fault, Faults
from tidelog.testing.hosted_nodes import HostedNodes
from tidelog.testing.loop_thread import LoopThread
from tidelog.testing.network import Side
from tidelog.testing.node_processes import NodeProcesses
from tidelog.wire.internal_records import FramedRecord

if TYPE_CHECKING:
    from tidelog.client.consumer.fetched_partition import Row
    from tidelog.client.producer.record_metadata import RecordMetadata
    from tidelog.testing.cluster_records import Entry

T = TypeVar("T")

MEMORY_DIRECTORY = "/dev/shm"  # noqa: S108 - the one place that Linux has for this; a private directory is made in it

# Containers often have 64 MB there. A full file system would take the cluster down, so a small one is not used.
MEMORY_FREE_BYTES_MIN = 1 << 30


class EmbeddedCluster:
    """A cluster. `config` holds keys of `server.properties`; `directory` is kept, a temporary one is removed."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        config: Mapping[str, str | int | bool] | None = None,
        directory: str | Path | None = None,
        security: str | None = None,
        processes: bool = False,
        cluster_id: str | None = None,
    ) -> None:
        """`security`: `tls`, `mtls`, `plain`, `scram` or `oauthbearer`, or `tls` and one of the last three, as in `tls+scram`.
        Then there are the users `alice`, who may use topics and groups, and `admin`, who may do everything.

        `processes`: each node is a process of its own, so that `kill_node` is a real SIGKILL. They start more slowly, and only
        nodes in this process can be made to fail, delay, or be cut off from each other.
        """
        if not isinstance(nodes, int) or not 1 <= nodes <= NODES_MAX:
            raise ClusterError(f"an embedded cluster has 1 to {NODES_MAX} nodes, not {nodes!r}")
        self._count = nodes
        self._config = {name: _as_text(value) for name, value in (config or {}).items()}
        self._mode = None if security is None else SecurityMode.parse(security)
        self._security: LocalSecurity | None = None
        self._given_directory = None if directory is None else str(directory)
        self._is_of_processes = processes
        self._cluster_id = cluster_id
        self._thread: LoopThread | None = None
        self._faults = Faults()
        self._hosted: HostedNodes | None = None
        self._processes: NodeProcesses | None = None
        # What each node is started with, with the port that it has got once it serves.
        self._properties: dict[int, dict[str, str]] = {}
        self._nodes: dict[int, LocalNode] = {}
        self._addresses: dict[int, str] = {}
        self._is_cut = False
        self._remove_directory: weakref.finalize[..., EmbeddedCluster] | None = None
        self._is_stopped = False

    def __repr__(self) -> str:
        if not self._addresses:
            return f"<EmbeddedCluster of {self._count} {'stopped' if self._is_stopped else 'not started'}>"
        down = [str(node_id) for node_id in self._addresses if node_id not in self.running_nodes]
        return f"<EmbeddedCluster at {self.bootstrap_servers}{', down: ' + ', '.join(down) if down else ''}>"

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given as `bootstrap.servers`: all nodes, also those that are down for now."""
        self._check_running()
        return ",".join(self._addresses.values())

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes by their numbers, from 1 on."""
        return tuple(range(1, self._count + 1))

    @property
    def running_nodes(self) -> tuple[int, ...]:
        """Those that are not killed."""
        nodes = self._hosted or self._processes
        return () if nodes is None else tuple(nodes.running)

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
        self._check_running()
        return self._directory

    @property
    def cluster_id(self) -> str:
        async def ask(admin: AsyncAdmin) -> str:
            return (await admin.describe_cluster()).cluster_id

        return self._administer(ask)

    # --- records -----------------------------------------------------------------------------------------------------------

    def write(self, topic: str, records: Iterable[Entry], *, user: str = USER) -> list[RecordMetadata]:
        """Write records, and return where each lies once all are acknowledged. ClusterError where one is not.

        A record is a value, a pair of key and value, or a dictionary of what `Producer.send` takes; text is UTF-8.
        """
        from tidelog.testing.cluster_records import write_records  # noqa: PLC0415 - most tests bring a client of their own

        return write_records(self.client_options(user), topic, records)

    def read(
        self,
        topic: str,
        count: int | None = None,
        *,
        timeout_s: float = 10.0,
        committed: bool = False,
        user: str = USER,
    ) -> list[Row]:
        """The records of a topic from its beginning: those that are there now, or so many, waited for. `committed`: as a consumer
        with `read_committed` sees them. ClusterError where they do not come in time."""
        from tidelog.testing.cluster_records import read_records  # noqa: PLC0415

        return read_records(self.client_options(user), topic, count, timeout_s=timeout_s, committed=committed)

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

        hosted = self._hosted

        async def create(admin: AsyncAdmin) -> None:
            factor = BROKER_DEFAULT if replication_factor is None else replication_factor
            await admin.create_topic(name, partitions=partitions, replication_factor=factor, configs=configs)
            if hosted is not None:
                # The other nodes hear of it a moment after the controller, and a client may ask any of them.
                await hosted.known_everywhere(name)

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

    def _administer(self, work: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
        options = self.client_options(ADMIN)

        async def administer() -> T:
            async with AsyncAdmin(**options) as admin:
                return await work(admin)

        try:
            return self._check_running().call(administer())
        except ClientError as error:
            raise ClusterError(str(error)) from error

    # --- faults ------------------------------------------------------------------------------------------------------------

    def kill_node(self, node: int) -> None:
        """End a node at once, as a crash does. In this process it loses what it had in memory; with `processes=True` it is a
        SIGKILL. A no-op for one that is down."""
        self._check_node(node)
        if self._hosted is not None:
            self._hosted.kill(node)
        elif self._processes is not None:
            self._processes.kill(node)

    def restart_node(self, node: int) -> None:
        """Start a node again on its ports and its directory; one that still runs is killed first. Return once it serves."""
        self.kill_node(node)
        try:
            if self._hosted is not None:
                self._hosted.restart(node, _checked(self._properties[node]))
            elif self._processes is not None:
                self._processes.restart(node)
        except START_ERRORS as error:
            raise ClusterError(f"node {node} cannot start again: {error}") from error

    def fail(
        self,
        api: str,
        error: str | ErrorCode,
        *,
        times: int | None = 1,
        after: bool = False,
        node: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Have requests of an API answered with an error of Kafka's, as in `fail("Produce", error="NOT_LEADER_OR_FOLLOWER")`.

        The next one, the next `times`, or with None all until the fault is lifted; of any client to any node, or of those that
        are named. With `after` they are done all the same: only the answer is wrong.
        """
        about = self._about(node, topic, client_id)
        return self._faults.fail(api, error, times=times, after=after, **about)

    def disconnect(
        self,
        api: str,
        *,
        times: int | None = 1,
        after: bool = False,
        node: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Have requests of an API lose their connection instead of being answered; with `after` once they are done."""
        return self._faults.disconnect(api, times=times, after=after, **self._about(node, topic, client_id))

    def delay(
        self,
        api: str,
        ms: float,
        *,
        times: int | None = None,
        node: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Have requests of an API answered so much later than they are done."""
        return self._faults.delay(api, ms, times=times, **self._about(node, topic, client_id))

    def partition_network(self, *sides: Iterable[Side]) -> None:
        """Cut the network: `partition_network({1}, {2, 3, "clients"})`. Nothing gets from one side to another until
        `heal_network`, and nobody is told; who is on no side reaches all of them. A second cut takes the place of the first.
        """
        self._check_running()
        if self._hosted is None:
            raise ClusterError("the network can be cut between nodes in the process of the test, not between processes")
        self._hosted.cut(sides, self.nodes)
        self._is_cut = True

    def heal_network(self) -> None:
        """Everybody hears everybody again, also what was sent meanwhile."""
        if self._hosted is not None and self._is_cut:
            self._hosted.heal()
            self._is_cut = False

    def reset(self) -> None:
        """Undo what was done to the cluster: faults are lifted, the network is whole, every node runs."""
        self._faults.lift_all()
        self.heal_network()
        for node in self.nodes if self._addresses else ():
            if node not in self.running_nodes:
                self.restart_node(node)

    def _about(self, node: int | None, topic: str | None, client_id: str | None) -> dict[str, Any]:
        self._check_running()
        if node is not None:
            self._check_node(node)
        return {"node": node, "topic": topic, "client_id": client_id}

    def _check_node(self, node: int) -> None:
        self._check_running()
        if node not in self.nodes:
            raise ClusterError(f"the embedded cluster has no node {node!r}: it has {', '.join(map(str, self.nodes))}")

    # --- life --------------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Return once the cluster serves. ClusterError says why it cannot."""
        if self._thread is not None or self._is_stopped:
            raise ClusterError("an embedded cluster is started once: make another one")
        self._directory = self._given_directory or self._make_directory()
        try:
            self._prepare(self._directory)
            self._thread = LoopThread.start()
            if self._is_of_processes:
                self._processes = NodeProcesses()
                paths = {node_id: server_properties_of(node) for node_id, node in self._nodes.items()}
                self._addresses = dict(sorted(self._processes.start(paths).items()))
            else:
                self._hosted = HostedNodes(self._thread, self._faults)
                configs = {node_id: _checked(each) for node_id, each in self._properties.items()}
                self._addresses = self._hosted.start(configs)
                self._keep_ports()
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
        processes, self._processes = self._processes, None
        self._addresses = {}
        try:
            if hosted is not None:
                hosted.stop(is_kept=self._given_directory is not None)
            if processes is not None and self._given_directory is not None:
                processes.stop()
            elif processes is not None:
                processes.end(processes.running)
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

    def _check_running(self) -> LoopThread:
        if not self._addresses or self._thread is None:
            raise ClusterError("the embedded cluster does not run: use it inside of `with`")
        return self._thread

    def _prepare(self, directory: str) -> None:
        """Decide what each node starts with. The directories of several, and of processes, are formatted on return."""
        if self._count == 1 and self._mode is None and self._cluster_id is None and not self._is_of_processes:
            node = LocalNode(1, directory, 0, 0)
            self._nodes = {1: node}
            self._properties = {1: {**local_properties(node, [node]), **self._config}}
            return
        kind = "of several nodes" if self._count > 1 else "that is secured" if self._mode else "of this kind"
        check_local_settings(self._config, self._count, f"an embedded cluster {kind}")
        files = OsFiles()
        known = controller_ports_of(files, directory)
        if known and len(known) != self._count:
            raise ClusterError(f"{directory} holds a cluster of {len(known)} nodes, not of {self._count}")
        # A process that is started again is to be found where it was.
        free = _free_ports(2 * self._count)
        ports = free[self._count :] if self._is_of_processes else [0] * self._count
        nodes = [
            LocalNode(number, log_directory_of(directory, number), ports[number - 1], port)
            for number, port in enumerate(known or free[: self._count], start=1)
        ]
        random = SystemRandom()
        first_records: tuple[FramedRecord, ...] = ()
        if self._mode is not None:
            self._security = LocalSecurity.open(files, directory, self._mode, nodes, clock=SystemClock(), random=random)
            first_records = self._security.first_records(random)
        self._nodes = {node.node_id: node for node in nodes}
        self._properties = {
            node.node_id: {**local_properties(node, nodes), **self._secured(node, nodes), **self._config}
            for node in nodes
        }
        for each in self._properties.values():
            _checked(each)
        format_nodes(
            nodes,
            files=files,
            clock=SystemClock(),
            random=random,
            first_records=first_records,
            cluster_id=self._cluster_id,
        )
        for node in nodes:
            properties = self._properties[node.node_id]
            write_server_properties(files, node, properties, "Written by an embedded cluster at every start.")

    def _keep_ports(self) -> None:
        """What has got a free port starts on the same one again."""
        for node_id, address in self._addresses.items():
            port = address.rpartition(":")[2]
            properties = self._properties[node_id]
            properties["listeners"] = properties["listeners"].replace(":0,", f":{port},", 1)

    def _secured(self, node: LocalNode, nodes: Sequence[LocalNode]) -> dict[str, str]:
        return {} if self._security is None else self._security.node_properties(node, nodes)

    def _make_directory(self) -> str:
        directory = tempfile.mkdtemp(prefix="tidelog-", dir=_memory_directory())
        # Also at the end of the process, for a cluster that nobody stopped: memory is not given back by itself.
        self._remove_directory = weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        return directory

    def _end(self) -> None:
        self._is_stopped = True
        self._hosted = self._processes = None
        self._addresses = {}
        self._faults.serve(None, lambda _node_id: lambda _topic_id: None)
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()
        if self._remove_directory is not None:
            self._remove_directory()


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
