"""A replica that this node leads, as its coordinators see it: `coordination` knows nothing of `replication`."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.replication.partition import ALL_IN_SYNC, Partition
from tidelog.storage.append import AppendInfo, AppendRefused
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_append import AppendOrigin
from tidelog.wire.record_batch import BytesLike


class LedPartition:
    """Fits `coordination.coordinator_log.CoordinatorPartition`."""

    __slots__ = ("_partition", "append_built")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        # Every commit's: the replica's own method, without a call between.
        self.append_built = partition.append_built

    @property
    def log(self) -> PartitionLog | None:
        return self._partition.log

    @property
    def message_bytes_max(self) -> int:
        return self._partition.config.max_message_bytes

    @property
    def commits_at_once(self) -> bool:
        return self._partition.commits_at_once(ALL_IN_SYNC)

    def append(
        self,
        records: BytesLike,
        *,
        required_acks: int,
        origin: AppendOrigin,
        transaction_version: int = 0,
        guard: int | None = None,
    ) -> AppendInfo | AppendRefused:
        return self._partition.append(
            records, required_acks=required_acks, origin=origin, transaction_version=transaction_version, guard=guard
        )

    def when_committed(self, offset: int) -> ErrorCode | Pending[ErrorCode]:
        return self._partition.when_committed(offset)
