"""Batches are appended to a log: by a leader, by a follower, by a coordinator on this node.

`append_as_leader` and `append_as_follower` take any batches. `append_run`, `append_built` and `append_marker` do the same in
fewer steps for what this node has checked or made itself, and leave the rare cases, such as a roll, to `append_as_leader`.
`append_run`, which every produced batch goes through, is in `LogCore` of [log_kernel](kernels/log_kernel.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel_choice import load
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, Offset, TimestampMs
from tidelog.storage.append import (
    NOT_TRANSACTIONAL,
    OFFSET_MAX,
    AppendInfo,
    AppendRefused,
    CheckedBatch,
    PlacedBatch,
    accept_batches,
    pack_place,
    place_batches,
)
from tidelog.storage.producer_append import AppendOrigin, Duplicate, EndTransactionMarker, PreparedUpdate, ProducerState
from tidelog.storage.producer_replay import apply_update, marker_of
from tidelog.storage.rolling_log import RollingLog
from tidelog.storage.segment import RELATIVE_OFFSET_MAX, WrittenBatch
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import BATCH_OVERHEAD, BytesLike, TimestampType, read_header

_kernel = load("tidelog.wire.kernels", "replica_kernel")
_read_plain_batch = _kernel.read_plain_batch
_read_plain_run = _kernel.read_plain_run


class AppendableLog(RollingLog):
    """A log that takes batches. One write each time; producers, epochs and the log's end follow it."""

    def append_as_leader(
        self,
        buffer: BytesLike,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        guard: int | None = None,
    ) -> AppendInfo | AppendRefused:
        """Append whole batches, giving them the next offsets and the leader's epoch, with one write.

        The batches are restamped in place, so `buffer` belongs to the log from here on; bytes are copied first. `guard`: see
        `ProducerStateTable.prepare`.
        """
        if self.fault is not None:
            self._raise_offline()
        if isinstance(buffer, bytes) or (isinstance(buffer, memoryview) and buffer.readonly):
            buffer = bytearray(buffer)
        append_time_ms = None
        if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            append_time_ms = self._seams.clock.now_ms()
        placed = place_batches(
            buffer,
            origin=origin,
            first_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            append_time_ms=append_time_ms,
        )
        if isinstance(placed, AppendRefused):
            return placed
        if not placed:
            return AppendRefused(ErrorCode.INVALID_RECORD, "there is no record batch to append")
        return self._append(buffer, placed, origin, append_time_ms, transaction_version, guard)

    def _append_each(
        self, run: Sequence[CheckedBatch], leader_epoch: int
    ) -> Sequence[int | AppendInfo | AppendRefused]:
        """`append_run` where a new segment has to begin, or may have to."""
        return [
            self.append_as_leader(
                batch.view, leader_epoch, guard=None if batch.guard == NOT_TRANSACTIONAL else batch.guard
            )
            for batch in run
        ]

    def append_built(self, batch: bytearray, record_count: int, max_timestamp: int, leader_epoch: int) -> Offset | None:
        """`append_as_leader` for one whole batch of records that this node has just made, outside of any transaction and with
        their own time. Returns its first offset. None: nothing is written, and the batch is to go the ordinary way."""
        if self.fault is not None:
            self._raise_offline()
        config, offset, size = self.config, self.log_end_offset, len(batch)
        end = offset + record_count
        segment = self._segments.active
        if (
            end > OFFSET_MAX
            or leader_epoch != self._assigned_epoch
            or not segment.takes_one(config, size, end - 1, max_timestamp)
        ):
            return None
        pack_place(batch, 0, offset, size - BATCH_OVERHEAD, leader_epoch)
        self._is_durable = False
        try:
            segment.write_one(batch, size, end - 1, max_timestamp)
            self._ends_with_it(end)
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)
        return offset

    def append_marker(
        self,
        batch: bytes,
        marker: EndTransactionMarker,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        transaction_version: int,
    ) -> int | AppendRefused:
        """`append_as_leader` for the marker that ends a transaction, which its coordinator has just made. Returns its offset.

        `batch` says what the other arguments do, and is not looked into.
        """
        if self.fault is not None:
            self._raise_offline()
        self._reader.fresh = None
        config, segment, offset, size = self.config, self._segments.active, self.log_end_offset, len(batch)
        keeps_create_time = config.message_timestamp_type is TimestampType.CREATE_TIME
        if leader_epoch == self._assigned_epoch and offset < OFFSET_MAX and keeps_create_time:
            state = self.producers.committed_by(producer_id, producer_epoch, marker, transaction_version)
            if state is not None and self._append_commit(batch, marker, state, producer_epoch, leader_epoch):
                return offset
        try:
            fits = (
                producer_id >= 0
                and keeps_create_time
                and size <= config.segment_bytes
                and offset < OFFSET_MAX
                and not segment.should_roll(config, size, offset, marker.timestamp)
            )
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)
        if not fits:
            appended = self.append_as_leader(
                batch, leader_epoch, origin=AppendOrigin.COORDINATOR, transaction_version=transaction_version
            )
            return appended if isinstance(appended, AppendRefused) else appended.first_offset
        update = self.producers.prepare_end(producer_id, producer_epoch, offset, marker, transaction_version)
        if isinstance(update, ErrorCode):
            return AppendRefused(update, f"producer {producer_id}: {update.message}")
        # A copy: the same marker goes to every partition of the transaction.
        placed = bytearray(batch)
        pack_place(placed, 0, offset, size - BATCH_OVERHEAD, leader_epoch)
        try:
            if leader_epoch != self._assigned_epoch and leader_epoch >= 0:
                self._assign_epoch(leader_epoch, offset)
            self._is_durable = False
            segment.append((placed,), ((size, offset, marker.timestamp),))
            self.log_end_offset = Offset(offset + 1)
            apply_update(self.producers, update, segment.transaction_index)
            self.producers.map_end_offset = Offset(offset + 1)
            if offset + 1 - self._durability.recovery_point >= config.flush_messages:
                self._flush()
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)
        return offset

    def _append_commit(
        self, batch: bytes, marker: EndTransactionMarker, state: ProducerState, producer_epoch: int, leader_epoch: int
    ) -> bool:
        """Write the marker that commits a producer's open transaction. False: nothing is written, as it takes more than that."""
        config, offset, size = self.config, self.log_end_offset, len(batch)
        segment = self._segments.active
        if not segment.takes_one(config, size, offset, marker.timestamp):
            return False
        placed = bytearray(batch)
        pack_place(placed, 0, offset, size - BATCH_OVERHEAD, leader_epoch)
        self._is_durable = False
        try:
            segment.write_one(placed, size, offset, marker.timestamp)
            self.log_end_offset = Offset(offset + 1)
            self.producers.commit(state, producer_epoch, offset, marker)
            self.producers.map_end_offset = Offset(offset + 1)
            if offset + 1 - self._durability.recovery_point >= config.flush_messages:
                self._flush()
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)
        return True

    def _judge_sequence(self, batch: CheckedBatch, offset: int) -> AppendInfo | AppendRefused | None:
        """Take in the sequence of a batch that does not simply go on with it, unless there is a reason not to write it."""
        prepared = self.producers.prepare(read_header(batch.view), offset, AppendOrigin.CLIENT, guard=batch.guard)
        if isinstance(prepared, ErrorCode):
            return AppendRefused(prepared, f"producer {batch.producer_id}: {prepared.message}")
        if isinstance(prepared, Duplicate):
            return AppendInfo(prepared.first_offset, prepared.last_offset, self.log_start_offset, is_duplicate=True)
        apply_update(self.producers, prepared, None)
        return None

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if not self.is_settled:
            self._settle()
        # On disk before the recovery point passes it; until then recovery finds it in the batches.
        self.leader_epochs.assign(epoch, start_offset, flush=False)
        self._assigned_epoch = epoch

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """This replica leads from here on, in an epoch that has no record yet."""
        self.leader_epochs.assign(leader_epoch, self.log_end_offset, flush=False)

    def append_as_follower(self, buffer: BytesLike) -> AppendInfo | AppendRefused:
        """Append the leader's batches as they are. Offsets must rise; gaps are allowed; a cut-off last batch is left out."""
        if self.fault is not None:
            self._raise_offline()
        plain = _read_plain_batch(buffer)
        if plain is not None:
            appended = self._append_plain(buffer, *plain)
        else:
            run = _read_plain_run(buffer)
            appended = None if run is None else self._append_plain_run(buffer, *run)
        return self._append_given(buffer, leader_epoch=None) if appended is None else appended

    def _append_plain(
        self,
        batch: BytesLike,
        offset: int,
        leader_epoch: int,
        delta: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
    ) -> AppendInfo | None:
        """`append_as_follower` for one batch that follows the log in the same epoch, as nearly all do. None: it needs a closer
        look, and nothing is written."""
        config, size, last_offset = self.config, len(batch), offset + delta
        segment = self._segments.active
        if (
            offset != self.log_end_offset
            or last_offset >= OFFSET_MAX
            or leader_epoch != self._assigned_epoch
            or not segment.takes_one(config, size, last_offset, max_timestamp)
        ):
            return None
        if producer_id >= 0 and not self.producers.continue_sequence(
            producer_id, producer_epoch, sequence, offset, delta, max_timestamp
        ):
            return None
        self._is_durable = False
        try:
            segment.write_one(batch, size, last_offset, max_timestamp)
            self._ends_with_it(last_offset + 1)
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)
        return AppendInfo(Offset(offset), Offset(last_offset), self.log_start_offset)

    def _append_plain_run(
        self, buffer: BytesLike, end: int, offset: int, leader_epoch: int, written: Sequence[WrittenBatch]
    ) -> AppendInfo | None:
        """`_append_plain` for several batches, without producers: what a replica that catches up gets."""
        config, last_offset = self.config, written[-1][1]
        newest = max(max_timestamp for _, _, max_timestamp in written)
        segment = self._segments.active
        if offset != self.log_end_offset or leader_epoch != self._assigned_epoch or end > config.segment_bytes:
            return None
        try:
            if segment.should_roll(config, end, last_offset, newest):
                return None
            self._is_durable = False
            with memoryview(buffer) as view:
                segment.append((view[:end],), written)
            self._ends_with_it(last_offset + 1)
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)
        return AppendInfo(Offset(offset), Offset(last_offset), self.log_start_offset)

    def append_as_raft_leader(self, buffer: BytesLike, leader_epoch: int) -> AppendInfo | AppendRefused:
        """Append batches to which the leader of the metadata quorum has given offsets and its epoch already."""
        return self._append_given(buffer, leader_epoch=leader_epoch)

    def _append_given(self, buffer: BytesLike, leader_epoch: int | None) -> AppendInfo | AppendRefused:
        if self.fault is not None:
            self._raise_offline()
        placed = accept_batches(buffer, next_offset=self.log_end_offset)
        if isinstance(placed, AppendRefused):
            return placed
        for _, header in placed:
            if leader_epoch is not None and header.partition_leader_epoch != leader_epoch:
                return AppendRefused(
                    ErrorCode.INVALID_RECORD, f"the batch at offset {header.base_offset} is not of epoch {leader_epoch}"
                )
        if not placed:
            return AppendInfo(self.log_end_offset, Offset(self.log_end_offset - 1), self.log_start_offset)
        first, last = placed[0][1], placed[-1][1]
        end = placed[-1][0] + last.size_bytes
        fits = end <= self.config.segment_bytes and last.last_offset - first.base_offset <= RELATIVE_OFFSET_MAX
        with memoryview(buffer) as view:
            if fits or len(placed) == 1:
                return self._append(view[:end], placed, AppendOrigin.REPLICATION, None, 0)
            # More than one segment holds: in bytes, since a leader's segments may be larger, or in offsets, since a compacted
            # log may have lost more than two billion between two batches.
            for position, header in placed:
                one = view[position : position + header.size_bytes]
                appended = self._append(one, [(0, header)], AppendOrigin.REPLICATION, None, 0)
                if isinstance(appended, AppendRefused):
                    return appended
        return AppendInfo(Offset(first.base_offset), Offset(last.last_offset), self.log_start_offset)

    def _append(
        self,
        buffer: bytearray | memoryview,
        placed: list[PlacedBatch],
        origin: AppendOrigin,
        append_time_ms: int | None,
        transaction_version: int,
        guard: int | None = None,
    ) -> AppendInfo | AppendRefused:
        """Append checked batches that have their place."""
        # There may be a marker among them, of a transaction that has records in the run before.
        self._reader.fresh = None
        size = len(buffer)
        config = self.config
        if size > config.segment_bytes and origin is not AppendOrigin.REPLICATION:
            return AppendRefused(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes do not fit into one segment of {config.segment_bytes} bytes",
            )
        first, last = placed[0][1], placed[-1][1]
        last_offset = last.base_offset + last.last_offset_delta
        max_timestamp = first.max_timestamp
        update: PreparedUpdate | None = None
        for position, header in placed:
            max_timestamp = max(max_timestamp, header.max_timestamp)
            if header.producer_id >= 0:
                try:
                    marker = marker_of(header, buffer, position) if header.is_control else None
                except CorruptBatchError as error:
                    return AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
                prepared = self.producers.prepare(
                    header,
                    header.base_offset,
                    origin,
                    marker=marker,
                    transaction_version=transaction_version,
                    guard=guard,
                    into=update,
                )
                if isinstance(prepared, ErrorCode):
                    return AppendRefused(prepared, f"producer {header.producer_id}: {prepared.message}")
                if isinstance(prepared, Duplicate):
                    time_ms = NO_TIMESTAMP if append_time_ms is None else TimestampMs(prepared.timestamp)
                    return AppendInfo(
                        prepared.first_offset, prepared.last_offset, self.log_start_offset, time_ms, is_duplicate=True
                    )
                update = prepared
        try:
            for _, header in placed:
                epoch = header.partition_leader_epoch
                if epoch != self._assigned_epoch and epoch >= 0:
                    self._assign_epoch(epoch, header.base_offset)
            self._is_durable = False
            segment = self._segments.active
            if segment.should_roll(config, size, last_offset, max_timestamp):
                segment = self._roll(first.base_offset, last_offset)
            segment.append(
                (buffer,),
                [
                    (
                        BATCH_OVERHEAD + header.batch_length,
                        header.base_offset + header.last_offset_delta,
                        header.max_timestamp,
                    )
                    for _, header in placed
                ],
            )
            self.log_end_offset = Offset(last_offset + 1)
            if update is not None:
                apply_update(self.producers, update, segment.transaction_index)
            self.producers.map_end_offset = Offset(last_offset + 1)
            if last_offset + 1 - self._durability.recovery_point >= config.flush_messages:
                self._flush()
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)
        return AppendInfo(
            Offset(first.base_offset),
            Offset(last_offset),
            self.log_start_offset,
            NO_TIMESTAMP if append_time_ms is None else TimestampMs(append_time_ms),
        )
