"""Messages to bytes and back, against kio and kafka-python.

python -m benchmarks.messages

A server's share of a Produce request is the one with a goal: decode the request, encode the answer. Each side decodes into
its own objects and encodes from objects that it finds ready. kio decodes with a compiled extension; ours is plain Python.
"""

from __future__ import annotations

import io

from kio.serial import entity_reader, entity_writer

from benchmarks.compare import Comparison, compare, finish
from tests.support.kafka_python_oracle import kafka_python_class, to_kafka_python
from tests.support.kio_oracle import kio_class, to_kio
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidelog.wire.schema import Message

PARTITIONS = 10
RECORDS = bytes(1536)
TOPIC_ID = bytes(range(16))


def produce_request() -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=RECORDS) for index in range(PARTITIONS)]
    topic = TopicProduceData(name="orders", topic_id=TOPIC_ID, partition_data=partitions)
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> ProduceResponse:
    partitions = [
        PartitionProduceResponse(
            index=index, error_code=0, base_offset=1_000_000 + index, log_start_offset=0, record_errors=[]
        )
        for index in range(PARTITIONS)
    ]
    return ProduceResponse(
        responses=[TopicProduceResponse(name="orders", topic_id=TOPIC_ID, partition_responses=partitions)]
    )


def fetch_response() -> FetchResponse:
    partitions = [
        PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=1_000_000,
            last_stable_offset=1_000_000,
            log_start_offset=0,
            aborted_transactions=None,
            records=RECORDS,
        )
        for index in range(PARTITIONS)
    ]
    topic = FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=partitions)
    return FetchResponse(throttle_time_ms=0, error_code=0, session_id=7, responses=[topic])


def metadata_response() -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092) for node in range(3)]
    topics = [
        MetadataResponseTopic(
            error_code=0,
            name=f"topic-{number}",
            topic_id=TOPIC_ID,
            is_internal=False,
            partitions=[
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=index,
                    leader_id=index % 3,
                    leader_epoch=4,
                    replica_nodes=[0, 1, 2],
                    isr_nodes=[0, 1, 2],
                    offline_replicas=[],
                )
                for index in range(PARTITIONS)
            ],
        )
        for number in range(10)
    ]
    return MetadataResponse(
        throttle_time_ms=0, brokers=brokers, cluster_id="cluster", controller_id=1, topics=topics, error_code=0
    )


def exchange(name: str, request: Message, response: Message, version: int, at_least: float | None) -> list[Comparison]:
    """A server's share: decode `request`, encode `response`."""
    data = encode(request, version)
    request_type = type(request)

    def ours() -> None:
        decode(request_type, version, data)
        encode(response, version)

    kio_request, kio_response = kio_class(request_type, version), kio_class(type(response), version)
    read, write = entity_reader(kio_request), entity_writer(kio_response)
    kio_ready = to_kio(response, version, kio_response)

    def kio() -> None:
        read(data, 0)
        buffer = io.BytesIO()
        write(buffer, kio_ready)
        buffer.getvalue()

    python_request, python_response = kafka_python_class(request_type), kafka_python_class(type(response))
    python_ready = to_kafka_python(response, version, python_response)

    def kafka_python() -> None:
        python_request.decode(data, version=version)
        python_ready.encode(version=version)

    return [
        compare(f"{name}, against kio", {"tidelog": ours, "kio": kio}, at_least=at_least),
        compare(f"{name}, against kafka-python", {"tidelog": ours, "kafka-python": kafka_python}, at_least=1),
    ]


def single(name: str, message: Message, version: int) -> list[Comparison]:
    """One message, decoded and encoded, for scale."""
    data = encode(message, version)
    cls = type(message)
    theirs = kio_class(cls, version)
    read, write, ready = entity_reader(theirs), entity_writer(theirs), to_kio(message, version, theirs)
    return [
        compare(f"{name}: decode", {"tidelog": lambda: decode(cls, version, data), "kio": lambda: read(data, 0)}),
        compare(
            f"{name}: encode",
            {"tidelog": lambda: encode(message, version), "kio": lambda: write(io.BytesIO(), ready)},
        ),
    ]


def main() -> None:
    comparisons = []
    for version in (9, 13):
        name = f"Produce v{version}, {PARTITIONS} partitions: decode request, encode answer"
        comparisons += exchange(name, produce_request(), produce_response(), version, at_least=4)
    comparisons += single(f"Fetch v17 answer, {PARTITIONS} partitions", fetch_response(), 17)
    comparisons += single("Metadata v12 answer, 100 partitions", metadata_response(), 12)
    finish("messages", comparisons)


if __name__ == "__main__":
    main()
