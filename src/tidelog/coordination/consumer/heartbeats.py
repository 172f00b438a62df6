# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""ConsumerGroupHeartbeat: joining, staying, leaving.

A heartbeat of a member that has all it should have, and has nothing new to say, is the one that counts: it costs a few
comparisons and a moved deadline, whatever the size of the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelog import plain_cython
from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.classic.groups import ClassicGroups
from tidelog.coordination.consumer.context import GroupContext
from tidelog.coordination.consumer.conversion import check_upgrade, conversion_records, from_classic
from tidelog.coordination.consumer.fencing import Fencing
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)
from tidelog.coordination.consumer.progress import Progress
from tidelog.coordination.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    names_of,
    target_record,
)
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.consumer.validation import (
    check_epoch,
    check_released,
    check_request,
    check_room,
    known_member,
    known_static_member,
)
from tidelog.coordination.decision import Caller, Decision
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.typed.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    import cython

    _Answer: TypeAlias = Decision[ConsumerGroupHeartbeatResponse]
else:
    cython = plain_cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.fields_inline import blank
else:
    from tidelog.wire.typed.fields import blank

# An enum member as a module constant, since every heartbeat needs it: see docs/style.md.
_STABLE = MemberState.STABLE


class Heartbeats:
    """Decides about heartbeats of the new protocol."""

    def __init__(self, context: GroupContext, fencing: Fencing, classic: ClassicGroups | None) -> None:
        self._context = context
        self._fencing = fencing
        self._classic = classic

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int) -> _Answer:
        known = self._context.groups.get(request.group_id)
        if isinstance(known, ConsumerGroup):
            member = known.members.get(request.member_id)
            if member is not None and _has_nothing_new(known, member, request, caller):
                return Decision(self._stay(known, member, now_ms))
        try:
            check_request(request, caller.api_version, self._context.settings.consumer_assignors)
            if request.member_epoch < 0:
                return self._leave(request, now_ms)
            return self._progress(request, caller, now_ms)
        except RefusedError as refused:
            return Decision(refused_heartbeat(refused.code, refused.message))

    def _stay(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> ConsumerGroupHeartbeatResponse:
        """Renew the member's session; the answer without an assignment."""
        limits = self._context.settings.consumer_limits_of(group.group_id)
        self._context.renew_session(group.group_id, member.member_id, limits.session_timeout_ms, now_ms)
        # Every heartbeat needs one, and to set fields costs less than to name them.
        answer: ConsumerGroupHeartbeatResponse = blank(ConsumerGroupHeartbeatResponse)
        answer.throttle_time_ms = 0
        answer.error_code = 0
        answer.error_message = None
        answer.member_id = member.member_id
        answer.member_epoch = member.member_epoch
        answer.heartbeat_interval_ms = limits.heartbeat_interval_ms
        answer.assignment = None
        return answer

    def _progress(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int) -> _Answer:
        context = self._context
        is_joining = request.member_epoch == JOINING_EPOCH
        known = context.groups.get(request.group_id)
        records: list[CoordinatorRecord] = []
        group = self._group(request.group_id, records, is_joining=is_joining)
        check_room(group, request.member_id, context.settings.consumer_max_size)
        member_id = request.member_id or context.new_member_id()
        member = self._member(group, member_id, request, records)
        progress = Progress(context, group, member, _updated(member, request, caller), records, caller, now_ms)
        progress.update_subscription()
        progress.advance(request.topic_partitions)
        updated = progress.updated
        answer = self._stay(group, updated, now_ms)
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        if is_joining or is_full or updated.assigned != member.assigned:
            answer.assignment = _assignment(updated.assigned)

        def settled(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                # The decision was not recorded, so nothing of it is remembered: the next heartbeat decides again.
                group.looked_at_epoch = group.regexes_version = None

        converted = known if isinstance(known, ClassicGroup) and not known.is_empty else None
        if converted is not None:
            return self._converted(converted, group, answer, records, now_ms)
        return Decision(answer, tuple(records), settled=settled if records else None)

    def _group(self, group_id: str, records: list[CoordinatorRecord], *, is_joining: bool) -> ConsumerGroup:
        group = self._context.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not is_joining:
            if group is None:
                raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group is None:
            return ConsumerGroup(group_id)
        if not isinstance(group, ClassicGroup):
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        records += group.tombstones()
        if group.is_empty:
            return ConsumerGroup(group_id)
        if self._classic is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        check_upgrade(self._context, group)
        converted = from_classic(self._context, group)
        records += conversion_records(converted)
        return converted

    def _converted(
        self,
        before: ClassicGroup,
        group: ConsumerGroup,
        answer: ConsumerGroupHeartbeatResponse,
        records: list[CoordinatorRecord],
        now_ms: int,
    ) -> _Answer:
        """A classic group ends with this decision: its members' sessions go on here, and those who wait join again."""
        context, classic = self._context, self._classic
        assert classic is not None
        classic.release(before)
        for member in group.members.values():
            context.watch_member(group.group_id, member, now_ms)

        def settled(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and context.groups.get(group.group_id) is before:
                for member_id in (*group.members, answer.member_id or ""):
                    context.forget_member(group.group_id, member_id)
                classic.adopt(before, now_ms, rebalances=False)

        return Decision(answer, tuple(records), settled=settled)

    def _member(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        """The member that speaks: a known one in the right epoch, or a new one."""
        is_joining = request.member_epoch == JOINING_EPOCH
        instance_id = request.instance_id
        if instance_id is None:
            if is_joining and member_id not in group.members:
                return ConsumerMember(member_id)
            member = known_member(group, member_id)
            check_epoch(member, request.member_epoch, request.topic_partitions)
            return member
        if not is_joining:
            member = known_static_member(group, member_id, instance_id)
            check_epoch(member, request.member_epoch, request.topic_partitions)
            return member
        holder = group.static_member(instance_id)
        if holder is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if holder.classic is None:
            check_released(holder, member_id, instance_id)
        return replace_static_member(group, holder, member_id, records)

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> _Answer:
        group = self._context.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            what = "not found" if group is None else "is not a consumer group"
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")
        answer = ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=0,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )
        if request.instance_id is None:
            member = known_member(group, request.member_id)
        else:
            member = known_static_member(group, request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVING_EPOCH:
                away = replace(
                    member,
                    member_epoch=STATIC_LEAVING_EPOCH,
                    assigned={topic: dict.fromkeys(epochs, 0) for topic, epochs in member.assigned.items()},
                    pending_revocation={},
                )
                return Decision(answer, (current_record(group.group_id, away),))
        assert request.member_epoch == LEAVING_EPOCH
        return self._fencing.fence(group, [member], answer, now_ms)


def replace_static_member(
    group: ConsumerGroup,
    holder: ConsumerMember,
    member_id: str,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    """A member that takes the place of the holder of its instance id, with all that it has."""
    group_id = group.group_id
    member = replace(holder, member_id=member_id, member_epoch=JOINING_EPOCH, previous_member_epoch=JOINING_EPOCH)
    if holder.member_id != member_id:
        records += member_tombstones(group_id, holder.member_id)
    records.append(member_record(group_id, member))
    records.append(target_record(group_id, member_id, group.targets.get(holder.member_id, {})))
    records.append(current_record(group_id, member))
    return member


def refused_heartbeat(code: ErrorCode, message: str | None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


def _has_nothing_new(
    group: ConsumerGroup, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> bool:
    """Whether the member has all that it should have, says nothing new, and the group has nothing to do.

    The one shortcut past `Progress`, which would find no record to write and the same answer.
    """
    epoch = request.member_epoch
    return (
        epoch > 0
        and epoch == member.member_epoch
        and epoch == group.assignment_epoch
        and epoch == group.epoch
        and epoch == group.looked_at_epoch
        and member.state is _STABLE
        and member.classic is None
        and not group.regex_subscribers
        and request.subscribed_topic_names is None
        and request.topic_partitions is None
        and request.rebalance_timeout_ms == -1
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and (request.rack_id is None or request.rack_id == member.rack_id)
        and caller.client_id == member.client_id
        and caller.client_host == member.client_host
    )


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member with what it says of itself; what it leaves out stays as it was."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    has_timeout = request.rebalance_timeout_ms != -1
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else member.rebalance_timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_names=member.subscribed_names if names is None else names_of(names),
        subscribed_regex=member.subscribed_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _assignment(owned: OwnedPartitions) -> Assignment:
    topics = [TopicPartitions(topic_id=topic, partitions=list(epochs)) for topic, epochs in owned.items()]
    return Assignment(topic_partitions=topics)
