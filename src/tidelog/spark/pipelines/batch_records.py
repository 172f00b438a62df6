"""Records of a pipeline's topics as batches: exact ranges of offsets, without a group, a checkpoint and any other trace.

    ranges = newest_ranges(pipeline, source, 1000)
    ranges = ranges_between(pipeline, source, AtTimestamp(...), Latest())
    records = BatchRecords(session, pipeline, {0: ranges})          what `flat_rows` takes

Ranges are looked up once: whoever reads twice, or by two versions of a pipeline, reads the same records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidelog.client.admin import Admin, ConfigResource, ResourceKind, value_of
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.client_settings import common_settings
from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.query_options import source_options
from tidelog.spark.pipelines.session import frame_of
from tidelog.spark.source.offset_bounds import OffsetBound
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.partition_offsets import to_json
from tidelog.spark.source.planning import plan_read
from tidelog.spark.source.record_schema import spark_schema
from tidelog.spark.source.source_cluster import SourceCluster
from tidelog.spark.source.source_options import SourceOptions, parse_source_options

_POLICY = "cleanup.policy"
# Which topics, where a stream begins and how much it takes at once: a batch has its ranges instead.
_OF_STREAMS = (
    "subscribe",
    "subscribepattern",
    "assign",
    "starting",
    "ending",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "kafka.group.id",
)


def newest_ranges(pipeline: Pipeline, source: FromTopic, records_max: int) -> list[OffsetRange]:
    """The ends of all partitions, of so many offsets together. OptionError, UnreadableError."""
    options = _options(pipeline, source)
    cluster = SourceCluster(options)
    try:
        partitions = cluster.chosen().partitions
        firsts, ends = cluster.first_offsets(partitions), cluster.latest(partitions)
    finally:
        cluster.close()
    whole = [OffsetRange(each, firsts.get(each) or 0, ends.get(each, 0)) for each in partitions]
    return newest(whole, records_max)


def newest(ranges: Sequence[OffsetRange], records_max: int) -> list[OffsetRange]:
    """The ends of these ranges: of the small ones all, of the large ones as much of each."""
    left, found = records_max, []
    by_size = sorted((each for each in ranges if each.size > 0), key=lambda each: (each.size, each))
    for index, each in enumerate(by_size):
        taken = min(each.size, -(-left // (len(by_size) - index)))
        left -= taken
        if taken > 0:
            found.append(OffsetRange(each.partition, each.end - taken, each.end))
    return sorted(found)


def log_starts(pipeline: Pipeline, source: FromTopic) -> dict[TopicPartition, int]:
    """The first offset that each partition of a source still has. OptionError, UnreadableError."""
    cluster = SourceCluster(_options(pipeline, source))
    try:
        found = cluster.first_offsets(cluster.chosen().partitions)
    finally:
        cluster.close()
    return {place: offset for place, offset in found.items() if offset is not None}


def compacted_topics(pipeline: Pipeline, source: FromTopic) -> list[str]:
    """Those of a source that may have fewer records by now than they had. ClientError, UnreadableError."""
    options = _options(pipeline, source)
    cluster = SourceCluster(options)
    try:
        topics = sorted({each.topic for each in cluster.chosen().partitions})
    finally:
        cluster.close()
    resources = [ConfigResource(ResourceKind.TOPIC, each) for each in topics]
    with Admin(**common_settings(options.client)) as admin:
        found = admin.describe_configs(resources, keys=[_POLICY])
    policies = {each.name: value_of(configs)[_POLICY].value or "" for each, configs in found.items()}
    return [topic for topic, policy in policies.items() if "compact" in policy]


def ranges_between(
    pipeline: Pipeline, source: FromTopic, starting: OffsetBound, ending: OffsetBound
) -> list[OffsetRange]:
    """What lies between two bounds in each partition. OptionError, UnreadableError; DataLossError where some of it is gone."""
    options = _options(pipeline, source)
    cluster = SourceCluster(options)
    try:
        return [each for each in plan_read(cluster, options, starting, ending) if each.size > 0]
    finally:
        cluster.close()


class BatchRecords:
    """What `flat_rows` reads instead of a stream."""

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        ranges: Mapping[int, Sequence[OffsetRange]],
        *,
        keeps: bool = False,
    ) -> None:
        """`ranges` by the number of the source. `keeps`: records are read once, and kept by Spark for all who ask again."""
        self._session = session
        self._pipeline = pipeline
        self._ranges = ranges
        self._keeps = keeps
        self._kept: list[DataFrame] = []

    def __call__(self, source: FromTopic) -> DataFrame:
        index = next(index for index, each in enumerate(self._pipeline.sources) if each.view == source.view)
        ranges = self._ranges.get(index, ())
        options = _batch_options(self._pipeline, source)
        if not ranges:
            columns = parse_source_options({**options, "subscribe": "none"}).columns
            return frame_of(self._session, [], spark_schema(columns))
        rows = reduce(DataFrame.union, [self._read(options, each) for each in _pieces(ranges)])
        if self._keeps:
            self._kept.append(rows.persist())
        return rows

    def _read(self, options: Mapping[str, str], ranges: Sequence[OffsetRange]) -> DataFrame:
        """One range of each partition."""
        partitions: dict[str, list[int]] = {}
        for each in ranges:
            partitions.setdefault(each.partition.topic, []).append(each.partition.partition)
        chosen = {
            "assign": msgspec.json.encode(partitions).decode(),
            "startingOffsets": to_json({each.partition: each.start for each in ranges}),
            "endingOffsets": to_json({each.partition: each.end for each in ranges}),
        }
        return self._session.read.format("tidelog").options(**options, **chosen).load()

    def close(self) -> None:
        for each in self._kept:
            each.unpersist()
        self._kept.clear()


def _options(pipeline: Pipeline, source: FromTopic) -> SourceOptions:
    chosen = {"subscribe": source.topic, "subscribePattern": source.pattern}
    given = {name: text for name, text in chosen.items() if text is not None}
    # A time after the last record means that there is nothing to read, and no mistake.
    late = {"startingOffsetsByTimestampStrategy": "latest", "startingOffsets": "earliest"}
    return parse_source_options({**_batch_options(pipeline, source), **given, **late})


def _batch_options(pipeline: Pipeline, source: FromTopic) -> dict[str, str]:
    found = source_options(pipeline, source, group_id=pipeline.name)
    return {name: text for name, text in found.items() if not name.lower().startswith(_OF_STREAMS)}


def _pieces(ranges: Sequence[OffsetRange]) -> list[list[OffsetRange]]:
    """Each with one range of a partition at most: a read has no more."""
    found: list[list[OffsetRange]] = []
    counts: dict[TopicPartition, int] = {}
    for each in sorted(ranges):
        index = counts[each.partition] = counts.get(each.partition, -1) + 1
        if index == len(found):
            found.append([])
        found[index].append(each)
    return found
