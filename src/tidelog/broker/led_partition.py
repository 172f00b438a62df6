"""A replica that this node leads, as its coordinators see it: `coordination` knows nothing of `replication`."""

from __future__ import annotations

from struct import Struct as Layout

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID, Offset
from tidelog.model.pending import Pending
from tidelog.replication.partition import Partition
from tidelog.storage.append import AppendInfo, AppendRefused
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_append import AppendOrigin
from tidelog.wire.record_batch import BATCH_OVERHEAD, BytesLike

# Of a batch: its length, its attributes, its last offset's delta, its largest timestamp and its producer's id.
_read_batch = Layout(">8xi9xhi8xqq").unpack_from
# All but the codec: control, transactional, append time, delete horizon.
_SPECIAL_ATTRIBUTES = ~0x07


class LedPartition:
    """Fits `coordination.coordinator_log.CoordinatorPartition`."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def log(self) -> PartitionLog | None:
        return self._partition.log

    @property
    def message_bytes_max(self) -> int:
        return self._partition.config.max_message_bytes

    def append(
        self,
        records: BytesLike,
        *,
        origin: AppendOrigin,
        transaction_version: int = 0,
        guard: int | None = None,
    ) -> AppendInfo | AppendRefused:
        partition = self._partition
        if origin is AppendOrigin.COORDINATOR and isinstance(records, bytearray):
            plain = _plain_batch(records)
            if plain is not None:
                record_count, max_timestamp = plain
                outcome = partition.append_built(records, record_count, max_timestamp)
                if isinstance(outcome, AppendRefused):
                    return outcome
                first, log = outcome[0], partition.log
                return AppendInfo(
                    first, Offset(first + record_count - 1), Offset(-1) if log is None else log.log_start_offset
                )
        return partition.append(records, origin=origin, transaction_version=transaction_version, guard=guard)

    def append_built(self, batch: bytearray, record_count: int, timestamp_ms: int) -> tuple[int, bool] | AppendRefused:
        return self._partition.append_built(batch, record_count, timestamp_ms)

    def when_committed(self, offset: int) -> ErrorCode | Pending[ErrorCode]:
        return self._partition.when_committed(offset)


def _plain_batch(records: bytearray) -> tuple[int, int] | None:
    """How many records one batch has that needs no look inside, since the coordinator has just made it, and their newest time.

    None where it is a special one.
    """
    length, attributes, last_offset_delta, max_timestamp, producer_id = _read_batch(records)
    if attributes & _SPECIAL_ATTRIBUTES or producer_id != NO_PRODUCER_ID or length + BATCH_OVERHEAD != len(records):
        return None
    return last_offset_delta + 1, max_timestamp
