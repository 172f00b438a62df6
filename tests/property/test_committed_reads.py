"""Whatever is written and however far the replicas are: who reads is told what the committed records alone would say.

After every step a shard that has some records uncommitted is asked for all that it tells without waiting, and so is one that was
made of the committed records only.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, cast

from hypothesis import given, strategies as st

from tests.unit.coordination.consumer.consumer_harness import EAGER, through_the_log, topic_id, topics_of
from tidelog.coordination.coordinator_log import CoordinatorPartition
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group_shard import GroupShard
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUPS = ("g0", "g1", "g2")
MEMBERS = ("m0", "m1", "m2")
PARTITIONS = 2
CALLER = Caller("client", "/127.0.0.1", 9)
TOPICS = topics_of(a=4, b=2)

groups, members = st.sampled_from(GROUPS), st.sampled_from(MEMBERS)
numbers = st.integers(0, 1)
steps = st.one_of(
    st.tuples(st.just("commit"), groups, numbers),
    st.tuples(st.just("commit in a transaction"), groups, numbers),
    st.tuples(st.just("end a transaction"), numbers, st.booleans()),
    st.tuples(st.just("delete an offset"), groups, numbers),
    st.tuples(st.just("delete"), groups, st.none()),
    st.tuples(st.just("join"), groups, members),
    st.tuples(st.just("heartbeat"), groups, members),
    st.tuples(st.just("leave"), groups, members),
    st.tuples(st.just("replicate"), st.integers(0, 100), st.none()),
    st.tuples(st.just("take over"), st.none(), st.none()),
)


@dataclass
class FakeLog:
    high_watermark: int = 0
    log_end_offset: int = 0


@dataclass
class FakePartition:
    log: FakeLog


Entry = tuple[int, CoordinatorRecord | bool, int]
"""An offset, a record or whether a transaction is committed, and the producer."""


class World:
    """A shard, its log, and how far that is committed."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.entries: list[Entry] = []
        # What replicas have fetched ends where an append does.
        self.ends = [0]
        self.shard = self._new_shard()
        self.owned: dict[tuple[str, str], list[TopicPartitions]] = {}
        self.epochs: dict[tuple[str, str], int] = {}
        self.number = 0

    def _new_shard(self) -> GroupShard:
        return GroupShard(EAGER, Random(1), lambda: TOPICS, cast("CoordinatorPartition", FakePartition(self.log)))

    def apply(self, decision: Decision[Any]) -> Any:
        producer_id = -1 if decision.producer is None else decision.producer.producer_id
        written = [through_the_log(record) for record in decision.records]
        first = self.log.log_end_offset
        self.log.log_end_offset += len(written)
        for offset, record in enumerate(written, first):
            self.entries.append((offset, record, producer_id))
            self.shard.replay(record, offset, producer_id, 1_000)
        if written:
            self.ends.append(self.log.log_end_offset)
        if decision.settled is not None:
            decision.settled(0)  # type: ignore[arg-type]
        return decision.answer

    def do(self, what: str, first: Any, second: Any) -> None:
        self.number += 1
        shard = self.shard
        match what:
            case "commit":
                partition = OffsetCommitRequestPartition(
                    partition_index=second, committed_offset=self.number, committed_metadata=""
                )
                topic = OffsetCommitRequestTopic(name="a", topic_id=ZERO_UUID, partitions=[partition])
                request = OffsetCommitRequest(group_id=first, member_id="", topics=[topic])
                self.apply(shard.commit_offsets(request, CALLER.api_version, 1_000, lambda error: cast("Any", error)))
            case "commit in a transaction":
                pending = TxnOffsetCommitRequestPartition(
                    partition_index=second, committed_offset=self.number, committed_metadata=""
                )
                in_transaction = TxnOffsetCommitRequest(
                    transactional_id="t",
                    group_id=first,
                    producer_id=self.number % 2,
                    producer_epoch=0,
                    topics=[TxnOffsetCommitRequestTopic(name="a", partitions=[pending])],
                )
                decided = shard.commit_offsets_in_transaction(
                    in_transaction, CALLER, None, 1_000, lambda error: cast("Any", error)
                )
                self.apply(decided)
            case "end a transaction":
                offset = self.log.log_end_offset
                self.log.log_end_offset += 1
                self.ends.append(self.log.log_end_offset)
                self.entries.append((offset, second, first))
                shard.end_transaction(first, offset, is_committed=second)
            case "delete an offset":
                gone = OffsetDeleteRequestTopic(
                    name="a", partitions=[OffsetDeleteRequestPartition(partition_index=second)]
                )
                self.apply(shard.delete_offsets(OffsetDeleteRequest(group_id=first, topics=[gone])))
            case "delete":
                self.apply(shard.delete([first]))
            case "join":
                self._beat(first, second, 0, subscribed_topic_names=["a", "b"], rebalance_timeout_ms=1_000)
            case "heartbeat":
                self._beat(first, second, self.epochs.get((first, second), 0))
            case "leave":
                self._beat(first, second, -1)
            case "replicate":
                behind = [end for end in self.ends if end >= self.log.high_watermark]
                self.log.high_watermark = behind[first * (len(behind) - 1) // 100]
            case "take over":
                self.shard = self._new_shard()
                replay(self.shard, self.entries)

    def _beat(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> None:
        owned = [] if epoch == 0 else self.owned.get((group_id, member_id))
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, topic_partitions=owned, **fields
        )
        answer = self.apply(self.shard.consumer_heartbeat(request, CALLER, 1_000))
        if answer.error_code:
            return
        self.epochs[group_id, member_id] = max(0, answer.member_epoch)
        if answer.assignment is not None:
            self.owned[group_id, member_id] = answer.assignment.topic_partitions

    def check(self) -> None:
        committed = GroupShard(EAGER, Random(1), lambda: TOPICS)
        replay(committed, [entry for entry in self.entries if entry[0] < self.log.high_watermark])
        assert told(self.shard) == told(committed)
        if self.log.high_watermark == self.log.log_end_offset:
            assert self.shard.timeline.change_count == 0


def replay(shard: GroupShard, entries: list[Entry]) -> None:
    for offset, entry, producer_id in entries:
        if isinstance(entry, bool):
            shard.end_transaction(producer_id, offset, is_committed=entry)
        else:
            shard.replay(entry, offset, producer_id, 1_000)


def told(shard: GroupShard) -> list[Any]:
    """All that a shard says at once, in an order that does not depend on when it learnt it."""
    answers: list[Any] = [sorted(shard.listed([], []), key=lambda each: each.group_id)]
    asked = [OffsetFetchRequestTopics(name="a", topic_id=ZERO_UUID, partition_indexes=list(range(PARTITIONS)))]
    for group_id in GROUPS:
        described = shard.describe_consumer(group_id)
        described.members.sort(key=lambda each: each.member_id)
        answers += [described, shard.describe(group_id, 6)]
        for epoch in (-1, 1, 2):
            for member_id in (None, *MEMBERS):
                request = OffsetFetchRequestGroup(
                    group_id=group_id, member_id=member_id, member_epoch=epoch, topics=asked
                )
                answers.append(shard.fetch_offsets(request, require_stable=False))
        everything = shard.fetch_offsets(OffsetFetchRequestGroup(group_id=group_id, topics=None), require_stable=False)
        for topic in everything.topics:
            topic.partitions.sort(key=lambda each: each.partition_index)
        answers.append(everything)
    return answers


@given(st.lists(steps, max_size=40))
def test_readers_are_told_what_is_committed(history: list[tuple[str, Any, Any]]) -> None:
    world = World()
    for step in history:
        world.do(*step)
        world.check()


def test_the_random_histories_can_have_uncommitted_records_of_every_kind() -> None:
    world = World()
    for step in (("commit", "g0", 0), ("join", "g1", "m0"), ("replicate", 100, None), ("commit", "g0", 0)):
        world.do(*step)
        world.check()
    world.do("join", "g1", "m1")
    world.check()
    assert world.shard.timeline.change_count > 0
    assert [each.member_id for each in world.shard.describe_consumer("g1").members] == ["m0"]
    asked = OffsetFetchRequestGroup(
        group_id="g0", topics=[OffsetFetchRequestTopics(name="a", topic_id=ZERO_UUID, partition_indexes=[0])]
    )
    assert world.shard.fetch_offsets(asked, require_stable=False).topics[0].partitions[0].committed_offset == 1
    assert world.shard.fetch_offsets(asked, require_stable=True).topics[0].partitions[0].committed_offset == 4
    assert topic_id("a") in TOPICS.topics
