"""Makes the data directories under tests/fixtures/kafka: Apache Kafka writes them, and says itself what is in them.

    .venv/bin/python tools/make_kafka_fixtures.py          needs java and mvn; two minutes

Two directories come out of one story: `clean` ends with SIGTERM, `killed` with SIGKILL. Each is `<name>.tar.xz`, the data
directory as the process left it, and `<name>.json.xz`: what Kafka's consumers and administration answered just before the
end, and what its own reader of files and DumpLogSegments find in the files after it (for indexes and producer snapshots of
the killed one: after Kafka has recovered the directory). The tests compare ours with that, never with a second opinion of
ours.

The story has two starts of the node, so that leader epochs rise, and every kind of content that a log can hold.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.support.apache_kafka import (  # noqa: E402  (the repository's root is not on a tool's path)
    CLUSTER_ID,
    KAFKA_VERSION,
    NODE_ID,
    ApacheKafka,
    Node,
    wait_until,
)
from tests.support.dump_log_segments import dump_log_segments  # noqa: E402
from tests.support.kafka_driver import KafkaDriver, ListedOffset, Received, Sent  # noqa: E402

FIXTURES = REPOSITORY / "tests" / "fixtures" / "kafka"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MINUTE_MS = 60_000

SETTINGS = {
    # Small enough for a repository: the indexes of a killed node stay at their full length.
    "log.index.size.max.bytes": "4096",
    "log.index.interval.bytes": "200",
    "log.retention.ms": "-1",
    # Segments below a moved log start go soon, as `.deleted` files that stay for a minute or until the next start.
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.io.buffer.size": "65536",
    "metadata.log.max.record.bytes.between.snapshots": "2500",
    "transaction.max.timeout.ms": "900000",
}
# `segment.bytes` has a floor of 1 MB; this is the same setting without it, which Kafka's own tests use.
SMALL_SEGMENTS = {"internal.segment.bytes": "1000"}
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "400",
    "min.cleanable.dirty.ratio": "0.01",
}


class Story:
    """What happens on the node, in two acts with a restart between them."""

    def __init__(self, node: Node, started_ms: int) -> None:
        self.node = node
        # In the past, so that the timestamps can run ahead of the clock; not so long ago that a producer's state would expire.
        self.start_ms = started_ms - 30 * MINUTE_MS
        self.topics: dict[str, int] = {}

    def create(self, driver: KafkaDriver, topic: str, *, partitions: int = 1, **config: str) -> None:
        driver.create_topic(topic, partitions=partitions, config={k.replace("__", "."): v for k, v in config.items()})
        self.topics[topic] = partitions

    def first_act(self, driver: KafkaDriver) -> None:
        for codec in CODECS:
            self._codec(driver, codec)
        self._idempotent(driver)
        self._append_time(driver)
        self._timed(driver)
        self._trimmed(driver)
        self._compacted(driver)
        self._transactions(driver)
        self._administration(driver)

    def second_act(self, driver: KafkaDriver) -> None:
        at = self.start_ms + 10 * MINUTE_MS
        for codec in CODECS:
            driver.open_producer(f"{codec} again", compression_type=codec)
            driver.send(f"{codec} again", f"codec-{codec}", _varied(codec, 3, at))
        self._groups(driver)
        self._open_transaction(driver)
        driver.delete_records("trimmed", 26)
        gone = self.node.data / "trimmed-0" / f"{16:020}.log.deleted"
        wait_until(gone.exists, "the segment before the new log start waits for its removal")
        driver.create_topic("forgotten")
        # Its directory is still there, as `forgotten-0.<id>-delete`, when the node ends within a minute.
        driver.delete_topic("forgotten")
        wait_until(lambda: any(self.node.data.glob("forgotten-0.*-delete")), "the deleted topic's directory is renamed")

    def _codec(self, driver: KafkaDriver, codec: str) -> None:
        topic = f"codec-{codec}"
        driver.create_topic(topic, config=SMALL_SEGMENTS)
        self.topics[topic] = 1
        driver.open_producer(codec, compression_type=codec)
        for batch in range(6):
            driver.send(codec, topic, _varied(f"{codec} {batch}", 5, self.start_ms + batch * MINUTE_MS))
        driver.close_producer(codec)

    def _idempotent(self, driver: KafkaDriver) -> None:
        self.create(driver, "idempotent", partitions=2)
        for producer in ("first", "second"):
            driver.open_producer(producer)
        for batch in range(7):
            for producer in ("first", "second"):
                at = self.start_ms + batch * 1000
                driver.send(
                    producer, "idempotent", _plain(f"{producer} {batch}", 2 + batch % 3, at), partition=batch % 2
                )
        driver.close_producer("first")
        driver.close_producer("second")
        driver.open_producer("careless", enable_idempotence="false", acks="1")
        driver.send("careless", "idempotent", _plain("careless", 2, self.start_ms + MINUTE_MS))
        driver.close_producer("careless")

    def _append_time(self, driver: KafkaDriver) -> None:
        self.create(driver, "append-time", message__timestamp__type="LogAppendTime")
        for codec in ("none", "zstd"):
            driver.open_producer("stamped", compression_type=codec)
            driver.send("stamped", "append-time", _plain(f"stamped {codec}", 4, self.start_ms))
            driver.close_producer("stamped")

    def _timed(self, driver: KafkaDriver) -> None:
        """Segments that roll by time, timestamps that do not rise, and a batch whose last record is not its newest."""
        self.create(driver, "timed", segment__ms="60000", index__interval__bytes="1")
        driver.open_producer("clock", compression_type="lz4")
        for minute in (0, 0.2, 0.1, 2, 1.9, 4, 4.1, 3.5, 8):
            at = int(self.start_ms + minute * MINUTE_MS)
            rows = _plain(f"minute {minute}", 4, at)
            driver.send("clock", "timed", [rows[0], rows[3], rows[1], rows[2]])
        driver.close_producer("clock")

    def _trimmed(self, driver: KafkaDriver) -> None:
        driver.create_topic("trimmed", config=SMALL_SEGMENTS)
        self.topics["trimmed"] = 1
        driver.open_producer("trimmed")
        for batch in range(8):
            driver.send("trimmed", "trimmed", _varied(f"trimmed {batch}", 4, self.start_ms + batch * 1000))
        driver.close_producer("trimmed")
        driver.delete_records("trimmed", 18)
        first = self.node.data / "trimmed-0" / f"{0:020}.log"
        wait_until(lambda: not first.exists(), "the segments before the new log start are gone")

    def _compacted(self, driver: KafkaDriver) -> None:
        """Later values win, tombstones wait for their horizon, a producer's last batch stays though nothing is left in it."""
        driver.create_topic("compacted", config=COMPACTED)
        self.topics["compacted"] = 1
        driver.open_producer("overwritten")
        rows = [Sent(b"key %d" % key, b"overwritten", self.start_ms + key) for key in range(4)]
        driver.send("overwritten", "compacted", rows)
        driver.close_producer("overwritten")
        driver.open_producer("settling", transactional_id="settling")
        for batch, codec_key in enumerate(("a", "b", "c")):
            driver.begin("settling")
            rows = [
                Sent(b"key %d" % key, f"{codec_key} {key}".encode(), self.start_ms + (batch + 1) * 1000 + key)
                for key in range(batch, 6)
            ]
            driver.send("settling", "compacted", rows)
            (driver.abort if codec_key == "b" else driver.commit)("settling")
        driver.close_producer("settling")
        driver.open_producer("last", compression_type="gzip")
        driver.send(
            "last", "compacted", [Sent(b"key 1", None, self.start_ms + 9000), Sent(b"key 9", b"", self.start_ms + 9001)]
        )
        # The active segment is never cleaned: push what matters out of it.
        for batch in range(3):
            driver.send("last", "compacted", [Sent(b"filler %d" % batch, b"x" * 350, self.start_ms + 10_000 + batch)])
        driver.close_producer("last")
        wait_until(lambda: _cleaned(self.node.data, "compacted"), "the log cleaner has cleaned the compacted topic")

    def _transactions(self, driver: KafkaDriver) -> None:
        driver.create_topic("transactional", partitions=2, config=SMALL_SEGMENTS)
        self.topics["transactional"] = 2
        for name in ("payments", "refunds"):
            driver.open_producer(name, transactional_id=name)
        at = self.start_ms
        for turn, (name, ends) in enumerate(
            [("payments", "commit"), ("refunds", "abort"), ("payments", "abort"), ("refunds", "commit")] * 2
        ):
            driver.begin(name)
            for partition in (0, 1):
                driver.send(name, "transactional", _varied(f"{name} {turn}", 3, at + turn), partition=partition)
            if ends == "commit":
                driver.send_offsets(name, "exactly-once", "idempotent", turn)
            (driver.commit if ends == "commit" else driver.abort)(name)
        # Two transactions that overlap: the earlier one ends later.
        driver.begin("payments")
        driver.send("payments", "transactional", _plain("long payment", 2, at + 100))
        driver.begin("refunds")
        driver.send("refunds", "transactional", _plain("short refund", 2, at + 101))
        driver.abort("refunds")
        driver.send("payments", "transactional", _plain("long payment again", 2, at + 102))
        driver.commit("payments")
        for name in ("payments", "refunds"):
            driver.close_producer(name)

    def _administration(self, driver: KafkaDriver) -> None:
        driver.alter_config("TOPIC", "idempotent", "max.message.bytes", "2000000")
        driver.alter_config("BROKER", str(NODE_ID), "log.cleaner.threads", "1")
        driver.set_quota("greedy", 1048576.0)
        driver.set_scram("alice", "wonderland")

    def _groups(self, driver: KafkaDriver) -> None:
        driver.consume_in_group("classic-group", "codec-none", 30, protocol="classic")
        driver.consume_in_group("new-group", "codec-zstd", 30, protocol="consumer")
        driver.consume_in_share_group("share-group", "codec-gzip", 30)

    def _open_transaction(self, driver: KafkaDriver) -> None:
        at = self.start_ms + 12 * MINUTE_MS
        driver.open_producer("undecided", transactional_id="undecided", transaction_timeout_ms="900000")
        driver.begin("undecided")
        driver.send("undecided", "transactional", _varied("undecided", 3, at), partition=1)
        driver.open_producer("bystander")
        driver.send("bystander", "transactional", _plain("after the open one", 2, at + 1), partition=1)
        driver.close_producer("bystander")


def _plain(word: str, count: int, at: int) -> list[Sent]:
    return [Sent(f"{word} key {row}".encode(), f"{word} value {row}".encode(), at + row) for row in range(count)]


def _varied(word: str, count: int, at: int) -> list[Sent]:
    """Null and empty keys and values, bytes that are no text, headers with null values, repeated and non-Latin names."""
    kinds: list[Sent] = [
        Sent(None, f"{word} without a key".encode(), at),
        Sent(f"{word} without a value".encode(), None, at + 1, (("note", b"gone"),)),
        Sent(b"", b"", at + 2, (("", b""), ("twice", b"1"), ("twice", None))),
        Sent(bytes(range(128, 160)), bytes(range(256)), at + 3, (("größe", "µ".encode()),)),
        Sent(None, None, at + 4),
    ]
    return [kinds[row % len(kinds)] for row in range(count)]


def _cleaned(data: Path, topic: str) -> bool:
    """The cleaner has reached the active segment of the topic's only partition."""
    segments = sorted((data / f"{topic}-0").glob("*.log"))
    active = int(segments[-1].stem)
    lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()
    return f"{topic} 0 {active}" in lines


def _live_view(driver: KafkaDriver, story: Story) -> dict[str, Any]:
    """What Kafka's clients see while the node still runs."""
    partitions: dict[str, Any] = {}
    times = [story.start_ms + int(minutes * MINUTE_MS) for minutes in (-1, 0, 0.1, 1, 1.95, 3, 4.05, 7, 11)]
    for topic, count in story.topics.items():
        for partition in range(count):
            partitions[f"{topic}-{partition}"] = _partition_view(driver, topic, partition, times)
    return {
        "topic_ids": {topic: driver.topic_id(topic) for topic in [*story.topics, *_INTERNAL_DECODERS]},
        "partitions": partitions,
        "groups": {group: driver.group_offsets(group) for group in ("classic-group", "new-group", "exactly-once")},
        "transactions": driver.list_transactions(),
    }


def _partition_view(driver: KafkaDriver, topic: str, partition: int, times: list[int]) -> dict[str, Any]:
    def listed(at: str | int, *, committed: bool = False) -> ListedOffset:
        return driver.list_offset(topic, at, partition=partition, committed=committed)

    committed = driver.consume(topic, partition=partition, committed=True)
    return {
        "log_start_offset": listed("earliest").offset,
        "log_end_offset": listed("latest").offset,
        "last_stable_offset": listed("latest", committed=True).offset,
        "max_timestamp": listed("max_timestamp")._asdict(),
        "by_timestamp": [{"at": at, **listed(at)._asdict()} for at in times],
        "producers": driver.describe_producers(topic, partition=partition),
        "records": [_row(record) for record in driver.consume(topic, partition=partition)],
        "committed_offsets": [record.offset for record in committed],
    }


_INTERNAL_DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
}


def _row(record: Received) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[name, None if value is None else value.hex()] for name, value in record.headers],
    }


def _batch_view(kafka: ApacheKafka, data: Path) -> dict[str, Any]:
    """What Kafka's readers find in the logs and snapshots. Paths are relative to the data directory."""
    with KafkaDriver(kafka) as driver:
        files = _files(data, "*/*.log", "*/*.checkpoint")
        batches = {str(path.relative_to(data)): driver.dump_batches(path) for path in files}
    decoded: dict[str, Any] = {}
    for topic, option in {**_INTERNAL_DECODERS, "__cluster_metadata": "--cluster-metadata-decoder"}.items():
        files = _files(data, f"{topic}-*/*.log", f"{topic}-*/*.checkpoint")
        for path, dump in dump_log_segments(kafka, files, option).items():
            decoded[str(path.relative_to(data))] = dump.decoded_records()
    return {"batches": batches, "decoded": decoded}


def _index_view(kafka: ApacheKafka, data: Path) -> dict[str, Any]:
    """What DumpLogSegments finds in the files beside the logs, which a node that was stopped cleanly has left."""
    kinds = {
        "offset_indexes": "*/*.index",
        "time_indexes": "*/*.timeindex",
        "transaction_indexes": "*/*.txnindex",
        "producer_snapshots": "*/*.snapshot",
    }
    found: dict[str, Any] = {}
    for name, pattern in kinds.items():
        dumps = dump_log_segments(kafka, _files(data, pattern))
        found[name] = {str(path.relative_to(data)): dump.entries() for path, dump in dumps.items()}
    epochs = _files(data, "*/leader-epoch-checkpoint")
    found["leader_epochs"] = {str(path.relative_to(data)): path.read_text().splitlines() for path in epochs}
    return found


def _files(data: Path, *patterns: str) -> list[Path]:
    return sorted(
        path for pattern in patterns for path in data.glob(pattern) if not path.parent.name.endswith("-delete")
    )


def _make(kafka: ApacheKafka, name: str, scratch: Path) -> None:
    started_ms = int(time.time() * 1000)
    node = Node(kafka, scratch / name, settings=SETTINGS)
    story = Story(node, started_ms)
    with node:
        with KafkaDriver(kafka, node.bootstrap) as driver:
            story.first_act(driver)
        node.stop()
        node.start()
        with KafkaDriver(kafka, node.bootstrap) as driver:
            story.second_act(driver)
            wait_until(lambda: _snapshots(node.data) >= 2, "the controller has written a snapshot of the metadata")
            live = _live_view(driver, story)
        made_at_ms = int(time.time() * 1000)
        if name == "killed":
            node.kill()
    with tarfile.open(FIXTURES / f"{name}.tar.xz", "w:xz", preset=9, format=tarfile.PAX_FORMAT) as archive:
        archive.add(node.data, arcname=name, filter=_anonymous)
    expected = {
        "kafka_version": KAFKA_VERSION,
        "cluster_id": CLUSTER_ID,
        "node_id": NODE_ID,
        "made_at_ms": made_at_ms,
        "partition_counts": story.topics,
        **live,
        **_batch_view(kafka, node.data),
    }
    if name == "killed":
        # What the files beside the logs should be is what Kafka itself makes of them when it recovers.
        node.start()
        node.stop()
    expected |= _index_view(kafka, node.data)
    with lzma.open(FIXTURES / f"{name}.json.xz", "wt", preset=9) as out:
        json.dump(expected, out, indent=1, sort_keys=True)


def _snapshots(data: Path) -> int:
    return len(list((data / "__cluster_metadata-0").glob("*.checkpoint")))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    kafka = ApacheKafka.installed()
    FIXTURES.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="tidelog-fixtures-"))
    try:
        for name in ("clean", "killed"):
            _make(kafka, name, scratch)
            sizes = {path.name: path.stat().st_size for path in sorted(FIXTURES.glob(f"{name}.*"))}
            print(f"{name}: {sizes}")
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
