"""Share groups of one shard without a broker: what they decide goes into a list and is replayed, a share coordinator answers when
it is told to, and time passes when a test says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tests.support.share_states import AUDIT, ORDERS, START_MS, SomeTopics
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.coordination.share.context import Beginning
from tidelog.coordination.share.group import ShareGroup
from tidelog.coordination.share.groups import ShareGroups
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import (
    CoordinatorLog,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from tidelog.wire.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

A = TypeVar("A")

GROUP = "workers"
CALLER = Caller("a client", "/10.0.0.1", 1)
NAMES = {ORDERS: "orders", AUDIT: "audit"}


class ShareGroupDriver:
    """The groups, their log and a host that commits at once."""

    def __init__(
        self, settings: GroupSettings | None = None, log: list[tuple[bytes, bytes | None]] | None = None
    ) -> None:
        self.settings = settings or GroupSettings()
        self.topics = SomeTopics({ORDERS: 4, AUDIT: 2})
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = [] if log is None else log
        self.append_error = ErrorCode.NONE
        self.begins_states = True
        """Whether the share coordinator answers, and at once."""
        self.asked: list[Beginning] = []
        self.groups: dict[str, Group] = {}
        self.deadlines = Deadlines()
        self.share = ShareGroups(self.groups, self.deadlines, self.settings, self.topics, self._begin)
        for row in self.log:
            self.share.replay(decode_coordinator_record(CoordinatorLog.CONSUMER_OFFSETS, *row), self.now_ms)
        self.share.loaded(self.topics, self.now_ms)

    def restarted(self) -> ShareGroupDriver:
        """Another coordinator, from what the log says."""
        driver = ShareGroupDriver(self.settings, list(self.log))
        driver.now_ms = self.now_ms
        return driver

    @property
    def group(self) -> ShareGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    @property
    def records(self) -> list[CoordinatorRecord]:
        """All that was written, as it is read back."""
        return [decode_coordinator_record(CoordinatorLog.CONSUMER_OFFSETS, *row) for row in self.log]

    def carry_out(self, decision: Decision[A]) -> A:
        error = self.append_error if decision.records else ErrorCode.NONE
        for each in decision.records if error is ErrorCode.NONE else ():
            value = None if each.value is None else encode_coordinator_value(each.value, each.version)
            row = encode_coordinator_key(each.key), value
            self.log.append(row)
            self.share.replay(decode_coordinator_record(CoordinatorLog.CONSUMER_OFFSETS, *row), self.now_ms)
        if decision.settled is not None:
            decision.settled(error)
        assert not isinstance(decision.answer, Pending)
        return decision.answer

    def advance(self, ms: int) -> None:
        """Let time pass, and everything happen that is due then."""
        self.now_ms += ms
        while (due := self.deadlines.take_due(self.now_ms)) is not None:
            decision = due[1](self.now_ms)
            if decision is not None:
                self.carry_out(decision)

    def change_topics(self, topics: Mapping[TopicId, int]) -> None:
        """The cluster has these topics from now on."""
        before = self.topics
        self.topics = SomeTopics(topics)
        gone = [TopicName(NAMES[each]) for each in before.topics if each not in topics]
        changed = [TopicName(NAMES[each]) for each in topics]
        self.carry_out(Decision(None, tuple(self.share.topics_changed(self.topics, changed, gone))))

    # The share coordinator

    def _begin(self, beginning: Beginning) -> None:
        self.asked.append(beginning)
        if self.begins_states:
            self.answer(beginning)

    def answer(self, beginning: Beginning, *, fails: bool = False) -> None:
        """It has begun the states that it was asked for, or could not."""
        partitions = {topic_id: list(offsets) for topic_id, offsets in beginning.offsets.items()}
        begun, failed = ({}, partitions) if fails else (partitions, {})
        self.carry_out(self.share.administration.states_begun(beginning.group_id, begun, failed, self.now_ms))

    # Members

    def heartbeat(
        self, member: str = "m", epoch: int = 0, *topics: str, caller: Caller = CALLER, group: str = GROUP
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=list(topics) or None
        )
        return self.carry_out(self.share.heartbeat(request, caller, self.now_ms))

    def settled(self, *members: str, topics: tuple[str, ...] = ("orders",)) -> int:
        """Have members join and beat until none of them gets anything new. The group's epoch then."""
        epochs = {member: self.heartbeat(member, 0, *topics).member_epoch for member in members}
        for _ in range(10):
            self.advance(1_000)
            before = dict(epochs)
            for member in members:
                epochs[member] = self.heartbeat(member, epochs[member]).member_epoch
            if epochs == before and len(set(epochs.values())) == 1:
                return epochs[members[0]]
        raise AssertionError(f"the members do not come to rest: {epochs}")

    def assigned(self, member: str = "m") -> dict[str, tuple[int, ...]]:
        """What a member has, by the names of topics."""
        return {NAMES[topic]: tuple(parts) for topic, parts in self.group.members[member].assigned.items()}
