"""We read the files that Apache Kafka wrote, and find what Apache Kafka finds in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.kafka_driver import Received
from tests.support.kafka_fixtures import KafkaFixture
from tidelog.model.ids import Offset, TopicPartition, uuid_to_text
from tidelog.storage.checkpoint_file import read_offsets, write_offsets
from tidelog.storage.clean_shutdown import read_clean_shutdown_epoch, was_clean_shutdown, write_clean_shutdown
from tidelog.storage.leader_epochs import LeaderEpochs
from tidelog.storage.meta_properties import read_meta_properties
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_metadata import read_partition_metadata, write_partition_metadata
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry, encode_snapshot, read_snapshot
from tidelog.storage.time_index import TimeIndex
from tidelog.storage.transaction_index import AbortedTransaction, TransactionIndex
from tidelog.storage.verification.index_scan import OffsetIndexScan, TimeIndexScan
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import BatchHeader, TimestampType, crc_matches, each_batch
from tidelog.wire.records import Record, build_batch, build_empty_batch, decode_batch

FILES = OsFiles()
TIMESTAMP_TYPES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


# Record batches


def described(buffer: bytes, position: int, header: BatchHeader) -> dict[str, Any]:
    """A batch as we read it, in the words that Kafka's view of it is written down in."""
    description: dict[str, Any] = {
        "position": position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "leader_epoch": header.partition_leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "valid": crc_matches(buffer, header, position),
        "codec": header.codec.name.lower(),
        "timestamp_type": TIMESTAMP_TYPES[header.timestamp_type],
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "record_count": header.record_count,
    }
    if header.has_delete_horizon:
        description["delete_horizon_ms"] = header.delete_horizon_ms
    return description


def test_every_batch_header_is_what_kafka_reads(kafka_fixture: KafkaFixture) -> None:
    assert kafka_fixture.files(".log") + kafka_fixture.files(".checkpoint") == sorted(
        kafka_fixture.expected["batches"], key=lambda name: (name.endswith(".checkpoint"), name)
    )
    for name, batches in kafka_fixture.expected["batches"].items():
        buffer = (kafka_fixture.data / name).read_bytes()
        ours = [described(buffer, position, header) for position, header in each_batch(buffer)]
        assert ours == [{key: batch[key] for key in batch if key != "records"} for batch in batches], name


def test_every_record_is_what_kafka_reads(kafka_fixture: KafkaFixture) -> None:
    for name, batches in kafka_fixture.expected["batches"].items():
        buffer = (kafka_fixture.data / name).read_bytes()
        ours = [decode_batch(buffer, header, position) for position, header in each_batch(buffer)]
        theirs = [[Record(*Received.from_json(row)) for row in batch["records"]] for batch in batches]
        assert ours == theirs, name


def test_the_fixtures_hold_every_kind_of_batch(kafka_fixture: KafkaFixture) -> None:
    batches = [batch for batches in kafka_fixture.expected["batches"].values() for batch in batches]
    rows = [row for batch in batches for row in batch["records"]]
    headers = [header for row in rows for header in row["headers"]]

    assert {batch["codec"] for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {batch["timestamp_type"] for batch in batches} == {"CreateTime", "LogAppendTime"}
    assert {(batch["transactional"], batch["control"]) for batch in batches} == {
        (False, False),
        (True, False),
        (True, True),
        (False, True),
    }
    assert any("delete_horizon_ms" in batch for batch in batches)
    assert any(batch["record_count"] == 0 for batch in batches)
    assert {row["key"] for row in rows} >= {None, ""}
    assert {row["value"] for row in rows} >= {None, ""}
    assert any(value is None for _, value in headers)


def rebuilt(header: BatchHeader, rows: list[Record]) -> bytes:
    if not rows:
        return build_empty_batch(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            leader_epoch=header.partition_leader_epoch,
            is_transactional=header.is_transactional,
        )
    return build_batch(
        rows,
        base_offset=header.base_offset,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms,
        last_offset=header.last_offset,
    )


def test_uncompressed_batches_that_we_build_are_kafkas_byte_for_byte(clean_kafka: KafkaFixture) -> None:
    compared = 0
    for name in clean_kafka.expected["batches"]:
        buffer = (clean_kafka.data / name).read_bytes()
        for position, header in each_batch(buffer):
            # Log append time replaces the producer's timestamps, whose deltas stay in the records and cannot be known from them.
            if header.codec is not Compression.NONE or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
                continue
            rows = decode_batch(buffer, header, position)
            assert rebuilt(header, rows) == buffer[position : position + header.size_bytes], (name, position)
            compared += 1
    assert compared > 100


# Indexes


def base_offset_of(name: str) -> Offset:
    return Offset(int(Path(name).stem))


def test_offset_indexes_hold_kafkas_entries(clean_kafka: KafkaFixture) -> None:
    assert clean_kafka.files(".index") == sorted(clean_kafka.expected["offset_indexes"])
    for name, entries in clean_kafka.expected["offset_indexes"].items():
        index = OffsetIndex(FILES, str(clean_kafka.data / name), base_offset_of(name), writable=False)
        assert index.sanity_check() is None, name
        assert [entry._asdict() for entry in index.each_entry()] == entries, name
        index.close()


def test_time_indexes_hold_kafkas_entries(clean_kafka: KafkaFixture) -> None:
    assert clean_kafka.files(".timeindex") == sorted(clean_kafka.expected["time_indexes"])
    for name, entries in clean_kafka.expected["time_indexes"].items():
        index = TimeIndex(FILES, str(clean_kafka.data / name), base_offset_of(name), writable=False)
        assert index.sanity_check() is None, name
        assert [entry._asdict() for entry in index.each_entry()] == entries, name
        index.close()


def test_the_zero_tails_of_a_killed_node_are_no_entries(killed_kafka: KafkaFixture) -> None:
    """What Kafka had in its preallocated indexes before the kill is where what it finds after recovery begins."""
    tails = 0
    for name, entries in killed_kafka.expected["offset_indexes"].items():
        if name.startswith("__") or not (killed_kafka.data / name).exists():
            continue
        file = FILES.open(str(killed_kafka.data / name), writable=False)
        scan = OffsetIndexScan(file, base_offset_of(name))
        found = [entry._asdict() for _, entry in scan]
        file.close()
        assert scan.damage is None, name
        assert found == entries[: len(found)], name
        tails += scan.zeros > 0
    for name in killed_kafka.expected["time_indexes"]:
        if name.startswith("__") or not (killed_kafka.data / name).exists():
            continue
        file = FILES.open(str(killed_kafka.data / name), writable=False)
        times = TimeIndexScan(file, base_offset_of(name))
        list(times)
        file.close()
        assert times.damage is None, name
        tails += times.zeros > 0
    assert tails > 10


def test_transaction_indexes_hold_kafkas_entries(clean_kafka: KafkaFixture) -> None:
    expected = clean_kafka.expected["transaction_indexes"]
    assert clean_kafka.files(".txnindex") == sorted(expected)
    assert sum(map(len, expected.values())) > 5
    for name, entries in expected.items():
        index = TransactionIndex(FILES, str(clean_kafka.data / name), base_offset_of(name))
        assert index.sanity_check() is None, name
        assert index.all_entries() == [
            AbortedTransaction(
                entry["producerId"], entry["firstOffset"], entry["lastOffset"], entry["lastStableOffset"]
            )
            for entry in entries
        ], name
        index.close()


# Producer state


def snapshot_entry(shown: dict[str, int]) -> ProducerSnapshotEntry:
    """An entry as DumpLogSegments shows it: it leaves out what a producer without a batch does not have."""
    return ProducerSnapshotEntry(
        producer_id=shown["producerId"],
        epoch=shown["producerEpoch"],
        last_sequence=shown.get("lastSequence", -1),
        last_offset=shown.get("lastOffset", -1),
        offset_delta=shown.get("offsetDelta", 0),
        timestamp=shown["lastTimestamp"],
        coordinator_epoch=shown["coordinatorEpoch"],
        transaction_first_offset=shown.get("currentTxnFirstOffset", -1),
    )


def test_producer_snapshots_hold_kafkas_producers(clean_kafka: KafkaFixture) -> None:
    assert clean_kafka.files(".snapshot") == sorted(clean_kafka.expected["producer_snapshots"])
    producers = 0
    for name, shown in clean_kafka.expected["producer_snapshots"].items():
        ours = read_snapshot(FILES, str(clean_kafka.data / name))
        assert ours == [snapshot_entry(entry) for entry in shown], name
        producers += len(ours)
    assert producers > 40


def test_snapshots_that_we_write_are_kafkas_byte_for_byte(kafka_fixture: KafkaFixture) -> None:
    names = kafka_fixture.files(".snapshot")
    for name in names:
        content = (kafka_fixture.data / name).read_bytes()
        assert encode_snapshot(read_snapshot(FILES, str(kafka_fixture.data / name))) == content, name
    assert len(names) > 20


# Checkpoints and identity


def test_leader_epochs_are_kafkas(kafka_fixture: KafkaFixture) -> None:
    rose = 0
    for partition in kafka_fixture.partitions:
        path = kafka_fixture.data / partition / "leader-epoch-checkpoint"
        epochs = LeaderEpochs(FILES, str(path))
        batches = [
            batch
            for name, batches in sorted(kafka_fixture.expected["batches"].items())
            if Path(name).parent.name == partition
            for batch in batches
        ]
        for batch in batches:
            began = [entry for entry in epochs.entries if entry.start_offset <= batch["base_offset"]]
            # The log start may lie inside the batch: an entry begins no earlier than it.
            assert not began or began[-1].epoch == batch["leader_epoch"], partition
        text = path.read_text().splitlines()
        assert text == ["0", str(len(epochs.entries)), *(f"{epoch} {start}" for epoch, start in epochs.entries)]
        rose += len({batch["leader_epoch"] for batch in batches}) > 1
    assert rose >= 5


def test_offset_checkpoints_are_read_and_written_as_kafka_does(kafka_fixture: KafkaFixture, tmp_path: Path) -> None:
    for name in ("recovery-point", "log-start", "replication"):
        path = kafka_fixture.data / f"{name}-offset-checkpoint"
        offsets = read_offsets(FILES, str(path))
        written = tmp_path / f"{kafka_fixture.name}-{name}"
        write_offsets(FILES, str(written), offsets)
        assert sorted(written.read_text().splitlines()) == sorted(path.read_text().splitlines())


def test_a_clean_stop_checkpoints_the_log_end_and_the_log_start(clean_kafka: KafkaFixture) -> None:
    recovered = read_offsets(FILES, str(clean_kafka.data / "recovery-point-offset-checkpoint"))
    high_watermarks = read_offsets(FILES, str(clean_kafka.data / "replication-offset-checkpoint"))
    starts = read_offsets(FILES, str(clean_kafka.data / "log-start-offset-checkpoint"))

    def by_name(offsets: dict[TopicPartition, Offset]) -> dict[str, int]:
        return {str(partition): offset for partition, offset in offsets.items() if not partition.topic.startswith("__")}

    seen = clean_kafka.expected["partitions"]
    ends = {partition: view["log_end_offset"] for partition, view in seen.items()}
    assert by_name(recovered) == ends
    assert by_name(high_watermarks) == ends
    assert by_name(starts) == {"trimmed-0": seen["trimmed-0"]["log_start_offset"]}


def test_the_identity_of_the_directory_is_read(kafka_fixture: KafkaFixture) -> None:
    found = read_meta_properties(FILES, str(kafka_fixture.data))

    assert found is not None
    assert found.cluster_id == kafka_fixture.expected["cluster_id"]
    assert found.node_id == kafka_fixture.expected["node_id"]
    voters = next(
        record["content"]["voters"]
        for name, records in kafka_fixture.expected["decoded"].items()
        if name.startswith("__cluster_metadata")
        for record in records
        if record.get("control") == "KRaftVoters"
    )
    assert found.directory_id is not None
    assert uuid_to_text(found.directory_id) == voters[0]["voterDirectoryId"]


def test_topic_ids_are_read_and_written_as_kafka_does(kafka_fixture: KafkaFixture, tmp_path: Path) -> None:
    for topic, identity in kafka_fixture.expected["topic_ids"].items():
        for directory in kafka_fixture.data.glob(f"{topic}-[0-9]"):
            found = read_partition_metadata(FILES, str(directory))
            assert found is not None
            assert uuid_to_text(found) == identity
            write_partition_metadata(FILES, str(tmp_path), found)
            assert (tmp_path / "partition.metadata").read_bytes() == (directory / "partition.metadata").read_bytes()


def test_the_mark_of_a_clean_stop_names_the_broker_epoch(clean_kafka: KafkaFixture, tmp_path: Path) -> None:
    epochs = [
        record["payload"]["data"]["brokerEpoch"]
        for record in clean_kafka.expected["decoded"]["__cluster_metadata-0/00000000000000000000.log"]
        if record.get("payload", {}).get("type") == "REGISTER_BROKER_RECORD"
    ]
    epoch = read_clean_shutdown_epoch(FILES, str(clean_kafka.data))

    assert epoch is not None
    assert epoch == epochs[-1]
    write_clean_shutdown(FILES, str(tmp_path), epoch)
    name = ".kafka_cleanshutdown"
    assert (tmp_path / name).read_bytes() == (clean_kafka.data / name).read_bytes()


def test_a_killed_node_leaves_no_such_mark(killed_kafka: KafkaFixture) -> None:
    assert not was_clean_shutdown(FILES, str(killed_kafka.data))
