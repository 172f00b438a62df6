"""Data files of an Iceberg table, written by tasks and described by them: proper ones, with the ids of the table's fields in
their schema, the partition's values, and what readers prune by.

    data/<owner>-0000000042-00003-0-1-<run>.<n>.parquet

The driver makes a manifest of the descriptions alone and opens no file. `owner` stands for one sink of one checkpoint: a sweep
passes over what others have written.
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, partition_record_value
from pyiceberg.table import Table
from pyiceberg.transforms import TimeTransform, UnknownTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    StringType,
    UUIDType,
)

from tidelog.spark.outputs.iceberg_schema import as_table_rows, file_schema, misfits, normal_schema, table_schema
from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.outputs.parquet_staging import ParquetAttempt, divided
from tidelog.spark.outputs.staged import StagedFile, StagedPart
from tidelog.spark.outputs.storage import Storage

SUFFIX = ".parquet"
_FIELD_ID = b"PARQUET:field_id"
_LOCAL = "file"
_SCHEMES = frozenset({_LOCAL, "s3", "s3a", "s3n"})
# Partition values that an attempt remembers for each value of a column; a bucket's column has as many as there are rows.
_KNOWN_VALUES_MAX = 100_000
_CODEC = "write.parquet.compression-codec"
_CODEC_LEVEL = "write.parquet.compression-level"


class FileDescription(msgspec.Struct, frozen=True):
    """What a task says of a file beside its path, bytes, rows and partition. Keys are the ids of fields."""

    table_uuid: str
    spec_id: int
    field_ids: tuple[int, ...]
    """Of the table's columns that the rows have."""
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]


class IcebergAttempt(ParquetAttempt):
    """A `StagingAttempt` that writes data files of a table as it is now."""

    def __init__(self, table: Table, rows: pa.Schema, attempt: str, stem: str) -> None:
        """`stem` is what names of its files begin with. OutputRefusedError for rows that the table cannot take."""
        check_spec(table)
        schema = table.schema()
        if missing := misfits(normal_schema(rows), table_schema(schema)):
            raise OutputRefusedError(
                f"the table has no column {missing[0].name} of type {missing[0].type} any more: it was changed since the start"
            )
        self._table = table
        self._schema = schema
        self._field_ids = tuple(field.field_id for field in schema.fields if field.name in rows.names)
        self._files_schema = file_schema(schema)
        self._texts: list[dict[object, str | None]] = [{} for _ in table.spec().fields]
        super().__init__(
            data_storage(table),
            attempt,
            rows,
            [field.name for field in table.spec().fields],
            file_schema=self._files_schema,
            path_of=lambda _values, n: f"{stem}.{n}{SUFFIX}",
            finished=self._described,
            options=_writer_options(table.properties),
        )

    def hand_over(self) -> StagedPart:
        part = super().hand_over()
        root = data_location(self._table)
        files = tuple(msgspec.structs.replace(each, path=f"{root}/{each.path}") for each in part.files)
        return msgspec.structs.replace(part, files=files)

    def _by_partition(self, batch: pa.RecordBatch) -> list[tuple[tuple[str | None, ...], pa.RecordBatch]]:
        rows = as_table_rows(batch, self._schema, self._files_schema)
        fields = self._table.spec().fields
        if not fields:
            return [((), rows)]
        return divided(
            rows, [self._partition_texts(rows, field, known) for field, known in zip(fields, self._texts, strict=True)]
        )

    def _partition_texts(
        self, rows: pa.RecordBatch, field: PartitionField, known: dict[object, str | None]
    ) -> pa.Array[Any]:
        """Of each row. PyIceberg knows one value at a time, so that each is asked for once."""
        source = self._schema.find_field(field.source_id)
        index = [each.field_id for each in self._schema.fields].index(field.source_id)
        transform = field.transform.transform(source.field_type)
        if len(known) > _KNOWN_VALUES_MAX:
            known.clear()
        found = _coarse(rows.column(index), field).dictionary_encode(null_encoding="encode")
        texts = []
        for value in found.dictionary.to_pylist():
            if value not in known:
                inner = None if value is None else partition_record_value(field, value, self._schema)
                known[value] = partition_text(transform(inner))
            texts.append(known[value])
        return pa.array(texts, pa.string()).take(found.indices)

    def _described(self, file: StagedFile, writer: Any) -> StagedFile:
        schema = self._schema
        found = data_file_statistics_from_parquet_metadata(
            parquet_metadata=writer.writer.metadata,
            stats_columns=compute_statistics_plan(schema, self._table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        ).to_serialized_dict()
        found.pop("record_count")
        described = FileDescription(
            str(self._table.metadata.table_uuid), self._table.spec().spec_id, self._field_ids, **found
        )
        return msgspec.structs.replace(file, stats=msgspec.json.encode(described).decode())


def stored_rows(table: Table, path: str, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of a data file, by the names that the table has now for its columns; those of `names`, or all that the file has.
    PyIceberg's own reader gives an empty list for a list of structs that is null."""
    known = {field.field_id: field.name for field in table.schema().fields if names is None or field.name in names}
    with table.io.new_input(path).open() as stream:
        file = pq.ParquetFile(cast("pa.NativeFile", stream))
        chosen = {stored.name: known[each] for stored, each in _stored_ids(file.schema_arrow) if each in known}
        for batch in file.iter_batches(columns=list(chosen)):
            columns = [batch.column(stored) for stored in chosen]
            yield pa.RecordBatch.from_arrays(columns, names=list(chosen.values()))


def foreign_file_faults(table: Table, path: str) -> list[str]:
    """What keeps rows of a data file from being written once more, whoever has written it."""
    with table.io.new_input(path).open() as stream:
        stored = pq.read_schema(cast("pa.NativeFile", stream))
    ids = _stored_ids(stored)
    if any(each < 0 for _, each in ids):
        return [f"the table's file {path} has no ids of fields: it was imported, and is not merged with here"]
    known = {field.field_id: field.name for field in table.schema().fields}
    rows = pa.schema([pa.field(known[each], field.type) for field, each in ids if each in known])
    if missing := misfits(rows, table_schema(table.schema())):
        return [
            f"the table's file {path} has the column {missing[0].name} as {missing[0].type}, as it was before a change"
        ]
    return []


def _stored_ids(schema: pa.Schema) -> list[tuple[pa.Field[Any], int]]:
    return [(field, int((field.metadata or {}).get(_FIELD_ID, b"-1"))) for field in schema]


def description_of(file: StagedFile) -> FileDescription:
    return msgspec.json.decode(file.stats, type=FileDescription)


def data_file(table: Table, file: StagedFile) -> DataFile:
    """A staged file as a manifest has it."""
    said = description_of(file)
    spec = table.specs()[said.spec_id]
    types = {field.name: field.field_type for field in spec.partition_type(table.schema()).fields}
    values = [partition_value(types[field.name], file.partition[field.name]) for field in spec.fields]
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        file_size_in_bytes=file.bytes,
        record_count=file.rows,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        column_sizes=said.column_sizes,
        value_counts=said.value_counts,
        null_value_counts=said.null_value_counts,
        nan_value_counts=said.nan_value_counts,
        lower_bounds=said.lower_bounds,
        upper_bounds=said.upper_bounds,
        split_offsets=said.split_offsets,
    )
    made.spec_id = said.spec_id
    return made


def check_spec(table: Table) -> None:
    """OutputRefusedError for partitions that cannot be computed here."""
    schema = table.schema()
    top = {field.field_id for field in schema.fields}
    for field in table.spec().fields:
        if field.source_id not in top:
            raise OutputRefusedError(
                f"the partition {field.name} is of a field inside of a column, which is not written here"
            )
        kind = schema.find_type(field.source_id)
        if isinstance(field.transform, UnknownTransform) or not field.transform.can_transform(kind):
            raise OutputRefusedError(
                f"the partition {field.name} is {field.transform} of {kind}, which is not known here"
            )


def partition_text(value: object) -> str | None:
    """A partition's value, in Iceberg's own representation, as text."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case float():
            return repr(value)
    return str(value)


def partition_value(kind: IcebergType, text: str | None) -> object:
    """What `partition_text` was made of."""
    if text is None:
        return None
    match kind:
        case BooleanType():
            return text == "true"
        case StringType():
            return text
        case BinaryType() | FixedType() | UUIDType():
            return bytes.fromhex(text)
        case FloatType() | DoubleType():
            return float(text)
        case DecimalType():
            return decimal.Decimal(text)
    return int(text)


def data_location(table: Table) -> str:
    """Where a table's data files lie."""
    return str(table.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data").rstrip("/")


def data_storage(table: Table) -> Storage:
    """The same, with the rights that the catalog gives for it. OutputRefusedError for a store that is not known here."""
    location = data_location(table)
    scheme, netloc, path = PyArrowFileIO.parse_location(location, table.io.properties)
    if scheme not in _SCHEMES or not isinstance(table.io, PyArrowFileIO):
        raise OutputRefusedError(f"the table's data lies at {location}: only directories and s3:// are known here")
    return Storage(table.io.fs_by_scheme(scheme, netloc), path, is_local=scheme == _LOCAL)


def stem_of(owner: str, attempt: str) -> str:
    return f"{owner}-{attempt}"


def attempt_of(owner: str, name: str) -> str | None:
    """Of a file's name; None for one that another sink, or nobody of ours, has written."""
    if not name.startswith(f"{owner}-") or not name.endswith(SUFFIX):
        return None
    attempt, _, number = name.removeprefix(f"{owner}-").partition(".")
    return attempt if attempt and number else None


def again(file: StagedFile) -> str:
    """A stem for the rows of a file that are written once more, under no name that anybody has used."""
    return f"{file.path.rpartition('/')[2].removesuffix(SUFFIX)}-{uuid.uuid4().hex[:12]}"


def is_of(file: StagedFile, path: str) -> bool:
    """Whether a data file has rows of a staged one: itself, or one made by `again`."""
    name, staged = path.rpartition("/")[2], file.path.rpartition("/")[2].removesuffix(SUFFIX)
    return name == f"{staged}{SUFFIX}" or (name.startswith(f"{staged}-") and name.endswith(SUFFIX))


def _coarse(column: pa.Array[Any], field: PartitionField) -> pa.Array[Any]:
    """Times that are in one hour are in one partition by time, and there are few of them where every row has another time."""
    if isinstance(field.transform, TimeTransform) and pa.types.is_timestamp(column.type):
        return pc.floor_temporal(column, unit="hour")
    return column


def _writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    codec = properties.get(_CODEC, "zstd").lower()
    level = properties.get(_CODEC_LEVEL, "")
    return {
        "compression": "none" if codec == "uncompressed" else codec,
        "compression_level": int(level) if level.isdecimal() else None,
        "store_decimal_as_integer": True,
    }
