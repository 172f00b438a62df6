"""The persister: whom it asks, what goes together, what is tried again, in which order, and how much may wait."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import cast

import pytest

from tests.support.data_node import ManualTimers
from tests.support.log_builder import ManualClock
from tests.support.share_states import ORDERS, key
from tidelog.broker.coordinators.coordinator_elections import Hosting
from tidelog.broker.share import cluster_persister
from tidelog.broker.share.cluster_persister import RETRIES_MAX, ClusterPersister, StateKeepers
from tidelog.broker.share.persister import PersisterError, ShareState, StateBatch
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex, TopicName
from tidelog.model.pending import Pending
from tidelog.replication.leader_link import LeaderLink
from tidelog.wire.messages import share_group_state as wire
from tidelog.wire.schema import Request, Response

HERE, THERE = NodeId(1), NodeId(2)
FOREVER_MS = 60_000


class _Link:
    """Another broker that answers when it is told to. Requests of several lanes may be under way."""

    def __init__(self) -> None:
        self.asked: list[tuple[Request, Callable[[Response | None], None]]] = []

    def ask(self, request: Request, version: int, then: Callable[[Response | None], None], *, timeout_ms: int) -> bool:
        assert timeout_ms == 30_000
        assert version == (1 if isinstance(request, wire.WriteShareGroupStateRequest) else 0)
        self.asked.append((request, then))
        return True

    def answer(self, error: ErrorCode | None = ErrorCode.NONE) -> Request:
        """To the first request: this error for each partition, or (None) nothing at all."""
        request, then = self.asked.pop(0)
        assert isinstance(request, wire.WriteShareGroupStateRequest)
        then(
            None
            if error is None
            else wire.WriteShareGroupStateResponse(
                results=[
                    wire.WriteStateResult(
                        topic_id=topic.topic_id,
                        partitions=[
                            wire.PartitionResult(partition=each.partition, error_code=error)
                            for each in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )
        return request

    def reset(self) -> None:
        waiting, self.asked = self.asked, []
        for _request, then in waiting:
            then(None)


class _World:
    """A persister, a coordinator on its own node that answers as it is told, and one on another."""

    node_id = HERE

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.link = _Link()
        self.leader: NodeId | None = HERE
        self.topic: ErrorCode | Pending[ErrorCode] = ErrorCode.NONE
        self.errors: list[ErrorCode] = []
        self.written: list[int] = []
        self.persister = ClusterPersister(
            cast("Hosting", self),
            cast("StateKeepers", self),
            self,
            lambda _broker, _purpose: cast("LeaderLink", self.link),
            self.timers,
            Random(7),
            nullcontext(),
        )

    # As the topic and the coordinator

    def ensure(self, _name: TopicName) -> ErrorCode | Pending[ErrorCode]:
        return self.topic

    def leader_of(self, _key: SharePartitionKey) -> NodeId | None:
        return self.leader

    def write(self, where: SharePartitionKey, asked: wire.WriteShareGroupStatePartitionData) -> wire.PartitionResult:
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if error is ErrorCode.NONE:
            self.written.append(asked.start_offset)
        return wire.PartitionResult(partition=where.partition, error_code=error)

    def read(
        self, where: SharePartitionKey, asked: wire.ReadShareGroupStatePartitionData
    ) -> wire.ReadShareGroupStatePartitionResult:
        assert (where, asked.leader_epoch) == (key(3), 5)
        batches = [wire.StateBatch(first_offset=10, last_offset=12, delivery_state=0, delivery_count=2)]
        return wire.ReadShareGroupStatePartitionResult(
            partition=3, error_code=0, state_epoch=4, start_offset=10, state_batches=batches
        )

    # As a test

    def save(self, start_offset: int, partition: int = 0, group: str = "workers") -> Pending[PersisterError | None]:
        batches = [StateBatch(0, 1, 2, 1)]
        return self.persister.write(group, ORDERS, PartitionIndex(partition), 0, 1, start_offset, 0, batches)


@pytest.fixture
def world() -> _World:
    return _World()


def code(outcome: Pending[PersisterError | None]) -> ErrorCode:
    """Why something was not written."""
    error = outcome.value
    assert error is not None
    return error.code


def _partitions(request: Request) -> list[int]:
    assert isinstance(request, wire.WriteShareGroupStateRequest)
    return [each.partition for topic in request.topics for each in topic.partitions]


def test_a_coordinator_on_the_same_node_is_called(world: _World) -> None:
    assert world.save(7).value is None
    assert world.written == [7]
    assert not world.link.asked


def test_the_topic_is_there_before_anybody_is_asked(world: _World) -> None:
    world.topic = ready = Pending[ErrorCode]()
    outcome = world.save(7)
    assert not world.written

    ready.complete(ErrorCode.NONE)

    assert outcome.value is None


def test_what_waits_for_another_broker_goes_together(world: _World) -> None:
    world.leader = THERE
    outcomes = [world.save(number, partition) for number, partition in enumerate((0, 1, 2))]
    other_group = world.save(9, group="others")

    assert [_partitions(world.link.answer()), _partitions(world.link.answer())] == [[0], [0]]
    assert _partitions(world.link.answer()) == [1, 2]
    assert [each.value for each in (*outcomes, other_group)] == [None] * 4


def test_a_write_that_is_tried_again_is_not_overtaken_by_a_later_one(world: _World) -> None:
    world.errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    first, second, elsewhere = world.save(1), world.save(2), world.save(3, partition=1)
    assert world.written == [3]
    assert elsewhere.value is None

    world.timers.advance(FOREVER_MS)

    assert world.written == [3, 1, 2]
    assert (first.value, second.value) == (None, None)


def test_a_broken_connection_is_tried_again_at_the_coordinator_of_that_moment(world: _World) -> None:
    world.leader = THERE
    outcome = world.save(7)
    world.link.answer(None)
    world.leader = HERE

    world.timers.advance(FOREVER_MS)

    assert outcome.value is None
    assert world.written == [7]


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST])
def test_an_error_that_does_not_pass_is_told_at_once(world: _World, error: ErrorCode) -> None:
    world.errors = [error]

    assert code(world.save(1)) is error
    assert world.save(2).value is None


def test_after_so_many_attempts_the_error_is_told(world: _World) -> None:
    world.leader = None
    outcome = world.save(1)
    waited_ms = 0
    while not outcome.is_complete:
        world.timers.advance(1_000)
        waited_ms += 1_000

    assert code(outcome) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 20_000 <= waited_ms <= 40_000
    assert RETRIES_MAX == 8


def test_what_waits_is_bounded_and_there_is_room_again_when_it_is_done(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_persister, "QUEUED_BYTES_MAX", 1_000)
    world.leader = THERE
    waiting = [world.save(0), world.save(1)]
    assert not world.persister.has_room

    assert code(world.save(2)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.link.answer()
    world.link.answer()

    assert [each.value for each in waiting] == [None] * 2
    assert world.persister.has_room


def test_thousands_that_waited_for_one_retry_are_worked_off_in_a_loop(world: _World) -> None:
    world.errors = [ErrorCode.NOT_COORDINATOR]
    outcomes = [world.save(number) for number in range(5_000)]

    world.timers.advance(FOREVER_MS)

    assert all(each.value is None for each in outcomes)
    assert world.written == [*range(5_000)]


def test_a_node_that_stops_tells_everybody_who_waits(world: _World) -> None:
    world.leader = THERE
    waiting = [world.save(0), world.save(1), world.save(2, partition=1)]

    world.persister.stop()

    assert {code(each) for each in waiting} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert code(world.save(3)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.timers.pending == 0


def test_a_state_is_read_with_its_batches(world: _World) -> None:
    found = world.persister.read("workers", ORDERS, PartitionIndex(3), 5)

    assert found.value == ShareState(4, 10, (StateBatch(10, 12, 0, 2),))
