"""The driver's half of a stream: where it begins, how far each micro-batch goes, what that makes of work.

    initial → [latest → plan]...          each micro-batch; Spark keeps the offsets between them, in its checkpoint

A query that begins at the latest offsets has an empty first batch. Spark writes down where a batch ends and not where the first
one begins: should that batch be run again after a crash, the latest offsets would be others by then, and the records between
would be lost. Its end is what is written down, and an empty batch ends where it begins.

Offsets go with the ids of their topics. One that was deleted and created again, while the query ran or stood still, is another
topic, whatever its offsets: a loss, and then a topic that is new. Tasks are told the ids as well, and read nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.model.clock import Clock
from tidelog.spark.source.admission import Admission, limited
from tidelog.spark.source.chosen_topics import ChosenPartitions
from tidelog.spark.source.data_loss import lost_with_topic, plan_batch
from tidelog.spark.source.offset_bounds import Latest, OffsetBound
from tidelog.spark.source.offset_ranges import OffsetRange, of_topics
from tidelog.spark.source.partition_offsets import (
    OffsetDocument,
    PartitionOffsets,
    StreamOffset,
    TopicIds,
    created_again,
    to_document,
)
from tidelog.spark.source.planning import divide, report_losses
from tidelog.spark.source.source_options import SourceOptions, stream_start

# Spark polls as fast as it is answered. With nothing new an answer is held back for this long, unless something comes.
_IDLE_MS = 200
_IDLE_STEP_MS = 20
# How often new partitions are looked for.
_CHOSEN_AGE_MS = 1_000
_NONE: TopicIds = MappingProxyType({})


class QueryCluster(Protocol):
    """What a query asks its cluster; see `SourceCluster`."""

    def chosen(self, *, missing_ok: bool = False) -> ChosenPartitions: ...

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
        self._chosen: ChosenPartitions | None = None
        self._chosen_at_ms = 0
        self._certain_ids: dict[str, str] = {}
        self._latest: dict[TopicPartition, int] = {}
        self._initial: dict[TopicPartition, int] | None = None
        self._first_is_due = False
        self._target: StreamOffset | None = None
        self._committed: dict[TopicPartition, int] = {}

    def initial(self) -> OffsetDocument:
        """Where a new query begins."""
        chosen = self._current()
        if isinstance(self._starting, Latest) and self._target is not None:
            self._initial = dict(self._target.offsets)
        else:
            self._initial = self._cluster.resolve(self._starting, chosen.partitions, is_start=True)
        self._first_is_due = isinstance(self._starting, Latest)
        return StreamOffset(self._initial, chosen.topic_ids).document

    def fix_end(self) -> None:
        """The query ends with what is there now (Trigger.AvailableNow)."""
        chosen = self._current()
        self._target = StreamOffset(self._cluster.latest(chosen.partitions), chosen.topic_ids)

    def latest(self, start_document: Mapping[str, Any], *, is_limited: bool) -> OffsetDocument:
        """Where the next batch ends: `start` again while there is nothing to read. DataLossError where its topics are others
        now, and that is an error."""
        start = StreamOffset.of(start_document)
        self._commit(dict(start.offsets))
        if self._first_is_due and start.offsets == self._initial:
            self._first_is_due = False
            self._latest = dict(start.offsets)
            return start.document
        idle_until_ms = self._clock.monotonic_ms() + _IDLE_MS
        while True:
            end = self._end(start, is_limited=is_limited)
            if end != start or self._target is not None or self._clock.monotonic_ms() >= idle_until_ms:
                return end.document
            self._cluster.sleep(_IDLE_STEP_MS)

    def reported(self) -> OffsetDocument | None:
        """The end of what there is, as far as it was last seen: for Spark's own metrics."""
        return to_document(self._latest) if self._latest else None

    def plan(self, start_document: Mapping[str, Any], end_document: Mapping[str, Any]) -> list[OffsetRange]:
        """The ranges of a batch. DataLossError where some of it is gone, and that is an error."""
        start, end = StreamOffset.of(start_document), StreamOffset.of(end_document)
        begins, losses = start.offsets, list[str]()
        if begins != self._initial:
            begins, losses = _of_same_topics(start, end.topic_ids)
        elif any(end.offsets.get(partition, at) < at for partition, at in begins.items()):
            # The first batch is run again, and the query began earlier than it would now.
            begins = {partition: min(at, end.offsets.get(partition, at)) for partition, at in begins.items()}
        new = end.offsets.keys() - begins.keys()
        plan = plan_batch(begins, end.offsets, self._cluster.first_offsets(sorted(new)) if new else {})
        report_losses([*losses, *plan.losses], self._options)
        return divide(of_topics(plan.ranges, end.topic_ids), self._options)

    def _end(self, start: StreamOffset, *, is_limited: bool) -> StreamOffset:
        target = self._target
        topic_ids = self._ids_beside(start)
        begins, losses = _of_same_topics(start, topic_ids)
        if self._options.fail_on_data_loss:
            # Now, before Spark writes down an end of a batch that cannot be read. What is no error is told with the batch.
            report_losses(losses, self._options)
        if target is None:
            self._latest = self._cluster.latest(self._current().partitions, begins)
        else:
            # A checkpoint may know partitions that were not there when the end was fixed, never the other way round.
            self._latest = dict(target.offsets)
        # Where a cluster tells no id for once, it is still the topic that it was.
        ids = {**start.topic_ids, **topic_ids}
        if not is_limited:
            return _known(self._latest, ids)
        complete = self._with_new_partitions(begins)
        if target is not None:
            return _known(limited(complete, self._latest, self._options.max_offsets_per_trigger), ids)
        end = self._admission.admit(complete, self._latest, self._clock.now_ms())
        # Where the batch has to wait, new partitions wait as well.
        return start if end == complete and not _are_new(start, ids) else _known(end, ids)

    def _with_new_partitions(self, start: PartitionOffsets) -> dict[TopicPartition, int]:
        new = sorted(self._latest.keys() - start.keys())
        firsts = self._cluster.first_offsets(new) if new else {}
        for partition in new:
            if firsts.get(partition) is None:
                del self._latest[partition]
        return {**start, **{partition: first for partition, first in firsts.items() if first is not None}}

    def _ids_beside(self, start: StreamOffset) -> TopicIds:
        """Which topics the next batch reads. Where these are not the ones of its start, what was known when the end was fixed is
        looked at again."""
        target = self._target
        if target is None or created_again(start.topic_ids, target.topic_ids):
            return self._current(beside=start.topic_ids).topic_ids
        return target.topic_ids

    def _current(self, *, beside: TopicIds = _NONE) -> ChosenPartitions:
        """What there is. A node that is behind may still tell of a topic that is gone: where ids are not those that are known,
        it is asked again, as often as for anything else; then it is certain."""
        now_ms = self._clock.monotonic_ms()
        chosen = self._chosen
        if chosen is None or now_ms - self._chosen_at_ms >= _CHOSEN_AGE_MS:
            # A topic that was there and is gone is a loss like others, for `plan` to report.
            chosen = self._cluster.chosen(missing_ok=chosen is not None)
            self._chosen_at_ms = now_ms
        for _ in range(self._options.fetch_offset_retries - 1):
            if not created_again({**beside, **self._certain_ids}, chosen.topic_ids):
                break
            self._cluster.sleep(self._options.fetch_offset_retry_interval_ms)
            chosen = self._cluster.chosen(missing_ok=True)
            self._chosen_at_ms = self._clock.monotonic_ms()
        self._certain_ids |= {each: chosen.topic_ids[each] for each in created_again(beside, chosen.topic_ids)}
        self._chosen = chosen
        return chosen

    def _commit(self, start: dict[TopicPartition, int]) -> None:
        """Spark asks for the next batch once the last one is done: where it starts, all before it has been read."""
        if start != self._committed:
            self._cluster.commit(start)
            self._committed = start


def _of_same_topics(start: StreamOffset, topic_ids: TopicIds) -> tuple[PartitionOffsets, list[str]]:
    """The offsets that are of the topics with these ids, and a sentence for each topic that is another one by now."""
    others = created_again(start.topic_ids, topic_ids)
    kept = {partition: at for partition, at in start.offsets.items() if partition.topic not in others}
    return kept, [lost_with_topic(each, start.topic_ids[each], topic_ids[each]) for each in others]


def _known(offsets: PartitionOffsets, topic_ids: TopicIds) -> StreamOffset:
    """With the ids of those topics alone that it has offsets of."""
    names = {each.topic for each in offsets}
    return StreamOffset(dict(offsets), {topic: each for topic, each in topic_ids.items() if topic in names})


def _are_new(start: StreamOffset, topic_ids: TopicIds) -> bool:
    """Whether ids are known for the first time, as after a move from a source that writes none."""
    return any(each.topic in topic_ids and each.topic not in start.topic_ids for each in start.offsets)
