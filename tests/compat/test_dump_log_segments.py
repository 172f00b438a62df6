"""Apache Kafka's DumpLogSegments reads the files that we write, and has nothing to complain of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.dump_log_segments import complaints, dump_log_segments, run, split
from tests.support.kafka_driver import KafkaDriver, Received
from tests.support.log_reader import open_directory
from tests.support.written_log import (
    COORDINATOR_EPOCH,
    IDEMPOTENT_PRODUCER,
    OPEN_PRODUCER,
    SMALL_LOG,
    TRANSACTIONAL_PRODUCER,
    WrittenLog,
    write_partition,
)
from tidelog.model.ids import BrokerEpoch, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.wire.record_batch import each_batch

pytestmark = pytest.mark.compat

START_MS = 1_700_000_000_000
ORDERS = TopicPartition(TopicName("orders"), PartitionIndex(0))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> WrittenLog:
    """A log with everything in it, closed cleanly."""
    directory = open_directory(tmp_path_factory.mktemp("ours"), START_MS, {"": SMALL_LOG})
    written = write_partition(directory.create_partition(ORDERS, TopicId(bytes(range(16)))), START_MS)
    directory.close(BrokerEpoch(1))
    return written


def files(written: WrittenLog, suffix: str) -> list[Path]:
    return sorted(Path(written.log.directory).glob(f"*{suffix}"))


def test_every_batch_and_record_is_valid_and_there(kafka: ApacheKafka, written: WrittenLog) -> None:
    segments = files(written, ".log")
    assert len(segments) > 3

    output = run(kafka, segments, "--deep-iteration", "--print-data-log")

    assert complaints(output) == []
    assert {
        name for name in ("none", "gzip", "snappy", "lz4", "zstd") if f"compresscodec: {name}" in output.stdout
    } == {
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    }
    assert output.stdout.count("endTxnMarker: COMMIT") == 2
    assert output.stdout.count("endTxnMarker: ABORT") == 6
    shown = [line for dump in split(output).values() for line in dump.lines if line.startswith("| ")]
    assert len(shown) == len(written.rows) + 8


def test_kafkas_reader_of_files_finds_the_rows_that_were_appended(kafka: ApacheKafka, written: WrittenLog) -> None:
    with KafkaDriver(kafka) as driver:
        batches = [batch for file in files(written, ".log") for batch in driver.dump_batches(file)]

    rows = [Received.from_json(row) for batch in batches if not batch["control"] for row in batch["records"]]
    assert rows == written.rows
    assert {batch["leader_epoch"] for batch in batches} == {0, 1}


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only", "--deep-iteration"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_agree_with_the_log(kafka: ApacheKafka, written: WrittenLog, suffix: str, option: str) -> None:
    output = run(kafka, files(written, suffix), option)

    assert complaints(output) == []
    entries = sum(len(dump.entries()) for dump in split(output).values())
    assert entries > 10 or option != "--deep-iteration"


def test_the_aborted_transactions_are_what_we_aborted(kafka: ApacheKafka, written: WrittenLog) -> None:
    dumps = dump_log_segments(kafka, files(written, ".txnindex"))

    found = [entry for path in sorted(dumps) for entry in dumps[path].entries()]
    assert len(found) == 6
    covered = {
        row.offset
        for row in written.rows
        for entry in found
        if entry["firstOffset"] <= row.offset <= entry["lastOffset"] and row.offset in written.aborted
    }
    assert covered == written.aborted


def test_producer_snapshots_are_read(kafka: ApacheKafka, written: WrittenLog) -> None:
    snapshots = files(written, ".snapshot")
    dumps = dump_log_segments(kafka, snapshots)

    final = {entry["producerId"]: entry for entry in dumps[snapshots[-1]].entries()}
    assert int(snapshots[-1].stem) == written.log.log_end_offset
    assert (final[IDEMPOTENT_PRODUCER]["lastSequence"], final[IDEMPOTENT_PRODUCER]["producerEpoch"]) == (20, 0)
    assert final[TRANSACTIONAL_PRODUCER]["coordinatorEpoch"] == COORDINATOR_EPOCH
    assert final[OPEN_PRODUCER]["currentTxnFirstOffset"] == written.undecided[OPEN_PRODUCER][0].offset


def damaged_copy(written: WrittenLog, into: Path) -> Path:
    for path in Path(written.log.directory).iterdir():
        (into / path.name).write_bytes(path.read_bytes())
    return into


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("suffix", "position"),
    [
        (".log", -1),
        (".log", 30),
        (".index", 3),
        (".index", 7),
        (".timeindex", 6),
        (".timeindex", 11),
        (".snapshot", 20),
    ],
)
def test_the_check_notices_one_bit_that_is_wrong(
    kafka: ApacheKafka, written: WrittenLog, tmp_path: Path, suffix: str, position: int
) -> None:
    copy = damaged_copy(written, tmp_path)
    path = next(path for path in sorted(copy.glob(f"*{suffix}")) if path.stat().st_size > 20)
    flip(path, position)

    output = run(kafka, [path], "--deep-iteration")

    assert complaints(output) != []


def test_the_check_notices_a_batch_that_is_missing(kafka: ApacheKafka, written: WrittenLog, tmp_path: Path) -> None:
    path = min(damaged_copy(written, tmp_path).glob("*.log"))
    content = path.read_bytes()
    (_, _), (second, _), (third, _), *_ = each_batch(content)
    path.write_bytes(content[:second] + content[third:])

    assert any("is followed by" in line for line in complaints(run(kafka, [path], "--deep-iteration")))


def test_the_check_notices_bytes_that_are_missing(kafka: ApacheKafka, written: WrittenLog, tmp_path: Path) -> None:
    path = min(damaged_copy(written, tmp_path).glob("*.log"))
    path.write_bytes(path.read_bytes()[:-1])

    assert complaints(run(kafka, [path], "--deep-iteration")) != []
