"""The share groups (KIP-932) of one shard of the group coordinator. Decides purely.

    decision = share.heartbeat(request, caller, now_ms)
    append decision.records, replay each of them, decision.settled(error), decision.answer

Everything about a group is in its records. What is not: members' sessions, which begin anew on load, and what a group has already
looked at, which it does again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.coordination.share.administration import ShareAdministration
from tidelog.coordination.share.context import Beginning, ShareContext
from tidelog.coordination.share.group import ShareGroup
from tidelog.coordination.share.heartbeats import ShareHeartbeats
from tidelog.coordination.share.member import ShareMember
from tidelog.coordination.share.replay import replay
from tidelog.coordination.share.simple_assignor import NAME
from tidelog.coordination.timeline import Timeline
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.share_group_records import ShareGroupMemberMetadataKey
from tidelog.wire.messages.share_groups import (
    DescribedGroup,
    Member,
    ShareGroupDescribeAssignment,
    ShareGroupDescribeTopicPartitions,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def ask_nobody(_beginning: Beginning) -> None:
    """Where there is no share coordinator: partitions stay without a state."""


class ShareGroups:
    """All share groups in `groups`, which others share for groups of other kinds.

    `begin` is called with what the share coordinator is to be asked; `administration.states_begun` with what it did. `timeline`
    keeps what uncommitted records replace.
    """

    def __init__(
        self,
        groups: dict[str, Group],
        deadlines: Deadlines,
        settings: GroupSettings,
        topics: TopicsView,
        begin: Callable[[Beginning], None] = ask_nobody,
        timeline: Timeline | None = None,
    ) -> None:
        self._timeline = Timeline() if timeline is None else timeline
        self._context = ShareContext(groups, deadlines, settings, topics, begin)
        self._heartbeats = ShareHeartbeats(self._context)
        self.administration = ShareAdministration(self._context)

    # Requests

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> Decision[ShareGroupHeartbeatResponse]:
        """A member joins, stays, or leaves. The answer has an assignment only where it changed, or the member asked."""
        return self._heartbeats.heartbeat(request, caller, now_ms)

    def describe(self, group_id: str, group: Group | None) -> DescribedGroup:
        """What ShareGroupDescribe says of what is there under an id."""
        if not isinstance(group, ShareGroup):
            what = "not found" if group is None else "is not a share group"
            return undescribed_share_group(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group.group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=NAME,
            members=[self._describe_member(member) for member in group.members.values()],
        )

    def _describe_member(self, member: ShareMember) -> Member:
        topics = self._context.topics.topics
        return Member(
            member_id=member.member_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.subscribed_names),
            assignment=ShareGroupDescribeAssignment(
                topic_partitions=[
                    ShareGroupDescribeTopicPartitions(
                        topic_id=topic, topic_name=topics[topic].name, partitions=list(partitions)
                    )
                    for topic, partitions in member.assigned.items()
                    if topic in topics
                ]
            ),
        )

    # The cluster

    def topics_changed(
        self, topics: TopicsView, changed: Iterable[TopicName], gone: Sequence[TopicName]
    ) -> list[CoordinatorRecord]:
        """These topics are new, other or gone. Groups that read them look at them with their next heartbeat. What is written down
        of those that are gone."""
        context = self._context
        names = {*changed, *gone}
        context.topics = topics
        context.hashes.forget(names)
        for group in context.groups.values():
            if isinstance(group, ShareGroup) and group.reads_any(names):
                group.looked_at_epoch = None
                group.has_nothing_to_begin = False
        return self.administration.forget_deleted_topics() if gone else []

    # Loading

    def replay(self, record: CoordinatorRecord, now_ms: int) -> None:
        """Take in a record of a share group; other records are ignored."""
        replay(self._context.groups, record, self._timeline, now_ms)
        if record.value is None and isinstance(record.key, ShareGroupMemberMetadataKey):
            # Here and not where it was decided: the member is a member until that is written down.
            self._context.sessions.forget(record.key.group_id, record.key.member_id)

    def loaded(self, topics: TopicsView, now_ms: int) -> None:
        """All has been replayed. Every member has a whole session to come back in."""
        self._context.topics = topics
        for group in self._context.groups.values():
            if isinstance(group, ShareGroup):
                self._heartbeats.watch(group, now_ms)


def undescribed_share_group(group_id: str, error: ErrorCode, message: str | None) -> DescribedGroup:
    """The answer about a group that cannot be described."""
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
