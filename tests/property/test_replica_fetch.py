"""A follower's Fetch against the model, which reads every replica for every request: the same records at the same moments, and
the same knowledge of every follower after every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, cast
from unittest import mock

from hypothesis import given, strategies as st

from tests.support.answered_connection import AnsweredConnection
from tests.support.appends import produced
from tests.support.both_ways import TRANSACTIONAL, BothWays
from tests.support.data_node import NODE, OTHER, THIRD, DataNode
from tests.support.examples import examples
from tests.support.kernel_twins import plain_only
from tests.support.model_dispatcher import ModelDispatcher
from tidelog.broker.handlers.fetch import fetch
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.handling import HANDLERS
from tidelog.broker.requests.node_view import Node
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicId, TopicName
from tidelog.net.connection import Connection
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leading
from tidelog.wire.codec import decode_from, generated_decode_from
from tidelog.wire.errors import MalformedError
from tidelog.wire.frames import read_response, request_frame, response_frame
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.wire.record_batch import each_batch
from tidelog.wire.records import Record, build_batch

TOPICS = {"one": 1, "three": 3}
PLACES = [(name, index) for name, count in TOPICS.items() for index in range(count)]
FOLLOWERS = (OTHER, THIRD)
FETCH_KEY = FetchRequest.api_key
assert HANDLERS[FETCH_KEY].answer is fetch
VERSION = 17
GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
# Indexes that have something in them, and that are not made much larger than that.
CONFIGS = {"index.interval.bytes": "100", "segment.index.bytes": "1200"}
# Two followers that the controller knows, each by its epoch.
BROKER_EPOCH = 7

Place = tuple[str, int]


class Served:
    """A leader behind the broker's dispatcher, or behind the model's, and one connection of each follower."""

    def __init__(self, *, is_model: bool = False) -> None:
        self.node = DataNode()
        for name, partitions in TOPICS.items():
            self.node.create_topic(name, partitions=partitions, replicas=(NODE, *FOLLOWERS), configs=CONFIGS)
        self.connections = {node: AnsweredConnection() for node in FOLLOWERS}
        self._model: ModelDispatcher | None = None
        if is_model:
            self._model = ModelDispatcher(cast("Node", self.node), self.node.authorizer)
        self._dispatcher = Dispatcher(cast("Node", self.node), self.node.authorizer, "broker")

    def read(self, node: NodeId, frame: bytes) -> None:
        connection, view = self.connections[node], memoryview(bytearray(frame))
        if self._model is not None:
            self._model.frame(connection, view)
        else:
            self._dispatcher.frame(cast("Connection", connection), view)
            self._dispatcher.frames_done(cast("Connection", connection))

    def answers(self, node: NodeId) -> list[FetchResponse | None]:
        return [None if each is None else an_answer(each) for each in self.connections[node].answers]

    def partitions(self) -> Iterator[tuple[Place, Partition]]:
        for name, index in PLACES:
            if TopicName(name) in self.node.image.topic_ids:
                yield (name, index), self.node.partition(name, index)

    def progress(self) -> dict[object, object]:
        """What the leader knows of its followers, and what it makes of that."""
        found: dict[object, object] = {}
        for place, partition in self.partitions():
            role = partition.role
            if isinstance(role, Leading):
                found[place] = (role.log.high_watermark, role.log.log_end_offset, role.isr)
                for node, each in role.followers.items():
                    found[place, node] = (each.log_end_offset, each.log_start_offset, each.last_caught_up_ms)
        return found

    def waiting(self) -> int:
        if self._model is not None:
            return self._model.waiting
        return sum(each.waiting for each in self.node.metrics.requests.values())


def an_answer(data: bytes) -> FetchResponse:
    _, answer = read_response(memoryview(bytearray(data)), FETCH_KEY, VERSION)
    assert isinstance(answer, FetchResponse)
    return answer


def in_memory(data: PartitionData) -> bytes:
    return b"" if data.records is None else bytes(cast("bytes", data.records))


def told(answer: FetchResponse | None) -> object:
    """What both ways have to say alike. A high watermark may be told sooner or later, where no records or errors come along."""
    if answer is None:
        return None
    found: dict[object, object] = {}
    for topic in answer.responses:
        for data in topic.partitions:
            if data.error_code in GONE:
                # Of a topic that goes while a fetch waits, the one speaks of the topic, the other of the first that it missed.
                found[topic.topic_id] = "gone"
            elif data.records or data.error_code or data.diverging_epoch.epoch >= 0:
                found[topic.topic_id, data.partition_index] = (data.error_code, data.diverging_epoch, in_memory(data))
    return answer.error_code, answer.session_id, found


class Follower:
    """What one follower knows: the requests are made from it, the same for both leaders."""

    def __init__(self, random: Random, node: NodeId) -> None:
        self._random = random
        self.node = node
        self._session_id = 0
        self._epoch = 0
        self._told: dict[Place, FetchPartition] = {}
        self._offsets: dict[Place, int] = dict.fromkeys(PLACES, 0)
        self._ids: dict[TopicName, TopicId] = {}
        self.taken = 0

    def frame(self, leader: Served) -> bytes:
        """The next request; mostly a plain one."""
        random = self._random
        if random.random() < 0.02:
            self._epoch = 0
        wanted = {
            place: self._asked(place, partition)
            for place, partition in leader.partitions()
            if partition.is_leading and random.random() < 0.99
        }
        is_full = self._epoch == 0
        named = wanted if is_full else {place: each for place, each in wanted.items() if self._told.get(place) != each}
        forgotten = [] if is_full else [place for place in self._told if place not in wanted]
        self._told = wanted
        # A topic that is gone is forgotten by the id that it had.
        ids = self._ids
        ids.update(leader.node.image.topic_ids)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.node, replica_epoch=BROKER_EPOCH),
            max_wait_ms=random.choice([0, 500, 500, 500]),
            min_bytes=random.choice([1] * 18 + [0, 300]),
            session_id=self._session_id,
            session_epoch=self._epoch if random.random() < 0.98 else self._epoch + 1,
            topics=[FetchTopic(topic_id=ids[TopicName(name)], partitions=[each]) for (name, _), each in named.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=ids[TopicName(name)], partitions=[index]) for name, index in forgotten
            ],
        )
        return request_frame(request, VERSION, 1, f"broker-{self.node}")[4:]

    def _asked(self, place: Place, partition: Partition) -> FetchPartition:
        log = partition.log
        assert log is not None
        if self._offsets[place] < log.log_start_offset and self._random.random() < 0.95:
            self._offsets[place] = log.log_start_offset
        if self._offsets[place] > log.log_end_offset or self._random.random() < 0.03:
            self._offsets[place] = self._random.randint(0, log.log_end_offset)
        # Its own last epoch is mostly that of the leader's log there; one that the leader never had is cut off.
        epoch = log.leader_epochs.epoch_for_offset(self._offsets[place] - 1)
        last_epoch = -1 if epoch is None else epoch + (self._random.random() < 0.02)
        return FetchPartition(
            partition=place[1],
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=self._offsets[place],
            log_start_offset=self._random.choice([0] * 20 + [log.log_start_offset]),
            last_fetched_epoch=last_epoch,
            # Where it is too little for a batch, which partition comes first decides; the ways go by orders of their own.
            partition_max_bytes=1 << 20,
        )

    def take(self, answer: FetchResponse, leader: Served) -> None:
        self.taken += 1
        self._session_id = answer.session_id
        if answer.error_code or not answer.session_id:
            self._epoch = 0
            return
        self._epoch += 1
        names = {topic_id: name for name, topic_id in leader.node.image.topic_ids.items()}
        for topic in answer.responses:
            for data in topic.partitions:
                name = names.get(TopicId(topic.topic_id))
                if name is None or data.error_code:
                    self._epoch = 0
                elif data.diverging_epoch.epoch >= 0:
                    self._offsets[name, data.partition_index] = data.diverging_epoch.end_offset
                elif data.records and self._random.random() < 0.9:
                    for _, header in each_batch(in_memory(data)):
                        self._offsets[name, data.partition_index] = header.next_offset


def something_happens(random: Random, both: Sequence[Served]) -> None:
    name, index = random.choice(PLACES)
    ways = BothWays(random, both[0].node, both[1].node, name, index)
    kind = random.choice(
        ["write"] * 8
        + ["end"] * 3
        + ["time"] * 3
        + ["shrink", "grow", "epoch", "follow", "start", "delete", "throttle", "roll"]
    )
    chance, ms = random.random(), random.choice([50, 100, 400, 500, 20_000])
    is_there = ways.is_there
    if is_there and kind == "write":
        ways.write(sizes=(0, 100, 9000, 20_000))
    elif is_there and kind == "end":
        ways.end_transaction(random.choice(TRANSACTIONAL))
    for served in both:
        node = served.node
        if kind == "time":
            node.timers.advance(ms)
        elif not is_there:
            continue
        elif kind == "roll":
            node.log(name, index).roll()
        elif kind == "shrink":
            node.change(name, index, isr=[1, 3])
        elif kind == "grow":
            node.change(name, index, isr=[1, 2, 3])
        elif kind == "epoch":
            node.change(name, index, leader=1)
        elif kind == "follow" and chance < 0.1:
            node.change(name, index, leader=2)
        elif kind == "start":
            node.partition(name, index).delete_records(-1)
        elif kind == "delete" and chance < 0.1:
            node.delete_topic(name)
        elif kind == "throttle":
            node.configure(name, {"leader.replication.throttled.replicas": "*" if chance < 0.2 else ""})


def compare(leader: Served, model: Served) -> None:
    for node in FOLLOWERS:
        assert [told(each) for each in leader.answers(node)] == [told(each) for each in model.answers(node)]
    assert leader.progress() == model.progress()
    assert leader.waiting() == model.waiting()


@examples(100)
@given(seed=st.integers(0, 2**32))
def test_followers_get_the_same_as_from_the_model_and_are_known_the_same(seed: int) -> None:
    random = Random(seed)
    leader, model = both = Served(), Served(is_model=True)
    followers = [Follower(random, node) for node in FOLLOWERS]
    for _ in range(random.randrange(5, 30)):
        for follower in followers:
            answers = leader.answers(follower.node)
            if len(answers) > follower.taken:
                answer = answers[-1]
                if answer is None:
                    continue
                follower.take(answer, leader)
            frame = follower.frame(leader)
            for served in both:
                served.read(follower.node, frame)
            compare(leader, model)
        for _ in range(random.randrange(3)):
            something_happens(random, both)
            compare(leader, model)
    for served in both:
        served.node.timers.advance(1000)
    compare(leader, model)


def a_follower_at_the_end(leader: Served, node: NodeId, appends: int = 1) -> Follower:
    """A follower in a session that has everything, and waits."""
    follower = Follower(Random(1), node)
    follower._random = mock.Mock(random=lambda: 0.5, choice=lambda options: options[1])
    leader.node.timers.advance(1)
    for _ in range(appends):
        produced(leader.node.partition("one"), bytearray(a_batch()), 1)
    go_on(follower, leader)
    go_on(follower, leader)
    return follower


def go_on(follower: Follower, leader: Served) -> None:
    """The answer that is there is taken, and the next request sent."""
    answers = leader.answers(follower.node)
    if len(answers) > follower.taken:
        answer = answers[-1]
        assert answer is not None
        follower.take(answer, leader)
    leader.read(follower.node, follower.frame(leader))


def a_batch() -> bytes:
    return build_batch([Record(0, 1000, None, b"value", ())])


@plain_only
def test_a_fetch_looks_at_what_has_changed_alone() -> None:
    leader = Served()
    followers = [a_follower_at_the_end(leader, node) for node in FOLLOWERS]
    for _ in range(3):
        # Until both know what is committed.
        leader.node.timers.advance(500)
        for follower in followers:
            go_on(follower, leader)
    assert leader.waiting() == 2
    read = Partition.read_as_follower
    looked_at = set()

    def read_noting(partition: Partition, *args: Any, **more: Any) -> object:
        looked_at.add(partition.topic_partition)
        return read(partition, *args, **more)

    with mock.patch.object(Partition, "read_as_follower", read_noting):
        produced(leader.node.partition("three", 2), bytearray(a_batch()), 1)
        for follower in followers:
            go_on(follower, leader)
    assert looked_at == {("three", 2)}
    # The second of them has committed it: who waits is told with the next records.
    assert leader.node.log("three", 2).high_watermark == 1
    assert leader.waiting() == 2


def test_a_follower_never_waits_for_what_clients_send() -> None:
    leader = Served()
    a_follower_at_the_end(leader, FOLLOWERS[0])

    assert [each.is_exempt for each in leader.connections.values()] == [True, False]


def test_a_follower_that_has_everything_stays_caught_up_by_fetches_that_name_nothing() -> None:
    leader = Served()
    follower = a_follower_at_the_end(leader, OTHER)
    role = leader.node.partition("three", 1).role
    assert isinstance(role, Leading)
    progress = role.followers[OTHER]
    for _ in range(3):
        leader.node.timers.advance(500)
        go_on(follower, leader)
        assert progress.last_caught_up_ms == leader.node.clock.monotonic_ms()
    # It stops fetching: a write finds it caught up when it fetched last.
    last_ms = leader.node.clock.monotonic_ms()
    leader.node.timers.advance(400)
    produced(leader.node.partition("three", 1), bytearray(a_batch()), 1)
    leader.node.timers.advance(400)
    assert progress.last_caught_up_ms == last_ms


def test_a_follower_that_left_the_in_sync_set_is_told_of_again() -> None:
    leader = Served()
    follower = a_follower_at_the_end(leader, OTHER)
    heard: list[tuple[str, NodeId]] = []
    leader.node.partitions.wakeups.on_caught_up = lambda partition, node: heard.append(
        (partition.topic_partition.topic, node)
    )
    leader.node.change("one", 0, isr=[1, 3])
    for times in (1, 2):
        leader.node.timers.advance(500)
        go_on(follower, leader)
        assert heard == [("one", OTHER)] * times


def test_a_session_that_has_no_partition_any_more_is_at_an_end() -> None:
    leader = Served()
    follower = a_follower_at_the_end(leader, OTHER)
    for name in TOPICS:
        leader.node.delete_topic(name)
    for _ in range(2):
        # The first one opens a session that has nothing in it.
        go_on(follower, leader)
    answer = leader.answers(OTHER)[-1]
    assert answer is not None, "it would wait for nothing"
    assert answer.session_id == 0


def test_what_a_replica_gets_that_is_being_added_counts_as_reassignment() -> None:
    leader = Served()
    traffic = leader.node.partitions.traffic
    a_follower_at_the_end(leader, OTHER)
    assert traffic.reassignment_bytes_out == 0
    leader.node.change("one", 0, adding_replicas=[OTHER], removing_replicas=[])
    produced(leader.node.partition("one"), bytearray(a_batch()), 1)
    # Another one is no newcomer, and gets all there is.
    a_follower_at_the_end(leader, THIRD)

    assert traffic.reassignment_bytes_out == len(a_batch())


def an_odd_answer(random: Random) -> bytes:
    """An answer of a leader, now and then with something unusual in it, or damaged."""
    topics = [
        FetchableTopicResponse(
            topic_id=random.randbytes(16),
            partitions=[
                PartitionData(
                    partition_index=random.choice([0, 1, 2**31 - 1]),
                    error_code=random.choice([0] * 20 + [6]),
                    high_watermark=random.choice([-1, 0, 5, 2**63 - 1]),
                    last_stable_offset=3,
                    log_start_offset=random.choice([0, 2]),
                    diverging_epoch=random.choice([EpochEndOffset()] * 20 + [EpochEndOffset(epoch=1, end_offset=2)]),
                    aborted_transactions=random.choice([None, []]),
                    records=random.choice([b"", b"", random.randbytes(200), None]),
                )
                for _ in range(random.choice([0, 1, 1, 2]))
            ],
        )
        for _ in range(random.choice([0, 1, 1, 2]))
    ]
    answer = FetchResponse(
        throttle_time_ms=0, error_code=random.choice([0] * 20 + [70]), session_id=9, responses=topics
    )
    data = bytearray(response_frame(answer, VERSION, 5)[4:])
    if random.random() < 0.2:
        data[random.randrange(4, len(data))] = random.choice([0, 1, 0x7F, 0x80, 0xFF])
    if random.random() < 0.1:
        del data[random.randrange(4, len(data)) :]
    return bytes(data)


@examples(40)
@given(seed=st.integers(0, 2**32))
def test_an_answer_is_read_as_the_generated_decoder_reads_it(seed: int) -> None:
    random = Random(seed)
    for _ in range(5):
        data = an_odd_answer(random)
        try:
            read: object = decode_from(FetchResponse, VERSION, data, 5)
        except MalformedError as error:
            read = str(error)
        try:
            expected: object = generated_decode_from(FetchResponse, VERSION, data, 5)
        except MalformedError as error:
            expected = str(error)
        assert read == expected
