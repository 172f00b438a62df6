"""How much one micro-batch may take: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay` together.

A batch with less than the least is put off, at most for the delay. What is more than the most is left for later batches: each
partition gets a share in proportion to what waits in it, and every partition with records at least one, so that none starves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.source.partition_offsets import PartitionOffsets


@dataclass(slots=True)
class Admission:
    """The limits of one query. `admit` is asked once for each trigger that looks for data."""

    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    _last_batch_ms: int | None = field(default=None, init=False)

    def admit(self, start: PartitionOffsets, latest: PartitionOffsets, now_ms: int) -> dict[TopicPartition, int]:
        """Where the next batch ends: `start` again where it has to wait. Every partition of `latest` has to be in `start`."""
        if self.min_offsets is not None and self._waits(start, latest, now_ms):
            return dict(start)
        return limited(start, latest, self.max_offsets)

    def _waits(self, start: PartitionOffsets, latest: PartitionOffsets, now_ms: int) -> bool:
        waiting = sum(max(0, end - start[partition]) for partition, end in latest.items())
        is_due = self._last_batch_ms is None or now_ms - self._last_batch_ms >= self.max_delay_ms
        if self.min_offsets is not None and waiting < self.min_offsets and not is_due:
            return True
        # A trigger that finds nothing is no batch, and does not put off the first records that come.
        if waiting:
            self._last_batch_ms = now_ms
        return False


def limited(start: PartitionOffsets, latest: PartitionOffsets, count_max: int | None) -> dict[TopicPartition, int]:
    """`latest`, or as far towards it as about `count_max` offsets bring each partition in proportion."""
    sizes = {partition: end - start[partition] for partition, end in latest.items() if end > start[partition]}
    total = sum(sizes.values())
    if count_max is None or total <= count_max:
        return dict(latest)
    # One for each partition, and of the rest a share. Whole numbers throughout: offsets have 63 bits and a float 53.
    rest, waiting = max(0, count_max - len(sizes)), total - len(sizes)
    shares = {partition: 1 + (rest * (size - 1) // waiting if waiting else 0) for partition, size in sizes.items()}
    _hand_out(sizes, shares, count_max - sum(shares.values()))
    return {
        partition: start[partition] + shares[partition] if partition in shares else end
        for partition, end in latest.items()
    }


def _hand_out(sizes: dict[TopicPartition, int], shares: dict[TopicPartition, int], left: int) -> None:
    """What rounding has left over, one to each, the fullest partitions first."""
    for partition in sorted(sizes, key=lambda each: (-sizes[each], each)):
        if left <= 0:
            return
        if shares[partition] < sizes[partition]:
            shares[partition] += 1
            left -= 1
