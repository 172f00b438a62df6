"""The log of one partition: segments in a row, seen as one sequence of offsets.

    log_start_offset ............ high_watermark ............ log_end_offset
    what may be read first        what all in-sync replicas    what the next append gets
                                  have; moved by replication
    recovery_point: everything before it has been forced to disk; after a crash nothing before it is read again

A log is used from one thread, that of its node's event loop: appends go to the page cache at once, and only syncs that nobody
waits for are handed to `SlowWork`. What a client did wrong is a value (`AppendRefused`, `ErrorCode`). A fault of the disk is a
`StorageError`: the log directory is told, goes offline as a whole, and every later call raises.

A log is put together in layers, a module each, so that a call on the data path is one call:

    LogCore             what every append and read look at; both    kernels.log_kernel
    LogState            offsets, parts, faults                      log_state
    DurableLog          flush, settle, rename, close                durable_log
    RollingLog          roll, retention, segments that go           rolling_log
    AppendableLog       every way to append                         appendable_log
    TruncatableLog      cut                                         truncatable_log
    PartitionLog        all of these, and finding offsets           here

Where this differs from Kafka, it is on the safe side: a truncation is durable when it returns, and it never leaves offsets
without a batch before the log's end; segments go only after the log's new start is durable.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP
from tidelog.storage.appendable_log import AppendableLog
from tidelog.storage.leader_epochs import EpochEndOffset
from tidelog.storage.segment import FoundTimestamp
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.truncatable_log import TruncatableLog
from tidelog.wire.batch_errors import CorruptBatchError


class PartitionLog(AppendableLog, TruncatableLog):
    """One partition on disk. `recovery.open_log` and `LogDirectory` make them."""

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that have records from `start_offset` up to `end_offset`, exclusive."""
        with self._disk():
            return self._reader.aborted_transactions(start_offset, end_offset)

    def reaches(self, offset: int, leader_epoch: int) -> bool:
        """Whether the log has written in `leader_epoch` last, and holds `offset`: then nobody who is there in that epoch has
        diverged. False says nothing."""
        return leader_epoch == self._assigned_epoch and self.log_start_offset <= offset <= self.log_end_offset

    def earliest_offset(self) -> FoundTimestamp:
        """The start of the log, with the epoch that it is in as far as that is known."""
        earliest = self.leader_epochs.earliest
        known = earliest is not None and earliest.start_offset <= self.log_start_offset
        epoch = earliest.epoch if earliest is not None and known else NO_LEADER_EPOCH
        return FoundTimestamp(NO_TIMESTAMP, self.log_start_offset, epoch)

    def latest_offset(self) -> FoundTimestamp:
        """The end of the log, with the epoch of its last batch."""
        epoch = self.leader_epochs.latest_epoch
        return FoundTimestamp(NO_TIMESTAMP, self.log_end_offset, NO_LEADER_EPOCH if epoch is None else epoch)

    def offset_for_timestamp(self, timestamp: int) -> FoundTimestamp | ErrorCode | None:
        """The first record whose timestamp is at or after `timestamp`. None if there is none."""
        try:
            with self._disk():
                return self._reader.find_timestamp(timestamp, self.log_start_offset)
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE

    def offset_for_max_timestamp(self) -> FoundTimestamp | ErrorCode | None:
        """The first record that has the largest timestamp of the log. None if no record has one."""
        try:
            with self._disk():
                return self._reader.find_largest_timestamp()
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Where the largest epoch at or below `leader_epoch` ends in this log (KIP-101, KIP-279)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)
