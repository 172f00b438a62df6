"""`tidelog cluster rolling-restart`: each node of a cluster that `tidelog up` runs, one after another.

    for each node, the one that leads the metadata last:
        wait        until all nodes serve, and every replica is in sync
        stop        others lead what it led before it goes
        start       `up` does it, which the node belongs to
    in the end      preferred leaders lead again

A cluster that `up` has secured is asked as its administrator, whose login lies beside it.

So at any moment all partitions with two replicas or more have one that serves. Clients see leaders move, and try again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tidelog.broker.node.local_cluster import HOST, controller_ports_of
from tidelog.broker.node.local_security import admin_properties_of
from tidelog.cli import cluster_login
from tidelog.cli.admin_session import (
    EXIT_REFUSED,
    RefusalError,
    administer,
    complain,
    print_json,
    print_line,
)
from tidelog.cli.node.up import CLUSTER_FILE, LOCK_FILE, restart_mark
from tidelog.client.admin import AsyncAdmin, TopicDescription
from tidelog.client.errors import ClientError
from tidelog.model.config import ConfigError
from tidelog.storage.errors import DirectoryInUseError, StorageError
from tidelog.storage.os_files import OsFiles

_COMMAND = "cluster"

POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A row of `cluster.json`."""

    node_id: int
    pid: int
    port: int
    directory: str


def rolling_restart(directory: str, *, timeout_s: float, as_json: bool) -> int:
    """Restart the nodes of the cluster in a directory. `timeout_s` limits every single wait."""
    try:
        nodes = running_nodes(directory)
        login = admin_properties_of(OsFiles(), directory)
    except (RefusalError, ConfigError) as error:
        return complain(_COMMAND, str(error), EXIT_REFUSED)
    bootstrap = ",".join(f"{HOST}:{node.port}" for node in nodes)
    code = cluster_login.take(_COMMAND, login, ())
    if code:
        return code
    cluster_file = Path(directory).absolute() / CLUSTER_FILE

    async def work(admin: AsyncAdmin) -> None:
        expected = {node.node_id for node in nodes}
        leader = (await admin.describe_quorum()).leader_id
        for node in sorted(nodes, key=lambda each: (each.node_id == leader, each.node_id)):
            await _until_whole(admin, expected, timeout_s)
            began_s = time.monotonic()
            pid = await _restart(cluster_file, node, timeout_s)
            served_s = time.monotonic()
            await _until_whole(admin, expected, timeout_s)
            took = {"restarted_ms": _ms(served_s - began_s), "in_sync_ms": _ms(time.monotonic() - served_s)}
            if as_json:
                print_json([{"node": node.node_id, "pid": pid, **took}])
            else:
                print_line(
                    f"node {node.node_id} serves again after {took['restarted_ms']} ms, and all is in sync "
                    f"{took['in_sync_ms']} ms later"
                )
        await admin.elect_leaders()

    return administer(_COMMAND, bootstrap, work)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def running_nodes(directory: str) -> list[RunningNode]:
    """The nodes that `up` runs in a directory: all that the cluster has. RefusalError where that is not so."""
    path = Path(directory).absolute()
    if not _is_locked(path / LOCK_FILE):
        raise RefusalError(f"no `tidelog up` runs in {directory}: name the directory that its first line names")
    nodes = _read(path / CLUSTER_FILE)
    try:
        known = len(controller_ports_of(OsFiles(), str(path)))
    except ConfigError as error:
        raise RefusalError(str(error)) from error
    if len(nodes) < known:
        raise RefusalError(f"{known - len(nodes)} of {known} nodes do not run: start them first, as `up` has said")
    return nodes


def _is_locked(path: Path) -> bool:
    """Whether an `up` is there, which holds this lock: it is the one that starts nodes again."""
    if not path.exists():
        return False
    try:
        OsFiles().lock(str(path)).release()
    except DirectoryInUseError:
        return True
    except StorageError as error:
        raise RefusalError(str(error)) from error
    return False


def _read(path: Path) -> list[RunningNode]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [RunningNode(int(row["node"]), int(row["pid"]), int(row["port"]), str(row["dir"])) for row in rows]
    except FileNotFoundError as error:
        raise RefusalError(f"there is no {path}: the cluster is starting or stopping, try again") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RefusalError(f"{path} cannot be read: restart the cluster") from error


async def _restart(cluster_file: Path, node: RunningNode, timeout_s: float) -> int:
    """Stop a node and have it started again. Its new process, once it serves."""
    mark = restart_mark(node.directory)
    try:
        mark.touch()
        os.kill(node.pid, signal.SIGTERM)
    except OSError as error:
        mark.unlink(missing_ok=True)
        raise RefusalError(f"node {node.node_id} cannot be stopped: {error.strerror}") from error
    found: list[int] = []

    async def is_back() -> str | None:
        found[:] = [row.pid for row in _read(cluster_file) if row.node_id == node.node_id and row.pid != node.pid]
        return None if found else f"node {node.node_id} has not come back"

    await _until(is_back, timeout_s)
    return found[0]


async def _until_whole(admin: AsyncAdmin, expected: set[int], timeout_s: float) -> None:
    async def problem() -> str | None:
        try:
            return await what_is_missing(admin, expected)
        except ClientError as error:
            # Whoever was asked may just be the one that stops.
            return str(error)

    await _until(problem, timeout_s)


async def _until(problem: Callable[[], Awaitable[str | None]], timeout_s: float) -> None:
    """RefusalError with the last problem where there still is one in the end."""
    deadline_s = time.monotonic() + timeout_s
    while (said := await problem()) is not None:
        if time.monotonic() > deadline_s:
            raise RefusalError(f"{said}, even after {timeout_s:.0f} s; the nodes after it were not restarted")
        await asyncio.sleep(POLL_S)


async def what_is_missing(admin: AsyncAdmin, expected: set[int]) -> str | None:
    """Why the next node must not stop yet; None where it may."""
    serving = {broker.node_id for broker in (await admin.describe_cluster()).brokers if not broker.is_fenced}
    if not expected <= serving:
        return f"nodes {', '.join(map(str, sorted(expected - serving)))} do not serve"
    quorum = await admin.describe_quorum()
    late = [each.node_id for each in quorum.voters if each.log_end_offset < quorum.high_watermark]
    if late:
        return f"nodes {', '.join(map(str, late))} have not got all metadata"
    topics = [each for each in (await admin.describe_topics()).values() if isinstance(each, TopicDescription)]
    lacking = sum(len(each.in_sync) < len(each.replicas) for topic in topics for each in topic.partitions)
    return f"{lacking} partitions are under-replicated" if lacking else None
