"""What is remembered of partitions: their ends over time, within a number of samples for all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.cluster.sample_ring import SampleRing

# Sixteen bytes each, so that the ends of all partitions take 32 MB at most.
SAMPLES_MAX = 2_000_000
SAMPLES_PER_PARTITION_MAX = 600
SAMPLES_PER_PARTITION_MIN = 8
# Beyond these a cluster's partitions are listed and not sampled.
PARTITIONS_MAX = 200_000

RATE_WINDOW_S = 10.0


class PartitionSamples:
    def __init__(self) -> None:
        self._ends: dict[TopicPartition, SampleRing] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.first_s: float | None = None

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, time_s: float, ends: Mapping[TopicPartition, int]) -> None:
        if self.first_s is None:
            self.first_s = time_s
        capacity = max(SAMPLES_PER_PARTITION_MIN, min(SAMPLES_PER_PARTITION_MAX, SAMPLES_MAX // max(1, len(ends))))
        for partition, end in ends.items():
            ring = self._ends.get(partition)
            if ring is None:
                if len(self._ends) >= PARTITIONS_MAX:
                    continue
                ring = self._ends[partition] = SampleRing(capacity)
            elif ring.last is not None and end < ring.last:
                # Made anew, or truncated by an election of a replica that was behind: the past is another log's.
                ring.clear()
            ring.capacity = capacity
            ring.add(time_s, end)

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget those that are no more."""
        there = frozenset(partitions)
        for gone in [each for each in self._ends if each not in there]:
            del self._ends[gone]
        for gone in [each for each in self.starts if each not in there]:
            del self.starts[gone]

    def end(self, partition: TopicPartition) -> int | None:
        ring = self._ends.get(partition)
        return None if ring is None or ring.last is None else int(ring.last)

    def ring(self, partition: TopicPartition) -> SampleRing | None:
        return self._ends.get(partition)

    def records(self, partition: TopicPartition) -> int | None:
        """How many offsets it holds, which with compaction and transactions are more than records."""
        end, start = self.end(partition), self.starts.get(partition)
        return None if end is None or start is None else max(0, end - start)

    def rate(self, partition: TopicPartition, now_s: float) -> float | None:
        """Records a second that come in."""
        ring = self._ends.get(partition)
        return None if ring is None else ring.rate(now_s, RATE_WINDOW_S)

    def records_in(self, partitions: Iterable[TopicPartition], times_s: list[float]) -> list[float | None]:
        """Records a second of some partitions together, at each time since the one before it."""
        sums: list[float] = [0.0] * len(times_s)
        is_known = [False] * len(times_s)
        for partition in partitions:
            ring = self._ends.get(partition)
            if ring is None:
                continue
            before: float | None = None
            for index, value in enumerate(ring.series(times_s)):
                if before is not None and value is not None:
                    sums[index] += max(0.0, value - before) / (times_s[index] - times_s[index - 1])
                    is_known[index] = True
                before = value
        return [value if known else None for value, known in zip(sums, is_known, strict=True)]
