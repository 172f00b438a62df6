"""Our producers against a node of ours, read back by librdkafka."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.node_process import NodeProcess
from tests.support.producer_check import read_topic
from tidelog import AsyncProducer, Producer
from tidelog.client.background import Background
from tidelog.client.errors import ClientError, ClosedError, RefusedError, TimedOutError
from tidelog.client.producer.murmur2 import partition_of
from tidelog.client.producer.record_metadata import RecordMetadata
from tidelog.testing import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives_whole(cluster: EmbeddedCluster, codec: str) -> None:
    topic = f"codec-{codec}"
    cluster.create_topic(topic, partitions=2)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, compression_type=codec) as producer:
        deliveries = [
            producer.send(topic, b"value %d" % number * 20, b"key %d" % (number % 9), headers=[("n", b"%d" % number)])
            for number in range(500)
        ]
        places = [delivery.result(10) for delivery in deliveries]

    found = read_topic(cluster.bootstrap_servers, topic, 2, 500)
    for number, place in enumerate(places):
        message = found[place.partition][place.offset]
        assert message.value() == b"value %d" % number * 20
        assert message.headers() == [("n", b"%d" % number)]
        assert message.timestamp()[1] == place.timestamp_ms
        assert place.partition == partition_of(message.key(), 2)


def test_async_records_and_tables_keep_their_order(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("mixed", partitions=1)

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=100) as producer:
            first = await producer.send("mixed", b"0")
            rows = await producer.send_arrow("mixed", pa.table({"value": [b"1", b"2"], "timestamp": [5, None]}))
            last = await producer.send("mixed", b"3")
            assert (await first).offset == 0
            assert [(each.base_offset, each.record_count) for each in await rows] == [(1, 2)]
            assert (await last).offset == 3

    asyncio.run(main())
    messages = read_topic(cluster.bootstrap_servers, "mixed", 1, 4)[0]
    assert [message.value() for message in messages] == [b"0", b"1", b"2", b"3"]
    assert messages[1].timestamp()[1] == 5


def test_a_table_is_split_by_key_by_partition_and_by_size(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("table", partitions=3)
    count = 30_000
    keys = [None if number % 10 == 0 else b"key %d" % (number % 50) for number in range(count)]
    table = pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b"%d" % number for number in range(count)], pa.binary()),
            "partition": pa.array([2 if number % 7 == 0 else None for number in range(count)], pa.int64()),
            "headers": pa.array([[("n", b"1")]] * count, pa.map_(pa.string(), pa.binary())),
        }
    )
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        written = producer.send_arrow("table", table).result(30)
        assert sum(each.record_count for each in written) == count
        with pytest.raises(RefusedError, match="there is no partition 3"):
            producer.send_arrow("table", pa.table({"value": [b"x"], "partition": [3]}))
        with pytest.raises(ValueError, match="records have no column 'extra'"):
            producer.send_arrow("table", pa.table({"value": [b"x"], "extra": [3]}))

    found = read_topic(cluster.bootstrap_servers, "table", 3, count)
    assert sorted(int(message.value()) for each in found.values() for message in each) == list(range(count))
    for partition, messages in found.items():
        by_key: dict[bytes, int] = {}
        for message in messages:
            number = int(message.value())
            if number % 7 == 0:
                assert partition == 2
            elif message.key() is not None:
                assert partition == partition_of(message.key(), 3)
            assert by_key.get(message.key() or b"", -1) < number or message.key() is None
            by_key[message.key() or b""] = number


def test_many_threads_share_one_producer(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("threads", partitions=2)
    heard: list[tuple[ClientError | None, RecordMetadata | None]] = []
    with Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=500, buffer_memory=20_000) as producer:

        def work(thread: int) -> None:
            for number in range(1000):
                producer.send(
                    "threads", b"%d %d" % (thread, number), b"%d" % thread, on_delivery=lambda *each: heard.append(each)
                )

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        assert len(heard) == 4000
        assert all(error is None for error, _ in heard)

    found = read_topic(cluster.bootstrap_servers, "threads", 2, 4000)
    seen: dict[int, int] = {}
    for messages in found.values():
        for message in messages:
            source, number = map(int, message.value().split())
            assert number == seen.get(source, -1) + 1
            seen[source] = number
    assert seen == dict.fromkeys(range(4), 999)


def test_a_killed_node_costs_no_record(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    with node:
        port = node.port
        producer = Producer(bootstrap_servers=f"127.0.0.1:{port}", batch_size=2000)
        for number in range(2000):
            producer.send("orders", b"%d" % number)
        node.kill()
    for number in range(2000, 4000):
        producer.send("orders", b"%d" % number)
    with NodeProcess(tmp_path, port=port):
        for number in range(4000, 5000):
            producer.send("orders", b"%d" % number)
        producer.flush(30_000)
        assert producer.metrics()["messaging.client.sent.messages"] == 5000
        messages = read_topic(f"127.0.0.1:{port}", "orders", 1, 5000)[0]
        producer.close()
    assert [message.value() for message in messages] == [b"%d" % number for number in range(5000)]


def test_the_thread_ends_with_the_last_client(cluster: EmbeddedCluster) -> None:
    first = Producer(bootstrap_servers=cluster.bootstrap_servers)
    second = Producer(bootstrap_servers=cluster.bootstrap_servers)
    first.close()
    assert any(thread.name == "tidelog-client" for thread in threading.enumerate())
    second.close()
    second.close()

    assert Background._shared is None
    assert not any(thread.name == "tidelog-client" for thread in threading.enumerate())
    with pytest.raises(ClosedError):
        first.send("x", b"y")


def test_a_forked_child_is_told_that_the_producer_is_the_parents(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("forked", partitions=1)
    program = """
import os, sys
from tidelog import Producer
from tidelog.client.errors import ClosedError
producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
producer.send("forked", b"first").is_done
waiting = producer.send("forked", b"second")
if (child := os.fork()) == 0:
    refused = 0
    for attempt in (lambda: producer.send("forked", b"third"), waiting.result, producer.flush):
        try:
            attempt()
        except ClosedError:
            refused += 1
    producer.close()
    with Producer(bootstrap_servers=sys.argv[1]) as own:
        own.send("forked", b"the child's").result(20)
    os._exit(refused)
_, status = os.waitpid(child, 0)
producer.close()
print(os.waitstatus_to_exitcode(status), waiting.result(20).offset)
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, cluster.bootstrap_servers]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (ran.stdout, ran.stderr) == ("3 2\n", "")


def test_nobody_there_is_one_error_in_time() -> None:
    with (
        Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=300) as producer,
        pytest.raises(TimedOutError, match=r"cannot connect to 127\.0\.0\.1:1: connection refused"),
    ):
        producer.send("orders", b"x")
