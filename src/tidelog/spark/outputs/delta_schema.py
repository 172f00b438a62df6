"""What rows of Arrow are in a Delta table, and which tables cannot be written to: pure.

    rows_schema(schema)            the types that files are written with, one for each type that Delta has
    schema_faults(schema, ...)     what is wrong with the rows themselves
    table_faults(facts, ...)       what is wrong with a table for such rows
    missing_columns(facts, ...)    what the table would have to be widened by

Delta's own library writes add actions into any table whose features it knows, and looks at no row then: constraints, generated
columns and renamed columns would be passed over in silence. So whatever needs more than files with the right columns is refused
here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.outputs.staged import Target

if TYPE_CHECKING:
    import pyarrow as pa

# ruff: noqa: PLC0415 - Arrow is loaded by whoever has rows

# The writer's version that came before features were named one by one and that says nothing of identity columns.
_WRITER_VERSION_MAX = 5
_NAMED_FEATURES_VERSION = 7
# Features that ask nothing of files, as long as the table makes no use of them that `table_faults` finds.
_FEATURES = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "timestampNtz"}
)
_NEVER_IN_NAMES = frozenset(" ,;{}()\n\t=")
# Not decimals: delta-rs gives those below zero to Arrow with two signs. Not fractions, which are written in more than one way.
_PARTITION_TYPES = ("string", "byte", "short", "integer", "long", "boolean", "date", "timestamp")


class DeltaFacts(msgspec.Struct, frozen=True):
    """What a version of a table says of itself."""

    writer_version: int
    writer_features: tuple[str, ...]
    configuration: Mapping[str, str]
    partition_by: tuple[str, ...]
    table_id: str
    fields: tuple[dict[str, Any], ...]
    """As in the table's metadata: name, type, nullable, metadata."""


def rows_schema(schema: pa.Schema) -> pa.Schema:
    """Rows as they lie in files. Every column may be null there: whether the table allows it is looked at by the rows.
    OutputRefusedError for a type that Delta does not have."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _file_type(field.name, field.type)) for field in schema])


def schema_faults(schema: pa.Schema, partition_by: Sequence[str]) -> list[str]:
    """Sentences, for rows of this schema in any table."""
    found = []
    seen: dict[str, str] = {}
    for name in schema.names:
        if name.lower() in seen:
            found.append(f"the columns {seen[name.lower()]} and {name} are the same name to Delta")
        seen[name.lower()] = name
        if set(name) & _NEVER_IN_NAMES or not name:
            found.append(
                f"Delta has no column of the name {name!r}: blanks and any of ,;{{}}()= are not allowed in one"
            )
    for field in schema:
        try:
            _file_type(field.name, field.type)
        except OutputRefusedError as error:
            found.append(str(error))
    found += [
        f"partition_by names the column {name}, which the rows do not have"
        for name in partition_by
        if name not in schema.names
    ]
    if schema.names and set(schema.names) <= set(partition_by):
        found.append("partition_by names all columns: one has to be left for the files")
    if not found:
        types = {field["name"]: field["type"] for field in delta_fields(rows_schema(schema))}
        found += [
            f"partition_by names the column {name} of the type {_text(types[name])}, whose values are no names of directories"
            for name in partition_by
            if types[name] not in _PARTITION_TYPES
        ]
    return found


def table_faults(facts: DeltaFacts, rows: pa.Schema, target: Target) -> list[str]:
    """Why rows of this schema (from `rows_schema`) cannot be written to this table; empty where they can."""
    place = target.place
    found = [f"{place} {each}" for each in _feature_faults(facts, merges=target.changes is not None)]
    if target.partition_by != facts.partition_by:
        has = ", ".join(facts.partition_by) or "nothing"
        says = ", ".join(target.partition_by) or "nothing"
        found.append(f"{place} is partitioned by {has}, and partition_by says {says}")
    written = {field["name"]: field for field in delta_fields(rows)}
    in_table = {field["name"]: field for field in facts.fields}
    by_case = {name.lower(): name for name in in_table}
    for name, field in written.items():
        if name in in_table:
            if not _fits(field["type"], in_table[name]["type"]):
                has, says = _text(in_table[name]["type"]), _text(field["type"])
                found.append(f"the column {name} of {place} is {has}, and of the rows {says}: cast it")
        elif name.lower() in by_case:
            found.append(f"{place} has a column {by_case[name.lower()]}, and the rows have it as {name}: rename it")
        elif not target.widens:
            found.append(f"{place} has no column {name}, and is not to be widened")
    found += [
        f"the rows have no column {name}, which {place} has as NOT NULL"
        for name, field in in_table.items()
        if not field["nullable"] and name not in written
    ]
    return found


def null_faults(facts: DeltaFacts, with_nulls: frozenset[str], place: str) -> list[str]:
    """For columns that have a null in any row."""
    return [
        f"a row has no {field['name']}, which {place} has as NOT NULL"
        for field in facts.fields
        if not field["nullable"] and field["name"] in with_nulls
    ]


def missing_columns(facts: DeltaFacts, rows: pa.Schema) -> list[dict[str, Any]]:
    """Fields that the table does not have yet."""
    there = {field["name"] for field in facts.fields}
    return [field for field in delta_fields(rows) if field["name"] not in there]


def delta_fields(rows: pa.Schema) -> list[dict[str, Any]]:
    """Fields as a table's metadata has them."""
    from deltalake import Schema

    found: list[dict[str, Any]] = json.loads(Schema.from_arrow(rows).to_json())["fields"]
    return found


def _feature_faults(facts: DeltaFacts, *, merges: bool) -> list[str]:
    found = []
    version, configuration = facts.writer_version, facts.configuration
    if version > _WRITER_VERSION_MAX and version != _NAMED_FEATURES_VERSION:
        found.append(f"asks for writers of version {version}, which are not written here")
    found += [
        f"has the feature {each}, which is not written here" for each in facts.writer_features if each not in _FEATURES
    ]
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        found.append("has renamed columns (delta.columnMapping.mode), which are not written here")
    constraints = [name for name in configuration if name.startswith("delta.constraints.")]
    if constraints:
        name = constraints[0].removeprefix("delta.constraints.")
        found.append(f"has the constraint {name}, which is not checked here")
    if merges and configuration.get("delta.appendOnly", "").lower() == "true":
        found.append("is only added to (delta.appendOnly): merge_on= needs a table that may change")
    if "delta.setTransactionRetentionDuration" in configuration:
        # The table would forget the last batch, and a replay would write it again.
        found.append(
            "forgets its writers (delta.setTransactionRetentionDuration), so that no batch could be told from a replay"
        )
    for field in facts.fields:
        kept = field.get("metadata") or {}
        if "delta.generationExpression" in kept:
            found.append(f"computes the column {field['name']} (delta.generationExpression), which is not done here")
        if any(name.startswith("delta.identity.") for name in kept):
            found.append(f"numbers the column {field['name']} (delta.identity), which is not done here")
        if "delta.invariants" in kept:
            found.append(f"has an invariant on the column {field['name']}, which is not checked here")
    return found


def _file_type(name: str, found: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(found):
        return _file_type(name, found.value_type)
    if types.is_large_string(found) or types.is_string_view(found):
        return pa.string()
    if types.is_large_binary(found) or types.is_fixed_size_binary(found) or types.is_binary_view(found):
        return pa.binary()
    if types.is_timestamp(found) and found.unit != "ns":
        return pa.timestamp("us", None if found.tz is None else "UTC")
    if types.is_decimal(found) and not types.is_decimal256(found):
        return pa.decimal128(found.precision, found.scale)
    if types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found):
        return pa.list_(_file_field(name, found.value_field).with_name("element"))
    if types.is_map(found):
        item: Any = _file_field(name, found.item_field)
        made: pa.DataType = pa.map_(_file_type(name, found.key_type), item)
        return made
    if types.is_struct(found):
        return pa.struct([_file_field(f"{name}.{each.name}", each) for each in found.fields])
    plain = (types.is_boolean, types.is_signed_integer, types.is_float32, types.is_float64, types.is_date32)
    if any(each(found) for each in (*plain, types.is_string, types.is_binary)):
        return found
    raise OutputRefusedError(f"the column {name} has the type {found}, which Delta does not have: cast it")


def _file_field(name: str, field: pa.Field[Any]) -> pa.Field[Any]:
    import pyarrow as pa

    return pa.field(field.name, _file_type(name, field.type), nullable=field.nullable)


def _fits(written: object, has: object) -> bool:
    """Whether values of one of Delta's types are values of the other: the same, and within it never a null where the table
    has none."""
    if not isinstance(written, dict) or not isinstance(has, dict):
        return written == has
    if written["type"] != has["type"]:
        return False
    match written["type"]:
        case "struct":
            return [each["name"] for each in written["fields"]] == [each["name"] for each in has["fields"]] and all(
                _fits(one["type"], other["type"]) and (other["nullable"] or not one["nullable"])
                for one, other in zip(written["fields"], has["fields"], strict=True)
            )
        case "array":
            nulls = has["containsNull"] or not written["containsNull"]
            return bool(nulls) and _fits(written["elementType"], has["elementType"])
        case "map":
            nulls = has["valueContainsNull"] or not written["valueContainsNull"]
            return (
                bool(nulls)
                and _fits(written["keyType"], has["keyType"])
                and _fits(written["valueType"], has["valueType"])
            )
    return written == has


def _text(found: object) -> str:
    return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))
