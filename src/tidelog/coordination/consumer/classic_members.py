"""Members of a group of the new protocol that speak the classic one, while their fleet is being upgraded.

Joining is a heartbeat in disguise: there is nobody to wait for, so it is answered at once, and the assignment that SyncGroup
fetches is the member's current one. Whenever the member falls behind the group, its heartbeats tell it to join again.
"""

from __future__ import annotations

from msgspec.structs import replace

from tidelog.coordination.classic.answers import (
    heartbeat_answer,
    join_error,
    leave_answer,
    leave_error,
    leavers_of,
    sync_error,
)
from tidelog.coordination.classic.groups import ClassicGroups
from tidelog.coordination.consumer.context import GroupContext
from tidelog.coordination.consumer.conversion import assignment_bytes, may_downgrade, subscription_of
from tidelog.coordination.consumer.fencing import Fencing
from tidelog.coordination.consumer.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from tidelog.coordination.consumer.heartbeats import replace_static_member
from tidelog.coordination.consumer.member import ConsumerMember, MemberState
from tidelog.coordination.consumer.progress import Progress
from tidelog.coordination.consumer.records import group_tombstones, names_of
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.consumer.validation import check_room, known_member, known_static_member
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group_settings import MigrationPolicy
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.errors import MalformedError
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.consumer_groups import TopicPartitions
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tidelog.wire.messages.internal.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolSubscription

# From this version on a new dynamic member is given its id first, and joins with it (KIP-394).
_ID_REQUIRED_VERSION = 4


class ClassicMembers:
    """Decides about the classic requests that reach a consumer group."""

    def __init__(self, context: GroupContext, fencing: Fencing, classic: ClassicGroups | None) -> None:
        self._context = context
        self._fencing = fencing
        self._classic = classic

    def join(self, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Decision[JoinGroupResponse]:
        group = self._context.groups.get(request.group_id)
        if self._classic is not None and (not isinstance(group, ConsumerGroup) or group.is_empty):
            return self._classic.join(request, caller, now_ms)
        try:
            return self._join(_consumer_group(group, request.group_id), request, caller, now_ms)
        except RefusedError as refused:
            return Decision(join_error(refused.code, "", caller.api_version))

    def _join(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> Decision[JoinGroupResponse]:
        context, group_id = self._context, group.group_id
        if context.settings.consumer_migration_policy is MigrationPolicy.DISABLED:
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The group may not change its protocol.")
        member_id = request.member_id or context.new_member_id()
        check_room(group, member_id, context.settings.consumer_max_size)
        _check_protocols(group, request)
        instance_id = request.group_instance_id
        if not request.member_id and instance_id is None and caller.api_version >= _ID_REQUIRED_VERSION:
            return Decision(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, caller.api_version))
        records: list[CoordinatorRecord] = []
        holder = group.static_member(instance_id)
        downgrades = self._downgrades(group, holder)
        member = self._member(group, member_id, request, records)
        subscription = _subscription(request)
        timeout_ms = request.session_timeout_ms if caller.api_version == 0 else request.rebalance_timeout_ms
        updated = replace(
            member,
            instance_id=member.instance_id if instance_id is None else instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            subscribed_names=names_of(subscription.topics),
            subscribed_regex="",
            client_id=caller.client_id,
            client_host=caller.client_host,
            classic=ClassicMemberMetadata(
                session_timeout_ms=request.session_timeout_ms,
                supported_protocols=[ClassicProtocol(name=p.name, metadata=p.metadata) for p in request.protocols],
            ),
        )
        progress = Progress(context, group, member, updated, records, caller, now_ms)
        progress.update_subscription(waits_for_regexes=False)
        claimed = _claimed(subscription, context.topics)
        if downgrades and holder is not None:
            return self._downgrade(group, holder, progress, claimed, request, now_ms)
        progress.advance(claimed)
        response = _joined(progress.updated, request)

        def settled(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                group.looked_at_epoch = group.regexes_version = None
                return
            joined = group.members.get(response.member_id)
            if joined is not None:
                context.renew_session(group_id, response.member_id, request.session_timeout_ms, now_ms)
                context.has_joined(group_id, response.member_id, joined.rebalance_timeout_ms, now_ms)

        return Decision(response, tuple(progress.records), settled=settled)

    def _member(
        self, group: ConsumerGroup, member_id: str, request: JoinGroupRequest, records: list[CoordinatorRecord]
    ) -> ConsumerMember:
        if request.group_instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if request.member_id:
            return known_static_member(group, member_id, request.group_instance_id)
        holder = group.static_member(request.group_instance_id)
        if holder is None:
            return ConsumerMember(member_id)
        return replace_static_member(group, holder, member_id, records)

    def _downgrades(self, group: ConsumerGroup, holder: ConsumerMember | None) -> bool:
        """Whether the last member of the new protocol is a static one that comes back with the classic one."""
        if self._classic is None or holder is None or holder.classic is not None:
            return False
        if len(group.members) == 1:
            settings = self._context.settings
            return settings.consumer_migration_policy.allows_downgrade and settings.max_size >= 1
        fits = len(group.members) <= self._context.settings.max_size
        return fits and may_downgrade(self._context, group, [holder.member_id])

    def _downgrade(
        self,
        group: ConsumerGroup,
        holder: ConsumerMember,
        progress: Progress,
        claimed: list[TopicPartitions],
        request: JoinGroupRequest,
        now_ms: int,
    ) -> Decision[JoinGroupResponse]:
        rebalances = group.assignment_epoch < progress.epoch
        if not rebalances:
            progress.approach(group.assignment_epoch, group.target_of(progress.updated), claimed)
        updated = progress.updated
        stay = {member_id: member for member_id, member in group.members.items() if member is not holder}
        stay[holder.member_id] = updated
        replaced = [updated.member_id if member is holder else member.member_id for member in group.members.values()]
        ended = group_tombstones(group.group_id, replaced, list(group.resolved_regexes))
        records, settled = self._fencing.downgrade(
            group, stay, [*progress.records, *ended], now_ms, rebalances=rebalances
        )
        return Decision(_joined(updated, request), tuple(records), replays=False, settled=settled)

    def sync(self, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Decision[SyncGroupResponse]:
        del caller
        try:
            group = _consumer_group(self._context.groups.get(request.group_id), request.group_id)
            member, classic = _classic_member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
            _check_protocol(classic, request)
        except RefusedError as refused:
            return Decision(sync_error(refused.code))
        if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._context.await_join(group.group_id, member, now_ms)
            return Decision(sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        self._context.has_synced(group.group_id, member.member_id)
        self._context.renew_session(group.group_id, member.member_id, classic.session_timeout_ms, now_ms)
        assignment = assignment_bytes(member.assigned, classic.supported_protocols[0].metadata, self._context.topics)
        return Decision(
            SyncGroupResponse(
                throttle_time_ms=0,
                error_code=ErrorCode.NONE,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=assignment,
            )
        )

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Decision[HeartbeatResponse]:
        try:
            group = _consumer_group(self._context.groups.get(request.group_id), request.group_id)
            member, classic = _classic_member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
        except RefusedError as refused:
            return Decision(heartbeat_answer(refused.code))
        self._context.renew_session(group.group_id, member.member_id, classic.session_timeout_ms, now_ms)
        is_behind = (
            member.member_epoch < group.assignment_epoch
            # It may be that nobody else is there to bring the group on.
            or (group.assignment_epoch < group.epoch and self._context.may_assign(group, now_ms))
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting_for_others(member))
        )
        if not is_behind:
            return Decision(heartbeat_answer(ErrorCode.NONE))
        self._context.await_join(group.group_id, member, now_ms)
        return Decision(heartbeat_answer(ErrorCode.REBALANCE_IN_PROGRESS))

    def leave(self, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Decision[LeaveGroupResponse]:
        group = self._context.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return Decision(leave_error(ErrorCode.UNKNOWN_MEMBER_ID))
        answers: list[MemberResponse] = []
        leaving: dict[str, ConsumerMember] = {}
        for identity in leavers_of(request, caller.api_version):
            error = ErrorCode.NONE
            try:
                if identity.group_instance_id is None:
                    member = known_member(group, identity.member_id)
                else:
                    holder = group.static_member(identity.group_instance_id)
                    member_id = identity.member_id or (holder.member_id if holder else "")
                    member = known_static_member(group, member_id, identity.group_instance_id)
                leaving[member.member_id] = member
            except RefusedError as refused:
                error = refused.code
            answers.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        answer = leave_answer(answers, caller.api_version)
        return self._fencing.fence(group, list(leaving.values()), answer, now_ms)


def _consumer_group(group: object, group_id: str) -> ConsumerGroup:
    if not isinstance(group, ConsumerGroup):
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
    return group


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    is_dynamic = instance_id is None
    member = known_member(group, member_id) if is_dynamic else known_static_member(group, member_id, instance_id or "")
    if member.classic is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.member_epoch:
        raise RefusedError(ErrorCode.ILLEGAL_GENERATION, f"The member's generation is {member.member_epoch}.")


def _check_protocol(classic: ClassicMemberMetadata, request: SyncGroupRequest) -> None:
    is_other_type = request.protocol_type not in {None, CONSUMER_PROTOCOL_TYPE}
    if is_other_type or request.protocol_name not in {None, classic.supported_protocols[0].name}:
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not the one that was joined with.")


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """RefusedError where the member has no protocol in common with the other members of its kind."""
    classic = [member.classic for member in group.members.values() if member.classic is not None]
    shared = {protocol.name for protocol in request.protocols}
    for metadata in classic:
        shared &= {protocol.name for protocol in metadata.supported_protocols}
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not shared:
        reason = f"Member {request.member_id}'s protocols are not supported."
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """What the member subscribes to. All protocols of a consumer say the same, so the first one is read."""
    try:
        return subscription_of(request.protocols[0].metadata)
    except MalformedError:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "The member's subscription cannot be read.") from None


def _claimed(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> list[TopicPartitions]:
    """What the member says it has, by topic id."""
    claimed = []
    for topic in subscription.owned_partitions:
        topic_id: TopicId | None = topics.topic_ids.get(TopicName(topic.topic))
        if topic_id is not None:
            claimed.append(TopicPartitions(topic_id=topic_id, partitions=list(topic.partitions)))
    return claimed


def _joined(member: ConsumerMember, request: JoinGroupRequest) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        leader="",
        member_id=member.member_id,
        members=[],
    )
