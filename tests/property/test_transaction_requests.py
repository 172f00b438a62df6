"""Requests of transactions through a dispatcher against the same handlers called by hand, with messages that generated functions
read and write: the same answers, byte for byte, the same files and the same stable offsets, whatever producers send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import cast

import pytest
from hypothesis import given, strategies as st

from tests.support.answered_connection import AnsweredConnection
from tests.support.by_hand import answer_by_hand
from tests.support.data_node import OTHER, Denying
from tests.support.examples import examples
from tests.unit.broker.transaction_node import TransactionNode
from tidelog.broker.handlers.init_producer_id import init_producer_id
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.transaction.metadata import TransactionMetadata
from tidelog.coordination.transaction.records import TransactionRecords, transaction_record
from tidelog.coordination.transaction.states import TransactionState
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, PartitionIndex, TopicName, TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE
from tidelog.model.pending import Pending
from tidelog.net.connection import Connection
from tidelog.wire.control_records import ControlType, build_end_txn_marker, control_key
from tidelog.wire.frames import read_response, request_frame
from tidelog.wire.internal_records import encode_coordinator_key, encode_coordinator_value
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
)
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Request, Response

load_handlers()

TOPICS = {"orders": 3, "p": 1, "hidden": 1}
IDS = ("payments", "transfers")
CLIENT = "a client"


class Served:
    """A node that coordinates, behind a dispatcher or behind a few lines that do what one does."""

    def __init__(self, *, by_hand: bool = False, replicas: tuple[int, ...] = (1,), verifies: bool = True) -> None:
        denying = Denying((AclOperation.WRITE, "hidden"), (AclOperation.WRITE, "secret"))
        self.node = TransactionNode(
            authorizer=denying,
            replicas=replicas,
            transaction_partition_verification_enable="true" if verifies else "false",
        )
        for name, partitions in TOPICS.items():
            self.node.create_topic(name, partitions=partitions)
        self.connection = AnsweredConnection()
        self.dispatcher = Dispatcher(cast("Node", self.node), self.node.authorizer, "broker")
        self._by_hand = by_hand

    def read(self, *frames: bytes) -> None:
        connection = cast("Connection", self.connection)
        for frame in frames:
            if self.connection.is_closed:
                continue
            if self._by_hand:
                answer_by_hand(frame, self.connection, self.node, self.node.authorizer)
            else:
                self.dispatcher.frame(connection, memoryview(bytearray(frame)))
        self.dispatcher.frames_done(connection)

    def counted(self) -> object:
        """Of topics and admission; requests are counted by a dispatcher alone."""
        topics = {
            name: (counts.messages_in, counts.bytes_in, counts.total_produce_requests, counts.failed_produce_requests)
            for name, counts in self.node.metrics.topics.items()
        }
        return topics, self.node.transaction_admission.failure_count

    def requests(self) -> int:
        return sum(each.count for each in self.node.metrics.requests.values())

    def stable(self) -> list[tuple[int, int]]:
        logs = [partition.log for name in TOPICS for partition in self.node.partitions.named(TopicName(name)).values()]
        return [(log.last_stable_offset, log.high_watermark) for log in logs if log is not None]


class AProducer:
    """What a client remembers, told by the answers."""

    def __init__(self, transactional_id: str, *, raises_epochs: bool) -> None:
        self.transactional_id = transactional_id
        self.raises_epochs = raises_epochs
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}
        self.added: set[tuple[str, int]] = set()

    def begin(self) -> tuple[Request, int]:
        return InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000), 5

    def take_in(self, request: Request, response: Response) -> None:
        match response:
            case InitProducerIdResponse(error_code=0):
                self.producer_id, self.epoch = response.producer_id, response.producer_epoch
                self.sequences.clear()
                self.added.clear()
            case EndTxnResponse(error_code=0):
                self.added.clear()
                if response.producer_epoch >= 0:
                    self.producer_id, self.epoch = response.producer_id, response.producer_epoch
                    self.sequences.clear()
            case ProduceResponse():
                assert isinstance(request, ProduceRequest)
                for topic in response.responses:
                    for each in topic.partition_responses:
                        if each.error_code == 0:
                            where = (topic.name, each.index)
                            self.sequences[where] = self.sequences.get(where, 0) + 1
            case _:
                pass


def add(producer: AProducer, topics: Sequence[tuple[str, list[int]]]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[],
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics],
    )


def an_add(random: Random, producer: AProducer, *, is_odd: bool) -> tuple[Request, int]:
    topics = [("orders", random.choice([[0], [0, 1], [2, 1, 0]]))]
    if random.random() < 0.3:
        topics.append(("p", [0]))
    if is_odd:
        topics.append(random.choice([("orders", [0]), ("p", [7]), ("hidden", [0]), ("unknown", [0]), ("p", [0, 0])]))
    return add(producer, topics), random.randrange(4)


def a_produce(random: Random, producer: AProducer, *, is_odd: bool) -> tuple[Request, int]:
    version = random.choice([12] if producer.raises_epochs else [7, 8, 9, 10, 11])
    data: dict[str, list[PartitionProduceData]] = {}
    for name, index in random.sample([("orders", 0), ("orders", 1), ("orders", 2), ("p", 0)], random.choice([1, 1, 2])):
        sequence = producer.sequences.get((name, index), 0)
        batch = build_batch(
            [Record(0, 1000, None, b"v" * random.choice([1, 100]), ())],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=max(0, sequence + (random.choice([0, 0, 1, -1]) if is_odd else 0)),
            is_transactional=not (is_odd and random.random() < 0.2),
        )
        data.setdefault(name, []).append(PartitionProduceData(index=index, records=batch))
    return (
        ProduceRequest(
            transactional_id=random.choice([producer.transactional_id, None, ""])
            if is_odd
            else producer.transactional_id,
            acks=random.choice([-1, 1]),
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name=name, topic_id=ZERO_UUID, partition_data=partitions)
                for name, partitions in data.items()
            ],
        ),
        version,
    )


def an_end(random: Random, producer: AProducer, *, is_odd: bool) -> tuple[Request, int]:
    return (
        EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id + (random.choice([0, 1]) if is_odd else 0),
            producer_epoch=producer.epoch + (random.choice([0, 1, -1]) if is_odd else 0),
            committed=random.random() < 0.7,
        ),
        5 if producer.raises_epochs else random.randrange(5),
    )


def a_request(random: Random, producer: AProducer, *, is_odd: bool) -> tuple[Request, int]:
    if producer.producer_id < 0 or random.random() < 0.05:
        return producer.begin()
    makers = [a_produce, an_end] if producer.raises_epochs else [an_add, a_produce, an_end]
    return random.choice(makers)(random, producer, is_odd=is_odd)


def a_frame(random: Random, request: Request, version: int, correlation_id: int, *, is_odd: bool) -> bytes:
    client_id = random.choice([None, CLIENT, "ü"]) if is_odd else CLIENT
    frame = bytearray(request_frame(request, version, correlation_id, client_id)[4:])
    if is_odd and random.random() < 0.3:
        frame[random.randrange(8, len(frame))] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)])
    if is_odd and random.random() < 0.1:
        del frame[random.randrange(8, len(frame)) :]
    if is_odd and random.random() < 0.1:
        frame += b"\0"
    return bytes(frame)


@examples(50)
@given(seed=st.integers(0, 2**32))
def test_a_dispatcher_answers_writes_and_counts_what_the_handlers_do(seed: int) -> None:
    random = Random(seed)
    verifies = random.random() < 0.8
    producers = [AProducer(IDS[0], raises_epochs=False), AProducer(IDS[1], raises_epochs=True)]
    served, by_hand = (Served(by_hand=by_hand, verifies=verifies) for by_hand in (False, True))
    asked = 0
    for correlation_id in range(random.randrange(5, 40)):
        is_odd = random.random() < 0.2
        producer = random.choice(producers)
        request, version = a_request(random, producer, is_odd=is_odd)
        frame = a_frame(random, request, version, correlation_id, is_odd=is_odd)
        for each in (served, by_hand):
            each.read(frame)
        assert served.connection.answers == by_hand.connection.answers
        assert served.connection.is_closed == by_hand.connection.is_closed
        if served.connection.is_closed:
            break
        asked += 1
        passed_ms = random.choice([0, 0, 25])
        for each in (served, by_hand):
            each.node.timers.advance(passed_ms)
        answer = served.connection.answers[-1]
        if answer is not None and not is_odd:
            producer.take_in(request, read_response(answer, request.api_key, version)[1])

    assert served.node.files() == by_hand.node.files()
    assert served.stable() == by_hand.stable()
    assert served.counted() == by_hand.counted()
    if not served.connection.is_closed:
        assert served.requests() == asked


# --- a coordinator with another replica --------------------------------------------------------------------------------------


def followed(served: Served) -> None:
    served.node.partition(TRANSACTION_STATE).read_as_follower(OTHER, 100, 1000, broker_epoch=1, log_start_offset=0)
    log = served.node.partition(TRANSACTION_STATE).log
    assert log is not None
    served.node.partition(TRANSACTION_STATE).read_as_follower(
        OTHER, log.log_end_offset, 1000, broker_epoch=1, log_start_offset=0
    )


def led_elsewhere(served: Served) -> None:
    served.node.change(TRANSACTION_STATE, leader=OTHER)


def given_up(served: Served) -> None:
    served.node.timers.advance(60_000)


@pytest.mark.parametrize("ending", [followed, led_elsewhere, given_up])
@pytest.mark.parametrize(("adding_version", "ending_version"), [(0, 1), (3, 3), (2, 5)])
def test_what_waits_for_another_replica_is_answered_as_by_the_handler(
    ending: Callable[[Served], None], adding_version: int, ending_version: int
) -> None:
    both = Served(replicas=(1, OTHER)), Served(replicas=(1, OTHER), by_hand=True)
    producer = AProducer(IDS[0], raises_epochs=False)
    for served in both:
        request, version = producer.begin()
        served.read(request_frame(request, version, 1, CLIENT)[4:])
        followed(served)
        answer = served.connection.answers[-1]
        assert answer is not None
        producer.take_in(request, read_response(answer, request.api_key, version)[1])
        assert producer.producer_id >= 0

        served.read(request_frame(add(producer, [("orders", [1, 0]), ("p", [0])]), adding_version, 2, CLIENT)[4:])
        assert served.connection.answers[-1] is None
        if ending_version != 3:
            followed(served)
            request, version = an_end(Random(1), producer, is_odd=False)
            served.read(request_frame(request, ending_version, 3, CLIENT)[4:])
            assert served.connection.answers[-1] is None
        ending(served)

    assert both[0].connection.answers == both[1].connection.answers
    assert None not in both[0].connection.answers
    assert both[0].node.files() == both[1].node.files()
    assert both[0].counted() == both[1].counted()


def test_who_waits_for_the_log_is_told_to_come_again_after_request_timeout_ms() -> None:
    node = TransactionNode(replicas=(1, OTHER), request_timeout_ms="1500")
    given = node.ask(
        init_producer_id, InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000), 5
    )
    assert isinstance(given, Pending)

    node.timers.advance(1_499)
    assert not given.is_complete
    node.timers.advance(1)

    assert given.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("by_hand", [True, False])
def test_every_question_to_a_coordinator_is_timed(by_hand: bool) -> None:
    served = Served(by_hand=by_hand)
    producer = AProducer(IDS[0], raises_epochs=False)

    def ask(request: Request, version: int) -> None:
        served.read(request_frame(request, version, 1, CLIENT)[4:])
        answer = served.connection.answers[-1]
        assert answer is not None
        producer.take_in(request, read_response(answer, request.api_key, version)[1])

    ask(*producer.begin())
    ask(add(producer, [("orders", [0, 1, 2]), ("p", [0])]), 3)
    for _ in range(2):
        ask(*a_produce(Random(3), producer, is_odd=False))

    # The second batch finds the transaction open.
    assert served.node.transaction_admission.verification_ms.count == 1


# --- what is written ---------------------------------------------------------------------------------------------------------

PARTITIONS = st.frozensets(
    st.builds(
        TopicPartition,
        st.sampled_from(["orders", "ü", "t" * 130]).map(TopicName),
        st.integers(0, 2**31 - 1).map(PartitionIndex),
    ),
    max_size=300,
)
IDENTITIES = st.one_of(st.just(-1), st.integers(0, 2**63 - 1))
METADATA = st.builds(
    TransactionMetadata,
    transactional_id=st.just("ein-ü"),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(-1, 2**15 - 1),
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from([state for state in TransactionState if state < TransactionState.DEAD]),
    last_update_ms=st.integers(-1, 2**62),
    start_ms=st.integers(-1, 2**62),
    partitions=PARTITIONS,
    previous_producer_id=IDENTITIES,
    next_producer_id=IDENTITIES,
    next_producer_epoch=st.integers(-1, 2**15 - 1),
    client_transaction_version=st.integers(0, 2),
)


@examples(60)
@given(steps=st.lists(METADATA, min_size=1, max_size=3), version=st.integers(0, 2), timestamp_ms=st.integers(0, 2**61))
def test_a_batch_of_states_is_that_of_their_records(
    steps: list[TransactionMetadata], version: int, timestamp_ms: int
) -> None:
    rows = []
    for place, each in enumerate(steps):
        record = transaction_record(each, version)
        assert record.value is not None
        value = encode_coordinator_value(record.value, record.version)
        rows.append(Record(place, timestamp_ms, encode_coordinator_key(record.key), value, ()))

    batch = TransactionRecords(steps, version).to_batch(timestamp_ms)

    assert batch is not None
    assert bytes(batch) == build_batch(rows)


def test_an_id_that_no_record_can_name_makes_no_batch() -> None:
    metadata = TransactionMetadata("x" * 2**15, 1, 0, 1000, TransactionState.EMPTY, 0)
    assert TransactionRecords([metadata], 2).to_batch(0) is None


@given(
    control_type=st.sampled_from([ControlType.COMMIT, ControlType.ABORT]),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    coordinator_epoch=st.integers(0, 2**31 - 1),
    timestamp=st.integers(-1, 2**62),
    base_offset=st.integers(0, 2**62),
    leader_epoch=st.integers(-1, 2**31 - 1),
)
def test_a_marker_is_a_batch_of_its_record(
    control_type: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int,
    leader_epoch: int,
) -> None:
    value = b"\0\0" + coordinator_epoch.to_bytes(4, "big")

    batch = build_end_txn_marker(
        control_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )

    assert batch == build_batch(
        [Record(base_offset, timestamp, control_key(control_type), value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        is_transactional=True,
        is_control=True,
    )
