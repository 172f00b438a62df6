"""A follower and its leader: what is asked for, what is done with each kind of answer, and how soon it is asked again."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest

from tests.support.data_node import NODE, OTHER, THIRD, DataNode
from tests.support.log_builder import LogBuilder
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import BrokerEpoch, NodeId
from tidelog.model.throttle_config import THROTTLE_KEYS
from tidelog.net.node_connection import Event, NodeConnection
from tidelog.replication.follower_session import FollowerSession
from tidelog.replication.following import restart_within
from tidelog.replication.leader_link import LeaderLink
from tidelog.replication.offset_lookup import EARLIEST
from tidelog.replication.replica_fetcher import LOOK_AT_ALL_MS, FetchSettings, ReplicaFetcher
from tidelog.replication.replica_fetchers import ReplicaFetchers
from tidelog.replication.throttles import ReplicationThrottles
from tidelog.wire.codec import decode, encode
from tidelog.wire.frames import read_response, response_frame
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.record_batch import restamp
from tidelog.wire.schema import Request, Response

SESSION = 99
BATCHES = LogBuilder()


class Link(LeaderLink):
    """Keeps what is asked for, until the test answers it."""

    def __init__(self) -> None:
        super().__init__(_no_dialling, lambda: ("leader", 9092), "test")
        self.asked: list[tuple[Request, Callable[[Response | None], None]]] = []
        self.versions: list[int] = []
        self.resets = 0

    def ask(self, request: Request, version: int, then: Callable[[Response | None], None], *, timeout_ms: int) -> bool:
        assert version > 0
        assert timeout_ms > 0

        def answered(response: Response | None) -> None:
            frame = None if response is None else bytearray(response_frame(response, version, 0))
            then(None if frame is None else read_response(memoryview(frame)[4:], request.api_key, version)[1])

        # Both as they come out of the bytes on the wire.
        self.asked.append((decode(type(request), version, encode(request, version)), answered))
        self.versions.append(version)
        return True

    def reset(self) -> None:
        self.resets += 1
        asked, self.asked = self.asked, []
        for _, then in asked:
            then(None)

    @property
    def fetch(self) -> FetchRequest:
        [(request, _)] = self.asked
        assert isinstance(request, FetchRequest)
        return request

    def answer(self, response: Response | None) -> None:
        [(_, then)] = self.asked
        self.asked = []
        then(response)


def _no_dialling(host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection:
    raise AssertionError("nothing is dialled here")


class Follower:
    """A node that follows one partition, and its leader in the hands of a test."""

    node_id = NODE
    broker_epoch = BrokerEpoch(5)
    list_offsets_version = 9

    def __init__(self, fetch_version: int = 17) -> None:
        self.fetch_version = fetch_version
        self.node = DataNode()
        self.node.create_topic("orders", replicas=(OTHER, NODE, THIRD), leader=OTHER)
        self.partition = self.node.partition("orders")
        self.link = Link()
        self.rates: dict[str, str] = {}
        self.throttles = ReplicationThrottles(NODE, self.node.clock, lambda: THROTTLE_KEYS.parse(self.rates))
        self.fetcher = ReplicaFetcher(
            OTHER,
            self.link,
            FetchSettings(),
            self,
            self.node.partitions.wakeups,
            self.node.timers,
            self.node.clock,
            self.throttles,
            self.node.partitions.traffic,
        )
        self.fetcher.follow(self.partition)
        self.pass_ms(0)

    def pass_ms(self, ms: int) -> None:
        self.node.timers.advance(ms)

    @property
    def asked(self) -> FetchPartition:
        [topic] = self.link.fetch.topics
        [partition] = topic.partitions
        return partition

    def answer(self, **data: object) -> None:
        partition = PartitionData(
            **{  # type: ignore[arg-type]
                "partition_index": 0,
                "error_code": 0,
                "high_watermark": 0,
                "log_start_offset": 0,
                "aborted_transactions": None,
                "records": b"",
                **data,
            }
        )
        topic = FetchableTopicResponse(topic_id=self.partition.topic_id, partitions=[partition])
        self.link.answer(FetchResponse(throttle_time_ms=0, error_code=0, session_id=SESSION, responses=[topic]))

    @property
    def ends(self) -> tuple[int, int, int]:
        log = self.node.log("orders")
        return log.log_start_offset, log.high_watermark, log.log_end_offset


@pytest.fixture
def follower() -> Follower:
    return Follower()


def batch(*values: str, offset: int, epoch: int = 0) -> bytes:
    data = bytearray(BATCHES.batch(*values))
    restamp(data, 0, base_offset=offset, leader_epoch=epoch)
    return bytes(data)


def test_what_the_leader_sends_is_appended_and_asked_for_from_there(follower: Follower) -> None:
    assert follower.link.fetch.replica_state.replica_id == NODE
    assert follower.link.fetch.replica_state.replica_epoch == 5
    assert (follower.asked.fetch_offset, follower.asked.last_fetched_epoch) == (0, -1)
    follower.answer(records=batch("a", "b", offset=0) + batch("c", offset=2), high_watermark=2)
    assert follower.ends == (0, 2, 3)
    assert (follower.asked.fetch_offset, follower.asked.last_fetched_epoch) == (3, 0)
    follower.answer(high_watermark=3, log_start_offset=1)
    assert follower.ends == (1, 3, 3)


@pytest.mark.parametrize("version", [13, 14, 15, 18])
def test_the_clusters_level_says_in_which_version_it_is_asked(version: int) -> None:
    follower = Follower(fetch_version=version)
    for offset in range(3):
        asked = follower.link.fetch
        assert follower.link.versions[-1] == version
        if version < 15:
            assert (asked.replica_id, asked.replica_state.replica_id) == (NODE, -1)
        else:
            assert (asked.replica_id, asked.replica_state.replica_id, asked.replica_state.replica_epoch) == (
                -1,
                NODE,
                5,
            )
        assert follower.asked.fetch_offset == offset
        follower.answer(records=batch("a", offset=offset))

    # The level is raised; what follows an answer that was on its way goes by it in a moment.
    follower.fetch_version = 17
    follower.node.clock.advance(LOOK_AT_ALL_MS)
    follower.answer(records=batch("a", offset=3))
    assert follower.link.versions[-1] == 17
    assert follower.link.fetch.replica_state.replica_id == NODE


def test_what_a_reassignment_brings_here_counts_as_such_until_it_is_done(follower: Follower) -> None:
    traffic = follower.node.partitions.traffic
    first, second, third = (batch(each, offset=number) for number, each in enumerate(("a", "bb", "ccc")))
    follower.answer(records=first)
    follower.node.change("orders", adding_replicas=[NODE], removing_replicas=[THIRD])
    follower.answer(records=second)
    # Somebody else is on the way now.
    follower.node.change("orders", adding_replicas=[THIRD], removing_replicas=[NODE])
    follower.answer(records=third)
    damaged = bytearray(batch("d", offset=3))
    damaged[-1] ^= 1
    follower.answer(records=bytes(damaged))

    assert traffic.reassignment_bytes_in == len(second)
    assert traffic.replication_bytes_in == len(first) + len(second) + len(third)


def test_a_session_names_only_what_has_changed(follower: Follower) -> None:
    assert (follower.link.fetch.session_id, follower.link.fetch.session_epoch) == (0, 0)
    follower.answer(records=batch("a", offset=0))
    assert (follower.link.fetch.session_id, follower.link.fetch.session_epoch) == (SESSION, 1)
    assert follower.asked.fetch_offset == 1
    follower.link.answer(FetchResponse(throttle_time_ms=0, error_code=0, session_id=SESSION, responses=[]))
    assert (follower.link.fetch.session_epoch, follower.link.fetch.topics) == (2, [])


def test_a_session_that_the_leader_forgot_is_begun_anew_at_once(follower: Follower) -> None:
    follower.answer(records=batch("a", offset=0))
    error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    follower.link.answer(FetchResponse(throttle_time_ms=0, error_code=error, responses=[]))
    assert (follower.link.fetch.session_id, follower.link.fetch.session_epoch) == (0, 0)
    assert follower.asked.fetch_offset == 1


def test_a_log_that_left_the_leaders_is_cut_where_it_did(follower: Follower) -> None:
    follower.answer(records=batch("a", offset=0) + batch("b", "c", offset=1, epoch=1))
    assert follower.asked.last_fetched_epoch == 1
    follower.answer(diverging_epoch=EpochEndOffset(epoch=0, end_offset=1))
    assert follower.ends[2] == 1
    assert (follower.asked.fetch_offset, follower.asked.last_fetched_epoch) == (1, 0)


def test_an_epoch_that_this_log_never_had_cuts_it_to_the_one_before(follower: Follower) -> None:
    follower.answer(records=batch("a", offset=0) + batch("b", offset=1, epoch=1) + batch("c", offset=2, epoch=4))
    follower.answer(diverging_epoch=EpochEndOffset(epoch=3, end_offset=9))
    # Epoch 3 is not here; what came before it is epoch 1, which ends at 2.
    assert follower.ends[2] == 2


def test_an_error_pauses_the_partition_for_longer_each_time(follower: Follower) -> None:
    for pause_ms in (20, 40, 80):
        follower.answer(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
        follower.pass_ms(pause_ms - 1)
        assert follower.link.asked == []
        follower.pass_ms(1)
        # The session knows what is asked for.
        assert follower.link.fetch.topics == []
    follower.answer(records=batch("a", offset=0))
    follower.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    follower.pass_ms(19)
    assert follower.link.asked == []
    follower.pass_ms(1)
    assert len(follower.link.asked) == 1


def test_no_answer_pauses_everything(follower: Follower) -> None:
    follower.link.answer(None)
    assert follower.link.asked == []
    follower.pass_ms(20)
    assert follower.link.fetch.session_epoch == 0


def test_records_that_are_damaged_are_not_appended(follower: Follower) -> None:
    data = bytearray(batch("a", offset=0))
    data[-1] ^= 1
    follower.answer(records=bytes(data))
    assert follower.ends[2] == 0
    assert follower.link.asked == []


def answer_range(follower: Follower, leader_start: int | None, leader_end: int) -> None:
    """Answer the two questions where the leader's log is; an error instead of its start where that is None."""
    asked, follower.link.asked = follower.link.asked, []
    assert len(asked) == 2
    for request, then in asked:
        assert isinstance(request, ListOffsetsRequest)
        is_start = request.topics[0].partitions[0].timestamp == EARLIEST
        offset = leader_start if is_start else leader_end
        then(None if offset is None else _offset(offset))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (batch("a", "b", "c", offset=0), (1, 3, 3)),
        (batch("a", "b", "c", offset=0, epoch=2) + batch("d", offset=3, epoch=3), (1, 4, 4)),
        (batch("a", "b", "c", offset=0) + batch("d", offset=3)[:-1], (1, 3, 3)),
    ],
    ids=["one batch", "several", "the last one cut off"],
)
def test_a_leaders_log_that_starts_in_the_middle_of_a_batch_is_copied_with_the_whole_of_it(
    follower: Follower, sent: bytes, expected: tuple[int, int, int], caplog: pytest.LogCaptureFixture
) -> None:
    follower.answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    answer_range(follower, 1, expected[2])
    follower.pass_ms(0)
    assert follower.asked.fetch_offset == 1
    follower.answer(records=sent, high_watermark=expected[2], log_start_offset=1)
    assert follower.ends == expected
    assert follower.node.log("orders").size_bytes >= len(batch("a", "b", "c", offset=0))
    assert (follower.asked.fetch_offset, follower.asked.log_start_offset) == (expected[2], 1)
    assert "refused" not in caplog.text

    follower.node.restart()
    assert follower.ends == expected


@pytest.mark.parametrize(
    "sent",
    [batch("a", offset=0), batch("a", "b", "c", "d", offset=1)],
    ids=["it ends before the log does", "the log has records"],
)
def test_a_batch_that_does_not_follow_the_log_pauses_the_partition_and_is_told_once(
    follower: Follower, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    if len(sent) == len(batch("a", offset=0)):
        restart_within(follower.partition, 1, 9, 0)
    else:
        follower.answer(records=batch("a", "b", offset=0), high_watermark=2)
    follower.fetcher.forget(follower.partition)
    follower.fetcher.follow(follower.partition)
    follower.pass_ms(0)
    before = follower.ends
    for pause_ms in (20, 40, 80, 160):
        follower.answer(records=sent, high_watermark=5)
        follower.pass_ms(pause_ms - 1)
        assert follower.link.asked == []
        follower.pass_ms(1)
        assert len(follower.link.asked) == 1
    assert follower.ends == before
    assert caplog.text.count("what the leader sent is refused") == 1

    # Once it goes on, another refusal is news again.
    end = before[2]
    follower.answer(records=batch("x", offset=end), high_watermark=end)
    follower.answer(records=sent, high_watermark=5)
    assert caplog.text.count("what the leader sent is refused") == 2


@pytest.mark.parametrize("leader_start", [None, 0], ids=["no answer", "the log is within the range"])
def test_out_of_range_without_an_end_is_asked_again_after_a_pause(follower: Follower, leader_start: int | None) -> None:
    for pause_ms in (20, 40, 80):
        follower.answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        answer_range(follower, leader_start, 0)
        follower.pass_ms(pause_ms - 1)
        assert follower.link.asked == []
        follower.pass_ms(1)
        assert len(follower.link.asked) == 1


@pytest.mark.parametrize(
    ("leader_start", "leader_end", "expected"),
    [(10, 20, (10, 10, 10)), (0, 1, (0, 1, 1)), (1, 9, (0, 2, 3))],
    ids=["behind the leader's start", "beyond the leader's end", "neither, in the end"],
)
def test_out_of_range_asks_the_leader_where_its_log_is(
    follower: Follower, leader_start: int, leader_end: int, expected: tuple[int, int, int]
) -> None:
    follower.answer(records=batch("a", "b", "c", offset=0), high_watermark=2)
    follower.answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    answer_range(follower, leader_start, leader_end)
    # Where the log has not moved, it is asked for again after a pause.
    follower.pass_ms(0 if follower.ends[2] != 3 else 20)
    # A batch is never cut in two.
    assert follower.ends == ((0, 0, 0) if leader_end == 1 else expected)
    assert [each.partitions[0].fetch_offset for each in follower.link.fetch.topics] in ([follower.ends[2]], [])


def test_a_partition_that_is_new_does_not_wait_for_a_fetch_that_is_held_back(follower: Follower) -> None:
    follower.node.create_topic("payments", replicas=(OTHER, NODE), leader=OTHER)
    follower.pass_ms(400)
    follower.fetcher.follow(follower.node.partition("payments"))
    follower.pass_ms(0)
    assert follower.link.resets == 1
    assert len(follower.link.fetch.topics) == 2


def test_another_leader_is_fetched_from_by_another_fetcher() -> None:
    follower = Follower()
    fetchers = ReplicaFetchers(lambda leader: _fetcher(follower, leader))
    made: dict[NodeId, Link] = {}

    def _fetcher(follower: Follower, leader: NodeId) -> ReplicaFetcher:
        made[leader] = Link()
        node = follower.node
        return ReplicaFetcher(
            leader,
            made[leader],
            FetchSettings(),
            follower,
            node.partitions.wakeups,
            node.timers,
            node.clock,
            follower.throttles,
            node.partitions.traffic,
        )

    fetchers.role_changed(follower.partition)
    follower.pass_ms(0)
    assert len(made[OTHER].asked) == 1
    follower.node.change("orders", leader=THIRD)
    fetchers.role_changed(follower.partition)
    follower.pass_ms(0)
    assert made[OTHER].resets == 1
    assert made[THIRD].fetch.topics[0].partitions[0].current_leader_epoch == 1
    follower.node.change("orders", leader=NODE)
    fetchers.role_changed(follower.partition)
    assert len(fetchers) == 0
    fetchers.stop()


def test_a_throttled_partition_is_left_out_until_it_may_go_on(follower: Follower) -> None:
    follower.node.configure("orders", {"follower.replication.throttled.replicas": "*"})
    records = batch("much", offset=0)
    follower.rates = {"follower.replication.throttled.rate": str(len(records) * 2 // 3)}

    follower.answer(records=records, high_watermark=9)
    follower.pass_ms(1000)
    follower.pass_ms(490)
    assert follower.link.asked == []
    follower.pass_ms(20)

    assert follower.asked.fetch_offset == 1


def test_one_that_is_in_sync_is_not_left_out(follower: Follower) -> None:
    follower.node.configure("orders", {"follower.replication.throttled.replicas": "*"})
    follower.rates = {"follower.replication.throttled.rate": "1"}

    follower.answer(records=batch("all there is", offset=0), high_watermark=1)

    assert follower.asked.fetch_offset == 1


def test_an_answer_of_the_leader_before_changes_nothing(follower: Follower) -> None:
    [(_, then)] = follower.link.asked
    follower.node.change("orders", leader=THIRD)
    follower.link.asked = [(follower.link.fetch, then)]
    follower.answer(records=batch("late", offset=0), high_watermark=1)
    assert follower.ends == (0, 0, 0)
    assert follower.link.asked == []


def test_a_session_takes_back_what_is_no_longer_wanted() -> None:
    session = FollowerSession()
    one, two = (
        FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1),
        FetchPartition(partition=1, fetch_offset=2, partition_max_bytes=1),
    )
    topic = b"t" * 16
    session.next_request({(topic, 0): one, (topic, 1): two})  # type: ignore[dict-item]
    session.answered(7)
    named, forgotten = session.next_request({(topic, 1): two})  # type: ignore[dict-item]
    assert named == []
    assert [(each.topic_id, each.partitions) for each in forgotten] == [(topic, [0])]
    session.failed()
    named, forgotten = session.next_request({(topic, 1): two})  # type: ignore[dict-item]
    assert ([len(each.partitions) for each in named], forgotten, session.session_id) == ([1], [], 7)


def _offset(offset: int) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(
        partition_index=0, error_code=0, timestamp=-1, offset=offset, leader_epoch=0
    )
    return ListOffsetsResponse(
        throttle_time_ms=0, topics=[ListOffsetsTopicResponse(name="orders", partitions=[partition])]
    )


def test_an_answer_in_the_ordinary_way_of_things_has_nothing_else_looked_at(follower: Follower) -> None:
    follower.node.create_topic("more", replicas=(OTHER, NODE, THIRD), leader=OTHER, partitions=5)
    for index in range(5):
        follower.fetcher.follow(follower.node.partition("more", index))
    follower.pass_ms(0)
    follower.answer(records=batch("a", offset=0))
    with mock.patch.object(follower.fetcher, "_asked", side_effect=follower.fetcher._asked) as asked:
        follower.answer(records=batch("b", offset=1), high_watermark=1)
        assert follower.asked.fetch_offset == 2
        assert asked.call_count == 1
        follower.link.answer(FetchResponse(throttle_time_ms=0, error_code=0, session_id=SESSION, responses=[]))
        assert follower.link.fetch.topics == []
        assert asked.call_count == 1
        # After an error, everything is.
        follower.answer(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
        assert asked.call_count == 1 + 5


def test_what_a_follower_does_by_itself_shows_within_half_a_second(follower: Follower) -> None:
    follower.answer(records=batch("a", "b", offset=0), high_watermark=2)
    follower.answer(high_watermark=2)
    log = follower.partition.log
    assert log is not None
    log.delete_records_before(1)
    nothing = FetchResponse(throttle_time_ms=0, error_code=0, session_id=SESSION, responses=[])
    follower.link.answer(nothing)
    assert follower.link.fetch.topics == []
    follower.pass_ms(500)
    follower.link.answer(nothing)
    assert (follower.asked.log_start_offset, follower.asked.fetch_offset) == (1, 2)


def test_a_partition_that_is_forgotten_leaves_the_session_with_the_next_request(follower: Follower) -> None:
    follower.node.create_topic("more", replicas=(OTHER, NODE, THIRD), leader=OTHER)
    more = follower.node.partition("more")
    follower.fetcher.follow(more)
    follower.pass_ms(0)
    follower.answer(records=batch("a", offset=0))
    follower.fetcher.forget(more)
    follower.answer(records=batch("b", offset=1))
    [forgotten] = follower.link.fetch.forgotten_topics_data
    assert forgotten.topic_id == more.topic_id
