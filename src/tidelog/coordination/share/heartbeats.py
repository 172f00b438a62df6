"""ShareGroupHeartbeat: joining, staying, leaving.

    1  the member is written down if it said something new
    2  the group's epoch rises if subscriptions or their topics have changed, or partitions with a state are with nobody
    3  the target assignment is computed if it is behind the group's epoch, and the last one is not too recent
    4  the member gets what the target gives it
    5  partitions of its topics that have no state are noted, and the share coordinator is asked for states of them

Records come in this order, which is Kafka's. Only partitions with a state are assigned, so a first heartbeat assigns nothing. As
in Kafka, nobody waits for step 5: whether it worked shows with a later heartbeat.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from tidelog.coordination.consumer.assignors.subscription import NOTHING, Assignment
from tidelog.coordination.consumer.records import names_of
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.share.context import Beginning, ShareContext
from tidelog.coordination.share.group import ShareGroup
from tidelog.coordination.share.member import JOINING_EPOCH, LEAVING_EPOCH, ShareMember
from tidelog.coordination.share.records import (
    current_record,
    group_record,
    member_record,
    member_tombstones,
    share_partitions_record,
    target_epoch_record,
    target_record,
)
from tidelog.coordination.share.share_partitions import TopicPartitions as StatePartitions, TopicsPartitions
from tidelog.coordination.share.simple_assignor import ShareSubscription, assign_simply
from tidelog.coordination.share.validation import check_epoch, check_request, check_room, known_member
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.share_groups import (
    Assignment as AssignmentAnswer,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

logger = logging.getLogger(__name__)

_Answer = Decision[ShareGroupHeartbeatResponse]

# Where a state begins that nobody has chosen an offset for.
ANYWHERE = -1


class ShareHeartbeats:
    """Decides about heartbeats of share groups."""

    def __init__(self, context: ShareContext) -> None:
        self._context = context

    def heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller, now_ms: int) -> _Answer:
        known = self._context.groups.get(request.group_id)
        if isinstance(known, ShareGroup):
            member = known.members.get(request.member_id)
            if member is not None and _has_nothing_new(known, member, request, caller):
                return Decision(self._stay(known, member, now_ms))
        try:
            check_request(request)
            if request.member_epoch == LEAVING_EPOCH:
                return self._leave(request)
            return self._progress(request, caller, now_ms)
        except RefusedError as refused:
            return Decision(refused_heartbeat(refused.code, refused.message))

    def expire(self, group_id: str, member_id: str, now_ms: int) -> Decision[None] | None:  # noqa: ARG002 - of a deadline
        """A member's time has run out."""
        group = self._context.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ShareGroup) else None
        if not isinstance(group, ShareGroup) or member is None:
            return None
        logger.info("member %s of group %s is fenced because its session expired", member_id, group_id)
        return Decision(None, self._without(group, member))

    def watch(self, group: ShareGroup, now_ms: int) -> None:
        """Begin the sessions of members that this node has not watched so far."""
        for member_id in group.members:
            self._context.sessions.renew(group.group_id, member_id, now_ms, self.expire)

    def _stay(self, group: ShareGroup, member: ShareMember, now_ms: int) -> ShareGroupHeartbeatResponse:
        """Renew the member's session; the answer without an assignment."""
        self._context.sessions.renew(group.group_id, member.member_id, now_ms, self.expire)
        return ShareGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._context.settings.share_limits_of(group.group_id).heartbeat_interval_ms,
        )

    def _leave(self, request: ShareGroupHeartbeatRequest) -> _Answer:
        group = self._context.known_group(request.group_id)
        member = known_member(group, request.member_id)
        answer = ShareGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )
        return Decision(answer, self._without(group, member))

    def _without(self, group: ShareGroup, member: ShareMember) -> tuple[CoordinatorRecord, ...]:
        """Take a member out. The others get its partitions with the next target assignment."""
        metadata_hash = self._context.metadata_hash(group.subscribed_topics(member))
        return (
            *member_tombstones(group.group_id, member.member_id),
            group_record(group.group_id, group.epoch + 1, metadata_hash),
        )

    def _progress(self, request: ShareGroupHeartbeatRequest, caller: Caller, now_ms: int) -> _Answer:
        is_joining = request.member_epoch == JOINING_EPOCH
        group = self._group(request.group_id, is_joining=is_joining)
        check_room(group, request.member_id, self._context.settings.share_max_size)
        if is_joining:
            member = group.members.get(request.member_id) or ShareMember(request.member_id)
        else:
            member = known_member(group, request.member_id)
            check_epoch(member, request.member_epoch)
        records: list[CoordinatorRecord] = []
        updated = _updated(member, request, caller)
        epoch, topics = self._update_subscription(group, member, updated, records)
        has_bumped = epoch != group.epoch
        updated = self._advance(group, updated, epoch, now_ms, records, has_bumped=has_bumped)
        beginning = self._begin(group, epoch, topics, now_ms, records)
        answer = self._stay(group, updated, now_ms)
        if is_joining or request.subscribed_topic_names is not None or updated.assigned != member.assigned:
            answer.assignment = _assignment(updated.assigned)

        def settled(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                # The decision was not recorded, so nothing of it is remembered: the next heartbeat decides again.
                group.looked_at_epoch = None
            elif beginning is not None:
                self._context.begin(beginning)

        return Decision(answer, tuple(records), settled=settled if records else None)

    def _group(self, group_id: str, *, is_joining: bool) -> ShareGroup:
        group = self._context.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is not None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if not is_joining:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return ShareGroup(group_id)

    def _update_subscription(
        self, group: ShareGroup, member: ShareMember, updated: ShareMember, records: list[CoordinatorRecord]
    ) -> tuple[int, set[TopicName]]:
        """Steps 1 and 2: the group's epoch from now on, and the topics that its members read."""
        if updated != member:
            records.append(member_record(group.group_id, updated))
        bumps = updated.subscribed_names != member.subscribed_names
        if group.assignment_epoch >= group.epoch and not group.has_nothing_to_assign:
            group.has_nothing_to_assign = not self._has_unassigned(group)
            bumps = bumps or not group.has_nothing_to_assign
        topics = group.subscribed_topics(group.members.get(member.member_id), updated)
        is_due = group.looked_at_epoch is None or group.epoch < group.looked_at_epoch
        if not (bumps or is_due):
            return group.epoch, topics
        metadata_hash = self._context.metadata_hash(topics)
        epoch = group.epoch
        if bumps or metadata_hash != group.metadata_hash:
            epoch += 1
            records.append(group_record(group.group_id, epoch, metadata_hash))
        group.looked_at_epoch = epoch
        return epoch, topics

    def _has_unassigned(self, group: ShareGroup) -> bool:
        """Whether the target gives other partitions of some topic to members than those that have a state."""
        given: dict[TopicId, set[int]] = {}
        for target in group.targets.values():
            for topic_id, partitions in target.items():
                given.setdefault(topic_id, set()).update(partitions)
        return any(
            given.get(topic_id) != set(known.partitions)
            for topic_id, known in group.partitions.initialised.items()
            if group.is_subscribed_to(known.name) and topic_id in self._context.topics.topics
        )

    def _advance(
        self,
        group: ShareGroup,
        updated: ShareMember,
        epoch: int,
        now_ms: int,
        records: list[CoordinatorRecord],
        *,
        has_bumped: bool,
    ) -> ShareMember:
        """Steps 3 and 4: the member as it is afterwards."""
        if group.assignment_epoch >= epoch or not self._context.may_assign(group, now_ms):
            target_epoch, target = group.assignment_epoch, group.targets.get(updated.member_id, NOTHING)
        else:
            target_epoch, target = epoch, self._assign(group, updated, epoch, now_ms, records)
        if not has_bumped and updated.member_epoch == target_epoch:
            return updated
        topic_ids = self._context.topic_ids(updated.subscribed_names)
        reconciled = updated.reconciled(target_epoch, target, topic_ids)
        if reconciled != updated:
            records.append(current_record(group.group_id, reconciled))
        return reconciled

    def _assign(
        self, group: ShareGroup, updated: ShareMember, epoch: int, now_ms: int, records: list[CoordinatorRecord]
    ) -> Assignment:
        members = {**group.members, updated.member_id: updated}
        # Most members read the same topics.
        read: dict[tuple[TopicName, ...], frozenset[TopicId]] = {}
        subscriptions: dict[str, ShareSubscription] = {}
        for member_id, member in members.items():
            topics = read.get(member.subscribed_names)
            if topics is None:
                topics = read[member.subscribed_names] = frozenset(self._context.topic_ids(member.subscribed_names))
            subscriptions[member_id] = ShareSubscription(topics, group.targets.get(member_id, NOTHING))
        assignable = {topic_id: known.partitions for topic_id, known in group.partitions.initialised.items()}
        assignments = assign_simply(subscriptions, assignable)
        records += [
            target_record(group.group_id, member_id, assignments[member_id])
            for member_id in members
            if assignments[member_id] != group.targets.get(member_id)
        ]
        records.append(target_epoch_record(group.group_id, epoch, now_ms))
        return assignments[updated.member_id]

    def _begin(
        self, group: ShareGroup, epoch: int, topics: set[TopicName], now_ms: int, records: list[CoordinatorRecord]
    ) -> Beginning | None:
        """Step 5: what the share coordinator is to be asked."""
        missing = self._missing(group, topics, now_ms)
        if not missing:
            ids, partitions = self._context.topics, group.partitions
            group.has_nothing_to_begin = all(
                partitions.is_begun(topic_id, len(ids.topics[topic_id].partitions))
                for topic_id in self._context.topic_ids(topics)
            )
            return None
        records.append(share_partitions_record(group.group_id, group.partitions.beginning(missing)))
        offsets = {topic_id: dict.fromkeys(each.partitions, ANYWHERE) for topic_id, each in missing.items()}
        return Beginning(group.group_id, epoch, offsets)

    def _missing(self, group: ShareGroup, topics: set[TopicName], now_ms: int) -> TopicsPartitions:
        """Partitions of these topics that have no state, and are not about to get one."""
        began_before_ms = now_ms - self._context.settings.share_initialise_retry_interval_ms
        missing: dict[TopicId, StatePartitions] = {}
        for topic_id in sorted(self._context.topic_ids(topics)):
            topic = self._context.topics.topics[topic_id]
            partitions = group.partitions.missing_of(topic_id, len(topic.partitions), began_before_ms)
            if partitions:
                missing[topic_id] = StatePartitions(topic.name, partitions, now_ms)
        return missing


def refused_heartbeat(code: ErrorCode, message: str | None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


def _has_nothing_new(
    group: ShareGroup, member: ShareMember, request: ShareGroupHeartbeatRequest, caller: Caller
) -> bool:
    """Whether the member has all that it should have, says nothing new, and the group has nothing to do.

    The one shortcut past `_progress`, which would find no record to write and the same answer.
    """
    epoch = request.member_epoch
    return (
        epoch > 0
        and epoch == member.member_epoch
        and epoch == group.assignment_epoch
        and epoch == group.epoch
        and epoch == group.looked_at_epoch
        and group.has_nothing_to_assign
        and group.has_nothing_to_begin
        and request.subscribed_topic_names is None
        and (request.rack_id is None or request.rack_id == member.rack_id)
        and caller.client_id == member.client_id
        and caller.client_host == member.client_host
    )


def _updated(member: ShareMember, request: ShareGroupHeartbeatRequest, caller: Caller) -> ShareMember:
    """The member with what it says of itself; what it leaves out stays as it was."""
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        subscribed_names=member.subscribed_names if names is None else names_of(names),
        client_id=caller.client_id,
        client_host=caller.client_host,
    )


def _assignment(assigned: Assignment) -> AssignmentAnswer:
    topics = [TopicPartitions(topic_id=topic, partitions=list(parts)) for topic, parts in assigned.items()]
    return AssignmentAnswer(topic_partitions=topics)
