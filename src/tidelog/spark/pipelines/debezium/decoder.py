"""`Debezium(...)`, as a source's `decode=`: the events of a table as rows of its columns, and of what happened to each row.

Debezium("id bigint, name string, price decimal(10,2)")             JSON, with or without schemas
Debezium("...", registry="http://127.0.0.1:8081")                   Avro
Debezium("...", flat=True)                                          what ExtractNewRecordState has flattened
Debezium("...", table="public.orders")                              one of several tables in a topic
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.spark.pipelines.debezium.change_events import UNAVAILABLE, EventReader
from tidelog.spark.pipelines.declaration import Declaration, lenient
from tidelog.spark.pipelines.decoders import Decoded
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.registry import Registry, address_of, registry_problems
from tidelog.spark.pipelines.schema_text import unknown_types

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

    from tidelog.spark.formats.schema_registry import RegistryAddress
    from tidelog.spark.pipelines.debezium.event_columns import EventColumns
    from tidelog.spark.pipelines.debezium.event_encoding import Messages

# ruff: noqa: PLC0415 - a file is validated without Spark and Arrow

_ORDERS = ("source", "offset")
_TRUNCATES = ("refuse", "row")
_UNCHANGED = ("keep", "refuse", "null")


class ChangeUnreadableError(ValueError):
    """A record that is no event, or one that has no rows as the file asks for them; one sentence says which and why."""


@lenient
@dataclass(frozen=True, slots=True)
class Debezium(Declaration):
    """Change events. Beside the table's columns a row has `__op`, `__table`, `__position`, `__time` and `__unchanged`."""

    schema: str | StructType
    """The table's columns that are wanted, by the types that they are to have."""
    _: KW_ONLY
    table: str | None = None
    """As in 'public.orders', of a topic that has several: the others are passed over."""
    key: Sequence[str] = ()
    """The columns by which rows are told apart, where the source may update them without two events: a table without a key."""
    flat: bool = False
    """Values are rows that ExtractNewRecordState has flattened."""
    order: str = "source"
    """What `__position` is: a place in the source's log, or offset: that of the record in its partition."""
    truncates: str = "refuse"
    """What becomes of a truncated table. refuse: the event cannot be decoded. row: one row with `__op` t and no columns."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of JSON without schemas: what a column is to Debezium, where its form does not say: {"price": "Decimal"}."""
    unchanged: str = "keep"
    """What becomes of values that an event leaves out because they stay as they are. keep: `__unchanged` names them, has to be
    part of what comes out, and sinks with merge_on= keep what they have. refuse: the event cannot be decoded. null: they are."""
    registry: str | Registry | None = None
    """Keys and values are Avro in a schema registry's frame, such as http://127.0.0.1:8081."""
    avro: str | None = None
    """Values are Avro without a frame, by this schema in JSON."""
    unavailable: str = UNAVAILABLE
    """The connector's unavailable.value.placeholder."""

    @property
    def leaves_out(self) -> bool:
        """Whether rows may not have all of their values, and go on."""
        return self.unchanged == "keep"

    def problems(self) -> list[str]:
        found = []
        if isinstance(self.schema, str) and not self.schema.strip():
            found.append(
                "the schema of Debezium is empty: name the table's columns, as in 'id bigint, price decimal(10,2)'"
            )
        elif isinstance(self.schema, str):
            found += [f"the schema of Debezium is wrong: {each}" for each in unknown_types(self.schema)]
        if self.table is not None and not self.table.strip():
            found.append("table is empty: leave it out, or name one, as in 'public.orders'")
        if isinstance(self.key, str):
            found.append(f"key is a list of columns: [{self.key!r}]")
        if self.order not in _ORDERS:
            found.append(f"order is {self.order!r}; it can be {' or '.join(_ORDERS)}")
        if self.truncates not in _TRUNCATES:
            found.append(f"truncates is {self.truncates!r}; it can be {' or '.join(_TRUNCATES)}")
        elif self.flat and self.truncates != "refuse":
            found.append("ExtractNewRecordState leaves truncated tables out: with flat=True there is no truncates=")
        if self.unchanged not in _UNCHANGED:
            found.append(f"unchanged is {self.unchanged!r}; it can be {', '.join(_UNCHANGED)}")
        if not self.unavailable:
            found.append("unavailable is empty: it is the connector's unavailable.value.placeholder")
        return found + self._avro_problems() + self._type_problems()

    def _avro_problems(self) -> list[str]:
        if self.registry is None and self.avro is None:
            return []
        if self.registry is not None and self.avro is not None:
            return ["registry and avro are two ways to know the schemas of values: give one of them"]
        from tidelog.spark.pipelines.debezium.event_encoding import AvroMessages, MessageError

        try:
            import fastavro  # noqa: F401 - whether it is there
        except ImportError:
            return ["Avro needs fastavro: pip install tidelog[avro]"]
        if self.registry is not None:
            return registry_problems(self.registry)
        try:
            AvroMessages(given=self.avro)
        except MessageError as error:
            return [f"the schema of avro is wrong: {error}"]
        return []

    def _type_problems(self) -> list[str]:
        if not self.types:
            return []
        if self.registry is not None or self.avro is not None:
            return ["types is for JSON without schemas: Avro says the types of its columns itself"]
        import pyarrow as pa

        from tidelog.spark.pipelines.debezium.event_columns import HINTS, hinted_kind

        return [
            f"types has {kind!r} for {name}, which is none of {', '.join(HINTS)}"
            for name, kind in self.types.items()
            if hinted_kind(kind, pa.null()) is None
        ]

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:
        """Over rows of the source: of a record its key, topic and offset count as well."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.functions import arrow_udf
        from pyspark.sql.pandas.types import from_arrow_type

        make = self._columns()
        made = make()
        function = arrow_udf(_decoder(make, keeps_broken=keeps_broken), from_arrow_type(made.type))  # type: ignore[call-overload]  # see its annotations
        found = function(F.col("topic"), F.col("offset"), F.col("key"), value)
        rows = found.getField("rows")
        if not keeps_broken:
            return Decoded(rows, None, is_list=True)
        problem = found.getField("problem")
        none = F.array(F.lit(None).cast(from_arrow_type(made.row_type)))
        return Decoded(F.when(problem.isNull(), rows).otherwise(none), problem.isNotNull(), problem, is_list=True)

    def _columns(self) -> Callable[[], EventColumns]:
        """What a worker makes its decoder of. DefinitionError for columns that there cannot be."""
        import pyarrow as pa
        from pyspark.sql.types import StructType

        from tidelog.spark.pipelines.debezium.column_values import is_readable
        from tidelog.spark.pipelines.debezium.event_columns import META, EventColumns, hinted_kind

        schema = StructType.fromDDL(self.schema) if isinstance(self.schema, str) else self.schema
        if not isinstance(schema, StructType):
            raise DefinitionError([f"the schema of Debezium is {self.schema!r}; it names columns, as in 'id bigint'"])
        own = {name.lower() for name in META.names}
        found = [
            f"the column {name} is one that Debezium() makes itself" for name in schema.names if name.lower() in own
        ]
        columns: dict[str, pa.DataType] = {}
        for each in schema.fields:
            columns[each.name] = _arrow_type(each.dataType)
            if not is_readable(columns[each.name]):
                shown = each.dataType.simpleString()
                found.append(
                    f"the column {each.name} cannot be {shown}: take it as string, and cast it in the transformation"
                )
        for what, names in (("key", self.key), ("types", self.types)):
            found += [
                f"{what} names the column {name}, which is not in the schema" for name in names if name not in columns
            ]
        if found:
            raise DefinitionError(found)
        hints = {
            name: kind for name, text in self.types.items() if (kind := hinted_kind(text, columns[name])) is not None
        }
        fields: list[pa.Field[Any]] = [pa.field(name, kind) for name, kind in columns.items()]
        events: dict[str, Any] = {
            "table": self.table,
            "key": tuple(self.key),
            "flat": self.flat,
            "by_offset": self.order == "offset",
            "keeps_truncates": self.truncates == "row",
            "unavailable": self.unavailable,
        }
        messages = _messages(None if self.registry is None else address_of(self.registry), self.avro)
        refuses = self.unchanged == "refuse"
        return lambda: EventColumns(
            pa.schema(fields), EventReader(**events), messages, hints, refuses_unchanged=refuses
        )


def _arrow_type(kind: DataType) -> pa.DataType:
    """Null for a type that no column can have."""
    import pyarrow as pa
    from pyspark.sql import types as spark

    match kind:
        case spark.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case spark.StringType() | spark.CharType() | spark.VarcharType():
            return pa.string()
        case spark.ArrayType():
            return pa.list_(_arrow_type(kind.elementType))
        case spark.MapType():
            return pa.map_(_arrow_type(kind.keyType), _arrow_type(kind.valueType))
        case spark.StructType():
            return pa.struct([pa.field(each.name, _arrow_type(each.dataType)) for each in kind.fields])
    plain: dict[str, pa.DataType] = {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    return plain.get(kind.typeName(), pa.null())


def _messages(registry: RegistryAddress | None, avro: str | None) -> Callable[[], Messages]:
    def make() -> Messages:
        from tidelog.spark.formats.known_schemas import SchemasById
        from tidelog.spark.pipelines.debezium.event_encoding import AvroMessages, JsonMessages

        if registry is not None:
            return AvroMessages(schema_of=SchemasById(registry).schema)
        return JsonMessages() if avro is None else AvroMessages(given=avro)

    return make


def _decoder(make: Callable[[], EventColumns], *, keeps_broken: bool) -> Callable[..., Any]:
    """A function of columns that makes its decoder once, in the worker."""
    import pyarrow as pa

    made: list[EventColumns] = []

    def decode(topics: pa.Array, offsets: pa.Array, keys: pa.Array, values: pa.Array) -> pa.Array:  # type: ignore[type-arg]
        if not made:
            made.append(make())
        found = made[0].decode(topics, offsets, keys, values)
        problems: Any = found.field("problem")  # type: ignore[attr-defined]  # it is an array of structs
        if not keeps_broken and problems.null_count < len(problems):
            index = next(n for n, each in enumerate(problems) if each.is_valid)
            place = f"{topics[index].as_py()} at {offsets[index].as_py()}"
            raise ChangeUnreadableError(f"{place}: {problems[index].as_py()}")
        return found

    # Spark looks at these annotations.
    decode.__annotations__ = dict.fromkeys(("topics", "offsets", "keys", "values", "return"), pa.Array)
    return decode
