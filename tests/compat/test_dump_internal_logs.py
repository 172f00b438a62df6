"""Apache Kafka's decoders read the internal logs that we write: every type of record in every version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.appends import as_coordinator
from tests.support.dump_log_segments import dump_log_segments
from tests.support.internal_log_view import shown_coordinator, shown_metadata
from tests.support.log_reader import open_directory, read_rows
from tests.support.message_values import values_for
from tidelog.model.ids import BrokerEpoch, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.storage.append import AppendInfo
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.internal_records import (
    CoordinatorLog,
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
    encode_version_prefixed,
)
from tidelog.wire.messages import all_messages
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tidelog.wire.messages.internal.offset_records import GroupMetadataValue
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import CoordinatorKey, CoordinatorValue, MetadataRecord

pytestmark = pytest.mark.compat

START_MS = 1_700_000_000_000
SEEDS = range(3)

OPTIONS = {
    CoordinatorLog.CONSUMER_OFFSETS: "--offsets-decoder",
    CoordinatorLog.TRANSACTION_STATE: "--transaction-log-decoder",
    CoordinatorLog.SHARE_GROUP_STATE: "--share-group-state-decoder",
}
# All other coordinator records are in the log of the group coordinator.
MODULES = {
    "transaction_records": CoordinatorLog.TRANSACTION_STATE,
    "share_state_records": CoordinatorLog.SHARE_GROUP_STATE,
}


def log_of(record: type[CoordinatorKey | CoordinatorValue]) -> CoordinatorLog:
    return MODULES.get(record.__module__.rpartition(".")[2], CoordinatorLog.CONSUMER_OFFSETS)


def coordinator_rows(log: CoordinatorLog) -> list[Record]:
    """A record of every type in every version of its value, and a tombstone of every type."""
    keys = {each.api_key: each for each in all_messages() if issubclass(each, CoordinatorKey) and log_of(each) is log}
    rows: list[Record] = []
    for value_type in all_messages():
        if not issubclass(value_type, CoordinatorValue) or log_of(value_type) is not log:
            continue
        key_type = keys[value_type.api_key]
        for seed in SEEDS:
            key = encode_coordinator_key(values_for(key_type, key_type.versions.highest, seed))
            rows.append(Record(0, START_MS, key, None))
            for version in value_type.versions.each():
                value = values_for(value_type, version, seed)
                if isinstance(value, GroupMetadataValue):
                    _subscribe(value, seed)
                rows.append(Record(0, START_MS, key, encode_coordinator_value(value, version)))
    return rows


def _subscribe(group: GroupMetadataValue, seed: int) -> None:
    """The decoder looks into what the members of a consumer group sent, so it must be what consumers send."""
    group.protocol_type = "consumer"
    for member in group.members:
        version = seed % 4
        member.subscription = encode_version_prefixed(values_for(ConsumerProtocolSubscription, version, seed), version)
        member.assignment = encode_version_prefixed(values_for(ConsumerProtocolAssignment, version, seed), version)


def metadata_rows() -> list[Record]:
    rows: list[Record] = []
    for record_type in all_messages():
        if issubclass(record_type, MetadataRecord) and not record_type.__module__.endswith("remote_log_records"):
            for version in record_type.versions.each():
                for seed in SEEDS:
                    value = encode_metadata_record(values_for(record_type, version, seed), version)
                    rows.append(Record(0, START_MS, None, value))
    return rows


def write_log(path: Path, topic: str, rows: Iterable[Record]) -> tuple[PartitionLog, list[Record]]:
    """A log of one record a batch, closed cleanly; and the rows with the offsets that they got."""
    directory = open_directory(path, START_MS)
    log = directory.create_partition(TopicPartition(TopicName(topic), PartitionIndex(0)), TopicId(bytes(range(16))))
    for row in rows:
        info = as_coordinator(log, build_batch([row]), 0)
        assert isinstance(info, AppendInfo), info
    log.set_high_watermark(log.log_end_offset)
    written = [Record(*row) for row in read_rows(log)]
    directory.close(BrokerEpoch(1))
    return log, written


def decoded(kafka: ApacheKafka, log: PartitionLog, option: str) -> list[dict[str, Any]]:
    dumps = dump_log_segments(kafka, sorted(Path(log.directory).glob("*.log")), option)
    return [record for path in sorted(dumps) for record in dumps[path].decoded_records()]


@pytest.mark.parametrize("kind", CoordinatorLog)
def test_the_coordinators_logs_decode(
    kafka: ApacheKafka, tmp_path: Path, kind: CoordinatorLog, record_property: Callable[[str, object], None]
) -> None:
    log, rows = write_log(tmp_path, kind, coordinator_rows(kind))

    found = decoded(kafka, log, OPTIONS[kind])

    record_property(f"records of {kind}", len(rows))
    assert len(rows) > 5
    assert found == [shown_coordinator(kind, row) for row in rows]


def test_the_cluster_metadata_decodes(
    kafka: ApacheKafka, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    log, rows = write_log(tmp_path, "metadata", metadata_rows())

    found = decoded(kafka, log, "--cluster-metadata-decoder")

    record_property("records of __cluster_metadata", len(rows))
    assert len(rows) > 100
    assert found == [shown_metadata(row) for row in rows]
