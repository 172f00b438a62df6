"""One replica of a partition, on this node.

    Offline    -> Leading | Following      by `lead` and `follow`, with the log that was opened for it
    Leading    -> Following | Leading      another leader, or the same one in a new epoch, or another in-sync set
    Following  -> Leading | Following
    any        -> Offline                  by `go_offline`: the disk failed, or the replica was removed

The metadata decides the role; what it says is taken unless something newer (by partition epoch) is known already. `_become` is
the one place where the role changes.

The high watermark is the smallest log end among the in-sync replicas. It only moves forward, and stands still while fewer than
`min.insync.replicas` are in sync. With one replica it moves with every append, so nobody ever waits for it.

What comes with every write and every read is in `PartitionCore` of [partition_kernel](kernels/partition_kernel.py): `append`,
`when_committed`, `read`, `watch`... and the high watermark. The rest is here.

What a client got wrong is a value: `AppendRefused` or an `ErrorCode`. So is a fault of the disk, which takes the replica offline:
no method raises.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel_choice import load
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NodeId, Offset, TopicId, TopicPartition
from tidelog.model.pending import Pending
from tidelog.replication.follower_progress import FollowerProgress
from tidelog.replication.metadata_view import PartitionMetadata
from tidelog.replication.roles import Following, Leading, Offline, Role
from tidelog.replication.topic_config import TopicConfig
from tidelog.replication.waiting import Wakeups
from tidelog.storage.append import AppendOutcome, AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch, check_copied
from tidelog.storage.errors import StorageError
from tidelog.storage.leader_epochs import UNDEFINED_EPOCH_END, EpochEndOffset
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.record_batch import BytesLike

if TYPE_CHECKING:
    from tidelog.replication.kernels.partition_kernel import PartitionCore
else:
    PartitionCore = load("tidelog.replication.kernels", "partition_kernel").PartitionCore

logger = logging.getLogger(__name__)

# `acks`: wait for all in-sync replicas. The other two are 0 and 1.
ALL_IN_SYNC = -1

# A member that is reached through its class costs more, and this one is every write's.
_NONE = ErrorCode.NONE

# In DeleteRecords: everything that consumers have been able to read.
UP_TO_HIGH_WATERMARK = -1


class Diverged(NamedTuple):
    """The reader's last epoch ended elsewhere in this log: it has to go back to there and cut what it has beyond (KIP-595)."""

    end: EpochEndOffset
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset


class Partition(PartitionCore):
    """One replica. All partitions of a node share its `wakeups`."""

    __slots__ = ()

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        *,
        node_id: NodeId,
        config: TopicConfig,
        wakeups: Wakeups,
        clock: Clock,
    ) -> None:
        role = Offline(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it has not been opened yet")
        super().__init__(topic_partition, topic_id, node_id, config, wakeups, clock, role)

    def __repr__(self) -> str:
        return f"Partition({self.topic_partition}, {type(self.role).__name__}, epoch {self.leader_epoch})"

    # --- the role ----------------------------------------------------------------------------------------------------------

    def lead(self, log: PartitionLog, metadata: PartitionMetadata) -> None:
        """Lead in the epoch that the metadata gives, or go on leading with another in-sync set."""
        if metadata.partition_epoch < self.partition_epoch:
            return
        before = self.role if isinstance(self.role, Leading) else None
        is_new_epoch = before is None or metadata.leader_epoch > self.leader_epoch
        start = log.log_end_offset if is_new_epoch or before is None else before.epoch_start_offset
        known = {} if is_new_epoch or before is None else before.followers
        followers = {
            node: known.get(node) or FollowerProgress(last_caught_up_ms=self._clock.monotonic_ms())
            for node in metadata.replicas
            if node != self._node_id
        }
        if is_new_epoch:
            # Followers may have an epoch that this log knows nothing of; they must find a larger one here to cut it off.
            log.begin_leader_epoch(metadata.leader_epoch)
        min_in_sync = min(self.config.min_insync_replicas, len(metadata.replicas))
        # Until newer metadata comes, the controller may have agreed to what it was asked for.
        joining = before.joining if before and metadata.partition_epoch == self.partition_epoch else ()
        leading = Leading(log, start, metadata.isr, followers, min_in_sync, joining)
        # A follower that rests may have to be looked at again: to join the in-sync set, or as another replica than it was.
        is_other_set = before is None or before.isr != metadata.isr or before.followers.keys() != followers.keys()
        # Who is told sees the high watermark of the new set.
        self._wakeups.hold()
        self._become(leading, metadata, tell=is_new_epoch or is_other_set)
        self._advance_high_watermark(leading)
        self._wakeups.release()

    def follow(self, log: PartitionLog, metadata: PartitionMetadata) -> None:
        """Follow the leader that the metadata gives, or wait for one."""
        if metadata.partition_epoch < self.partition_epoch:
            return
        is_new_epoch = metadata.leader_epoch > self.leader_epoch or not isinstance(self.role, Following)
        self._become(Following(log, metadata.leader), metadata, tell=is_new_epoch)

    def go_offline(self, error: ErrorCode, reason: str) -> None:
        """Serve nothing any more; everybody who waits gets `error`."""
        self._become(Offline(error, reason), None, tell=True)

    def _become(self, role: Role, metadata: PartitionMetadata | None, *, tell: bool) -> None:
        self.role = role
        if metadata is not None:
            self.leader_epoch = metadata.leader_epoch
            self.partition_epoch = metadata.partition_epoch
            self.replicas = metadata.replicas
            self.adding_replicas = metadata.adding_replicas
            self.removing_replicas = metadata.removing_replicas
        if not isinstance(role, Leading):
            error = role.error if isinstance(role, Offline) else ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._committed.fail(error)
            self._deleted.fail(error)
            if isinstance(role, Following):
                role.log.forget_fresh(also_uncommitted=True)
        if tell and self._watchers:
            self._wakeups.changed(self)

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by another configuration from now on."""
        self.config = config
        role = self.role
        if isinstance(role, Offline):
            return
        role.log.reconfigure(config.log)
        if isinstance(role, Leading):
            role.min_in_sync = min(config.min_insync_replicas, len(self.replicas))
            self._advance_and_tell(role)

    def _advance_and_tell(self, leading: Leading) -> None:
        before = leading.log.high_watermark
        self._advance_high_watermark(leading)
        if self._watchers and leading.log.high_watermark != before:
            self._wakeups.changed(self)

    def replace_log(self, log: PartitionLog) -> None:
        """Go on with a copy of the log that has all that the present one has: the replica has moved to another directory."""
        role = self.role
        if not isinstance(role, Offline):
            role.log = log
            if self._watchers:
                self._wakeups.changed(self)

    def _log_of(self, role: Following | Offline) -> PartitionLog | None:
        return None if isinstance(role, Offline) else role.log

    def log_at(self, current_leader_epoch: int, *, leader_only: bool) -> PartitionLog | ErrorCode:
        """The log, for a caller that believes in `current_leader_epoch` (-1: in none in particular)."""
        role = self.role
        if isinstance(role, Offline):
            return role.error
        if current_leader_epoch not in (NO_LEADER_EPOCH, self.leader_epoch):
            behind = current_leader_epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH
        if leader_only and not isinstance(role, Leading):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return role.log

    # --- writing -----------------------------------------------------------------------------------------------------------

    def _append_otherwise(self, batches: list[CheckedBatch], rule: AppendRule) -> list[AppendOutcome]:
        """`append` of a replica that does not lead, or is not to."""
        role = self.role
        if not isinstance(role, Following) or rule is not AppendRule.FOLLOWER:
            refused = (
                AppendRefused(ErrorCode.FENCED_LEADER_EPOCH, f"this broker does not follow {self.topic_partition}")
                if isinstance(role, Leading)
                else self._refuse_to_append(role)
            )
            return [refused] * len(batches)
        try:
            return role.log.append(batches, rule)
        except StorageError as error:
            return [AppendRefused(self._fail(error), str(error))] * len(batches)

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, raises_epochs: bool
    ) -> int | ErrorCode:
        """The guard for a transactional batch whose coordinator is about to be asked: see `ProducerStateTable`."""
        role = self.role
        if not isinstance(role, Leading):
            return role.error if isinstance(role, Offline) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return role.log.producers.begin_verification(
            producer_id, epoch, sequence, self._clock.now_ms(), raises_epochs=raises_epochs
        )

    def _refuse_to_append(self, role: Following | Offline) -> AppendRefused:
        if isinstance(role, Offline):
            return AppendRefused(role.error, role.reason)
        return AppendRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic_partition}")

    # --- reading -----------------------------------------------------------------------------------------------------------

    def _divergence(self, log: PartitionLog, offset: int, last_fetched_epoch: int) -> Diverged | ErrorCode | None:
        """What a reader is told that has `last_fetched_epoch` up to `offset`, where this log does not. None: it may go on."""
        end = log.end_offset_for_epoch(last_fetched_epoch)
        if end == UNDEFINED_EPOCH_END or offset < log.log_start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if end.leader_epoch < last_fetched_epoch or end.end_offset < offset:
            return Diverged(end, log.high_watermark, log.last_stable_offset, log.log_start_offset)
        return None

    def count_joining(self, nodes: tuple[NodeId, ...]) -> None:
        """From now on nothing is committed without `nodes`: the controller is asked to count them as in sync. Empty to undo it,
        once it is certain that the controller has not agreed."""
        role = self.role
        if isinstance(role, Leading):
            role.joining = nodes
            self._advance_and_tell(role)

    # --- following ---------------------------------------------------------------------------------------------------------

    def take_fetched(
        self, records: BytesLike, leader_epoch: int, high_watermark: int, leader_log_start_offset: int
    ) -> ErrorCode:
        """Append what the leader of `leader_epoch` answered to a fetch from this log's end, as it is; and learn from the leader
        how far is committed and where its log starts. OFFSET_OUT_OF_RANGE is the leader's to say, and never the outcome here."""
        role = self.role
        if not isinstance(role, Following) or leader_epoch != self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        log = role.log
        try:
            if records:
                refused = self._append_fetched(log, records)
                if self.role is not role:
                    return ErrorCode.KAFKA_STORAGE_ERROR
                if refused is not None:
                    return self._refuse_fetched(role, refused)
                role.refusal = _NONE
            if high_watermark >= 0:
                log.set_high_watermark(min(high_watermark, log.log_end_offset))
            if log.log_start_offset < leader_log_start_offset <= log.high_watermark:
                log.delete_records_before(leader_log_start_offset)
        except StorageError as error:
            return self._fail(error)
        if self._watchers:
            self._wakeups.changed(self)
        return _NONE

    def _append_fetched(self, log: PartitionLog, records: BytesLike) -> AppendRefused | None:
        """None where all of it is appended, or nothing was whole."""
        batches = check_copied(records)
        if isinstance(batches, AppendRefused):
            return batches
        if not batches:
            return None
        outcomes = self.append(batches, AppendRule.FOLLOWER)
        if isinstance(outcomes[0], AppendRefused) and self._begin_with_whole_batch(log, batches[0], outcomes[0]):
            outcomes = self.append(batches, AppendRule.FOLLOWER)
        last = outcomes[-1]
        return last if isinstance(last, AppendRefused) else None

    def _begin_with_whole_batch(self, log: PartitionLog, first: CheckedBatch, refused: AppendRefused) -> bool:
        """Begin anew with the first batch, if the leader's log starts within it, as this one does, which is still empty:
        records were deleted up to there. The start follows the leader's once the batch is there. Returns whether it was so."""
        if refused.error is not ErrorCode.OFFSET_OUT_OF_RANGE or log.log_start_offset != log.log_end_offset:
            return False
        if not first.base_offset < log.log_end_offset <= first.base_offset + first.last_offset_delta:
            return False
        logger.info(
            "%s begins at offset %d: the leader's log starts at %d, within the batch there",
            self.topic_partition,
            first.base_offset,
            log.log_end_offset,
        )
        log.truncate_fully_and_start_at(first.base_offset)
        return True

    def _refuse_fetched(self, role: Following, refused: AppendRefused) -> ErrorCode:
        error = refused.error
        if error is not role.refusal:
            # The fetch is tried again and again: what stays as it is has been told.
            logger.warning("%s: what the leader sent is refused: %s", self.topic_partition, refused)
            role.refusal = error
        return ErrorCode.INVALID_RECORD if error is ErrorCode.OFFSET_OUT_OF_RANGE else error

    def truncate_diverged(self, leader_end: EpochEndOffset, leader_epoch: int) -> ErrorCode:
        """Cut off what the leader of `leader_epoch` does not have, which says where an epoch ends in its log (KIP-595).

        Where this log has no such epoch, it goes back to the last one before, and the next fetch tells whether that was enough.
        """
        role = self.role
        if not isinstance(role, Following) or leader_epoch != self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        log = role.log
        own = log.end_offset_for_epoch(leader_end.leader_epoch)
        if own == UNDEFINED_EPOCH_END:
            offset = leader_end.end_offset
        elif own.leader_epoch == leader_end.leader_epoch:
            offset = min(own.end_offset, leader_end.end_offset)
        else:
            offset = own.end_offset
        return self._cut(log, max(0, min(offset, log.log_end_offset)))

    def restart_within(self, leader_start: int, leader_end: int, leader_epoch: int) -> ErrorCode:
        """The leader of `leader_epoch` has nothing at this log's end: cut the log at the leader's end, or, where all of it lies
        before the leader's start, begin anew there."""
        role = self.role
        if not isinstance(role, Following) or leader_epoch != self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        log = role.log
        if leader_end < log.log_end_offset:
            logger.warning("%s is cut from %d to the leader's %d", self.topic_partition, log.log_end_offset, leader_end)
            return self._cut(log, leader_end)
        if leader_start <= log.log_end_offset:
            return _NONE
        try:
            log.truncate_fully_and_start_at(leader_start)
        except StorageError as error:
            return self._fail(error)
        if self._watchers:
            self._wakeups.changed(self)
        return _NONE

    def _cut(self, log: PartitionLog, offset: int) -> ErrorCode:
        try:
            log.truncate_to(offset)
        except StorageError as error:
            return self._fail(error)
        if self._watchers:
            self._wakeups.changed(self)
        return _NONE

    def end_offset_for_epoch(
        self, current_leader_epoch: int, leader_epoch: int, *, leader_only: bool = True
    ) -> EpochEndOffset | ErrorCode:
        """Where the largest epoch at or below `leader_epoch` ends (KIP-101, KIP-279)."""
        log = self.log_at(current_leader_epoch, leader_only=leader_only)
        return log if isinstance(log, ErrorCode) else log.end_offset_for_epoch(leader_epoch)

    # --- deleting ----------------------------------------------------------------------------------------------------------

    def delete_records(self, before: int) -> Offset | ErrorCode:
        """Move the log's start to `before`, or to the high watermark for UP_TO_HIGH_WATERMARK. Returns the offset asked for.

        The other replicas follow with their next fetches: `when_deleted`.
        """
        role = self.role
        if not isinstance(role, Leading):
            return role.error if isinstance(role, Offline) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.config.log.compacts and not self.config.log.deletes:
            return ErrorCode.POLICY_VIOLATION
        offset = role.log.high_watermark if before == UP_TO_HIGH_WATERMARK else Offset(before)
        if offset < 0:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        try:
            error = role.log.delete_records_before(offset)
        except StorageError as fault:
            return self._fail(fault)
        if error is not ErrorCode.NONE:
            return error
        if self._watchers:
            self._wakeups.changed(self)
        return offset

    def log_start_moved(self) -> None:
        """Retention has moved the log's start."""
        if self._watchers:
            self._wakeups.changed(self)

    def when_deleted(self, offset: int) -> ErrorCode | Pending[ErrorCode]:
        """NONE once the log of no in-sync replica starts before `offset`."""
        role = self.role
        if not isinstance(role, Leading):
            return role.error if isinstance(role, Offline) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if self._low_watermark(role) >= offset else self._deleted.wait_for(offset)

    @property
    def low_watermark(self) -> Offset:
        """Where the log starts on all in-sync replicas; -1 where this node does not lead."""
        return self._low_watermark(self.role) if isinstance(self.role, Leading) else Offset(-1)

    def _low_watermark(self, leading: Leading) -> Offset:
        lowest = leading.log.log_start_offset
        for node, follower in leading.followers.items():
            if node in leading.isr and follower.log_start_offset < lowest:
                lowest = Offset(follower.log_start_offset)
        return lowest

    # --- faults ------------------------------------------------------------------------------------------------------------

    def _fail(self, error: StorageError) -> ErrorCode:
        if not isinstance(self.role, Offline):
            logger.error("%s is offline: %s", self.topic_partition, error)
            self.go_offline(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return ErrorCode.KAFKA_STORAGE_ERROR
