# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""One replica of a partition, on this node.

    Offline    -> Leading | Following      by `lead` and `follow`, with the log that was opened for it
    Leading    -> Following | Leading      another leader, or the same one in a new epoch, or another in-sync set
    Following  -> Leading | Following
    any        -> Offline                  by `go_offline`: the disk failed, or the replica was removed

The metadata decides the role; what it says is taken unless something newer (by partition epoch) is known already. `_become` is
the one place where the role changes.

The high watermark is the smallest log end among the in-sync replicas. It only moves forward, and stands still while fewer than
`min.insync.replicas` are in sync. With one replica it moves with every append, so nobody ever waits for it.

What a replica that follows does with its leader's answers is next door, in `following`.

What a client got wrong is a value: `AppendRefused` or an `ErrorCode`. So is a fault of the disk, which takes the replica offline:
no method raises.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, Offset
from tidelog.replication.divergence import divergence
from tidelog.replication.roles import Following, Leading, Offline, lead_on
from tidelog.replication.waiting import OffsetWaiters
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation

if TYPE_CHECKING:
    from tidelog.model.clock import Clock
    from tidelog.model.ids import LeaderEpoch, NodeId, TopicId, TopicPartition
    from tidelog.model.pending import Pending
    from tidelog.replication.divergence import Diverged
    from tidelog.replication.follower_progress import FetchClock
    from tidelog.replication.metadata_view import PartitionMetadata
    from tidelog.replication.partition_trace import PartitionTrace
    from tidelog.replication.roles import Role
    from tidelog.replication.topic_config import TopicConfig
    from tidelog.replication.waiting import Wakeups, Watcher
    from tidelog.storage.append import AppendOutcome
    from tidelog.storage.checked_batches import CheckedBatch
    from tidelog.storage.leader_epochs import EpochEndOffset
    from tidelog.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

# `acks`: wait for all in-sync replicas. The other two are 0 and 1.
ALL_IN_SYNC = -1

# In DeleteRecords: everything that consumers have been able to read.
UP_TO_HIGH_WATERMARK = -1

# The same for this module alone: what C knows by its type, Python does not see.
_ALL_IN_SYNC = ALL_IN_SYNC
_NO_LEADER_EPOCH = NO_LEADER_EPOCH

# A member that is reached through its class costs more, and every write or read asks for these.
_LOG_END = FetchIsolation.LOG_END
_FOLLOWER = AppendRule.FOLLOWER

# What has moved the high watermark, where it was no follower's fetch: the leader's own append, or another in-sync set.
_BY_LEADER = "leader"
_BY_IN_SYNC_SET = "isr"


class Partition:
    """One replica. All partitions of a node share its `wakeups`."""

    __slots__ = (
        "_clock",
        "_committed",
        "_deleted",
        "_node_id",
        "_wakeups",
        "_watchers",
        "adding_replicas",
        "config",
        "leader_epoch",
        "leading",
        "partition_epoch",
        "removing_replicas",
        "replicas",
        "role",
        "topic_id",
        "topic_partition",
        "trace",
    )

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
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[NodeId, ...] = ()
        self.adding_replicas: tuple[NodeId, ...] = ()
        self.removing_replicas: tuple[NodeId, ...] = ()
        self.role: Role = Offline(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it has not been opened yet")
        # The role once more, where it is that of the leader.
        self.leading: Leading | None = None
        self._node_id = node_id
        self._wakeups = wakeups
        self._clock = clock
        self._committed = OffsetWaiters()
        self._deleted = OffsetWaiters()
        self._watchers: dict[Watcher, None] = {}
        # Who listens to what happens here; None where nobody does.
        self.trace: PartitionTrace | None = None

    def __repr__(self) -> str:
        return f"Partition({self.topic_partition}, {type(self.role).__name__}, epoch {self.leader_epoch})"

    # --- the role ----------------------------------------------------------------------------------------------------------

    @property
    def is_leading(self) -> bool:
        return self.leading is not None

    @property
    def log(self) -> PartitionLog | None:
        """The replica's log, unless it is offline."""
        role = self.role
        return None if isinstance(role, Offline) else role.log

    def log_at(self, current_leader_epoch: int, *, leader_only: bool) -> PartitionLog | ErrorCode:
        """The log, for a caller that believes in `current_leader_epoch` (-1: in none in particular)."""
        role = self.role
        if isinstance(role, Offline):
            return role.error
        if current_leader_epoch not in (_NO_LEADER_EPOCH, self.leader_epoch):
            behind = current_leader_epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH
        if leader_only and not isinstance(role, Leading):
            return role.error
        return role.log

    def lead(self, log: PartitionLog, metadata: PartitionMetadata) -> None:
        """Lead in the epoch that the metadata gives, or go on leading with another in-sync set."""
        if metadata.partition_epoch < self.partition_epoch:
            return
        before = self.leading
        is_new_epoch = before is None or metadata.leader_epoch > self.leader_epoch
        if is_new_epoch:
            # Followers may have an epoch that this log knows nothing of; they must find a larger one here to cut it off.
            log.begin_leader_epoch(metadata.leader_epoch)
        others = [node for node in metadata.replicas if node != self._node_id]
        min_in_sync = min(self.config.min_insync_replicas, len(metadata.replicas))
        known = None if is_new_epoch else before
        leading = lead_on(known, log, metadata.isr, others, min_in_sync, self._clock.monotonic_ms())
        # Until newer metadata comes, the controller may have agreed to what it was asked for.
        if before is not None and metadata.partition_epoch == self.partition_epoch:
            leading.joining = before.joining
        # A follower that rests may have to be looked at again: to join the in-sync set, or as another replica than it was.
        is_other_set = (
            before is None or before.isr != leading.isr or before.followers.keys() != leading.followers.keys()
        )
        # Who is told sees the high watermark of the new set.
        self._wakeups.hold()
        self._become(leading, metadata, tell=is_new_epoch or is_other_set)
        self._advance_high_watermark(leading, _BY_IN_SYNC_SET)
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

    def disk_failed(self, error: StorageError) -> ErrorCode:
        """Go offline for a fault of the disk. Returns what whoever met it is told."""
        if not isinstance(self.role, Offline):
            logger.error("%s is offline: %s", self.topic_partition, error)
            self.go_offline(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _become(self, role: Role, metadata: PartitionMetadata | None, *, tell: bool) -> None:
        self.role = role
        self.leading = role if isinstance(role, Leading) else None
        if metadata is not None:
            self.leader_epoch = metadata.leader_epoch
            self.partition_epoch = metadata.partition_epoch
            self.replicas = metadata.replicas
            self.adding_replicas = metadata.adding_replicas
            self.removing_replicas = metadata.removing_replicas
        if not isinstance(role, Leading):
            self._committed.fail(role.error)
            self._deleted.fail(role.error)
            if isinstance(role, Following):
                role.log.forget_fresh(also_uncommitted=True)
        if self.trace is not None:
            self.trace.became(metadata)
        if tell:
            self.changed()

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

    def replace_log(self, log: PartitionLog) -> None:
        """Go on with a copy of the log that has all that the present one has: the replica has moved to another directory."""
        role = self.role
        if not isinstance(role, Offline):
            role.log = log
            self.changed()

    # --- writing -----------------------------------------------------------------------------------------------------------

    def takes_writes(self, required_acks: int) -> bool:
        """Whether an append is refused by nothing that is known beforehand."""
        leading = self.leading
        if leading is None:
            return False
        return required_acks != _ALL_IN_SYNC or leading.has_enough_in_sync()

    def commits_at_once(self, required_acks: int) -> bool:
        """Whether an append would be answered without waiting for anybody, and without an error that is known beforehand."""
        leading = self.leading
        if leading is None:
            return False
        return required_acks != _ALL_IN_SYNC or (not leading.followers and leading.has_enough_in_sync())

    def append(
        self, batches: list[CheckedBatch], rule: AppendRule, required_acks: int = _ALL_IN_SYNC
    ) -> list[AppendOutcome]:
        """Append batches that have been checked, each by itself: an outcome for each, as `PartitionLog.append` says.

        By the rule FOLLOWER they are the leader's, and this replica follows; by any other it must lead. A fault of the disk
        refuses all. The high watermark moves at once where nobody has to be waited for; `when_committed` tells when it has
        passed the records.
        """
        leading = self.leading
        if rule is _FOLLOWER or leading is None:
            return self._append_as_follower(batches, rule)
        if required_acks == _ALL_IN_SYNC and not leading.has_enough_in_sync():
            refused = AppendRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(leading.isr)} replicas of {self.topic_partition} are in sync, and {leading.min_in_sync} must be",
            )
            return [refused] * len(batches)
        log = leading.log
        before = log.log_end_offset
        trace = self.trace
        if trace is not None:
            trace.before_append(log)
        try:
            outcomes = log.append(batches, rule, self.leader_epoch, self._is_awaited())
        except StorageError as error:
            return [AppendRefused(self.disk_failed(error), str(error))] * len(batches)
        if trace is not None:
            trace.appended(log, batches, outcomes, rule)
        if log.log_end_offset != before:
            self._advance_high_watermark(leading, _BY_LEADER)
            if self._watchers:
                self._wakeups.changed(self)
        return outcomes

    def _append_as_follower(self, batches: list[CheckedBatch], rule: AppendRule) -> list[AppendOutcome]:
        """`append` of a replica that does not lead, or is not to."""
        role = self.role
        if isinstance(role, Following) and rule is _FOLLOWER:
            trace = self.trace
            if trace is not None:
                trace.before_append(role.log)
            try:
                outcomes = role.log.append(batches, rule)
            except StorageError as error:
                return [AppendRefused(self.disk_failed(error), str(error))] * len(batches)
            if trace is not None:
                trace.appended(role.log, batches, outcomes, rule)
            return outcomes
        if isinstance(role, Leading):
            refused = AppendRefused(
                ErrorCode.FENCED_LEADER_EPOCH, f"this broker does not follow {self.topic_partition}"
            )
        elif isinstance(role, Offline):
            refused = AppendRefused(role.error, role.reason)
        else:
            refused = AppendRefused(role.error, f"this broker does not lead {self.topic_partition}")
        return [refused] * len(batches)

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, raises_epochs: bool
    ) -> int | ErrorCode:
        """The guard for a transactional batch whose coordinator is about to be asked: see `ProducerStateTable`."""
        leading = self.leading
        if leading is None:
            return self.role.error
        return leading.log.producers.begin_verification(
            producer_id, epoch, sequence, self._clock.now_ms(), raises_epochs=raises_epochs
        )

    def when_committed(self, offset: int) -> ErrorCode | Pending[ErrorCode]:
        """NONE once all in-sync replicas have everything before `offset`, or the error that came between."""
        leading = self.leading
        if leading is None:
            return self.role.error
        if leading.log.high_watermark < offset:
            return self._committed.wait_for(offset)
        return leading.commit_error()

    def _advance_high_watermark(self, leading: Leading, by: NodeId | str) -> None:
        """Something has changed by which more may be committed: a follower's fetch, or what `_BY_...` says."""
        if not leading.has_enough_in_sync():
            return
        log = leading.log
        committed: int = log.log_end_offset
        if leading.followers:
            committed = leading.replicated_up_to(committed)
        if committed <= log.high_watermark:
            return
        log.commit_up_to(committed)
        if self.trace is not None:
            # Before those are answered who have waited for it.
            self.trace.high_watermark_is(log, by)
        if self._committed.heap:
            self._committed.reached(committed, leading.commit_error())

    def _advance_and_tell(self, leading: Leading) -> None:
        before = leading.log.high_watermark
        self._advance_high_watermark(leading, _BY_IN_SYNC_SET)
        if leading.log.high_watermark != before:
            self.changed()

    # --- reading -----------------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        bytes_max: int,
        isolation: FetchIsolation,
        current_leader_epoch: int = _NO_LEADER_EPOCH,
        min_one_batch: bool = True,
        leader_only: bool = True,
        last_fetched_epoch: int = _NO_LEADER_EPOCH,
    ) -> Fetched | Diverged | ErrorCode:
        """The batches from `offset` on, as far as `isolation` lets the reader see."""
        leading = self.leading
        if leading is not None and current_leader_epoch in (_NO_LEADER_EPOCH, self.leader_epoch):
            log = leading.log
        else:
            found = self.log_at(current_leader_epoch, leader_only=leader_only)
            if isinstance(found, ErrorCode):
                return found
            log = found
        if last_fetched_epoch != _NO_LEADER_EPOCH and not log.reaches(offset, last_fetched_epoch):
            diverged = divergence(log, offset, last_fetched_epoch)
            if diverged is not None:
                return diverged
        try:
            return log.read(offset, bytes_max, isolation, min_one_batch)
        except StorageError as error:
            return self.disk_failed(error)

    def has_nothing_new(
        self, offset: int, current_leader_epoch: int, known_high_watermark: int, known_log_start_offset: int
    ) -> bool:
        """Whether a consumer that has read up to the high watermark, and knows where it and the log's start are, need not look.

        The quick way past the many partitions of a session to which nothing has happened.
        """
        leading = self.leading
        if leading is None or offset != known_high_watermark:
            return False
        high_watermark = leading.log.high_watermark
        log_start_offset = leading.log.log_start_offset
        return (
            offset == high_watermark
            and log_start_offset == known_log_start_offset
            and current_leader_epoch in (_NO_LEADER_EPOCH, self.leader_epoch)
        )

    def end_offset_for_epoch(
        self, current_leader_epoch: int, leader_epoch: int, *, leader_only: bool = True
    ) -> EpochEndOffset | ErrorCode:
        """Where the largest epoch at or below `leader_epoch` ends (KIP-101, KIP-279)."""
        log = self.log_at(current_leader_epoch, leader_only=leader_only)
        return log if isinstance(log, ErrorCode) else log.end_offset_for_epoch(leader_epoch)

    # --- followers ---------------------------------------------------------------------------------------------------------

    def read_as_follower(
        self,
        node: NodeId,
        offset: int,
        bytes_max: int,
        broker_epoch: int,
        log_start_offset: int,
        current_leader_epoch: int = _NO_LEADER_EPOCH,
        last_fetched_epoch: int = _NO_LEADER_EPOCH,
        min_one_batch: bool = True,
        note_progress: bool = True,
    ) -> Fetched | Diverged | ErrorCode:
        """What `read` gives up to the log's end, to another replica. That it asks from `offset` says how far it is."""
        leading = self.leading
        if leading is not None and node not in leading.followers:
            # With its epoch it may know of a reassignment before we do; without, all we can say is that one of us is behind.
            known = current_leader_epoch == self.leader_epoch
            return ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
        outcome = self.read(offset, bytes_max, _LOG_END, current_leader_epoch, min_one_batch, True, last_fetched_epoch)
        if note_progress and leading is not None and isinstance(outcome, Fetched):
            self._note_progress(leading, node, offset, log_start_offset, outcome.log_end_offset, broker_epoch)
        return outcome

    def _note_progress(
        self, leading: Leading, node: NodeId, offset: int, log_start_offset: int, leader_end: int, broker_epoch: int
    ) -> None:
        follower = leading.followers[node]
        follower.fetched(offset, log_start_offset, leader_end, broker_epoch, self._clock.monotonic_ms())
        before = leading.log.high_watermark
        if self.trace is not None:
            self.trace.follower_fetch(node, offset)
        self._advance_high_watermark(leading, node)
        if self._deleted.heap:
            self._deleted.reached(leading.low_watermark())
        if self._watchers and leading.log.high_watermark != before:
            self._wakeups.changed(self)
        tell = self._wakeups.on_caught_up
        if tell is not None and node not in leading.isr and leading.has_committed(follower):
            tell(self, node)

    def rest_follower(self, node: NodeId, clock: FetchClock) -> bool:
        """Whether a follower is in sync and has all there is: then the fetches of its session, by that clock, count for this
        partition without naming it, until `rouse_follower`, which is due at the partition's next change."""
        leading = self.leading
        if leading is None:
            return False
        follower = leading.followers.get(node)
        if follower is None or node not in leading.isr or follower.log_end_offset < leading.log.log_end_offset:
            return False
        follower.rest(clock)
        return True

    def rouse_follower(self, node: NodeId) -> None:
        """The partition has changed: what a follower's next fetch says of it is to be looked at."""
        leading = self.leading
        if leading is not None:
            follower = leading.followers.get(node)
            if follower is not None:
                follower.rouse()

    def count_joining(self, nodes: tuple[NodeId, ...]) -> None:
        """From now on nothing is committed without `nodes`: the controller is asked to count them as in sync. Empty to undo it,
        once it is certain that the controller has not agreed."""
        leading = self.leading
        if leading is not None:
            leading.joining = nodes
            self._advance_and_tell(leading)

    # --- watching ----------------------------------------------------------------------------------------------------------

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` of every change until `unwatch`."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Harmless for one that does not watch."""
        self._watchers.pop(watcher, None)

    @property
    def watcher_count(self) -> int:
        return len(self._watchers)

    def changed(self) -> None:
        """Something has happened to the log or to the role: the watchers are told, or will be when the request is through."""
        if self._watchers:
            self._wakeups.changed(self)

    def tell_watchers(self) -> None:
        """For `Wakeups` alone: everybody else reports a change by `changed`."""
        watchers = self._watchers
        try:
            for watcher in tuple(watchers):
                if watcher in watchers:
                    watcher.partition_changed(self)
        except Exception as error:
            raise BugError(f"telling the watchers of {self.topic_partition} broke off") from error
        if self.leading is not None:
            self.leading.log.forget_fresh()

    def _is_awaited(self) -> bool:
        """Whether somebody waits for what is written, and does not only want to know of it."""
        for watcher in self._watchers:  # noqa: SIM110 - a generator costs more
            if watcher.is_waiting:
                return True
        return False

    # --- deleting ----------------------------------------------------------------------------------------------------------

    def delete_records(self, before: int) -> Offset | ErrorCode:
        """Move the log's start to `before`, or to the high watermark for UP_TO_HIGH_WATERMARK. Returns the offset asked for.

        The other replicas follow with their next fetches: `when_deleted`.
        """
        leading = self.leading
        if leading is None:
            return self.role.error
        if self.config.log.compacts and not self.config.log.deletes:
            return ErrorCode.POLICY_VIOLATION
        offset = leading.log.high_watermark if before == UP_TO_HIGH_WATERMARK else Offset(before)
        if offset < 0:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        try:
            error = leading.log.delete_records_before(offset)
        except StorageError as fault:
            return self.disk_failed(fault)
        if error is not ErrorCode.NONE:
            return error
        self.changed()
        return offset

    def when_deleted(self, offset: int) -> ErrorCode | Pending[ErrorCode]:
        """NONE once the log of no in-sync replica starts before `offset`."""
        leading = self.leading
        if leading is None:
            return self.role.error
        return ErrorCode.NONE if leading.low_watermark() >= offset else self._deleted.wait_for(offset)

    @property
    def low_watermark(self) -> Offset:
        """Where the log starts on all in-sync replicas; -1 where this node does not lead."""
        return Offset(-1) if self.leading is None else self.leading.low_watermark()
