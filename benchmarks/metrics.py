"""What counting costs: requests through the real dispatch, handlers and log of a node, with metrics and without.

python -m benchmarks.metrics

Both sides are the same node, on the same connection, with the same frames; one of them counts requests into an object that does
nothing. Both read the clock, and both add to a topic's numbers: that part of the cost is not in the ratio. No socket is used, so
that the share of the rest is larger here than in reality.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from random import Random
from typing import Any, cast

from benchmarks.compare import Comparison, compare, finish
from tidelog.broker.config.server_properties import check_properties
from tidelog.broker.metrics.broker_metrics import BrokerMetrics
from tidelog.broker.metrics.request_counts import RequestCounts
from tidelog.broker.metrics.topic_counts import TopicCounts
from tidelog.broker.node.local_cluster import LocalNode, local_properties
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.requests.caller import AllowAll
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.model.clock import SystemClock
from tidelog.model.ids import ZERO_UUID
from tidelog.model.principal import ANONYMOUS
from tidelog.model.slow_work import InlineSlowWork
from tidelog.net.address import Address
from tidelog.net.connection import UNKNOWN_SOFTWARE, Connection
from tidelog.net.transport import LoopTransport
from tidelog.storage.os_files import OsFiles
from tidelog.storage.seams import Seams
from tidelog.wire.codec import encode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.headers import RequestHeader
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Request

TOPIC = "measured"
VERSIONS = {ProduceRequest: 12, FetchRequest: 12, MetadataRequest: 12}
# Of the processor's time for one request.
COST_MAX = 1.03


class _NoRequests(dict[Any, Any]):
    def __init__(self) -> None:
        super().__init__()
        self._counts = _NoCounts()

    def __missing__(self, key: object) -> _NoCounts:
        self[key] = self._counts
        return self._counts


class _NoCounts(RequestCounts):
    """Counts nothing but what waits."""

    def __init__(self) -> None:
        super().__init__(lambda _answer, _errors: None)

    def answered(self, *_: object) -> None: ...

    def answered_later(self, *_: object) -> None: ...

    def answered_together(self, *_: object) -> None: ...

    def waited(self, *_: object) -> None: ...

    def count_errors(self, *_: object) -> None: ...

    def unanswered(self, *_: object) -> None: ...


class _NoTopics(dict[Any, Any]):
    def __missing__(self, key: object) -> TopicCounts:
        counts = self[key] = TopicCounts()
        return counts

    def fetched(self, *_: object, is_follower: bool) -> None: ...

    def remove(self, topic: object) -> None: ...


class _Slot:
    def send(self, parts: object) -> None: ...


class _Client:
    """A connection that leads nowhere."""

    principal = ANONYMOUS
    client_software = UNKNOWN_SOFTWARE
    listener_name = "PLAINTEXT"
    peer_address = Address("127.0.0.1", 1)

    def expect_answer(self) -> _Slot:
        return _Slot()

    def answer_with_frames(self, *_: object) -> None: ...

    def abort(self) -> None:
        raise RuntimeError("the node refused what it was asked")


async def _start(directory: str) -> BrokerNode:
    loop = asyncio.get_running_loop()
    node = LocalNode(1, directory, 0, 0)
    config = check_properties({**local_properties(node, [node]), "log.retention.bytes": "67108864"}).values
    seams = Seams(OsFiles(), SystemClock(), InlineSlowWork(), Random(1))
    return await BrokerNode.start(config, seams, loop, LoopTransport(loop))


async def _create_topic(node: BrokerNode) -> None:
    asked = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    done = asyncio.get_running_loop().create_future()
    caller: Any = type("Caller", (), {"principal": ANONYMOUS, "client_id": "benchmark"})()
    node.forward(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse, caller).then(done.set_result)
    answer: CreateTopicsResponse = await done
    if answer.topics[0].error_code:
        raise RuntimeError(answer.topics[0].error_message)


def _frame(request: Request) -> bytes:
    version = VERSIONS[type(request)]
    header = RequestHeader(
        request_api_key=request.api_key, request_api_version=version, correlation_id=7, client_id="benchmark"
    )
    return encode(header, 2) + encode(request, version)


def _requests() -> dict[str, Request]:
    batch = build_batch([Record(0, 1_704_067_200_000, None, b"v" * 900, ())])
    data = TopicProduceData(
        name=TOPIC, topic_id=ZERO_UUID, partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        forgotten_topics_data=[],
        topics=[FetchTopic(topic=TOPIC, topic_id=ZERO_UUID, partitions=[asked])],
    )
    fetch.session_epoch = -1
    return {
        "produce 1 KB": ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]),
        "fetch from one partition": fetch,
        "metadata": MetadataRequest(topics=None, include_topic_authorized_operations=False),
    }


def _runner(node: BrokerNode, metrics: BrokerMetrics, frame: bytes) -> Callable[[], None]:
    """One request after the other, each a read of its own."""
    node.metrics = metrics
    dispatcher = Dispatcher(node, AllowAll(), "broker")
    dispatcher.is_ready = True
    connection = cast("Connection", _Client())
    buffer = bytearray(frame)

    def run() -> None:
        node.metrics = metrics
        for _ in range(100):
            # A produce writes its offset into the frame, as it would into the receive buffer.
            buffer[:] = frame
            dispatcher.frame(connection, memoryview(buffer))
            dispatcher.frames_done(connection)

    return run


async def _measure() -> list[Comparison]:
    counting, idle = BrokerMetrics(), BrokerMetrics()
    idle.requests = cast("Any", _NoRequests())
    idle.topics = cast("Any", _NoTopics())
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as directory:
        node = await _start(directory)
        await _create_topic(node)
        rows = []
        for name, request in _requests().items():
            frame = _frame(request)
            contestants = {"counting": _runner(node, counting, frame), "not counting": _runner(node, idle, frame)}
            rows.append(compare(name, contestants, at_most=COST_MAX, per_call=100, unit="requests"))
            await asyncio.sleep(0)
        await node.stop()
    return rows


def main() -> None:
    finish("metrics", asyncio.run(_measure()))


if __name__ == "__main__":
    main()
