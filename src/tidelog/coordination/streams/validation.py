"""What is wrong with a heartbeat: Kafka's checks, in Kafka's order, with Kafka's sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.streams.configured_topology import ConfiguredSubtopology
from tidelog.coordination.streams.group import StreamsGroup
from tidelog.coordination.streams.member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, StreamsMember
from tidelog.coordination.streams.tasks import TaskSets, is_within, tasks_of
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.streams_groups import StreamsGroupHeartbeatRequest, TaskIds, Topology


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """RefusedError where no group could grant this."""
    _check_supported(request)
    for name, text in (("Member", request.member_id), ("Group", request.group_id), ("Rack", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name}Id can't be empty.")
    roles = (("Active", request.active_tasks), ("Standby", request.standby_tasks), ("Warmup", request.warmup_tasks))
    epoch = request.member_epoch
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for role, tasks in roles:
            if tasks is None or tasks:
                raise _invalid(f"{role}Tasks must be empty when (re-)joining.")
        if request.topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        _check_topology(request.topology)
    elif epoch == STATIC_LEAVING_EPOCH:
        # Nobody has an instance id: that was refused above.
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    given = [tasks for _, tasks in roles if tasks is not None]
    if given and len(given) < len(roles):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOINING_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """What Kafka 4.3 does not do, and this does not do either."""
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(part.source_topic_regex for part in request.topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _check_topology(topology: Topology) -> None:
    for part in topology.subtopologies:
        for topic in part.state_changelog_topics:
            if topic.partitions:
                raise _invalid_topology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
    # Kafka fails at these two.
    if topology.epoch < 0:
        raise _invalid_topology("Topology epoch must be non-negative.")
    ids = [part.subtopology_id for part in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise _invalid_topology("Each subtopology needs an id of its own.")


def check_room(group: StreamsGroup, members_max: int) -> None:
    """RefusedError where nobody may join any more: as in Kafka, not even a member that is there."""
    if len(group.members) >= members_max:
        message = f"The streams group has reached its maximum capacity of {members_max} members."
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def known_member(group: StreamsGroup, member_id: str) -> StreamsMember:
    """The member of this id, or RefusedError."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def claimed_tasks(request: StreamsGroupHeartbeatRequest) -> TaskSets | None:
    """What the member says it has; None where it does not say."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return TaskSets(tasks_of(active), tasks_of(standby), tasks_of(warmup))


def check_epoch(member: StreamsMember, epoch: int, claimed: TaskSets | None) -> None:
    """RefusedError where the member is not in the epoch that it says.

    To join again is always right. One epoch back is accepted where the member has nothing that it should not have: the answer
    with the new epoch was lost.
    """
    if epoch in {member.member_epoch, JOINING_EPOCH}:
        return
    how = "greater"
    if epoch < member.member_epoch:
        has = member.assigned
        if (
            epoch == member.previous_member_epoch
            and claimed is not None
            and is_within(claimed.active, has.active)
            and is_within(claimed.standby, has.standby)
            and is_within(claimed.warmup, has.warmup)
        ):
            return
        how = "smaller"
    message = (
        f"The streams group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )
    raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def check_tasks(request: StreamsGroupHeartbeatRequest, subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    """RefusedError where the member says that it has a task that there is not."""
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        _check_each(tasks or (), subtopologies)


def _check_each(tasks: Sequence[TaskIds], subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    for each in tasks:
        found = subtopologies.get(each.subtopology_id)
        if found is None:
            raise _invalid(f"Subtopology {each.subtopology_id} does not exist in the topology.")
        for partition in each.partitions:
            if not 0 <= partition < found.task_count:
                raise _invalid(
                    f"Task {partition} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {found.task_count}"
                )


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)


def _invalid_topology(message: str) -> RefusedError:
    return RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
