from __future__ import annotations

import pytest

from tidelog.wire.control_records import ControlType
from tidelog.wire.errors import MalformedError, UnknownRecordError
from tidelog.wire.internal_records import (
    CoordinatorLog,
    decode_consumer_protocol,
    decode_control_value,
    decode_coordinator_record,
    decode_metadata_record,
    decode_remote_log_record,
    decode_version_prefixed,
    encode_control_value,
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
    encode_version_prefixed,
)
from tidelog.wire.messages import all_messages
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.messages.internal.consumer_group_records import ConsumerGroupMemberMetadataValue
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolSubscription
from tidelog.wire.messages.internal.control_records import EndTxnMarker, KRaftVersionRecord, LeaderChangeMessage
from tidelog.wire.messages.internal.offset_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.internal.remote_log_records import RemotePartitionDeleteMetadataRecord, TopicIdPartitionEntry
from tidelog.wire.messages.internal.transaction_records import TransactionLogKey
from tidelog.wire.schema import CoordinatorKey, CoordinatorValue, MetadataRecord

FEATURE = FeatureLevelRecord(name="metadata.version", feature_level=30)
OFFSETS = CoordinatorLog.CONSUMER_OFFSETS


def test_a_metadata_record_lies_behind_frame_type_and_version() -> None:
    value = encode_metadata_record(FEATURE, 0)

    assert value == b"\x01\x0c\x00" + b"\x11metadata.version" + b"\x00\x1e" + b"\x00"
    assert decode_metadata_record(value) == (FEATURE, 0)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("00", "frame version 0, not 1"),
        ("020c00", "frame version 2, not 1"),
        ("017f00", "unknown type 127"),
        ("010c01", "FeatureLevelRecord has the versions 0, not version 1"),
    ],
)
def test_a_metadata_record_that_is_not_known_names_itself(value: str, sentence: str) -> None:
    with pytest.raises(UnknownRecordError, match=sentence):
        decode_metadata_record(bytes.fromhex(value))


@pytest.mark.parametrize("value", ["", "01", "010c", "010c00", "ffffffffff", "010c00016d001e0000"])
def test_a_damaged_metadata_record_is_malformed(value: str) -> None:
    with pytest.raises(MalformedError):
        decode_metadata_record(bytes.fromhex(value))


def test_a_remote_log_record_has_the_same_frame_and_types_of_its_own() -> None:
    partition = TopicIdPartitionEntry(name="t", id=bytes(16), partition=1)
    record = RemotePartitionDeleteMetadataRecord(
        topic_id_partition=partition, broker_id=2, event_timestamp_ms=3, remote_partition_delete_state=1
    )

    assert decode_remote_log_record(encode_metadata_record(record, 0)) == (record, 0)


def test_a_coordinator_record_has_a_type_in_its_key_and_a_version_in_its_value() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=2)
    value = OffsetCommitValue(offset=9, leader_epoch=4, metadata="", commit_timestamp=5)

    key_bytes, value_bytes = encode_coordinator_key(key), encode_coordinator_value(value, 3)

    assert key_bytes.hex() == "000100016700017400000002"
    assert value_bytes.hex() == "000300000000000000090000000400000000000000000005"
    assert decode_coordinator_record(OFFSETS, key_bytes, value_bytes) == (key, value, 3)


def test_a_tombstone_has_no_value() -> None:
    key = TransactionLogKey(transactional_id="payments")

    record = decode_coordinator_record(CoordinatorLog.TRANSACTION_STATE, encode_coordinator_key(key), None)

    assert record == (key, None, -1)


def test_the_topic_says_which_records_to_expect() -> None:
    key = encode_coordinator_key(TransactionLogKey(transactional_id="payments"))

    assert CoordinatorLog("__transaction_state") is CoordinatorLog.TRANSACTION_STATE
    with pytest.raises(MalformedError):
        decode_coordinator_record(CoordinatorLog.SHARE_GROUP_STATE, key, None)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("0063", "0000", "unknown type 99"),
        ("ffff", "0000", "unknown type -1"),
        ("000100016700017400000002", "0009", "OffsetCommitValue has the versions 0-4, not version 9"),
    ],
)
def test_a_coordinator_record_that_is_not_known_names_itself(key: str, value: str, sentence: str) -> None:
    with pytest.raises(UnknownRecordError, match=sentence):
        decode_coordinator_record(OFFSETS, bytes.fromhex(key), bytes.fromhex(value))


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"", None), (b"\0", None), (b"\0\x01", None), (b"\0\x02\0\x01g", b"\0"), (b"\0\x02\0\x01g?", None)],
)
def test_a_damaged_coordinator_record_is_malformed(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedError):
        decode_coordinator_record(OFFSETS, key, value)


def test_every_declared_record_can_be_read_from_some_log() -> None:
    for cls in all_messages():
        if issubclass(cls, CoordinatorKey):
            key = encode_coordinator_key(cls())
            found = [log for log in CoordinatorLog if can_read(log, key, cls)]
            assert len(found) == 1, cls
        elif issubclass(cls, MetadataRecord) and ".remote_log" not in cls.__module__:
            for version in cls.versions.each():
                assert decode_metadata_record(encode_metadata_record(cls(), version)) == (cls(), version)


def can_read(log: CoordinatorLog, key: bytes, cls: type[CoordinatorKey]) -> bool:
    try:
        return decode_coordinator_record(log, key, None).key == cls()
    except MalformedError:
        return False


def test_keys_and_values_come_in_pairs() -> None:
    keys = {(cls.__module__, cls.api_key) for cls in all_messages() if issubclass(cls, CoordinatorKey)}
    values = {(cls.__module__, cls.api_key) for cls in all_messages() if issubclass(cls, CoordinatorValue)}

    assert keys == values


def test_a_member_without_classic_metadata_says_null() -> None:
    # The schema's default is JSON's null, which its generator takes for no default: absent means an empty struct.
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="h",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=-1,
        server_assignor=None,
        classic_member_metadata=None,
    )

    assert encode_coordinator_value(value, 0).endswith(bytes.fromhex("01000100"))


@pytest.mark.parametrize(
    ("control_type", "message"),
    [
        (ControlType.COMMIT, EndTxnMarker(coordinator_epoch=7)),
        (ControlType.LEADER_CHANGE, LeaderChangeMessage(version=0, leader_id=3, voters=[], granting_voters=[])),
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=1)),
    ],
)
def test_a_control_record_is_read_by_its_type(
    control_type: ControlType, message: EndTxnMarker | LeaderChangeMessage | KRaftVersionRecord
) -> None:
    value = encode_control_value(message)

    assert value.startswith(b"\0\0")
    assert decode_control_value(control_type, value) == message


def test_a_leader_change_says_itself_which_version_it_is() -> None:
    later = LeaderChangeMessage(version=1, leader_id=3, voters=[], granting_voters=[])

    assert decode_control_value(ControlType.LEADER_CHANGE, encode_control_value(later, 1)) == later


def test_control_records_that_cannot_be_read() -> None:
    with pytest.raises(UnknownRecordError, match="does not know"):
        decode_control_value(ControlType.UNKNOWN, b"\0\0")
    with pytest.raises(MalformedError, match="no value"):
        decode_control_value(ControlType.KRAFT_VOTERS, None)
    with pytest.raises(MalformedError, match="too short"):
        decode_control_value(ControlType.ABORT, b"\0")
    with pytest.raises(UnknownRecordError, match="version 5"):
        decode_control_value(ControlType.LEADER_CHANGE, b"\0\x05")


def test_a_subscription_lies_behind_its_version() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=None, owned_partitions=[], rack_id="r")

    value = encode_version_prefixed(subscription, 3)

    assert value.startswith(b"\0\x03")
    assert decode_version_prefixed(ConsumerProtocolSubscription, value) == subscription


def test_a_subscription_from_the_future_is_read_as_far_as_it_is_known() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=b"u", owned_partitions=[], rack_id="r")
    value = b"\0\x09" + encode_version_prefixed(subscription, 3)[2:] + b"what is new"

    assert decode_consumer_protocol(ConsumerProtocolSubscription, value) == subscription
    with pytest.raises(UnknownRecordError):
        decode_version_prefixed(ConsumerProtocolSubscription, value)
    with pytest.raises(UnknownRecordError):
        decode_consumer_protocol(ConsumerProtocolSubscription, b"\xff\xff")
