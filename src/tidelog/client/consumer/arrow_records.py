"""Records as Arrow columns: the schema that Spark's Kafka source has, one batch for what one fetch brought of a partition.

key, value       binary
topic            string
partition        int32
offset           int64
timestamp        timestamp of milliseconds, UTC
timestamp_type   int32: 0 from the producer, 1 from the broker
headers          list<struct<key: string, value: binary>>
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.wire.columns import HEADERS_TYPE
from tidelog.wire.record_batch import TimestampType

TIMESTAMP = pa.timestamp("ms", "UTC")

_FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", TIMESTAMP, nullable=False),
    pa.field("timestamp_type", pa.int32(), nullable=False),
    pa.field("headers", HEADERS_TYPE, nullable=False),
]
SCHEMA = pa.schema(_FIELDS)


def with_place(partition: TopicPartition, records: pa.RecordBatch, timestamp_type: TimestampType) -> pa.RecordBatch:
    """The columns of records with where they were read."""
    count = records.num_rows
    columns = [
        records.column("key"),
        records.column("value"),
        pa.repeat(partition.topic, count),
        pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        records.column("offset"),
        records.column("timestamp").view(TIMESTAMP),
        pa.repeat(pa.scalar(int(timestamp_type), pa.int32()), count),
        records.column("headers"),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
