"""The gather of one read: what is written together, what closes it, and what each request is answered."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import cast

import pytest

from tests.support.answered_connection import AnsweredConnection
from tests.support.data_node import OTHER, DataNode
from tests.support.log_builder import LogBuilder
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.node_view import Node
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.principal import Principal
from tidelog.net.connection import Connection
from tidelog.security.acl_set import Rule
from tidelog.wire.frames import read_response, request_frame
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.schema import Request

load_handlers()

BATCHES = LogBuilder()
VERSION = 12


class Served:
    """A node whose dispatcher reads from one connection."""

    def __init__(self) -> None:
        self.node = DataNode()
        self.connection = AnsweredConnection()
        self.dispatcher = Dispatcher(cast("Node", self.node), self.node.authorizer, "broker")
        # Of the first request of its version more is looked up.
        self.node.create_topic("first")
        self.read(produce("first", "x"))
        self.connection.answers.clear()

    def take(self, request: Request, version: int = VERSION) -> None:
        """One frame of a read."""
        frame = bytearray(request_frame(request, version, 1, "a client")[4:])
        self.dispatcher.frame(cast("Connection", self.connection), memoryview(frame))

    def done(self) -> None:
        self.dispatcher.frames_done(cast("Connection", self.connection))

    def read(self, *requests: Request) -> None:
        for request in requests:
            self.take(request)
        self.done()

    @property
    def answered(self) -> Sequence[object]:
        """Of each Produce its first offsets, or the errors; None while it waits."""
        found: list[object] = []
        for data in self.connection.answers:
            if data is None:
                found.append(None)
                continue
            response = read_response(memoryview(bytearray(data)), ProduceRequest.api_key, VERSION)[1]
            assert isinstance(response, ProduceResponse)
            entries = [entry for topic in response.responses for entry in topic.partition_responses]
            found.append([ErrorCode.of(each.error_code) if each.error_code else each.base_offset for each in entries])
        return found


def produce(topic: str, *values: str, acks: int = 1, indexes: Sequence[int] = (0,)) -> ProduceRequest:
    """The same records for each of these partitions."""
    data = [PartitionProduceData(index=index, records=bytes(BATCHES.batch(*values))) for index in indexes]
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, topic_id=bytes(16), partition_data=data)],
    )


@pytest.fixture
def served() -> Served:
    served = Served()
    served.node.create_topic("orders", partitions=2)
    return served


def test_the_requests_of_a_read_are_one_write_for_each_partition(served: Served) -> None:
    # The first batch of a segment is written by itself.
    served.read(produce("orders", "a", indexes=(0, 1)))
    before = served.node.disk.changes

    served.take(produce("orders", "b", "c"))
    served.take(produce("orders", "d", indexes=(1, 0)))
    served.take(produce("orders", "e"))
    assert served.node.disk.changes == before
    assert served.answered == [[0, 0]]
    served.done()

    assert served.node.disk.changes == before + 2
    assert served.answered[1:] == [[1], [1, 3], [4]]
    assert BATCHES.values(served.node.log("orders", 0)) == ["a", "b", "c", "d", "e"]
    assert BATCHES.values(served.node.log("orders", 1)) == ["a", "d"]


def test_the_next_read_begins_with_nothing(served: Served) -> None:
    served.read(produce("orders", "a"))
    served.done()
    served.read(produce("orders", "b"))

    assert served.answered == [[0], [1]]


def test_another_request_sees_what_came_before_it(served: Served) -> None:
    served.take(produce("orders", "a"))
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic = FetchTopic(topic_id=served.node.image.topic_ids[TopicName("orders")], partitions=[partition])
    served.take(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic], forgotten_topics_data=[]), 17)

    answer = served.connection.answers[1]
    assert answer is not None
    response = read_response(memoryview(bytearray(answer)), FetchRequest.api_key, 17)[1]
    assert isinstance(response, FetchResponse)
    assert response.responses[0].partitions[0].high_watermark == 1


@pytest.mark.parametrize(
    ("unusual", "answer"),
    [
        (produce("orders", "b", acks=7), [[ErrorCode.INVALID_REQUIRED_ACKS]]),
        (produce("unknown", "b"), [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]),
        (produce("orders", "b", indexes=(0, 5)), [[1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]),
        (produce("orders", "b", acks=0), []),
    ],
)
def test_what_is_unusual_comes_after_what_was_gathered(
    served: Served, unusual: ProduceRequest, answer: list[object]
) -> None:
    served.take(produce("orders", "a"))
    served.take(unusual)
    assert served.answered == [[0], *answer]
    end = served.node.log("orders").log_end_offset

    served.take(produce("orders", "c"))
    served.done()

    assert served.answered == [[0], *answer, [end]]


def test_a_frame_that_cannot_be_read_loses_nothing_of_those_before_it(served: Served) -> None:
    served.take(produce("orders", "a"))
    frame = bytearray(request_frame(produce("orders", "b"), VERSION, 1, "a client")[4:-20])
    served.dispatcher.frame(cast("Connection", served.connection), memoryview(frame))

    assert served.connection.is_closed
    assert served.answered == [[0]]


def test_a_fault_of_the_disk_refuses_the_whole_run(served: Served) -> None:
    served.read(produce("orders", "a", indexes=(0, 1)))
    served.node.disk.fail("pwritev", "*orders-0/*.log", errno.EIO)

    # The directory is offline then: what comes before is written, what comes after is not.
    served.node.create_topic("before")
    served.read(produce("before", "b"), produce("orders", "c"), produce("orders", "d", indexes=(1, 0)))

    failed = ErrorCode.KAFKA_STORAGE_ERROR
    assert served.answered == [[0, 0], [0], [failed], [failed, failed]]


def test_answers_that_wait_for_replicas_keep_their_places(served: Served) -> None:
    served.node.create_topic("copied", replicas=(served.node.node_id, OTHER))

    served.read(produce("copied", "a", acks=-1), produce("orders", "b"), produce("copied", "c", acks=-1))
    assert served.answered == [None, [0], None]
    served.node.partition("copied").read_as_follower(OTHER, 1, 1000, broker_epoch=1, log_start_offset=0)
    assert served.answered == [[0], [0], None]
    served.node.timers.advance(1000)

    assert served.answered == [[0], [0], [ErrorCode.REQUEST_TIMED_OUT]]


def test_each_request_is_counted_by_itself(served: Served) -> None:
    counts = served.node.metrics.requests[ProduceRequest.api_key, VERSION]
    before = counts.count, counts.errors[0], counts.request_bytes
    requests = [produce("orders", "a", indexes=(0, 1)), produce("orders", "b")]

    served.read(*requests)

    size = sum(len(request_frame(each, VERSION, 1, "a client")) - 4 for each in requests)
    assert (counts.count, counts.errors[0], counts.request_bytes) == (before[0] + 2, before[1] + 3, before[2] + size)
    topic = served.node.metrics.topics[TopicName("orders")]
    assert (topic.total_produce_requests, topic.messages_in) == (3, 3)


# Several callers


class OnlyBob:
    """An authoriser that lets one principal write."""

    revision = 0

    def __init__(self) -> None:
        self.asked = 0

    def allows(self, principal: Principal, host: str, operation: object, resource_type: object, name: str) -> bool:
        self.asked += 1
        return self.rule(principal, host, operation, resource_type, name).is_allowed

    def rule(self, principal: Principal, host: str, operation: object, resource_type: object, name: str) -> Rule:
        assert all((host, operation, resource_type, name))
        return Rule(principal.name == "bob", "Test")

    def allows_any(self, principal: Principal, host: str, operation: object, resource_type: object) -> bool:
        raise NotImplementedError


def test_what_one_connection_may_write_another_may_not_although_they_take_turns() -> None:
    node, authorizer = DataNode(), OnlyBob()
    node.create_topic("orders")
    dispatcher = Dispatcher(cast("Node", node), authorizer, "broker")
    alice, bob = AnsweredConnection(), AnsweredConnection()
    alice.principal, bob.principal = Principal("User", "alice"), Principal("User", "bob")

    for turn in range(3):
        for connection in (bob, alice):
            for _ in range(2):
                frame = bytearray(request_frame(produce("orders", f"{turn}"), VERSION, 1, "a client")[4:])
                dispatcher.frame(cast("Connection", connection), memoryview(frame))
            dispatcher.frames_done(cast("Connection", connection))

    def codes(connection: AnsweredConnection) -> list[int]:
        found = []
        for data in connection.answers:
            assert data is not None
            answer = read_response(data, ProduceRequest.api_key, VERSION)[1]
            assert isinstance(answer, ProduceResponse)
            found.append(answer.responses[0].partition_responses[0].error_code)
        return found

    assert codes(bob) == [0] * 6
    assert codes(alice) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 6
    assert node.log("orders").log_end_offset == 6
    # Counted and logged once for each request, whether it is looked at once or, where it is refused, twice.
    assert authorizer.asked == 6 + 6


class NotSecret(OnlyBob):
    """Allows everyone everything but one topic, and notes what it is asked to decide."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def allows(self, principal: Principal, host: str, operation: object, resource_type: object, name: str) -> bool:
        self.names.append(name)
        return super().allows(principal, host, operation, resource_type, name)

    def rule(self, principal: Principal, host: str, operation: object, resource_type: object, name: str) -> Rule:
        assert all((principal, host, operation, resource_type))
        return Rule(name != "secret", "Test")


@pytest.mark.parametrize("acks", [1, 0])
def test_a_request_that_is_only_partly_allowed_is_counted_and_logged_once(acks: int) -> None:
    node, authorizer = DataNode(), NotSecret()
    node.create_topic("orders")
    node.create_topic("secret")
    dispatcher = Dispatcher(cast("Node", node), authorizer, "broker")
    request = produce("orders", "a", acks=acks)
    request.topic_data += produce("secret", "b").topic_data
    connection = cast("Connection", AnsweredConnection())

    dispatcher.frame(connection, memoryview(bytearray(request_frame(request, VERSION, 1, "a client")[4:])))
    dispatcher.frames_done(connection)

    assert authorizer.names == ["orders", "secret"]
    assert node.log("orders").log_end_offset == 1


def test_nothing_is_asked_of_the_topics_of_transactional_records_without_an_id() -> None:
    node, authorizer = DataNode(), OnlyBob()
    node.create_topic("orders")
    dispatcher = Dispatcher(cast("Node", node), authorizer, "broker")
    bob = AnsweredConnection()
    bob.principal = Principal("User", "bob")
    request = produce("orders", "a")
    batch = BATCHES.batch("a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    request.topic_data[0].partition_data[0].records = bytes(batch)

    dispatcher.frame(cast("Connection", bob), memoryview(bytearray(request_frame(request, VERSION, 1, "a client")[4:])))
    dispatcher.frames_done(cast("Connection", bob))

    (data,) = bob.answers
    assert data is not None
    answer = read_response(data, ProduceRequest.api_key, VERSION)[1]
    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert authorizer.asked == 0
