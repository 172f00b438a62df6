"""What an admin is held to, against any cluster of one broker: Tidelog's in `make test`, Apache Kafka's in `make compat`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count

import pytest

from tests.support.apache_kafka import wait_until
from tidelog import Admin, Consumer, Producer
from tidelog.client.admin import (
    HIGH_WATERMARK,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ElectionType,
    GroupState,
    GroupType,
    NewTopic,
    OffsetSpec,
    ResourceKind,
    TopicDescription,
    UpgradeType,
    value_of,
)
from tidelog.client.consumer.records import OffsetAndMetadata
from tidelog.client.consumer.topic_partition import TopicPartition as At
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import uuid_to_text

Scenario = Callable[[Admin, str], None]

_numbers = count()
NO_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def new_name(what: str) -> str:
    return f"{what}-{next(_numbers)}"


def code_of(outcome: object) -> ErrorCode | None:
    assert outcome is None or isinstance(outcome, ClientError), outcome
    return None if outcome is None else outcome.code


def refused(code: ErrorCode) -> AbstractContextManager[pytest.ExceptionInfo[RefusedError]]:
    return pytest.raises(RefusedError, match=code.name) if code is not NO_TOPIC else pytest.raises(RefusedError)


def is_there(admin: Admin, topic: str, partitions: int = 1) -> bool:
    """Whether the brokers have heard of a topic, which they do a moment after the controller has made it."""
    found = admin.describe_topics([topic])[topic]
    if isinstance(found, ClientError):
        return False
    return len(found.partitions) == partitions and all(each.leader is not None for each in found.partitions)


def make(admin: Admin, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    admin.create_topic(topic, partitions=partitions, configs=configs)
    wait_until(lambda: is_there(admin, topic, partitions), f"{topic} is there")


def send(bootstrap: str, topic: str, numbers: int, *, partitions: int = 1) -> None:
    """Records with the times 1000, 2000 and so on, in turn to each partition."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(numbers):
            producer.send(topic, b"%d" % number, partition=number % partitions, timestamp_ms=1000 * (number + 1))


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: str, **options: object) -> Iterator[Consumer]:
    """A consumer that has read something and committed it."""
    with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    ) as consumer:
        rows = []
        for _ in range(200):
            rows += consumer.poll(timeout_ms=100)
            if rows:
                break
        assert rows
        consumer.commit()
        yield consumer


# Topics.


def topics_are_made_seen_and_removed(admin: Admin, _bootstrap: str) -> None:
    name, other = new_name("topic"), new_name("topic")
    outcomes = admin.create_topics(
        [NewTopic(name, partitions=3, configs={"retention.ms": "1000"}), NewTopic(other, replicas=[[1], [1]])]
    )
    made = value_of(outcomes[name])
    assert (made.partitions, made.replication_factor, made.configs["retention.ms"]) == (3, 1, "1000")
    assert value_of(outcomes[other]).partitions == 2

    wait_until(lambda: is_there(admin, name, 3) and is_there(admin, other, 2), "the topics are there")
    listed = {topic.name: topic for topic in admin.list_topics()}
    assert (listed[name].id, listed[name].partitions, listed[name].is_internal) == (made.id, 3, False)
    described = admin.describe_topics([name, "nothing"], page_partitions=2)
    topic = value_of(described[name])
    assert [(each.index, each.leader, each.replicas, each.in_sync) for each in topic.partitions] == [
        (index, 1, (1,), (1,)) for index in range(3)
    ]
    assert code_of(described["nothing"]) is NO_TOPIC
    assert topic.id is not None
    by_id = admin.describe_topics_by_id([topic.id, uuid_to_text(b"\x11" * 16)])
    assert isinstance(by_id[topic.id], TopicDescription)
    assert code_of(by_id[uuid_to_text(b"\x11" * 16)]) is ErrorCode.UNKNOWN_TOPIC_ID

    more = admin.create_partitions({name: 5, "nothing": 2, other: 1})
    assert [code_of(each) for each in (more[name], more["nothing"], more[other])] == [
        None,
        NO_TOPIC,
        ErrorCode.INVALID_PARTITIONS,
    ]
    wait_until(lambda: is_there(admin, name, 5), "the partitions are there")

    assert admin.delete_topics_by_id([topic.id]) == {topic.id: None}
    gone = admin.delete_topics([other, name])
    assert (gone[other], code_of(gone[name])) == (None, NO_TOPIC)


def a_topic_that_cannot_be_is_refused(admin: Admin, _bootstrap: str) -> None:
    name = new_name("topic")
    admin.create_topic(name, validate_only=True)
    with pytest.raises(RefusedError, match=f"there is no topic {name}"):
        admin.describe_topic(name)
    make(admin, name)
    with refused(ErrorCode.TOPIC_ALREADY_EXISTS):
        admin.create_topic(name)
    with refused(ErrorCode.INVALID_TOPIC_EXCEPTION):
        admin.create_topic("a b")
    with refused(ErrorCode.INVALID_REPLICATION_FACTOR):
        admin.create_topic(new_name("topic"), replication_factor=9)
    with refused(ErrorCode.INVALID_CONFIG):
        admin.create_topic(new_name("topic"), configs={"retention.ms": "soon"})
    with pytest.raises(RefusedError, match="there is no topic nothing"):
        admin.delete_topic("nothing")


def offsets_are_found_and_records_go(admin: Admin, bootstrap: str) -> None:
    name = new_name("topic")
    make(admin, name, 2, {"message.timestamp.type": "CreateTime"})
    send(bootstrap, name, 10, partitions=2)
    assert admin.list_offset(name, 0).offset == 5
    found = admin.list_offsets(
        {
            (name, 0): OffsetSpec.MAX_TIMESTAMP,
            (name, 1): 4001,
            (name, 7): OffsetSpec.LATEST,
            ("nothing", 0): OffsetSpec.LATEST,
        }
    )
    assert (value_of(found[At(name, 0)]).offset, value_of(found[At(name, 0)]).timestamp_ms) == (4, 9000)
    assert (value_of(found[At(name, 1)]).offset, value_of(found[At(name, 1)]).timestamp_ms) == (2, 6000)
    assert [code_of(found[At(name, 7)]), code_of(found[At("nothing", 0)])] == [NO_TOPIC, NO_TOPIC]
    assert admin.list_offset(name, 1, 2**62).offset is None

    left = admin.delete_records({(name, 0): 2, (name, 1): 99})
    assert (left[At(name, 0)], code_of(left[At(name, 1)])) == (2, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert admin.list_offset(name, 0, OffsetSpec.EARLIEST).offset == 2
    assert admin.delete_records({(name, 1): HIGH_WATERMARK}) == {(name, 1): 5}


# Configurations.


def configurations_are_shown_and_changed(admin: Admin, _bootstrap: str) -> None:
    name = new_name("topic")
    make(admin, name)
    topic, broker, absent = (
        ConfigResource(ResourceKind.TOPIC, name),
        ConfigResource(ResourceKind.BROKER, "1"),
        ConfigResource(ResourceKind.BROKER, "9"),
    )
    admin.alter_config(
        *topic, set={"retention.ms": "7", "segment.bytes": "2000000"}, append={"cleanup.policy": "compact"}
    )
    wait_until(lambda: admin.describe_config(*topic)["retention.ms"].value == "7", "the change is there")
    found = admin.describe_configs([topic, broker, absent], include_synonyms=True, include_documentation=True)
    entries = value_of(found[topic])
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == ("7", ConfigSource.TOPIC)
    assert entries["retention.ms"].documentation
    assert entries["retention.ms"].synonyms[0].value == "7"
    assert set((entries["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}
    assert value_of(found[broker])["node.id"].is_read_only
    assert code_of(found[absent]) is ErrorCode.BROKER_NOT_AVAILABLE

    admin.alter_config(*topic, delete=["segment.bytes"], subtract={"cleanup.policy": "compact"})
    keys = ["segment.bytes", "cleanup.policy"]
    wait_until(
        lambda: admin.describe_config(*topic, keys=keys)["cleanup.policy"].value == "delete", "the change is there"
    )
    entries = admin.describe_config(*topic, keys=keys)
    assert (entries["segment.bytes"].source, entries["cleanup.policy"].value) == (ConfigSource.DEFAULT, "delete")
    with refused(ErrorCode.INVALID_CONFIG):
        admin.alter_config(*topic, set={"retention.ms": "soon"})
    outcomes = admin.incremental_alter_configs(
        {topic: [ConfigChange("retention.ms", ConfigOperation.SET, "8")]}, validate_only=True
    )
    assert outcomes == {topic: None}
    assert admin.describe_config(*topic, keys=["retention.ms"])["retention.ms"].value == "7"
    assert admin.alter_configs({topic: {"flush.ms": "9"}}) == {topic: None}

    def changed() -> dict[str, str | None]:
        entries = admin.describe_config(*topic).values()
        return {each.name: each.value for each in entries if each.source is ConfigSource.TOPIC}

    wait_until(lambda: changed() == {"flush.ms": "9"}, "only that is left")
    with pytest.raises(RefusedError, match="there is no topic nothing"):
        admin.describe_config(ResourceKind.TOPIC, "nothing")


def what_has_a_configuration_is_listed(admin: Admin, _bootstrap: str) -> None:
    name, group = new_name("topic"), ConfigResource(ResourceKind.GROUP, new_name("group"))
    make(admin, name)
    admin.alter_config(*group, set={"consumer.session.timeout.ms": "50000"})
    assert ConfigResource(ResourceKind.BROKER, "1") in admin.list_config_resources([ResourceKind.BROKER])
    wait_until(lambda: group in admin.list_config_resources(), "the group's configuration is there")
    everything = admin.list_config_resources()
    assert ConfigResource(ResourceKind.TOPIC, name) in everything
    assert admin.describe_config(*group)["consumer.session.timeout.ms"].value == "50000"


# The cluster.


def the_cluster_is_described(admin: Admin, bootstrap: str) -> None:
    cluster = admin.describe_cluster(include_fenced_brokers=True)
    assert [(broker.node_id, f"{broker.host}:{broker.port}", broker.is_fenced) for broker in cluster.brokers] == [
        (1, bootstrap.replace("localhost", cluster.brokers[0].host), False)
    ]
    quorum = admin.describe_quorum()
    assert (quorum.leader_id, [voter.node_id for voter in quorum.voters]) == (1, [1])
    assert quorum.high_watermark > 0
    features = admin.describe_features()
    metadata = features["metadata.version"]
    assert metadata.supported_min is not None
    assert metadata.supported_max is not None
    assert metadata.supported_min <= metadata.level <= metadata.supported_max
    admin.update_features({"metadata.version": metadata.level}, upgrade_type=UpgradeType.UPGRADE, validate_only=True)
    with refused(ErrorCode.INVALID_UPDATE_VERSION):
        admin.update_features({"metadata.version": 99})
    with refused(ErrorCode.BROKER_ID_NOT_REGISTERED):
        admin.unregister_broker(77)


def leaders_and_disks(admin: Admin, bootstrap: str) -> None:
    name = new_name("topic")
    make(admin, name)
    send(bootstrap, name, 3)
    elected = admin.elect_leaders(ElectionType.PREFERRED, [(name, 0), ("nothing", 0)])
    assert code_of(elected[At(name, 0)]) is ErrorCode.ELECTION_NOT_NEEDED
    assert code_of(elected[At("nothing", 0)]) is NO_TOPIC
    disks = value_of(admin.describe_log_dirs()[1])
    (disk,) = disks.values()
    assert disk.error is None
    assert disk.replicas[At(name, 0)].size_bytes > 0
    assert disk.total_bytes is not None
    assert code_of(admin.describe_log_dirs([9])[9]) is ErrorCode.BROKER_NOT_AVAILABLE
    moved = admin.alter_replica_log_dirs({(name, 0, 1): "/nowhere", (name, 0, 9): "/nowhere"})
    assert code_of(moved[name, 0, 1]) is ErrorCode.LOG_DIR_NOT_FOUND
    assert code_of(moved[name, 0, 9]) is ErrorCode.BROKER_NOT_AVAILABLE


# Groups.


def replicas_are_reassigned(admin: Admin, _bootstrap: str) -> None:
    name = new_name("moved")
    make(admin, name, partitions=2)
    [own] = [broker.node_id for broker in admin.describe_cluster().brokers]

    outcomes = admin.alter_partition_reassignments({(name, 0): [own], (name, 1): [own, 99], ("nothing", 0): [own]})
    fixed = admin.alter_partition_reassignments({(name, 0): [own, 98]}, allow_replication_factor_change=False)
    taken_back = admin.alter_partition_reassignments({(name, 0): None})

    assert {at: code_of(outcome) for at, outcome in outcomes.items()} == {
        At(name, 0): None,
        At(name, 1): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        At("nothing", 0): NO_TOPIC,
    }
    assert code_of(fixed[At(name, 0)]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(taken_back[At(name, 0)]) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([(name, 0), ("nothing", 0)]) == {}


def a_group_is_seen_measured_and_removed(admin: Admin, bootstrap: str, protocol: str) -> None:
    name, group = new_name("topic"), new_name("group")
    make(admin, name, 2)
    send(bootstrap, name, 10, partitions=2)
    kind = GroupType(protocol)
    with member(bootstrap, group, name, protocol, client_id="reader") as consumer:
        listed = {each.group_id: each for each in admin.list_groups(types=[kind], states=[GroupState.STABLE])}
        assert (listed[group].state, listed[group].type, listed[group].protocol_type) == (
            GroupState.STABLE,
            kind,
            "consumer",
        )
        described = admin.describe_group(group)
        (only,) = described.members
        assert (described.type, described.state, described.coordinator) == (kind, GroupState.STABLE, 1)
        assert (only.client_id, only.subscribed_topics, set(only.assignment)) == (
            "reader",
            (name,),
            {(name, 0), (name, 1)},
        )
        assert only.member_id == consumer.group_metadata().member_id
        lags = admin.group_lag(group)
        committed = {each.partition: each.committed for each in lags}
        assert sum(each or 0 for each in committed.values()) == 10 - sum(each.lag or 0 for each in lags)
        assert {each.member_id for each in lags} == {only.member_id}
        refusals = [
            code_of(admin.delete_groups([group])[group]),
            code_of(admin.alter_group_offsets(group, {(name, 0): 1})[At(name, 0)]),
            code_of(admin.delete_group_offsets(group, [(name, 0)])[At(name, 0)]),
        ]
        assert refusals == [
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ]
    assert admin.describe_group(group).state is GroupState.EMPTY
    position = OffsetAndMetadata(3, "by hand", 0)
    outcomes = admin.alter_group_offsets(group, {(name, 0): 1, (name, 1): position, ("nothing", 0): 1})
    assert (outcomes[At(name, 0)], outcomes[At(name, 1)], code_of(outcomes[At("nothing", 0)])) == (None, None, NO_TOPIC)
    assert admin.list_group_offsets(group) == {(name, 0): (1, "", -1), (name, 1): position}
    assert admin.list_group_offsets(group, [(name, 1), (name, 9), ("nothing", 0)]) == {(name, 1): position}
    assert [each.lag for each in admin.group_lag(group)] == [4, 2]
    assert admin.delete_group_offsets(group, [(name, 1)]) == {(name, 1): None}
    assert admin.list_group_offsets(group) == {(name, 0): (1, "", -1)}
    admin.delete_group(group)
    for gone in (admin.describe_group, admin.delete_group, admin.group_lag):
        with pytest.raises(RefusedError, match=f"there is no group {group}"):
            gone(group)
    assert admin.list_group_offsets(group) == {}
    assert code_of(admin.describe_groups([group])[group]) is ErrorCode.GROUP_ID_NOT_FOUND


def members_are_removed(admin: Admin, bootstrap: str) -> None:
    name, group = new_name("topic"), new_name("group")
    make(admin, name)
    send(bootstrap, name, 1)
    with member(bootstrap, group, name, "classic", group_instance_id="static", session_timeout_ms=40_000):
        pass
    # A static member stays in the group when its consumer closes.
    assert [each.group_instance_id for each in admin.describe_group(group).members] == ["static"]
    outcomes = admin.remove_members(group, ["static", "unknown"])
    assert (outcomes["static"], code_of(outcomes["unknown"])) == (None, ErrorCode.UNKNOWN_MEMBER_ID)
    assert admin.remove_members(group) == {}
    assert admin.describe_group(group).members == ()


SCENARIOS: dict[str, Scenario] = {
    "topics": topics_are_made_seen_and_removed,
    "refusals": a_topic_that_cannot_be_is_refused,
    "offsets": offsets_are_found_and_records_go,
    "configs": configurations_are_shown_and_changed,
    "config resources": what_has_a_configuration_is_listed,
    "cluster": the_cluster_is_described,
    "leaders and disks": leaders_and_disks,
    "replicas are reassigned": replicas_are_reassigned,
    "classic group": lambda admin, bootstrap: a_group_is_seen_measured_and_removed(admin, bootstrap, "classic"),
    "consumer group": lambda admin, bootstrap: a_group_is_seen_measured_and_removed(admin, bootstrap, "consumer"),
    "members": members_are_removed,
}
