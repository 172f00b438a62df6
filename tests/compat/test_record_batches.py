"""Apache Kafka reads the record batches that we build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka, Node
from tests.support.kafka_driver import KafkaDriver, Received
from tests.support.raw_client import RawClient
from tidelog.wire.compression import LEVELS, Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import TimestampType
from tidelog.wire.records import Record, build_batch, build_empty_batch

pytestmark = pytest.mark.compat

START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def node(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(kafka, tmp_path_factory.mktemp("kafka"), settings={"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="module")
def driver(kafka: ApacheKafka, node: Node) -> Iterator[KafkaDriver]:
    with KafkaDriver(kafka, node.bootstrap) as connected:
        yield connected


@pytest.fixture(scope="module")
def reader(kafka: ApacheKafka) -> Iterator[KafkaDriver]:
    """Kafka's reader of files, which needs no node."""
    with KafkaDriver(kafka) as started:
        yield started


def varied_rows() -> list[Record]:
    """Null and empty keys and values, bytes that are no text, headers of every kind, and a value of many compressor blocks."""
    return [
        Record(0, START_MS, None, None),
        Record(1, START_MS + 5, b"", b"", (("", b""), ("", None))),
        Record(
            2, START_MS - 5, bytes(range(256)), "größe".encode(), (("größe", "µ".encode()), ("a", b"1"), ("a", b"2"))
        ),
        Record(3, START_MS + 1, b"large", b"".join(b"row %d of a large value, " % row for row in range(12_000))),
        Record(4, START_MS + 2, b"last", b"x" * 200),
    ]


def as_received(rows: list[Record]) -> list[Received]:
    return [Received(*row) for row in rows]


def codecs_and_levels() -> list[tuple[Compression, int | None]]:
    """Every codec with its default level, its lowest and its highest."""
    found: list[tuple[Compression, int | None]] = [(codec, None) for codec in Compression]
    for codec, levels in LEVELS.items():
        found += [(codec, levels[0]), (codec, levels[-1])]
    return found


@pytest.mark.parametrize(("codec", "level"), codecs_and_levels(), ids=str)
def test_a_broker_takes_a_batch_in_every_codec_and_its_consumer_reads_it(
    node: Node, driver: KafkaDriver, codec: Compression, level: int | None
) -> None:
    topic = f"{codec.name.lower()}-{level}"
    driver.create_topic(topic)
    rows = varied_rows()

    with RawClient(node.bootstrap) as client:
        answer = client.produce(topic, 0, build_batch(rows, codec=codec, level=level))

    assert answer == (0, 0)
    assert driver.consume(topic) == as_received(rows)


@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name.lower())
def test_a_broker_that_stamps_or_recompresses_reads_our_records(
    node: Node, driver: KafkaDriver, codec: Compression
) -> None:
    topic = f"stamped-{codec.name.lower()}"
    other = "zstd" if codec is Compression.GZIP else "gzip"
    driver.create_topic(topic, config={"message.timestamp.type": "LogAppendTime", "compression.type": other})
    rows = varied_rows()

    with RawClient(node.bootstrap) as client:
        answer = client.produce(topic, 0, build_batch(rows, codec=codec))

    assert answer == (0, 0)
    found = driver.consume(topic)
    assert [(row.key, row.value, row.headers) for row in found] == [(row.key, row.value, row.headers) for row in rows]


def test_a_broker_refuses_a_batch_whose_checksum_is_wrong(node: Node, driver: KafkaDriver) -> None:
    driver.create_topic("damaged")
    batch = bytearray(build_batch(varied_rows()))
    batch[-1] ^= 1

    with RawClient(node.bootstrap) as client:
        error, _ = client.produce("damaged", 0, bytes(batch))

    assert error == 2  # CORRUPT_MESSAGE


def test_every_attribute_of_a_batch_is_what_kafka_reads(reader: KafkaDriver, tmp_path: Path) -> None:
    rows = [Record(7, START_MS, b"k", b"v"), Record(9, START_MS + 3, b"k2", None)]
    batches = [
        build_batch(rows, base_offset=5, leader_epoch=3, last_offset=11),
        build_batch(
            [Record(12, START_MS, b"k", b"v")],
            base_offset=12,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            producer_id=2**40,
            producer_epoch=32767,
            base_sequence=2**31 - 1,
            is_transactional=True,
        ),
        build_end_txn_marker(
            ControlType.COMMIT,
            producer_id=2**40,
            producer_epoch=32767,
            coordinator_epoch=6,
            timestamp=START_MS,
            base_offset=13,
        ),
        build_empty_batch(
            base_offset=14, last_offset=20, timestamp=START_MS, producer_id=8, producer_epoch=1, base_sequence=4
        ),
        build_batch([Record(21, START_MS, b"k", None)], base_offset=21, delete_horizon_ms=START_MS + 86_400_000),
    ]
    file = tmp_path / "00000000000000000005.log"
    file.write_bytes(b"".join(batches))

    found = reader.dump_batches(file)

    assert all(batch["valid"] for batch in found)
    assert [(batch["base_offset"], batch["last_offset"], batch["record_count"]) for batch in found] == [
        (5, 11, 2),
        (12, 12, 1),
        (13, 13, 1),
        (14, 20, 0),
        (21, 21, 1),
    ]
    gaps, stamped, marker, empty, horizon = found
    assert [Received.from_json(row) for row in gaps["records"]] == as_received(rows)
    assert gaps["leader_epoch"] == 3
    assert (stamped["timestamp_type"], stamped["transactional"]) == ("LogAppendTime", True)
    assert (stamped["producer_id"], stamped["producer_epoch"], stamped["base_sequence"]) == (2**40, 32767, 2**31 - 1)
    assert (marker["control"], marker["transactional"], marker["producer_id"]) == (True, True, 2**40)
    assert marker["records"][0] == {
        "offset": 13,
        "timestamp": START_MS,
        "key": "00000001",
        "value": "000000000006",
        "headers": [],
    }
    assert (empty["producer_id"], empty["base_sequence"], empty["last_sequence"]) == (8, 4, 10)
    assert horizon["delete_horizon_ms"] == START_MS + 86_400_000
    assert Received.from_json(horizon["records"][0]) == Received(21, START_MS, b"k", None, ())
