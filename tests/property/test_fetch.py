"""Fetch against its model, which reads every partition for every request: the same answers, byte for byte, at the same moments.

Requests come without a session, and of sessions that go on from one connection to another; some are odd, some damaged. Meanwhile
records are written, transactions end, followers get on, leaders change, topics go, rules change, time passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import cast

from hypothesis import given, strategies as st

from tests.support.answered_connection import AnsweredConnection
from tests.support.both_ways import TRANSACTIONAL, BothWays
from tests.support.data_node import NODE, OTHER, THIRD, DataNode, Denying
from tests.support.examples import examples
from tests.support.fetch_model import sessions_of
from tests.support.model_dispatcher import ModelDispatcher
from tidelog.broker.handlers.fetch import fetch
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.handling import HANDLERS
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation
from tidelog.model.ids import TopicName
from tidelog.net.connection import Connection
from tidelog.wire.frames import read_response, request_frame
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.wire.record_batch import each_batch

# Has followers, without which nothing is committed.
SPREAD = "spread"
TOPICS = {"one": 1, "three": 3, "hidden": 1}
NAMES = (*TOPICS, "unknown")
PLACES = [("one", 0), ("three", 0), ("three", 1), ("three", 2), (SPREAD, 0)]
# Indexes that have something in them, and that are not made much larger than that.
CONFIGS = {"index.interval.bytes": "100", "segment.index.bytes": "1200"}
CONNECTIONS = 3
FETCH_KEY = FetchRequest.api_key
assert HANDLERS[FETCH_KEY].answer is fetch

Place = tuple[str, int]


class Served:
    """A node and its clients' connections: behind the broker's dispatcher, or behind the model's."""

    def __init__(self, *, is_model: bool = False) -> None:
        self.authorizer = Denying((AclOperation.READ, "hidden"))
        self.node = DataNode(authorizer=self.authorizer, session_slots=1000)
        for name, partitions in TOPICS.items():
            self.node.create_topic(name, partitions=partitions, configs=CONFIGS)
        self.node.create_topic(SPREAD, replicas=(NODE, OTHER, THIRD), configs=CONFIGS)
        self.connections = [AnsweredConnection() for _ in range(CONNECTIONS)]
        self._model: ModelDispatcher | None = None
        if is_model:
            self._model = ModelDispatcher(cast("Node", self.node), self.authorizer)
        self._dispatcher = Dispatcher(cast("Node", self.node), self.authorizer, "broker")

    def read(self, frame: bytes, number: int = 0) -> None:
        connection = self.connections[number]
        view = memoryview(bytearray(frame))
        if self._model is not None:
            self._model.frame(connection, view)
        else:
            self._dispatcher.frame(cast("Connection", connection), view)
            self._dispatcher.frames_done(cast("Connection", connection))

    def answers(self) -> list[list[bytes | None]]:
        return [connection.answers for connection in self.connections]

    @property
    def is_closed(self) -> bool:
        return any(connection.is_closed for connection in self.connections)

    def waiting(self) -> int:
        if self._model is not None:
            return self._model.waiting
        return sum(each.waiting for each in self.node.metrics.requests.values())

    def sent(self) -> dict[str, tuple[int, int]]:
        """By topic: bytes of records, and reads that were refused."""
        return {
            name: (counts.bytes_out, counts.failed_fetch_requests)
            for name, counts in self.node.metrics.topics.items()
            if counts.bytes_out or counts.failed_fetch_requests
        }

    def watchers(self) -> int:
        partitions = self.node.partitions
        return sum(
            partition.watcher_count
            for name in (*TOPICS, SPREAD)
            for partition in partitions.named(TopicName(name)).values()
        )


def compare(served: Served, model: Served) -> None:
    assert served.answers() == model.answers()
    assert served.is_closed == model.is_closed
    assert served.waiting() == model.waiting()
    assert served.sent() == model.sent()


# --- requests without a session ---------------------------------------------------------------------------------------------


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


# --- sessions -----------------------------------------------------------------------------------------------------------------


class Consumer:
    """A client with a session: the requests are made from what it was told."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.version = random.choice([12, 13, 16, 18])
        self._session_id = 0
        self._epoch = 0
        self._level = random.choice([0, 1])
        self._wanted = set(random.sample(PLACES, random.choice([1, 2, 4, 5])))
        self._offsets: dict[Place, int] = dict.fromkeys(PLACES, 0)
        self._told: dict[Place, FetchPartition] = {}
        self._ids: dict[TopicName, bytes] = {}
        self._sent: tuple[int, int] | None = None
        self.went_on = 0

    def may_send(self, served: Served) -> bool:
        """Whether the last request is answered, or is not waited for: takes in the answer."""
        if self._sent is None:
            return True
        connection, place = self._sent
        answer = served.connections[connection].answers[place]
        if answer is not None:
            self._take(answer, served)
            self._sent = None
            return True
        # It goes on without, as a client does whose connection is gone.
        return self._random.random() < 0.1

    def send(self, both: Sequence[Served], correlation_id: int) -> None:
        frame, number = self._frame(both[0], correlation_id), self._random.randrange(CONNECTIONS)
        self._sent = number, len(both[0].connections[number].answers)
        for served in both:
            served.read(frame, number)

    def _frame(self, served: Served, correlation_id: int) -> bytes:
        random = self._random
        if self._epoch and self._sent is not None:
            self._epoch += 1
        if random.random() < 0.03:
            self._epoch = random.choice([0, 0, -1])
        if random.random() < 0.1:
            self._wanted ^= {random.choice(PLACES)}
        if random.random() < 0.05:
            self._level = 1 - self._level
        ids = self._ids
        ids.update(served.node.image.topic_ids)
        wanted = {place: self._asked(place, served) for place in PLACES if place in self._wanted}
        is_full = self._epoch <= 0
        named = wanted if is_full else {place: each for place, each in wanted.items() if self._told.get(place) != each}
        forgotten = [] if is_full else [place for place in self._told if place not in wanted]
        self._told = wanted
        is_by_id = self.version >= 13
        request = FetchRequest(
            max_wait_ms=random.choice([0, 500, 500, 500]),
            min_bytes=random.choice([1] * 8 + [0, 300, 1000]),
            max_bytes=random.choice([1 << 20] * 5 + [1, 300]),
            isolation_level=self._level,
            session_id=self._session_id,
            session_epoch=self._epoch if random.random() < 0.98 else self._epoch + 1,
            topics=[
                FetchTopic(topic="" if is_by_id else name, topic_id=ids[TopicName(name)], partitions=[each])
                for (name, _), each in named.items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic="" if is_by_id else name, topic_id=ids[TopicName(name)], partitions=[index])
                for name, index in forgotten
            ],
        )
        return request_frame(request, self.version, correlation_id, "a client")[4:]

    def _asked(self, place: Place, served: Served) -> FetchPartition:
        random = self._random
        if random.random() < 0.05:
            partition = served.node.partitions.named(TopicName(place[0])).get(place[1])
            log = None if partition is None else partition.log
            end = 0 if log is None else log.log_end_offset
            self._offsets[place] = random.choice([0, end, end, max(0, end - 1), end + 1])
        before = self._told.get(place)
        return FetchPartition(
            partition=place[1],
            fetch_offset=self._offsets[place],
            current_leader_epoch=random.choice([-1] * 20 + [0, 1])
            if before is None or random.random() < 0.05
            else before.current_leader_epoch,
            partition_max_bytes=random.choice([1 << 20] * 6 + [0, 200])
            if before is None
            else before.partition_max_bytes,
        )

    def _take(self, data: bytes, served: Served) -> None:
        _, answer = read_response(memoryview(bytearray(data)), FETCH_KEY, self.version)
        assert isinstance(answer, FetchResponse)
        self._session_id = answer.session_id
        self.went_on += self._epoch > 0 and not answer.error_code
        if answer.error_code or not answer.session_id:
            self._epoch = 0
            return
        self._epoch = max(self._epoch, 0) + 1
        names = {topic_id: name for name, topic_id in self._ids.items()}
        for topic in answer.responses:
            for each in topic.partitions:
                place = (topic.topic or names[topic.topic_id], each.partition_index)
                if each.error_code:
                    partition = served.node.partitions.named(TopicName(place[0])).get(place[1])
                    log = None if partition is None else partition.log
                    self._offsets[place] = 0 if log is None else log.log_start_offset
                for _, header in each_batch(whole_batches(each)):
                    self._offsets[place] = header.next_offset


def whole_batches(data: PartitionData) -> bytes:
    """The records without the batch that a limit has cut off."""
    records = bytes(cast("bytes", data.records or b""))
    end = 0
    while end + 12 <= len(records):
        size = 12 + int.from_bytes(records[end + 8 : end + 12], "big")
        if end + size > len(records):
            break
        end += size
    return records[:end]


# --- what happens meanwhile -------------------------------------------------------------------------------------------------


class Course:
    """What happens to both nodes, chosen by chance and the same for both."""

    def __init__(self, random: Random, both: Sequence[Served]) -> None:
        self._random = random
        self._both = both
        served, model = (each.node for each in both)
        self._ways = {place: BothWays(random, served, model, *place) for place in PLACES}

    def happens(self) -> None:
        """Something that a waiting fetch may be told of."""
        random = self._random
        (name, index), ways = random.choice(list(self._ways.items()))
        kind = random.choice(
            ["write"] * 6
            + ["several"] * 2
            + ["end"] * 4
            + ["time"] * 2
            + ["replicate"] * 3
            + ["epoch", "follow", "start", "delete", "rules", "in sync", "expire"]
        )
        if kind == "time":
            ms = random.choice([50, 100, 400, 500])
            for each in self._both:
                each.node.timers.advance(ms)
        elif kind == "rules":
            denied = random.choice([(), (), ((AclOperation.READ, name),)])
            for each in self._both:
                each.authorizer.change((AclOperation.READ, "hidden"), *denied)
        elif kind == "several":
            self._write_several()
        elif not ways.is_there:
            return
        elif kind == "write":
            self._write(ways)
        elif kind == "end" and ways.partitions[0].is_leading:
            ways.end_transaction(random.choice(TRANSACTIONAL))
        elif kind in ("epoch", "follow"):
            ways.change(leader=1 if kind == "epoch" or random.random() < 0.5 else 2)
        elif kind == "start":
            for partition in ways.partitions:
                partition.delete_records(-1)
        elif kind == "expire":
            self._expire(name, index)
        elif name == SPREAD and ways.partitions[0].is_leading:
            if kind == "replicate":
                ways.replicate()
            elif kind == "in sync":
                ways.change(isr=random.choice([[1], [1, 2], [1, 2, 3]]))
        elif kind == "delete" and random.random() < 0.3:
            for each in self._both:
                each.node.delete_topic(name)

    def _write(self, ways: BothWays) -> None:
        if ways.is_there and ways.partitions[0].is_leading:
            ways.write(sizes=(0, 10, 100, 9000))

    def _write_several(self) -> None:
        """One request that writes to several partitions: who waits is told when all of it is there."""
        chosen = self._random.sample(list(self._ways.values()), 2)
        for each in self._both:
            each.node.partitions.wakeups.hold()
        for ways in chosen:
            self._write(ways)
        for each in self._both:
            each.node.partitions.wakeups.release()

    def _expire(self, name: str, index: int) -> None:
        """Retention moves the log's start."""
        for each in self._both:
            log = each.node.log(name, index)
            log.roll()
            log.delete_records_before(log.high_watermark)
            each.node.partition(name, index).changed()


@examples(120)
@given(seed=st.integers(0, 2**32))
def test_requests_without_a_session_are_answered_as_by_the_model(seed: int) -> None:
    random = Random(seed)
    served, model = both = Served(), Served(is_model=True)
    course = Course(random, both)
    for correlation_id in range(random.randrange(3, 20)):
        frame = a_frame(random, served, correlation_id)
        for each in both:
            each.read(frame)
        compare(served, model)
        if served.is_closed:
            break
        for _ in range(random.randrange(4)):
            course.happens()
            compare(served, model)
    for each in both:
        each.node.timers.advance(1000)

    compare(served, model)
    assert served.watchers() == served.node.fetch_sessions.links.count
    assert served.node.timers.pending == 0


@examples(150)
@given(seed=st.integers(0, 2**32))
def test_sessions_are_answered_as_by_the_model_which_looks_at_everything(seed: int) -> None:
    random = Random(seed)
    served, model = both = Served(), Served(is_model=True)
    # A node that may watch little, or nothing, answers the same.
    served.node.fetch_sessions.links.most = random.choice([0, 3, 1 << 20, 1 << 20, 1 << 20])
    course = Course(random, both)
    consumers = [Consumer(random) for _ in range(random.choice([1, 2, 3]))]
    correlation_id = 0
    for _ in range(random.randrange(5, 30)):
        for consumer in consumers:
            if consumer.may_send(served):
                correlation_id += 1
                consumer.send(both, correlation_id)
                compare(served, model)
        for _ in range(random.randrange(4)):
            course.happens()
            compare(served, model)
    for each in both:
        each.node.timers.advance(1000)

    compare(served, model)
    sessions = served.node.fetch_sessions
    assert served.watchers() == sessions.links.count
    assert sessions.links.count <= max(sessions.links.most, 0)
    assert served.node.timers.pending == 0
    assert served.waiting() == 0


def test_the_model_keeps_sessions_of_its_own() -> None:
    """The comparison would prove little if no session ever went on."""
    random = Random(3)
    served, model = both = Served(), Served(is_model=True)
    consumer = Consumer(random)
    for number in range(50):
        if consumer.may_send(served):
            consumer.send(both, number)
        for each in both:
            each.node.timers.advance(600)
    assert len(served.node.fetch_sessions) > 0
    assert consumer.went_on > 30
    assert sessions_of(cast("Node", model.node)) is not sessions_of(cast("Node", served.node))


# --- transactions -----------------------------------------------------------------------------------------------------------


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
    served, model = both = Served(), Served(is_model=True)
    ways = BothWays(random, served.node, model.node, SPREAD)
    segment_bytes = random.choice([1000, 1 << 20, 1 << 20, 1 << 20])
    for each in both:
        partition = each.node.partition(SPREAD)
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
            frame = a_plain_frame(random, served, correlation_id)
            for each in both:
                each.read(frame)
        for step in (*ways.interleaved(), ("replicate", -1)):
            ways.step(*step, sizes)
            assert served.answers() == model.answers()
            ways.check()
    for each in both:
        each.node.timers.advance(60_000)

    compare(served, model)
    assert served.node.files() == model.node.files()
