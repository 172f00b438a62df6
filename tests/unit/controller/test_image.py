from __future__ import annotations

import contextlib

import pytest

from tests.support.message_values import values_for
from tidelog.controller.errors import InconsistentMetadataError, UnsupportedFeatureError
from tidelog.controller.features import (
    BOOTSTRAP_LEVELS,
    METADATA_VERSION,
    unsupported_reason,
)
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.image_records import image_records
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId, TopicName
from tidelog.wire.internal_records import decode_metadata_record, encode_metadata_record
from tidelog.wire.messages.internal import cluster_metadata as records, cluster_security as security
from tidelog.wire.schema import MetadataRecord

ORDERS = TopicId(b"o" * 16)
PAYMENTS = TopicId(b"p" * 16)
DIRECTORY = b"d" * 16


def replay(image: ClusterImage, *applied: MetadataRecord) -> ClusterImage:
    delta = ImageDelta(image)
    for number, record in enumerate(applied):
        delta.apply(record, Offset(number))
    return delta.image(Offset(image.offset + len(applied)), LeaderEpoch(1), 7)


def partition(topic_id: bytes, index: int, **changes: object) -> records.PartitionRecord:
    facts = {
        "partition_id": index,
        "topic_id": topic_id,
        "replicas": [1, 2],
        "isr": [1, 2],
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [DIRECTORY, DIRECTORY],
    }
    return records.PartitionRecord(**{**facts, **changes})  # type: ignore[arg-type]


def broker(node: int, epoch: int) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=node,
        incarnation_id=b"i" * 16,
        broker_epoch=epoch,
        end_points=[records.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[records.BrokerFeature(name=METADATA_VERSION, min_supported_version=17, max_supported_version=30)],
        rack="r1",
        log_dirs=[DIRECTORY],
    )


def one_of_each() -> list[MetadataRecord]:
    """Records after which every part of the image holds something."""
    return [
        *(records.FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()),
        broker(1, 10),
        broker(2, 11),
        records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1, cordoned_log_dirs=[DIRECTORY]),
        records.RegisterControllerRecord(
            controller_id=1,
            incarnation_id=b"c" * 16,
            zk_migration_ready=False,
            end_points=[records.ControllerEndpoint(name="CONTROLLER", host="h", port=9093, security_protocol=0)],
            features=[
                records.ControllerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1)
            ],
        ),
        records.TopicRecord(name="orders", topic_id=ORDERS),
        partition(ORDERS, 0, eligible_leader_replicas=[3], last_known_elr=[4]),
        partition(ORDERS, 1, adding_replicas=[2], removing_replicas=[1], leader_recovery_state=1),
        records.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
        records.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        records.ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=2000),
        records.ZkMigrationStateRecord(zk_migration_state=3),
        security.ClientQuotaRecord(
            entity=[security.EntityData(entity_type="user", entity_name=None)],
            key="producer_byte_rate",
            value=5.5,
            remove=False,
        ),
        security.AccessControlEntryRecord(
            id=b"a" * 16,
            resource_type=2,
            resource_name="orders",
            pattern_type=3,
            principal="User:x",
            host="*",
            operation=3,
            permission_type=3,
        ),
        security.UserScramCredentialRecord(
            name="x", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        security.DelegationTokenRecord(
            owner="User:x",
            requester="User:y",
            renewers=["User:z"],
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=3,
            token_id="t",
        ),
    ]


def test_a_snapshot_loses_nothing() -> None:
    image = replay(ClusterImage(), *one_of_each())
    untouched = [name for name in image.__dataclass_fields__ if getattr(image, name) == getattr(ClusterImage(), name)]
    assert untouched == []

    written = [encode_metadata_record(record, version) for record, version in image_records(image)]
    again = replay(ClusterImage(), *(decode_metadata_record(value).message for value in written))

    assert again.says_the_same(image)


def test_every_type_of_record_has_a_meaning() -> None:
    modules = [records, security]
    types = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, MetadataRecord) and value is not MetadataRecord
    ]
    assert len(types) == 26
    for record_type in types:
        record = values_for(record_type, record_type.versions.highest, 1)
        with contextlib.suppress(InconsistentMetadataError, UnsupportedFeatureError, ValueError):
            # Made-up values may not fit an empty image; that a record is not understood at all is another error.
            ImageDelta(ClusterImage()).apply(record, Offset(0))


def test_the_image_that_a_delta_starts_from_stays_as_it_was() -> None:
    before = replay(ClusterImage(), *one_of_each())
    topics, partitions = dict(before.topics), dict(before.topics[ORDERS].partitions)

    after = replay(
        before,
        records.TopicRecord(name="payments", topic_id=PAYMENTS),
        partition(PAYMENTS, 0),
        partition(ORDERS, 2),
        records.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2),
    )

    assert (before.topics, before.topics[ORDERS].partitions) == (topics, partitions)
    assert set(after.topics[ORDERS].partitions) == {0, 1, 2}


def test_naming_a_leader_starts_an_epoch_and_every_change_counts() -> None:
    image = replay(ClusterImage(), records.TopicRecord(name="orders", topic_id=ORDERS), partition(ORDERS, 0))

    shrunk = replay(image, records.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[1]))
    moved = replay(shrunk, records.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1))

    first, second = (each.partition(ORDERS, PartitionIndex(0)) for each in (shrunk, moved))
    assert first is not None
    assert (first.isr, first.leader_epoch, first.partition_epoch) == ((1,), 0, 1)
    assert second is not None
    assert (second.leader, second.leader_epoch, second.partition_epoch) == (1, 1, 2)
    assert second.directory_of(NodeId(2)) == DIRECTORY
    assert second.directory_of(NodeId(9)) is None


def test_a_removed_topic_takes_its_configuration_along() -> None:
    image = replay(ClusterImage(), *one_of_each())
    delta = ImageDelta(image)

    delta.apply(records.RemoveTopicRecord(topic_id=ORDERS), Offset(0))

    after = delta.image(Offset(1), LeaderEpoch(1), 0)
    assert after.topic(TopicName("orders")) is None
    assert after.config_of(ConfigResource(2, "orders")) == {}
    assert delta.topics_removed == {ORDERS: "orders"}


def test_a_delta_says_what_it_changed() -> None:
    image = replay(ClusterImage(), *one_of_each())
    delta = ImageDelta(image)

    delta.apply(records.PartitionChangeRecord(partition_id=1, topic_id=ORDERS, isr=[2]), Offset(0))
    delta.apply(
        records.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None), Offset(1)
    )

    assert list(delta.topics_changed) == [ORDERS]
    assert list(delta.configs_changed) == [(2, "orders")]
    assert ConfigResource(2, "orders") not in delta.image(Offset(2), LeaderEpoch(1), 0).configs


@pytest.mark.parametrize(
    "record",
    [
        records.RemoveTopicRecord(topic_id=PAYMENTS),
        partition(PAYMENTS, 0),
        records.PartitionChangeRecord(partition_id=9, topic_id=ORDERS),
        records.TopicRecord(name="orders", topic_id=PAYMENTS),
        records.FenceBrokerRecord(id=1, epoch=9),
        records.UnfenceBrokerRecord(id=7, epoch=9),
        records.UnregisterBrokerRecord(broker_id=2, broker_epoch=3),
        records.ClearElrRecord(topic_name="nope"),
        security.RemoveAccessControlEntryRecord(id=b"z" * 16),
        security.RemoveDelegationTokenRecord(token_id="nope"),
        security.RemoveUserScramCredentialRecord(name="nope", mechanism=1),
    ],
)
def test_a_record_that_does_not_fit_stops_the_replay(record: MetadataRecord) -> None:
    image = replay(ClusterImage(), *one_of_each())
    with pytest.raises(InconsistentMetadataError):
        replay(image, record)


def test_brokers_are_fenced_changed_and_gone() -> None:
    image = replay(ClusterImage(), *one_of_each())

    fenced = replay(image, records.FenceBrokerRecord(id=1, epoch=10), records.UnfenceBrokerRecord(id=2, epoch=11))
    gone = replay(fenced, records.UnregisterBrokerRecord(broker_id=1, broker_epoch=10))

    assert [each.fenced for each in image.brokers.values()] == [False, True]
    assert [each.fenced for each in fenced.brokers.values()] == [True, False]
    assert list(gone.brokers) == [2]


def test_eligible_leaders_are_cleared_for_one_topic_or_all() -> None:
    image = replay(ClusterImage(), *one_of_each())

    one = replay(image, records.ClearElrRecord(topic_name="orders"))
    every = replay(image, records.ClearElrRecord(topic_name=""))

    for cleared in (one, every):
        assert cleared.topics[ORDERS].partitions[PartitionIndex(0)].eligible_leader_replicas == ()
    assert image.topics[ORDERS].partitions[PartitionIndex(0)].eligible_leader_replicas == (3,)


@pytest.mark.parametrize(
    ("name", "level", "part"),
    [
        ("metadata.version", 31, "works with 7 to 30"),
        ("teleport.version", 1, "does not know"),
        ("metadata.version", 6, "works with 7 to 30"),
    ],
)
def test_a_feature_that_cannot_be_served_refuses_with_that_sentence(name: str, level: int, part: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=part):
        replay(ClusterImage(), records.FeatureLevelRecord(name=name, feature_level=level))


def test_a_feature_that_is_off_is_no_matter() -> None:
    assert unsupported_reason("teleport.version", 0) is None
    image = replay(
        ClusterImage(),
        records.FeatureLevelRecord(name="group.version", feature_level=1),
        records.FeatureLevelRecord(name="group.version", feature_level=0),
    )
    assert image.features == {}


def test_a_snapshot_at_an_older_level_leaves_out_what_that_level_does_not_have() -> None:
    image = replay(
        ClusterImage(),
        records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=17),
        records.TopicRecord(name="orders", topic_id=ORDERS),
        partition(ORDERS, 0),
        broker(1, 3),
    )

    for record, version in image_records(image):
        decoded = decode_metadata_record(encode_metadata_record(record, version))
        assert decoded.version == version
