"""What a micro-batch reads of each partition, and what of it is lost already: told from offsets alone.

Loss is what Spark's own connector takes for it: a partition that is gone, one that came and does not begin at 0, an end before
the start; and a topic that has another id than it had. Offsets without records are none: transaction markers and compaction leave
such gaps wherever they like, and only the log's own start, met while reading, tells a gap from what retention has deleted
(`lost_at_start`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.partition_offsets import PartitionOffsets

FAILED = (
    "records may be lost, aged out or with a deleted topic; to go on with those that are left, "
    'set the option "failOnDataLoss" to "false"'
)
WENT_ON = (
    'records may be lost, aged out or with a deleted topic; to stop then, set the option "failOnDataLoss" to "true"'
)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The ranges of a batch, and a sentence for each loss."""

    ranges: list[OffsetRange]
    losses: list[str]


def plan_batch(
    start: PartitionOffsets, end: PartitionOffsets, first_offsets: Mapping[TopicPartition, int | None]
) -> BatchPlan:
    """`first_offsets` are those of the partitions that `start` does not have: they are new, and read from their beginning;
    None for one that has gone again."""
    ranges: list[OffsetRange] = []
    losses: list[str] = []
    gone = sorted(start.keys() - end.keys())
    if gone:
        # A checkpoint of a query over other topics looks the same.
        losses.append(f"{_listed(gone)} {'is' if len(gone) == 1 else 'are'} gone, or not chosen any more")
    for partition in sorted(end):
        first = start.get(partition)
        if first is None:
            first = first_offsets.get(partition)
            if first is None:
                losses.append(f"{partition} came and went before it was read")
                continue
            if first > 0:
                losses.append(f"{partition} is new and begins at offset {first} instead of 0")
        if end[partition] < first:
            losses.append(f"the offsets of {partition} went back from {first} to {end[partition]}")
            continue
        ranges.append(OffsetRange(partition, first, end[partition]))
    return BatchPlan(ranges, losses)


def lost_with_topic(topic: str, known: str, now: str) -> str:
    """A topic that was deleted and created again: what was not read of the old one is gone, and of the new one all is new."""
    return f"topic {topic} was deleted and created again: its id was {known} and is {now}, so that it begins anew"


def lost_at_start(wanted: OffsetRange, position: int, log_start_offset: int, end_offset: int) -> tuple[str, int]:
    """The cluster does not have `position`: what was lost of the range, and where it goes on, at most at its end."""
    if position < log_start_offset:
        go_on = min(log_start_offset, wanted.end)
        return (
            f"offsets {position} to {go_on - 1} of {wanted.partition} are deleted: it begins at {log_start_offset}",
            go_on,
        )
    sentence = (
        f"offsets {position} to {wanted.end - 1} of {wanted.partition} are not there: it ends at {end_offset}, "
        "as a topic does that was deleted and created again"
    )
    return sentence, wanted.end


def _listed(partitions: Iterable[TopicPartition]) -> str:
    names = [str(each) for each in partitions]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
