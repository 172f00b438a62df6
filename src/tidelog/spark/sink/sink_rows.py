"""Rows that become records: which columns a table may have for that, and its Arrow batches by topic.

    value       string or binary        null is a tombstone; the one column that has to be there
    key         string or binary        null for none
    topic       string                  unless the option topic names one, which then counts for all rows
    partition   int                     null: by the key
    headers     array<struct<key: string, value: binary>>
    timestamp   timestamp               with includeTimestamp; null: when it is written

Other columns are left out, as Spark's own connector does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from tidelog.spark.errors import OptionError, UnwritableError

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.sink.sink_options import SinkOptions

_TEXT_OR_BYTES = (StringType, BinaryType)
_HEADERS = "array<struct<key: string, value: binary>>"


def check_columns(options: SinkOptions, schema: StructType) -> None:
    """Before any job: OptionError for the first column that is missing, or of a type that cannot be."""
    types = {field.name: field.dataType for field in schema.fields}
    names = [field.name for field in schema.fields]
    for name in _COLUMNS:
        if names.count(name) > 1:
            raise OptionError(f"the column {name} is there twice")
    if "value" not in types:
        raise OptionError(f"the column value is missing: the table has {', '.join(types) or 'no columns'}")
    if options.topic is None and "topic" not in types:
        raise OptionError("no topic is named: give the option topic, or each row a column topic")
    for name, found in types.items():
        if name not in _COLUMNS or (name == "topic" and options.topic is not None):
            continue
        if name == "timestamp" and not options.includes_timestamp:
            continue
        is_fit, wanted = _COLUMNS[name]
        if not is_fit(found):
            raise OptionError(f"the column {name} is of type {found.simpleString()}; it can be {wanted}")
    if options.includes_timestamp and "timestamp" not in types:
        raise OptionError("includeTimestamp is true, and there is no column timestamp")


def _is_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    parts = {field.name: field.dataType for field in found.elementType.fields}
    return (
        set(parts) == {"key", "value"}
        and isinstance(parts["key"], StringType)
        and isinstance(parts["value"], BinaryType)
    )


_COLUMNS: dict[str, tuple[Callable[[DataType], bool], str]] = {
    "value": (lambda found: isinstance(found, _TEXT_OR_BYTES), "string or binary"),
    "key": (lambda found: isinstance(found, _TEXT_OR_BYTES), "string or binary"),
    "topic": (lambda found: isinstance(found, StringType), "string"),
    "partition": (lambda found: isinstance(found, IntegerType), "int"),
    "headers": (_is_headers, _HEADERS),
    "timestamp": (lambda found: isinstance(found, TimestampType), "timestamp"),
}


def records_checksum(topic: str, records: pa.RecordBatch) -> int:
    """Of rows that become records of a topic: `row_checksum` of their columns, with one more that names the topic. A row without
    headers is the same as one with an empty list of them, as it is for who reads it."""
    from tidelog.spark.row_checksum import row_checksum  # noqa: PLC0415 - only tasks need it

    if "headers" in records.schema.names:
        records = _without_empty_headers(records)
    return row_checksum(records, {"topic": topic})


def _without_empty_headers(records: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 - see below
    import pyarrow.compute as pc  # noqa: PLC0415

    headers = records.column("headers")
    some = pc.if_else(pc.greater(pc.list_value_length(headers), pa.scalar(0)), headers, None)
    return records.set_column(records.schema.get_field_index("headers"), "headers", some)


class SinkRows:
    """What of each batch goes to which topic."""

    def __init__(self, options: SinkOptions) -> None:
        self._topic = options.topic
        self._kept = ["value", "key", "partition", "headers"]
        if options.includes_timestamp:
            self._kept.append("timestamp")

    def by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each topic, in their order. UnwritableError for a row without a topic."""
        if not batch.num_rows:
            return
        records = batch.select([name for name in self._kept if name in batch.schema.names])
        if self._topic is not None:
            yield self._topic, records
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise UnwritableError(
                "a row has no topic: its column topic is null; the option topic names one for all rows"
            )
        # A process of the driver's that only looks at the columns would wait for it.
        import pyarrow.compute as pc  # noqa: PLC0415

        named = pc.unique(topics)
        for name in named:
            rows = records if len(named) == 1 else records.filter(pc.equal(topics, name))
            yield str(name.as_py()), rows
