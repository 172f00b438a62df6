"""The second pass of a cleaning: what is to stay of a few segments is written to a new one.

Of a batch of records these stay: the last of each key, unless it is a tombstone whose delete horizon has passed; and everything
behind what the map covers. A batch that loses none stays as it is, byte for byte. One that loses some keeps its offsets, codec,
producer, sequence and leader epoch. One that loses all goes, except

    the last batch of an active producer     it stays without records: a retry must still be known for what it is
    the last batch of what is cleaned        so that where the log went on is not lost

The first time that a tombstone is left in a batch, or that nothing is left before a transaction's marker, the batch gets a
delete horizon, `delete.retention.ms` from now, in the place of its base timestamp (KIP-534). Behind it they go.

A batch that is rewritten keeps its base timestamp where Kafka takes that of the first record left: what records say is the same.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct

from tidelog.storage.checked_batches import CheckedBatch, kept_batch
from tidelog.storage.cleaning import batch_runs
from tidelog.storage.cleaning.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaning.cleaner_stats import CleanerStats
from tidelog.storage.cleaning.offset_map import OffsetMap
from tidelog.storage.cleaning.source_segment import SourceSegment
from tidelog.storage.cleaning.windows import Window
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import File, Files
from tidelog.storage.log_config import SEGMENT_BYTES_MAX
from tidelog.storage.segment import LOG_SUFFIX, Segment
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.crc32c import crc32c
from tidelog.wire.record_batch import (
    CHECKED_POSITION,
    CODEC_MASK,
    CRC_LAYOUT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    check_batch,
    read_header,
)
from tidelog.wire.records import RECORD_BYTES_MIN, build_empty_batch, records_of, seal_batch

# Batches that one run writes at most.
BATCHES_MAX = 4096
# What is collected before it is written.
PENDING_BYTES = 256 * 1024

_INT64_MAX = 2**63 - 1


class Retention(Struct, frozen=True):
    """What decides, beside the map and the transactions, whether a batch stays."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int
    """Where what is cleaned in this round ends."""
    last_data_offsets: array[int]
    """Sorted: see `Sources`."""
    last_marker_epochs: dict[int, int]

    @property
    def horizon_ms(self) -> int:
        """The delete horizon of what becomes due for one now."""
        return min(self.now_ms + self.delete_retention_ms, _INT64_MAX)

    def stays_empty(self, header: BatchHeader) -> bool:
        """Whether a batch stays though none of its records does."""
        if header.next_offset == self.end_offset:
            return True
        if header.producer_id < 0:
            return False
        if header.is_control and header.producer_id in self.last_marker_epochs:
            return self.last_marker_epochs[header.producer_id] == header.producer_epoch
        slot = bisect_left(self.last_data_offsets, header.last_offset)
        return slot < len(self.last_data_offsets) and self.last_data_offsets[slot] == header.last_offset


class Filtering:
    """Writes what stays of one segment after the other to `target`."""

    def __init__(
        self,
        files: Files,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        retention: Retention,
        window: Window,
        target: Segment,
        stats: CleanerStats,
    ) -> None:
        self._files = files
        self._map = offset_map
        self._transactions = transactions
        self._retention = retention
        self._window = window
        self._target = target
        self._stats = stats
        # Not plain to a run: what may have to stay empty.
        special = {*retention.last_data_offsets, retention.end_offset - 1}
        self._special = memoryview(array("q", sorted(special)))
        self._written = array("q", bytes(8 * batch_runs.WRITTEN_FIELDS * BATCHES_MAX))
        self._out = bytearray(0)
        self._pending: list[bytes | bytearray | memoryview] = []
        self._pending_bytes = 0
        self._batches: list[CheckedBatch] = []

    def run(self, segment: SourceSegment) -> Iterator[int]:
        """Yields how many bytes were read and written, piece by piece."""
        file = self._files.open(segment.path, writable=False)
        try:
            position = 0
            while position < segment.size_bytes:
                self._window.fill(file, position, segment.size_bytes)
                written = self._stats.bytes_written
                done = self._filter_window(file, position)
                position += done
                self._stats.bytes_read += done
                yield done + self._stats.bytes_written - written
        finally:
            file.close()

    def _filter_window(self, file: File, position: int) -> int:
        try:
            return self._filter(self._window.view)
        except CorruptBatchError as error:
            raise CorruptBatchError(f"{file.path}, from byte {position} on: {error}") from error
        finally:
            # What is pending lies in the window.
            self._pending.clear()
            self._batches.clear()
            self._pending_bytes = 0

    def _filter(self, view: memoryview) -> int:
        """Write what stays of the batches of a window. Returns where the last whole one ends."""
        retention, stats = self._retention, self._stats
        if len(self._out) < 2 * len(view):
            self._out = bytearray(2 * len(view))
        first = bisect_left(self._special, read_header(view).base_offset)
        at: int = 0
        while True:
            begun = at
            status, at, out_end, count, read, kept, keyless = batch_runs.filter_run(
                self._map,
                view,
                at,
                len(view),
                retention.now_ms,
                retention.horizon_ms,
                self._special[first:],
                self._out,
                self._written,
            )
            stats.records_read += read
            stats.records_written += kept
            stats.keyless_records += keyless
            if count:
                self._add_run(view, count, out_end)
            if status == batch_runs.AT_DAMAGE:
                raise CorruptBatchError(f"byte {at} begins no batch that can be read")
            if status == batch_runs.AT_SPECIAL or (status == batch_runs.AT_FULL and at == begun):
                header = read_header(view, at)
                check_batch(view, header, at)
                self._filter_special(view, at, header)
                at += header.size_bytes
                if self._pending_bytes > PENDING_BYTES:
                    self._flush()
            elif status == batch_runs.AT_END:
                self._flush()
                return at

    def _add_run(self, view: memoryview, count: int, out_end: int) -> None:
        """Take in what a run has written, with the checksums that it lacks."""
        fields = self._written
        out = memoryview(self._out)
        for number in range(0, count * batch_runs.WRITTEN_FIELDS, batch_runs.WRITTEN_FIELDS):
            at, start, size, last_offset, max_timestamp, is_changed = fields[
                number : number + batch_runs.WRITTEN_FIELDS
            ]
            if is_changed:
                # What was damaged on disk must not get a checksum that says otherwise.
                check_batch(view, read_header(view, at), at)
                crc = crc32c(out[start + CHECKED_POSITION : start + size])
                CRC_LAYOUT.pack_into(out, start + CRC_POSITION, crc)
            self._batches.append(kept_batch(size, last_offset, max_timestamp))
        self._pending.append(out[:out_end])
        self._pending_bytes += out_end
        # The next run writes to the same place again.
        self._flush()

    def _add(self, batch: bytes | bytearray | memoryview, last_offset: int, max_timestamp: int) -> None:
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        self._batches.append(kept_batch(len(batch), last_offset, max_timestamp))

    def _flush(self) -> None:
        if self._batches:
            if self._target.size_bytes + self._pending_bytes > SEGMENT_BYTES_MAX:
                raise DamagedFileError(
                    self._target.path(LOG_SUFFIX), "cleaning would make it larger than a segment can be"
                )
            self._target.write(self._pending, self._batches)
            self._stats.bytes_written += self._pending_bytes
            self._pending.clear()
            self._batches.clear()
            self._pending_bytes = 0

    # --- one batch that is not plain ----------------------------------------------------------------------------------------

    def _filter_special(self, view: memoryview, at: int, header: BatchHeader) -> None:
        retention = self._retention
        self._stats.records_read += header.record_count
        is_marker_of_nothing = False
        if header.is_control:
            is_marker_of_nothing = self._transactions.may_go(header, view, at)
            horizon_ms = header.delete_horizon_ms
            loses_all = is_marker_of_nothing and horizon_ms is not None and horizon_ms <= retention.now_ms
        else:
            loses_all = self._transactions.is_aborted(header)
        kept = 0
        if not loses_all and header.record_count:
            kept = self._keep_some(view, at, header, gets_horizon=is_marker_of_nothing)
            self._stats.records_written += kept
        if kept == 0 and retention.stays_empty(header):
            self._add(_emptied(header), header.last_offset, header.max_timestamp)

    def _keep_some(self, view: memoryview, at: int, header: BatchHeader, *, gets_horizon: bool) -> int:
        """Add the batch with the records that stay, unless none does. Returns how many do."""
        retention = self._retention
        records = records_of(view, header, at)
        kept, keyless, has_tombstone, newest, target = self._kept_records(header, records, None)
        self._stats.keyless_records += keyless
        if kept == 0:
            return 0
        attributes, base_timestamp = header.attributes & ~CODEC_MASK, header.base_timestamp
        if (has_tombstone or gets_horizon) and not header.has_delete_horizon:
            again, _, _, _, rebased = self._kept_records(header, records, retention.horizon_ms)
            # A record whose time lies so far back that it cannot be counted from the horizon keeps its batch without one.
            if again == kept:
                target = rebased
                attributes, base_timestamp = attributes | DELETE_HORIZON_BIT, retention.horizon_ms
        if kept == header.record_count and base_timestamp == header.base_timestamp:
            self._add(view[at : at + header.size_bytes], header.last_offset, header.max_timestamp)
            return kept
        max_timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else newest
        batch = seal_batch(
            target,
            record_count=kept,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            codec=header.codec,
            attributes=attributes,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            leader_epoch=header.partition_leader_epoch,
        )
        self._add(batch, header.last_offset, max_timestamp)
        return kept

    def _kept_records(
        self, header: BatchHeader, records: bytes | bytearray | memoryview, new_base: int | None
    ) -> tuple[int, int, bool, int, bytearray]:
        retention = self._retention
        horizon_ms = header.delete_horizon_ms
        if header.record_count > len(records) // RECORD_BYTES_MIN:
            # A count that cannot be true must not decide what is allocated.
            raise CorruptBatchError(f"the batch at offset {header.base_offset} claims {header.record_count} records")
        growth = 0 if new_base is None else header.record_count * batch_runs.RECORD_GROWTH_MAX
        target = bytearray(HEADER_BYTES + len(records) + growth)
        kept, keyless, has_tombstone, newest, end = batch_runs.filter_records(
            self._map,
            records,
            0,
            len(records),
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            header.last_offset_delta,
            horizon_ms is not None and horizon_ms <= retention.now_ms,
            header.is_control,
            new_base,
            target,
            HEADER_BYTES,
        )
        if kept == -1:
            raise CorruptBatchError(f"the records of the batch at offset {header.base_offset} cannot be read")
        del target[max(end, HEADER_BYTES) :]
        return kept, keyless, has_tombstone, newest, target


def _emptied(header: BatchHeader) -> bytes:
    return build_empty_batch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        timestamp=header.max_timestamp,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
