"""Who is in sync: when a leader asks for another set, and what counts as committed while nobody knows the answer."""

from __future__ import annotations

import pytest

from tests.support.appends import produced
from tests.support.data_node import NODE, OTHER, THIRD, DataNode
from tests.support.log_builder import LogBuilder
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import BrokerEpoch, NodeId
from tidelog.model.pending import Pending
from tidelog.replication.in_sync_sets import InSyncSets
from tidelog.storage.fetched import Fetched
from tidelog.wire.messages.alter_partition import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicData,
)
from tidelog.wire.schema import Request, Response

BATCHES = LogBuilder()
LAG_MS = 1000


class Leader:
    """A node that leads a partition with two followers, of which one is in sync, and a controller in the hands of a test."""

    node_id = NODE
    broker_epoch = BrokerEpoch(3)

    def __init__(self, isr: tuple[NodeId, ...] = (NODE, OTHER)) -> None:
        self.node = DataNode()
        self.node.create_topic("orders", replicas=(NODE, OTHER, THIRD))
        self.node.change("orders", isr=list(isr))
        self.partition = self.node.partition("orders")
        self.asked: list[tuple[AlterPartitionRequest, Pending[Response]]] = []
        self.serving = True
        self.sets = InSyncSets(
            self.node.partitions,
            self._ask,
            self,
            lambda _node, epoch: self.serving and epoch == 7,
            self.node.timers,
            self.node.clock,
            lag_time_max_ms=lambda: LAG_MS,
        )
        self.node.partitions.wakeups.on_caught_up = self.sets.caught_up
        self.sets.start()

    def _ask(self, request: Request) -> Pending[Response]:
        assert isinstance(request, AlterPartitionRequest)
        pending: Pending[Response] = Pending()
        self.asked.append((request, pending))
        return pending

    def fetch(self, follower: NodeId, offset: int, *, broker_epoch: int = 7) -> None:
        outcome = self.partition.read_as_follower(
            follower,
            offset,
            1 << 20,
            broker_epoch=broker_epoch,
            log_start_offset=0,
            current_leader_epoch=self.partition.leader_epoch,
        )
        assert isinstance(outcome, Fetched)

    def pass_ms(self, ms: int) -> None:
        self.node.timers.advance(ms)

    @property
    def proposed(self) -> list[int]:
        """The set that the only request asks for."""
        [(request, _)] = self.asked
        [topic] = request.topics
        [partition] = topic.partitions
        assert (request.broker_id, request.broker_epoch) == (NODE, 3)
        return [state.broker_id for state in partition.new_isr_with_epochs]

    def answer(self, error: ErrorCode = ErrorCode.NONE, *, is_whole: bool = False) -> None:
        [(request, pending)] = self.asked
        self.asked = []
        topic_id, index = request.topics[0].topic_id, request.topics[0].partitions[0].partition_index
        told = AlterPartitionPartitionData(
            partition_index=index, error_code=error, leader_id=NODE, leader_epoch=0, isr=[], partition_epoch=2
        )
        topics = [] if is_whole else [AlterPartitionTopicData(topic_id=topic_id, partitions=[told])]
        code = error if is_whole else ErrorCode.NONE
        pending.complete(AlterPartitionResponse(throttle_time_ms=0, error_code=code, topics=topics))

    @property
    def high_watermark(self) -> int:
        return self.node.log("orders").high_watermark


@pytest.fixture
def leader() -> Leader:
    return Leader()


def _written(leader: Leader, count: int = 2) -> None:
    for number in range(count):
        produced(leader.partition, BATCHES.batch(str(number)))


def test_a_follower_that_has_all_that_is_committed_is_proposed_at_once(leader: Leader) -> None:
    _written(leader)
    leader.fetch(OTHER, 1)
    assert leader.high_watermark == 1
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    assert leader.asked == []
    leader.fetch(THIRD, 1)
    leader.pass_ms(0)
    assert leader.proposed == [NODE, OTHER, THIRD]
    [(request, _)] = leader.asked
    assert [each.broker_epoch for each in request.topics[0].partitions[0].new_isr_with_epochs] == [3, 7, 7]


def test_a_follower_whose_broker_does_not_serve_or_has_registered_since_is_not(leader: Leader) -> None:
    leader.fetch(THIRD, 0, broker_epoch=6)
    leader.serving = False
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    assert leader.asked == []
    leader.serving = True
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    assert leader.proposed == [NODE, OTHER, THIRD]


def test_nothing_is_committed_without_a_replica_that_may_have_joined(leader: Leader) -> None:
    leader.fetch(OTHER, 0)
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    _written(leader, 1)
    leader.fetch(OTHER, 1)
    assert leader.high_watermark == 0
    # Nobody knows whether it was done, so it may have been.
    leader.answer(ErrorCode.INVALID_UPDATE_VERSION)
    leader.fetch(OTHER, 1)
    assert leader.high_watermark == 0
    leader.fetch(THIRD, 1)
    assert leader.high_watermark == 1


def test_what_was_certainly_not_done_is_undone_and_not_tried_again_at_once(leader: Leader) -> None:
    leader.fetch(OTHER, 0)
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    _written(leader, 1)
    leader.fetch(OTHER, 1)
    leader.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert leader.high_watermark == 1
    leader.fetch(THIRD, 1)
    leader.pass_ms(0)
    assert leader.asked == []
    leader.pass_ms(500)
    leader.fetch(THIRD, 1)
    leader.pass_ms(0)
    assert leader.proposed == [NODE, OTHER, THIRD]


def test_a_request_that_failed_as_a_whole_is_asked_again(leader: Leader) -> None:
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    leader.answer(ErrorCode.REQUEST_TIMED_OUT, is_whole=True)
    leader.pass_ms(50)
    assert leader.proposed == [NODE, OTHER, THIRD]


def test_metadata_ends_what_was_under_way(leader: Leader) -> None:
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    leader.answer()
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    assert leader.asked == []
    leader.node.change("orders", isr=[NODE, OTHER, THIRD])
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    assert leader.asked == []
    leader.node.change("orders", isr=[NODE, OTHER])
    leader.fetch(THIRD, 0)
    leader.pass_ms(0)
    assert leader.proposed == [NODE, OTHER, THIRD]


def test_a_follower_that_lags_leaves_and_one_that_keeps_up_stays() -> None:
    leader = Leader((NODE, OTHER, THIRD))
    for _ in range(10):
        _written(leader, 1)
        leader.fetch(OTHER, leader.node.log("orders").log_end_offset)
        leader.pass_ms(LAG_MS // 4)
    assert leader.proposed == [NODE, OTHER]
    # Until the controller has agreed, the one that lags still counts.
    assert leader.high_watermark == 0


def test_without_new_records_nobody_lags() -> None:
    leader = Leader((NODE, OTHER, THIRD))
    for follower in (OTHER, THIRD):
        leader.fetch(follower, 0)
    leader.pass_ms(10 * LAG_MS)
    assert leader.asked == []
