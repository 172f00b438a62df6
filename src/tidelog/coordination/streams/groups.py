"""The streams groups (KIP-1071) of one shard of the group coordinator. Decides purely.

    decision = streams.heartbeat(request, caller, now_ms)
    append decision.records, replay each of them, decision.settled(error), decision.answer

Everything about a group is in its records. What is not: members' deadlines, which begin anew on load; the topology on the
cluster's topics, which is computed again; who wants the application to end; and the count of what is known of endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.coordination.streams.context import StreamsContext
from tidelog.coordination.streams.group import StreamsGroup
from tidelog.coordination.streams.heartbeats import HeartbeatResult, StreamsHeartbeats
from tidelog.coordination.streams.member import StreamsMember
from tidelog.coordination.streams.replay import replay
from tidelog.coordination.streams.tasks import NO_TASKS
from tidelog.coordination.timeline import Timeline
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.streams_group_records import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
)
from tidelog.wire.messages.streams_groups import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeTopology,
    StreamsGroupHeartbeatRequest,
    TaskIds,
)


class StreamsGroups:
    """All streams groups in `groups`, which others share for groups of other kinds. `timeline` keeps what uncommitted records
    replace."""

    def __init__(
        self,
        groups: dict[str, Group],
        deadlines: Deadlines,
        settings: GroupSettings,
        topics: TopicsView,
        timeline: Timeline | None = None,
    ) -> None:
        self._timeline = Timeline() if timeline is None else timeline
        self._context = StreamsContext(groups, deadlines, settings, topics)
        self._heartbeats = StreamsHeartbeats(self._context)

    # Requests

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> Decision[HeartbeatResult]:
        """A member joins, stays, or leaves. The answer has tasks only where they changed, or the member joined."""
        return self._heartbeats.heartbeat(request, caller, now_ms)

    def describe(self, group_id: str, group: Group | None) -> DescribedGroup:
        """What StreamsGroupDescribe says of what is there under an id."""
        if not isinstance(group, StreamsGroup):
            what = "not found" if group is None else "is not a streams group"
            return undescribed_streams_group(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group.group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            topology=_described_topology(group),
            members=[_described_member(group, member) for member in group.members.values()],
        )

    # The cluster

    def topics_changed(self, topics: TopicsView, changed: Iterable[TopicName]) -> None:
        """These topics are new, other or gone. Groups that need them look at them with their next heartbeat."""
        context, names = self._context, set(changed)
        context.topics = topics
        context.hashes.forget(names)
        for group in context.groups.values():
            if isinstance(group, StreamsGroup) and not names.isdisjoint(group.required_topics):
                group.looked_at_epoch = None

    # Loading

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in a record of a streams group; other records are ignored."""
        replay(self._context.groups, record, self._timeline)
        if record.value is not None:
            return
        # Here and not where it was decided: members and groups are there until their end is written down.
        if isinstance(record.key, StreamsGroupMemberMetadataKey):
            self._context.forget_member(record.key.group_id, record.key.member_id)
        elif isinstance(record.key, StreamsGroupMetadataKey):
            self._context.forget_group(record.key.group_id)

    def loaded(self, topics: TopicsView, now_ms: int) -> None:
        """All has been replayed. Every member has a whole session to come back in."""
        self._context.topics = topics
        for group in self._context.groups.values():
            if isinstance(group, StreamsGroup):
                self._heartbeats.watch(group, now_ms)


def undescribed_streams_group(group_id: str, error: ErrorCode, message: str | None) -> DescribedGroup:
    """The answer about a group that cannot be described."""
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        topology=None,
        members=[],
    )


def _described_topology(group: StreamsGroup) -> StreamsGroupDescribeTopology | None:
    """With the counts of partitions that internal topics have, once they are all there."""
    if group.configured is not None and group.configured.is_ready:
        return group.configured.described()
    return None if group.topology is None else group.topology.described()


def _described_member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint, has, target = member.user_endpoint, member.assigned, group.targets.get(member.member_id, NO_TASKS)
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(has.active, has.standby, has.warmup),
        target_assignment=_assignment(target.active, target.standby, target.warmup),
        is_classic=False,
    )


def _assignment(
    active: Mapping[str, Iterable[int]], standby: Mapping[str, Iterable[int]], warmup: Mapping[str, Iterable[int]]
) -> Assignment:
    return Assignment(active_tasks=_task_ids(active), standby_tasks=_task_ids(standby), warmup_tasks=_task_ids(warmup))


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=list(each)) for name, each in tasks.items()]
