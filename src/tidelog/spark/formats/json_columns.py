"""JSON Schema as Arrow columns: the types of a schema, and whether a schema takes certain columns.

    object with properties          struct                 string                    string
    object with none                map of text to         string, format date-time  timestamp
      (additionalProperties)        the others             string, format date       date
    array                           array                  integer                   bigint
    enum, const                     by their values        number                    double
    a type and null                 that type              boolean                   boolean

A reference leads into the schema itself (`#/definitions/Item`) or to a schema that it names. What a schema says beside types,
such as patterns and bounds, is not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

import pyarrow as pa

DEPTH_MAX = 32
# A schema that refers to its parts over and over has millions of them.
FIELDS_MAX = 10_000
# From one reference to the next, without a type in between.
HOPS_MAX = 100


class JsonSchemaError(ValueError):
    """A schema without columns, or one that does not take certain columns; one sentence says why."""


class _Place(NamedTuple):
    """A part of a schema, and the document that references in it lead out of."""

    schema: Mapping[str, Any]
    document: str


class JsonSchema:
    """A parsed schema. `named` are the texts of those that it refers to, by the names that it has for them."""

    def __init__(self, text: str, named: Mapping[str, str] | None = None) -> None:
        self._documents: dict[str, Any] = {}
        for name, each in (named or {}).items():
            self._documents[name] = self._parsed(each, f"the schema {name}, which it refers to,")
        self._documents[""] = self._parsed(text, "the JSON schema")
        for name, document in list(self._documents.items()):
            if isinstance(document, dict) and isinstance(document.get("$id"), str):
                self._documents.setdefault(urldefrag(document["$id"]).url or name, document)
        self._fields = 0
        self._root = self._place(_Place({"$ref": "#"}, ""))
        self._arrow_type: pa.DataType | None = None

    @staticmethod
    def _parsed(text: str, what: str) -> Any:
        try:
            return json.loads(text)
        except RecursionError:
            raise JsonSchemaError(f"{what} is wrong: it is nested too deeply") from None
        except ValueError as error:
            raise JsonSchemaError(f"{what} is wrong: {error}") from None

    @property
    def arrow_type(self) -> pa.StructType:
        """JsonSchemaError where values are no objects, or a property has no type of Spark's."""
        if self._arrow_type is None:
            self._arrow_type = self._type(self._root, "the value", 0)
        if not isinstance(self._arrow_type, pa.StructType):
            raise JsonSchemaError("the JSON schema is of no object with properties, which columns could be made of")
        return self._arrow_type

    def unfitting(self, columns: pa.StructType) -> list[str]:
        """A sentence for each column that the schema does not take, and for each property that is required and not there."""
        found: list[str] = []
        self._compare(self._root, columns, "", found)
        return found

    def misread(self, columns: pa.StructType) -> list[str]:
        """A sentence for each column that would get something else than what values of this schema have. A property that the
        schema does not have, or says nothing of, is no column's matter: values tell."""
        found: list[str] = []
        self._compare_read(self._root, columns, "", found)
        return found

    def required(self, columns: pa.StructType) -> list[tuple[str, ...]]:
        """Columns that have to be there in every row, as paths through structs."""
        found: list[tuple[str, ...]] = []
        self._require(self._root, columns, (), found)
        return found

    def _type(self, place: _Place, path: str, depth: int) -> pa.DataType:
        if depth > DEPTH_MAX:
            raise JsonSchemaError(f"{path} holds itself, or is nested deeper than {DEPTH_MAX} levels")
        schema = place.schema
        properties = self._properties(place)
        if properties is not None:
            self._fields += len(properties)
            if self._fields > FIELDS_MAX:
                raise JsonSchemaError(f"a JSON schema of more than {FIELDS_MAX} properties has no columns")
            return pa.struct([(name, self._type(each, name, depth + 1)) for name, each in properties.items()])
        match self._kind(place, path):
            case "string":
                return _text_type(schema.get("format"))
            case "integer":
                return pa.int64()
            case "number":
                return pa.float64()
            case "boolean":
                return pa.bool_()
            case "array" if isinstance(schema.get("items"), dict):
                return pa.list_(self._type(self._place(_Place(schema["items"], place.document)), path, depth + 1))
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                values = self._place(_Place(schema["additionalProperties"], place.document))
                return pa.map_(pa.string(), self._type(values, path, depth + 1))
        raise JsonSchemaError(f"{path} has no column: its JSON schema says nothing of what is in it")

    def _compare(self, place: _Place, columns: pa.StructType, path: str, found: list[str]) -> None:
        properties = self._properties(place)
        if properties is None:
            found.append(
                f"{path.rstrip('.') or 'a row'} is an object with properties, and the JSON schema has none there"
            )
            return
        more = place.schema.get("additionalProperties", True)
        for column in columns:
            name = f"{path}{column.name}"
            if column.name in properties:
                self._compare_value(properties[column.name], column.type, name, found)
            elif more is not True:
                found.append(f"the column {name} is no property of the JSON schema")
        required = place.schema.get("required")
        found += [
            f"the JSON schema requires a property {path}{each}, and there is no such column"
            for each in (required if isinstance(required, list) else [])
            if isinstance(each, str) and columns.get_field_index(each) < 0
        ]

    def _compare_value(self, place: _Place, column: pa.DataType, name: str, found: list[str]) -> None:
        schema = place.schema
        if pa.types.is_struct(column):
            self._compare(place, column, f"{name}.", found)
            return
        kind = self._kind(place, name)
        if pa.types.is_list(column) and kind == "array":
            if isinstance(schema.get("items"), dict):
                items = self._place(_Place(schema["items"], place.document))
                self._compare_value(items, column.value_type, name, found)
            return
        if pa.types.is_map(column) and kind == "object" and self._properties(place) is None:
            if isinstance(schema.get("additionalProperties"), dict):
                values = self._place(_Place(schema["additionalProperties"], place.document))
                self._compare_value(values, column.item_type, name, found)
            return
        if kind not in _kinds_of(column):
            found.append(f"the column {name} is of type {column}, and the JSON schema has {kind} there")

    def _compare_read(self, place: _Place, column: pa.DataType, name: str, found: list[str]) -> None:
        # By columns, which end, also where the schema holds itself.
        properties = self._properties(place)
        if isinstance(column, pa.StructType) and properties is not None:
            for each in column:
                if each.name in properties:
                    path = f"{name}.{each.name}" if name else each.name
                    self._compare_read(properties[each.name], each.type, path, found)
            return
        try:
            kind = "object" if properties is not None else self._kind(place, name)
        except JsonSchemaError:
            return
        inner, word = place.schema, "items" if kind == "array" else "additionalProperties"
        if kind not in _kinds_read_as(column):
            found.append(f"{name or 'the value'} is {kind} in it, and is read as {column}")
        elif pa.types.is_list(column) and isinstance(inner.get("items"), dict):
            self._compare_read(self._place(_Place(inner[word], place.document)), column.value_type, name, found)
        elif pa.types.is_map(column) and isinstance(inner.get("additionalProperties"), dict):
            self._compare_read(self._place(_Place(inner[word], place.document)), column.item_type, name, found)

    def _place(self, place: _Place) -> _Place:
        """Behind references, and behind what only says that null is allowed as well."""
        for _ in range(HOPS_MAX):
            schema = place.schema
            if isinstance(schema.get("$ref"), str):
                place = self._referred(schema["$ref"], place.document)
                continue
            others = self._choices(schema)
            if len(others) != 1:
                return place
            place = _Place(others[0], place.document)
        raise JsonSchemaError("references of the JSON schema lead in a circle")

    def _choices(self, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The schemas of which a value has to have one, without null; none where there is no choice."""
        for word in ("oneOf", "anyOf", "allOf"):
            given = schema.get(word)
            if isinstance(given, list) and "properties" not in schema:
                return [each for each in given if isinstance(each, dict) and each.get("type") != "null"]
        return []

    def _referred(self, reference: str, document: str) -> _Place:
        url, fragment = urldefrag(reference)
        base = self._documents[document]
        own = base.get("$id") if isinstance(base, dict) else None
        for name in (url, urljoin(own, url) if isinstance(own, str) else url) if url else (document,):
            if name in self._documents:
                found: Any = self._documents[name]
                for part in unquote(fragment).split("/")[1:]:
                    key = part.replace("~1", "/").replace("~0", "~")
                    found = found.get(key) if isinstance(found, dict) else None
                if isinstance(found, dict):
                    return _Place(found, name)
        raise JsonSchemaError(f"the JSON schema refers to {reference!r}, which is not there")

    def _properties(self, place: _Place) -> dict[str, _Place] | None:
        given = place.schema.get("properties")
        if not isinstance(given, dict):
            return None
        return {
            name: self._place(_Place(each if isinstance(each, dict) else {}, place.document))
            for name, each in given.items()
        }

    def _kind(self, place: _Place, path: str) -> str:
        """The one type that a value has beside null."""
        schema = place.schema
        given = schema.get("type")
        types = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        values = schema.get("enum") if isinstance(schema.get("enum"), list) else [schema.get("const")]
        if not types:
            types = sorted({_kind_of_value(each) for each in values or [] if each is not None})
        others = [each for each in types if each != "null"]
        if set(others) == {"integer", "number"}:
            others = ["number"]
        if len(others) == 1 and isinstance(others[0], str):
            return others[0]
        if len(self._choices(schema)) > 1:
            raise JsonSchemaError(f"{path} has no column: it can be one of several things")
        raise JsonSchemaError(
            f"{path} has no column: it has {len(others)} types, {', '.join(map(str, others))}"
            if others
            else f"{path} has no column: its JSON schema says nothing of what is in it"
        )

    def _require(
        self, place: _Place, columns: pa.StructType, above: tuple[str, ...], found: list[tuple[str, ...]]
    ) -> None:
        names = place.schema.get("required")
        properties = self._properties(place) or {}
        for column in columns:
            path = (*above, column.name)
            if isinstance(names, list) and column.name in names:
                found.append(path)
            if pa.types.is_struct(column.type) and column.name in properties:
                self._require(properties[column.name], column.type, path, found)


def _text_type(form: object) -> pa.DataType:
    match form:
        case "date-time":
            return pa.timestamp("us", "UTC")
        case "date":
            return pa.date32()
    return pa.string()


def _kinds_of(column: pa.DataType) -> tuple[str, ...]:
    """What a value of a column is in the JSON that Spark makes of it."""
    if pa.types.is_boolean(column):
        return ("boolean",)
    if pa.types.is_integer(column):
        return ("integer", "number")
    if pa.types.is_floating(column) or pa.types.is_decimal(column):
        return ("number",)
    if pa.types.is_map(column):
        return ("object",)
    return ("array",) if pa.types.is_list(column) else ("string",)


def _kinds_read_as(column: pa.DataType) -> tuple[str, ...]:
    """What Spark reads as a column without making something else of it, in all values or in some: a number may be whole, and
    text may be a date."""
    if pa.types.is_integer(column) or pa.types.is_floating(column) or pa.types.is_decimal(column):
        return ("integer", "number")
    return ("object",) if pa.types.is_struct(column) else _kinds_of(column)


def _kind_of_value(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
