"""Whole topics as tables, in one call each: for notebooks, scripts and tests.

    table = tidelog.read("orders", bootstrap_servers="127.0.0.1:9092")        a pyarrow.Table of what is there now
    tidelog.write(table, "orders-copy", bootstrap_servers="127.0.0.1:9092")   once all of it is acknowledged

What is written may be anything that speaks Arrow's C stream interface: tables of pyarrow, frames of pandas and polars.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from tidelog.client.arrow_extra import require_arrow
from tidelog.client.errors import ConfigError, TimedOutError

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.client.producer.arrow_rows import BatchMetadata

# What a poll waits for at most: whether everything is there is looked at in between.
_POLL_MS = 500

# The columns that a record is made of. What else a table has, such as the offsets that `read` gives, is where a record was.
_WRITTEN = ("key", "value", "headers", "timestamp")


def read(topic: str, *, timeout_s: float = 60.0, **options: Any) -> pa.Table:
    """All records that a topic has now, with the columns of `Consumer.poll_arrow`. The options are a consumer's.

    TimedOutError where they do not come in time, RefusedError for a topic that is not there.
    """
    require_arrow("tidelog.read")
    import pyarrow as pa  # noqa: PLC0415 - an extra

    from tidelog.client.consumer.arrow_records import SCHEMA  # noqa: PLC0415
    from tidelog.client.consumer.consumer import Consumer  # noqa: PLC0415
    from tidelog.client.consumer.topic_partition import TopicPartition  # noqa: PLC0415

    for name in ("group_id", "auto_offset_reset"):
        if name in options:
            raise ConfigError(f"{name} says nothing here: a topic is read as a whole, in no group")
    deadline_s = time.monotonic() + timeout_s
    batches: list[pa.RecordBatch] = []
    with Consumer(**options, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic, timeout_s * 1000)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        starts = consumer.beginning_offsets(partitions)
        open_ends = {partition: end for partition, end in ends.items() if end > starts[partition]}
        while open_ends:
            left_ms = (deadline_s - time.monotonic()) * 1000
            if left_ms <= 0:
                raise TimedOutError(f"topic {topic} was not read to its end within {timeout_s:g} s")
            batch = consumer.poll_arrow(timeout_ms=min(_POLL_MS, left_ms))
            if batch is not None:
                end = ends[TopicPartition(topic, batch.column("partition")[0].as_py())]
                # What was appended since belongs to the next call.
                batches.append(batch.slice(0, _rows_before(batch.column("offset"), end)))
            for partition in [each for each, end in open_ends.items() if consumer.position(each) >= end]:
                del open_ends[partition]
    return pa.Table.from_batches(batches, SCHEMA)


def write(table: Any, topic: str, **options: Any) -> list[BatchMetadata]:
    """Write a record for each row, and return where they are once all are acknowledged. The options are a producer's.

    The columns are `value`, and where there are any `key`, `headers` and `timestamp`; others, such as those that `read` gives
    beside them, are left out. Text is UTF-8. ValueError for a table without any of these.
    """
    require_arrow("tidelog.write")
    import pyarrow as pa  # noqa: PLC0415 - an extra

    from tidelog.client.producer.producer import Producer  # noqa: PLC0415

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif not isinstance(table, pa.Table):
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(f"a table or a frame is written, not {type(table).__name__}: pa.table({{...}}) makes one")
        table = pa.table(table)
    names = [name for name in _WRITTEN if name in table.column_names]
    if "value" not in names and "key" not in names:
        raise ValueError(
            f"a record is made of the columns value and key; the table has {', '.join(table.column_names)}"
        )
    with Producer(**options) as producer:
        return producer.send_arrow(topic, table.select(names)).result()


def _rows_before(offsets: pa.Array[Any], end: int) -> int:
    """How many rows of a batch lie before an offset. They ascend."""
    return bisect_left(range(len(offsets)), end, key=lambda row: offsets[row].as_py())
