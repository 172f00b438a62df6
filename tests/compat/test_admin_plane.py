"""A node of ours and one of Apache Kafka give the same answers to the same administrative requests.

The requests are sent in one order to both, with our messages. What differs by nature is left out of the comparison: ids, ports,
offsets, times, and the keys of configuration that one of the two does not have. The words of error messages count, since tools
print them. Order counts only where Kafka promises one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node, wait_until
from tests.support.raw_client import RawClient
from tests.support.running_node import RunningNode
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages import (
    cluster,
    configs,
    delete_records,
    features,
    log_dirs,
    metadata,
    produce,
    producers,
    quorum,
    reassignments,
    topics,
)
from tidelog.wire.record_batch import TimestampType
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Request, Response

pytestmark = pytest.mark.compat

SETTINGS = {"log.retention.hours": "24", "log.flush.scheduler.interval.ms": "70000", "log.roll.ms": "1000000"}
UNKNOWN_ID = b"x" * 16
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

# Facts of one machine or moment, and texts that each side says in its own words.
IGNORED = {
    "port", "cluster_id", "topic_id", "replica_directory_id", "leader_epoch", "high_watermark", "log_end_offset",
    "last_fetch_timestamp", "last_caught_up_timestamp", "total_bytes", "usable_bytes", "log_dir", "documentation",
}  # fmt: skip
# Told in an order that is Kafka's hash tables'.
UNORDERED = {"topics", "configs", "responses", "results", "config_resources", "partitions"}


class Case(NamedTuple):
    name: str
    request: Request
    answer: type[Response]
    version: int
    awaited_topic: str = ""


def create(name: str, *, partitions: int = 2, replicas: int = 1, validate: bool = False, **given: str) -> Request:
    settings = [topics.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in given.items()]
    topic = topics.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=settings
    )
    return topics.CreateTopicsRequest(topics=[topic], timeout_ms=5000, validate_only=validate)


def asked(*names: str, ids: tuple[bytes, ...] = (), everything: bool = False, creates: bool = False) -> Request:
    wanted = [metadata.MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in names]
    wanted += [metadata.MetadataRequestTopic(topic_id=each, name=None) for each in ids]
    return metadata.MetadataRequest(
        topics=None if everything else wanted,
        allow_auto_topic_creation=creates,
        include_topic_authorized_operations=False,
    )


def described(kind: int, name: str, *keys: str) -> Request:
    resource = configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def changed(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Request:
    resource = configs.IncrementalAlterConfigsAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            configs.IncrementalAlterConfigsAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    return configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def replaced(kind: int, name: str, **given: str | None) -> Request:
    values = [configs.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in given.items()]
    resource = configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=values)
    return configs.AlterConfigsRequest(resources=[resource], validate_only=False)


def paged(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Request:
    return topics.DescribeTopicPartitionsRequest(
        topics=[topics.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else topics.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def deleted(*states: tuple[str | None, bytes]) -> Request:
    wanted = [topics.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
    return topics.DeleteTopicsRequest(topics=wanted, timeout_ms=5000)


def grown(*wanted: tuple[str, int]) -> Request:
    more = [topics.CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in wanted]
    return topics.CreatePartitionsRequest(topics=more, timeout_ms=5000, validate_only=False)


def quorum_of(name: str, *partitions: int) -> Request:
    wanted = [quorum.DescribeQuorumPartitionData(partition_index=each) for each in partitions]
    return quorum.DescribeQuorumRequest(
        topics=[quorum.DescribeQuorumTopicData(topic_name=name, partitions=wanted)] if partitions else []
    )


def disks(*names: str) -> Request:
    wanted = [log_dirs.DescribableLogDirTopic(topic=name, partitions=[0, 1, 7]) for name in names]
    return log_dirs.DescribeLogDirsRequest(topics=wanted or None)


def cluster_of(endpoint_type: int = 1, *, operations: bool = False) -> Request:
    return cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=False
    )


def listed(*types: int) -> Request:
    return configs.ListConfigResourcesRequest(resource_types=list(types))


def elected(kind: int, *partitions: tuple[str, int]) -> Request:
    wanted = [reassignments.TopicPartitions(topic=name, partitions=[index]) for name, index in partitions]
    return reassignments.ElectLeadersRequest(election_type=kind, topic_partitions=wanted)


def reassigned(*wanted: tuple[str, int, list[int] | None]) -> Request:
    moved = [
        reassignments.ReassignableTopic(
            name=name, partitions=[reassignments.ReassignablePartition(partition_index=index, replicas=replicas)]
        )
        for name, index, replicas in wanted
    ]
    return reassignments.AlterPartitionReassignmentsRequest(topics=moved)


def updated(name: str, level: int, kind: int = 1) -> Request:
    update = features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    return features.UpdateFeaturesRequest(feature_updates=[update], validate_only=True)


def produced(name: str, index: int, timestamp: int, acks: int = -1) -> Request:
    batch = build_batch([Record(0, timestamp, None, b"v", ())], timestamp_type=TimestampType.CREATE_TIME)
    data = produce.PartitionProduceData(index=index, records=batch)
    topic = produce.TopicProduceData(name=name, topic_id=ZERO_UUID, partition_data=[data])
    return produce.ProduceRequest(transactional_id=None, acks=acks, timeout_ms=5000, topic_data=[topic])


def producers_of(name: str, index: int) -> Request:
    return producers.DescribeProducersRequest(topics=[producers.TopicRequest(name=name, partition_indexes=[index])])


def cut(name: str, index: int, offset: int) -> Request:
    partition = delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
    return delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=name, partitions=[partition])], timeout_ms=5000
    )


# What each of these keys of a topic does not take.
BAD_VALUES = (
    ("cleanup.policy", "nope"), ("cleanup.policy", "delete,nope"), ("compression.type", "nope"),
    ("compression.gzip.level", "77"), ("compression.lz4.level", "-1"), ("compression.zstd.level", "1000"),
    ("delete.retention.ms", "-5"), ("file.delete.delay.ms", "-1"), ("flush.messages", "0"), ("flush.ms", "-2"),
    ("follower.replication.throttled.replicas", "x"), ("index.interval.bytes", "-1"),
    ("leader.replication.throttled.replicas", "1:2:3"), ("max.compaction.lag.ms", "0"), ("max.message.bytes", "-1"),
    ("max.message.bytes", "99999999999"), ("message.timestamp.after.max.ms", "-1"), ("message.timestamp.type", "nope"),
    ("min.cleanable.dirty.ratio", "2"), ("min.cleanable.dirty.ratio", "x"), ("min.compaction.lag.ms", "-1"),
    ("min.insync.replicas", "0"), ("preallocate", "nope"), ("retention.bytes", "1.5"), ("retention.ms", "-2"),
    ("segment.bytes", "13"), ("segment.index.bytes", "3"), ("segment.jitter.ms", "-1"), ("segment.ms", "0"),
    ("unclean.leader.election.enable", "yes"),
)  # fmt: skip


def barrier(name: str) -> Iterator[Case]:
    """Topics that are waited for: what was done before them can be seen from then on. Kafka's broker learns it a moment later.

    Two, since the first may be known to the metadata while configurations are still being applied.
    """
    for number in (1, 2):
        topic = f"{name}.{number}"
        yield Case(f"CreateTopics {topic}", create(topic, partitions=1), topics.CreateTopicsResponse, 7, topic)


def cases() -> Iterator[Case]:
    """In the order in which they are sent: later ones see what earlier ones have done."""

    def all_of(answer: type[Response], version: int, wanted: dict[str, Request]) -> Iterator[Case]:
        for name, request in wanted.items():
            yield Case(f"{answer.__name__.removesuffix('Response')} {name}", request, answer, version)

    created = {
        "a topic": create("t", retention_ms="1000", cleanup_policy="compact,delete"),
        "another": create("d", partitions=-1, replicas=-1),
        "a third": create("t.x"),
        "one that exists": create("t"),
        "to look only": create("u", validate=True),
        "illegal names": create("a b"),
        "the empty name": create(""),
        "a dot": create("."),
        "a long name": create("x" * 250),
        "a name like another": create("t_x"),
        "too many replicas": create("r", replicas=3),
        "no replicas": create("r", replicas=0),
        "no partitions": create("r", partitions=0),
        "an unknown key": create("r", nope="1"),
        "a bad value": create("r", retention_ms="abc"),
        "the metadata log": create("__cluster_metadata"),
    }
    yield from all_of(topics.CreateTopicsResponse, 7, created)
    yield from barrier("created")
    for version in (0, 1, 5, 7, 9, 12, 13):
        request = asked("t", creates=version < 4)
        yield Case(f"Metadata of a topic, v{version}", request, metadata.MetadataResponse, version)
    known = {
        "of all": asked(everything=True),
        "of none": asked(),
        "of unknown topics": asked("nope", "t"),
        "of illegal names": asked("a b", "", ".."),
        "by an unknown id": asked(ids=(UNKNOWN_ID,)),
    }
    yield from all_of(metadata.MetadataResponse, 12, known)
    before = {
        "of a topic": described(TOPIC, "t"),
        "of two keys": described(TOPIC, "t", "retention.ms", "nope"),
        "of an unknown topic": described(TOPIC, "nope"),
        "of an illegal topic": described(TOPIC, "a b"),
        "of the broker": described(BROKER, "1"),
        "of all brokers": described(BROKER, ""),
        "of another broker": described(BROKER, "2"),
        "of no broker": described(BROKER, "x"),
        "of no logger": described(BROKER_LOGGER, ""),
        "of a group": described(GROUP, "g"),
        "of no group": described(GROUP, ""),
        "of client metrics": described(CLIENT_METRICS, "m"),
        "of no client metrics": described(CLIENT_METRICS, ""),
        "of nothing that there is": described(3, "x"),
    }
    yield from all_of(configs.DescribeConfigsResponse, 4, before)
    changes = {
        "of all brokers": changed(BROKER, "", ("log.retention.ms", SET, "7200000")),
        "of the broker": changed(BROKER, "1", ("log.retention.ms", SET, "3600000")),
        "of a topic": changed(TOPIC, "t", ("segment.ms", SET, "5000")),
        "of a group": changed(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        "of client metrics": changed(CLIENT_METRICS, "m", ("interval.ms", SET, "1000"), ("metrics", SET, "a,b")),
        "twice the same key": changed(TOPIC, "t", ("segment.ms", SET, "1"), ("segment.ms", SET, "2")),
        "a null": changed(TOPIC, "t", ("segment.ms", SET, None)),
        "an append to a number": changed(TOPIC, "t", ("segment.ms", APPEND, "1")),
        "an append to a list": changed(TOPIC, "d", ("cleanup.policy", APPEND, "compact")),
        "a subtraction": changed(TOPIC, "d", ("cleanup.policy", SUBTRACT, "delete")),
        "an unknown key": changed(TOPIC, "t", ("nope", SET, "1")),
        "a bad value": changed(TOPIC, "t", ("segment.ms", SET, "x")),
        "of an unknown topic": changed(TOPIC, "nope", ("segment.ms", SET, "5")),
        "a key that nobody knows": changed(BROKER, "1", ("someones.plug.in", SET, "1")),
        "a key that nobody knows, for all": changed(BROKER, "", ("someones.plug.in", SET, "2")),
        "an append to a key that nobody knows": changed(BROKER, "1", ("someones.list", APPEND, "1")),
        "of what does not change": changed(BROKER, "1", ("num.partitions", SET, "3")),
        "a bad value for a broker": changed(BROKER, "1", ("log.retention.ms", SET, "x")),
        "an append to a broker's number": changed(BROKER, "1", ("log.retention.ms", APPEND, "1")),
        "of one broker's key for all": changed(BROKER, "", ("listener.security.protocol.map", SET, "A:PLAINTEXT")),
        "of another broker": changed(BROKER, "2", ("log.retention.ms", SET, "1")),
        "of no broker": changed(BROKER, "x", ("log.retention.ms", SET, "1")),
        "of the root logger": changed(BROKER_LOGGER, "1", ("root", SET, "ERROR")),
        "of no level": changed(BROKER_LOGGER, "1", ("root", SET, "warn")),
        "of no logger": changed(BROKER_LOGGER, "1", ("nope.nope", SET, "INFO")),
        "without the root's level": changed(BROKER_LOGGER, "1", ("root", DELETE, None)),
        "an append to a logger": changed(BROKER_LOGGER, "1", ("root", APPEND, "INFO")),
        "of another broker's logger": changed(BROKER_LOGGER, "2", ("root", SET, "INFO")),
        "of the default group": changed(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
        "an unknown key of a group": changed(GROUP, "g", ("nope", SET, "1")),
        "of nothing that there is": changed(3, "x", ("a", SET, "1")),
    }
    yield from all_of(configs.IncrementalAlterConfigsResponse, 1, changes)
    yield from barrier("changed")
    after = {
        "of a topic, changed": described(TOPIC, "t"),
        "of another, changed": described(TOPIC, "d"),
        "of the broker, changed": described(BROKER, "1", "log.retention.ms", "log.roll.ms", "someones.plug.in"),
        "of all brokers, changed": described(BROKER, ""),
        "of a group, changed": described(GROUP, "g"),
        "of client metrics, changed": described(CLIENT_METRICS, "m"),
        "of the root logger": described(BROKER_LOGGER, "1", "root"),
    }
    yield from all_of(configs.DescribeConfigsResponse, 4, after)
    older = {
        "of a topic": replaced(TOPIC, "t", segment_ms="6000"),
        "a null": replaced(TOPIC, "t", segment_ms=None),
        "of a logger": replaced(BROKER_LOGGER, "1", root="INFO"),
        "of what does not change": replaced(BROKER, "1", num_partitions="3"),
        "of an unknown topic": replaced(TOPIC, "nope"),
    }
    yield from all_of(configs.AlterConfigsResponse, 2, older)
    yield Case("ListConfigResources v0", listed(), configs.ListConfigResourcesResponse, 0)
    resources = {"all": listed(), "topics and groups": listed(2, 32), "nothing that there is": listed(5)}
    yield from all_of(configs.ListConfigResourcesResponse, 1, resources)
    for version in range(3):
        yield Case(f"DescribeCluster v{version}", cluster_of(), cluster.DescribeClusterResponse, version)
    clusters = {
        "with operations": cluster_of(operations=True),
        "for controllers": cluster_of(2),
        "for nobody": cluster_of(7),
    }
    yield from all_of(cluster.DescribeClusterResponse, 1, clusters)
    pages = {
        "of some topics": paged("t", "d", "nope", "a b"),
        "of all, few at a time": paged(limit=2),
        "one at a time": paged("t", "d", limit=1),
        "from a cursor": paged("t", "d", cursor=("t", 1)),
        "from a cursor of another topic": paged("t", cursor=("u", 1)),
        "from a cursor before the first": paged("t", cursor=("t", -1)),
        "from a cursor behind the last": paged("t", cursor=("t", 9)),
    }
    yield from all_of(topics.DescribeTopicPartitionsResponse, 0, pages)
    for version in range(1, 6):
        yield Case(f"DescribeLogDirs v{version}", disks("t", "nope"), log_dirs.DescribeLogDirsResponse, version)
    for version in range(3):
        yield Case(
            f"DescribeQuorum v{version}", quorum_of("__cluster_metadata", 0), quorum.DescribeQuorumResponse, version
        )
    quorums = {
        "of another topic": quorum_of("x", 0),
        "of two partitions": quorum_of("__cluster_metadata", 0, 1),
        "of nothing": quorum_of("__cluster_metadata"),
    }
    yield from all_of(quorum.DescribeQuorumResponse, 2, quorums)
    growth = {
        "by one": grown(("t", 3)),
        "by none": grown(("t", 3)),
        "to fewer": grown(("t", 2)),
        "of an unknown topic": grown(("nope", 2)),
        "twice": grown(("t", 4), ("t", 5), ("d", 3)),
    }
    yield from all_of(topics.CreatePartitionsResponse, 3, growth)
    refused = {f"{key}={value}": changed(TOPIC, "t", (key, SET, value)) for key, value in BAD_VALUES}
    yield from all_of(configs.IncrementalAlterConfigsResponse, 1, refused)
    texts: dict[str, tuple[type[Response], int, Request]] = {
        "not needed": (reassignments.ElectLeadersResponse, 2, elected(0, ("d", 0))),
        "not needed, unclean": (reassignments.ElectLeadersResponse, 2, elected(1, ("d", 0))),
        "of an unknown topic": (reassignments.ElectLeadersResponse, 2, elected(0, ("nope", 0))),
        "of an unknown partition": (reassignments.ElectLeadersResponse, 2, elected(0, ("d", 77))),
        "of a third kind": (reassignments.ElectLeadersResponse, 2, elected(7, ("d", 0))),
        "of an unknown topic ": (reassignments.AlterPartitionReassignmentsResponse, 0, reassigned(("nope", 0, [1]))),
        "of an unknown partition ": (reassignments.AlterPartitionReassignmentsResponse, 0, reassigned(("d", 77, [1]))),
        "to an unknown broker": (reassignments.AlterPartitionReassignmentsResponse, 0, reassigned(("d", 0, [7]))),
        "to nobody": (reassignments.AlterPartitionReassignmentsResponse, 0, reassigned(("d", 0, []))),
        "twice to one": (reassignments.AlterPartitionReassignmentsResponse, 0, reassigned(("d", 0, [1, 1]))),
        "to less than nobody": (reassignments.AlterPartitionReassignmentsResponse, 0, reassigned(("d", 0, [-1]))),
        "cancelled without need": (
            reassignments.AlterPartitionReassignmentsResponse, 0, reassigned(("d", 0, None)),
        ),
        "of an unknown feature": (features.UpdateFeaturesResponse, 1, updated("nope", 1)),
        "too high": (features.UpdateFeaturesResponse, 1, updated("group.version", 99)),
        "below zero": (features.UpdateFeaturesResponse, 1, updated("group.version", -1)),
        "down": (features.UpdateFeaturesResponse, 1, updated("group.version", 0)),
        "down, as a safe downgrade": (features.UpdateFeaturesResponse, 1, updated("group.version", 0, 2)),
        "up, as a downgrade": (features.UpdateFeaturesResponse, 1, updated("group.version", 1, 2)),
        "of no kind": (features.UpdateFeaturesResponse, 1, updated("group.version", 1, 9)),
        "of the metadata too high": (features.UpdateFeaturesResponse, 1, updated("metadata.version", 99)),
        "of the metadata down": (features.UpdateFeaturesResponse, 1, updated("metadata.version", 20)),
        "of the metadata to what never was": (features.UpdateFeaturesResponse, 1, updated("metadata.version", 1)),
        "of an unknown topic, ": (producers.DescribeProducersResponse, 0, producers_of("nope", 0)),
        "of an unknown partition, ": (producers.DescribeProducersResponse, 0, producers_of("d", 77)),
        "of an illegal topic": (producers.DescribeProducersResponse, 0, producers_of("a b", 0)),
        "to an unknown topic": (produce.ProduceResponse, 9, produced("nope", 0, 1)),
        "to an unknown partition": (produce.ProduceResponse, 9, produced("d", 77, 1)),
        "without such acks": (produce.ProduceResponse, 9, produced("d", 0, 1, acks=7)),
        "without a key to a compacted topic": (produce.ProduceResponse, 9, produced("d", 0, 1)),
        "of an unknown topic; ": (delete_records.DeleteRecordsResponse, 2, cut("nope", 0, 1)),
        "beyond the end": (delete_records.DeleteRecordsResponse, 2, cut("t", 0, 77)),
    }  # fmt: skip
    for name, (answer, version, request) in texts.items():
        yield Case(f"{answer.__name__.removesuffix('Response')} {name}", request, answer, version)
    deletions = {
        "of nothing": deleted((None, ZERO_UUID)),
        "by name and id": deleted(("t", UNKNOWN_ID)),
        "by an unknown id": deleted((None, UNKNOWN_ID)),
        "by an unknown name": deleted(("nope", ZERO_UUID)),
        "twice": deleted(("t", ZERO_UUID), ("t", ZERO_UUID)),
        "of a topic": deleted(("t", ZERO_UUID)),
        "of the metadata log": deleted(("__cluster_metadata", ZERO_UUID)),
    }
    yield from all_of(topics.DeleteTopicsResponse, 6, deletions)


CASES = list(cases())
Facts = dict[str, Any]


def facts_of(value: Any, name: str = "") -> Any:
    """An answer without what is bound to differ, lists that have no order sorted."""
    if isinstance(value, msgspec.Struct):
        facts = {
            field: facts_of(getattr(value, field), field) for field in value.__struct_fields__ if field not in IGNORED
        }
        if "error_message" in facts:
            # A client that is given no text shows the code's own, and none without an error.
            error = ErrorCode.of(facts["error_code"])
            facts["error_message"] = (facts["error_message"] or error.message) if error else None
        return facts
    if isinstance(value, list):
        listed = [facts_of(each) for each in value]
        return sorted(listed, key=repr) if name in UNORDERED else listed
    return value


def answers_of(bootstrap: str) -> dict[str, Any]:
    answers = {}
    with RawClient(bootstrap) as client:

        def is_known(topic: str) -> bool:
            return not client.call(asked(topic), metadata.MetadataResponse, 12).topics[0].error_code

        for case in CASES:
            answers[case.name] = facts_of(client.call(case.request, case.answer, case.version))
            if case.awaited_topic:
                wait_until(partial(is_known, case.awaited_topic), f"{case.awaited_topic} is known")
    return answers


class Answers(NamedTuple):
    kafka: dict[str, Any]
    ours: dict[str, Any]


@pytest.fixture(scope="module")
def answers(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    root: Path = tmp_path_factory.mktemp("admin")
    with Node(kafka, root / "kafka", SETTINGS) as node:
        theirs = answers_of(node.bootstrap)
    with RunningNode(root / "ours", settings=SETTINGS) as mine:
        return Answers(theirs, answers_of(mine.bootstrap))


# Topics' keys that we do not have.
TIERED = {
    "local.retention.bytes", "local.retention.ms", "remote.log.copy.disable", "remote.log.delete.on.disable",
    "remote.storage.enable",
}  # fmt: skip


def configs_in_common(kafka: Facts, ours: Facts) -> tuple[Facts, Facts]:
    """Without the keys whose values differ. A node of a cluster of its own has settings that depend on where it runs."""
    own = {
        "advertised.listeners", "listeners", "listener.security.protocol.map", "log.dirs", "process.roles",
        "producer.id.expiration.ms", "controller.quorum.bootstrap.servers",
        # Kafka's default is 102400, ours leaves the buffer to the system.
        "socket.receive.buffer.bytes",
        # Kafka's is 50, with a thread that does nothing but accept.
        "socket.listen.backlog.size",
        # Set for the program that is compared with alone.
        *SMALL_NODE,
    }  # fmt: skip
    for one, two in zip(kafka["results"], ours["results"], strict=True):
        theirs, mine = ({each["name"] for each in side["configs"]} for side in (one, two))
        assert theirs - mine <= (TIERED if "retention.ms" in theirs else set())
        assert mine <= theirs
        for side in (one, two):
            side["configs"] = [each for each in side["configs"] if each["name"] in mine - own]
    return kafka, ours


def leave_out_leaders_that_there_are_not(*answers: Facts) -> None:
    """Beside an error Kafka names node 0 as the leader, and we -1: a node 0 may exist."""
    for topic in (topic for answer in answers for topic in answer["topics"]):
        for partition in topic["partitions"]:
            if partition["error_code"]:
                del partition["leader_id"]


@pytest.mark.parametrize("case", [case for case in CASES if not case.awaited_topic], ids=lambda case: case.name)
def test_both_give_the_same_answer(case: Case, answers: Answers) -> None:
    kafka, ours = answers.kafka[case.name], answers.ours[case.name]
    if case.answer is quorum.DescribeQuorumResponse:
        leave_out_leaders_that_there_are_not(kafka, ours)
    elif case.answer is configs.DescribeConfigsResponse:
        kafka, ours = configs_in_common(kafka, ours)
        # First by key, since a whole table that differs tells nothing.
        for one, two in zip(kafka["results"], ours["results"], strict=True):
            for mine, theirs in zip(two["configs"], one["configs"], strict=True):
                assert mine == theirs
    elif case.answer is topics.CreateTopicsResponse:
        for one, two in zip(kafka["topics"], ours["topics"], strict=True):
            common = {each["name"] for each in one["configs"]} & {each["name"] for each in two["configs"]}
            for side in (one, two):
                side["configs"] = [each for each in side["configs"] if each["name"] in common]

    assert ours == kafka
