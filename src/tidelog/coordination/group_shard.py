# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""All groups of one partition of `__consumer_offsets`, of every kind, with their offsets.

Sends each request to the kind of group that it concerns. A group id belongs to one group; which kind that is may change while it
has no members, or, where `group.consumer.migration.policy` allows it, with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.classic.groups import ClassicGroups
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.groups import ConsumerGroups
from tidelog.coordination.coordinator_log import CoordinatorPartition
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.coordination.group_table import GroupTable
from tidelog.coordination.offsets import Offsets, nothing_fetched
from tidelog.coordination.share.context import Beginning
from tidelog.coordination.share.groups import ShareGroups, ask_nobody
from tidelog.coordination.streams.group import StreamsGroup
from tidelog.coordination.streams.groups import StreamsGroups
from tidelog.coordination.streams.heartbeats import HeartbeatResult
from tidelog.coordination.timeline import Timeline
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages import consumer_groups, group_admin, share_groups, streams_groups
from tidelog.wire.messages.group_admin import DeletableGroupResult, ListedGroup
from tidelog.wire.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from tidelog.wire.messages.groups_classic import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tidelog.wire.messages.internal.offset_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.wire.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tidelog.wire.typed.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tidelog.wire.typed.group_offsets import OffsetCommitRequest, OffsetCommitResponse
from tidelog.wire.typed.groups_classic import HeartbeatRequest, HeartbeatResponse

# From this version of OffsetCommit on, a group that is not there has an error of its own.
_COMMIT_KNOWS_MISSING_GROUPS = 9
_DESCRIBE_KNOWS_MISSING_GROUPS = 6

_WRONG_EPOCH = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION})

# An enum member as a module constant, since every commit needs it: see docs/style.md.
_NONE = ErrorCode.NONE

_DEAD = "Dead"
_EXPIRE_OFFSETS = ("offsets", "expire")


class GroupShard:
    """The groups of one partition. `topics` gives the cluster as it is at the moment."""

    def __init__(
        self,
        settings: GroupSettings,
        random: Random,
        topics: Callable[[], TopicsView],
        partition: CoordinatorPartition | None = None,
        begin: Callable[[Beginning], None] = ask_nobody,
    ) -> None:
        """`partition` is the one of the log that the shard is made from; without, everything counts as committed. `begin` is
        called with what share groups ask of the share coordinator."""
        self.deadlines = Deadlines()
        self.timeline = Timeline(partition)
        self.groups = GroupTable(self.timeline)
        self.classic = ClassicGroups(self.groups, self.deadlines, settings, random)
        self.consumer = ConsumerGroups(
            self.groups, self.deadlines, settings, random, topics(), self.classic, self.timeline
        )
        self.share = ShareGroups(self.groups, self.deadlines, settings, topics(), begin, self.timeline)
        self.streams = StreamsGroups(self.groups, self.deadlines, settings, topics(), self.timeline)
        self.offsets = Offsets(settings, self.timeline)
        self._settings = settings
        self._topics = topics

    # --- members of either protocol ----------------------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Decision[JoinGroupResponse]:
        if isinstance(self.groups.get(request.group_id), ConsumerGroup):
            return self.consumer.join_classic(request, caller, now_ms)
        return self.classic.join(request, caller, now_ms)

    def sync(self, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Decision[SyncGroupResponse]:
        if isinstance(self.groups.get(request.group_id), ConsumerGroup):
            return self.consumer.sync_classic(request, caller, now_ms)
        return self.classic.sync(request, caller, now_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Decision[HeartbeatResponse]:
        if isinstance(self.groups.get(request.group_id), ConsumerGroup):
            return self.consumer.heartbeat_classic(request, now_ms)
        return self.classic.heartbeat(request, now_ms)

    def leave(self, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Decision[LeaveGroupResponse]:
        if isinstance(self.groups.get(request.group_id), ConsumerGroup):
            return self.consumer.leave_classic(request, caller, now_ms)
        return self.classic.leave(request, caller, now_ms)

    def share_heartbeat(
        self, request: share_groups.ShareGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> Decision[share_groups.ShareGroupHeartbeatResponse]:
        return self.share.heartbeat(request, caller, now_ms)

    def streams_heartbeat(
        self, request: streams_groups.StreamsGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> Decision[HeartbeatResult]:
        return self.streams.heartbeat(request, caller, now_ms)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        return self.consumer.heartbeat(request, caller, now_ms)

    # --- offsets -----------------------------------------------------------------------------------------------------------

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        api_version: int,
        now_ms: int,
        refuse: Callable[[ErrorCode], OffsetCommitResponse],
    ) -> Decision[OffsetCommitResponse]:
        group = self.groups.get(request.group_id)
        epoch = request.generation_id_or_member_epoch
        if group is None:
            if epoch >= 0:
                is_new = api_version >= _COMMIT_KNOWS_MISSING_GROUPS
                return Decision(refuse(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION))
            # A consumer that manages its partitions itself, and only keeps its offsets here.
            group = self.classic.group_for_offsets(request.group_id, now_ms)
        error = group.check_commit(request.member_id, request.group_instance_id, epoch, api_version, now_ms)
        if error is _NONE:
            return self.offsets.commit(request, now_ms)
        if error in _WRONG_EPOCH:
            asked = [
                (t.name, TopicId(t.topic_id), each.partition_index) for t in request.topics for each in t.partitions
            ]
            error = _check_each_partition(group, request.member_id, epoch, error, asked)
            if error is _NONE:
                return self.offsets.commit(request, now_ms)
        return Decision(refuse(error))

    def commit_offsets_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        caller: Caller,
        guard: int | None,
        now_ms: int,
        refuse: Callable[[ErrorCode], TxnOffsetCommitResponse],
    ) -> Decision[TxnOffsetCommitResponse]:
        """`guard` is what the producer's partition of the log was verified with, None where nobody verifies."""
        group = self.groups.get(request.group_id)
        epoch = request.generation_id
        if group is None:
            if epoch >= 0:
                return Decision(refuse(ErrorCode.ILLEGAL_GENERATION))
            group = self.classic.group_for_offsets(request.group_id, now_ms)
        error = group.check_commit(
            request.member_id, request.group_instance_id, epoch, caller.api_version, now_ms, True
        )
        if error in _WRONG_EPOCH:
            # The request has no ids of topics.
            ids = self._topics().topic_ids
            asked = [
                (topic.name, ids.get(TopicName(topic.name)), each.partition_index)
                for topic in request.topics
                for each in topic.partitions
            ]
            error = _check_each_partition(group, request.member_id, epoch, error, asked)
        if error is ErrorCode.STALE_MEMBER_EPOCH:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return Decision(refuse(error))
        return self.offsets.commit_in_transaction(request, guard, now_ms)

    def fetch_offsets(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Stable offsets as of all that is written, for an answer that waits until it is committed; others as of what is."""
        self.timeline.trim()
        group = self.groups.get(request.group_id) if require_stable else self.groups.committed(request.group_id)
        if group is None:
            topics = [
                OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[nothing_fetched(index, ErrorCode.NONE) for index in topic.partition_indexes],
                )
                for topic in request.topics or ()
            ]
            return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)
        error = group.check_fetch(request.member_id, request.member_epoch)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=request.group_id, topics=[], error_code=error)
        if request.topics is None:
            fetched = self.offsets.fetch_all(request.group_id, require_stable=require_stable)
        else:
            fetched = self.offsets.fetch(request.group_id, request.topics, require_stable=require_stable)
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=fetched)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(
                OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, throttle_time_ms=0, topics=[])
            )
        error = _check_offset_delete(group)
        if error is not ErrorCode.NONE:
            return Decision(OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=[]))
        return self.offsets.delete(request, group)

    def _expire_offsets(self, now_ms: int) -> Decision[None]:
        records: list[CoordinatorRecord] = []
        for group in list(self.groups.values()):
            if not group.has_offsets:
                continue
            expired, is_all = self.offsets.expiry(group, now_ms)
            records += expired
            if is_all and group.is_empty:
                records += group.tombstones()
        self.deadlines.set(_EXPIRE_OFFSETS, self._next_expiry_ms(now_ms), self._expire_offsets)
        return Decision(None, tuple(records))

    def _next_expiry_ms(self, now_ms: int) -> int:
        return now_ms + self._settings.offsets_retention_check_interval_ms

    # --- administration ----------------------------------------------------------------------------------------------------

    def listed(self, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
        """The groups in one of these states and of one of these types; all where none is named. Letter case is free.

        This and all descriptions are as of what is committed.
        """
        self.timeline.trim()
        wanted_states = {state.lower() for state in states}
        wanted_types = {each.lower() for each in types}
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type_name,
            )
            for group in self.groups.all_committed()
            if (not wanted_states or group.state_name.lower() in wanted_states)
            and (not wanted_types or group.type_name.lower() in wanted_types)
        ]

    def describe(self, group_id: str, api_version: int) -> group_admin.DescribedGroup:
        """As DescribeGroups has it, which knows classic groups alone."""
        self.timeline.trim()
        group = self.groups.committed(group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.describe(group)
        is_error = api_version >= _DESCRIBE_KNOWS_MISSING_GROUPS
        message = f"Group {group_id} is not a classic group." if group else f"Group {group_id} not found."
        return group_admin.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
            error_message=message if is_error else None,
            group_id=group_id,
            group_state=_DEAD,
            protocol_type="",
            protocol_data="",
            members=[],
        )

    def describe_share(self, group_id: str) -> share_groups.DescribedGroup:
        """As ShareGroupDescribe has it, which knows share groups alone."""
        self.timeline.trim()
        return self.share.describe(group_id, self.groups.committed(group_id))

    def describe_streams(self, group_id: str) -> streams_groups.DescribedGroup:
        """As StreamsGroupDescribe has it, which knows streams groups alone."""
        self.timeline.trim()
        return self.streams.describe(group_id, self.groups.committed(group_id))

    def describe_consumer(self, group_id: str) -> consumer_groups.DescribedGroup:
        """As ConsumerGroupDescribe has it, which knows groups of the new protocol alone."""
        self.timeline.trim()
        group = self.groups.committed(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.describe(group)
        message = f"Group {group_id} is not a consumer group." if group else f"Group {group_id} not found."
        return undescribed_consumer_group(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)

    def delete(self, group_ids: Iterable[str]) -> Decision[list[DeletableGroupResult]]:
        records: list[CoordinatorRecord] = []
        results = []
        for group_id in group_ids:
            group = self.groups.get(group_id)
            error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
            if group is not None and error is ErrorCode.NONE:
                records += self.offsets.deletion_of_group(group_id)
                records += group.tombstones()
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        return Decision(results, tuple(records))

    # --- the cluster -------------------------------------------------------------------------------------------------------

    def topics_changed(
        self, topics: TopicsView, changed: Iterable[TopicName], removed: Iterable[TopicName], now_ms: int
    ) -> Decision[None]:
        """The cluster's topics are others now. What was committed for those that are gone goes with them."""
        gone = list(removed)
        others = list(changed)
        self.consumer.topics_changed(topics, [*others, *gone], now_ms)
        self.streams.topics_changed(topics, [*others, *gone])
        forgotten = self.share.topics_changed(topics, others, gone)
        return Decision(None, (*self.offsets.deletion_of_topics(gone), *forgotten) if gone else ())

    # --- the shard's life --------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int, now_ms: int) -> None:
        self.timeline.begin_replay(offset)
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group not in self.groups:
                self.classic.group_for_offsets(key.group, now_ms)
            self.offsets.replay(key, value, offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self.classic.replay_group(key, value, now_ms)
        else:
            self.consumer.replay(record, now_ms)
            self.share.replay(record, now_ms)
            self.streams.replay(record)
        self.timeline.end_replay()

    def end_transaction(self, producer_id: int, offset: int, *, is_committed: bool) -> None:
        self.timeline.begin_replay(offset)
        self.offsets.end_transaction(producer_id, is_committed=is_committed)
        self.timeline.end_replay()

    def loaded(self, now_ms: int) -> list[Decision[None]]:
        # While the log was read, the cluster has moved on.
        self.consumer.topics_changed(self._topics(), (), now_ms)
        self.share.loaded(self._topics(), now_ms)
        self.streams.loaded(self._topics(), now_ms)
        self.deadlines.set(_EXPIRE_OFFSETS, self._next_expiry_ms(now_ms), self._expire_offsets)
        return [*self.classic.loaded(now_ms), *self.consumer.loaded(now_ms)]

    def unload(self) -> None:
        self.classic.unload()
        self.consumer.unload()
        self.deadlines.clear()


def _check_each_partition(
    group: Group,
    member_id: str,
    epoch: int,
    wrong: ErrorCode,
    asked: Iterable[tuple[str, TopicId | None, int]],
) -> ErrorCode:
    """Whether a member whose epoch has moved on may commit all of these partitions still (KIP-1251), by name, id and index. All
    or none, and never in a group whose partitions have no epochs: it is `wrong` there."""
    if not isinstance(group, (ConsumerGroup, StreamsGroup)):
        return wrong
    for name, topic_id, partition in asked:
        if isinstance(group, StreamsGroup):
            error = group.check_commit_of(member_id, epoch, TopicName(name), partition)
        elif topic_id is None:
            return ErrorCode.ILLEGAL_GENERATION
        else:
            error = group.check_commit_of(member_id, epoch, topic_id, partition)
        if error is not ErrorCode.NONE:
            return error
    return ErrorCode.NONE


def _check_offset_delete(group: Group) -> ErrorCode:
    """Offsets of a group of consumers go topic by topic; whether another kind of group uses them is unknown."""
    if isinstance(group, ClassicGroup):
        return group.check_offset_delete()
    return ErrorCode.NONE if group.has_offsets else ErrorCode.GROUP_ID_NOT_FOUND


def undescribed_consumer_group(group_id: str, error: ErrorCode, message: str | None) -> consumer_groups.DescribedGroup:
    """The answer about a group that cannot be described."""
    return consumer_groups.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
