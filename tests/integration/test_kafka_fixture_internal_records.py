"""We decode the internal logs that Apache Kafka wrote as its own decoders do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.support.internal_log_view import shown_control, shown_coordinator, shown_metadata
from tests.support.kafka_fixtures import KafkaFixture
from tidelog.wire.control_records import control_key, read_control_type
from tidelog.wire.internal_records import (
    CoordinatorLog,
    decode_control_value,
    decode_coordinator_record,
    decode_metadata_record,
    encode_control_value,
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
)
from tidelog.wire.record_batch import BatchHeader, each_batch
from tidelog.wire.records import Record, decode_batch


def each_row(file: Path) -> Iterator[tuple[BatchHeader, Record]]:
    buffer = file.read_bytes()
    for position, header in each_batch(buffer):
        for row in decode_batch(buffer, header, position):
            yield header, row


def test_cluster_metadata_decodes_as_kafka_decodes_it(kafka_fixture: KafkaFixture) -> None:
    types: set[str] = set()
    snapshots = 0
    for name, expected in kafka_fixture.expected["decoded"].items():
        if not name.startswith("__cluster_metadata"):
            continue
        ours = [
            shown_control(row) if header.is_control else shown_metadata(row)
            for header, row in each_row(kafka_fixture.data / name)
        ]
        assert ours == expected, name
        types |= {record["payload"]["type"] for record in expected if "payload" in record}
        types |= {record["control"] for record in expected if "control" in record}
        snapshots += name.endswith(".checkpoint")
    assert snapshots >= 2
    assert types >= {
        "BEGIN_TRANSACTION_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "CLIENT_QUOTA_RECORD",
        "CONFIG_RECORD",
        "END_TRANSACTION_RECORD",
        "FEATURE_LEVEL_RECORD",
        "KRaftVersion",
        "KRaftVoters",
        "LeaderChange",
        "NO_OP_RECORD",
        "PARTITION_CHANGE_RECORD",
        "PARTITION_RECORD",
        "PRODUCER_IDS_RECORD",
        "REGISTER_BROKER_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "REMOVE_TOPIC_RECORD",
        "SnapshotFooter",
        "SnapshotHeader",
        "TOPIC_RECORD",
        "USER_SCRAM_CREDENTIAL_RECORD",
    }


def test_the_bootstrap_snapshot_holds_the_feature_levels_that_the_log_begins_with(kafka_fixture: KafkaFixture) -> None:
    shown = [
        shown_control(row) if header.is_control else shown_metadata(row)
        for header, row in each_row(kafka_fixture.data / "bootstrap.checkpoint")
    ]

    log = kafka_fixture.expected["decoded"]["__cluster_metadata-0/00000000000000000000.log"]
    levels = [record["payload"] for record in log if record.get("payload", {}).get("type") == "FEATURE_LEVEL_RECORD"]
    assert [record.get("control") for record in (shown[0], shown[-1])] == ["SnapshotHeader", "SnapshotFooter"]
    assert [record["payload"] for record in shown[1:-1]] == levels
    assert {payload["data"]["name"]: payload["data"]["featureLevel"] for payload in levels}["metadata.version"] == 30


def test_the_coordinators_logs_decode_as_kafka_decodes_them(kafka_fixture: KafkaFixture) -> None:
    seen: dict[CoordinatorLog, set[str]] = {log: set() for log in CoordinatorLog}
    for name, expected in kafka_fixture.expected["decoded"].items():
        topic = name.rsplit("-", 1)[0]
        if topic.startswith("__cluster_metadata"):
            continue
        log = CoordinatorLog(topic)
        ours = [
            shown_control(row) if header.is_control else shown_coordinator(log, row)
            for header, row in each_row(kafka_fixture.data / name)
        ]
        assert ours == expected, name
        seen[log] |= {record["key"]["type"] for record in expected if "key" in record}
    # Offsets and a classic group, all records of a consumer group, of a share group.
    assert seen[CoordinatorLog.CONSUMER_OFFSETS] >= {"1", "2", "3", "5", "6", "7", "8", "10", "11", "12", "13", "14"}
    assert seen[CoordinatorLog.TRANSACTION_STATE] == {"0"}
    assert seen[CoordinatorLog.SHARE_GROUP_STATE] >= {"0", "1"}


def test_internal_records_that_we_write_are_kafkas_byte_for_byte(kafka_fixture: KafkaFixture) -> None:
    compared = 0
    for name in kafka_fixture.expected["decoded"]:
        for header, row in each_row(kafka_fixture.data / name):
            if header.is_control:
                kind = read_control_type(row.key)
                assert control_key(kind) == row.key
                assert encode_control_value(decode_control_value(kind, row.value)) == row.value, (name, row)
            elif name.startswith("__cluster_metadata"):
                assert row.value is not None
                message, version = decode_metadata_record(row.value)
                assert encode_metadata_record(message, version) == row.value, (name, message)
            else:
                record = decode_coordinator_record(CoordinatorLog(name.rsplit("-", 1)[0]), row.key, row.value)
                assert encode_coordinator_key(record.key) == row.key, (name, record)
                if record.value is not None:
                    assert encode_coordinator_value(record.value, record.version) == row.value, (name, record)
            compared += 1
    assert compared > 300
