"""What nodes tell of a partition while it is written and copied, on three processes: it is what their files say, in the order in
which it must have been."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.command_line import json_lines, tidelog
from tests.support.command_process import DEADLINE_S, CommandProcess
from tidelog import Admin, Consumer, Producer, TopicPartition

PROBES = 200
# Small enough for an index of some entries.
INDEXED = ("--config", "index.interval.bytes=500")


class Cluster:
    """Nodes of `tidelog up`."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory = directory
        self.bootstrap = bootstrap
        self.rows = {row["node"]: row for row in json.loads((directory / "cluster.json").read_text())}

    def create(self, topic: str, *more: str, replicas: int = 3) -> None:
        created = tidelog(
            *("topics", "create", topic, "--partitions", "1", "--replication-factor", str(replicas), *more),
            *("--bootstrap", self.bootstrap),
        )
        assert created.exit_code == 0, created.stderr

    def leader(self, topic: str) -> int:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            leader = admin.describe_topic(topic).partitions[0].leader
        assert leader is not None
        return leader

    def xray(self, *arguments: str) -> list[dict[str, Any]]:
        result = tidelog("xray", *arguments, "--json", "--bootstrap", self.bootstrap)
        assert result.exit_code == 0, result.stderr
        return json_lines(result)

    def partition(self, node: int, topic: str) -> Path:
        return Path(self.rows[node]["dir"]) / f"{topic}-0"

    def ask(self, node: int, path: str, **query: object) -> tuple[int, str]:
        connection = self._connection(node)
        connection.request("GET", f"{path}?{urlencode(query)}")
        response = connection.getresponse()
        try:
            return response.status, response.read().decode()
        finally:
            connection.close()

    @contextmanager
    def listener(self, node: int, **query: object) -> Iterator[Stream]:
        connection = self._connection(node)
        connection.request("GET", f"/trace?{urlencode(query)}")
        response = connection.getresponse()
        try:
            yield Stream(response)
        finally:
            response.close()
            connection.close()

    def _connection(self, node: int) -> http.client.HTTPConnection:
        host, _, port = self.rows[node]["http"].partition(":")
        return http.client.HTTPConnection(host, int(port), timeout=DEADLINE_S)


class Stream:
    """The lines that a node pushes."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self._response = response

    def next(self) -> dict[str, Any] | None:
        line = self._response.readline()
        return json.loads(line) if line else None

    def until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline_s = time.monotonic() + DEADLINE_S
        others: list[dict[str, Any]] = []
        while time.monotonic() < deadline_s:
            line = self.next()
            assert line is not None, ("the stream has ended", others)
            if is_it(line):
                return line
            others.append(line)
        raise AssertionError(("it was not told in time", others))

    def until_type(self, name: str) -> dict[str, Any]:
        return self.until(lambda line: line["type"] == name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("traced")
    # A node that stands still for a moment is not to be taken for dead on a busy machine.
    patient = "broker.session.timeout.ms=60000"
    with CommandProcess("up", "--nodes", "3", "--port", "0", "--dir", directory, "--set", patient) as up:
        yield Cluster(directory, up.ready_line().split()[1])
        up.send(signal.SIGINT)
        code, errors = up.end()
    assert code == 0, errors


def dumped(path: Path) -> list[dict[str, Any]]:
    return json_lines(tidelog("dump-log", path, "--json", *(("--batches",) if path.suffix == ".log" else ())))


def test_200_x_rays_say_what_the_files_say_in_the_order_in_which_it_must_have_been(cluster: Cluster) -> None:
    cluster.create("orders", *INDEXED)
    xrays = cluster.xray("orders:0", "--produce", "--count", str(PROBES))
    leader = cluster.leader("orders")
    nodes = (leader, *(node for node in (1, 2, 3) if node != leader))
    batches, entries = {}, {}
    for node in nodes:
        directory = cluster.partition(node, "orders")
        name = "00000000000000000000"
        batches[node] = {
            each["base_offset"]: each for each in dumped(directory / f"{name}.log") if each["type"] == "batch"
        }
        entries[node] = {
            each["offset"]: each for each in dumped(directory / f"{name}.index") if each["type"] == "entry"
        }

    assert [each["offset"] for each in xrays] == list(range(PROBES))
    assert len(entries[leader]) > 10
    for xray in xrays:
        offset, events = xray["offset"], xray["events"]
        there = batches[leader][offset]
        told = xray["batch"]
        assert (told["position"], told["size"], told["crc"]) == (there["position"], there["size_bytes"], there["crc"])
        assert told["is_valid"]
        for name in ("producer_id", "producer_epoch", "base_sequence", "max_timestamp", "partition_leader_epoch"):
            assert told[name] == there[name]
        own = xray["index"]["batch_entry"]
        entry = entries[leader].get(offset)
        assert (own is None) == (entry is None)
        if own is not None and entry is not None:
            assert (own["entry_number"], own["offset"], own["position"]) == (
                entry["entry"],
                entry["offset"],
                entry["position"],
            )
        for each in events:
            if each["type"] == "appended":
                copy = batches[each["node"]][offset]
                assert (each["position"], each["size"]) == (copy["position"], copy["size_bytes"])
            if each["type"] == "index_entry":
                found = entries[each["node"]][offset]
                assert (each["entry_number"], each["position"]) == (found["entry"], found["position"])
        assert [each["crc"] for each in xray["replicas"]] == [there["crc"]] * 3
        _check_order(events, offset, leader, nodes[1:])


def _check_order(events: list[dict[str, Any]], offset: int, leader: int, followers: tuple[int, ...]) -> None:
    places = {(each["type"], each["node"], each.get("replica")): place for place, each in enumerate(events)}
    received, appended = places["produce_received", leader, None], places["appended", leader, None]
    committed = places["hw_moved", leader, None]
    assert received < appended
    for node in followers:
        copied = places["appended", node, None]
        answered = places["follower_fetch_answered", leader, node]
        assert appended < answered < copied < places["follower_fetch", leader, node]
        assert copied < committed
    assert committed < places["produce_answered", leader, None]
    assert next(each for each in events if each["type"] == "hw_moved")["hw"] == offset + 1
    assert [each["at_us"] for each in events] == sorted(each["at_us"] for each in events)


def test_a_consumers_fetch_and_its_commit_come_last(cluster: Cluster) -> None:
    cluster.create("read")
    with Consumer(
        bootstrap_servers=cluster.bootstrap, group_id="readers", enable_auto_commit=False, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["read"])
        deadline_s = time.monotonic() + DEADLINE_S
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
            assert time.monotonic() < deadline_s
        with CommandProcess(
            "xray", "read:0", "--produce", "--json", "--wait", "20", "--bootstrap", cluster.bootstrap
        ) as probing:
            while probing.process.poll() is None:
                if consumer.poll(timeout_ms=100):
                    consumer.commit()
                assert time.monotonic() < deadline_s + DEADLINE_S
            assert probing.process.stdout is not None
            (xray,) = [json.loads(line) for line in probing.process.stdout.read().splitlines()]

    kinds = [each["type"] for each in xray["events"]]
    leader = cluster.leader("read")
    order = [
        next(i for i, each in enumerate(xray["events"]) if (each["type"], each["node"]) == ("hw_moved", leader)),
        kinds.index("produce_answered"),
        kinds.index("fetch_answered"),
        kinds.index("offset_committed"),
    ]
    assert order == sorted(order)
    (commit,) = xray["commits"]
    assert (commit["group"], commit["committed"], commit["passed"]) == ("readers", 1, True)


def test_a_follower_that_stands_still_holds_the_high_watermark(cluster: Cluster) -> None:
    cluster.create("held")
    leader = cluster.leader("held")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        controller = admin.describe_quorum().leader_id
    # Without its controller a cluster is busy with other things.
    follower = next(node for node in cluster.rows if node not in {leader, controller})
    with (
        cluster.listener(leader, topic="held", partition=0) as stream,
        Producer(bootstrap_servers=cluster.bootstrap, acks=1) as producer,
    ):
        # What the producer needs to know it asks while everybody answers.
        producer.send("held", b"goes through").result()
        stream.until(lambda line: line["type"] == "hw_moved" and line["hw"] == 1)
        os.kill(cluster.rows[follower]["pid"], signal.SIGSTOP)
        try:
            producer.send("held", b"waits").result()
            appended = stream.until_type("appended")
            told = stream.until(lambda line: line["type"] in {"heartbeat", "hw_moved"})
        finally:
            os.kill(cluster.rows[follower]["pid"], signal.SIGCONT)
        moved = stream.until_type("hw_moved")

    assert appended["leo"] == 2
    assert (told["type"], told["leo"], told["hw"]) == ("heartbeat", 2, 1)
    assert (moved["hw"], moved["by"]) == (2, follower)


def test_a_fifth_listener_is_told_so_and_a_place_is_free_again_when_one_leaves(cluster: Cluster) -> None:
    cluster.create("crowded", replicas=1)
    leader = cluster.leader("crowded")
    query = {"topic": "crowded", "partition": 0}
    with cluster.listener(leader, **query) as first:
        first.until_type("hello")
        with (
            cluster.listener(leader, **query) as second,
            cluster.listener(leader, **query) as third,
            cluster.listener(leader, **query) as fourth,
        ):
            assert [each.status for each in (first, second, third, fourth)] == [200] * 4
            status, sentence = cluster.ask(leader, "/trace", **query)
            health, _ = cluster.ask(leader, "/health")
    deadline_s = time.monotonic() + DEADLINE_S
    again = 503
    while again == 503:
        with cluster.listener(leader, **query) as later:
            again = later.status
        assert time.monotonic() < deadline_s

    assert (status, health, again) == (503, 200, 200)
    assert "others listen" in sentence


def test_one_that_does_not_read_learns_how_much_it_has_missed(cluster: Cluster) -> None:
    cluster.create("busy", replicas=1)
    leader = cluster.leader("busy")
    host, _, port = cluster.rows[leader]["http"].partition(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(DEADLINE_S)
        slow.connect((host, int(port)))
        slow.sendall(b"GET /trace?topic=busy&partition=0 HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert slow.recv(12).endswith(b" 200")
        received = slow.makefile("rb")
        dropped = None
        with (
            Producer(bootstrap_servers=cluster.bootstrap, linger_ms=0, batch_size=1, acks=1) as producer,
            cluster.listener(leader, topic="busy", partition=0) as fast,
        ):
            # One that reads gets everything meanwhile, or learns of it too; it is not held up by the other.
            fast.until_type("hello")
            for _ in range(12):
                for each in [producer.send("busy", b"x") for _ in range(1000)]:
                    each.result()
        for line in received:
            if b'"dropped"' in line:
                dropped = json.loads(line)
                break
        following = json.loads(received.readline())

    assert dropped is not None
    assert dropped["count"] > 0
    assert following["seq"] == dropped["seq"] + dropped["count"] + 1


def test_the_stream_of_a_deleted_topic_ends_with_a_line_that_says_so(cluster: Cluster) -> None:
    cluster.create("short-lived")
    with cluster.listener(1, topic="short-lived", partition=0) as stream:
        stream.until_type("hello")
        tidelog("topics", "delete", "short-lived", "--bootstrap", cluster.bootstrap)
        ended = stream.until_type("ended")
        after = stream.next()

    assert ended["reason"] == "this node has no replica of short-lived-0 any more"
    assert after is None


def test_a_group_is_told_by_its_coordinator(cluster: Cluster) -> None:
    cluster.create("grouped")
    with Consumer(bootstrap_servers=cluster.bootstrap, group_id="team", enable_auto_commit=False) as consumer:
        consumer.subscribe(["grouped"])
        deadline_s = time.monotonic() + DEADLINE_S
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
            assert time.monotonic() < deadline_s
        coordinator = next(node for node in cluster.rows if _is_heard(cluster, node, group="team"))
        with cluster.listener(coordinator, group="team") as stream:
            hello = stream.until_type("hello")
            consumer.commit({TopicPartition("grouped", 0): 0})
            committed = stream.until_type("offset_committed")
            consumer.close()
            left = stream.until_type("rebalanced")

    assert (hello["state"], hello["members"]) == ("Stable", 1)
    assert (committed["group"], committed["topic"], committed["offset"]) == ("team", "grouped", 0)
    assert (left["group"], left["members"], left["state"]) == ("team", 0, "Empty")
    assert left["generation"] > hello["generation"]


def test_a_transaction_is_told_by_its_coordinator_and_by_the_partition(cluster: Cluster) -> None:
    cluster.create("paid")
    leader = cluster.leader("paid")
    with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="till-7") as producer:
        producer.init_transactions()
        coordinator = next(node for node in cluster.rows if _is_heard(cluster, node, transactional_id="till-7"))
        with (
            cluster.listener(leader, topic="paid", partition=0) as of_partition,
            cluster.listener(coordinator, transactional_id="till-7") as of_transaction,
        ):
            of_partition.until_type("hello")
            hello = of_transaction.until_type("hello")
            producer.begin_transaction()
            producer.send("paid", b"one").result()
            producer.commit_transaction()
            states = []
            while "CompleteCommit" not in states:
                states.append(of_transaction.until_type("transaction_state")["state"])
            marker = of_partition.until_type("marker")
            stable = of_partition.until_type("lso_moved")

    assert hello["state"] == "Empty"
    assert states == ["Ongoing", "PrepareCommit", "CompleteCommit"]
    assert (marker["commit"], marker["offset"]) == (True, 1)
    assert stable["lso"] == 2


def _is_heard(cluster: Cluster, node: int, **query: object) -> bool:
    with cluster.listener(node, **query) as stream:
        return stream.status == 200


def test_what_is_not_here_and_what_is_no_question(cluster: Cluster) -> None:
    cluster.create("single", replicas=1)
    leader = cluster.leader("single")
    other = next(node for node in cluster.rows if node != leader)

    assert cluster.ask(other, "/trace", topic="single", partition=0)[0] == 404
    assert cluster.ask(leader, "/trace", topic="single", partition=0, group="g")[0] == 400
    assert cluster.ask(leader, "/trace", topic="single")[0] == 400
    assert cluster.ask(leader, "/trace", topic="single", partition="-1")[0] == 404
    assert cluster.ask(leader, "/log", topic="single", partition=0, offset=0)[0] == 404
    assert cluster.ask(leader, "/log", topic="single", partition=0, offset="x")[0] == 400
    assert cluster.ask(leader, "/log", topic="none", partition=0, offset=0)[0] == 404
