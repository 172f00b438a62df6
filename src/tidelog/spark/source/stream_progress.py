"""The driver's half of a stream: where it begins, how far each micro-batch goes, what that makes of work.

    initial → [latest → plan]...          each micro-batch; Spark keeps the offsets between them, in its checkpoint

A query that begins at the latest offsets has an empty first batch. Spark writes down where a batch ends and not where the first
one begins: should that batch be run again after a crash, the latest offsets would be others by then, and the records between
would be lost. Its end is what is written down, and an empty batch ends where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.model.clock import Clock
from tidelog.spark.source.admission import Admission, limited
from tidelog.spark.source.data_loss import plan_batch
from tidelog.spark.source.offset_bounds import Latest, OffsetBound
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.partition_offsets import OffsetDocument, PartitionOffsets, from_document, to_document
from tidelog.spark.source.planning import divide, report_losses
from tidelog.spark.source.source_options import SourceOptions, stream_start

# Spark polls as fast as it is answered. With nothing new an answer is held back for this long, unless something comes.
_IDLE_MS = 200
_IDLE_STEP_MS = 20
# How often new partitions are looked for.
_PARTITIONS_AGE_MS = 1_000


class QueryCluster(Protocol):
    """What a query asks its cluster; see `SourceCluster`."""

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]: ...

    def latest(
        self, partitions: Iterable[TopicPartition], start: PartitionOffsets | None = None
    ) -> dict[TopicPartition, int]: ...

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]: ...

    def resolve(
        self, bound: OffsetBound, partitions: Iterable[TopicPartition], *, is_start: bool
    ) -> dict[TopicPartition, int]: ...

    def commit(self, offsets: PartitionOffsets) -> None: ...

    def sleep(self, duration_ms: float) -> None: ...


class StreamProgress:
    """What one query has read and may read."""

    def __init__(self, options: SourceOptions, cluster: QueryCluster, clock: Clock) -> None:
        self._options = options
        self._cluster = cluster
        self._clock = clock
        self._starting = stream_start(options)
        self._admission = Admission(
            options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms
        )
        self._partitions: list[TopicPartition] = []
        self._partitions_at_ms: int | None = None
        self._latest: dict[TopicPartition, int] = {}
        self._initial: dict[TopicPartition, int] | None = None
        self._first_is_due = False
        self._target: dict[TopicPartition, int] | None = None
        self._committed: dict[TopicPartition, int] = {}

    def initial(self) -> OffsetDocument:
        """Where a new query begins."""
        partitions = self._current_partitions()
        if isinstance(self._starting, Latest) and self._target is not None:
            self._initial = dict(self._target)
        else:
            self._initial = self._cluster.resolve(self._starting, partitions, is_start=True)
        self._first_is_due = isinstance(self._starting, Latest)
        return to_document(self._initial)

    def fix_end(self) -> None:
        """The query ends with what is there now (Trigger.AvailableNow)."""
        self._target = self._cluster.latest(self._current_partitions())

    def latest(self, start_document: Mapping[str, Any], *, is_limited: bool) -> OffsetDocument:
        """Where the next batch ends: `start` again while there is nothing to read."""
        start = from_document(start_document)
        self._commit(start)
        if self._first_is_due and start == self._initial:
            self._first_is_due = False
            self._latest = dict(start)
            return to_document(start)
        idle_until_ms = self._clock.monotonic_ms() + _IDLE_MS
        while True:
            end = self._end(start, is_limited=is_limited)
            if end != start or self._target is not None or self._clock.monotonic_ms() >= idle_until_ms:
                return to_document(end)
            self._cluster.sleep(_IDLE_STEP_MS)

    def reported(self) -> OffsetDocument | None:
        """The end of what there is, as far as it was last seen: for Spark's own metrics."""
        return to_document(self._latest) if self._latest else None

    def plan(self, start_document: Mapping[str, Any], end_document: Mapping[str, Any]) -> list[OffsetRange]:
        """The ranges of a batch. DataLossError where some of it is gone, and that is an error."""
        start, end = from_document(start_document), from_document(end_document)
        if start == self._initial and any(end.get(partition, at) < at for partition, at in start.items()):
            # The first batch is run again, and the query began earlier than it would now.
            start = {partition: min(at, end.get(partition, at)) for partition, at in start.items()}
        new = end.keys() - start.keys()
        plan = plan_batch(start, end, self._cluster.first_offsets(sorted(new)) if new else {})
        report_losses(plan.losses, self._options)
        return divide(plan.ranges, self._options)

    def _end(self, start: PartitionOffsets, *, is_limited: bool) -> dict[TopicPartition, int]:
        target = self._target
        if target is None:
            self._latest = self._cluster.latest(self._current_partitions(), start)
        else:
            # A checkpoint may know partitions that were not there when the end was fixed, never the other way round.
            self._latest = dict(target)
        if not is_limited:
            return dict(self._latest)
        complete = self._with_new_partitions(start)
        if target is not None:
            return limited(complete, self._latest, self._options.max_offsets_per_trigger)
        end = self._admission.admit(complete, self._latest, self._clock.now_ms())
        # Where the batch has to wait, new partitions wait as well.
        return dict(start) if end == complete else end

    def _with_new_partitions(self, start: PartitionOffsets) -> dict[TopicPartition, int]:
        new = sorted(self._latest.keys() - start.keys())
        firsts = self._cluster.first_offsets(new) if new else {}
        for partition in new:
            if firsts.get(partition) is None:
                del self._latest[partition]
        return {**start, **{partition: first for partition, first in firsts.items() if first is not None}}

    def _current_partitions(self) -> list[TopicPartition]:
        now_ms = self._clock.monotonic_ms()
        if self._partitions_at_ms is None or now_ms - self._partitions_at_ms >= _PARTITIONS_AGE_MS:
            # A topic that was there and is gone is a loss like others, for `plan` to report.
            was_there = self._partitions_at_ms is not None
            self._partitions = self._cluster.partitions(missing_ok=was_there)
            self._partitions_at_ms = now_ms
        return self._partitions

    def _commit(self, start: dict[TopicPartition, int]) -> None:
        """Spark asks for the next batch once the last one is done: where it starts, all before it has been read."""
        if start != self._committed:
            self._cluster.commit(start)
            self._committed = start
