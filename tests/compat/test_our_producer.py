"""Our producers against Apache Kafka, read back by librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node
from tests.support.producer_check import read_topic
from tidelog import AsyncProducer, Producer
from tidelog.client.errors import DeliveryFailedError
from tidelog.model.errors import ErrorCode

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def node(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(
        kafka, tmp_path_factory.mktemp("kafka"), {**SMALL_NODE, "num.partitions": "3", "message.max.bytes": "20000"}
    )
    node.format()
    with node.running():
        yield node


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives_whole(node: Node, codec: str) -> None:
    with Producer(bootstrap_servers=node.bootstrap, compression_type=codec) as producer:
        deliveries = [
            producer.send(f"codec-{codec}", b"value %d" % number, b"key %d" % (number % 9), headers=[("n", None)])
            for number in range(3000)
        ]
        places = [delivery.result(30) for delivery in deliveries]

    found = read_topic(node.bootstrap, f"codec-{codec}", 3, 3000)
    for number, place in enumerate(places):
        message = found[place.partition][place.offset]
        assert (message.value(), message.headers()) == (b"value %d" % number, [("n", None)])


def test_rows_of_a_table_arrive(node: Node) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=node.bootstrap, compression_type="zstd") as producer:
            table = pa.table({"key": ["a", "b", None], "value": [b"1", None, b"3"]})
            await (await producer.send_arrow("rows", table))

    asyncio.run(main())
    found = read_topic(node.bootstrap, "rows", 3, 3)
    values = sorted((message.key() or b"", message.value()) for each in found.values() for message in each)
    assert values == [(b"", b"3"), (b"a", b"1"), (b"b", None)]


def test_batches_that_kafka_finds_too_large_are_split_and_records_refused(node: Node) -> None:
    with Producer(bootstrap_servers=node.bootstrap, batch_size=200_000, linger_ms=100) as producer:
        large = producer.send("large", bytes(30_000), partition=1)
        deliveries = [producer.send("large", b"%d" % number + bytes(1000), partition=0) for number in range(100)]
        assert [delivery.result(30).offset for delivery in deliveries] == list(range(100))
        with pytest.raises(DeliveryFailedError) as caught:
            large.result(30)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert producer.send("large", b"small", partition=1).result(30).offset == 0


def test_a_killed_kafka_costs_no_record(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> None:
    node = Node(kafka, tmp_path_factory.mktemp("killed"), SMALL_NODE)
    node.format()
    with node.running():
        producer = Producer(bootstrap_servers=node.bootstrap, batch_size=2000)
        for number in range(5000):
            producer.send("orders", b"%d" % number)
        node.kill()
    for number in range(5000, 6000):
        producer.send("orders", b"%d" % number)
    with node.running():
        producer.flush(60_000)
        assert producer.metrics()["messaging.client.sent.messages"] == 6000
        producer.close()
        messages = read_topic(node.bootstrap, "orders", 1, 6000)[0]
    assert [message.value() for message in messages] == [b"%d" % number for number in range(6000)]
