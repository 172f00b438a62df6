"""Apache Kafka starts on partitions that we wrote, goes on with them, and we go on after it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.apache_kafka import ApacheKafka, KafkaError, Node
from tests.support.kafka_driver import KafkaDriver, Sent
from tests.support.log_reader import open_directory, read_rows
from tests.support.raw_client import RawClient
from tests.support.written_log import (
    IDEMPOTENT_PRODUCER,
    OPEN_PRODUCER,
    OTHER_PRODUCER,
    SMALL_LOG,
    TRANSACTIONAL_PRODUCER,
    WrittenLog,
    plain_rows,
    write_partition,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName, TopicPartition, uuid_from_text
from tidelog.storage.errors import DirectoryInUseError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.records import Record, build_batch

pytestmark = pytest.mark.compat

TOPIC = "orders"
ORDERS = TopicPartition(TopicName(TOPIC), PartitionIndex(0))
TOPIC_CONFIG = {
    "internal.segment.bytes": str(SMALL_LOG.segment_bytes),
    "index.interval.bytes": str(SMALL_LOG.index_interval_bytes),
    "segment.index.bytes": str(SMALL_LOG.segment_index_bytes),
    "retention.ms": "-1",
}
# What Kafka logs when it does not trust a file, or has to make it again.
TROUBLE = ("orrupt", "ebuilding index", "unflushed", "invalid", "WARN", "ERROR", "stray", "Deleted producer state")


def log_of(directory: LogDirectory) -> PartitionLog:
    return directory.partitions[ORDERS]


def logged(node: Node, since: int) -> list[str]:
    """What Kafka has logged about the partition since a moment."""
    text = node.log_file.read_text(errors="replace")[since:]
    return [line for line in text.splitlines() if f"{TOPIC}-0" in line]


class Prepared(NamedTuple):
    """A stopped node that knows the topic, of which it has written nothing, and whose leader epoch is beyond ours."""

    node: Node
    topic_id: TopicId


@pytest.fixture(scope="module")
def template(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    node = Node(kafka, tmp_path_factory.mktemp("template"), settings={"log.retention.ms": "-1"}, log_level="info")
    with node:
        with KafkaDriver(kafka, node.bootstrap) as driver:
            topic_id = TopicId(uuid_from_text(driver.create_topic(TOPIC, config=TOPIC_CONFIG)))
        # Every start of the broker begins a new leader epoch.
        node.stop()
        node.start()
    return Prepared(node, topic_id)


class Swapped(NamedTuple):
    """A stopped node whose partition we have written."""

    node: Node
    written: WrittenLog


def swap(template: Prepared, root: Path, *, cleanly: bool) -> Swapped:
    """Our partition in place of Kafka's: closed with its directory, or let go of as a crash would."""
    node = template.node.copy(root)
    now_ms = int(time.time() * 1000)
    shutil.rmtree(node.data / "orders-0")
    directory = open_directory(node.data, now_ms, {"": SMALL_LOG})
    assert directory.last_broker_epoch is not None
    written = write_partition(directory.create_partition(ORDERS, template.topic_id), now_ms - 3_600_000)
    if cleanly:
        directory.close(directory.last_broker_epoch)
    else:
        directory.abandon()
    return Swapped(node, written)


@pytest.fixture(params=["closed", "abandoned"])
def swapped(request: pytest.FixtureRequest, template: Prepared, tmp_path: Path) -> Iterator[Swapped]:
    """Kafka, running on a partition of ours."""
    swapped = swap(template, tmp_path, cleanly=request.param == "closed")
    with swapped.node.running():
        yield swapped


def test_kafka_serves_our_records_and_goes_on_from_our_state(swapped: Swapped, kafka: ApacheKafka) -> None:
    written, node = swapped.written, swapped.node
    with KafkaDriver(kafka, node.bootstrap) as driver:
        # Its consumers read every record, and the committed ones.
        assert driver.consume(TOPIC) == written.rows
        assert driver.consume(TOPIC, committed=True) == written.committed
        # It has our producers, and knows of the transaction that we left open.
        producers = {producer["producer_id"]: producer for producer in driver.describe_producers(TOPIC)}
        assert set(producers) == {IDEMPOTENT_PRODUCER, TRANSACTIONAL_PRODUCER, OTHER_PRODUCER, OPEN_PRODUCER}
        assert producers[IDEMPOTENT_PRODUCER]["last_sequence"] == 20
        first_open = written.undecided[OPEN_PRODUCER][0].offset
        assert producers[OPEN_PRODUCER]["transaction_start_offset"] == first_open
        assert driver.list_offset(TOPIC, "latest", committed=True).offset == first_open
        # It finds records by time.
        for row in written.rows[:: len(written.rows) // 7]:
            found = driver.list_offset(TOPIC, row.timestamp)
            assert found.timestamp >= row.timestamp
            assert found.offset == min(each.offset for each in written.rows if each.timestamp >= row.timestamp)
        # It accepts our leader epochs: the offset that it answers with was written in the epoch that we gave it.
        assert driver.list_offset(TOPIC, written.rows[0].timestamp).leader_epoch == 0
        assert driver.list_offset(TOPIC, written.rows[-1].timestamp).leader_epoch == 1
        goes_on_with_producers(node, written)
        # A marker of Kafka's ends the transaction that began in our log.
        driver.abort_transaction(TOPIC, OPEN_PRODUCER, 2, coordinator_epoch=0)
        end = driver.list_offset(TOPIC, "latest").offset
        assert driver.list_offset(TOPIC, "latest", committed=True).offset == end
        after = [row.offset for row in driver.consume(TOPIC, committed=True)]
        assert after[: len(written.committed)] == [row.offset for row in written.committed]
        assert not set(after) & {row.offset for row in written.undecided[OPEN_PRODUCER]}


def goes_on_with_producers(node: Node, written: WrittenLog) -> None:
    """The next batch of a producer is taken, a repeated one is known for what it is, one out of order is refused."""

    def batch(sequence: int, rows: list[Record]) -> bytes:
        return build_batch(
            [row._replace(offset=index) for index, row in enumerate(rows)],
            producer_id=IDEMPOTENT_PRODUCER,
            producer_epoch=0,
            base_sequence=sequence,
        )

    last = next(row for row in written.rows if row.key == b"idempotent 6 key 0")
    with RawClient(node.bootstrap) as client:
        repeated = plain_rows("idempotent 6", 3, last.timestamp)
        assert client.produce(TOPIC, 0, batch(18, repeated)) == (ErrorCode.NONE, last.offset)
        following = plain_rows("Kafka's own", 2, last.timestamp)
        error, offset = client.produce(TOPIC, 0, batch(21, following))
        assert (error, offset) == (ErrorCode.NONE, written.log.log_end_offset)
        error, _ = client.produce(TOPIC, 0, batch(50, following))
        assert error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_partition_that_we_closed_gives_kafka_nothing_to_repair(template: Prepared, tmp_path: Path) -> None:
    node, written = swap(template, tmp_path, cleanly=True)
    before = {path.name: path.read_bytes() for path in (node.data / "orders-0").iterdir()}

    with node.running():
        lines = logged(node, 0)

    assert [line for line in lines if any(word in line for word in TROUBLE)] == []
    # It takes the state of the producers from our snapshot alone: that begins and ends where the log ends.
    assert any(f"rebuilding producer state from offset {written.log.log_end_offset}" in line for line in lines)
    after = {path.name: path.read_bytes() for path in (node.data / "orders-0").iterdir()}
    # Kafka has begun an epoch of its own, and written nothing.
    assert {name for name in before if before[name] != after.get(name)} <= {"leader-epoch-checkpoint"}
    assert set(after) == set(before)


def test_a_partition_that_we_let_go_of_is_recovered_by_kafka(template: Prepared, tmp_path: Path) -> None:
    node, written = swap(template, tmp_path, cleanly=False)
    last = max((node.data / "orders-0").glob("*.log"))
    with last.open("ab") as file:
        file.write(b"torn" * 30)

    with node.running():
        lines = logged(node, 0)

    assert any("unflushed" in line for line in lines)
    directory = open_directory(node.data, written.start_ms, {"": SMALL_LOG})
    assert read_rows(log_of(directory)) == written.rows
    directory.abandon()


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_we_go_on_where_kafka_ended_and_kafka_goes_on_after_us(kafka: ApacheKafka, tmp_path: Path, ending: str) -> None:
    node = Node(kafka, tmp_path, settings={"log.retention.ms": "-1"})
    now_ms = int(time.time() * 1000)
    with node, KafkaDriver(kafka, node.bootstrap) as driver:
        driver.create_topic(TOPIC, config=TOPIC_CONFIG)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            driver.open_producer(codec, compression_type=codec)
            driver.send(codec, TOPIC, [Sent(b"%d" % row, codec.encode() * 40, now_ms + row) for row in range(9)])
        driver.open_producer("transactional", transactional_id="transactional")
        for ends in (driver.commit, driver.abort):
            driver.begin("transactional")
            driver.send("transactional", TOPIC, [Sent(b"in a transaction", b"value", now_ms)])
            ends("transactional")
        theirs = driver.consume(TOPIC)
        theirs_committed = driver.consume(TOPIC, committed=True)
        producers = driver.describe_producers(TOPIC)
        if ending == "killed":
            node.kill()

    # Ours: everything of Kafka's is there, and we append.
    directory = open_directory(node.data, now_ms, {"": SMALL_LOG})
    assert directory.was_clean is (ending == "stopped")
    log = log_of(directory)
    log.set_high_watermark(log.log_end_offset)
    assert read_rows(log) == theirs
    assert read_rows(log, committed=True) == theirs_committed
    assert sorted(state.producer_id for state in log.producers.each_producer()) == [
        producer["producer_id"] for producer in producers
    ]
    latest_epoch = log.leader_epochs.latest_epoch
    assert latest_epoch is not None
    written = WrittenLog(log, now_ms, leader_epoch=latest_epoch)
    for batch in range(12):
        written.append(plain_rows(f"ours {batch}", 3, now_ms + batch))
    log.set_high_watermark(log.log_end_offset)
    epoch = directory.last_broker_epoch
    if epoch is not None:
        directory.close(epoch)
    else:
        directory.abandon()

    # Kafka's again: both parts, and it goes on writing.
    with node.running(), KafkaDriver(kafka, node.bootstrap) as driver:
        assert driver.consume(TOPIC) == theirs + written.rows
        assert driver.consume(TOPIC, committed=True) == theirs_committed + written.rows
        driver.open_producer("last")
        driver.send("last", TOPIC, [Sent(b"last", b"word", now_ms)])
        driver.open_producer("transactional", transactional_id="transactional")
        driver.begin("transactional")
        driver.send("transactional", TOPIC, [Sent(b"in another transaction", b"value", now_ms)])
        driver.commit("transactional")
        everything = driver.consume(TOPIC)

    assert everything[: len(theirs) + len(written.rows)] == theirs + written.rows
    directory = open_directory(node.data, now_ms, {"": SMALL_LOG})
    log = log_of(directory)
    log.set_high_watermark(log.log_end_offset)
    assert read_rows(log) == everything
    assert [row.key for row in everything[-2:]] == [b"last", b"in another transaction"]
    directory.abandon()


def test_a_second_program_on_the_directory_is_refused(template: Prepared, tmp_path: Path) -> None:
    node = template.node.copy(tmp_path)
    directory = open_directory(node.data, 0)
    with pytest.raises(KafkaError, match="ended with code 1"):
        node.start()
    assert "Failed to acquire lock" in node.log_file.read_text()
    directory.abandon()

    with node.running(), pytest.raises(DirectoryInUseError, match="another process uses the directory"):
        open_directory(node.data, 0)
