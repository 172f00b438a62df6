"""What a produced batch must be: size, number, codec, timestamps, keys; and what a topic's own codec makes of it."""

from __future__ import annotations

import pytest

from tests.support.log_builder import START_MS, LogBuilder
from tidelog.broker.data.record_validation import RECORD_ERRORS_MAX, RecordsRefused, check_produced
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.model.topic_config import TOPIC_KEYS
from tidelog.replication.topic_config import TopicConfig
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import HEADER_BYTES, BytesLike, TimestampType, check_batch, read_header, stamp_crc
from tidelog.wire.records import Record, build_batch, decode_rows

BATCHES = LogBuilder()
LATEST = 13
HOUR_MS = 60 * 60 * 1000
LONG_MAX = 2**63 - 1


def config(values: dict[str, str] | None = None) -> TopicConfig:
    return TopicConfig.from_values(TOPIC_KEYS.parse(values or {}))


DEFAULT = config()
ORDERS = TopicPartition(TopicName("orders"), PartitionIndex(3))


def refused(
    records: BytesLike | None, topic: TopicConfig = DEFAULT, version: int = LATEST, now_ms: int = START_MS
) -> RecordsRefused:
    outcome = check_produced(records, version, ORDERS, topic, now_ms)
    assert isinstance(outcome, RecordsRefused)
    return outcome


def taken(records: BytesLike, topic: TopicConfig = DEFAULT, version: int = LATEST) -> BytesLike:
    outcome = check_produced(records, version, ORDERS, topic, START_MS)
    assert not isinstance(outcome, RecordsRefused), outcome
    return outcome.view


def keyed(*keys: bytes | None, codec: Compression = Compression.NONE) -> bytes:
    return build_batch([Record(number, START_MS, key, b"v") for number, key in enumerate(keys)], codec=codec)


def test_a_batch_that_nothing_is_asked_of_is_passed_on_as_it_is() -> None:
    batch = BATCHES.batch("a", "b", codec=Compression.LZ4)

    assert taken(batch) == batch


def test_nothing_is_decoded_unless_the_topic_asks_for_it() -> None:
    batch = BATCHES.batch("a", "b", codec=Compression.GZIP)
    batch[HEADER_BYTES:] = bytes(len(batch) - HEADER_BYTES)

    assert refused(batch).error is ErrorCode.CORRUPT_MESSAGE
    stamp_crc(batch)
    assert taken(batch) == batch
    assert refused(batch, config({"cleanup.policy": "compact"})).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("records", [None, b"", memoryview(b"")])
def test_a_partition_without_a_batch(records: BytesLike | None) -> None:
    assert refused(records).error is ErrorCode.INVALID_RECORD


def test_two_batches_for_one_partition() -> None:
    assert refused(BATCHES.batch("a") + BATCHES.batch("b")).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("end", [1, 16, 17, 60, 61, -1])
def test_a_batch_that_is_cut_off(end: int) -> None:
    assert refused(BATCHES.batch("a")[:end]).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("rest", [b"x", bytes(11), bytes(BATCHES.batch("b"))[:-1], bytes(BATCHES.batch("b"))[:12]])
def test_the_beginning_of_another_batch_is_cut_off(rest: bytes) -> None:
    batch = BATCHES.batch("a")

    assert bytes(taken(batch + rest)) == batch


@pytest.mark.parametrize("length", [12, 17, 61, 200])
def test_what_follows_a_batch_must_look_like_one(length: int) -> None:
    assert refused(BATCHES.batch("a") + bytes(length)).error is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("magic", "code"),
    [(0, ErrorCode.INVALID_RECORD), (1, ErrorCode.INVALID_RECORD), (3, ErrorCode.CORRUPT_MESSAGE)],
)
def test_a_batch_of_another_format(magic: int, code: ErrorCode) -> None:
    batch = BATCHES.batch("a")
    batch[16] = magic

    assert refused(batch).error is code


@pytest.mark.parametrize("position", [23, 57])
def test_a_header_that_cannot_be_is_its_producers_fault_if_the_checksum_is_right(position: int) -> None:
    batch = BATCHES.batch("a")
    batch[position : position + 4] = b"\xff" * 4
    assert refused(batch).error is ErrorCode.CORRUPT_MESSAGE

    stamp_crc(batch)

    assert refused(batch).error is ErrorCode.INVALID_RECORD


def test_a_length_that_no_batch_has() -> None:
    batch = BATCHES.batch("a")
    batch[8:12] = (20).to_bytes(4, "big")

    assert refused(batch).error is ErrorCode.CORRUPT_MESSAGE


def test_zstd_needs_a_version_that_knows_it() -> None:
    batch = BATCHES.batch("a", codec=Compression.ZSTD)

    assert refused(batch, version=6).error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert taken(batch, version=7) == batch


def test_a_batch_may_be_as_large_as_the_topic_says() -> None:
    batch = BATCHES.batch("a" * 100)

    assert taken(batch, config({"max.message.bytes": str(len(batch))})) == batch
    assert refused(batch, config({"max.message.bytes": str(len(batch) - 1)})).error is ErrorCode.MESSAGE_TOO_LARGE


# Timestamps


def test_a_record_from_the_future_is_refused_by_its_number() -> None:
    late = START_MS + HOUR_MS
    batch = BATCHES.batch("a", "b", "c", timestamps=[START_MS, late + 1, late])

    outcome = refused(batch)

    assert outcome.error is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in outcome.record_errors] == [1]
    assert taken(BATCHES.batch("a", timestamps=[late]))


def test_a_record_may_be_as_old_as_it_likes_unless_the_topic_says_otherwise() -> None:
    batch = BATCHES.batch("a", "b", timestamps=[0, START_MS])

    assert taken(batch) == batch
    outcome = refused(batch, config({"message.timestamp.before.max.ms": "1000"}))
    assert outcome.error is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in outcome.record_errors] == [0]


def test_only_the_leader_may_give_the_time_of_the_append() -> None:
    batch = BATCHES.batch("a", "b", timestamp_type=TimestampType.LOG_APPEND_TIME)

    outcome = refused(batch, config({"message.timestamp.type": "LogAppendTime"}))

    assert outcome.error is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in outcome.record_errors] == [0, 1]


@pytest.mark.parametrize("topic", [DEFAULT, config({"compression.type": "gzip"})])
def test_a_topic_that_keeps_its_producers_time_says_so_of_every_batch(topic: TopicConfig) -> None:
    batch = BATCHES.batch("a", "b", timestamps=[START_MS, START_MS], timestamp_type=TimestampType.LOG_APPEND_TIME)

    outcome = taken(batch, topic)

    header = read_header(outcome)
    check_batch(outcome, header)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert decode_rows(outcome) == decode_rows(batch)


def test_a_record_without_a_timestamp_is_of_no_age() -> None:
    batch = BATCHES.batch("a", timestamps=[-1])

    assert taken(batch, config({"message.timestamp.before.max.ms": "1000"})) == batch


def test_a_topic_of_log_append_time_looks_at_no_timestamp() -> None:
    batch = BATCHES.batch("a", timestamps=[START_MS + 10 * HOUR_MS])
    topic = config({"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "0"})

    assert taken(batch, topic) == batch


def test_an_answer_names_no_more_bad_records_than_it_may() -> None:
    count = RECORD_ERRORS_MAX + 5
    batch = BATCHES.batch(*["a"] * count, timestamps=[START_MS + 2 * HOUR_MS] * count)

    outcome = refused(batch)

    assert len(outcome.record_errors) == RECORD_ERRORS_MAX
    assert outcome.reason == "One or more records have been rejected due to invalid timestamp"
    assert outcome.record_errors[7].batch_index_error_message == (
        f"Timestamp {START_MS + 2 * HOUR_MS} of message with offset 7 is out of range. The timestamp should be within "
        f"[{START_MS - LONG_MAX}, {START_MS + HOUR_MS}]"
    )


def test_a_batch_may_not_say_that_its_time_is_the_appends() -> None:
    batch = build_batch([Record(0, START_MS, b"k", b"abc")], timestamp_type=TimestampType.LOG_APPEND_TIME)

    outcome = refused(batch, config({"message.timestamp.type": "LogAppendTime"}))

    assert outcome.error is ErrorCode.INVALID_TIMESTAMP
    record = f"DefaultRecord(offset=0, timestamp={START_MS}, key=1 bytes, value=3 bytes)"
    problem = f"Invalid timestamp type in message {record}. Producer should not set timestamp type to LogAppendTime."
    assert [each.batch_index_error_message for each in outcome.record_errors] == [problem]


# Keys


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    compacted = config({"cleanup.policy": "compact,delete"})

    outcome = refused(keyed(b"k", None, b"", None), compacted)

    problem = "Compacted topic cannot accept message without key in topic partition orders-3"
    assert outcome.reason == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first three errors at "
        f"most: [RecordError(batchIndex=1, message='{problem}'), RecordError(batchIndex=3, message='{problem}')]"
    )

    assert outcome.error is ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in outcome.record_errors] == [1, 3]
    assert taken(keyed(b"k", b""), compacted)
    assert taken(keyed(b"k", b"l", codec=Compression.SNAPPY), compacted)


def test_a_damaged_batch_is_not_looked_into() -> None:
    batch = bytearray(keyed(b"k", b"l"))
    batch[-1] ^= 1

    assert refused(batch, config({"cleanup.policy": "compact"})).error is ErrorCode.CORRUPT_MESSAGE


def test_a_bad_timestamp_outweighs_a_missing_key() -> None:
    rows = [Record(0, START_MS, None, b"v"), Record(1, START_MS + 2 * HOUR_MS, b"k", b"v")]

    outcome = refused(build_batch(rows), config({"cleanup.policy": "compact"}))

    assert outcome.error is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in outcome.record_errors] == [0, 1]


# Codecs


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", list(Compression))
def test_a_topic_with_a_codec_of_its_own_keeps_the_records_and_the_producer(name: str, source: Compression) -> None:
    wanted = Compression.NONE if name == "uncompressed" else Compression[name.upper()]
    batch = BATCHES.batch(
        "a", "b" * 50, timestamps=[5, 3], codec=source, producer_id=7, producer_epoch=2, base_sequence=11
    )

    outcome = taken(batch, config({"compression.type": name}))

    if source is wanted:
        assert outcome == batch
    header = read_header(outcome)
    check_batch(outcome, header)
    assert header.codec is wanted
    assert decode_rows(outcome) == decode_rows(batch)
    before = read_header(batch)
    for field in (
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "record_count",
        "last_offset_delta",
        "max_timestamp",
    ):
        assert getattr(header, field) == getattr(before, field)


@pytest.mark.parametrize(("name", "low", "high"), [("zstd", "-1000", "19"), ("lz4", "9", "17")])
def test_the_level_of_the_topics_codec_counts(name: str, low: str, high: str) -> None:
    batch = BATCHES.batch("".join(str(number * number % 9973) for number in range(3000)))

    sizes = [
        len(taken(batch, config({"compression.type": name, f"compression.{name}.level": level})))
        for level in (low, high)
    ]

    assert sizes[1] < sizes[0]


def test_what_becomes_too_large_by_recompression_is_refused() -> None:
    batch = BATCHES.batch("a" * 5000, codec=Compression.ZSTD)
    topic = config({"compression.type": "uncompressed", "max.message.bytes": "1000"})

    assert len(batch) < 1000
    assert refused(batch, topic).error is ErrorCode.MESSAGE_TOO_LARGE
