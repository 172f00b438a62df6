"""Produce, whatever arrives: the requests of one read gathered, each in a read of its own, and each handled by itself without a
gather give the same answers, byte for byte, the same files and the same counts; and what was recorded of a node long ago."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import cast

from hypothesis import example, given, strategies as st

from tests.support.answered_connection import AnsweredConnection
from tests.support.appends import produced
from tests.support.both_ways import NO_PRODUCER, a_batch, foreseen
from tests.support.by_hand import answer_by_hand
from tests.support.data_node import OTHER, THIRD, DataNode
from tests.support.examples import examples
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.node_view import Node
from tidelog.model.ids import TopicName
from tidelog.net.connection import Connection
from tidelog.storage.producer import ProducerState
from tidelog.wire.frames import request_frame
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, build_batch

load_handlers()

# A line for each history: its seed, and the digest of what it left.
RECORDED = Path(__file__).resolve().parent.parent / "fixtures" / "produce_histories.txt"

# What a batch of the topic "small" may have, and some have to the byte.
SMALL_BYTES = 150
# Indexes are made no larger than these few records need.
INDEX = {"index.interval.bytes": "100", "segment.index.bytes": "1200"}
TOPICS = {
    "plain": {},
    "p": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": str(SMALL_BYTES)},
    "indexed": {},
    "timed": {},
    "recompressed": {"compression.type": "gzip"},
}
# Smaller than a topic's keys allow, so that segments roll in the middle of a read: for their size, a full index, or the time.
ROLLING = {
    "plain": {"segment_bytes": 1000},
    "indexed": {"segment_index_bytes": 24, "index_interval_bytes": 1},
    "timed": {"segment_ms": 1000},
}
# Has followers, which its writes with acks=all wait for.
SPREAD = "spread"
NAMES = (*(name for name in TOPICS if name != "indexed"), SPREAD, "unknown")
PLAIN = ("plain", "p", "timed", "small", SPREAD)
# A run is not divided where an index gets full in its midst, as no append of several batches is.
ALONE = "indexed"


class Served:
    """A node behind a dispatcher."""

    def __init__(self, *, by_hand: bool = False) -> None:
        self.node = DataNode()
        for name, config in TOPICS.items():
            self.node.create_topic(name, partitions=2, configs=INDEX | config)
        replicas = (self.node.node_id, OTHER, THIRD)
        self.node.create_topic(SPREAD, partitions=2, replicas=replicas, configs=INDEX | {"min.insync.replicas": "2"})
        for name, changes in ROLLING.items():
            for partition in self.node.partitions.named(TopicName(name)).values():
                partition.reconfigure(replace(partition.config, log=partition.config.log.changed(**changes)))
                # A segment is of the configuration with which it began; and a run that finds it empty is not divided.
                for _ in range(2):
                    self.node.log(name, partition.topic_partition.partition).roll()
                    produced(partition, bytearray(build_batch([Record(0, 1000, None, b"", ())])))
        self.connection = AnsweredConnection()
        self.dispatcher = Dispatcher(cast("Node", self.node), self.node.authorizer, "broker")
        # Whether each Produce is handled by itself, without a gather and with the codec that is generated at run time.
        self._by_hand = by_hand

    @property
    def has_gathered(self) -> bool:
        """Whether there is something that is still to be appended and answered."""
        return self.dispatcher._gather.is_open

    def take(self, frame: bytes) -> None:
        """One frame of a read."""
        if self._by_hand and int.from_bytes(frame[:2], "big") == ProduceRequest.api_key:
            answer_by_hand(frame, self.connection, self.node, self.node.authorizer)
        else:
            # What is written into a batch when it is appended is written into the frame.
            self.dispatcher.frame(cast("Connection", self.connection), memoryview(bytearray(frame)))

    def done(self) -> None:
        self.dispatcher.frames_done(cast("Connection", self.connection))

    def read_each(self, frames: Sequence[bytes]) -> None:
        """Each frame in a read of its own."""
        for frame in frames:
            self.read([frame])

    def read(self, frames: Sequence[bytes]) -> None:
        """All frames of one read, as a connection hands them over."""
        for frame in frames:
            if not self.connection.is_closed:
                self.take(frame)
        self.done()

    def requests(self) -> tuple[int, int, int, int, Counter[int]]:
        """Of all versions together."""
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


class Producers:
    """What those who send the frames of one read believe of their sequences."""

    def __init__(self, random: Random, served: Served) -> None:
        self._random = random
        self._served = served
        self._known: dict[tuple[str, int, int], ProducerState] = {}

    def a_batch(self, name: str, index: int, *, is_odd: bool) -> bytes:
        random = self._random
        if name == "small" and random.random() < 0.7:
            return a_batch_of(random.choice([SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES, SMALL_BYTES + 1]))
        if is_odd:
            return an_odd_batch(random)
        producer_id = random.choice([NO_PRODUCER, NO_PRODUCER, 7, 8, 9])
        place = (name, index, producer_id)
        state = self._known.get(place, self._state_of(*place))
        time_ms = random.choice([1000, 1000, 1000, 1900, 2100, 3500])
        batch = a_batch(random, state, producer_id, (0, 10, 100), time_ms=time_ms)
        self._known[place] = foreseen(state, batch)
        return batch

    def _state_of(self, name: str, index: int, producer_id: int) -> ProducerState | None:
        partition = self._served.node.partitions.named(TopicName(name)).get(index)
        log = None if partition is None else partition.log
        return None if log is None else log.producers.producer(producer_id)


def a_batch_of(size_bytes: int) -> bytes:
    """A batch of one record, of exactly that size."""
    value_bytes = size_bytes - len(build_batch([Record(0, 1000, None, b"", ())]))
    while len(batch := build_batch([Record(0, 1000, None, b"v" * value_bytes, ())])) > size_bytes:
        value_bytes -= 1
    assert len(batch) == size_bytes
    return batch


def an_odd_batch(random: Random) -> bytes:
    time_ms = random.choice([1000, 2000, -1, 2**62])
    key = random.choice([None, b"k"])
    count = random.choice([1, 1, 1, 2, 5])
    rows = [Record(n, time_ms + n, key, b"v" * random.choice([0, 10, 100]), ()) for n in range(count)]
    if random.random() < 0.5:
        return build_batch(rows)
    return build_batch(
        rows,
        producer_id=random.choice([7, 8]),
        producer_epoch=random.choice([0, 0, 0, 0, 1]),
        base_sequence=random.choice([0, 0, 1, 1, 2, 2, 3, 4, 2**31 - 1]),
        is_transactional=random.random() < 0.2,
    )


def a_frame(
    random: Random,
    served: Served,
    producers: Producers,
    correlation_id: int,
    *,
    odd_share: float,
    is_alone: bool = False,
) -> bytes:
    """A request that is plain, but may be anything in its share of cases. `is_alone`: there is no other one in the read."""
    is_odd = random.random() < odd_share
    names = random.choices(NAMES if is_odd else PLAIN, k=random.choice([1, 1, 1, 2, 3]))
    batches_max = 2
    if is_alone and not is_odd and random.random() < 0.4:
        names, batches_max = [ALONE], 1
    version = random.choice([3, 7, 9, 13]) if is_odd else random.choice([7, 8, 9, 10, 12, 13])
    topics = []
    for name in names:
        known = served.node.image.topic(TopicName(name))
        indexes = random.choices([0, 1, 5] if is_odd else [0, 1], k=min(batches_max, random.choice([1, 1, 2])))
        topics.append(
            TopicProduceData(
                name=name if version < 13 else "",
                topic_id=bytes(16) if version < 13 or known is None else known.topic_id,
                partition_data=[
                    PartitionProduceData(index=index, records=producers.a_batch(name, index, is_odd=is_odd))
                    for index in indexes
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


def a_fetch(random: Random, served: Served, correlation_id: int) -> bytes:
    """Comes between others, and sees all of those before it and nothing of those behind."""
    name = random.choice(PLAIN)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=served.node.image.topic_ids[TopicName(name)], partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic], forgotten_topics_data=[])
    return request_frame(request, 17, correlation_id, "a client")[4:]


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


def play(seed: int, *all_served: Served) -> None:
    """One history: reads of requests of any kind, and what happens to partitions between them. The first one gets all requests of
    a read together, others each in a read of its own; they answer the same all the time."""
    random = Random(seed)
    first, *others = all_served
    correlation_id = 0
    odd_share = random.choice([0.0, 0.3, 0.5])
    for _ in range(random.randrange(1, 10)):
        frames = []
        producers = Producers(random, first)
        count = random.choice([1, 1, 2, 5])
        for _ in range(count):
            correlation_id += 1
            if random.random() < 0.1:
                frames.append(a_fetch(random, first, correlation_id))
                continue
            frames.append(a_frame(random, first, producers, correlation_id, odd_share=odd_share, is_alone=count == 1))
        first.read(frames)
        for other in others:
            other.read_each(frames)
            assert first.connection.answers == other.connection.answers
            assert first.connection.is_closed == other.connection.is_closed
        if first.connection.is_closed:
            break
        for _ in range(random.choice([0, 2, 5])):
            something_happens(random, all_served)
            for other in others:
                assert first.connection.answers == other.connection.answers
    for served in all_served:
        served.node.timers.advance(1000)


@examples(40)
@given(seed=st.integers(0, 2**32))
def test_a_read_answers_and_writes_what_its_requests_would_by_themselves(seed: int) -> None:
    gathered, each, alone = Served(), Served(), Served(by_hand=True)

    play(seed, gathered, each, alone)

    for other in (each, alone):
        assert gathered.connection.answers == other.connection.answers
        assert gathered.node.files() == other.node.files()
        assert gathered.counted() == other.counted()
    assert gathered.requests() == each.requests()


def digest(served: Served) -> str:
    """Everything that a history has left: the answers, the files, the counts."""
    left = (
        served.connection.answers,
        served.connection.is_closed,
        sorted(served.node.files().items()),
        served.requests()[:4],
        sorted((int(code), count) for code, count in served.requests()[4].items()),
        sorted(served.counted().items()),
    )
    return sha256(repr(left).encode()).hexdigest()


def test_histories_end_as_they_were_recorded() -> None:
    """Of the code that had another way for the requests that are gathered now."""
    for line in RECORDED.read_text().splitlines():
        seed, recorded = line.split()
        served = Served()
        play(int(seed), served)
        assert digest(served) == recorded, f"the history of seed {seed}"


def lost_meanwhile(random: Random, both: Sequence[Served]) -> None:
    """What no request can see to happen between its arrival and the end of the read; if it did, it would be as if before it."""
    name, index = random.choice(PLAIN), random.choice([0, 1])
    kind = random.choice(["follow", "follow", "epoch", "roll", "start"])
    for served in both:
        partition = served.node.partition(name, index)
        if kind == "roll":
            served.node.log("plain", index).roll()
        elif kind == "start":
            partition.delete_records(-1)
        else:
            served.node.change(name, index, leader=1 if kind == "epoch" else 2)


@examples(60)
@given(seed=st.integers(0, 2**32))
@example(seed=50000)  # a run that begins a segment and lasts longer than it may
def test_what_changes_between_arrival_and_the_end_of_the_read_counts_as_before_it(seed: int) -> None:
    random = Random(seed)
    gathered, alone = both = Served(), Served(by_hand=True)
    number = 0
    for _ in range(random.randrange(1, 8)):
        producers = Producers(random, gathered)
        taken: list[bytes] = []
        for _ in range(random.choice([1, 2, 4])):
            number += 1
            taken.append(a_frame(random, gathered, producers, number, odd_share=0.0))
            gathered.take(taken[-1])
            # Something unusual closes the gather; what is not answered then is still to be appended.
            closed = len(taken) - (number - len(gathered.connection.answers))
            alone.read_each(taken[:closed])
            del taken[:closed]
        lost_meanwhile(random, both)
        gathered.done()
        alone.read_each(taken)
        assert gathered.connection.answers == alone.connection.answers
        something_happens(random, both)

    assert gathered.connection.answers == alone.connection.answers
    assert gathered.node.files() == alone.node.files()


def test_most_of_these_requests_are_gathered() -> None:
    """The comparisons above would prove nothing if none of them were."""
    random = Random(7)
    served = Served()
    gathered = 0
    for number in range(200):
        served.take(a_frame(random, served, Producers(random, served), number, odd_share=0.0))
        gathered += served.has_gathered
        served.done()
    # A batch that is one byte too large is refused by itself.
    assert 150 < gathered < 200
