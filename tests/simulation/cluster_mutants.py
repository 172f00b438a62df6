"""Known bugs of whole clusters, each as a patch to the real code: a simulation that does not find them proves nothing.

Those of the consensus alone are in `raft_mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.controller import brokers as controller_brokers, partitions as controller_partitions
from tidelog.controller.image import NO_LEADER, ClusterImage, Partition as PartitionImage
from tidelog.controller.partition_changes import _Change, _Elected
from tidelog.controller.quorum import MetadataQuorum
from tidelog.coordination.active_shard import ActiveShard
from tidelog.coordination.classic import groups as classic_groups
from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.classic.records import replayed_group
from tidelog.coordination.decision import Decision
from tidelog.coordination.group_shard import GroupShard
from tidelog.coordination.offsets import Offsets
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.raft.effects import AppendToLog, Effect
from tidelog.replication import offset_lookup, partition as replicas
from tidelog.replication.in_sync_sets import InSyncSets
from tidelog.replication.metadata_view import PartitionMetadata
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leading, Role
from tidelog.storage.append import AppendRule
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer import Duplicate, ProducerState
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.wire.messages import alter_partition as alter
from tidelog.wire.messages.internal.offset_records import GroupMetadataValue

Patch = pytest.MonkeyPatch


# --- leader and high watermark -----------------------------------------------------------------------------------------------


def answer_before_the_high_watermark(patch: Patch) -> None:
    """A write with acks=all is answered when the leader alone has it."""

    def when_committed(self: Partition, _offset: int) -> ErrorCode | Pending[ErrorCode]:
        return ErrorCode.NONE if self.is_leading else ErrorCode.NOT_LEADER_OR_FOLLOWER

    patch.setattr(Partition, "when_committed", when_committed)


def count_only_the_leader(patch: Patch) -> None:
    """The high watermark is the leader's own log end."""
    patch.setattr(Leading, "replicated_up_to", lambda _self, end: end)


def count_one_follower(patch: Patch) -> None:
    """The high watermark is what the quickest follower in sync has, not the slowest."""

    def replicated_up_to(leading: Leading, end: int) -> int:
        ends = [follower.log_end_offset for node, follower in leading.followers.items() if node in leading.isr]
        return min(end, max(ends, default=end))

    patch.setattr(Leading, "replicated_up_to", replicated_up_to)


def take_writes_below_the_minimum(patch: Patch) -> None:
    """A leader writes and acknowledges although fewer than `min.insync.replicas` are in sync."""
    become = Partition._become

    def become_easily(self: Partition, role: Role, metadata: PartitionMetadata | None, *, tell: bool) -> None:
        if isinstance(role, Leading):
            role.min_in_sync = 1
        become(self, role, metadata, tell=tell)

    patch.setattr(Partition, "_become", become_easily)


def tell_the_end_too_early(patch: Patch) -> None:
    """A new leader says where the partition ends before it knows how much of its log is committed."""
    patch.setattr(offset_lookup, "_is_behind_its_epoch", lambda _partition: False)


# --- in-sync sets and elections ----------------------------------------------------------------------------------------------


def count_a_stale_replica(patch: Patch) -> None:
    """A follower counts as in sync as soon as it asks for anything."""
    patch.setattr(Leading, "has_committed", lambda _self, _follower: True)


def shrink_without_asking(patch: Patch) -> None:
    """A leader goes by a smaller in-sync set before the controller has agreed."""
    propose = InSyncSets._propose

    def propose_and_go_on(self: InSyncSets, partition: Partition, isr: tuple[NodeId, ...]) -> None:
        propose(self, partition, isr)
        role = partition.role
        if isinstance(role, Leading) and len(isr) < len(role.isr):
            role.isr = isr
            partition._advance_high_watermark(role, "isr")

    patch.setattr(InSyncSets, "_propose", propose_and_go_on)


def do_not_count_who_joins(patch: Patch) -> None:
    """A leader commits without a follower that the controller may have taken into the in-sync set already."""
    patch.setattr(Partition, "count_joining", lambda _self, _nodes: None)


def elect_from_outside_the_in_sync_set(patch: Patch) -> None:
    """The first replica that is there leads, whatever it has."""

    def elect(self: _Change) -> _Elected:
        for candidate in (self._before.leader, *self.replicas):
            if self._may_lead(candidate):
                if candidate not in self.isr:
                    self.isr.append(candidate)
                return _Elected(candidate)
        return _Elected(NO_LEADER)

    patch.setattr(_Change, "_elect", elect)


def ignore_broker_epochs(patch: Patch) -> None:
    """The controller takes a replica into the in-sync set for what it had in an earlier life."""
    check = controller_partitions._alteration_error

    def check_nodes_only(
        image: ClusterImage,
        partition: PartitionImage,
        wanted: alter.PartitionData,
        isr: list[alter.BrokerState],
        asking: NodeId,
    ) -> ErrorCode:
        timeless = [alter.BrokerState(broker_id=state.broker_id) for state in isr]
        return check(image, partition, wanted, timeless, asking)

    patch.setattr(controller_partitions, "_alteration_error", check_nodes_only)


def trust_who_forgot(patch: Patch) -> None:
    """A broker that comes back from an unclean stop stays in the in-sync sets."""
    patch.setattr(controller_brokers, "replicas_forgotten", lambda _image, _node, _defaults: iter(()))


# --- followers ---------------------------------------------------------------------------------------------------------------


def skip_epoch_truncation(patch: Patch) -> None:
    """A leader does not compare epochs: a follower goes on behind records that the leader never had."""
    patch.setattr(replicas, "divergence", lambda _log, _offset, _last_fetched_epoch: None)


def truncate_to_the_high_watermark(patch: Patch) -> None:
    """A follower of a new leader cuts its log at its own high watermark, as Kafka did before KIP-101."""
    follow = Partition.follow

    def follow_and_cut(self: Partition, log: PartitionLog, metadata: PartitionMetadata) -> None:
        is_new = metadata.leader_epoch > self.leader_epoch
        follow(self, log, metadata)
        if is_new and metadata.leader_epoch == self.leader_epoch:
            log.truncate_to(log.high_watermark)

    patch.setattr(Partition, "follow", follow_and_cut)


def forget_epochs_when_following(patch: Patch) -> None:
    """A follower does not write down which epochs it was sent."""
    assign_epoch = PartitionLog._assign_epoch

    def assign(self: PartitionLog, epoch: int, start_offset: int) -> None:
        if self.topic_partition.topic == "__cluster_metadata":
            assign_epoch(self, epoch, start_offset)
        self._assigned_epoch = epoch

    patch.setattr(PartitionLog, "_assign_epoch", assign)


def forget_sequences_when_following(patch: Patch) -> None:
    """A follower does not keep in mind what producers have sent: as a leader it takes it again."""
    take_in = ProducerStateTable.take_in

    def take_nothing_in(self: ProducerStateTable, state: ProducerState, batch: CheckedBatch, offset: int) -> Any:
        # What has its place was sent by a leader.
        if batch.base_offset == offset and offset > 0 and not batch.is_control:
            return None
        return take_in(self, state, batch, offset)

    patch.setattr(ProducerStateTable, "take_in", take_nothing_in)


# --- metadata ----------------------------------------------------------------------------------------------------------------


def apply_uncommitted_metadata(patch: Patch) -> None:
    """A node goes by whatever is in its metadata log, from the moment it is written."""
    carry_out = MetadataQuorum._carry_out

    def carry_out_and_deliver(self: MetadataQuorum, effect: Effect) -> None:
        carry_out(self, effect)
        if isinstance(effect, AppendToLog):
            self._committed = self.log.end().offset
            self._notices.append(self._deliver)

    patch.setattr(MetadataQuorum, "_carry_out", carry_out_and_deliver)


# --- coordinators and transactions -------------------------------------------------------------------------------------------


def answer_before_the_coordinators_log(patch: Patch) -> None:
    """A coordinator answers when its own log has the decision: commits of offsets, assignments, ends of transactions."""

    def answer(self: ActiveShard, decision: Decision[Any], refuse: Callable[[ErrorCode], Any]) -> object:
        return self._settle(decision, ErrorCode.NONE, refuse)

    patch.setattr(ActiveShard, "_answer_committed", answer)
    patch.setattr(ActiveShard, "answer_when_committed", lambda _self, found, _refuse: found)


def take_markers_of_old_coordinators(patch: Patch) -> None:
    """A partition ends a transaction for a coordinator that is none any more."""
    judge = ProducerStateTable._judge_marker

    def judge_easily(self: ProducerStateTable, state: ProducerState, batch: CheckedBatch) -> ProducerState | ErrorCode:
        judged = judge(self, state, batch)
        return state if judged is ErrorCode.TRANSACTION_COORDINATOR_FENCED else judged

    patch.setattr(ProducerStateTable, "_judge_marker", judge_easily)


def skip_fencing(patch: Patch) -> None:
    """A partition takes records of a producer whose id another one has taken over."""
    judge = ProducerStateTable.judge

    def judge_easily(
        self: ProducerStateTable, batch: CheckedBatch, rule: AppendRule
    ) -> ProducerState | Duplicate | ErrorCode:
        judged = judge(self, batch, rule)
        if judged is ErrorCode.INVALID_PRODUCER_EPOCH and not batch.is_control:
            return judge(self, batch, AppendRule.FOLLOWER)
        return judged

    patch.setattr(ProducerStateTable, "judge", judge_easily)


def show_what_is_not_stable(patch: Patch) -> None:
    """Readers of committed records see what belongs to transactions that are open."""
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


def take_commits_of_old_generations(patch: Patch) -> None:
    """A group takes the commits of members that it has thrown out."""
    patch.setattr(ClassicGroup, "check_commit", lambda *_args, **_more: ErrorCode.NONE)


def forget_generations(patch: Patch) -> None:
    """A new coordinator counts the generations of a group from the beginning."""

    def begin_anew(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        group = replayed_group(group_id, value)
        group.generation_id = 0
        return group

    patch.setattr(classic_groups, "replayed_group", begin_anew)


def forget_commits(patch: Patch) -> None:
    """A new coordinator does not know what was committed with the one before."""
    loaded = GroupShard.loaded

    def begin_anew(self: GroupShard, now_ms: int) -> list[Decision[None]]:
        self.offsets = Offsets(self.offsets._settings)
        return loaded(self, now_ms)

    patch.setattr(GroupShard, "loaded", begin_anew)


# With seeds that have found each.
MUTANTS: dict[Callable[[Patch], None], tuple[int, ...]] = {
    answer_before_the_high_watermark: (0,),
    count_only_the_leader: (0,),
    count_one_follower: (0,),
    take_writes_below_the_minimum: (1,),
    tell_the_end_too_early: (15,),
    count_a_stale_replica: (6,),
    shrink_without_asking: (8,),
    do_not_count_who_joins: (29,),
    elect_from_outside_the_in_sync_set: (2,),
    ignore_broker_epochs: (9,),
    trust_who_forgot: (6,),
    skip_epoch_truncation: (0,),
    truncate_to_the_high_watermark: (1,),
    forget_epochs_when_following: (0,),
    forget_sequences_when_following: (4,),
    apply_uncommitted_metadata: (11,),
    answer_before_the_coordinators_log: (43, 58),
    take_markers_of_old_coordinators: (373, 124),
    skip_fencing: (85, 352),
    show_what_is_not_stable: (1,),
    take_commits_of_old_generations: (5, 17),
    forget_generations: (5,),
    forget_commits: (32, 11),
}
