"""From the columns of a fetch to those of Spark's schema, in batches of the size that Spark takes best.

Nothing is done for each record. What is the same for every record of a partition is made once and sliced.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.source.record_schema import arrow_schema
from tidelog.wire.record_batch import TimestampType

if TYPE_CHECKING:
    ArrowArray: TypeAlias = pa.Array[Any]

BATCH_ROWS = 10_000


def _scalar(value: str | int, kind: pa.DataType) -> Any:
    """As `pa.scalar`, which loads pandas wherever that is installed: half a second for each process that Spark starts."""
    if isinstance(value, int):
        buffers = [None, pa.py_buffer(struct.pack("=q" if kind == pa.int64() else "=i", value))]
    else:
        text = value.encode()
        buffers = [None, pa.py_buffer(struct.pack("=ii", 0, len(text))), pa.py_buffer(text)]
    return pa.Array.from_buffers(kind, 1, buffers)[0]


# A number of Python's would be made an Arrow one for every batch, which takes longer than the sum.
_MICROSECONDS: pa.Int64Scalar = _scalar(1000, pa.int64())


class RecordColumns:
    """Makes batches of records of one partition, with the columns asked for."""

    def __init__(self, columns: Sequence[str], partition: TopicPartition) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._partition = partition
        self.with_headers = "headers" in columns
        self._constants: dict[tuple[str, str | int], ArrowArray] = {}

    def batches(self, records: pa.RecordBatch, timestamp_type: TimestampType) -> Iterator[pa.RecordBatch]:
        """`records` has the columns of `wire.columns`, headers included where they are asked for."""
        for start in range(0, records.num_rows, BATCH_ROWS):
            rows = records.slice(start, BATCH_ROWS)
            yield pa.RecordBatch.from_arrays(
                [self._column(name, rows, timestamp_type) for name in self._columns], schema=self._schema
            )

    def _column(self, name: str, rows: pa.RecordBatch, timestamp_type: TimestampType) -> ArrowArray:
        match name:
            case "topic":
                return self._constant(name, self._partition.topic, rows.num_rows)
            case "partition":
                return self._constant(name, self._partition.partition, rows.num_rows)
            case "timestampType":
                return self._constant(name, int(timestamp_type), rows.num_rows)
            case "timestamp":
                # Milliseconds on the wire, microseconds in Spark.
                return pc.multiply(rows.column(name), _MICROSECONDS).view(self._schema.field(name).type)
            case "headers":
                return _headers(rows.column(name), self._schema.field(name).type)
        return rows.column(name)

    def _constant(self, name: str, value: str | int, count: int) -> ArrowArray:
        known = self._constants.get((name, value))
        if known is None:
            scalar: Any = _scalar(value, self._schema.field(name).type)
            known = self._constants[name, value] = pa.repeat(scalar, BATCH_ROWS)
        return known.slice(0, count)


def _headers(headers: ArrowArray, wanted: pa.DataType) -> ArrowArray:
    """As Spark's connector has them: null for a record without any."""
    headers = headers.cast(wanted)
    lengths: ArrowArray = pc.list_value_length(headers)  # type: ignore[arg-type]  # the stubs forget plain lists
    has_some = pc.greater(lengths, pa.scalar(0, pa.int32()))
    made: ArrowArray = pc.if_else(has_some, headers, pa.scalar(None, wanted))
    return made
