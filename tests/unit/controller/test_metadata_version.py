"""Each level of metadata.version: in which versions a controller writes its records at it, and what it decides on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pytest

from tests.support.metadata_node import MetadataNode, directory_id
from tidelog.controller.features import METADATA_VERSION, SUPPORTED, bootstrap_levels
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.image_records import image_records
from tidelog.controller.metadata_version import METADATA_VERSIONS, NEWEST, MetadataVersion, of_release
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, TopicId, TopicName
from tidelog.wire.internal_records import FramedRecord, decode_metadata_record, encode_metadata_record
from tidelog.wire.messages import alter_partition as alter
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig as AlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource as AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tidelog.wire.messages.internal import cluster_metadata as records, cluster_security as security
from tidelog.wire.messages.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from tidelog.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.wire.schema import MetadataRecord

EVERY_LEVEL = pytest.mark.parametrize("version", METADATA_VERSIONS.values(), ids=lambda version: version.name)

# From which level on Kafka 4.3 writes a version of a record, or sends one of a request.
FIRST_LEVELS: Mapping[str, Mapping[int, int]] = {
    "register_broker": {1: 7, 2: 8, 3: 17, 4: 30},
    "registration_change": {1: 7, 2: 17, 3: 30},
    "partition": {0: 7, 1: 17, 2: 23},
    "fetch": {13: 7, 14: 9, 15: 10, 16: 19, 17: 21, 18: 27},
    "list_offsets": {7: 7, 8: 9, 9: 21, 10: 25, 11: 29},
}
FIRST_WITH = {
    "has_zk_migration": 8,
    "has_scram": 11,
    "has_transactions": 13,
    "has_delegation_tokens": 14,
    "has_controller_registration": 15,
    "has_directories": 17,
    "has_eligible_leader_replicas": 23,
    "has_cordoned_directories": 30,
}


def controller_at(version: MetadataVersion) -> MetadataNode:
    node = MetadataNode(levels=bootstrap_levels(version), config={"metadata.max.idle.interval.ms": "0"})
    node.start()
    assert node.faults == []
    return node


def topic_id(node: MetadataNode, name: str) -> TopicId:
    return node.image.topic_ids[TopicName(name)]


def shrink(
    node: MetadataNode, name: str, epochs: Mapping[int, int], isr: list[int]
) -> alter.AlterPartitionPartitionData:
    """Its leader, broker 1, takes others out of the in-sync set of the first partition."""
    topic = topic_id(node, name)
    partition = node.image.topics[topic].partitions[PartitionIndex(0)]
    wanted = alter.PartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        new_isr_with_epochs=[alter.BrokerState(broker_id=each, broker_epoch=epochs[each]) for each in isr],
        partition_epoch=partition.partition_epoch,
    )
    request = alter.AlterPartitionRequest(
        broker_id=1, broker_epoch=epochs[1], topics=[alter.TopicData(topic_id=topic, partitions=[wanted])]
    )
    return node.ask(request, alter.AlterPartitionResponse).topics[0].partitions[0]


def live(node: MetadataNode) -> dict[int, int]:
    """All that happens to a small cluster: brokers come, stop, lose a directory and die; topics come, grow, change and go."""
    epochs = node.serve(1, 2, 3, directories=2 if node.image.metadata_version.has_directories else 1)
    for name in ("orders", "doomed"):
        assert node.create_topic(name, assignments={0: [1, 2, 3]}, configs={"retention.ms": "1"}).error_code == 0
    grown = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="orders", count=3, assignments=None)], timeout_ms=1000, validate_only=False
    )
    assert node.ask(grown, CreatePartitionsResponse).results[0].error_code == 0
    assert shrink(node, "orders", epochs, [1, 2]).error_code == 0
    doomed = [DeleteTopicState(name="doomed", topic_id=bytes(16))]
    deleted = node.ask(DeleteTopicsRequest(topics=doomed, timeout_ms=1000), DeleteTopicsResponse)
    assert deleted.responses[0].error_code == 0
    assign(node, 2, epochs[2], directory_id(2, 1), "orders")
    node.heartbeat(2, epochs[2], offline=[directory_id(2, 1)])
    node.ask(
        BrokerHeartbeatRequest(
            broker_id=3,
            broker_epoch=epochs[3],
            current_metadata_offset=node.image.offset,
            want_fence=False,
            want_shut_down=False,
            cordoned_log_dirs=[directory_id(3)],
        ),
        BrokerHeartbeatResponse,
    )
    node.heartbeat(3, epochs[3], want_shut_down=True)
    node.heartbeat(3, epochs[3], want_fence=True)
    return epochs


def assign(node: MetadataNode, broker: int, epoch: int, directory: bytes, topic: str) -> AssignReplicasToDirsResponse:
    placed = TopicData(topic_id=topic_id(node, topic), partitions=[PartitionData(partition_index=0)])
    request = AssignReplicasToDirsRequest(
        broker_id=broker, broker_epoch=epoch, directories=[DirectoryData(id=directory, topics=[placed])]
    )
    return node.ask(request, AssignReplicasToDirsResponse)


def versions_in(node: MetadataNode) -> dict[type[MetadataRecord], set[int]]:
    """Those of the log, and of a snapshot of it."""
    found: dict[type[MetadataRecord], set[int]] = defaultdict(set)
    logged = [framed for batch in node.batches() for framed in batch.records]
    for framed in [*logged, *image_records(node.image)]:
        found[type(framed.message)].add(framed.version)
    return found


@EVERY_LEVEL
def test_the_table_says_what_kafka_does(version: MetadataVersion) -> None:
    for column, firsts in FIRST_LEVELS.items():
        expected = max(number for number, first in firsts.items() if first <= version.level)
        assert getattr(version, column) == expected, column
    for ability, first in FIRST_WITH.items():
        assert getattr(version, ability) is (version.level >= first), ability
    assert version.bumps_leader_epoch_on_shrink is (version.level < 12)


def test_the_levels_are_all_of_kafkas() -> None:
    assert list(METADATA_VERSIONS) == list(range(7, 31))
    assert (SUPPORTED[METADATA_VERSION].lowest, SUPPORTED[METADATA_VERSION].highest) == (7, 30)
    adding = [version.level for version in METADATA_VERSIONS.values() if version.adds_metadata]
    assert adding == [7, 8, 11, 13, 14, 15, 17, 23, 30]


@pytest.mark.parametrize(
    ("text", "level"),
    [("3.3", 7), ("3.3-IV3", 7), ("3.7", 19), ("3.7-IV2", 17), ("3.7.1", 19), ("4.3", 30), ("3.2", None), ("x", None)],
)
def test_a_release_names_its_last_level(text: str, level: int | None) -> None:
    found = of_release(text)
    assert (None if found is None else found.level) == level


@pytest.mark.parametrize(
    ("level", "features"),
    [
        (7, {}),
        (21, {}),
        (22, {"group.version": 1}),
        (24, {"group.version": 1, "transaction.version": 2}),
        (26, {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}),
        (
            30,
            {
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "share.version": 1,
                "streams.version": 1,
                "transaction.version": 2,
            },
        ),
    ],
)
def test_a_new_cluster_starts_with_what_its_level_came_with(level: int, features: dict[str, int]) -> None:
    found = bootstrap_levels(METADATA_VERSIONS[level])
    assert list(found.items()) == [(METADATA_VERSION, level), *features.items()]


@EVERY_LEVEL
def test_every_record_is_written_in_the_version_of_the_level(version: MetadataVersion) -> None:
    node = controller_at(version)

    live(node)

    assert node.faults == []
    found = versions_in(node)
    assert found.pop(records.RegisterBrokerRecord) == {version.register_broker}
    assert found.pop(records.PartitionRecord) == {version.partition}
    assert found.pop(records.PartitionChangeRecord) == {version.partition}
    # Each change in the first version that can say it: fenced, stopping, a directory lost, one closed to new replicas.
    assert found.pop(records.BrokerRegistrationChangeRecord) == set(range(version.registration_change + 1))
    expected = {records.FeatureLevelRecord, records.TopicRecord, records.RemoveTopicRecord, records.ConfigRecord}
    if version.has_transactions:
        expected |= {records.BeginTransactionRecord, records.EndTransactionRecord}
    if version.has_controller_registration:
        expected.add(records.RegisterControllerRecord)
    assert set(found) == expected
    assert set().union(*found.values()) == {0}


@EVERY_LEVEL
def test_a_snapshot_says_all_that_the_log_says(version: MetadataVersion) -> None:
    node = controller_at(version)
    live(node)

    delta = ImageDelta(ClusterImage())
    for framed in image_records(node.image):
        decoded = decode_metadata_record(encode_metadata_record(framed.message, framed.version))
        delta.apply(decoded.message, node.image.offset)

    assert delta.image(Offset(0), LeaderEpoch(0), 0).says_the_same(node.image)


@EVERY_LEVEL
def test_a_snapshot_has_nothing_that_the_level_does_not_have(version: MetadataVersion) -> None:
    """Such a log cannot be had by the rules; that it could not be written would be worse than what is left out."""
    node = controller_at(NEWEST)
    live(node)
    image = ClusterImage(
        **{
            **{name: getattr(node.image, name) for name in node.image.__dataclass_fields__},
            "features": {METADATA_VERSION: version.level},
            "zk_migration_state": 1,
        }
    )
    scram = security.UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096
    )
    token = security.DelegationTokenRecord(
        owner="User:a",
        requester="User:a",
        renewers=[],
        issue_timestamp=0,
        max_timestamp=1,
        expiration_timestamp=1,
        token_id="t",
    )
    delta = ImageDelta(image)
    delta.apply(scram, image.offset)
    delta.apply(token, image.offset)
    full = delta.image(image.offset, image.epoch, image.timestamp_ms)

    written = list(image_records(full))

    for framed in written:
        assert decode_metadata_record(encode_metadata_record(framed.message, framed.version)).version == framed.version
    kinds = {type(framed.message) for framed in written}
    assert (records.RegisterControllerRecord in kinds) is version.has_controller_registration
    assert (records.ZkMigrationStateRecord in kinds) is version.has_zk_migration
    assert (security.UserScramCredentialRecord in kinds) is version.has_scram
    assert (security.DelegationTokenRecord in kinds) is version.has_delegation_tokens


@EVERY_LEVEL
def test_a_smaller_in_sync_set_begins_an_epoch_only_where_old_brokers_need_it(version: MetadataVersion) -> None:
    node = controller_at(version)
    epochs = node.serve(1, 2)
    node.create_topic("orders", assignments={0: [1, 2]})

    answer = shrink(node, "orders", epochs, [1])

    assert (answer.leader_id, answer.isr) == (1, [1])
    assert answer.leader_epoch == (1 if version.level < 12 else 0)


class TestBelowDirectories:
    """3.7-IV1 and earlier."""

    def test_brokers_say_nothing_of_theirs(self) -> None:
        node = controller_at(METADATA_VERSIONS[16])
        epochs = node.serve(1)
        node.create_topic("orders")

        refused = assign(node, 1, epochs[1], directory_id(1), "orders")

        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert node.image.brokers[next(iter(node.image.brokers))].log_directories == ()
        partition = node.image.topics[topic_id(node, "orders")].partitions[PartitionIndex(0)]
        assert partition.directories == (bytes(16),)

    def test_each_replica_has_a_place_to_be_told_whatever_replicas_there_are(self) -> None:
        node = controller_at(METADATA_VERSIONS[16])
        node.serve(1, 2)
        node.create_topic("orders", assignments={0: [1, 2]})
        change = records.PartitionChangeRecord(partition_id=0, topic_id=topic_id(node, "orders"), replicas=[1], isr=[1])

        delta = ImageDelta(node.image)
        delta.apply(change, node.image.offset)
        after = delta.image(Offset(9), LeaderEpoch(1), 0)

        assert after.topics[topic_id(node, "orders")].partitions[PartitionIndex(0)].directories == (bytes(16),)

    def test_with_the_level_they_register_again_and_tell(self) -> None:
        node = controller_at(METADATA_VERSIONS[16])
        registration = node.registration(1)
        epoch = node.ask(registration, BrokerRegistrationResponse).broker_epoch
        node.heartbeat(1, epoch)
        node.create_topic("orders")
        assert raised(node, 17) == ErrorCode.NONE

        again = node.ask(registration, BrokerRegistrationResponse)
        told = assign(node, 1, epoch, directory_id(1), "orders")

        assert (again.error_code, again.broker_epoch) == (ErrorCode.NONE, epoch)
        assert told.error_code == ErrorCode.NONE
        [broker] = node.image.brokers.values()
        assert (broker.log_directories, broker.fenced) == ((directory_id(1),), False)
        partition = node.image.topics[topic_id(node, "orders")].partitions[PartitionIndex(0)]
        assert partition.directories == (directory_id(1),)


class TestBelowControllerRegistration:
    """3.6-IV2 and earlier."""

    REQUEST = ControllerRegistrationRequest(
        controller_id=7, incarnation_id=bytes(16), zk_migration_ready=False, listeners=[], features=[]
    )

    def test_it_is_refused(self) -> None:
        node = controller_at(METADATA_VERSIONS[14])

        refused = node.ask(self.REQUEST, ControllerRegistrationResponse)

        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert node.image.controllers == {}

    def test_with_the_level_the_active_controller_registers(self) -> None:
        node = controller_at(METADATA_VERSIONS[14])

        assert raised(node, 15) == ErrorCode.NONE

        assert list(node.image.controllers) == [1]
        assert node.ask(self.REQUEST, ControllerRegistrationResponse).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("level", "is_refused"), [(29, True), (30, False)])
def test_a_key_without_a_field_at_the_level_is_refused(level: int, *, is_refused: bool) -> None:
    node = controller_at(METADATA_VERSIONS[level])
    node.serve(1)
    config = AlterableConfig(name="cordoned.log.dirs", config_operation=0, value="/logs")
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])], validate_only=False
    )

    [answer] = node.ask(request, IncrementalAlterConfigsResponse).responses

    assert (answer.error_code == ErrorCode.INVALID_CONFIG) is is_refused
    assert ("it requires metadata.version >= 4.3-IV0" in (answer.error_message or "")) is is_refused


def test_a_log_without_transactions_begins_with_one_batch_and_goes_on() -> None:
    node = controller_at(METADATA_VERSIONS[12])

    assert [type(record) for record in node.records()] == [records.FeatureLevelRecord]

    node.stop()
    node.start()
    assert node.image.metadata_version.level == 12


def test_a_transaction_in_a_log_of_a_level_without_them_stops_the_node() -> None:
    node = controller_at(METADATA_VERSIONS[12])
    assert node.service is not None
    begin = records.BeginTransactionRecord(name="never")
    node.service.quorum.append([FramedRecord(begin, 0)], node.service.quorum.epoch)
    node.forget()

    node.start()

    assert ["metadata.version 3.6-IV0 has none" in str(fault) for fault in node.faults] == [True]


def test_a_cluster_rises_through_all_levels_and_is_read_again_at_each() -> None:
    node = controller_at(METADATA_VERSIONS[7])
    for version in list(METADATA_VERSIONS.values())[1:]:
        assert raised(node, version.level) == ErrorCode.NONE
        node.serve(version.level)
        assert node.create_topic(f"at-{version.level}", assignments={0: [version.level]}).error_code == ErrorCode.NONE
        before = node.image
        node.stop()
        node.start()
        assert node.faults == []
        assert node.image.metadata_version is version
        assert node.image.topics == before.topics


def raised(node: MetadataNode, level: int) -> int:
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=level)
    return node.ask(UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse).error_code
