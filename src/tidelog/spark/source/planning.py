"""What a batch reads: its bounds looked up where the records are, and how it is divided."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import DataLossError
from tidelog.spark.source.chosen_topics import ChosenPartitions
from tidelog.spark.source.data_loss import FAILED, WENT_ON
from tidelog.spark.source.offset_bounds import OffsetBound
from tidelog.spark.source.offset_ranges import OffsetRange, of_topics, split_ranges
from tidelog.spark.source.source_options import SourceOptions

log = logging.getLogger(__name__)


class Records(Protocol):
    """Where the records are: a cluster, or the files of one."""

    def chosen(self) -> ChosenPartitions: ...

    def resolve(
        self, bound: OffsetBound, partitions: Iterable[TopicPartition], *, is_start: bool
    ) -> dict[TopicPartition, int]: ...

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]: ...

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...


def plan_read(
    cluster: Records, options: SourceOptions, starting: OffsetBound, ending: OffsetBound
) -> list[OffsetRange]:
    """The range of each partition. DataLossError where offsets are asked for that are not there."""
    chosen = cluster.chosen()
    partitions = chosen.partitions
    starts = cluster.resolve(starting, partitions, is_start=True)
    ends = cluster.resolve(ending, partitions, is_start=False)
    firsts = cluster.first_offsets(partitions)
    lasts = cluster.latest(partitions)
    ranges = []
    losses = []
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        first, last = firsts.get(partition), lasts.get(partition)
        if first is None or last is None:
            losses.append(f"{partition} is gone")
            continue
        if start < first and end > start:
            losses.append(f"offsets {start} to {min(first, end) - 1} of {partition} are deleted: it begins at {first}")
        if max(start, end) > last:
            losses.append(f"offset {max(start, end)} of {partition} is not there: it ends at {last}")
        ranges.append(OffsetRange(partition, max(start, first), min(end, last)))
    report_losses(losses, options)
    return of_topics(ranges, chosen.topic_ids)


def divide(ranges: Iterable[OffsetRange], options: SourceOptions) -> list[OffsetRange]:
    """The ranges of tasks, as the options want them divided."""
    return split_ranges(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )


def report_losses(losses: Iterable[str], options: SourceOptions) -> None:
    """DataLossError for the first, or a warning for each, as `failOnDataLoss` says."""
    for sentence in losses:
        if options.fail_on_data_loss:
            raise DataLossError(f"{sentence}; {FAILED}")
        log.warning("%s; %s", sentence, WENT_ON)
