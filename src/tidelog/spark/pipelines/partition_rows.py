"""Sinks that are topics of which each partition is to be written by one task of a batch: `ToTopic(by_partition=True)`."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import IntegerType, StructField, StructType

from tidelog.client.errors import ClientError
from tidelog.spark.pipelines.batch_accounts import QuerySinks
from tidelog.spark.pipelines.batch_rows import SinkRows
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.sinks import ToTopic
from tidelog.spark.sink.sink_options import SinkOptions
from tidelog.spark.target_partitions import destination, partition_count

_PARTITION = "partition"


def with_partitions(pipeline: Pipeline, sinks: QuerySinks) -> QuerySinks:
    """With the partition that each row goes to, for topics where it is asked for; they are counted now. QueryFailedError where a
    cluster does not tell."""
    wanted = {each.label for each in pipeline.sinks if isinstance(each, ToTopic) and each.by_partition}
    rows = {each.label: each for each in sinks.rows}
    for group in sinks.topics:
        for topic in group.cluster.sinks:
            if topic.sink not in wanted:
                continue
            try:
                count = partition_count(group.cluster.options, topic.topic)
            except ClientError as error:
                raise QueryFailedError(
                    f"{sinks.pipeline}: the partitions of {topic.topic} cannot be counted for by_partition: {error}"
                ) from error
            rows[topic.sink] = placed(rows[topic.sink], group.cluster.options, count)
    return replace(sinks, rows=tuple(rows.values()))


def placed(sink: SinkRows, options: SinkOptions, count: int) -> SinkRows:
    """With the partition that each row goes to, of so many, and with a column that says so of rows without a key."""
    found = destination(dict(sink.fields), options, count)
    fields = tuple((name, column) for name, column in sink.fields if name != _PARTITION)
    kept = [each for each in sink.schema.fields if each.name != _PARTITION]
    schema = StructType([*kept, StructField(_PARTITION, IntegerType())])
    return replace(sink, fields=(*fields, (_PARTITION, found.partition)), schema=schema, target=found.target)
