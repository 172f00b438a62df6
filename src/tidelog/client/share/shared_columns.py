"""Acquired records as Arrow columns: those of a consumer (see `consumer.arrow_records`), and `delivery_count` as int16."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import pyarrow as pa

from tidelog.client.consumer.arrow_records import SCHEMA as CONSUMER_SCHEMA, with_place
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.share.acquired_partition import Acquired, Range, gaps_among
from tidelog.wire.record_batch import TimestampType

SCHEMA = CONSUMER_SCHEMA.append(pa.field("delivery_count", pa.int16(), nullable=False))


def shared_columns(
    partition: TopicPartition, records: pa.RecordBatch, timestamp_type: TimestampType, acquired: Iterable[Acquired]
) -> tuple[pa.RecordBatch, list[Range]]:
    """The columns of what was acquired of these records, and the gaps among it."""
    offsets: list[int] = records.column("offset").to_numpy().tolist()
    counts = [0] * len(offsets)
    gaps: list[Range] = []
    for first, last, count in acquired:
        begin = bisect_left(offsets, first)
        end = bisect_right(offsets, last, begin)
        counts[begin:end] = [count] * (end - begin)
        if end - begin != last - first + 1:
            gaps += gaps_among(offsets[begin:end], first, last)
    columns = with_place(partition, records, timestamp_type)
    made = pa.RecordBatch.from_arrays([*columns.columns, pa.array(counts, pa.int16())], schema=SCHEMA)
    if 0 in counts:
        made = made.filter(pa.array([count > 0 for count in counts]))
    return made, gaps
