"""We open the data directories that Apache Kafka left, stopped cleanly and killed, and find its records and its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka_fixtures import KafkaFixture
from tests.support.log_reader import open_directory, read_rows
from tidelog.model.ids import BrokerEpoch, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_snapshot import read_snapshot
from tidelog.storage.segment import FoundTimestamp
from tidelog.storage.transaction_index import TransactionIndex
from tidelog.storage.verification.index_scan import OffsetIndexScan, TimeIndexScan
from tidelog.wire.record_batch import TimestampType

# As tools/make_kafka_fixtures.py set them.
BROKER = LogConfig(retention_ms=-1, segment_index_bytes=4096, index_interval_bytes=200)
SMALL = BROKER.changed(segment_bytes=1000)
CONFIGS = {
    "": BROKER,
    **{f"codec-{codec}": SMALL for codec in ("none", "gzip", "snappy", "lz4", "zstd")},
    "trimmed": SMALL,
    "transactional": SMALL,
    "timed": BROKER.changed(segment_ms=60_000, index_interval_bytes=1),
    "append-time": BROKER.changed(message_timestamp_type=TimestampType.LOG_APPEND_TIME),
    "compacted": BROKER.changed(segment_bytes=400, cleanup_policy=("compact",)),
}


def open_copy(data: Path, fixture: KafkaFixture) -> LogDirectory:
    return open_directory(data, fixture.expected["made_at_ms"], CONFIGS)


def log_of(directory: LogDirectory, name: str) -> PartitionLog:
    topic, partition = name.rsplit("-", 1)
    return directory.partitions[TopicPartition(TopicName(topic), PartitionIndex(int(partition)))]


def people_only(names: Iterable[str]) -> Any:
    """Of files by name, or of their names, those of topics that people write to: Kafka has gone on in its own since the kill."""
    if isinstance(names, dict):
        return {name: content for name, content in names.items() if not name.startswith("__")}
    return [name for name in names if not name.startswith("__")]


@pytest.fixture
def opened(kafka_fixture: KafkaFixture, tmp_path: Path) -> Iterator[LogDirectory]:
    """Each directory, opened. One that was killed has been recovered; its logs end where Kafka's did, all of it committed."""
    directory = open_copy(kafka_fixture.copy(tmp_path), kafka_fixture)
    for log in directory.partitions.values():
        log.set_high_watermark(log.log_end_offset)
    yield directory
    directory.abandon()


def test_every_partition_is_found(opened: LogDirectory, kafka_fixture: KafkaFixture) -> None:
    names = {str(partition) for partition in opened.partitions}

    assert names >= set(kafka_fixture.partitions)
    assert opened.was_clean is (kafka_fixture.name == "clean")
    # The topic that was deleted is waiting to go; it is no partition any more.
    assert not any(name.startswith("forgotten") for name in names)
    assert len(opened.removals) > 0


def test_offsets_are_kafkas(opened: LogDirectory, kafka_fixture: KafkaFixture) -> None:
    for name in kafka_fixture.partitions:
        log, view = log_of(opened, name), kafka_fixture.expected["partitions"][name]
        assert (log.log_start_offset, log.log_end_offset, log.last_stable_offset) == (
            view["log_start_offset"],
            view["log_end_offset"],
            view["last_stable_offset"],
        ), name


def test_a_reader_gets_the_records_that_kafkas_consumer_got(opened: LogDirectory, kafka_fixture: KafkaFixture) -> None:
    for name in kafka_fixture.partitions:
        assert read_rows(log_of(opened, name)) == kafka_fixture.records(name), name


def test_a_reader_of_committed_records_gets_what_kafkas_got(opened: LogDirectory, kafka_fixture: KafkaFixture) -> None:
    aborted = 0
    for name in kafka_fixture.partitions:
        expected = set(kafka_fixture.expected["partitions"][name]["committed_offsets"])
        rows = [row for row in kafka_fixture.records(name) if row.offset in expected]
        assert read_rows(log_of(opened, name), committed=True) == rows, name
        aborted += len(kafka_fixture.records(name)) - len(rows)
    assert aborted > 20


def test_offsets_by_timestamp_are_kafkas(opened: LogDirectory, kafka_fixture: KafkaFixture) -> None:
    for name in kafka_fixture.partitions:
        log, view = log_of(opened, name), kafka_fixture.expected["partitions"][name]
        for asked in view["by_timestamp"]:
            found = log.offset_for_timestamp(asked["at"])
            if asked["offset"] < 0:
                assert found is None, (name, asked)
            else:
                assert found == FoundTimestamp(asked["timestamp"], asked["offset"], asked["leader_epoch"]), (
                    name,
                    asked,
                )
        largest = view["max_timestamp"]
        assert log.offset_for_max_timestamp() == FoundTimestamp(
            largest["timestamp"], largest["offset"], largest["leader_epoch"]
        ), name


def test_producers_are_kafkas(opened: LogDirectory, kafka_fixture: KafkaFixture) -> None:
    found: list[dict[str, Any]] = []
    for name in kafka_fixture.partitions:
        producers = sorted(log_of(opened, name).producers.each_producer(), key=lambda state: state.producer_id)
        ours = [
            {
                "producer_id": state.producer_id,
                "producer_epoch": state.epoch,
                "last_sequence": state.last_sequence,
                "last_timestamp": state.last_timestamp,
                "coordinator_epoch": state.coordinator_epoch,
                "transaction_start_offset": state.transaction_first_offset,
            }
            for state in producers
        ]
        assert ours == kafka_fixture.expected["partitions"][name]["producers"], name
        found += ours
    assert any(producer["transaction_start_offset"] >= 0 for producer in found)


def contents(data: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(data)): path.read_bytes()
        for path in data.glob("*/*")
        if not path.parent.name.endswith("-delete")
    }


def useless_snapshots(names: Iterable[str], logs: Mapping[str, PartitionLog]) -> list[str]:
    """Those of an earlier stop, which begin no segment, and those before the start of the log."""
    useless = []
    for path in [Path(name) for name in names if name.endswith(".snapshot")]:
        log, offset = logs[path.parent.name], int(path.stem)
        begins_segment = str(path.with_suffix(".log")) in names
        if offset <= log.log_start_offset or not (begins_segment or offset == log.log_end_offset):
            useless.append(str(path))
    return useless


def test_a_cleanly_stopped_directory_is_opened_and_closed_without_a_change(
    clean_kafka: KafkaFixture, tmp_path: Path
) -> None:
    data = clean_kafka.copy(tmp_path)
    expected = contents(data)
    waiting = [name for name in expected if name.endswith(".deleted")]
    assert waiting

    directory = open_copy(data, clean_kafka)
    logs = {str(partition): log for partition, log in directory.partitions.items()}
    assert directory.last_broker_epoch is not None
    directory.close(directory.last_broker_epoch)

    # What changes is what Kafka's own start changes: files that waited for their removal go, snapshots that are of no use, and
    # epochs in which nothing was written.
    for name in [*waiting, *useless_snapshots(expected, logs)]:
        del expected[name]
    for name, content in expected.items():
        if name.endswith("leader-epoch-checkpoint"):
            entries = content.decode().splitlines()[2:]
            kept = [line for line in entries if int(line.split()[1]) < logs[Path(name).parent.name].log_end_offset]
            expected[name] = "".join(f"{line}\n" for line in ["0", str(len(kept)), *kept]).encode()
    assert contents(data) == expected
    for name in (
        ".kafka_cleanshutdown",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    ):
        assert sorted((data / name).read_text().split("\n")) == sorted(
            (clean_kafka.data / name).read_text().split("\n")
        )


def test_after_a_kill_the_indexes_become_what_kafka_makes_of_them(killed_kafka: KafkaFixture, tmp_path: Path) -> None:
    data = killed_kafka.copy(tmp_path)
    open_copy(data, killed_kafka).close(BrokerEpoch(1))

    scans: dict[str, tuple[str, type[OffsetIndexScan | TimeIndexScan]]] = {
        "offset_indexes": (".index", OffsetIndexScan),
        "time_indexes": (".timeindex", TimeIndexScan),
    }
    for kind, (suffix, scan) in scans.items():
        expected = people_only(killed_kafka.expected[kind])
        assert people_only(KafkaFixture("", data, {}).files(suffix)) == sorted(expected)
        for name, entries in expected.items():
            file = OsFiles().open(str(data / name), writable=False)
            assert [entry._asdict() for _, entry in scan(file, int(Path(name).stem))] == entries, name
            assert file.size() == len(entries) * scan.layout.size, name
            file.close()
    for name, entries in killed_kafka.expected["transaction_indexes"].items():
        shown = [(entry["producerId"], entry["firstOffset"], entry["lastOffset"]) for entry in entries]
        found = TransactionIndex(OsFiles(), str(data / name), Offset(int(Path(name).stem))).all_entries()
        assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in found] == shown, name


def test_after_a_kill_the_producer_snapshots_become_what_kafka_makes_of_them(
    killed_kafka: KafkaFixture, tmp_path: Path
) -> None:
    data = killed_kafka.copy(tmp_path)
    open_copy(data, killed_kafka).close(BrokerEpoch(1))

    expected = people_only(killed_kafka.expected["producer_snapshots"])
    assert people_only(KafkaFixture("", data, {}).files(".snapshot")) == sorted(expected)
    for name, entries in expected.items():
        found = read_snapshot(OsFiles(), str(data / name))
        assert sorted((each.producer_id, each.epoch, each.last_sequence, each.last_offset) for each in found) == sorted(
            (entry["producerId"], entry["producerEpoch"], entry.get("lastSequence", -1), entry.get("lastOffset", -1))
            for entry in entries
        ), name


@pytest.mark.parametrize("tail", [b"\0" * 500, b"\xff" * 7, b"garbage" * 40], ids=["zeros", "few bytes", "garbage"])
def test_a_torn_tail_behind_kafkas_last_batch_is_cut(
    killed_kafka: KafkaFixture, killed_copy: Path, tail: bytes
) -> None:
    for name in killed_kafka.partitions:
        last = max((killed_copy / name).glob("*.log"))
        with last.open("ab") as file:
            file.write(tail)

    directory = open_copy(killed_copy, killed_kafka)

    for name in killed_kafka.partitions:
        log = log_of(directory, name)
        log.set_high_watermark(log.log_end_offset)
        assert log.log_end_offset == killed_kafka.expected["partitions"][name]["log_end_offset"], name
        assert read_rows(log) == killed_kafka.records(name), name
    directory.abandon()


def test_the_metadata_log_is_opened_and_holds_every_batch(kafka_fixture: KafkaFixture, tmp_path: Path) -> None:
    data = kafka_fixture.copy(tmp_path, with_metadata=True)
    directory = open_copy(data, kafka_fixture)
    log = directory.open_metadata_log(TopicPartition(TopicName("__cluster_metadata"), PartitionIndex(0)))
    log.set_high_watermark(log.log_end_offset)

    batches = kafka_fixture.expected["batches"]["__cluster_metadata-0/00000000000000000000.log"]
    assert log.log_end_offset == batches[-1]["last_offset"] + 1
    expected = [row["offset"] for batch in batches if not batch["control"] for row in batch["records"]]
    assert [row.offset for row in read_rows(log)] == expected
    log.close()
    directory.abandon()
