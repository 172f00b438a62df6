"""The watch of a fetch session: what an answer looks at, what an idle session costs others, and where its limit is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.appends import checked
from tests.support.data_node import NODE, OTHER, DataNode, Denying
from tests.support.log_builder import LogBuilder
from tidelog.broker.handlers.fetch import fetch
from tidelog.model.acl import AclOperation
from tidelog.model.data_plane_config import DATA_PLANE_KEYS, RACK_AWARE_SELECTOR
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.pending import Pending
from tidelog.storage.append import AppendRule
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FreshRegion
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

BATCHES = LogBuilder()
LATEST = 18
PARTITIONS = 4


class Client:
    """A consumer with a session of `orders`, at the end of each of its partitions."""

    def __init__(self, node: DataNode, topic: str = "orders") -> None:
        self.node = node
        self.topic_id = node.image.topic_ids[TopicName(topic)]
        self.session_id = self.epoch = 0
        partitions = node.partitions.named(TopicName(topic))
        ends: dict[int, int] = {index: node.log(topic, index).log_end_offset for index in partitions}
        self.ask(ends)
        self.ask()

    def send(self, offsets: dict[int, int] | None = None, **options: Any) -> FetchResponse | Pending[FetchResponse]:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in (offsets or {}).items()
        ]
        request = FetchRequest(
            **{"max_wait_ms": 0, "min_bytes": 1, **options},
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[],
        )
        self.epoch += 1
        answer: FetchResponse | Pending[FetchResponse] = self.node.ask(fetch, request, LATEST)
        return answer

    def ask(self, offsets: dict[int, int] | None = None, **options: Any) -> list[tuple[int, int, int]]:
        """Of each partition in the answer: its index, its error, and its high watermark."""
        answer = self.send(offsets, **options)
        assert isinstance(answer, FetchResponse)
        assert answer.error_code == 0
        self.session_id = answer.session_id
        return told(answer)

    def wait(self, **options: Any) -> Pending[FetchResponse]:
        answer = self.send(max_wait_ms=500, **options)
        assert isinstance(answer, Pending)
        assert not answer.is_complete
        return answer


def told(answer: FetchResponse) -> list[tuple[int, int, int]]:
    return [
        (each.partition_index, each.error_code, each.high_watermark)
        for topic in answer.responses
        for each in topic.partitions
    ]


@pytest.fixture
def node() -> DataNode:
    node = DataNode(session_slots=2000)
    node.create_topic("orders", partitions=PARTITIONS)
    return node


def append(node: DataNode, index: int = 0, topic: str = "orders") -> None:
    """As Produce does."""
    node.partition(topic, index).append([checked(BATCHES.batch("a"))], AppendRule.LEADER, required_acks=1)


def reads(node: DataNode) -> int:
    return sum(counts.total_fetch_requests for counts in node.metrics.topics.values())


def watchers(node: DataNode) -> int:
    return sum(each.watcher_count for each in node.partitions)


# What an answer looks at


def test_an_answer_looks_at_what_has_changed_alone(node: DataNode) -> None:
    client = Client(node)
    before = reads(node)

    append(node, 2)
    assert client.ask() == [(2, 0, 1)]
    assert reads(node) == before + 1
    # It has not been told yet that the client has read it.
    client.ask({2: 1})
    before = reads(node)
    assert client.ask() == []
    assert reads(node) == before


def test_who_waits_reads_what_has_changed_alone(node: DataNode) -> None:
    client = Client(node)
    before = reads(node)

    answer = client.wait()
    append(node, 3)

    assert told(answer.value) == [(3, 0, 1)]
    assert reads(node) == before + 1


def test_a_partition_in_error_is_looked_at_every_time_and_the_others_are_not(node: DataNode) -> None:
    client = Client(node)
    assert client.ask({1: 7}) == [(1, ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    before = reads(node)

    assert client.ask() == client.ask() == [(1, ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert reads(node) == before + 2
    append(node, 0)
    assert client.ask() == [(0, 0, 1), (1, ErrorCode.OFFSET_OUT_OF_RANGE, -1)]


def test_a_log_start_that_retention_moves_is_told(node: DataNode) -> None:
    node.configure("orders", {"retention.ms": "1000"})
    append(node, 1)
    client = Client(node)
    node.clock.advance(10 * 365 * 24 * 3600 * 1000)

    for directory in node.log_directories:
        directory.apply_retention()

    assert node.log("orders", 1).log_start_offset == 1
    assert client.ask() == [(1, 0, 1)]


@pytest.mark.parametrize("way", ["configuration", "in-sync set", "joining"])
def test_a_high_watermark_that_moves_without_a_write_is_told(node: DataNode, way: str) -> None:
    node.create_topic("spread", replicas=(NODE, OTHER), configs={"min.insync.replicas": "2"})
    partition = node.partition("spread")
    append(node, topic="spread")
    if way == "joining":
        node.configure("spread", {"min.insync.replicas": "1"})
        node.change("spread", isr=[1])
        partition.count_joining((OTHER,))
        append(node, topic="spread")
    elif way == "configuration":
        node.change("spread", isr=[1])
    client = Client(node, "spread")
    before = node.log("spread").high_watermark
    assert client.ask({0: before}) == []
    waiting = client.wait()

    if way == "joining":
        partition.count_joining(())
    elif way == "configuration":
        node.configure("spread", {"min.insync.replicas": "1"})
    else:
        node.configure("spread", {"min.insync.replicas": "1"})
        node.change("spread", isr=[1])

    end = node.log("spread").log_end_offset
    assert node.log("spread").high_watermark == end > before
    assert told(waiting.value) == [(0, 0, end)]


def test_another_isolation_level_looks_at_everything(node: DataNode) -> None:
    client = Client(node)
    before = reads(node)

    client.ask({}, isolation_level=1)

    # Of those that have nothing new for either of them, nothing is read all the same.
    assert reads(node) == before
    assert client.ask({0: 0}, isolation_level=0) == []


def test_who_may_read_a_topic_is_asked_again_when_the_rules_have_changed() -> None:
    authorizer = Denying()
    node = DataNode(authorizer=authorizer)
    node.create_topic("orders", partitions=2)
    client = Client(node)
    assert client.ask() == []

    authorizer.change((AclOperation.READ, "orders"))
    denied = [(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1) for index in range(2)]
    assert client.ask() == client.ask() == denied
    assert watchers(node) == node.fetch_sessions.links.count == 0
    authorizer.change()
    assert client.ask() == [(0, 0, 0), (1, 0, 0)]
    assert client.ask() == []


def test_a_session_may_go_on_as_somebody_else(node: DataNode) -> None:
    client = Client(node)
    append(node, 1)
    client.ask({1: 1})
    node.connection.host = "10.0.0.1"

    assert client.ask() == []
    append(node, 1)
    assert client.ask() == [(1, 0, 2)]


def test_a_replica_that_becomes_the_closest_is_told_without_a_change_of_the_partition(node: DataNode) -> None:
    node.config = DATA_PLANE_KEYS.parse({"replica.selector.class": RACK_AWARE_SELECTOR})
    for number, rack in ((1, "r1"), (2, "r2")):
        node.register_broker(number, f"node-{number}", 9092, rack=rack)
    node.create_topic("spread", replicas=(NODE, OTHER))
    client = Client(node, "spread")
    assert client.ask(rack_id="r2") == []

    # It has nothing yet, as all have: the high watermark stays.
    node.partition("spread").read_as_follower(OTHER, 0, 100, broker_epoch=2, log_start_offset=0)
    answer = client.send(rack_id="r2")

    assert isinstance(answer, FetchResponse)
    assert answer.responses[0].partitions[0].preferred_read_replica == OTHER
    assert node.fetch_sessions.links.count == 0


# What it costs others


def test_a_write_tells_an_idle_session_once(node: DataNode) -> None:
    client = Client(node)
    assert node.partition("orders", 0).watcher_count == 1

    append(node)

    assert node.partition("orders", 0).watcher_count == 0
    assert watchers(node) == node.fetch_sessions.links.count == PARTITIONS - 1
    client.ask()
    client.ask({0: 1})
    assert watchers(node) == node.fetch_sessions.links.count == PARTITIONS


def test_a_thousand_idle_sessions_are_no_watchers_from_the_second_write_on(node: DataNode) -> None:
    clients = [Client(node) for _ in range(1000)]
    assert node.partition("orders", 0).watcher_count == 1000

    append(node)
    assert node.partition("orders", 0).watcher_count == 0
    append(node)

    assert clients[500].ask() == [(0, 0, 2)]


@pytest.mark.parametrize("is_waiting", [True, False])
def test_records_are_kept_for_who_waits_and_not_for_a_watch(node: DataNode, *, is_waiting: bool) -> None:
    node.create_topic("spread", replicas=(NODE, OTHER))
    client = Client(node, "spread")
    if is_waiting:
        client.wait()

    append(node, topic="spread")

    found = node.log("spread").read(0, 1 << 20, FetchIsolation.LOG_END)
    assert isinstance(found, Fetched)
    assert (type(found.regions[0]) is FreshRegion) == is_waiting


# Its end, and its limit


def test_a_session_that_goes_watches_nothing(node: DataNode) -> None:
    client = Client(node)
    node.fetch_sessions.close(client.session_id)

    assert watchers(node) == node.fetch_sessions.links.count == 0


def test_a_fetch_that_waits_when_its_session_goes_is_answered_all_the_same(node: DataNode) -> None:
    client = Client(node)
    waiting = client.wait()
    node.fetch_sessions.close(client.session_id)
    assert not waiting.is_complete

    append(node, 1)

    assert told(waiting.value) == [(1, 0, 1)]
    assert watchers(node) == node.fetch_sessions.links.count == 0


def test_what_is_beyond_the_limit_is_looked_at_every_time(node: DataNode) -> None:
    links = node.fetch_sessions.links
    links.most = PARTITIONS + 1
    first, second = Client(node), Client(node)
    assert watchers(node) == links.count == PARTITIONS + 1

    waiting = second.wait()
    # As long as it waits it has to hear of everything.
    assert watchers(node) == links.count == 2 * PARTITIONS
    append(node, 3)
    assert told(waiting.value) == [(3, 0, 1)]
    assert watchers(node) == links.count <= PARTITIONS + 1
    assert first.ask() == [(3, 0, 1)]
    node.fetch_sessions.close(first.session_id)
    second.ask({3: 1})
    second.ask()
    assert watchers(node) == links.count == PARTITIONS


def test_a_fetch_of_a_session_that_waits_gives_nothing_to_who_has_lost_the_right_meanwhile() -> None:
    authorizer = Denying()
    node = DataNode(authorizer=authorizer)
    node.create_topic("orders", partitions=PARTITIONS)
    client = Client(node)
    waiting = client.wait()

    authorizer.change((AclOperation.READ, "orders"))
    append(node, 1)

    answer = waiting.value
    # All of them are, whether they have changed or not.
    refused = [(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1) for index in range(PARTITIONS)]
    assert told(answer) == refused
    assert not any(each.records for topic in answer.responses for each in topic.partitions)
    assert client.ask() == refused


def test_a_session_of_many_partitions_is_refused_each_of_them_however_idle() -> None:
    authorizer = Denying()
    node = DataNode(authorizer=authorizer)
    node.create_topic("orders", partitions=50)
    client = Client(node)
    for index in range(0, 50, 7):
        append(node, index)

    authorizer.change((AclOperation.READ, "orders"))

    refused = client.ask()
    assert [(index, error) for index, error, _ in refused] == [
        (index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for index in range(50)
    ]
    authorizer.change()
    assert len(client.ask()) == 50
