"""Record batches as Arrow columns, both ways: no Python object for any record.

    key       binary    null where the record has none
    value     binary    null where the record has none: a tombstone in a compacted topic
    offset    int64
    timestamp int64     milliseconds since the epoch, -1 for none: as in the record
    headers   list<struct<key: string, value: binary>>, where asked for

`read_columns` takes what a fetch returns, any number of batches. Keys and values come as plain `binary`, copied together, which
is what Spark and most others need, or as `binary_view`, which points into the fetch buffer where that is not compressed:
faster, and the buffer lives as long as the columns do.

pyarrow is an extra of the package, and this module is the only one of `wire` that imports it.
"""

from __future__ import annotations

import array as arrays
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tidelog.wire import record_decoder, record_encoder
from tidelog.wire.batch_errors import CorruptBatchError, DecompressedTooLargeError
from tidelog.wire.compression import DECOMPRESSED_BYTES_MAX, Compression, decompress
from tidelog.wire.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    BytesLike,
    TimestampType,
    check_batch,
    each_batch,
)
from tidelog.wire.records import BATCH_BYTES_MAX, RECORD_BYTES_MIN, attributes_of, seal_batch

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise ImportError("Arrow columns need pyarrow, which `pip install tidelog[arrow]` installs") from error

if TYPE_CHECKING:
    ArrowArray: TypeAlias = pa.Array[Any]

    from tidelog.wire.record_encoder import BinaryColumn, RecordColumns

# Positions in Arrow's views and in the offsets of `binary` are int32.
COLUMN_BYTES_MAX = 2**31 - 1
# Kafka's `batch.size`.
BATCH_BYTES_DEFAULT = 16 * 1024
# Below this the chunks of a table are put together first: a batch cannot span two of them.
_CHUNK_ROWS_MIN = 4096

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))


def _schema(*, headers: bool, views: bool) -> pa.Schema:
    binary: pa.DataType = pa.binary_view() if views else pa.binary()
    fields = [
        pa.field("key", binary),
        pa.field("value", binary),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
    ]
    if headers:
        fields.append(pa.field("headers", HEADERS_TYPE, nullable=False))
    return pa.schema(fields)


_SCHEMAS = {
    (headers, views): _schema(headers=headers, views=views) for headers in (False, True) for views in (False, True)
}


def schema(*, headers: bool = False, views: bool = False) -> pa.Schema:
    """The schema of what `read_columns` returns."""
    return _SCHEMAS[headers, views]


class _Source(NamedTuple):
    """Rows `first` to `last` lie in `data`: neighbouring batches that are not compressed share the fetch buffer."""

    data: memoryview
    first: int
    last: int


def read_columns(
    buffer: BytesLike,
    position: int = 0,
    *,
    from_offset: int | None = None,
    headers: bool = False,
    views: bool = False,
    check_crcs: bool = False,
    is_wanted: Callable[[BatchHeader], bool] | None = None,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> pa.RecordBatch:
    """The records of all whole batches from `position` on, those of control batches left out.

    `from_offset` leaves out what lies before it in the first batch, since a fetch returns that whole. `is_wanted` leaves out
    batches by their header: those of aborted transactions. `decompressed_bytes_max` is for all batches together.

    Raises CorruptBatchError for damaged bytes; the checksum is looked at only with `check_crcs`.
    """
    if len(buffer) > COLUMN_BYTES_MAX:
        raise ValueError(f"columns can be read from at most {COLUMN_BYTES_MAX} bytes at a time")
    view = memoryview(buffer).toreadonly()
    batches = _unpacked(view, position, check_crcs, is_wanted, decompressed_bytes_max)
    return _Columns(batches).to_arrow(from_offset=from_offset, headers=headers, views=views)


class _Batch(NamedTuple):
    """A batch and where its records are, which `data` holds uncompressed."""

    header: BatchHeader
    data: memoryview
    start: int
    end: int


def _unpacked(
    view: memoryview,
    position: int,
    check_crcs: bool,
    is_wanted: Callable[[BatchHeader], bool] | None,
    decompressed_bytes_max: int,
) -> list[_Batch]:
    batches = []
    room = decompressed_bytes_max
    for at, header in each_batch(view, position):
        if check_crcs:
            check_batch(view, header, at)
        if header.attributes & CONTROL_BIT or (is_wanted is not None and not is_wanted(header)):
            continue
        start, end = at + HEADER_BYTES, at + header.size_bytes
        if not header.attributes & CODEC_MASK:
            batch = _Batch(header, view, start, end)
        else:
            try:
                data = memoryview(decompress(header.codec, view[start:end], room))
            except DecompressedTooLargeError:
                raise DecompressedTooLargeError(decompressed_bytes_max) from None
            room -= len(data)
            batch = _Batch(header, data, 0, len(data))
        # Before anything is allocated for as many records as the header claims.
        if header.record_count > (batch.end - batch.start) // RECORD_BYTES_MIN:
            raise CorruptBatchError(
                f"the batch at offset {header.base_offset} claims {header.record_count} records, "
                f"more than its {batch.end - batch.start} bytes can hold"
            )
        batches.append(batch)
    return batches


class _Columns:
    """The places of all records of some batches, found in one pass; each column is then made from them in another."""

    def __init__(self, batches: list[_Batch]) -> None:
        self.count = sum(batch.header.record_count for batch in batches)
        self.offsets = pa.allocate_buffer(8 * self.count)
        self.timestamps = pa.allocate_buffer(8 * self.count)
        # Of each field where it starts and how long it is.
        spans = _ints(6 * self.count)
        self.key_spans = spans[: 2 * self.count]
        self.value_spans = spans[2 * self.count : 4 * self.count]
        self.header_spans = spans[4 * self.count :]
        self.header_count = 0
        self.sources: list[_Source] = []
        self._scan(batches)

    def _scan(self, batches: list[_Batch]) -> None:
        offsets, timestamps = memoryview(self.offsets).cast("q"), memoryview(self.timestamps).cast("q")
        scan = record_decoder.scan_columns
        row = 0
        source_data: memoryview | None = None
        source_first = 0
        for header, data, start, end in batches:
            if data is not source_data:
                if source_data is not None:
                    self.sources.append(_Source(source_data, source_first, row))
                source_data, source_first = data, row
            self.header_count += scan(
                data,
                start,
                end,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.last_offset_delta,
                header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None,
                row,
                offsets,
                timestamps,
                self.key_spans,
                self.value_spans,
                self.header_spans,
            )
            row += header.record_count
        if source_data is not None:
            self.sources.append(_Source(source_data, source_first, row))

    def to_arrow(self, *, from_offset: int | None, headers: bool, views: bool) -> pa.RecordBatch:
        make = self._views if views else self._binary
        columns = [
            make(self.key_spans, self.sources),
            make(self.value_spans, self.sources),
            pa.Array.from_buffers(pa.int64(), self.count, [None, self.offsets], 0),
            pa.Array.from_buffers(pa.int64(), self.count, [None, self.timestamps], 0),
        ]
        if headers:
            columns.append(self._headers())
        records = pa.RecordBatch.from_arrays(columns, schema=schema(headers=headers, views=views))
        if from_offset is None:
            return records
        return records.slice(bisect_left(memoryview(self.offsets).cast("q"), from_offset))

    def _binary(self, spans: memoryview, sources: list[_Source]) -> ArrowArray:
        count = len(spans) // 2
        validity, nulls, total = _measure(spans)
        offsets = pa.allocate_buffer(4 * (count + 1))
        data = pa.allocate_buffer(total)
        offset_view, data_view = memoryview(offsets).cast("i"), memoryview(data).cast("B")
        offset_view[0] = 0
        for source in sources:
            record_decoder.gather_spans(spans, source.data, source.first, source.last, offset_view, data_view)
        return pa.Array.from_buffers(pa.binary(), count, [validity, offsets, data], nulls)

    def _views(self, spans: memoryview, sources: list[_Source]) -> ArrowArray:
        count = len(spans) // 2
        validity, nulls, _ = _measure(spans)
        views = pa.allocate_buffer(16 * count)
        octets = memoryview(views).cast("B")
        words = octets.cast("i")
        for index, source in enumerate(sources):
            record_decoder.view_spans(spans, source.data, source.first, source.last, index, words, octets)
        data = [pa.py_buffer(source.data) for source in sources]
        return pa.Array.from_buffers(pa.binary_view(), count, [validity, views, *data], nulls)

    def _headers(self) -> ArrowArray:
        key_spans, value_spans = _ints(2 * self.header_count), _ints(2 * self.header_count)
        list_offsets = pa.allocate_buffer(4 * (self.count + 1))
        offset_view = memoryview(list_offsets).cast("i")
        offset_view[0] = 0
        sources = []
        for data, first, last in self.sources:
            record_decoder.scan_headers(data, self.header_spans, first, last, offset_view, key_spans, value_spans)
            sources.append(_Source(data, offset_view[first], offset_view[last]))
        keys = _text(self._binary(key_spans, sources))
        values = self._binary(value_spans, sources)
        structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
        return pa.Array.from_buffers(HEADERS_TYPE, self.count, [None, list_offsets], 0, children=[structs])


def _ints(count: int) -> memoryview:
    return memoryview(pa.allocate_buffer(4 * count)).cast("i")


def _measure(spans: memoryview) -> tuple[pa.Buffer | None, int, int]:
    """The validity bits of a column (None where nothing is null), its nulls and its bytes."""
    validity = bytearray((len(spans) // 2 + 7) // 8)
    nulls, total = record_decoder.measure_spans(spans, validity)
    if total > COLUMN_BYTES_MAX:
        raise ValueError(
            f"a column of {total} bytes is longer than Arrow's binary type allows; read fewer batches at a time"
        )
    return (pa.py_buffer(validity) if nulls else None), nulls, total


def _text(keys: ArrowArray) -> ArrowArray:
    """Header keys as text; what is not UTF-8 in them is replaced, as Kafka's Java clients do."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([(key or b"").decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def build_batches(
    records: pa.Table | pa.RecordBatch,
    *,
    timestamp_ms: int,
    batch_bytes_max: int = BATCH_BYTES_DEFAULT,
    base_offset: int = 0,
    codec: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    is_transactional: bool = False,
) -> Iterator[bytearray]:
    """Batches of the rows in their order, each as many as fit into `batch_bytes_max` before compression, at least one.

    Columns are `value`, and where there are any `key`, `timestamp` and `headers`; keys and values of any binary or string type,
    timestamps as milliseconds or of Arrow's type, headers as in the schema above or as a map. A row without a timestamp gets
    `timestamp_ms`. A column `offset` is not used: the rows are numbered from `base_offset` on, and from `base_sequence` on where
    that is given. Raises ValueError, in one sentence, for columns that this cannot be done with.

    One batch is made at a time, so that whoever sends them holds one; each is memory of its own, ready to be restamped.
    """
    if base_offset < 0:
        raise ValueError(f"the base offset {base_offset} is negative")
    encoded = encode_columns(records, timestamp_ms=timestamp_ms, batch_bytes_max=batch_bytes_max)
    attributes = attributes_of(timestamp_type=timestamp_type, is_transactional=is_transactional)

    def each() -> Iterator[bytearray]:
        offset, sequence = base_offset, base_sequence
        for batch, count, base_timestamp, max_timestamp in encoded:
            yield seal_batch(
                batch,
                record_count=count,
                base_offset=offset,
                last_offset=offset + count - 1,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                codec=codec,
                level=level,
                attributes=attributes,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
                leader_epoch=leader_epoch,
            )
            offset += count
            sequence = (sequence + count) & 0x7FFFFFFF if sequence >= 0 else -1

    return each()


class EncodedRecords(NamedTuple):
    """The records of one batch behind room for its header: what `records.seal_batch` makes a whole batch of."""

    buffer: bytearray
    record_count: int
    base_timestamp: int
    max_timestamp: int


def encode_columns(
    records: pa.Table | pa.RecordBatch, *, timestamp_ms: int, batch_bytes_max: int = BATCH_BYTES_DEFAULT
) -> Iterator[EncodedRecords]:
    """The records of batches that are sealed later, by whoever gives them their numbers. Columns and limits as in
    `build_batches`, errors too, all of them before the first batch."""
    _check_names(records.schema)
    if not HEADER_BYTES < batch_bytes_max <= BATCH_BYTES_MAX:
        raise ValueError(f"batch_bytes_max is {batch_bytes_max}; it can be {HEADER_BYTES + 1} to {BATCH_BYTES_MAX}")
    chunks = [(_record_columns(chunk, timestamp_ms), chunk.num_rows) for chunk in _chunks(records) if chunk.num_rows]

    def each() -> Iterator[EncodedRecords]:
        for columns, row_count in chunks:
            row = 0
            while row < row_count:
                batch, end, base_timestamp, max_timestamp = columns.encode(row, HEADER_BYTES, batch_bytes_max)
                yield EncodedRecords(batch, end - row, base_timestamp, max_timestamp)
                row = end

    return each()


def _check_names(names: pa.Schema) -> None:
    known = {"key", "value", "timestamp", "headers", "offset"}
    unknown = [name for name in names.names if name not in known]
    if unknown:
        raise ValueError(f"records have no column {unknown[0]!r}; they have key, value, timestamp and headers")
    if len(set(names.names)) != len(names.names):
        raise ValueError("a column is there twice")
    if "value" not in names.names:
        raise ValueError("the column `value` is missing; for records without values make it all null")


def _chunks(records: pa.Table | pa.RecordBatch) -> list[pa.RecordBatch]:
    if isinstance(records, pa.RecordBatch):
        return [records]
    chunks = records.to_batches()
    if len(chunks) > 1 and records.num_rows < _CHUNK_ROWS_MIN * len(chunks):
        chunks = records.combine_chunks().to_batches()
    return chunks


def _record_columns(chunk: pa.RecordBatch, timestamp_ms: int) -> RecordColumns:
    names = chunk.schema.names
    columns: RecordColumns = record_encoder.RecordColumns(
        _timestamps(chunk.column("timestamp") if "timestamp" in names else None, chunk.num_rows, timestamp_ms),
        _binary_column(chunk.column("key"), "key") if "key" in names else None,
        _binary_column(chunk.column("value"), "value"),
        *(_header_columns(chunk.column("headers")) if "headers" in names else ()),
    )
    return columns


def _binary_column(array: ArrowArray, name: str) -> BinaryColumn | None:
    """The array as `record_encoder` takes it; None where it is all null."""
    kind = array.type
    if pa.types.is_null(kind) or array.null_count == len(array) > 0:
        return None
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        array = array.cast(kind)
    if not (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_string_view(kind)
    ):
        raise ValueError(f"the column `{name}` is of type {kind}; it can be binary or string")
    # Of the forms that have offsets the data are used where they lie; the others are copied into one.
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        array = array.cast(pa.large_binary())
    offset_bytes = 8 if pa.types.is_large_binary(array.type) else 4
    validity, offsets, data = array.buffers()
    assert offsets is not None
    column: BinaryColumn = record_encoder.BinaryColumn(
        memoryview(offsets)[: offset_bytes * (array.offset + len(array) + 1)].cast("q" if offset_bytes == 8 else "i"),
        b"" if data is None else memoryview(data).cast("B"),
        memoryview(validity).cast("B") if validity is not None and array.null_count else None,
        array.offset,
        len(array),
    )
    return column


def _timestamps(array: ArrowArray | None, count: int, timestamp_ms: int) -> memoryview:
    if array is None or pa.types.is_null(array.type):
        # Not by pyarrow, which imports pandas, if it is there, to make anything of a Python number.
        return memoryview(arrays.array("q", [timestamp_ms]) * count)
    if pa.types.is_timestamp(array.type):
        # What is finer than a millisecond is cut off, as every client does.
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
    elif not pa.types.is_integer(array.type):
        raise ValueError(f"the column `timestamp` is of type {array.type}; it can be a timestamp or whole milliseconds")
    if array.type != pa.int64():
        array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(timestamp_ms)
    return _int64s(array)


def _header_columns(array: ArrowArray) -> tuple[memoryview, BinaryColumn, BinaryColumn | None] | tuple[()]:
    """Where each row's headers begin, and their keys and values; nothing where no row has any."""
    kind = array.type
    if pa.types.is_null(kind):
        return ()
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = array.type
    if not (
        isinstance(array, pa.ListArray | pa.LargeListArray)
        and pa.types.is_struct(kind.value_type)
        and {field.name for field in kind.value_type} == {"key", "value"}
    ):
        raise ValueError(f"the column `headers` is of type {kind}; it can be {HEADERS_TYPE} or a map")
    # A null list may still have a length, and a slice still has all children: `flatten` heeds both, as do the lengths.
    headers = array.flatten()
    if not len(headers):
        return ()
    if headers.null_count:
        raise ValueError("a header is null")
    header_keys = pc.struct_field(headers, "key")
    keys = _binary_column(header_keys, "headers.key")
    if keys is None or header_keys.null_count:
        raise ValueError("the key of a header is null")
    lengths = pc.list_value_length(array).fill_null(0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    return _int64s(offsets), keys, _binary_column(pc.struct_field(headers, "value"), "headers.value")


def _int64s(array: ArrowArray) -> memoryview:
    values = array.buffers()[1]
    assert values is not None
    return memoryview(values)[8 * array.offset : 8 * (array.offset + len(array))].cast("q")
