"""The share partitions of one partition of `__share_group_state`: those whose keys' hash falls there.

    initialise      a snapshot: the state begins anew, in a higher epoch
    read            what is known; a leader with a newer epoch is noted first, and fences those before it
    write           an update, or after `updates_per_snapshot` of them a snapshot, with all batches merged
    delete          a tombstone
    summary         where a group is, without its batches

Everything that is written replaces what is known at once, so that the next request goes by it; whoever reads waits until it is
committed. Only a snapshot makes what was written before superfluous: `needed_from` is the first record that any state still
needs. A state that nobody writes would hold that back for ever, and gets a new snapshot from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Decision
from tidelog.coordination.share_state.records import (
    batches_of_record,
    key_of,
    snapshot_record,
    state_of_snapshot,
    state_of_update,
    state_tombstone,
    update_record,
)
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.coordination.share_state.share_state import NO_COUNT, NO_EPOCH, ShareState, initial_state
from tidelog.coordination.share_state.share_state_settings import ShareStateSettings
from tidelog.coordination.share_state.state_batches import NO_START_OFFSET, StateBatch, merged
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages import share_group_state as wire
from tidelog.wire.messages.internal.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

# How long what could not be written waits for its next attempt.
RETRY_MS = 500
# Housekeeping is written in batches of about this many bytes, far below what a topic accepts.
HOUSEKEEPING_BATCH_BYTES = 65_536
# What a record takes beside the id of its group and its batches, and what a batch takes.
_RECORD_BYTES = 120
_BATCH_BYTES = 19

_COLD = ("share states", "cold")
_DELETED_TOPICS = ("share states", "deleted topics")

_NEGATIVE_PARTITION = "The partition id cannot be a negative number."
_NOT_INITIALISED = "{} operation on uninitialized share partition not allowed."


class ShareStateShard:
    """The share partitions of one partition of the log. `topics` gives the cluster as it is at the moment."""

    def __init__(self, settings: ShareStateSettings, topics: Callable[[], TopicsView]) -> None:
        self.deadlines = Deadlines()
        self._settings = settings
        self._topics = topics
        self._states: dict[SharePartitionKey, ShareState] = {}
        # The highest ones, which a new beginning and a tombstone before it do not lower.
        self._leader_epochs: dict[SharePartitionKey, int] = {}
        self._state_epochs: dict[SharePartitionKey, int] = {}
        self._updates: dict[SharePartitionKey, int] = {}
        self._snapshot_offsets: dict[SharePartitionKey, int] = {}
        self._last_tombstone_offset = -1
        self._cold: list[SharePartitionKey] = []
        self._deleted: list[SharePartitionKey] = []

    # --- requests ----------------------------------------------------------------------------------------------------------

    def initialise(
        self, key: SharePartitionKey, asked: wire.PartitionData, now_ms: int
    ) -> Decision[wire.PartitionResult]:
        """Begin anew, at an offset or (-1) wherever the partition's leader finds the beginning."""
        problem = (
            _partition_problem(key)
            or _epoch_problem(ErrorCode.FENCED_STATE_EPOCH, self._state_epochs.get(key), asked.state_epoch)
            or self._topic_problem(key)
        )
        if problem is not None:
            return Decision(_done(key, *problem))
        known = self._states.get(key)
        snapshot_epoch = 0 if known is None else known.snapshot_epoch + 1
        state = initial_state(snapshot_epoch, asked.state_epoch, asked.start_offset, now_ms)
        return Decision(_done(key), (snapshot_record(key, state),))

    def read(
        self, key: SharePartitionKey, asked: wire.ReadShareGroupStatePartitionData, now_ms: int
    ) -> Decision[wire.ReadShareGroupStatePartitionResult]:
        """What the leader of a partition goes on from."""
        problem = (
            _partition_problem(key) or self._state_problem(key, "Read", asked.leader_epoch) or self._topic_problem(key)
        )
        if problem is not None:
            return Decision(refused_read(key, *problem))
        known = self._states[key]
        answer = wire.ReadShareGroupStatePartitionResult(
            partition=key.partition,
            error_code=ErrorCode.NONE,
            state_epoch=known.state_epoch,
            start_offset=known.start_offset,
            state_batches=[
                wire.StateBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.delivery_state,
                    delivery_count=each.delivery_count,
                )
                for each in known.batches
            ],
        )
        if asked.leader_epoch in (NO_EPOCH, self._leader_epochs[key]):
            return Decision(answer)
        record = self._written(key, asked.leader_epoch, known.start_offset, known.delivery_complete_count, (), now_ms)
        return Decision(answer, (record,))

    def write(
        self, key: SharePartitionKey, asked: wire.WriteShareGroupStatePartitionData, now_ms: int
    ) -> Decision[wire.PartitionResult]:
        """What has become of records since the leader wrote last."""
        problem = (
            _partition_problem(key)
            or self._state_problem(key, "Write", asked.leader_epoch)
            or _epoch_problem(ErrorCode.FENCED_STATE_EPOCH, self._state_epochs.get(key), asked.state_epoch)
            or self._topic_problem(key)
        )
        if problem is not None:
            return Decision(_done(key, *problem))
        batches = tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state)
            for each in asked.state_batches
        )
        # Only a read makes another leader the one that counts.
        leader_epoch = self._states[key].leader_epoch
        record = self._written(key, leader_epoch, asked.start_offset, asked.delivery_complete_count, batches, now_ms)
        return Decision(_done(key), (record,))

    def delete(self, key: SharePartitionKey) -> Decision[wire.PartitionResult]:
        """Forget a state. Where there is none, that is so already."""
        problem = _partition_problem(key) or self._topic_problem(key)
        if problem is not None:
            return Decision(_done(key, *problem))
        return Decision(_done(key), (state_tombstone(key),) if key in self._states else ())

    def summary(self, key: SharePartitionKey) -> wire.ReadShareGroupStateSummaryPartitionResult:
        """Where a group is, as of all that is written."""
        problem = _partition_problem(key) or self._topic_problem(key)
        if problem is not None:
            return refused_summary(key, *problem)
        known = self._states.get(key)
        return wire.ReadShareGroupStateSummaryPartitionResult(
            partition=key.partition,
            error_code=ErrorCode.NONE,
            state_epoch=0 if known is None else known.state_epoch,
            leader_epoch=0 if known is None else known.leader_epoch,
            start_offset=NO_START_OFFSET if known is None else known.start_offset,
            delivery_complete_count=NO_COUNT if known is None else known.delivery_complete_count,
        )

    def _state_problem(self, key: SharePartitionKey, what: str, leader_epoch: int) -> tuple[ErrorCode, str] | None:
        if key not in self._states:
            return ErrorCode.INVALID_REQUEST, _NOT_INITIALISED.format(what)
        return _epoch_problem(ErrorCode.FENCED_LEADER_EPOCH, self._leader_epochs.get(key), leader_epoch)

    def _topic_problem(self, key: SharePartitionKey) -> tuple[ErrorCode, str] | None:
        topic = self._topics().topics.get(key.topic_id)
        if topic is None or key.partition not in topic.partitions:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return error, error.message
        return None

    def _written(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
        now_ms: int,
    ) -> CoordinatorRecord:
        """An update, or the snapshot that takes the place of all updates so far."""
        known = self._states[key]
        if self._updates.get(key, 0) < self._settings.updates_per_snapshot:
            return update_record(
                key,
                known.snapshot_epoch,
                leader_epoch,
                start_offset,
                delivery_complete_count,
                merged((), batches, start_offset),
            )
        start = known.start_offset if start_offset == NO_START_OFFSET else start_offset
        state = ShareState(
            snapshot_epoch=known.snapshot_epoch + 1,
            state_epoch=known.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=delivery_complete_count,
            batches=merged(known.batches, batches, start),
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        return snapshot_record(key, state)

    # --- housekeeping ------------------------------------------------------------------------------------------------------

    @property
    def needed_from(self) -> int | None:
        """The offset of the first record that a state needs, as of all that is written. None: nothing was written yet."""
        if self._snapshot_offsets:
            return min(self._snapshot_offsets.values())
        return None if self._last_tombstone_offset < 0 else self._last_tombstone_offset

    @property
    def state_count(self) -> int:
        return len(self._states)

    def state_of(self, key: SharePartitionKey) -> ShareState | None:
        """All that is known of a share partition, to be looked at."""
        return self._states.get(key)

    def _rewrite_cold(self, now_ms: int) -> Decision[None]:
        """New snapshots of states whose last one is old, a batch at a time. Of no use where nobody writes any state."""
        interval_ms = self._settings.cold_snapshot_interval_ms
        if not self._cold and not all(state.is_rewritten for state in self._states.values()):
            self._cold = [
                key for key, state in self._states.items() if now_ms - state.write_timestamp_ms >= interval_ms
            ]
        records = []
        size_bytes = 0
        while self._cold and size_bytes < HOUSEKEEPING_BATCH_BYTES:
            key = self._cold.pop()
            known = self._states.get(key)
            if known is None or now_ms - known.write_timestamp_ms < interval_ms:
                continue
            rewritten = msgspec.structs.replace(
                known, snapshot_epoch=known.snapshot_epoch + 1, write_timestamp_ms=now_ms
            )
            records.append(snapshot_record(key, rewritten))
            size_bytes += _RECORD_BYTES + len(key.group_id) + _BATCH_BYTES * len(known.batches)
        self.deadlines.set(_COLD, now_ms + (1 if self._cold else interval_ms), self._rewrite_cold)
        return Decision(None, tuple(records))

    def topics_removed(self, topic_ids: Collection[TopicId], now_ms: int) -> Decision[None]:
        """What was kept of these topics is not needed any more."""
        self._deleted += [key for key in self._states if key.topic_id in topic_ids]
        return self._forget_deleted(now_ms)

    def _forget_deleted(self, now_ms: int) -> Decision[None]:
        taken = []
        size_bytes = 0
        while self._deleted and size_bytes < HOUSEKEEPING_BATCH_BYTES:
            key = self._deleted.pop()
            if key in self._states:
                taken.append(key)
                size_bytes += _RECORD_BYTES + len(key.group_id)
        if self._deleted:
            self.deadlines.set(_DELETED_TOPICS, now_ms + 1, self._forget_deleted)

        def settled(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._deleted += taken
                self.deadlines.set(_DELETED_TOPICS, now_ms + RETRY_MS, self._forget_deleted)

        return Decision(None, tuple(state_tombstone(key) for key in taken), settled=settled)

    # --- the shard's life --------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int, now_ms: int) -> None:  # noqa: ARG002 - of the contract
        key, value = record.key, record.value
        if isinstance(key, ShareSnapshotKey):
            assert value is None or isinstance(value, ShareSnapshotValue)
            self._replay_snapshot(key_of(key), value, offset)
        elif isinstance(key, ShareUpdateKey) and value is not None:
            assert isinstance(value, ShareUpdateValue)
            self._replay_update(key_of(key), value)

    def _replay_snapshot(self, key: SharePartitionKey, value: ShareSnapshotValue | None, offset: int) -> None:
        if value is None:
            for table in (self._states, self._leader_epochs, self._state_epochs, self._updates, self._snapshot_offsets):
                table.pop(key, None)
            self._last_tombstone_offset = offset
            return
        self._states[key] = state_of_snapshot(value)
        self._raise(self._leader_epochs, key, value.leader_epoch)
        self._raise(self._state_epochs, key, value.state_epoch)
        self._snapshot_offsets[key] = offset
        # As in Kafka, any other snapshot leaves the count of updates where it is.
        if self._updates.get(key, 0) >= self._settings.updates_per_snapshot:
            self._updates[key] = 0

    def _replay_update(self, key: SharePartitionKey, value: ShareUpdateValue) -> None:
        known = self._states.get(key)
        if known is None:
            self._states[key] = state_of_update(value)
        else:
            self._states[key] = known.updated(
                value.leader_epoch,
                value.start_offset,
                value.delivery_complete_count,
                batches_of_record(value.state_batches),
            )
        self._raise(self._leader_epochs, key, value.leader_epoch)
        self._updates[key] = self._updates.get(key, 0) + 1

    @staticmethod
    def _raise(epochs: dict[SharePartitionKey, int], key: SharePartitionKey, epoch: int) -> None:
        epochs[key] = max(epoch, epochs.get(key, epoch))

    def end_transaction(self, producer_id: int, offset: int, *, is_committed: bool) -> None:
        """Nobody writes to this log in a transaction."""

    def loaded(self, now_ms: int) -> list[Decision[None]]:
        self.deadlines.set(_COLD, now_ms + self._settings.cold_snapshot_interval_ms, self._rewrite_cold)
        return []

    def unload(self) -> None:
        """Nobody waits here: what is pending is answered by the host."""
        self.deadlines.clear()


def _partition_problem(key: SharePartitionKey) -> tuple[ErrorCode, str] | None:
    return (ErrorCode.INVALID_REQUEST, _NEGATIVE_PARTITION) if key.partition < 0 else None


def _epoch_problem(error: ErrorCode, highest: int | None, asked: int) -> tuple[ErrorCode, str] | None:
    """Whether a request comes from an epoch that is over. One that names none is not asked."""
    is_over = highest is not None and asked != NO_EPOCH and highest > asked
    return (error, error.message) if is_over else None


def _done(
    key: SharePartitionKey, error: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> wire.PartitionResult:
    return wire.PartitionResult(partition=key.partition, error_code=error, error_message=message)


def refused(key: SharePartitionKey, error: ErrorCode, message: str | None) -> wire.PartitionResult:
    """The answer to a request that changes something."""
    return _done(key, error, message)


def refused_read(
    key: SharePartitionKey, error: ErrorCode, message: str | None
) -> wire.ReadShareGroupStatePartitionResult:
    return wire.ReadShareGroupStatePartitionResult(
        partition=key.partition,
        error_code=error,
        error_message=message,
        state_epoch=0,
        start_offset=0,
        state_batches=[],
    )


def refused_summary(
    key: SharePartitionKey, error: ErrorCode, message: str | None
) -> wire.ReadShareGroupStateSummaryPartitionResult:
    return wire.ReadShareGroupStateSummaryPartitionResult(
        partition=key.partition,
        error_code=error,
        error_message=message,
        state_epoch=0,
        leader_epoch=0,
        start_offset=0,
        delivery_complete_count=-1,
    )
