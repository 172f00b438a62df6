"""StreamsGroupHeartbeat: joining, staying, leaving; what a group does when one of its members has spoken.

    1  the member is written down if it said something new
    2  the topology is the group's with the first member; others bring the same one, or an older one that counts for nothing
    3  where topics have changed the topology is looked at anew: which counts of partitions, what is missing
    4  the group's epoch rises with any of this, and when the assignor is to be told something else
    5  the target assignment is computed if it is behind the group's epoch, unless the group waits for its first members, or the
       last one is too recent (`targets`)
    6  the member takes its next step towards the target

Records come in this order, which is Kafka's.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from msgspec.structs import replace

from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.streams.configured_topology import ConfiguredTopology, Status, StatusCode, configure
from tidelog.coordination.streams.context import StreamsContext
from tidelog.coordination.streams.endpoints import partitions_by_endpoint
from tidelog.coordination.streams.group import NOT_VALIDATED, StreamsGroup
from tidelog.coordination.streams.member import JOINING_EPOCH, LEAVING_EPOCH, MemberState, StreamsMember, UserEndpoint
from tidelog.coordination.streams.partition_counts import InvalidTopologyError
from tidelog.coordination.streams.reconciliation import Goal, reconcile
from tidelog.coordination.streams.records import (
    current_record,
    group_record,
    member_record,
    member_tombstones,
    topology_of,
    topology_record,
)
from tidelog.coordination.streams.targets import Targets
from tidelog.coordination.streams.tasks import OwnedTasks
from tidelog.coordination.streams.topology import InternalTopic, Topology
from tidelog.coordination.streams.validation import (
    check_epoch,
    check_request,
    check_room,
    check_tasks,
    claimed_tasks,
    known_member,
)
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

logger = logging.getLogger(__name__)


class HeartbeatResult(NamedTuple):
    """What the member is told, and the internal topics that it needs and may want to be created."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


_Answer = Decision[HeartbeatResult]


class StreamsHeartbeats:
    """Decides about heartbeats of streams groups."""

    def __init__(self, context: StreamsContext) -> None:
        self._context = context
        self._targets = Targets(context)

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, now_ms: int) -> _Answer:
        try:
            check_request(request)
            if request.member_epoch == LEAVING_EPOCH:
                return self._leave(request)
            return self._progress(request, caller, now_ms)
        except RefusedError as refused:
            return Decision(HeartbeatResult(refused_heartbeat(refused.code, refused.message)))
        except InvalidTopologyError as invalid:
            refused_topology = refused_heartbeat(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(invalid))
            return Decision(HeartbeatResult(refused_topology))

    def expire(self, group_id: str, member_id: str, now_ms: int) -> Decision[None] | None:  # noqa: ARG002 - of a deadline
        """Nothing was heard of a member for the length of its session."""
        return self._fence(group_id, member_id, "its session expired")

    def watch(self, group: StreamsGroup, now_ms: int) -> None:
        """Begin the deadlines of members that this node has not watched so far."""
        for member in group.members.values():
            self._context.sessions.renew(group.group_id, member.member_id, now_ms, self.expire)
            if member.state is MemberState.UNREVOKED_TASKS:
                self._context.watch_revocation(group.group_id, member, now_ms, self._fence)

    # Leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> _Answer:
        group = self._context.known_group(request.group_id)
        if request.shutdown_application:
            _request_shutdown(group, request.member_id)
        member = known_member(group, request.member_id)
        answer = _answer(request.member_id, request.member_epoch, 0)
        answer.status = []
        return Decision(HeartbeatResult(answer), self._without(group, member))

    def _fence(self, group_id: str, member_id: str, reason: str) -> Decision[None] | None:
        group = self._context.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if not isinstance(group, StreamsGroup) or member is None:
            return None
        logger.info("member %s of group %s is fenced because %s", member_id, group_id, reason)
        return Decision(None, self._without(group, member))

    @staticmethod
    def _without(group: StreamsGroup, member: StreamsMember) -> tuple[CoordinatorRecord, ...]:
        """Take a member out. The others get its tasks with the next target assignment."""
        return (
            *member_tombstones(group.group_id, member.member_id),
            group_record(
                group.group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            ),
        )

    # Joining and staying

    def _progress(self, request: StreamsGroupHeartbeatRequest, caller: Caller, now_ms: int) -> _Answer:
        context, is_joining = self._context, request.member_epoch == JOINING_EPOCH
        records: list[CoordinatorRecord] = []
        group = self._group(request.group_id, records, is_joining=is_joining)
        claimed = claimed_tasks(request)
        if is_joining:
            check_room(group, context.settings.streams_max_size)
            member = group.members.get(request.member_id) or StreamsMember(request.member_id)
        else:
            member = known_member(group, request.member_id)
            check_epoch(member, request.member_epoch, claimed)
        updated = _updated(member, request, caller)
        if updated != member:
            records.append(member_record(group.group_id, updated))
        statuses: list[Status] = []
        topology = self._topology(group, request, records)
        if group.topology is not None and updated.topology_epoch < group.topology.epoch:
            detail = (
                f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch "
                f"{group.topology.epoch}."
            )
            statuses.append(Status(StatusCode.STALE_TOPOLOGY, detail))
        configured, metadata_hash = self._configure(group, topology)
        if configured.is_ready:
            check_tasks(request, configured.subtopologies)
        epoch = self._update_epoch(group, configured, metadata_hash, records, has_changed=updated != member)
        if group.is_empty:
            context.delay_first_assignment(group.group_id, now_ms, self._targets.assign_after_delay)
        target_epoch, target = self._targets.advance(group, updated, epoch, configured, now_ms, records, statuses)
        moved = updated
        if not updated.is_reconciled_to(target_epoch):
            moved = reconcile(updated, Goal(target_epoch, target, group), claimed)
        if moved != updated:
            records.append(current_record(group.group_id, moved))
            if moved.state is MemberState.UNREVOKED_TASKS:
                context.watch_revocation(group.group_id, moved, now_ms, self._fence)
        context.sessions.renew(group.group_id, moved.member_id, now_ms, self.expire)
        if request.shutdown_application:
            _request_shutdown(group, request.member_id)
        answer = self._answer(group, member, moved, request, configured)
        answer.status = [each.answered() for each in (*statuses, *_standing(group, configured))]

        def settled(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                # The decision was not recorded, so nothing of it is remembered: the next heartbeat decides again.
                group.looked_at_epoch = group.configured = None

        result = HeartbeatResult(answer, tuple(configured.missing.values()))
        return Decision(result, tuple(records), settled=settled if records else None)

    def _group(self, group_id: str, records: list[CoordinatorRecord], *, is_joining: bool) -> StreamsGroup:
        group = self._context.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        if group is None:
            if not is_joining:
                raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
            return StreamsGroup(group_id)
        if not (is_joining and isinstance(group, ClassicGroup) and group.is_empty):
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        records += group.tombstones()
        return StreamsGroup(group_id)

    def _topology(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, records: list[CoordinatorRecord]
    ) -> Topology:
        """Step 2: the group's topology from now on."""
        if request.topology is None:
            if group.topology is None:
                # Only where the record of it was lost.
                message = "The topology is null and the group topology is also null."
                raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            return group.topology
        brought = topology_of(request.topology)
        if group.topology is None:
            records.append(topology_record(group.group_id, request.topology))
            return brought
        if group.topology.epoch <= brought.epoch and group.topology != brought:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return group.topology

    def _configure(self, group: StreamsGroup, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """Step 3: the topology on the cluster's topics, and their hash."""
        configured, metadata_hash = group.configured, group.metadata_hash
        is_due = group.looked_at_epoch is None or group.epoch < group.looked_at_epoch
        if is_due or configured is None or group.topology is None:
            metadata_hash = self._context.metadata_hash(topology.required_topics)
            if configured is None or group.topology is None or metadata_hash != group.metadata_hash:
                configured = group.configured = configure(topology, self._context.topics)
        return configured, metadata_hash

    def _update_epoch(
        self,
        group: StreamsGroup,
        configured: ConfiguredTopology,
        metadata_hash: int,
        records: list[CoordinatorRecord],
        *,
        has_changed: bool,
    ) -> int:
        """Step 4: the group's epoch from now on."""
        validated_epoch = configured.epoch if configured.is_ready else NOT_VALIDATED
        configs = self._context.assignment_configs(group.group_id)
        epoch = group.epoch
        if (
            has_changed
            or metadata_hash != group.metadata_hash
            or validated_epoch != group.validated_topology_epoch
            or configs != group.assignment_configs
        ):
            epoch += 1
            records.append(group_record(group.group_id, epoch, metadata_hash, validated_epoch, configs))
        group.looked_at_epoch = epoch
        return epoch

    def _answer(
        self,
        group: StreamsGroup,
        before: StreamsMember,
        member: StreamsMember,
        request: StreamsGroupHeartbeatRequest,
        configured: ConfiguredTopology,
    ) -> StreamsGroupHeartbeatResponse:
        context, has = self._context, member.assigned
        interval_ms = context.settings.streams_limits_of(group.group_id).heartbeat_interval_ms
        answer = _answer(member.member_id, member.member_epoch, interval_ms)
        if request.member_epoch == JOINING_EPOCH or has != before.assigned:
            _tell_tasks(answer, has)
            if member.user_endpoint is not None:
                group.endpoint_epoch += 1
        elif _may_have_missed_its_tasks(before, request):
            _tell_tasks(answer, has)
        if group.endpoint_epoch != request.endpoint_information_epoch:
            others = [each for each in group.members.values() if each.member_id != member.member_id]
            answer.partitions_by_user_endpoint = partitions_by_endpoint([*others, member], configured, context.topics)
        if group.group_id in context.groups:
            # What a group that is just about to be there has counted is not known of it later.
            answer.endpoint_information_epoch = group.endpoint_epoch
        return answer


def refused_heartbeat(code: ErrorCode, message: str | None) -> StreamsGroupHeartbeatResponse:
    answer = _answer("", 0, 0)
    answer.error_code = code
    answer.error_message = message
    return answer


def _answer(member_id: str, member_epoch: int, heartbeat_interval_ms: int) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        # For warm-ups, which nobody gets.
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )


def _may_have_missed_its_tasks(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> bool:
    """Whether an answer that took tasks from the member may have been lost. Kafka does not tell it again: a member that had only
    heard of those tasks, and did not have them yet, takes them then, although they are somebody else's by now."""
    return request.member_epoch != member.member_epoch or member.state is MemberState.UNREVOKED_TASKS


def _tell_tasks(answer: StreamsGroupHeartbeatResponse, has: OwnedTasks) -> None:
    answer.active_tasks = [TaskIds(subtopology_id=name, partitions=list(each)) for name, each in has.active.items()]
    answer.standby_tasks = [TaskIds(subtopology_id=name, partitions=list(each)) for name, each in has.standby.items()]
    answer.warmup_tasks = [TaskIds(subtopology_id=name, partitions=list(each)) for name, each in has.warmup.items()]


def _standing(group: StreamsGroup, configured: ConfiguredTopology) -> list[Status]:
    """What every member is told for as long as it is so."""
    statuses = [] if configured.problem is None else [configured.problem]
    if group.shutdown_requested_by is not None:
        detail = (
            f"Streams group member {group.shutdown_requested_by} encountered a fatal error and requested a shutdown for the "
            "entire application."
        )
        statuses.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
    return statuses


def _request_shutdown(group: StreamsGroup, member_id: str) -> None:
    if group.shutdown_requested_by is None:
        logger.info("member %s of group %s wants the whole application to end", member_id, group.group_id)
        group.shutdown_requested_by = member_id


def _updated(member: StreamsMember, request: StreamsGroupHeartbeatRequest, caller: Caller) -> StreamsMember:
    """The member with what it says of itself; what it leaves out stays as it was."""
    endpoint, tags, timeout_ms = request.user_endpoint, request.client_tags, request.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=caller.client_id,
        client_host=caller.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
        user_endpoint=member.user_endpoint if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
    )
