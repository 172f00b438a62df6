"""A client with a fetch session knows what a client without one would be told, however the partitions and the session change.

The model is the client of KIP-227: it names its partitions once, then what changes, and applies each answer to what it knows.
Beside it, a full fetch asks for the same partitions. After every answer both must know the same; and read records come in order,
none twice and none left out.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings, strategies as st

from tests.support.appends import produced
from tests.support.data_node import DataNode
from tests.support.log_builder import LogBuilder
from tidelog.broker.handlers.fetch import fetch
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.pending import Pending
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tidelog.wire.record_batch import each_batch

PARTITIONS = 5
VERSION = 18
BATCHES = LogBuilder()

# What a client knows of a partition: error, high watermark, log start.
Known = tuple[int, int, int]


def known_of(data: PartitionData) -> Known:
    return data.error_code, data.high_watermark, data.log_start_offset


class Client:
    """Fetches `orders` in a session, and remembers what it was told."""

    def __init__(self, node: DataNode) -> None:
        self.node = node
        self.topic_id = node.image.topic_ids[TopicName("orders")]
        self.session_id = 0
        self.epoch = 0
        self.offsets: dict[int, int] = {}
        self.known: dict[int, Known] = {}
        self._sent: dict[int, int] = {}
        self._forgotten: list[int] = []
        # What is known of partitions that the leader has not been told to forget yet.
        self._left: dict[int, Known] = {}

    def follow(self, index: int, offset: int) -> None:
        self.offsets[index] = offset
        if index in self._forgotten:
            self._forgotten.remove(index)
            self.known[index] = self._left.pop(index)

    def leave(self, index: int) -> None:
        if self.offsets.pop(index, None) is not None:
            known = self.known.pop(index, None)
            if self._sent.pop(index, None) is not None and known is not None:
                self._forgotten.append(index)
                self._left[index] = known

    def request(self, *, max_bytes: int, max_wait_ms: int = 0) -> FetchRequest:
        is_full = self.epoch == 0
        named = {index: offset for index, offset in self.offsets.items() if is_full or self._sent.get(index) != offset}
        forgotten = [] if is_full else self._forgotten
        self._sent = dict(self.offsets)
        self._forgotten = []
        self._left = {}
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[self._topic(named)] if named else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=self.topic_id, partitions=forgotten)] if forgotten else [],
        )

    def _topic(self, offsets: dict[int, int]) -> FetchTopic:
        return FetchTopic(
            topic_id=self.topic_id,
            partitions=[
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                for index, offset in offsets.items()
            ],
        )

    def apply(self, response: FetchResponse) -> None:
        if response.error_code:
            self.session_id = self.epoch = 0
            self._sent = {}
            return
        if self.epoch == 0:
            self.known = {}
        self.session_id = response.session_id
        self.epoch = self.epoch + 1 if response.session_id else 0
        for topic in response.responses:
            for data in topic.partitions:
                self.known[data.partition_index] = known_of(data)
                self._read(data)

    def _read(self, data: PartitionData) -> None:
        index = data.partition_index
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.offsets[index] = self.node.log("orders", index).log_start_offset
        elif data.records:
            assert isinstance(data.records, bytes), "so few that they are copied"
            for _, header in each_batch(data.records):
                assert header.base_offset <= self.offsets[index] <= header.last_offset
                self.offsets[index] = header.next_offset

    def without_session(self, offsets: dict[int, int]) -> dict[int, Known]:
        """What a client without a session would be told of the same partitions."""
        if not offsets:
            return {}
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=-1,
            topics=[self._topic(offsets)],
            forgotten_topics_data=[],
        )
        response = self.node.answered(fetch, request, VERSION)
        return {data.partition_index: known_of(data) for topic in response.responses for data in topic.partitions}


index_of = st.integers(0, PARTITIONS - 1)
change = st.one_of(
    st.tuples(st.just("append"), index_of),
    st.tuples(st.just("delete"), index_of),
    st.tuples(st.just("follow"), index_of),
    st.tuples(st.just("follow far ahead"), index_of),
    st.tuples(st.just("leave"), index_of),
    st.tuples(st.just("fetch"), st.sampled_from([1, 200, 1 << 20])),
    st.tuples(st.just("wait"), index_of),
    st.tuples(st.just("evict"), st.just(0)),
)


@settings(max_examples=60)
@given(changes=st.lists(change, min_size=5, max_size=40))
def test_a_session_tells_all_that_a_full_fetch_would(changes: list[tuple[str, int]]) -> None:
    node = DataNode()
    node.create_topic("orders", partitions=PARTITIONS)
    client = Client(node)

    def append(index: int) -> None:
        produced(node.partition("orders", index), BATCHES.batch("a", "b"))

    def ask(max_bytes: int, meanwhile: Callable[[], None] | None = None) -> None:
        request = client.request(max_bytes=max_bytes, max_wait_ms=100 if meanwhile else 0)
        asked = dict(client.offsets)
        answer = node.ask(fetch, request, VERSION)
        if meanwhile is not None:
            meanwhile()
        if isinstance(answer, Pending):
            node.timers.advance(100)
            answer = answer.value
        expected = client.without_session(asked)
        client.apply(answer)
        if not answer.error_code and meanwhile is None:
            assert client.known == expected

    for name, value in changes:
        if name == "append":
            append(value)
        elif name == "delete":
            node.partition("orders", value).delete_records(-1)
        elif name == "follow":
            client.follow(value, node.log("orders", value).log_start_offset)
        elif name == "follow far ahead":
            client.follow(value, 1_000_000)
        elif name == "leave":
            client.leave(value)
        elif name == "evict":
            node.fetch_sessions.close(client.session_id)
        elif name == "wait":
            ask(1 << 20, meanwhile=lambda value=value: append(value))  # type: ignore[misc]
        else:
            ask(value)

    # In the end it catches up with everything, and knows it.
    for _ in range(PARTITIONS * 4 + 10):
        ask(1 << 20)
    ends = {index: node.log("orders", index).log_end_offset for index in client.offsets}
    assert client.offsets == ends
    assert node.timers.pending == 0
    # As many as are watched, and none once the session is gone.
    sessions = node.fetch_sessions
    assert sum(node.partition("orders", index).watcher_count for index in range(PARTITIONS)) == sessions.links.count
    assert sessions.links.count == (len(ends) if client.session_id else 0)
    sessions.close(client.session_id)
    assert all(node.partition("orders", index).watcher_count == 0 for index in range(PARTITIONS))
    assert sessions.links.count == 0
