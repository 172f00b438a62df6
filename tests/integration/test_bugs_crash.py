"""An exception that nobody expects, planted in every place that could swallow it: who stops for it, and that he says so.

`tidelog.model.bugs` has the table.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import uvloop

from tests.support.cluster_load import wait_until
from tests.support.embedded_nodes import nodes_of
from tests.support.raw_client import RawClient
from tests.support.running_node import RunningNode
from tidelog.broker.handlers import create_topics
from tidelog.broker.node.node import BrokerNode, NodeCrashedError
from tidelog.broker.requests.handling import HANDLERS
from tidelog.coordination.consumer import groups as consumer_groups
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.pending import Pending
from tidelog.net.address import Address
from tidelog.net.connection import Connection
from tidelog.net.socket_server import SocketServer
from tidelog.replication.replica_fetcher import ReplicaFetcher
from tidelog.storage.durability import Durability
from tidelog.storage.log_directory import LogDirectory
from tidelog.testing import EmbeddedCluster
from tidelog.testing.errors import ClusterError
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_admin import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.records import Record, build_batch

LOOPS = [pytest.param(uvloop.new_event_loop, id="uvloop"), pytest.param(asyncio.new_event_loop, id="asyncio")]
TOPIC = "orders"
BATCH = bytes(build_batch([Record(0, 0, None, b"a", ())]))


def planted(*_args: object, **_kwargs: object) -> NoReturn:
    raise LookupError("planted")


class Planted:
    """A watcher of a partition."""

    is_waiting = True

    def partition_changed(self, _partition: object) -> None:
        planted()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningNode]:
    with RunningNode(tmp_path) as node:
        yield node


def create(client: RawClient, name: str = TOPIC, **configs: str) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    answer = client.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    assert answer.topics[0].error_code == ErrorCode.NONE


def produce(client: RawClient) -> None:
    """One batch. The node may be gone before it answers."""
    try:
        client.produce(TOPIC, 0, BATCH)
    except OSError:
        return


def on_loop(running: RunningNode, work: Callable[[BrokerNode], object]) -> None:
    async def do() -> None:
        work(running.node)

    running.run(do())


def crash(plant: Callable[[RunningNode, RawClient], None], node: RunningNode) -> str:
    """The sentence by which a node ends that something is planted in."""

    def live() -> None:
        with node as running:
            with RawClient(running.bootstrap) as client:
                create(client, flush_messages="1")
                plant(running, client)
            wait_until(running.node.stopped.done, "the node stops")

    with pytest.raises(NodeCrashedError) as crashed:
        live()
    return str(crashed.value)


# --- what stops the node ---------------------------------------------------------------------------------------------------


def _in_a_callback(running: RunningNode, _client: RawClient) -> None:
    on_loop(running, lambda node: node._loop.call_soon(planted))


def _in_a_timer(running: RunningNode, _client: RawClient) -> None:
    on_loop(running, lambda node: node._timers.after(1, planted))


def _after_slow_work(running: RunningNode, _client: RawClient) -> None:
    on_loop(running, lambda node: node._seams.slow_work.submit(lambda: None, planted))


def _in_slow_work_that_nobody_waits_for(running: RunningNode, _client: RawClient) -> None:
    on_loop(running, lambda node: node._seams.slow_work.submit(planted))


def _in_what_follows_the_metadata(running: RunningNode, client: RawClient) -> None:
    on_loop(running, lambda node: node.on_image(planted))
    with pytest.raises(ConnectionError):
        create(client, "another")


def _in_a_watcher_of_a_partition(running: RunningNode, client: RawClient) -> None:
    on_loop(running, lambda node: node.partitions.named(TopicName(TOPIC))[0].watch(Planted()))
    produce(client)


def _in_a_reader_of_what_is_committed(running: RunningNode, client: RawClient) -> None:
    def wait_for_the_next(node: BrokerNode) -> None:
        committed = node.partitions.named(TopicName(TOPIC))[0].when_committed(1)
        assert isinstance(committed, Pending)
        committed.then(planted)

    on_loop(running, wait_for_the_next)
    produce(client)


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize(
    "plant",
    [
        _in_a_callback,
        _in_a_timer,
        _after_slow_work,
        _in_slow_work_that_nobody_waits_for,
        _in_what_follows_the_metadata,
        _in_a_watcher_of_a_partition,
        _in_a_reader_of_what_is_committed,
    ],
)
def test_what_a_node_lives_by_stops_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    plant: Callable[[RunningNode, RawClient], None],
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    sentence = crash(plant, RunningNode(tmp_path, new_loop=new_loop))

    assert "planted" in sentence
    assert "test_bugs_crash.py" in sentence
    assert caplog.text.count("a bug stops the node") == 1
    # As after any crash, the next start is whole.
    with RunningNode(tmp_path) as again, RawClient(again.bootstrap) as client:
        assert client.produce(TOPIC, 0, BATCH)[0] == ErrorCode.NONE


def test_a_write_that_breaks_off_stops_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def plant(_running: RunningNode, client: RawClient) -> None:
        monkeypatch.setattr(Durability, "flush", planted)
        produce(client)
        monkeypatch.undo()

    assert "a write to" in crash(plant, RunningNode(tmp_path))


def test_a_coordinator_that_does_not_take_in_what_it_wrote_stops_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="a-member",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )

    def plant(_running: RunningNode, client: RawClient) -> None:
        client.call(FindCoordinatorRequest(key="readers", key_type=0, coordinator_keys=[]), FindCoordinatorResponse, 3)

        def has_joined() -> bool:
            return client.call(joining, ConsumerGroupHeartbeatResponse, 1).error_code == ErrorCode.NONE

        wait_until(has_joined, "the group has its coordinator")
        monkeypatch.setattr(consumer_groups, "replay", planted)
        joining.group_id = "others"
        with pytest.raises(ConnectionError):
            has_joined()
        monkeypatch.undo()

    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    assert "taking in what was written broke off" in crash(plant, RunningNode(tmp_path, settings=settings))


def test_a_follower_that_fails_at_its_leaders_answer_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def live() -> None:
        with EmbeddedCluster(nodes=2) as cluster:
            cluster.create_topic(TOPIC, replication_factor=2)
            nodes = nodes_of(cluster)
            monkeypatch.setattr(ReplicaFetcher, "_answered", planted)
            wait_until(lambda: all(node.stopped.done() for node in nodes), "the nodes stop")
            monkeypatch.undo()

    with pytest.raises(ClusterError, match="planted"):
        live()


def test_the_process_ends_with_the_sentence(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path}/data\n"
    )
    program = (
        "import sys\n"
        "from tidelog.cli.main import main\n"
        "from tidelog.controller.controller import Controller\n"
        "def planted(*_): raise LookupError('planted')\n"
        "Controller._write_no_op = planted\n"
        f"sys.argv[1:] = ['broker', '--config', {str(properties)!r}]\n"
        "sys.exit(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("tidelog broker: a bug stops the node: LookupError: planted (")


# --- what does not ---------------------------------------------------------------------------------------------------------


def check_serves(running: RunningNode) -> None:
    assert running.node.fault is None
    with RawClient(running.bootstrap) as other:
        answer = other.call(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"), ApiVersionsResponse, 3
        )
    assert answer.error_code == ErrorCode.NONE


def test_a_request_that_cannot_be_handled_ends_its_connection(
    running: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawClient(running.bootstrap) as client:
        client.call(ListGroupsRequest(states_filter=[], types_filter=[]), ListGroupsResponse, 5)
        key = ListGroupsRequest.api_key
        with monkeypatch.context() as patched:
            patched.setitem(HANDLERS, key, HANDLERS[key]._replace(answer=planted))
            for dispatcher in running.node.listeners._dispatchers:
                dispatcher._served[:] = [None] * len(dispatcher._served)
            with pytest.raises(ConnectionError):
                client.call(ListGroupsRequest(states_filter=[], types_filter=[]), ListGroupsResponse, 5)
    check_serves(running)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_what_escapes_from_a_clients_connection_ends_that_connection(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    class BrokenProtocol(asyncio.Protocol):
        """Fails at the end of the stream."""

        def __init__(self, connection: Connection) -> None:
            self._connection = connection

        def eof_received(self) -> bool:
            planted()

        def connection_lost(self, exc: Exception | None) -> None:
            self._connection.connection_lost(exc)

    with RunningNode(tmp_path, new_loop=new_loop) as running:
        host, port = running.bootstrap.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 30) as client:
            ours = client.getsockname()[1]
            connections = running.node._server.connections
            wait_until(lambda: any(each.peer_address.port == ours for each in connections.values()), "it is accepted")
            (connection,) = [each for each in connections.values() if each.peer_address.port == ours]
            wait_until(lambda: connection._transport is not None, "it is open")
            on_loop(running, lambda _: connection._transport.set_protocol(BrokenProtocol(connection)))  # type: ignore[union-attr]
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        check_serves(running)


def test_an_answer_that_cannot_be_made_later_ends_its_connection(
    running: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawClient(running.bootstrap) as client, monkeypatch.context() as patched:
        patched.setattr(create_topics, "_is_described", lambda _name, _caller: False)
        patched.setattr(create_topics, "_hide_configs", planted)
        with pytest.raises(ConnectionError):
            create(client)
    check_serves(running)
    # Only the answer has failed.
    assert TOPIC in running.node.image.topic_ids


def test_housekeeping_that_fails_is_counted_and_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogDirectory, "apply_retention", planted)
    monkeypatch.setattr(SocketServer, "_close_idle", planted)
    settings = {
        "log.retention.check.interval.ms": "20",
        "log.cleaner.backoff.ms": "20",
        "connections.max.idle.ms": "100",
    }
    with RunningNode(tmp_path, settings=settings, metrics_address=Address("127.0.0.1", 0)) as running:
        for _ in range(2):
            on_loop(running, lambda node: node.timers.after(0, planted))
        counted = running.node._housekeeping.failures
        works = ("retention", "cleaning", "closing idle connections", "the time-out of a request")
        wait_until(lambda: all(counted.get(each, 0) >= 2 for each in works), "each has failed twice")
        check_serves(running)
        assert running.node.metrics_url is not None
        with urllib.request.urlopen(running.node.metrics_url, timeout=30) as page:
            shown = page.read().decode()
    for work in works:
        assert f'tidelog_node_housekeeping_failures_total{{work="{work}"}}' in shown
