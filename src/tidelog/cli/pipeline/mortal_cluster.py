"""The cluster under chaos: three nodes, each a process, of which one at a time is killed and comes back.

A node is killed only while every partition has all of its replicas in sync: a second one that is gone would stop writes, which is
no fault of a pipeline's.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Any, Self

from tidelog.broker.node.local_cluster import (
    HOST,
    LocalNode,
    local_properties,
    log_directory_of,
    server_properties_of,
    write_server_properties,
)
from tidelog.broker.node.local_formatting import format_nodes
from tidelog.cli.node.node_process import NodeProcess, close_pipes, start_process, tell_config
from tidelog.cli.node.up_options import UpOptions
from tidelog.client.admin import Admin, AsyncAdmin
from tidelog.client.errors import ClientError
from tidelog.model.clock import SystemClock
from tidelog.spark.sink.sink_decisions import ensure_audit_topic, ensure_topic
from tidelog.spark.testing_kit.errors import PipelineTestError
from tidelog.storage.os_files import OsFiles

NODES = 3
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_HEAD = "Written by `tidelog pipeline chaos`."
_LINE_BYTES_MAX = 4096
_PORTS = range(10_000, 30_000)
_PORT_ATTEMPTS_MAX = 200


class MortalCluster:
    """What a `PipelineTest` needs of a cluster, and deaths."""

    def __init__(self, directory: Path) -> None:
        ports = _free_ports(2 * NODES)
        self.nodes = [
            LocalNode(number, log_directory_of(str(directory), number), ports[2 * number - 2], ports[2 * number - 1])
            for number in range(1, NODES + 1)
        ]
        self._directory = directory
        self._processes: dict[int, NodeProcess] = {}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{each.port}" for each in self.nodes)

    def client_options(self, user: str = "") -> dict[str, Any]:  # noqa: ARG002 - nobody has to log in
        return {"bootstrap_servers": self.bootstrap_servers}

    def client_properties(self, user: str = "") -> dict[str, str]:  # noqa: ARG002 - as above
        return {"bootstrap.servers": self.bootstrap_servers}

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """A copy on every node, and no write counts that is not on two of them. ClientError."""
        durable = {"min.insync.replicas": "2", "retention.ms": "-1", **(configs or {})}
        with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor or NODES, configs=durable
            )

    def __enter__(self) -> Self:
        files, random = OsFiles(), SystemRandom()
        format_nodes(self.nodes, files=files, clock=SystemClock(), random=random)
        try:
            for node in self.nodes:
                write_server_properties(files, node, local_properties(node, self.nodes), _HEAD)
                self.start(node.node_id)
            for node in self.nodes:
                self._wait_until_ready(node.node_id)
            # Made while a node is away, they would have a replica less for good.
            asyncio.run(self._ensure_decisions())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(STOP_TIMEOUT_S)
            close_pipes(process)
        self._processes.clear()

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id - 1]
        process = start_process(UpOptions(), node_id)
        tell_config(process, server_properties_of(node))
        self._processes[node_id] = process

    def kill(self, node_id: int) -> None:
        """By SIGKILL."""
        process = self._processes.pop(node_id)
        process.kill()
        process.wait(STOP_TIMEOUT_S)
        close_pipes(process)

    def is_whole(self) -> bool:
        """Whether every partition that is known here has all of its replicas in sync."""
        if len(self._processes) < NODES:
            return False
        try:
            with Admin(bootstrap_servers=self.bootstrap_servers, default_api_timeout_ms=5_000) as admin:
                names = [each.name for each in admin.list_topics()]
                described = [admin.describe_topic(name) for name in names]
        except ClientError:
            return False
        return all(len(one.in_sync) == len(one.replicas) for each in described for one in each.partitions)

    def wait_until_whole(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """PipelineTestError where a node does not come back."""
        until_s = time.monotonic() + timeout_s
        while not self.is_whole():
            if time.monotonic() > until_s:
                raise PipelineTestError(f"the cluster is not whole again after {timeout_s:g} s: {self._directory}")
            select.select([], [], [], 0.2)

    async def _ensure_decisions(self) -> None:
        async with AsyncAdmin(bootstrap_servers=self.bootstrap_servers) as admin:
            await ensure_topic(admin)
            await ensure_audit_topic(admin)

    def _wait_until_ready(self, node_id: int) -> None:
        process = self._processes[node_id]
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        if not ready or not os.read(process.stdout.fileno(), _LINE_BYTES_MAX).startswith(b"ready"):
            raise PipelineTestError(f"node {node_id} does not start; it says why above")


def _free_ports(count: int) -> list[int]:
    """All are held until all are found, so that they differ. None that outgoing connections take while a node is away."""
    with ExitStack() as stack:
        ports: list[int] = []
        for port in SystemRandom().sample(_PORTS, _PORT_ATTEMPTS_MAX):
            held = stack.enter_context(socket.socket())
            with suppress(OSError):
                held.bind((HOST, port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise PipelineTestError(f"there are no {count} free ports between {_PORTS.start} and {_PORTS.stop}")
