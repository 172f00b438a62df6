"""Tidelog and Apache Kafka on one data directory, with one server.properties, in turn."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from tests.support.apache_kafka import CLUSTER_ID, ApacheKafka, Node, free_ports, wait_until
from tests.support.command_line import tidelog
from tests.support.command_process import CommandProcess
from tests.support.kafka_driver import KafkaDriver, Received, Sent
from tests.support.kafka_fixtures import NAMES, KafkaFixture
from tests.support.raw_client import RawClient
from tests.support.tidelog_node import TidelogError, TidelogNode
from tidelog.model.errors import ErrorCode
from tidelog.wire.records import Record, build_batch

pytestmark = pytest.mark.compat

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 2
TRIMMED_BEFORE = 7
PRODUCER_ID = 4_000_000
TIMEOUT_S = 20

# Data that was written long ago stays, whatever the clock says.
FOR_EVER = {
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "52560000",
    "producer.id.expiration.ms": "2147483647",
    "transactional.id.expiration.ms": "2147483647",
    # The fixtures are older than any transaction may become; what was left open in them stays so.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2147483647",
    # A kill forgets deleted records that are not in the checkpoint yet, which is a minute old at most by default.
    "log.flush.start.offset.checkpoint.interval.ms": "200",
}
# What Kafka says at every start, also on a directory of its own.
ORDINARY = ("Performing controller activation", "NetworkClient that has already been closed")

# The sources of a value that is in the metadata: of the topic, of the broker, of all brokers. Static keys are each program's own.
IN_METADATA = frozenset({1, 2, 3})

AnyNode = Node | TidelogNode
Ending = Callable[[AnyNode], None]


class Seen(NamedTuple):
    """What clients see of the cluster."""

    topics: dict[str, str]
    """Names and ids."""
    configs: dict[str, dict[str, str | None]]
    """What the metadata sets, by resource: for topics, what their broker is told as well."""
    records: dict[str, list[Received]]
    log_starts: dict[str, int]


def look(node: AnyNode, driver: KafkaDriver) -> Seen:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    found = admin.list_topics(timeout=TIMEOUT_S).topics
    partitions = {name: len(found[name].partitions) for name in sorted(found) if not name.startswith("__")}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in partitions]
    resources += [ConfigResource(ConfigResource.Type.BROKER, "1")]
    configs = {}
    for resource, future in admin.describe_configs(resources, request_timeout=TIMEOUT_S).items():
        entries = future.result().values()
        changed = {entry.name: entry.value for entry in entries if entry.source in IN_METADATA}
        configs[f"{resource.restype.name} {resource.name}"] = changed
    each = [(name, index) for name, count in partitions.items() for index in range(count)]
    return Seen(
        topics={name: driver.topic_id(name) for name in partitions},
        configs=configs,
        records={f"{name}-{index}": driver.consume(name, partition=index) for name, index in each},
        log_starts={
            f"{name}-{index}": driver.list_offset(name, "earliest", partition=index).offset for name, index in each
        },
    )


def create(node: AnyNode, driver: KafkaDriver) -> None:
    """Topics, one of them deleted again, and configurations of every kind that a node has today."""
    driver.create_topic("orders", partitions=PARTITIONS, config={"retention.ms": "-1", "segment.bytes": "1048576"})
    driver.create_topic("short-lived")
    driver.delete_topic("short-lived")
    driver.create_topic("trimmed", config={"cleanup.policy": "delete"})
    driver.alter_config("TOPIC", "orders", "max.message.bytes", "2000000")
    driver.alter_config("BROKER", "1", "log.message.timestamp.type", "LogAppendTime")
    driver.alter_config("BROKER", "", "message.max.bytes", "3000000")
    driver.open_producer("trimmed")
    driver.send("trimmed", "trimmed", [Sent(b"%d" % row, b"value", None) for row in range(10)])
    driver.delete_records("trimmed", TRIMMED_BEFORE)
    checkpoint = node.data / "log-start-offset-checkpoint"
    wait_until(
        lambda: checkpoint.exists() and f"trimmed 0 {TRIMMED_BEFORE}" in checkpoint.read_text(),
        "the log start is saved",
    )


def write(driver: KafkaDriver, word: str) -> None:
    """Records of every codec, with idempotent producers, which Java's are unless told otherwise."""
    now_ms = int(time.time() * 1000)
    for codec in CODECS:
        name = f"{word} {codec}"
        driver.open_producer(name, compression_type=codec)
        for partition in range(PARTITIONS):
            rows = [
                Sent(f"{name} {row}".encode(), name.encode() * 30, now_ms + row, (("codec", codec.encode()),))
                for row in range(9)
            ]
            driver.send(name, "orders", [*rows, Sent(None, None, now_ms)], partition=partition)
        driver.close_producer(name)


def produce_next(node: AnyNode, sequence: int, *, last_offset: int | None) -> int:
    """One producer goes on through every change of program: its last batch is known, a gap is refused, the next is taken."""

    def batch(sequence: int) -> bytes:
        row = Record(0, 1_700_000_000_000, b"in sequence", b"%d" % sequence, ())
        return build_batch([row], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)

    with RawClient(node.bootstrap) as client:
        if last_offset is not None:
            assert client.produce("orders", 0, batch(sequence - 1)) == (ErrorCode.NONE, last_offset)
            assert client.produce("orders", 0, batch(sequence + 5))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        error, offset = client.produce("orders", 0, batch(sequence))
    assert error == ErrorCode.NONE
    return offset


def two_ports() -> tuple[int, int]:
    first, second = free_ports(2)
    return first, second


def stopped(node: AnyNode) -> None:
    node.stop()


def killed(node: AnyNode) -> None:
    node.kill()


@pytest.mark.parametrize("ends", [stopped, killed])
def test_kafka_goes_on_with_what_we_wrote_and_we_go_on_after_it(
    kafka: ApacheKafka, tmp_path: Path, ends: Ending
) -> None:
    theirs = Node(kafka, tmp_path, settings=FOR_EVER, log_level="info")
    ours = TidelogNode(theirs)
    nodes: tuple[AnyNode, ...] = (ours, theirs, ours, theirs)
    seen: Seen | None = None
    offset: int | None = None
    for turn, node in enumerate(nodes):
        with node.running(), KafkaDriver(kafka, node.bootstrap) as driver:
            if seen is None:
                create(node, driver)
            else:
                assert look(node, driver) == seen
            write(driver, f"turn {turn}")
            offset = produce_next(node, turn, last_offset=offset)
            driver.create_topic(f"of-turn-{turn}")
            before, seen = seen, look(node, driver)
            ends(node)
        if before is not None:
            assert seen.records["orders-0"][: len(before.records["orders-0"])] == before.records["orders-0"]
        assert len(seen.records["orders-0"]) == (turn + 1) * (len(CODECS) * 10 + 1)
    assert seen is not None
    assert seen.log_starts["trimmed-0"] == TRIMMED_BEFORE
    for_all = {
        "max.message.bytes": "3000000",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "1",
    }
    set_here = {"retention.ms": "-1", "segment.bytes": "1048576", "max.message.bytes": "2000000"}
    assert seen.configs["TOPIC orders"] == {**for_all, **set_here}
    assert seen.configs["TOPIC trimmed"] == {**for_all, "cleanup.policy": "delete"}
    assert seen.configs["BROKER 1"] == {
        "log.message.timestamp.type": "LogAppendTime",
        "message.max.bytes": "3000000",
        "min.insync.replicas": "1",
    }


def test_a_directory_that_we_stopped_on_gives_kafka_nothing_to_complain_of(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs = Node(kafka, tmp_path, settings=FOR_EVER, log_level="info")
    ours = TidelogNode(theirs)
    with ours.running(), KafkaDriver(kafka, ours.bootstrap) as driver:
        create(ours, driver)
        write(driver, "ours")

    with theirs.running():
        pass

    lines = theirs.log_file.read_text(errors="replace").splitlines()
    # With that of the topic that waits to be removed.
    assert any("Skipping recovery of 4 logs" in line for line in lines)
    complaints = [line for line in lines if line.startswith(("WARN", "ERROR"))]
    assert [line for line in complaints if not any(ordinary in line for ordinary in ORDINARY)] == []
    verified = tidelog("verify", theirs.data)
    assert verified.exit_code == 0, verified.output


def test_verify_finds_nothing_beside_a_kafka_that_runs(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs = Node(kafka, tmp_path, settings=FOR_EVER)
    theirs.format()
    with theirs.running(), KafkaDriver(kafka, theirs.bootstrap) as driver:
        create(theirs, driver)
        write(driver, "theirs")
        # It makes every leader-epoch-checkpoint with its log, empty until the first batch.
        beside = tidelog("verify", theirs.data)
    after = tidelog("verify", tmp_path)

    for verified in (beside, after):
        assert verified.exit_code == 0, verified.output
        assert ": 0 errors, 0 warnings, " in verified.output


@pytest.mark.parametrize("name", NAMES)
def test_we_serve_a_directory_that_kafka_formatted_and_wrote_and_kafka_finds_its_groups_again(
    kafka: ApacheKafka, tmp_path: Path, name: str
) -> None:
    fixture = KafkaFixture.unpack(name, tmp_path)
    fixture.data.rename(tmp_path / "data")
    # Other ports than those under which the voter was written down.
    theirs = Node(kafka, tmp_path, settings=FOR_EVER)
    ours = TidelogNode(theirs)
    partitions = {each: (each.rpartition("-")[0], int(each.rpartition("-")[2])) for each in fixture.partitions}
    with ours.running(), KafkaDriver(kafka, ours.bootstrap) as driver:
        for each, (topic, index) in partitions.items():
            expected = fixture.expected["partitions"][each]
            assert driver.consume(topic, partition=index) == fixture.records(each)
            committed = driver.consume(topic, partition=index, committed=True)
            assert [row.offset for row in committed] == expected["committed_offsets"]
            for at, offset in (("earliest", "log_start_offset"), ("latest", "log_end_offset")):
                assert driver.list_offset(topic, at, partition=index).offset == expected[offset]
            stable = driver.list_offset(topic, "latest", partition=index, committed=True)
            assert stable.offset == expected["last_stable_offset"]
            for listed in expected["by_timestamp"]:
                found = driver.list_offset(topic, listed["at"], partition=index)
                assert (found.offset, found.timestamp) == (listed["offset"], listed["timestamp"])
            assert driver.topic_id(topic) == fixture.expected["topic_ids"][topic]
        driver.open_producer("ours")
        driver.send("ours", "codec-none", [Sent(b"ours", b"value", None)])

    with theirs.running(), KafkaDriver(kafka, theirs.bootstrap) as driver:
        assert driver.consume("codec-none")[:-1] == fixture.records("codec-none-0")
        assert driver.consume("codec-none")[-1].key == b"ours"
        for group, offsets in fixture.expected["groups"].items():
            assert driver.group_offsets(group) == offsets
        transactions = {each["transactional_id"] for each in driver.list_transactions()}
        assert transactions == {each["transactional_id"] for each in fixture.expected["transactions"]}
        # Its producers go on with transactions.
        driver.open_producer("payments", transactional_id="payments")
        driver.begin("payments")
        driver.send("payments", "transactional", [Sent(b"theirs", b"value", None)])
        driver.commit("payments")


def static_quorum(node: Node) -> None:
    """As before voters were written into the log, formatted by whoever comes first."""
    node.settings = {
        **node.settings,
        "controller.quorum.voters": f"1@127.0.0.1:{node.controller_port}",
        "controller.quorum.bootstrap.servers": "",
    }


def static_quorum_of_kafka(node: Node) -> None:
    static_quorum(node)
    properties = str(node.properties())
    done = node.kafka.tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties)
    assert done.code == 0, done


def formatted_by_kafka(node: Node) -> None:
    node.format()


def formatted_by_us(node: Node) -> None:
    formatted = tidelog("format", "--config", node.properties())
    assert formatted.exit_code == 0, formatted.output


def several_directories(node: Node) -> None:
    node.settings = {**node.settings, "log.dirs": f"{node.data},{node.root / 'more'}"}


def frequent_snapshots(node: Node) -> None:
    """So frequent that each program starts from a snapshot of the other one."""
    node.settings = {
        **node.settings,
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "metadata.log.max.snapshot.interval.ms": "1000",
    }


@pytest.mark.parametrize(
    "prepare",
    [
        formatted_by_kafka,
        formatted_by_us,
        static_quorum,
        static_quorum_of_kafka,
        several_directories,
        frequent_snapshots,
    ],
)
def test_the_programs_agree_whatever_the_cluster_was_made_of(
    kafka: ApacheKafka, tmp_path: Path, prepare: Callable[[Node], None]
) -> None:
    theirs = Node(kafka, tmp_path, settings=FOR_EVER)
    ours = TidelogNode(theirs)
    prepare(theirs)
    metadata = theirs.data / "__cluster_metadata-0"
    topics: dict[str, int] = {}
    nodes: tuple[AnyNode, ...] = (ours, theirs, ours)
    for turn, node in enumerate(nodes):
        with node.running():
            admin = AdminClient({"bootstrap.servers": node.bootstrap})
            assert partition_counts(admin) == topics
            wanted = {f"of-turn-{turn}-{number}": 2 for number in range(4)}
            created = admin.create_topics([NewTopic(name, count, 1) for name, count in wanted.items()])
            for future in created.values():
                future.result(TIMEOUT_S)
            topics.update(wanted)
            wait_until(lambda: partition_counts(admin) == topics, "the topics are there")  # noqa: B023
            if prepare is frequent_snapshots:
                before = newest_snapshot(metadata)
                wait_until(lambda: newest_snapshot(metadata) > before, "there is a newer snapshot")  # noqa: B023
    if prepare in {static_quorum, static_quorum_of_kafka}:
        state = json.loads((metadata / "quorum-state").read_text())
        assert (state["data_version"], state["currentVoters"]) == (0, [{"voterId": 1}])
    if prepare is several_directories:
        assert {path.parent.name for path in tmp_path.glob("*/of-turn-*")} == {"data", "more"}


def partition_counts(admin: AdminClient) -> dict[str, int]:
    found = admin.list_topics(timeout=TIMEOUT_S).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def newest_snapshot(metadata: Path) -> str:
    return max(path.name for path in metadata.glob("*.checkpoint"))


class AsItIs(Node):
    """A node of Apache Kafka with a server.properties that somebody else wrote."""

    file: Path

    def properties(self) -> Path:
        return self.file


def test_kafka_starts_with_the_properties_that_up_leaves(kafka: ApacheKafka, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    port = free_ports(1)[0]
    with CommandProcess("up", "--port", str(port), "--dir", cluster) as up:
        up.ready_line()
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        for future in admin.create_topics([NewTopic("of-up", 2, 1)]).values():
            future.result(TIMEOUT_S)
        up.send(signal.SIGTERM)
        assert up.end()[0] == 0
    (properties,) = cluster.rglob("server.properties")
    theirs = AsItIs(kafka, tmp_path / "kafka", ports=(port, 0))
    theirs.file = properties

    with theirs.running():
        found = partition_counts(AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}))

    assert found == {"of-up": 2}


def test_the_directory_may_move_to_other_ports_at_every_change(kafka: ApacheKafka, tmp_path: Path) -> None:
    addresses = set()
    for turn in range(4):
        theirs = Node(kafka, tmp_path, settings=FOR_EVER, ports=two_ports())
        node: AnyNode = theirs if turn % 2 else TidelogNode(theirs)
        with node.running():
            metadata = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=TIMEOUT_S)
            addresses.add(f"127.0.0.1:{metadata.brokers[1].port}")
            assert f"127.0.0.1:{metadata.brokers[1].port}" == node.bootstrap
    assert len(addresses) == 4


def test_we_refuse_a_directory_that_kafka_uses(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs = Node(kafka, tmp_path)
    ours = TidelogNode(Node(kafka, tmp_path, ports=two_ports()))
    with theirs, pytest.raises(TidelogError, match="another process uses the directory"):
        ours.start()
