# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""A replica that this node leads, as its coordinators see it: `coordination` knows nothing of `replication`."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.replication.partition import ALL_IN_SYNC, Partition
from tidelog.storage.append import AppendOutcome, AppendRule
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.partition_log import PartitionLog


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

    @property
    def commits_at_once(self) -> bool:
        return self._partition.commits_at_once(ALL_IN_SYNC)

    def append(self, batches: list[CheckedBatch], rule: AppendRule, required_acks: int) -> list[AppendOutcome]:
        return self._partition.append(batches, rule, required_acks)

    def when_committed(self, offset: int) -> ErrorCode | Pending[ErrorCode]:
        return self._partition.when_committed(offset)
