"""Which tasks the members of a group should have: when that is decided, and what is written down of it."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordination.decision import Decision
from tidelog.coordination.streams.configured_topology import ConfiguredTopology, Status, StatusCode
from tidelog.coordination.streams.context import NUM_STANDBY_REPLICAS, StreamsContext
from tidelog.coordination.streams.group import StreamsGroup
from tidelog.coordination.streams.member import StreamsMember
from tidelog.coordination.streams.records import target_epoch_record, target_record
from tidelog.coordination.streams.sticky_assignor import AssignedMember, SubtopologyTasks, assign_stickily
from tidelog.coordination.streams.tasks import NO_TASKS, TaskSets
from tidelog.wire.internal_records import CoordinatorRecord


class Targets:
    """Decides about target assignments."""

    def __init__(self, context: StreamsContext) -> None:
        self._context = context

    def advance(
        self,
        group: StreamsGroup,
        updated: StreamsMember,
        epoch: int,
        configured: ConfiguredTopology,
        now_ms: int,
        records: list[CoordinatorRecord],
        statuses: list[Status],
    ) -> tuple[int, TaskSets]:
        """The epoch of the target assignment from now on, and what the member should have; `statuses` says what is put off."""
        if self._context.is_delayed(group.group_id):
            detail = "Assignment delayed due to the configured initial rebalance delay."
            statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))
            return group.assignment_epoch, NO_TASKS
        if group.assignment_epoch < epoch:
            if self._context.may_assign(group, now_ms):
                members = {**group.members, updated.member_id: updated}
                configs = self._context.assignment_configs(group.group_id)
                targets = _assign(group, members, configured, configs, epoch, now_ms, records)
                return epoch, targets[updated.member_id]
            detail = "Assignment delayed due to the configured assignment interval."
            statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))
        return group.assignment_epoch, group.targets.get(updated.member_id, NO_TASKS)

    def assign_after_delay(self, group_id: str, now_ms: int) -> Decision[None] | None:
        """The group has waited for its first members long enough."""
        group = self._context.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.epoch <= group.assignment_epoch:
            return None
        if group.configured is None or not self._context.may_assign(group, now_ms):
            # Only its first heartbeat has come so far. The next one looks at the topics, and assigns.
            return None
        records: list[CoordinatorRecord] = []
        members = group.members
        _assign(group, members, group.configured, group.assignment_configs, group.epoch, now_ms, records)
        return Decision(None, tuple(records))


def _assign(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    configs: Mapping[str, str],
    epoch: int,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> Mapping[str, TaskSets]:
    """Nobody has anything while topics are missing."""
    targets: Mapping[str, TaskSets] = dict.fromkeys(members, NO_TASKS)
    if configured.is_ready:
        targets = assign_stickily(
            {
                member_id: AssignedMember(member.process_id, group.targets.get(member_id, NO_TASKS))
                for member_id, member in members.items()
            },
            {
                name: SubtopologyTasks(each.task_count, each.is_stateful)
                for name, each in configured.subtopologies.items()
            },
            int(configs.get(NUM_STANDBY_REPLICAS, "0")),
        )
    records += [
        target_record(group.group_id, member_id, targets[member_id])
        for member_id in members
        if targets[member_id] != group.targets.get(member_id)
    ]
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return targets
