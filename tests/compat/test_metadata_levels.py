"""Every level of metadata.version, 3.3-IV3 to 4.3-IV0: Apache Kafka reads what we wrote at it, and we go on with what it wrote.

Old clusters have their voters in the configuration, so all of these have.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.apache_kafka import CLUSTER_ID, ApacheKafka, KafkaError, Node, wait_until
from tests.support.command_line import tidelog
from tests.support.dump_log_segments import dump_log_segments
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin, Consumer, Producer
from tidelog.client.admin import ConfigResource, NewTopic, ResourceKind
from tidelog.client.admin.configs import ConfigChange, ConfigOperation
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.controller.metadata_version import METADATA_VERSIONS

pytestmark = pytest.mark.compat

FEATURES = "org.apache.kafka.tools.FeatureCommand"
SHELL = "org.apache.kafka.shell.MetadataShell"
STORAGE = "kafka.tools.StorageTool"
METADATA = "__cluster_metadata-0"
TIMEOUT_S = 30.0

NAMES = [version.name for version in METADATA_VERSIONS.values()]
# Where records, or what is decided, change. In this direction Kafka is started twice.
CHANGING = [
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.7-IV0",
    "3.7-IV2",
    "4.0-IV1",
    "4.1-IV0",
    "4.3-IV0",
]
RETENTION = {"retention.ms": "123456789"}

AnyNode = Node | TidelogNode
Versions = dict[str, set[int]]


@pytest.fixture
def theirs(kafka: ApacheKafka, tmp_path: Path) -> Node:
    """A node with static voters, and snapshots so frequent that each start is from one."""
    node = Node(kafka, tmp_path)
    node.settings = {
        "controller.quorum.voters": f"1@127.0.0.1:{node.controller_port}",
        "controller.quorum.bootstrap.servers": "",
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "metadata.log.max.snapshot.interval.ms": "500",
    }
    return node


def format_ours(node: Node, release: str) -> None:
    formatted = tidelog("format", "--config", node.properties(), "--cluster-id", CLUSTER_ID, "-r", release)
    assert formatted.exit_code == 0, formatted.output


def format_theirs(node: Node, release: str) -> None:
    done = node.kafka.tool(STORAGE, "format", "-t", CLUSTER_ID, "-c", str(node.properties()), "-r", release)
    assert done.code == 0, done


def change(node: AnyNode, word: str) -> None:
    """Topics, one deleted again, more partitions, configurations of topics and brokers, records; and a snapshot of it all."""
    metadata = node.data / METADATA
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        admin.create_topics([NewTopic(word, partitions=2, configs=RETENTION), NewTopic(f"{word}-gone", partitions=1)])
        admin.create_partitions({word: 3})
        admin.delete_topic(f"{word}-gone")
        altered = admin.incremental_alter_configs(
            {
                ConfigResource(ResourceKind.TOPIC, word): [
                    ConfigChange("segment.bytes", ConfigOperation.SET, "2097152")
                ],
                ConfigResource(ResourceKind.BROKER, ""): [
                    ConfigChange("message.max.bytes", ConfigOperation.SET, "3000000")
                ],
            }
        )
        assert set(altered.values()) == {None}
        # Kafka answers before its own broker has seen it.
        wait_until(lambda: len(admin.describe_topic(word).partitions) == 3, "the topic has grown", TIMEOUT_S)
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        for partition in range(3):
            producer.send(word, word.encode(), partition=partition)
        producer.flush()
    before = newest_snapshot(metadata)
    wait_until(lambda: newest_snapshot(metadata) != before, "there is a newer snapshot", TIMEOUT_S)


def check(node: AnyNode, *words: str) -> None:
    """All that `change` did under these names is there."""
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        listed = {each.name for each in admin.list_topics(include_internal=False)}
        assert listed == set(words)
        for word in words:
            topic = admin.describe_topic(word)
            assert [each.leader for each in topic.partitions] == [1, 1, 1]
            configs = admin.describe_config(ResourceKind.TOPIC, word)
            assert configs["retention.ms"].value == RETENTION["retention.ms"]
            assert configs["segment.bytes"].value == "2097152"
        broker = admin.describe_config(ResourceKind.BROKER, "1", keys=["message.max.bytes"])
        assert broker["message.max.bytes"].value == "3000000"
    for word in words:
        assert read(node, word) == [word.encode()] * 3


def read(node: AnyNode, topic: str) -> list[bytes | None]:
    """The records of the topic's three partitions, of which each has one."""
    found: list[bytes | None] = []
    with Consumer(bootstrap_servers=node.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(3)])

        def has_all() -> bool:
            found.extend(each.value for each in consumer.poll(1.0))
            return len(found) >= 3

        wait_until(has_all, f"the records of {topic} are read", TIMEOUT_S)
    return found


def level_of(node: AnyNode) -> int:
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        return admin.describe_features()["metadata.version"].level


def newest_snapshot(metadata: Path) -> str:
    return max((path.name for path in metadata.glob("*.checkpoint")), default="")


def written(kafka: ApacheKafka, data: Path) -> Versions:
    """The versions of each type of record in the log and the newest snapshot, as Kafka's own tool reads them."""
    metadata = data / METADATA
    files = [*sorted(metadata.glob("*.log")), metadata / newest_snapshot(metadata)]
    dumps = dump_log_segments(kafka, files, "--cluster-metadata-decoder")
    versions: Versions = defaultdict(set)
    for file in files:
        for record in dumps[file].decoded_records():
            if "payload" in record:
                versions[record["payload"]["type"]].add(record["payload"]["version"])
    return versions


@pytest.mark.parametrize("name", NAMES)
def test_kafka_reads_back_what_we_wrote_at_a_level(theirs: Node, kafka: ApacheKafka, name: str) -> None:
    level = next(each for each in METADATA_VERSIONS.values() if each.name == name)
    ours = TidelogNode(theirs)
    format_ours(theirs, name)
    for word in ("first", "second"):
        with ours.running():
            assert level_of(ours) == level.level
            change(ours, word)

    versions = written(kafka, theirs.data)
    assert versions["REGISTER_BROKER_RECORD"] == {level.register_broker}
    assert versions["PARTITION_RECORD"] == versions["PARTITION_CHANGE_RECORD"] == {level.partition}
    assert ("REGISTER_CONTROLLER_RECORD" in versions) is level.has_controller_registration
    assert ("BEGIN_TRANSACTION_RECORD" in versions) is level.has_transactions
    snapshot = str(theirs.data / METADATA / newest_snapshot(theirs.data / METADATA))
    shown = kafka.tool(SHELL, "--snapshot", snapshot, "ls", "/image/topics/byName")
    assert shown.stdout.split() == ["first", "second"], shown
    with theirs.running():
        assert level_of(theirs) == level.level
        check(theirs, "first", "second")
        change(theirs, "theirs")
    with ours.running():
        check(ours, "first", "second", "theirs")


@pytest.mark.parametrize("name", CHANGING)
def test_we_go_on_at_the_level_of_a_directory_of_kafkas(theirs: Node, kafka: ApacheKafka, name: str) -> None:
    ours = TidelogNode(theirs)
    format_theirs(theirs, name)
    with theirs.running():
        level = level_of(theirs)
        change(theirs, "theirs")
    of_kafka = written(kafka, theirs.data)

    with ours.running():
        assert level_of(ours) == level
        check(ours, "theirs")
        change(ours, "ours")
    of_both = written(kafka, theirs.data)

    # Ours in no other version than theirs, and nothing that the level does not have.
    assert {kind: of_both[kind] for kind in of_kafka} == of_kafka
    assert set(of_both) - set(of_kafka) <= {"NO_OP_RECORD", "PARTITION_CHANGE_RECORD"}
    with theirs.running():
        check(theirs, "ours", "theirs")


def features_tool(node: AnyNode, kafka: ApacheKafka) -> Callable[..., str]:
    def run(*arguments: str, fails: bool = False) -> str:
        done = kafka.tool(FEATURES, "--bootstrap-server", node.bootstrap, *arguments)
        if (done.code != 0) is not fails:
            raise KafkaError(f"{arguments}: {done}")
        return done.stdout + done.stderr

    return run


def test_kafkas_tool_raises_a_cluster_of_ours_from_the_oldest_level_to_the_newest(
    theirs: Node, kafka: ApacheKafka
) -> None:
    ours = TidelogNode(theirs)
    format_ours(theirs, "3.3")
    words: list[str] = []
    with ours.running():
        features = features_tool(ours, kafka)
        for name in ("3.4", "3.6", "3.7-IV0", "3.7", "4.0", "4.3"):
            assert "was upgraded to" in features("upgrade", "--metadata", name)
            words.append(f"at-{name}")
            change(ours, words[-1])
        check(ours, *words)
        described = features("describe")
        assert re.search(r"metadata.version\s.*FinalizedVersionLevel: 4.3-IV0", described)
        assert "kraft.version was upgraded to 1." in features("upgrade", "--release-version", "4.3")
    versions = written(kafka, theirs.data)
    # The log from 3.3 on, in which the broker has registered twice, and the snapshot at 4.3.
    assert versions["REGISTER_BROKER_RECORD"] == {1, 3, 4}
    assert versions["PARTITION_RECORD"] == {0, 1, 2}
    for node in (theirs, ours):
        with node.running():
            check(node, *words)
            with Admin(bootstrap_servers=node.bootstrap) as admin:
                found = {each.name: each.level for each in admin.describe_features().values()}
            assert found["metadata.version"] == 30
            assert (found["kraft.version"], found["transaction.version"], found["group.version"]) == (1, 2, 1)


def test_kafkas_tool_lowers_a_level_where_nothing_can_be_lost(theirs: Node, kafka: ApacheKafka) -> None:
    """Both programs refuse with the same sentences."""
    said: dict[str, list[str]] = {}
    for node, prepare in ((TidelogNode(theirs), format_ours), (theirs, None)):
        if prepare is not None:
            prepare(theirs, "4.2")
        with node.running():
            features = features_tool(node, kafka)
            said[type(node).__name__] = [
                features("downgrade", "--metadata", "4.0-IV0", fails=True),
                features("downgrade", "--metadata", "4.0-IV0", "--unsafe", fails=True),
                features("downgrade", "--metadata", "3.2", fails=True),
                features("upgrade", "--metadata", "4.0", fails=True),
                features("downgrade", "--metadata", "4.3", fails=True),
                features("upgrade", "--feature", "unheard.of=1", fails=True),
                features("upgrade", "--feature", "group.version=9", fails=True),
                features("downgrade", "--metadata", "4.1"),
                features("upgrade", "--metadata", "4.2"),
            ]
    assert said["TidelogNode"] == said["Node"]
