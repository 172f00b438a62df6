"""The short way of Produce against the ordinary one: the same answers, byte for byte, and the same files, whatever arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import cast
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.answered_connection import AnsweredConnection
from tests.support.data_node import OTHER, THIRD, DataNode
from tests.support.kernel_twins import TWINS, twin_of
from tidelog.broker import produce_lane
from tidelog.broker.dispatch import Dispatcher
from tidelog.broker.node_view import Node
from tidelog.kernel_choice import Twin
from tidelog.model.ids import TopicName
from tidelog.net.connection import Connection
from tidelog.wire.frames import request_frame
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, build_batch

TOPICS = {
    "plain": {"index.interval.bytes": "100"},
    "p": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "150"},
    "recompressed": {"compression.type": "gzip"},
}
# Has followers, which its writes with acks=all wait for.
SPREAD = "spread"
NAMES = (*TOPICS, SPREAD, "unknown")


class Served:
    """A node behind a dispatcher, with or without the short way."""

    def __init__(self, *, has_lane: bool) -> None:
        self.node = DataNode()
        for name, config in TOPICS.items():
            self.node.create_topic(name, partitions=2, configs=config)
        replicas = (self.node.node_id, OTHER, THIRD)
        self.node.create_topic(SPREAD, partitions=2, replicas=replicas, configs={"min.insync.replicas": "2"})
        for partition in self.node.partitions.named(TopicName("plain")).values():
            # Smaller than a topic's key allows, so that segments roll in the middle of a read.
            partition.reconfigure(replace(partition.config, log=partition.config.log.changed(segment_bytes=1000)))
        self.connection = AnsweredConnection()
        self.dispatcher = Dispatcher(cast("Node", self.node), self.node.authorizer, "broker")
        if not has_lane:
            self.dispatcher._lane = None

    def read(self, frames: Sequence[bytes]) -> None:
        """All frames of one read, as a connection hands them over."""
        connection = cast("Connection", self.connection)
        for frame in frames:
            if self.connection.is_closed:
                break
            self.dispatcher.frame(connection, memoryview(bytearray(frame)))
        self.dispatcher.frames_done(connection)

    def requests(self) -> tuple[int, int, int, int, Counter[int]]:
        """Of all versions together: those of one read are counted with its last one."""
        counts = list(self.node.metrics.requests.values())
        return (
            sum(each.count for each in counts),
            sum(each.waiting for each in counts),
            sum(each.request_bytes for each in counts),
            sum(each.response_bytes for each in counts),
            sum((Counter(each.errors) for each in counts), Counter()),
        )

    def counted(self) -> dict[str, tuple[int, ...]]:
        return {
            name: (counts.messages_in, counts.bytes_in, counts.total_produce_requests, counts.failed_produce_requests)
            for name, counts in self.node.metrics.topics.items()
        }


def a_batch(random: Random, *, is_odd: bool) -> bytes:
    count = random.choice([1, 1, 1, 2, 5])
    time_ms = random.choice([1000, 2000, -1, 2**62]) if is_odd else 1000
    key = random.choice([None, b"k"])
    rows = [Record(n, time_ms + n, key, b"v" * random.choice([0, 10, 100]), ()) for n in range(count)]
    if random.random() < 0.5:
        return build_batch(rows)
    return build_batch(
        rows,
        producer_id=random.choice([7, 8]),
        producer_epoch=random.choice([0, 0, 0, 0, 1]),
        base_sequence=random.choice([0, 0, 1, 1, 2, 2, 3, 4, 2**31 - 1]),
        is_transactional=is_odd and random.random() < 0.2,
    )


def a_frame(random: Random, served: Served, correlation_id: int) -> bytes:
    """A request that is plain in two cases of three, and may be anything in the third."""
    is_odd = random.random() < 0.3
    version = random.choice([3, 7, 9, 13]) if is_odd else random.choice([7, 8, 9, 10, 12, 13])
    topics = []
    for name in random.choices(NAMES if is_odd else ("plain", "p", SPREAD), k=random.choice([1, 1, 1, 2, 3])):
        known = served.node.image.topic(TopicName(name))
        topics.append(
            TopicProduceData(
                name=name if version < 13 else "",
                topic_id=bytes(16) if version < 13 or known is None else known.topic_id,
                partition_data=[
                    PartitionProduceData(
                        index=random.choice([0, 1, 5]) if is_odd else random.choice([0, 1]),
                        records=a_batch(random, is_odd=is_odd),
                    )
                    for _ in range(random.choice([1, 1, 2]))
                ],
            )
        )
    acks = random.choice([1, -1, 0, 5]) if is_odd else random.choice([1, -1])
    client_id = random.choice([None, "a client", "ü"]) if is_odd else "a client"
    request = ProduceRequest(acks=acks, timeout_ms=100, topic_data=topics)
    frame = bytearray(request_frame(request, version, correlation_id, client_id)[4:])
    if is_odd and random.random() < 0.5:
        for _ in range(random.choice([1, 2])):
            frame[random.randrange(8, len(frame))] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)])
    if is_odd and random.random() < 0.1:
        del frame[random.randrange(8, len(frame)) :]
    return bytes(frame)


def something_happens(random: Random, both: Sequence[Served]) -> None:
    """What a write may wait for, or in vain."""
    kind = random.choice(["fetch"] * 6 + ["time", "shrink", "lose"])
    node, index, back = random.choice([OTHER, THIRD]), random.choice([0, 1]), random.choice([0, 0, 0, 1, 2])
    ms = random.choice([10, 60, 100])
    for served in both:
        partition = served.node.partition(SPREAD, index)
        if kind == "time":
            served.node.timers.advance(ms)
        elif kind == "shrink":
            served.node.change(SPREAD, index, isr=[1, 2] if back else [1])
        elif kind == "lose":
            if back == 2:
                served.node.change(SPREAD, index, leader=2)
        elif partition.is_leading and partition.log is not None:
            offset = max(0, partition.log.log_end_offset - back)
            partition.read_as_follower(node, offset, 1000, broker_epoch=1, log_start_offset=0)


@pytest.mark.parametrize("twin", TWINS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_both_ways_answer_and_write_the_same(twin: Twin, seed: int) -> None:
    random = Random(seed)
    short, ordinary = Served(has_lane=True), Served(has_lane=False)
    correlation_id = 0
    with mock.patch.object(produce_lane, "_read_produce", twin_of("produce_kernel", twin).read_produce):
        for _ in range(random.randrange(1, 5)):
            frames = []
            for _ in range(random.choice([1, 2, 5])):
                correlation_id += 1
                frames.append(a_frame(random, short, correlation_id))
            short.read(frames)
            ordinary.read(frames)
            assert short.connection.answers == ordinary.connection.answers
            assert short.connection.is_closed == ordinary.connection.is_closed
            if short.connection.is_closed:
                break
            for _ in range(random.choice([0, 2, 5])):
                something_happens(random, (short, ordinary))
                assert short.connection.answers == ordinary.connection.answers
        for served in (short, ordinary):
            served.node.timers.advance(1000)

    assert short.connection.answers == ordinary.connection.answers
    assert short.requests() == ordinary.requests()
    assert short.node.files() == ordinary.node.files()
    assert short.counted() == ordinary.counted()


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_the_twins_read_the_same(seed: int) -> None:
    random = Random(seed)
    compiled, plain = (twin_of("produce_kernel", twin).read_produce for twin in TWINS)
    served = Served(has_lane=False)
    for _ in range(5):
        frame = memoryview(bytearray(a_frame(random, served, 1)))
        assert compiled(frame) == plain(frame)
