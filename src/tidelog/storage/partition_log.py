"""The log of one partition: segments in a row, seen as one sequence of offsets.

    log_start_offset ............ high_watermark ............ log_end_offset
    what may be read first        what all in-sync replicas    what the next append gets
                                  have; moved by replication
    recovery_point: everything before it has been forced to disk; after a crash nothing before it is read again

A log is used from one thread, that of its node's event loop: appends go to the page cache at once, and only syncs that nobody
waits for are handed to `SlowWork`. What a client did wrong is a value (`AppendRefused`, `ErrorCode`). A fault of the disk is a
`StorageError`: the log directory is told, goes offline as a whole, and every later call raises.

A log is put together in layers, a module each, so that a call on the data path is one call:

    LogState            offsets, parts, faults                      log_state
    DurableLog          flush, settle, rename, close                durable_log
    RollingLog          roll, retention, segments that go           rolling_log
    AppendableLog       every way to append                         appendable_log
    TruncatableLog      cut                                         truncatable_log
    PartitionLog        all of these, and reading                   here

Where this differs from Kafka, it is on the safe side: a truncation is durable when it returns, and it never leaves offsets
without a batch before the log's end; segments go only after the log's new start is durable.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP, Offset
from tidelog.storage.appendable_log import AppendableLog
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FileRegion
from tidelog.storage.leader_epochs import EpochEndOffset
from tidelog.storage.log_reader import FoundRegion
from tidelog.storage.segment import FoundTimestamp
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.truncatable_log import TruncatableLog
from tidelog.wire.batch_errors import CorruptBatchError

# A member that is reached through its class costs more, and every read asks for these.
_LOG_END = FetchIsolation.LOG_END
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK


class PartitionLog(AppendableLog, TruncatableLog):
    """One partition on disk. `recovery.open_log` and `LogDirectory` make them."""

    def read(
        self,
        offset: int,
        bytes_max: int,
        *,
        upper_bound: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_batch: bool = True,
    ) -> Fetched | ErrorCode:
        """The batches from the one that holds `offset` on, at most `bytes_max` of them, as regions of one segment's file.

        With `min_one_batch` the first batch comes whole, however small the limit. OFFSET_OUT_OF_RANGE for an offset that the log
        does not have, CORRUPT_MESSAGE where the file is damaged.
        """
        if self.fault is not None:
            self._raise_offline()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        aborted: tuple[AbortedTransaction, ...] | None = None
        producers = self.producers
        # Mostly no transaction is open, and then there is nothing to be asked.
        stable = self.last_stable_offset if producers.ongoing or producers.unreplicated else self.high_watermark
        if upper_bound is _LOG_END:
            bound = self.log_end_offset
        elif upper_bound is _HIGH_WATERMARK:
            bound = self.high_watermark
        else:
            bound = stable
            aborted = ()
        if offset >= bound:
            return Fetched((), self.log_start_offset, self.log_end_offset, self.high_watermark, stable, False, aborted)
        fresh = self._reader.fresh
        try:
            if (
                fresh is not None
                and offset == fresh.base_offset
                and bound == fresh.end_offset
                and len(fresh.records) <= bytes_max
            ):
                # No marker is in it or behind it, so none of it belongs to an aborted transaction.
                return self._fetched((fresh.region,), stable, aborted)
            found = self._reader.find_region(offset, bound, self.log_end_offset, bytes_max, min_one_batch=min_one_batch)
            if isinstance(found, FoundRegion):
                if aborted is not None:
                    aborted = self._reader.aborted_in(found, offset, self.log_end_offset)
                return self._fetched((found.region,), stable, aborted)
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE
        except StorageError as error:
            self._fail(error)
        return self._fetched((), stable, aborted, first_batch_too_large=found is not None)

    def _fetched(
        self,
        regions: tuple[FileRegion, ...],
        stable: Offset,
        aborted: tuple[AbortedTransaction, ...] | None,
        *,
        first_batch_too_large: bool = False,
    ) -> Fetched:
        return Fetched(
            regions,
            self.log_start_offset,
            self.log_end_offset,
            self.high_watermark,
            stable,
            first_batch_too_large,
            aborted,
        )

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
