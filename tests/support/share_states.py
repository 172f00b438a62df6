"""A shard of share partitions' states without a broker: what it decides goes into a list and is replayed, and what was lost with
its memory comes back from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from tidelog.coordination.decision import Decision
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.coordination.share_state.share_state_settings import ShareStateSettings
from tidelog.coordination.share_state.share_state_shard import ShareStateShard
from tidelog.coordination.share_state.state_batches import StateBatch
from tidelog.coordination.topics_view import PartitionView, TopicView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, PartitionIndex, TopicId, TopicName
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import (
    CoordinatorLog,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from tidelog.wire.messages import share_group_state as wire

A = TypeVar("A")

START_MS = 1_000_000
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
ORDERS = TopicId(b"orders-----------"[:16])
AUDIT = TopicId(b"audit------------"[:16])


class OneReplica(Struct, frozen=True):
    replicas: tuple[Any, ...] = (1,)


class SomeTopic(Struct, frozen=True):
    name: TopicName
    topic_id: TopicId
    partitions: Mapping[PartitionIndex, PartitionView]


class SomeTopics:
    """Topics by id, with so many partitions each."""

    offset = Offset(0)
    brokers: Mapping[Any, Any] = {}

    def __init__(self, topics: Mapping[TopicId, int]) -> None:
        self.topics: dict[TopicId, TopicView] = {
            topic_id: SomeTopic(
                TopicName(topic_id.decode().strip("-")),
                topic_id,
                {PartitionIndex(index): OneReplica() for index in range(count)},
            )
            for topic_id, count in topics.items()
        }

    @property
    def topic_ids(self) -> Mapping[TopicName, TopicId]:
        return {each.name: topic_id for topic_id, each in self.topics.items()}


def key(partition: int = 0, *, group: str = "workers", topic: TopicId = ORDERS) -> SharePartitionKey:
    return SharePartitionKey(group, topic, PartitionIndex(partition))


def batch(first: int, last: int, state: int = ACKNOWLEDGED, count: int = 1) -> StateBatch:
    return StateBatch(first, last, count, state)


class ShareStateDriver:
    """A shard, its log, and a host that commits at once."""

    def __init__(
        self, settings: ShareStateSettings | None = None, log: list[tuple[bytes, bytes | None]] | None = None
    ) -> None:
        self.settings = settings or ShareStateSettings()
        self.topics = SomeTopics({ORDERS: 4, AUDIT: 2})
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = [] if log is None else log
        self.append_error = ErrorCode.NONE
        self.shard = ShareStateShard(self.settings, lambda: self.topics)
        for offset, (written, value) in enumerate(self.log):
            self._replay(decode_coordinator_record(CoordinatorLog.SHARE_GROUP_STATE, written, value), offset)
        for decision in self.shard.loaded(self.now_ms):
            self.carry_out(decision)

    def restarted(self) -> ShareStateDriver:
        """Another coordinator, from what the log says."""
        self.shard.unload()
        driver = ShareStateDriver(self.settings, list(self.log))
        driver.now_ms = self.now_ms
        return driver

    @property
    def records(self) -> list[CoordinatorRecord]:
        """All that was written, as it is read back."""
        return [decode_coordinator_record(CoordinatorLog.SHARE_GROUP_STATE, *row) for row in self.log]

    def carry_out(self, decision: Decision[A]) -> A:
        error = self.append_error if decision.records else ErrorCode.NONE
        for each in decision.records if error is ErrorCode.NONE else ():
            value = None if each.value is None else encode_coordinator_value(each.value, each.version)
            self.log.append((encode_coordinator_key(each.key), value))
            self._replay(each, len(self.log) - 1)
        if decision.settled is not None:
            decision.settled(error)
        assert not isinstance(decision.answer, Pending)
        return decision.answer

    def _replay(self, record: CoordinatorRecord, offset: int) -> None:
        self.shard.replay(record, offset, -1, self.now_ms)

    def advance(self, ms: int) -> None:
        """Let time pass, and everything happen that is due then."""
        self.now_ms += ms
        while (due := self.shard.deadlines.take_due(self.now_ms)) is not None:
            decision = due[1](self.now_ms)
            if decision is not None:
                self.carry_out(decision)

    # What others ask

    def initialise(self, where: SharePartitionKey, state_epoch: int = 1, start_offset: int = -1) -> ErrorCode:
        asked = wire.PartitionData(partition=where.partition, state_epoch=state_epoch, start_offset=start_offset)
        return ErrorCode.of(self.carry_out(self.shard.initialise(where, asked, self.now_ms)).error_code)

    def read(self, where: SharePartitionKey, leader_epoch: int = 0) -> wire.ReadShareGroupStatePartitionResult:
        asked = wire.ReadShareGroupStatePartitionData(partition=where.partition, leader_epoch=leader_epoch)
        return self.carry_out(self.shard.read(where, asked, self.now_ms))

    def write(
        self,
        where: SharePartitionKey,
        *batches: StateBatch,
        leader_epoch: int = 0,
        state_epoch: int = 1,
        start_offset: int = -1,
        complete: int = -1,
    ) -> ErrorCode:
        asked = wire.WriteShareGroupStatePartitionData(
            partition=where.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete,
            state_batches=[
                wire.StateBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.delivery_state,
                    delivery_count=each.delivery_count,
                )
                for each in batches
            ],
        )
        return ErrorCode.of(self.carry_out(self.shard.write(where, asked, self.now_ms)).error_code)

    def delete(self, where: SharePartitionKey) -> ErrorCode:
        return ErrorCode.of(self.carry_out(self.shard.delete(where)).error_code)

    def batches(self, where: SharePartitionKey) -> tuple[StateBatch, ...]:
        """What is known of the records of a share partition."""
        state = self.shard.state_of(where)
        assert state is not None
        return state.batches
