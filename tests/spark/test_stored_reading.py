"""Data directories that Apache Kafka wrote, read without a node: what its own consumers read of them, and no byte changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka_driver import Received
from tests.support.kafka_fixtures import NAMES, KafkaFixture
from tidelog.spark.errors import DataLossError, OptionError, UnreadableError
from tidelog.spark.source.source_options import batch_bounds, parse_source_options
from tidelog.spark.stored.stored_reading import plan_stored_read, read_segment


@pytest.fixture(scope="module", params=NAMES)
def kafka_fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KafkaFixture:
    return KafkaFixture.unpack(str(request.param), tmp_path_factory.mktemp("kafka"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return KafkaFixture.unpack("clean", tmp_path).data


def rows_of(path: Path | str, **more: str) -> list[dict[str, Any]]:
    """What Spark would get, task after task."""
    given = {name.replace("__", "."): text for name, text in more.items()}
    options = parse_source_options({"path": str(path), "includeHeaders": "true", **given})
    tasks = plan_stored_read(options, *batch_bounds(options))
    return [row for task in tasks for batch in read_segment(options, task) for row in batch.to_pylist()]


def received(row: dict[str, Any]) -> Received:
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    return Received(row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"], row["value"], headers)


def offsets_of(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


def test_every_record_is_what_kafkas_consumer_read(kafka_fixture: KafkaFixture) -> None:
    rows = rows_of(kafka_fixture.data)

    for name in kafka_fixture.partitions:
        topic, _, index = name.rpartition("-")
        mine = [received(row) for row in rows if row["topic"] == topic and row["partition"] == int(index)]
        expected = kafka_fixture.records(name)
        # A start that was moved and not yet written down when the node was killed is not known to anybody.
        assert mine[-len(expected) :] == expected
        assert len(mine) == len(expected) or (kafka_fixture.name, topic) == ("killed", "trimmed")
    assert {row["topic"] for row in rows} == {name.rpartition("-")[0] for name in kafka_fixture.partitions}


def test_committed_records_are_those_of_kafkas_consumer(kafka_fixture: KafkaFixture) -> None:
    for name in kafka_fixture.partitions:
        rows = rows_of(kafka_fixture.data / name, kafka__isolation__level="read_committed")
        expected = kafka_fixture.expected["partitions"][name]["committed_offsets"]
        assert offsets_of(rows)[-len(expected) :] == expected
        assert len(rows) == len(expected) or name == "trimmed-0"


def test_a_read_may_be_divided_anywhere(kafka_fixture: KafkaFixture) -> None:
    for name in ("transactional-0", "codec-zstd-0", "compacted-0"):
        for level in ("read_committed", "read_uncommitted"):
            whole = rows_of(kafka_fixture.data / name, kafka__isolation__level=level)
            assert (
                rows_of(kafka_fixture.data / name, kafka__isolation__level=level, maxRecordsPerPartition="1") == whole
            )


def test_times_are_found_where_kafka_finds_them(kafka_fixture: KafkaFixture) -> None:
    for name in kafka_fixture.partitions:
        facts = kafka_fixture.expected["partitions"][name]
        for asked in facts["by_timestamp"]:
            at, offset = asked["at"], asked["offset"]
            given = {"startingTimestamp": str(at), "startingOffsetsByTimestampStrategy": "latest"}
            if name == "trimmed-0":
                continue
            rows = rows_of(kafka_fixture.data / name, **given)
            expected = (
                [] if offset < 0 else [each.offset for each in kafka_fixture.records(name) if each.offset >= offset]
            )
            assert offsets_of(rows) == expected, (name, asked)


def test_bounds_choose_segments_and_offsets(copy: Path) -> None:
    topics = {"subscribe": "timed", "startingOffsets": json.dumps({"timed": {"0": 7}})}

    assert offsets_of(rows_of(copy, **topics, endingOffsets=json.dumps({"timed": {"0": 19}}))) == list(range(7, 19))
    options = parse_source_options({"path": str(copy), "subscribe": "timed"})
    tasks = plan_stored_read(options, *batch_bounds(options))
    assert len(tasks) == len(list((copy / "timed-0").glob("*.log"))), "a task for each segment"


def test_nothing_is_written(tmp_path: Path) -> None:
    data = KafkaFixture.unpack("killed", tmp_path).data

    def content() -> dict[str, str]:
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in data.rglob("*") if path.is_file()}

    before = content()
    rows_of(data, kafka__isolation__level="read_committed")
    assert content() == before


def test_indexes_are_no_more_than_a_help(copy: Path) -> None:
    expected = rows_of(copy, startingTimestamp="0")
    for path in copy.rglob("*"):
        if path.suffix in {".index", ".timeindex"}:
            path.unlink() if path.suffix == ".index" else path.write_bytes(b"")
    assert rows_of(copy, startingTimestamp="0") == expected

    for path in copy.rglob("*.log"):
        path.with_suffix(".index").write_bytes(bytes(range(1, 129)))
    assert rows_of(copy) == expected


def test_a_batch_that_was_being_written_ends_the_log(copy: Path) -> None:
    expected = offsets_of(rows_of(copy / "timed-0"))
    last = max((copy / "timed-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-3])

    assert offsets_of(rows_of(copy / "timed-0")) == expected[:-4]


def test_damage_in_the_middle_is_an_error(copy: Path) -> None:
    first = min((copy / "timed-0").glob("*.log"))
    content = bytearray(first.read_bytes())
    content[70] ^= 0xFF
    first.write_bytes(content)

    with pytest.raises(UnreadableError, match=r"timed-0/0+\.log cannot be read: .*checksum"):
        rows_of(copy / "timed-0")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: path / "nowhere", "is no directory"),
        (lambda path: path / "meta.properties", "is no directory"),
        (lambda path: path.parent, "holds no partition: it is a data directory"),
    ],
)
def test_a_path_without_partitions_is_refused(copy: Path, make: Any, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        rows_of(make(copy))


def test_a_topic_that_is_not_there_is_refused(copy: Path) -> None:
    with pytest.raises(OptionError, match="no partition of the chosen topics"):
        rows_of(copy, subscribe="nobody")


def test_what_was_deleted_is_a_loss_where_it_was_asked_for(copy: Path) -> None:
    asked = {"subscribe": "trimmed", "startingOffsets": json.dumps({"trimmed": {"0": 3}})}

    with pytest.raises(DataLossError, match="offsets 3 to 25 of trimmed-0 are deleted: it begins at 26"):
        rows_of(copy, **asked)
    assert offsets_of(rows_of(copy, **asked, failOnDataLoss="false")) == [26, 27, 28, 29, 30, 31]


def test_a_swap_that_was_not_finished_is_refused(copy: Path) -> None:
    (copy / "timed-0" / "00000000000000000000.log.swap").touch()

    with pytest.raises(UnreadableError, match="in the middle of compaction"):
        rows_of(copy / "timed-0")


def test_internal_topics_are_read_where_they_are_named(copy: Path) -> None:
    assert rows_of(copy, subscribe="__consumer_offsets", columns="offset", includeHeaders="false")
