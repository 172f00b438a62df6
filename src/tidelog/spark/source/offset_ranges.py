"""What is read of each partition, and how it is shared out among tasks.

A range is counted in offsets, which is more than its records where transactions and compaction left gaps. One range goes to one
task, unless the options ask for more or smaller ones: then the largest are divided first, so that a skewed topic becomes tasks
of like size.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import OptionError

# A plan is held in memory three times over; Spark itself does not live with more tasks than this.
RANGES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition from `start` up to and without `end`."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: str | None = field(default=None, compare=False)
    """Of the topic that these are offsets of, where that is known: another one may have its name by the time it is read."""

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.partition} from {self.start} to {self.end}"


def of_topics(ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str]) -> list[OffsetRange]:
    """The same ranges, each with the id of its topic."""
    return [replace(each, topic_id=topic_ids.get(each.partition.topic)) for each in ranges]


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """The same offsets in at least `min_partitions` ranges, as far as there are offsets, none of them larger than
    `max_records_per_partition`. Empty ranges are left out. OptionError where that makes more than RANGES_MAX."""
    filled = sorted(each for each in ranges if each.size > 0)
    parts = [1 if max_records_per_partition is None else -(-each.size // max_records_per_partition) for each in filled]
    wanted = min(min_partitions or 0, sum(each.size for each in filled))
    if max(sum(parts), wanted) > RANGES_MAX:
        raise OptionError(
            f"the read would be divided into {max(sum(parts), wanted)} partitions, more than {RANGES_MAX}: "
            "choose a larger maxRecordsPerPartition or a smaller minPartitions"
        )
    _divide_largest(filled, parts, wanted - sum(parts))
    return [piece for each, count in zip(filled, parts, strict=True) for piece in _pieces(each, count)]


def _divide_largest(ranges: list[OffsetRange], parts: list[int], more: int) -> None:
    """Add `more` parts, each where the parts are largest at that moment."""
    largest = [(-each.size / count, index) for index, (each, count) in enumerate(zip(ranges, parts, strict=True))]
    heapq.heapify(largest)
    for _ in range(more):
        _, index = largest[0]
        parts[index] += 1
        heapq.heapreplace(largest, (-ranges[index].size / parts[index], index))


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    cuts = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [replace(whole, start=start, end=end) for start, end in pairwise(cuts)]
