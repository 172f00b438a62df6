"""Apache Kafka reads, formats and carries on what our controller writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.apache_kafka import CLUSTER_ID, NODE_ID, ApacheKafka, Node
from tests.support.dump_log_segments import dump_log_segments
from tests.support.metadata_node import MetadataNode
from tidelog.controller.formatting import format_directories
from tidelog.model.clock import SystemClock
from tidelog.model.ids import BrokerEpoch, NodeId, TopicName, uuid_to_text
from tidelog.raft.voter_set import Endpoint
from tidelog.storage.clean_shutdown import write_clean_shutdown
from tidelog.storage.os_files import OsFiles
from tidelog.wire.messages.broker_lifecycle import BrokerRegistrationResponse

pytestmark = pytest.mark.compat

METADATA = "__cluster_metadata-0"
FIRST_VOTERS = f"{METADATA}/00000000000000000000-0000000000.checkpoint"
DECODER = "--cluster-metadata-decoder"


@pytest.fixture
def ours(tmp_path: Path) -> MetadataNode:
    """Our controller on a real disk."""
    return MetadataNode(disk=OsFiles(), directory=str(tmp_path / "ours"))


def without_ids(value: Any) -> Any:
    """What was decoded, without what two formattings never have in common: times and directory ids."""
    if isinstance(value, dict):
        changing = {"lastContainedLogTimestamp", "voterDirectoryId", "CreateTime"}
        return {key: without_ids(each) for key, each in value.items() if key not in changing}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


def decoded(kafka: ApacheKafka, *files: Path) -> list[list[Any]]:
    dumps = dump_log_segments(kafka, files, DECODER)
    return [dumps[file].decoded_records() for file in files]


def test_we_format_what_kafka_formats(kafka: ApacheKafka, tmp_path: Path) -> None:
    node = Node(kafka, tmp_path / "kafka")
    node.format()
    our_directory = tmp_path / "ours"
    format_directories(
        OsFiles(),
        [str(our_directory)],
        cluster_id=CLUSTER_ID,
        node_id=NodeId(NODE_ID),
        controller_endpoints=(Endpoint("CONTROLLER", "127.0.0.1", node.controller_port),),
        random=Random(1),
        clock=SystemClock(),
    )

    def names(directory: Path) -> set[str]:
        return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}

    assert names(our_directory) == names(node.data)
    for name in ("bootstrap.checkpoint", FIRST_VOTERS):
        our_records, their_records = decoded(kafka, our_directory / name, node.data / name)
        assert without_ids(our_records) == without_ids(their_records)
        assert (our_directory / name).stat().st_size == (node.data / name).stat().st_size


def test_kafkas_storage_tool_takes_our_directory_for_its_own(kafka: ApacheKafka, tmp_path: Path) -> None:
    node = Node(kafka, tmp_path / "kafka")
    formatted(node)

    info = kafka.tool("kafka.tools.StorageTool", "info", "-c", str(node.properties()))

    assert info.code == 0, info.stdout + info.stderr
    assert CLUSTER_ID in info.stdout
    again = kafka.tool(
        "kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(node.properties())
    )
    assert again.code != 0
    assert "already formatted" in again.stdout + again.stderr


def test_kafkas_dump_reads_our_log_and_our_snapshots(kafka: ApacheKafka, ours: MetadataNode) -> None:
    ours.config = {"metadata.log.max.record.bytes.between.snapshots": "1500"}
    ours.start()
    epochs = ours.serve(1, 2)
    for number in range(5):
        ours.create_topic(f"topic-{number}", partitions=2, replicas=2, configs={"retention.ms": str(number)})
    ours.heartbeat(1, epochs[1], want_shut_down=True)
    written = [
        (batch.base_offset + number, type(framed.message).__name__)
        for batch in ours.batches()
        for number, framed in enumerate(batch.records)
    ]
    ours.stop()
    directory = Path(ours.directory) / METADATA
    snapshots = sorted(directory.glob("*.checkpoint"))
    assert len(snapshots) > 2

    log, *contents = decoded(kafka, directory / "00000000000000000000.log", *snapshots)

    read = [(record["offset"], _record_name(record["payload"]["type"])) for record in log if "payload" in record]
    assert read == written
    for content in contents:
        assert "control" in content[0]
        assert content[-1]["control"] == "SnapshotFooter"


def test_kafka_carries_on_our_log_and_we_carry_on_kafkas(kafka: ApacheKafka, tmp_path: Path) -> None:
    """Our controller writes a cluster; Apache Kafka starts on it, serves the topics, makes one, stops; and we go on."""
    theirs = Node(kafka, tmp_path / "kafka")
    with controlling(theirs) as ours:
        epoch = _serve(ours)
        ours.create_topic("ours", partitions=3, configs={"retention.ms": "123456789"})
        topic_id = ours.image.topic_ids[TopicName("ours")]
        for _ in range(2):
            ours.heartbeat(NODE_ID, epoch, want_shut_down=True)
    write_clean_shutdown(OsFiles(), str(theirs.data), epoch)

    with theirs.running():
        described = _topics(theirs, "--describe", "--topic", "ours")
        _topics(theirs, "--create", "--topic", "theirs", "--partitions", "2")

    assert f"TopicId: {uuid_to_text(topic_id)}" in described
    assert "PartitionCount: 3" in described
    assert "retention.ms=123456789" in described
    assert described.count("Leader: 1") == 3
    with controlling(theirs) as ours:
        assert set(ours.image.topic_ids) == {"ours", "theirs"}
        assert ours.image.topic_ids[TopicName("ours")] == topic_id
        assert ours.service is not None
        assert ours.service.quorum.epoch >= 3


def formatted(node: Node) -> None:
    """What Kafka's own `format` would do, done by us."""
    format_directories(
        OsFiles(),
        [str(node.data)],
        cluster_id=CLUSTER_ID,
        node_id=NodeId(NODE_ID),
        controller_endpoints=(Endpoint("CONTROLLER", "127.0.0.1", node.controller_port),),
        random=Random(2),
        clock=SystemClock(),
    )


@contextmanager
def controlling(node: Node) -> Iterator[MetadataNode]:
    """Our controller on the directory of a node of Kafka's, which does not run."""
    formatted(node)
    ours = MetadataNode(disk=OsFiles(), directory=str(node.data), config={"metadata.max.idle.interval.ms": "0"})
    ours.start()
    yield ours
    ours.stop()


def _serve(ours: MetadataNode) -> BrokerEpoch:
    """The node's broker, with the directory that it really has."""
    identity = ours.format()
    request = ours.registration(NODE_ID)
    assert identity.directory_id is not None
    request.log_dirs = [identity.directory_id]
    response = ours.ask(request, BrokerRegistrationResponse)
    ours.heartbeat(NODE_ID, response.broker_epoch)
    return BrokerEpoch(response.broker_epoch)


def _topics(node: Node, *arguments: str) -> str:
    done = node.kafka.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", node.bootstrap, *arguments)
    assert done.code == 0, done.stdout + done.stderr
    return done.stdout


def _record_name(kafkas: str) -> str:
    """`FEATURE_LEVEL_RECORD` is what Kafka calls our FeatureLevelRecord."""
    return "".join(word.capitalize() for word in kafkas.split("_"))
