"""A shard of consumer groups without a broker: decisions are replayed at once, time moves by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tidelog.coordination.classic.groups import ClassicGroups
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.groups import ConsumerGroups
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import ConsumerGroupLimits, GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicId, TopicName
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import (
    CoordinatorLog,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.wire.messages.internal.offset_records import GroupMetadataKey, GroupMetadataValue

GROUP = "g"
RETRY_MS = 500
EAGER = GroupSettings(consumer_limits_of=lambda _group: ConsumerGroupLimits(assignment_interval_ms=0))


@dataclass(frozen=True)
class FakePartition:
    replicas: tuple[NodeId, ...] = (NodeId(1),)


@dataclass(frozen=True)
class FakeBroker:
    rack: str | None = None


@dataclass(frozen=True)
class FakeTopic:
    name: TopicName
    topic_id: TopicId
    partitions: dict[PartitionIndex, FakePartition]


@dataclass(frozen=True)
class FakeTopics:
    topics: dict[TopicId, FakeTopic] = field(default_factory=dict)
    topic_ids: dict[TopicName, TopicId] = field(default_factory=dict)
    brokers: dict[NodeId, FakeBroker] = field(default_factory=lambda: {NodeId(1): FakeBroker()})
    offset: Offset = field(default_factory=lambda: Offset(0))


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().rjust(16, b"\x01"))


def topics_of(**partitions: int) -> FakeTopics:
    topics = {
        topic_id(name): FakeTopic(
            TopicName(name), topic_id(name), {PartitionIndex(index): FakePartition() for index in range(count)}
        )
        for name, count in partitions.items()
    }
    return FakeTopics(topics, {topic.name: topic.topic_id for topic in topics.values()})


Owned = dict[str, list[int]]


class Shard:
    """Consumer groups, and the classic ones beside them."""

    def __init__(self, topics: FakeTopics | None = None, settings: GroupSettings = EAGER, now_ms: int = 1_000) -> None:
        self.now_ms = now_ms
        self.topics = topics_of(a=4, b=2) if topics is None else topics
        self.settings = settings
        self.log: list[CoordinatorRecord] = []
        self.refuses: ErrorCode | None = None
        self.groups: dict[str, Group] = {}
        self.deadlines = Deadlines()
        self.classic = ClassicGroups(self.groups, self.deadlines, settings, Random(1))
        self.consumer = ConsumerGroups(self.groups, self.deadlines, settings, Random(2), self.topics, self.classic)

    def apply(self, decision: Decision[Any]) -> Any:
        """What the host does, with an append that is committed at once."""
        refused, self.refuses = self.refuses, None
        if refused is not None and decision.records:
            if decision.settled is not None:
                decision.settled(refused)
            return refused
        for record in decision.records:
            written = through_the_log(record)
            self.log.append(written)
            if decision.replays:
                self.replay(written)
        if decision.settled is not None:
            decision.settled(ErrorCode.NONE)
        answer = decision.answer
        return answer.value if isinstance(answer, Pending) and answer.is_complete else answer

    def replay(self, record: CoordinatorRecord) -> None:
        if isinstance(record.key, GroupMetadataKey):
            assert record.value is None or isinstance(record.value, GroupMetadataValue)
            self.classic.replay_group(record.key, record.value, self.now_ms)
        else:
            self.consumer.replay(record, self.now_ms)

    def reloaded(self, records: Sequence[CoordinatorRecord] | None = None) -> Shard:
        """Another node takes over: everything comes from the log."""
        other = Shard(self.topics, self.settings, self.now_ms)
        for record in self.log if records is None else records:
            other.log.append(record)
            other.replay(record)
        other.classic.loaded(self.now_ms)
        other.consumer.loaded(self.now_ms)
        return other

    def pass_ms(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (next_ms := self.deadlines.next_ms) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            while (due := self.deadlines.take_due(self.now_ms)) is not None:
                key, action = due
                decision = action(self.now_ms)
                if decision is not None and isinstance(self.apply(decision), ErrorCode) and key not in self.deadlines:
                    self.deadlines.set(key, self.now_ms + RETRY_MS, action)
        self.now_ms = end_ms

    def change_topics(self, topics: FakeTopics, *names: str) -> None:
        self.topics = replace(topics, offset=Offset(self.topics.offset + 1))
        self.consumer.topics_changed(self.topics, [TopicName(name) for name in names], self.now_ms)

    @property
    def group(self) -> ConsumerGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def send(
        self, member_id: str, epoch: int, owned: Owned | None = None, api_version: int = 1, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        answer = self.apply(self.decide(member_id, epoch, owned, api_version, **fields))
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def decide(
        self, member_id: str, epoch: int, owned: Owned | None = None, api_version: int = 1, **fields: Any
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        partitions = None
        if owned is not None:
            partitions = [TopicPartitions(topic_id=topic_id(name), partitions=parts) for name, parts in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", GROUP),
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=partitions,
            **fields,
        )
        return self.consumer.heartbeat(request, Caller("client", "/127.0.0.1", api_version), self.now_ms)

    def join(self, member_id: str, *names: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        if names or "subscribed_topic_regex" not in fields:
            fields.setdefault("subscribed_topic_names", list(names))
        fields.setdefault("rebalance_timeout_ms", 60_000)
        return self.send(member_id, 0, {}, **fields)


def through_the_log(record: CoordinatorRecord) -> CoordinatorRecord:
    """The record as it is read back, so that what is not written is not believed."""
    value = None if record.value is None else encode_coordinator_value(record.value, record.version)
    return decode_coordinator_record(CoordinatorLog.CONSUMER_OFFSETS, encode_coordinator_key(record.key), value)


def assigned(answer: ConsumerGroupHeartbeatResponse) -> Owned | None:
    if answer.assignment is None:
        return None
    return {
        bytes(topic.topic_id).lstrip(b"\x01").decode(): list(topic.partitions)
        for topic in answer.assignment.topic_partitions
    }


def partition_count(owned: Owned | None) -> int:
    return sum(len(partitions) for partitions in (owned or {}).values())
