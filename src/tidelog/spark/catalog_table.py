"""Options that come by SQL: of tables in Spark's catalog, and of views, which may be written as well as read.

What Spark 4.3 tells a Python source:

    CREATE TABLE ... OPTIONS (...)    to `schema`: its options as option.NAME, and beside them whatever else it notes: provider,
                                      owner, comment, location, external, and the table's properties by their bare names
    SELECT, spark.table, readStream   the options of the statement, as in `WITH (...)`, and none of the table's; but the table's
                                      schema, as `schema` has told it
    INSERT, writeTo, saveAsTable      the options of the statement, and the schema of the rows: as the table's columns are, with
                                      their metadata, where Spark had to fit the rows to them; as they came, where they have just
                                      these columns
    toTable                           the options of the statement, and the schema of the rows as they came
    CREATE TEMPORARY VIEW ... USING   the view's options, always, to whoever reads it and to whoever inserts into it

So a table's options go with its schema, as metadata of the first column. Rows that come from another table bring the metadata of
that one, and must not be written into it. They are told by a word of Spark's own beside it, the type that a column was declared
with: Spark takes it away where it fits rows to a table, and nowhere else, whatever files, tables and views rows go through.
Secrets have to be references: what is in a schema is copied into files and shown to everybody.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from urllib.parse import unquote, urlsplit

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.options import ClientOptions
from tidelog.client.producer.options import ProducerOptions
from tidelog.spark.client_settings import PREFIX, is_secret
from tidelog.spark.errors import OptionError
from tidelog.spark.secret_references import has_reference
from tidelog.spark.sink.sink_options import NAMES as SINK_NAMES, parse_sink_options
from tidelog.spark.source.chosen_topics import names_both_sides
from tidelog.spark.source.record_schema import arrow_schema
from tidelog.spark.source.source_options import NAMES as SOURCE_NAMES, parse_source_options

METADATA = "tidelog.options"
WRITING = "tidelog.writing"
"""The same, for those who write; where a table names a topic to write to."""
DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's own."""

_OPTION = "option."
_MISSING = "the option kafka.bootstrap.servers is missing: name a node of the cluster, as in 127.0.0.1:9092"
_UNREAD = f"{_MISSING}. Spark tells the options of a table only by a CREATE TABLE without columns and without AS SELECT"
_UNWRITTEN = (
    f"{_MISSING}. Spark tells the options of a table to those who write it only where it has to fit the rows to the table's "
    "columns, and the table names a topic: leave a column out, as in INSERT INTO orders (key, value), name the options with the "
    "statement, as in INSERT INTO orders WITH (...), or insert into a view, CREATE TEMPORARY VIEW orders USING tidelog OPTIONS "
    "(...)"
)


def schema_of_new(told: Mapping[str, str]) -> StructType:
    """The schema of a table that is being created, with its options. OptionError for the first that is wrong."""
    options = _options_of_new({name.lower(): text for name, text in told.items()})
    for name, text in options.items():
        if is_secret(name) and not has_reference(text):
            raise OptionError(
                f"the option {name} would be kept in Spark's catalog for all to see: refer to it, "
                "as in ${directory:/run/secrets:password} or ${env:KAFKA_PASSWORD}"
            )
    columns = parse_source_options(reading_side(options) if names_both_sides(options) else options).columns
    text = json.dumps(options, sort_keys=True)
    kept = {METADATA: text}
    if names_both_sides(options):
        parse_sink_options(writing_side(options), is_stream=False)
        kept |= {WRITING: text, DECLARED: from_arrow_type(arrow_schema(columns).field(0).type).simpleString()}
    return StructType(
        [
            StructField(field.name, from_arrow_type(field.type), nullable=True, metadata={} if index else kept)
            for index, field in enumerate(arrow_schema(columns))
        ]
    )


def reading_options(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a read that says no cluster: those of the statement, before those of the table that it reads."""
    for field in schema.fields:
        if METADATA in field.metadata:
            kept: dict[str, str] = json.loads(field.metadata[METADATA])
            options = {**kept, **{name.lower(): text for name, text in given.items()}}
            return reading_side(options) if names_both_sides(options) else options
    raise OptionError(_UNREAD)


def writing_options(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a write that says no cluster: those of the statement, before those of the table that Spark has fitted the
    rows to. OptionError where it has not."""
    for field in schema.fields:
        if WRITING in field.metadata and DECLARED not in field.metadata:
            kept: dict[str, str] = json.loads(field.metadata[WRITING])
            return writing_side({**kept, **{name.lower(): text for name, text in given.items()}})
    raise OptionError(_UNWRITTEN)


def reading_side(options: Mapping[str, str]) -> dict[str, str]:
    """What is for reading of the options of a view that is read and written."""
    return _side(options, SOURCE_NAMES, SINK_NAMES, ConsumerOptions, ProducerOptions)


def writing_side(options: Mapping[str, str]) -> dict[str, str]:
    return _side(options, SINK_NAMES, SOURCE_NAMES, ProducerOptions, ConsumerOptions)


def _options_of_new(told: Mapping[str, str]) -> dict[str, str]:
    options = {name.removeprefix(_OPTION): text for name, text in told.items() if name.startswith(_OPTION)}
    location = told.get("location")
    if location is not None and "path" not in options:
        place = urlsplit(location)
        if place.scheme not in {"", "file"} or place.netloc:
            raise OptionError(f"LOCATION is {location}: records are read from a directory of this machine")
        options["path"] = unquote(place.path)
    return options


def _side(
    options: Mapping[str, str],
    names: Collection[str],
    other_names: Collection[str],
    client: type[ClientOptions],
    other_client: type[ClientOptions],
) -> dict[str, str]:
    """All but what is for the other side alone. What neither side knows is left for both to refuse."""
    own, other = _known(names, client), _known(other_names, other_client)
    given = {name.lower(): text for name, text in options.items()}
    return {name: text for name, text in given.items() if name in own or name not in other}


def _known(names: Collection[str], client: type[ClientOptions]) -> set[str]:
    settings = (PREFIX + each.name.replace("_", ".") for each in dataclasses.fields(client))
    return {name.lower() for name in names}.union(settings)
