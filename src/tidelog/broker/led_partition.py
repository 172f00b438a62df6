"""A replica that this node leads, as its coordinators see it: `coordination` knows nothing of `replication`."""

from __future__ import annotations

from struct import Struct as Layout

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Offset
from tidelog.model.pending import Pending
from tidelog.replication.partition import ALL_IN_SYNC, Partition
from tidelog.storage.append import AppendInfo, AppendRefused, CheckedBatch
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_append import AppendOrigin
from tidelog.wire.record_batch import BATCH_OVERHEAD, BytesLike, TimestampType

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
        partition, log = self._partition, self._partition.log
        if (
            log is not None
            and origin is AppendOrigin.COORDINATOR
            and partition.commits_at_once(ALL_IN_SYNC)
            and log.config.message_timestamp_type is TimestampType.CREATE_TIME
        ):
            batch = _plain_batch(records)
            if batch is not None:
                outcome = partition.append_run((batch,))[0]
                if not isinstance(outcome, int):
                    return outcome
                return AppendInfo(Offset(outcome), Offset(outcome + batch.last_offset_delta), log.log_start_offset)
        return partition.append(records, origin=origin, transaction_version=transaction_version, guard=guard)

    def append_built(self, batch: bytearray, record_count: int, timestamp_ms: int) -> tuple[int, bool] | AppendRefused:
        partition = self._partition
        outcome: int | AppendInfo | AppendRefused
        is_committed = partition.commits_at_once(ALL_IN_SYNC)
        if is_committed and partition.config.keeps_create_time:
            view = memoryview(batch)
            plain = CheckedBatch(view, record_count - 1, timestamp_ms, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
            outcome = partition.append_run((plain,))[0]
        else:
            outcome = partition.append(batch, origin=AppendOrigin.COORDINATOR)
        if isinstance(outcome, int):
            return outcome, is_committed
        return (outcome.first_offset, is_committed) if isinstance(outcome, AppendInfo) else outcome

    def when_committed(self, offset: int) -> ErrorCode | Pending[ErrorCode]:
        return self._partition.when_committed(offset)


def _plain_batch(records: BytesLike) -> CheckedBatch | None:
    """The records as one batch that needs no look inside: the coordinator has just made it. None where it is a special one."""
    length, attributes, last_offset_delta, max_timestamp, producer_id = _read_batch(records)
    if attributes & _SPECIAL_ATTRIBUTES or producer_id != NO_PRODUCER_ID or length + BATCH_OVERHEAD != len(records):
        return None
    return CheckedBatch(
        memoryview(records), last_offset_delta, max_timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
    )
