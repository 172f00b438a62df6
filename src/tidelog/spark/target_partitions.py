"""Rows by the partition of the topic that they will be written to, so that each partition is written by one task.

    given = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}
    by_target_partition(rows, given).writeStream.format("tidelog").options(**given)...

Where every task has rows for every partition, a batch of 200 tasks and 1,000 partitions is ended by 200,000 markers, and its
records are in as many small batches. Sorted like this it is ended by 1,000, for the price of a shuffle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as sf
from pyspark.sql.pandas.functions import arrow_udf

from tidelog.spark.client_settings import common_settings, parse_whole
from tidelog.spark.errors import OptionError
from tidelog.spark.sink.sink_options import SinkOptions, parse_sink_options
from tidelog.spark.sink.sink_rows import check_columns

_TASKS_KEY = "spark.sql.shuffle.partitions"


def by_target_partition(rows: DataFrame, options: Mapping[str, str], *, tasks: int | None = None) -> DataFrame:
    """The same rows, divided by the partition that each will go to. `options` are those of the write.

    A row with a key goes where the producer puts it by that key. One that may go anywhere gets a partition by its value, in the
    column `partition`; so the same rows go to the same partitions when they are written again. `tasks` is how many there are, at
    most one for each partition; else as many as spark.sql.shuffle.partitions says. The partitions are counted now: once the topic
    has more of them, keys of a stream still go to the right ones, but tasks may share them until the query is started again.

    OptionError for options or columns that cannot be written, and for rows that name their topics: divide and write those by
    topic. ClientError where the cluster does not answer.
    """
    parsed = parse_sink_options(options, is_stream=rows.isStreaming)
    if parsed.topic is None:
        raise OptionError("the option topic is missing: rows are divided by the partitions of one topic")
    check_columns(parsed, rows.schema)
    if tasks is not None and tasks < 1:
        raise OptionError(f"tasks is {tasks}; it can be 1 or more")
    count = partition_count(parsed, parsed.topic)
    wanted = tasks or parse_whole(_TASKS_KEY, rows.sparkSession.conf.get(_TASKS_KEY) or "1")
    found = destination({name: sf.col(name) for name in rows.columns}, parsed, count)
    # Found before the column has its new values, which say nothing of rows with a key.
    placed = rows.withColumns({_TARGET: found.target, "partition": found.partition})
    return placed.repartitionById(min(wanted, count), _TARGET).drop(_TARGET)


class Destination(NamedTuple):
    """Where a record goes, of the partitions that there are now."""

    target: Column
    partition: Column
    """What it has to say for that itself: null where its key does."""


def destination(columns: Mapping[str, Column], options: SinkOptions, count: int) -> Destination:
    """By the columns that a record is made of."""
    given, hashed = _chosen(columns, options, count)
    # Of what may go anywhere: the same rows are to go to the same partitions again.
    anywhere = sf.pmod(sf.xxhash64(columns["value"]), sf.lit(count)).cast("int")
    free = anywhere if hashed is None else sf.when(columns["key"].isNull(), anywhere)
    target = sf.coalesce(given, *(() if hashed is None else (hashed,)), anywhere)
    return Destination(target, sf.coalesce(given, free))


_TARGET = "_tidelog_target"


def _chosen(columns: Mapping[str, Column], options: SinkOptions, count: int) -> tuple[Column, Column | None]:
    """The partition that a row says, and the one by its key; null where there is none. None where keys do not matter."""
    given = columns.get("partition", sf.lit(None).cast("int"))
    if "key" not in columns or options.client.get("partitioner", "default") != "default":
        return given, None

    def hashed(keys: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # Spark looks at these annotations
        from tidelog.client.producer.arrow_rows import key_partitions  # noqa: PLC0415 - only workers need it

        return key_partitions(keys, count)

    hashed.__annotations__ = {"keys": pa.Array, "return": pa.Array}
    key = columns["key"].cast("binary")
    by_key = arrow_udf(hashed, "int")(key)  # type: ignore[call-overload]  # its kind is in the annotations
    return given, sf.when(key.isNotNull(), by_key)


def partition_count(options: SinkOptions, topic: str) -> int:
    """As it is now. ClientError."""
    from tidelog.client.admin import Admin  # noqa: PLC0415 - not where options are wrong

    with Admin(**common_settings(options.client)) as admin:
        return len(admin.describe_topic(topic).partitions)
