"""What a node does when the machine runs out of something: descriptors, disk, or time to start."""

from __future__ import annotations

import re
import resource
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.apache_kafka import free_ports
from tests.support.command_process import command, environment
from tests.support.small_disk import SmallDisk, small_disk
from tidelog.cli.node.broker import EXIT_FAILED
from tidelog.storage.mapped_index import RESERVE_BYTES
from tidelog.storage.time_index import ENTRY as TIME_ENTRY

DEADLINE_S = 30.0
DESCRIPTORS = 256
FILE_BYTES = 512 * 1024
DISK_MEGABYTES = 32


class LimitedNode:
    """`tidelog broker` as a process with limits of its own."""

    def __init__(self, root: Path, directories: int = 1, settings: str = "", paths: Sequence[Path] = ()) -> None:
        self.root = root
        self.port, controller_port = free_ports(2)
        self.paths = list(paths) or [root / f"data-{number}" for number in range(directories)]
        self.properties = root / "server.properties"
        self.properties.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n"
            f"log.dirs={','.join(map(str, self.paths))}\n{settings}"
        )

    @property
    def client(self) -> dict[str, str | int | float | bool]:
        return {"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0}

    @property
    def log(self) -> str:
        return (self.root / "log").read_text()

    @contextmanager
    def begun(self, limit: Callable[[], None] | None = None) -> Iterator[subprocess.Popen[str]]:
        with (
            (self.root / "log").open("a") as log,
            subprocess.Popen(
                command("broker", "--config", self.properties),
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=limit,  # noqa: PLW1509 - a limit of the child alone; this process has no other threads that fork
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def running(self, limit: Callable[[], None] | None = None) -> Iterator[subprocess.Popen[str]]:
        with self.begun(limit) as process:
            self.wait_until_ready(process)
            yield process

    def wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
        assert readable
        assert process.stdout.readline().startswith("ready"), self.log


def create(node: LimitedNode, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    admin = AdminClient(node.client)
    admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(DEADLINE_S)


def send(node: LimitedNode, topic: str, count: int, size: int, partition: int = 0) -> list[KafkaError | None]:
    """What became of each record."""
    outcomes: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        outcomes.append(error)

    producer = Producer({**node.client, "retries": 0, "message.timeout.ms": 20_000, "batch.size": size})
    for _ in range(count):
        producer.produce(topic, b"x" * size, partition=partition, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    return outcomes


def connecting(port: int) -> socket.socket:
    """A connection that may have to wait to be accepted."""
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(("127.0.0.1", port))
    return sock


def test_a_flood_of_connections_leaves_the_logs_what_they_need(tmp_path: Path) -> None:
    node = LimitedNode(tmp_path)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    with node.running(limit) as process:
        create(node, "before", 1, {"segment.bytes": str(1024 * 1024)})
        producer = Producer({**node.client, "batch.size": 1000})
        producer.produce("before", b"hello", partition=0)
        assert producer.flush(DEADLINE_S) == 0
        flood = [connecting(node.port) for _ in range(2 * DESCRIPTORS)]
        outcomes: list[KafkaError | None] = []
        # Three segments' worth: each takes new files.
        for _ in range(3000):
            producer.produce(
                "before", b"x" * 1000, partition=0, on_delivery=lambda error, _message: outcomes.append(error)
            )
        assert producer.flush(DEADLINE_S) == 0
        for connection in flood:
            connection.close()

        create(node, "after", 100, {"segment.bytes": str(1024 * 1024)})
        assert send(node, "after", 3000, 1000, partition=99) == [None] * 3000

        assert outcomes == [None] * 3000
        assert process.poll() is None
        assert "offline" not in node.log
        assert node.log.count("no connection can be accepted") == 0
        assert node.log.count("others wait until one ends") == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0


def test_a_full_disk_takes_only_its_own_directory_offline(tmp_path: Path) -> None:
    # A file may not grow beyond some size, which is as final as a full disk. The metadata log does not get that long.
    node = LimitedNode(tmp_path, 2, "log.segment.bytes=1048576\nlog.index.size.max.bytes=4096\n")

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))

    with node.running(limit) as process:
        create(node, "orders", 2)
        second = 0 if (node.paths[1] / "orders-0").exists() else 1
        assert (node.paths[1] / f"orders-{second}").exists()

        outcomes = send(node, "orders", 200, 5000, partition=second)

        refused = [error.code() for error in outcomes if error is not None]
        assert refused
        assert set(refused) == {KafkaError.KAFKA_STORAGE_ERROR}
        assert outcomes[0] is None
        assert send(node, "orders", 10, 100, partition=1 - second) == [None] * 10
        lines = [line for line in node.log.splitlines() if "is offline:" in line]
        assert len([line for line in lines if f"log directory {node.paths[1]} is offline" in line]) == 1
        assert "Traceback" not in node.log
        assert process.poll() is None


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", DISK_MEGABYTES) as mounted:
        yield mounted


def partition_on(disk: SmallDisk, topic: str) -> int:
    """Which of the topic's two partitions is there."""
    (found,) = disk.path.glob(f"{topic}-?")
    return int(found.name[-1])


def write_rising(node: LimitedNode, topic: str, partition: int, count: int) -> list[KafkaError | None]:
    """Records in batches and milliseconds of their own: each has an entry in both indexes, where nothing is left out. Until the
    first that is refused: librdkafka would keep what it has not sent by then for a new leader."""
    outcomes: list[KafkaError | None] = []
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refused.append(error)
        outcomes.append(error)

    producer = Producer({**node.client, "retries": 0, "message.timeout.ms": 20_000, "batch.num.messages": 1})
    began_ms = time.time_ns() // 1_000_000
    for number in range(count):
        producer.produce(topic, b"x", partition=partition, timestamp=began_ms + number, on_delivery=delivered)
        producer.poll(0)
        if refused:
            break
    deadline_s = time.monotonic() + DEADLINE_S
    while len(producer) and not refused:
        assert time.monotonic() < deadline_s
        producer.poll(0.1)
    producer.purge(in_queue=True, in_flight=False)
    assert producer.flush(DEADLINE_S) == 0
    return [each for each in outcomes if each is None or each.code() != KafkaError._PURGE_QUEUE]


def test_a_node_that_starts_on_a_full_disk_goes_on_without_it(tmp_path: Path, disk: SmallDisk) -> None:
    # Indexes that a killed process leaves are long and hollow, and a file system in memory fills a hole that is looked at.
    data = tmp_path / "data"
    node = LimitedNode(tmp_path, settings=f"metadata.log.dir={data}\n", paths=[data, disk.path])
    with node.running() as process:
        create(node, "orders", 2, {"index.interval.bytes": "0"})
        full = partition_on(disk, "orders")
        assert send(node, "orders", 10, 1000, partition=full) == [None] * 10
        process.kill()
        process.wait(DEADLINE_S)
    (index,) = disk.path.glob("orders-?/*.index")
    was_hollow = index.stat().st_size == 10 * 1024 * 1024 > 512 * index.stat().st_blocks
    disk.fill()

    with node.running() as process:
        # More than the tails that recovery has cut off.
        outcomes = send(node, "orders", 100, 5000, partition=full)
        elsewhere = send(node, "orders", 10, 1000, partition=1 - full)
        is_alive = process.poll() is None

    assert was_hollow
    assert {error.code() for error in outcomes if error is not None} == {KafkaError.KAFKA_STORAGE_ERROR}
    lines = [line for line in node.log.splitlines() if f"log directory {disk.path} is offline" in line]
    assert len(lines) == 1
    assert "No space left on device" in lines[0]
    assert "Traceback" not in node.log
    assert elsewhere == [None] * 10
    assert is_alive


def test_a_node_whose_only_disk_is_full_at_its_start_ends_with_a_sentence(tmp_path: Path, disk: SmallDisk) -> None:
    node = LimitedNode(tmp_path, paths=[disk.path])
    with node.running() as process:
        create(node, "orders", 1, {"index.interval.bytes": "0"})
        assert send(node, "orders", 10, 1000) == [None] * 10
        process.kill()
        process.wait(DEADLINE_S)
    disk.fill()

    with node.begun() as process:
        code = process.wait(DEADLINE_S)

    assert code == 1, "negative is a signal"
    assert node.log.splitlines()[-1].startswith(f"tidelog broker: cannot write {disk.path}/")
    assert node.log.endswith("No space left on device (ENOSPC)\n")
    assert "Traceback" not in node.log


def test_an_index_that_grows_on_a_full_disk_takes_the_directory_offline(tmp_path: Path, disk: SmallDisk) -> None:
    data = tmp_path / "data"
    node = LimitedNode(tmp_path, settings=f"metadata.log.dir={data}\n", paths=[data, disk.path])
    with node.running() as process:
        # The log file has its space from the start, so that an index is the first to need more.
        config = {"index.interval.bytes": "0", "preallocate": "true", "segment.bytes": str(8 << 20)}
        create(node, "orders", 2, config)
        full = partition_on(disk, "orders")
        # The first batch has no entry, the second makes the indexes grow.
        before = write_rising(node, "orders", full, 2)
        disk.fill()
        outcomes = write_rising(node, "orders", full, 2 * RESERVE_BYTES // TIME_ENTRY.size)
        elsewhere = send(node, "orders", 10, 1000, partition=1 - full)
        is_alive = process.poll() is None

    refused = {error.code() for error in outcomes if error is not None}
    assert before == [None, None]
    assert outcomes[0] is None, "what is reserved can be written"
    assert refused == {KafkaError.KAFKA_STORAGE_ERROR}
    lines = [line for line in node.log.splitlines() if f"log directory {disk.path} is offline" in line]
    assert len(lines) == 1
    assert re.search(r"cannot allocate \S+index: No space left on device", lines[0])
    assert elsewhere == [None] * 10
    assert is_alive


def test_a_node_that_is_stopped_while_it_starts_leaves_nothing_half_done(tmp_path: Path) -> None:
    node = LimitedNode(tmp_path)
    with node.running() as process:
        create(node, "orders")
        assert send(node, "orders", 10, 100) == [None] * 10
        process.kill()
        process.wait(DEADLINE_S)
    stopped_early = 0
    for attempt in range(6):
        with node.begun() as process:
            # Ever later: before the first import is done, and while the log is recovered.
            try:
                process.wait(0.06 * (attempt + 1))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
            if process.wait(DEADLINE_S) not in (0, -signal.SIGTERM):
                assert process.returncode == EXIT_FAILED
                assert node.log.endswith("stopped while it was starting; the next start recovers\n")
            assert process.stdout is not None
            stopped_early += not process.stdout.read().startswith("ready")
    assert stopped_early
    assert "Traceback" not in node.log

    with node.running():
        assert send(node, "orders", 1, 100) == [None]
        with closing(Consumer({**node.client, "group.id": "any"})) as consumer:
            assert consumer.get_watermark_offsets(TopicPartition("orders", 0), DEADLINE_S) == (0, 11)
