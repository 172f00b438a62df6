"""What the fields of declarations may hold. Python does not say when a number is given for a text; this does, for all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from tidelog.spark.pipelines.debezium.decoder import Debezium
from tidelog.spark.pipelines.declaration import Declaration, missing
from tidelog.spark.pipelines.decoders import Avro, Json, Protobuf, Text
from tidelog.spark.pipelines.definition import FromTopic, Pipeline, Watermark
from tidelog.spark.pipelines.expectations import Expect
from tidelog.spark.pipelines.sinks import ToDatabase, ToFiles, ToTable, ToTopic
from tidelog.spark.pipelines.views import View

_Declared = TypeVar("_Declared", bound=Declaration)


class Kind(NamedTuple):
    """Values of a field."""

    words: str
    allows: Callable[[Any], bool]
    stand_in: Any
    """What other checks are given instead of a wrong value."""


def _optional(kind: Kind) -> Kind:
    return Kind(f"{kind.words}, or None", lambda value: value is None or kind.allows(value), None)


def _is_options(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(each, str | int | bool) for name, each in value.items()
    )


def _is_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for item in value.items() for text in item)


def _is_expectations(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(each, str | Expect) for name, each in value.items()
    )


def _is_decoder(value: object) -> bool:
    return callable(getattr(value, "problems", None)) and callable(getattr(value, "decoded", None))


def _is_encoding(value: object) -> bool:
    return isinstance(value, str) or (
        callable(getattr(value, "encoding_problems", None)) and callable(getattr(value, "encoded", None))
    )


_TEXT = Kind("text", lambda value: isinstance(value, str), "unknown")
_FLAG = Kind("True or False", lambda value: isinstance(value, bool), False)
_OPTIONS = Kind('a dictionary, as in {"name": "value"}', _is_options, {})
_TEXTS = Kind("a dictionary of texts", _is_texts, {})
_EXPECTATIONS = Kind("a dictionary of conditions, texts or Expect", _is_expectations, {})
_BYTES = Kind("bytes", lambda value: isinstance(value, bytes), b"")
_TOPIC = _optional(_TEXT)._replace(stand_in="unknown")
# Of object stores and catalogs: shown as options are, since they may hold secrets.
_SETTINGS = Kind('a dictionary of texts, as in {"name": "value"}', _is_texts, {})
_WATERMARK = _optional(Kind("a Watermark", lambda value: isinstance(value, Watermark), None))
# A text alone has a sentence of its own.
_COLUMNS = Kind(
    "a list of columns",
    lambda value: isinstance(value, str | list | tuple) and all(isinstance(each, str) for each in value),
    (),
)
_SCHEMA = Kind("text or a StructType", lambda value: isinstance(value, str) or hasattr(value, "fields"), "a int")
_CHANGES = {
    "where": _optional(_TEXT),
    "merge_on": _COLUMNS,
    "sequence_by": _optional(_TEXT),
    "deletes": _optional(_TEXT),
    "history": _FLAG,
    "widen": _FLAG._replace(stand_in=True),
}

# What the registry itself is made of is looked at by whoever is given it.
_SUBJECT = {
    "subject": _optional(_TEXT),
    "version": _optional(Kind("a whole number", lambda value: isinstance(value, int) and value is not True, None)),
    "register": _FLAG,
}

_FIELDS: Mapping[type[Declaration], Mapping[str, Kind]] = {
    Pipeline: {
        "name": _TEXT,
        "views": Kind("a list of views", lambda value: isinstance(value, list | tuple), ()),
        "output_mode": _TEXT._replace(stand_in="append"),
        "trigger": _optional(_TEXT),
        "checkpoint": _optional(_TEXT),
        "staging": _optional(_TEXT),
        "storage": _SETTINGS,
        "bootstrap": _optional(_TEXT),
        "kafka": _OPTIONS,
        "master": _TEXT._replace(stand_in="local[*]"),
        "spark": _OPTIONS,
    },
    FromTopic: {
        "topic": _TOPIC,
        "decode": _optional(Kind("Json, Avro, Protobuf, Text or Debezium", _is_decoder, None)),
        "pattern": _optional(_TEXT),
        "name": _optional(_TEXT),
        "expect": _EXPECTATIONS,
        "dead_letters": _optional(_TEXT),
        "watermark": _WATERMARK,
        "options": _OPTIONS,
        "bootstrap": _optional(_TEXT),
    },
    View: {"name": _TEXT, "expect": _EXPECTATIONS, "dead_letters": _optional(_TEXT), "watermark": _WATERMARK},
    ToTopic: {
        "topic": _TEXT,
        "name": _optional(_TEXT),
        "of": _optional(_TEXT),
        "where": _optional(_TEXT),
        "key": _optional(_TEXT),
        "encode": Kind("text, or Avro, Json or Protobuf with a subject", _is_encoding, "json"),
        "delivery": _TEXT._replace(stand_in="exactly_once"),
        "by_partition": _FLAG,
        "options": _OPTIONS,
        "bootstrap": _optional(_TEXT),
    },
    ToTable: {
        "path": _optional(_TEXT)._replace(stand_in="unknown"),
        "name": _optional(_TEXT),
        "of": _optional(_TEXT),
        "format": _TEXT._replace(stand_in="parquet"),
        "catalog": _SETTINGS,
        "partition_by": _COLUMNS,
        **_CHANGES,
        "storage": _SETTINGS,
        "options": _OPTIONS,
    },
    ToFiles: {
        "path": _TEXT,
        "name": _optional(_TEXT),
        "of": _optional(_TEXT),
        "where": _optional(_TEXT),
        "partition_by": _COLUMNS,
        "storage": _SETTINGS,
    },
    ToDatabase: {
        "url": _TEXT,
        "table": _TEXT,
        "name": _optional(_TEXT),
        "of": _optional(_TEXT),
        **_CHANGES,
        "options": _OPTIONS,
    },
    Watermark: {"column": _TEXT, "delay": _TEXT._replace(stand_in="1 minute"), "expression": _optional(_TEXT)},
    Expect: {"condition": _TEXT._replace(stand_in="true"), "action": _TEXT._replace(stand_in="warn")},
    Json: {
        "schema": _SCHEMA._replace(allows=lambda value: value is None or _SCHEMA.allows(value)),
        "framed": _FLAG,
        "options": _TEXTS,
        **_SUBJECT,
    },
    Avro: {"schema": _optional(_TEXT), "framed": _FLAG, **_SUBJECT},
    Protobuf: {"message": _TEXT, "descriptor_set": _optional(_BYTES), "framed": _FLAG, **_SUBJECT},
    Text: {"column": _TEXT},
    Debezium: {
        "schema": _SCHEMA,
        "table": _optional(_TEXT),
        "key": _COLUMNS,
        "flat": _FLAG,
        "order": _TEXT._replace(stand_in="source"),
        "truncates": _TEXT._replace(stand_in="refuse"),
        "types": _TEXTS,
        "unchanged": _TEXT._replace(stand_in="keep"),
        "avro": _optional(_TEXT),
        "unavailable": _TEXT,
    },
}


def _shown(kind: Kind, value: object) -> str:
    """Options may hold secrets: their texts are left out, which are not what is wrong with them."""
    if (kind is not _OPTIONS and kind is not _SETTINGS) or not isinstance(value, Mapping):
        return repr(value)
    shown = (f"{name!r}: {'...' if isinstance(each, str) else repr(each)}" for name, each in value.items())
    return f"{{{', '.join(shown)}}}"


def with_right_types(declared: _Declared) -> tuple[_Declared, list[str]]:
    """A declaration that other checks can read, and a sentence for each argument that is none or of a wrong type."""
    title = type(declared).__name__
    # A copy that nobody declared has none.
    problems = list(getattr(declared, "mistakes", ()))
    wrong = {}
    for name, kind in _FIELDS.get(type(declared), {}).items():
        value = getattr(declared, name)
        if kind.allows(value):
            continue
        wrong[name] = kind.stand_in
        # What was not given has been told.
        if not any(each.startswith(missing(title, name)) for each in problems):
            problems.append(f"{name} is {_shown(kind, value)}; it is {kind.words}")
    return (replace(declared, **wrong) if wrong else declared), problems  # type: ignore[type-var]
