"""The short way of Fetch against the ordinary one: the same answers, byte for byte, at the same moments, whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import cast

import pytest
from hypothesis import given, strategies as st

from tests.support.answered_connection import AnsweredConnection
from tests.support.both_ways import TRANSACTIONAL, BothWays
from tests.support.data_node import NODE, OTHER, THIRD, DataNode, Denying
from tests.support.examples import examples
from tests.support.kernel_twins import TWINS, twin_of
from tidelog.broker.data.fetch_lane import FETCH_KEY, FetchLane
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation
from tidelog.model.data_plane_config import DATA_PLANE_KEYS, RACK_AWARE_SELECTOR
from tidelog.model.ids import TopicName
from tidelog.net.connection import Connection
from tidelog.wire.frames import request_frame
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState

TOPICS = {"one": 1, "three": 3, "hidden": 1}
NAMES = (*TOPICS, "unknown")
# Indexes that have something in them, and that are not made much larger than that.
CONFIGS = {"index.interval.bytes": "100", "segment.index.bytes": "1200"}
# Has followers, without which nothing is committed.
SPREAD = "spread"


class Served:
    """A node behind a dispatcher, with or without the short way."""

    def __init__(self, *, has_lane: bool) -> None:
        self.node = DataNode(authorizer=Denying((AclOperation.READ, "hidden")))
        for name, partitions in TOPICS.items():
            self.node.create_topic(name, partitions=partitions, configs=CONFIGS)
        self.node.create_topic(SPREAD, replicas=(NODE, OTHER, THIRD), configs=CONFIGS)
        self.connection = AnsweredConnection()
        self.dispatcher = Dispatcher(cast("Node", self.node), self.node.authorizer, "broker")
        if not has_lane:
            self.dispatcher._takers.clear()

    def read(self, frame: bytes) -> None:
        connection = cast("Connection", self.connection)
        self.dispatcher.frame(connection, memoryview(bytearray(frame)))
        self.dispatcher.frames_done(connection)

    def counted(self) -> list[object]:
        topics = {
            name: (counts.total_fetch_requests, counts.bytes_out, counts.failed_fetch_requests)
            for name, counts in self.node.metrics.topics.items()
        }
        requests = {
            key: (each.count, each.waiting, each.request_bytes, each.response_bytes, dict(each.errors))
            for key, each in self.node.metrics.requests.items()
        }
        watchers = [
            partition.watcher_count
            for name in (*TOPICS, SPREAD)
            for partition in self.node.partitions.named(TopicName(name)).values()
        ]
        return [topics, requests, watchers, self.node.timers.pending]


def a_frame(random: Random, served: Served, correlation_id: int) -> bytes:
    """A request that is plain in two cases of three, and may be anything in the third."""
    is_odd = random.random() < 0.3
    version = random.choice([4, 11, 12, 16, 18]) if is_odd else random.choice([12, 13, 15, 16, 17, 18])
    topics = []
    names = random.choices(NAMES, k=random.choice([1, 2, 3])) if is_odd else random.sample(["one", "three"], 1)
    for name in names if random.random() < 0.7 else ["three", "one"]:
        known = served.node.image.topic(TopicName(name))
        count = TOPICS.get(name, 1)
        partitions = random.choices(range(count + 1), k=2) if is_odd else random.sample(range(count), min(count, 2))
        topics.append(
            FetchTopic(
                topic=name if version < 13 else "",
                topic_id=bytes(16) if version < 13 or known is None else known.topic_id,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=an_offset(random, served, name, index, is_odd=is_odd),
                        partition_max_bytes=random.choice([0, 1, 150, 1 << 20, 1 << 20]),
                        current_leader_epoch=random.choice([-1, -1, -1, 0, 0, 1]) if version >= 9 else -1,
                        last_fetched_epoch=random.choice([-1, 0]) if is_odd and version >= 12 else -1,
                    )
                    for index in partitions
                ],
            )
        )
    request = FetchRequest(
        max_wait_ms=random.choice([0, 100, 500, 500]),
        min_bytes=random.choice([0, 1, 1, 1, 1, 200]),
        max_bytes=random.choice([0, 1, 300, 1 << 20, 1 << 20]),
        isolation_level=random.choice([0, 1, 1]),
        topics=topics,
        forgotten_topics_data=[],
    )
    if is_odd and version >= 7:
        request.session_epoch = random.choice([-1, 0, 1])
        request.session_id = random.choice([0, 77])
        if random.random() < 0.2:
            known_id = served.node.image.topic_ids.get(TopicName("one"), bytes(16))
            forgotten = ForgottenTopic(topic="one" if version < 13 else "", topic_id=known_id, partitions=[0])
            request.forgotten_topics_data = [forgotten]
        if version >= 15 and random.random() < 0.1:
            request.replica_state = ReplicaState(replica_id=2, replica_epoch=1)
    client_id = random.choice([None, "a client", "ü"]) if is_odd else "a client"
    frame = bytearray(request_frame(request, version, correlation_id, client_id)[4:])
    if is_odd and random.random() < 0.3:
        frame[random.randrange(8, len(frame))] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
    if is_odd and random.random() < 0.05:
        del frame[random.randrange(8, len(frame)) :]
    return bytes(frame)


def an_offset(random: Random, served: Served, name: str, index: int, *, is_odd: bool) -> int:
    partition = served.node.partitions.named(TopicName(name)).get(index)
    log = None if partition is None else partition.log
    end = 0 if log is None else log.log_end_offset
    if is_odd:
        return random.choice([-1, 0, end + 1, end + 5])
    return random.choice([end, end, end, 0, max(0, end - 1), max(0, end - 2)])


class Course:
    """What happens to both nodes, chosen by chance and the same for both."""

    def __init__(self, random: Random, both: Sequence[Served]) -> None:
        self._random = random
        self._both = both
        short, ordinary = (served.node for served in both)
        places = [("one", 0), ("three", 0), ("three", 1), ("three", 2)]
        self._ways = {place: BothWays(random, short, ordinary, *place) for place in places}

    def happens(self) -> None:
        """Something that a waiting fetch may be told of."""
        random = self._random
        (name, _), ways = random.choice(list(self._ways.items()))
        kind = random.choice(["write"] * 6 + ["end"] * 4 + ["time"] * 2 + ["epoch", "follow", "start", "delete"])
        if kind == "time":
            ms = random.choice([50, 100, 400, 500])
            for served in self._both:
                served.node.timers.advance(ms)
        elif not ways.is_there:
            return
        elif kind == "write":
            ways.write(sizes=(0, 10, 100, 9000))
        elif kind == "end":
            ways.end_transaction(random.choice(TRANSACTIONAL))
        elif kind in ("epoch", "follow"):
            ways.change(leader=1 if kind == "epoch" else 2)
        elif kind == "start":
            for partition in ways.partitions:
                partition.delete_records(-1)
        elif random.random() < 0.3:
            for served in self._both:
                served.node.delete_topic(name)


@examples(60)
@given(seed=st.integers(0, 2**32))
def test_both_ways_answer_the_same_at_the_same_moment(seed: int) -> None:
    random = Random(seed)
    short, ordinary = both = Served(has_lane=True), Served(has_lane=False)
    course = Course(random, both)
    for correlation_id in range(random.randrange(3, 20)):
        frame = a_frame(random, short, correlation_id)
        for served in both:
            served.read(frame)
        assert short.connection.answers == ordinary.connection.answers
        assert short.connection.is_closed == ordinary.connection.is_closed
        if short.connection.is_closed:
            break
        for _ in range(random.randrange(4)):
            course.happens()
            assert short.connection.answers == ordinary.connection.answers
        assert short.counted() == ordinary.counted()
    for served in both:
        served.node.timers.advance(1000)

    assert short.connection.answers == ordinary.connection.answers
    assert short.counted() == ordinary.counted()


def a_plain_frame(random: Random, served: Served, correlation_id: int) -> bytes:
    """A consumer of the partition with followers: at what it may not see yet, or a little before."""
    log = served.node.log(SPREAD)
    stable, committed, end = log.last_stable_offset, log.high_watermark, log.log_end_offset
    before = max(log.log_start_offset, stable - 1)
    partition = FetchPartition(
        partition=0,
        fetch_offset=random.choice([stable, stable, stable, committed, committed, end, before]),
        partition_max_bytes=random.choice([1, 300] + [1 << 20] * 5),
        current_leader_epoch=random.choice([-1, -1, -1, served.node.partition(SPREAD).leader_epoch]),
    )
    topic_id = served.node.image.topic_ids[TopicName(SPREAD)]
    request = FetchRequest(
        max_wait_ms=random.choice([0, 500, 60_000, 60_000, 60_000]),
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=random.choice([0, 1, 1]),
        topics=[FetchTopic(topic="", topic_id=topic_id, partitions=[partition])],
        forgotten_topics_data=[],
    )
    return request_frame(request, 17, correlation_id, "a client")[4:]


def something_unusual(random: Random, ways: BothWays, both: Sequence[Served]) -> None:
    kind = random.choice(["follow", "in sync", "start", "roll", "time"])
    if kind == "follow":
        ways.follow()
    elif kind == "in sync":
        ways.change(isr=random.choice([[1], [1, 2], [1, 2, 3]]))
    for served, partition in zip(both, ways.partitions, strict=True):
        if kind == "start":
            partition.delete_records(-1)
        elif kind == "roll":
            served.node.log(SPREAD).roll()
        elif kind == "time":
            served.node.timers.advance(300)


@examples(80)
@given(seed=st.integers(0, 2**32))
def test_who_waits_learns_the_same_of_transactions_whichever_way_they_were_written(seed: int) -> None:
    """Transactions of several producers begin and end in any order while nobody has them, then followers catch up."""
    random = Random(seed)
    short, ordinary = both = Served(has_lane=True), Served(has_lane=False)
    ways = BothWays(random, short.node, ordinary.node, SPREAD)
    segment_bytes = random.choice([1000, 1 << 20, 1 << 20, 1 << 20])
    for served in both:
        partition = served.node.partition(SPREAD)
        config = partition.config
        partition.reconfigure(replace(config, log=config.log.changed(segment_bytes=segment_bytes)))

    sizes = (*(0, 10, 300) * 4, *(5000, 17_000) * (segment_bytes > 1000))
    correlation_id = 0
    for _ in range(random.randrange(8, 20)):
        if random.random() < 0.2:
            something_unusual(random, ways, both)
        if random.random() < 0.7:
            ways.settle()
        for _ in range(random.randrange(1, 5)):
            correlation_id += 1
            frame = a_plain_frame(random, short, correlation_id)
            for served in both:
                served.read(frame)
        for step in (*ways.interleaved(), ("replicate", -1)):
            ways.step(*step, sizes)
            assert short.connection.answers == ordinary.connection.answers
            ways.check()
    for served in both:
        served.node.timers.advance(60_000)

    assert short.connection.answers == ordinary.connection.answers
    assert short.counted() == ordinary.counted()
    assert short.node.files() == ordinary.node.files()


@pytest.mark.skipif(len(TWINS) == 1, reason="a process that runs plain Python has one twin")
@examples(40)
@given(seed=st.integers(0, 2**32))
def test_the_twins_read_the_same(seed: int) -> None:
    random = Random(seed)
    compiled, plain = (twin_of("fetch_kernel", twin).read_fetch for twin in TWINS)
    served = Served(has_lane=False)
    for _ in range(5):
        frame = memoryview(bytearray(a_frame(random, served, 1)))
        assert compiled(frame) == plain(frame)


@pytest.mark.parametrize("rack", ["", "east"])
def test_a_consumer_that_names_a_rack_is_looked_at_where_the_closest_replica_is_chosen(rack: str) -> None:
    served = Served(has_lane=False)
    served.node.config = DATA_PLANE_KEYS.parse({"replica.selector.class": RACK_AWARE_SELECTOR})
    lane = FetchLane(cast("Node", served.node), served.node.authorizer)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    topic = FetchTopic(topic="", topic_id=served.node.image.topic_ids[TopicName("one")], partitions=[partition])
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=100, topics=[topic], forgotten_topics_data=[], rack_id=rack
    )
    frame = request_frame(request, 17, 1, "a client")[4:]

    taken = lane.take(cast("Connection", served.connection), memoryview(bytearray(frame)), 0)

    assert taken == (rack == "")


def test_most_of_these_requests_go_the_short_way() -> None:
    """The comparison above would prove nothing if the lane took none of them."""
    random = Random(7)
    served = Served(has_lane=True)
    take = served.dispatcher._takers[FETCH_KEY][0]
    taken = sum(
        take(cast("Connection", served.connection), memoryview(bytearray(a_frame(random, served, n))), 0)
        for n in range(200)
    )
    assert taken > 60
