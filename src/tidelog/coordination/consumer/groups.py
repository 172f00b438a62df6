# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The groups of the consumer protocol (KIP-848) of one shard of the group coordinator. Decides purely.

    decision = consumer.heartbeat(request, caller, now_ms)
    append decision.records, replay each of them, decision.settled(error), decision.answer

Everything about a group is in its records. What is not: members' deadlines, which begin anew on load, and whether a group has
looked at the cluster's topics since they changed last, which it does again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from tidelog.coordination.classic.groups import ClassicGroups
from tidelog.coordination.consumer.classic_members import ClassicMembers
from tidelog.coordination.consumer.context import GroupContext
from tidelog.coordination.consumer.fencing import Fencing
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.heartbeats import Heartbeats
from tidelog.coordination.consumer.member import ConsumerMember
from tidelog.coordination.consumer.replay import replay
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.coordination.timeline import Timeline
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeTopicPartitions,
    DescribedGroup,
    Member,
)
from tidelog.wire.messages.groups_classic import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tidelog.wire.messages.internal.consumer_group_records import ConsumerGroupMemberMetadataKey
from tidelog.wire.typed.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tidelog.wire.typed.groups_classic import HeartbeatRequest, HeartbeatResponse

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


class ConsumerGroups:
    """All consumer groups in `groups`, which others share for groups of other kinds.

    With `classic` a group may change its protocol while it has members; without, only while it is empty. `timeline` keeps what
    uncommitted records replace.
    """

    def __init__(
        self,
        groups: dict[str, Group],
        deadlines: Deadlines,
        settings: GroupSettings,
        random: Random,
        topics: TopicsView,
        classic: ClassicGroups | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self._timeline = Timeline() if timeline is None else timeline
        self._context = GroupContext(groups, deadlines, settings, random, topics)
        self._fencing = Fencing(self._context, classic)
        self._heartbeats = Heartbeats(self._context, self._fencing, classic)
        self._classic_members = ClassicMembers(self._context, self._fencing, classic)

    # Requests

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """A member joins, stays, or leaves. The answer has an assignment only where it changed, or the member asked."""
        return self._heartbeats.heartbeat(request, caller, now_ms)

    def join_classic(self, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Decision[JoinGroupResponse]:
        """A member of the classic protocol joins a group of this one; an empty group becomes a classic one."""
        return self._classic_members.join(request, caller, now_ms)

    def sync_classic(self, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Decision[SyncGroupResponse]:
        return self._classic_members.sync(request, caller, now_ms)

    def heartbeat_classic(self, request: HeartbeatRequest, now_ms: int) -> Decision[HeartbeatResponse]:
        return self._classic_members.heartbeat(request, now_ms)

    def leave_classic(self, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Decision[LeaveGroupResponse]:
        """Members of either protocol are taken out, by whoever may."""
        return self._classic_members.leave(request, caller, now_ms)

    def describe(self, group: ConsumerGroup) -> DescribedGroup:
        """What ConsumerGroupDescribe says of a group."""
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group.group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.preferred_assignor() or self._context.settings.consumer_assignors[0],
            members=[self._describe_member(group, member) for member in group.members.values()],
        )

    def _describe_member(self, group: ConsumerGroup, member: ConsumerMember) -> Member:
        owned = {topic: list(epochs) for topic, epochs in member.assigned.items()}
        for topic, epochs in member.pending_revocation.items():
            owned[topic] = sorted({*owned.get(topic, ()), *epochs})
        return Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.subscribed_names),
            subscribed_topic_regex=member.subscribed_regex,
            assignment=self._describe_assignment(owned),
            target_assignment=self._describe_assignment(group.targets.get(member.member_id, {})),
            member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
        )

    def _describe_assignment(self, assignment: Mapping[TopicId, Iterable[int]]) -> ConsumerGroupDescribeAssignment:
        topics = self._context.topics.topics
        return ConsumerGroupDescribeAssignment(
            topic_partitions=[
                ConsumerGroupDescribeTopicPartitions(
                    topic_id=topic, topic_name=topics[topic].name, partitions=list(partitions)
                )
                for topic, partitions in assignment.items()
                if topic in topics
            ]
        )

    # The cluster

    def topics_changed(self, topics: TopicsView, changed: Iterable[TopicName], now_ms: int) -> None:
        """These topics are new, other or gone. Groups that read them look at them with their next heartbeat."""
        del now_ms
        context = self._context
        names = set(changed)
        before, context.topics = context.topics, topics
        context.hashes.forget(names)
        if any(name in topics.topic_ids and name not in before.topic_ids for name in names):
            context.topics_version += 1
        for group in context.groups.values():
            if isinstance(group, ConsumerGroup) and group.reads_any(names):
                group.looked_at_epoch = None

    # Loading

    def replay(self, record: CoordinatorRecord, now_ms: int) -> None:
        """Take in a record of a consumer group; other records are ignored."""
        del now_ms  # Deadlines begin once everything is loaded.
        replay(self._context.groups, record, self._timeline)
        if record.value is None and isinstance(record.key, ConsumerGroupMemberMetadataKey):
            # Here and not where it was decided: the member is a member until that is written down.
            self._context.forget_member(record.key.group_id, record.key.member_id)

    def loaded(self, now_ms: int) -> Sequence[Decision[None]]:
        """All has been replayed. Every member has a whole session to come back in."""
        context = self._context
        for group_id, group in context.groups.items():
            if not isinstance(group, ConsumerGroup):
                continue
            for member in group.members.values():
                context.watch_member(group_id, member, now_ms)
        return ()

    def unload(self) -> None:
        """Another node leads now. Nobody waits here: every request is answered when its records are committed."""
        for group_id, group in self._context.groups.items():
            if isinstance(group, ConsumerGroup):
                for member_id in group.members:
                    self._context.forget_member(group_id, member_id)
