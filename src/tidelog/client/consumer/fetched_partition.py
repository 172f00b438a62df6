"""What one fetch brought of one partition: raw batches, decoded when the application asks for them.

Batches come whole, so that the first may begin before the offset that was asked for; those records are left out. So are control
batches, and with `read_committed` the batches of aborted transactions: the answer names each aborted transaction by its
producer and first offset, and its end is the marker in the log.

`next_offset` is where reading goes on. It also passes what is left out, so that a position never stays in front of a marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelog.client.consumer.records import ConsumerRecord
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.control_records import ControlType, read_control_type
from tidelog.wire.messages.fetch import AbortedTransaction
from tidelog.wire.record_batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    check_batch,
    each_batch,
)
from tidelog.wire.records import decode_batch, decode_consumer_rows

if TYPE_CHECKING:
    import pyarrow as pa

Row = ConsumerRecord[Any, Any]


class FetchedPartition:
    """Batches of a partition that wait to be read, in order."""

    def __init__(
        self,
        partition: TopicPartition,
        fetch_offset: int,
        records: bytes | memoryview,
        *,
        aborted: Sequence[AbortedTransaction] | None = None,
        check_crcs: bool = True,
        row_type: type[Row] = ConsumerRecord,
    ) -> None:
        """`aborted` is None where uncommitted records are wanted too. Damage at the front shows when it is read, not here."""
        self.partition = partition
        self.next_offset = fetch_offset
        self.last_leader_epoch = -1
        """Of the batch that was read last, to tell later whether the log was truncated since."""
        self.damage: CorruptBatchError | None = None
        self._records = records
        self._check_crcs = check_crcs
        self._row_type = row_type
        self._batches: deque[tuple[int, BatchHeader]] = deque()
        try:
            self._batches.extend(each_batch(records))
        except CorruptBatchError as error:
            # What lies before the damage can be read.
            self.damage = error
        self.end_offset = max(fetch_offset, self._batches[-1][1].next_offset) if self._batches else fetch_offset
        """Where the next fetch goes on."""
        self.size_bytes = len(records)
        self._rows: list[Row] = []
        self._row = 0
        self._after_rows = fetch_offset
        self._opened: tuple[int, BatchHeader] | None = None
        self._reads_committed = aborted is not None
        self._aborted = deque(sorted((each.first_offset, each.producer_id) for each in aborted or ()))
        self._aborting: set[int] = set()

    @property
    def is_drained(self) -> bool:
        return self._row >= len(self._rows) and not self._batches

    def take_rows(self, count_max: int) -> list[Row]:
        """The next records, up to `count_max`: fewer, and perhaps none, only when nothing is left.

        CorruptBatchError where the next batch is damaged: reading stays in front of it.
        """
        taken: list[Row] = []
        while len(taken) < count_max:
            if self._row >= len(self._rows):
                if not self._next_rows(keep_damage=bool(taken)):
                    break
                continue
            end = self._row + count_max - len(taken)
            if not taken and self._row == 0 and end >= len(self._rows):
                taken = self._rows
            else:
                taken += self._rows[self._row : end]
            self._row = end
            if end >= len(self._rows):
                self._rows, self._row = [], 0
                self.next_offset = self._after_rows
            else:
                self.next_offset = self._rows[end].offset
        return taken

    def take_batches(self, count_min: int) -> list[Row]:
        """The records of whole batches until there are `count_min`: fewer only when nothing is left, or in front of damage.

        CorruptBatchError where the first batch is damaged: reading stays in front of it, unless `skip_damaged` passes it.
        """
        taken: list[Row] = []
        while len(taken) < count_min and self._next_rows(keep_damage=bool(taken)):
            taken = taken + self._rows if taken else self._rows
            self._rows, self._row = [], 0
            self.next_offset = self._after_rows
        return taken

    def skip_damaged(self) -> int:
        """Pass the batch that could not be read, and say where reading goes on: nowhere behind one whose end is not known."""
        if self._batches:
            _position, header = self._batches.popleft()
            self.next_offset = max(self.next_offset, header.next_offset)
        else:
            self.damage = None
        return self.next_offset

    def _next_rows(self, *, keep_damage: bool) -> bool:
        """Decode the next batch that is wanted. False where none is left, or where damage has to wait for the next call."""
        while self._batches:
            position, header = self._batches[0]
            try:
                if self._check_crcs:
                    check_batch(self._records, header, position)
                rows = self._rows_of(position, header) if self._is_wanted(position, header) else []
            except CorruptBatchError:
                if keep_damage:
                    return False
                raise
            self._opened = self._batches.popleft()
            self.last_leader_epoch = header.partition_leader_epoch
            self._after_rows = max(self.next_offset, header.next_offset)
            if rows:
                self._rows, self._row = rows, 0
                self.next_offset = rows[0].offset
                return True
            self.next_offset = self._after_rows
        if self.damage is not None and not keep_damage:
            raise self.damage
        return False

    def _rows_of(self, position: int, header: BatchHeader) -> list[Row]:
        rows: list[Row] = decode_consumer_rows(
            self._row_type, self.partition.topic, self.partition.partition, self._records, header, position
        )
        if header.base_offset < self.next_offset:
            rows = [row for row in rows if row.offset >= self.next_offset]
        return rows

    def _is_wanted(self, position: int, header: BatchHeader) -> bool:
        """Whether the application sees the batch; called once for each, in order."""
        if self._reads_committed and header.attributes & TRANSACTIONAL_BIT:
            while self._aborted and self._aborted[0][0] <= header.last_offset:
                self._aborting.add(self._aborted.popleft()[1])
            if header.attributes & CONTROL_BIT:
                self._pass_marker(position, header)
            elif header.producer_id in self._aborting:
                return False
        return not header.attributes & CONTROL_BIT

    def _pass_marker(self, position: int, header: BatchHeader) -> None:
        markers = decode_batch(self._records, header, position)
        if markers and read_control_type(markers[0].key) is ControlType.ABORT:
            self._aborting.discard(header.producer_id)

    def take_columns(
        self, *, headers: bool = True, batches_max: int | None = None
    ) -> tuple[pa.RecordBatch, TimestampType] | None:
        """What is left, or `batches_max` of it, as columns (see `wire.columns`) of one timestamp type; None where nothing is.

        CorruptBatchError where a batch of these is damaged: none of them is taken.
        """
        from tidelog.wire.columns import read_columns  # noqa: PLC0415 - pyarrow is an extra

        # A poll for rows may have opened a batch.
        self._close_rows()
        if not self._batches:
            if self.damage is not None:
                raise self.damage
            return None
        timestamp_type = self._batches[0][1].timestamp_type
        start = self._batches[0][0]
        wanted: dict[int, bool] = {}
        taken: list[tuple[int, BatchHeader]] = []
        last = self._batches[0][1]
        end = start
        while (
            self._batches
            and self._batches[0][1].timestamp_type is timestamp_type
            and (batches_max is None or len(taken) < batches_max)
        ):
            position, last = self._batches.popleft()
            taken.append((position, last))
            wanted[last.base_offset] = self._is_wanted(position, last)
            end = position + last.size_bytes
        try:
            columns = read_columns(
                memoryview(self._records)[:end],
                start,
                from_offset=self.next_offset,
                headers=headers,
                check_crcs=self._check_crcs,
                is_wanted=lambda header: wanted[header.base_offset],
            )
        except CorruptBatchError:
            self._batches.extendleft(reversed(taken))
            raise
        self.next_offset = max(self.next_offset, last.next_offset)
        self.last_leader_epoch = last.partition_leader_epoch
        return columns, timestamp_type

    def _close_rows(self) -> None:
        """Put a batch of which rows were taken back, to be decoded again from where reading stands."""
        if self._row < len(self._rows) and self._opened is not None:
            self._batches.appendleft(self._opened)
        self._rows, self._row = [], 0
