"""What is wrong with the sinks of a pipeline, as far as it shows without Spark, without a cluster and without a table.

Each sink by itself, then all of them together: names that are taken twice, sinks that can only stand alone, output modes that one
of them cannot follow, and secrets that a decision would have to hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast
from urllib.parse import urlsplit

from tidelog.spark.client_settings import is_secret
from tidelog.spark.errors import OptionError
from tidelog.spark.outputs.staged_changes import changes_max
from tidelog.spark.pipelines.declaration import Declaration
from tidelog.spark.pipelines.decoders import Encoder
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.field_types import with_right_types
from tidelog.spark.pipelines.query_options import SINK_FIELDS, as_text, cluster_of, decisions_bootstrap, sink_options
from tidelog.spark.pipelines.sinks import (
    EXACTLY_ONCE,
    OUR_FORMATS,
    Changing,
    Sink,
    ToDatabase,
    ToFiles,
    ToTable,
    ToTopic,
    is_decided,
)
from tidelog.spark.secret_references import has_reference
from tidelog.spark.sink.sink_options import parse_sink_options

# Part of the names of directories, and of what tables remember.
_LABEL = re.compile(r"[A-Za-z0-9._-]{1,200}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ENCODINGS = ("json", "columns")
_FILES = ("parquet", "orc", "json", "csv", "text", "avro")
_DATABASES = ("sqlite", "postgresql", "postgres", "mariadb", "mysql")
_STORES = ("", "file", "s3", "s3a")
_SECRET = re.compile(r"password|secret|token|credential", re.IGNORECASE)
_CHANGE_FIELDS = ("merge_on", "sequence_by", "deletes", "history")
SINKS_MAX = 32
"""Each costs every task an attempt, and every batch an end."""

OptionProblems = Callable[[Mapping[str, str], Mapping[str, str], Callable[[Mapping[str, str]], object]], list[str]]
"""What is wrong with options of the pipeline's own and with chosen ones: `validation` has it, for sources as well."""


def check_sinks(pipeline: Pipeline, option_problems: OptionProblems) -> tuple[Sequence[Sink], list[str]]:
    """Sinks that can be planned, and a sentence for each problem."""
    declared: Sequence[object] = pipeline.sinks
    if not declared:
        return (), ["there is no sink"]
    if len(declared) > SINKS_MAX:
        return (), [f"there are {len(declared)} sinks: a pipeline has {SINKS_MAX} at most"]
    sound: list[Sink] = []
    found: list[str] = []
    for index, each in enumerate(declared):
        where = "sink" if len(declared) == 1 else f"sink {index + 1}"
        sink, problems = _check_sink(pipeline, each, option_problems)
        found += [f"{where}: {problem}" for problem in problems]
        if sink is not None:
            sound.append(sink)
    if not found:
        found += _together(pipeline, sound)
    return sound, found


def sink_warnings(pipeline: Pipeline) -> list[str]:
    """Sentences about a pipeline in which nothing is wrong, and which may stop all the same: the driver merges so many changes,
    and a batch that Spark has planned is not made smaller any more."""
    reads = [as_text({name.lower(): value for name, value in each.options.items()}) for each in pipeline.sources]
    bounds = [each.get("maxoffsetspertrigger") for each in reads]
    known = sum(int(each) for each in bounds if each is not None)
    found = []
    for sink in pipeline.sinks:
        if not isinstance(sink, ToTable) or not sink.is_ours or not sink.merge_on:
            continue
        limit = changes_max(as_text(sink.options))
        if None in bounds:
            found.append(
                f"the sink {sink.label} merges {limit} changes a batch at most, and nothing bounds a batch: give the source"
                " the option maxOffsetsPerTrigger"
            )
        elif known > limit:
            found.append(
                f"the sink {sink.label} merges {limit} changes a batch at most, and a batch may have {known} records: lower"
                " maxOffsetsPerTrigger of the source"
            )
    return found


def parse_sink(options: Mapping[str, str]) -> object:
    return parse_sink_options(options, is_stream=True)


def _check_sink(pipeline: Pipeline, declared: object, option_problems: OptionProblems) -> tuple[Sink | None, list[str]]:
    match declared:
        case ToTopic():
            return _check_topic(pipeline, declared, option_problems)
        case ToTable():
            table, found = with_right_types(declared)
            found += _table_problems(table) + _change_problems(table) + _condition_problems(table)
            return (replace(table, partition_by=(), merge_on=(), where=None, deletes=None) if found else table), found
        case ToFiles():
            files, found = with_right_types(declared)
            found += _list_problems("partition_by", files.partition_by) + _condition_problems(files)
            found += _place_problems(files.path, files.storage)
            return (replace(files, partition_by=(), where=None) if found else files), found
        case ToDatabase():
            database, found = with_right_types(declared)
            # A stand-in has no address to look at.
            if not found:
                found += _database_problems(database)
            found += _change_problems(database) + _condition_problems(database)
            return (replace(database, merge_on=(), where=None, deletes=None) if found else database), found
    return None, [f"expected ToTopic, ToTable, ToFiles or ToDatabase, not {type(declared).__name__}"]


def _check_topic(pipeline: Pipeline, declared: ToTopic, option_problems: OptionProblems) -> tuple[ToTopic, list[str]]:
    sink, found = with_right_types(declared)
    elsewhere = [
        f"the option {name} is said by {SINK_FIELDS[name.lower()]}: leave it out"
        for name in sink.options
        if name.lower() in SINK_FIELDS
    ]
    found += elsewhere
    if not is_topic(sink.topic):
        found.append(f"{sink.topic!r} cannot be the name of a topic")
        sink = replace(sink, topic="unknown")
    if wrong := _encoding_problems(sink.encode):
        found += wrong
        sink = replace(sink, encode="json")
    if sink.key is not None and sink.encode == "columns":
        found.append("key= is for rows that are encoded; with encode='columns' a column key says it")
        sink = replace(sink, key=None)
    if sink.key is not None and not sink.key.strip():
        found.append("key is empty: leave it out, or name a column")
        sink = replace(sink, key=None)
    if sink.by_partition and not is_decided(sink):
        found.append(f"by_partition is for the transactions of a batch: it needs delivery='{EXACTLY_ONCE}'")
        sink = replace(sink, by_partition=False)
    if wrong := _condition_problems(sink):
        found += wrong
        sink = replace(sink, where=None)
    chosen = {name: value for name, value in sink.options.items() if name.lower() not in SINK_FIELDS}
    own = replace(sink, options={})
    wrong = option_problems(sink_options(pipeline, own), as_text(chosen), parse_sink)
    found += wrong
    return (own if elsewhere or wrong else sink), found


def _encoding_problems(encode: str | Encoder) -> list[str]:
    if isinstance(encode, str):
        return [] if encode in _ENCODINGS else [f"encode is {encode!r}; it can be {' or '.join(_ENCODINGS)}"]
    if isinstance(encode, Declaration):
        sound, found = with_right_types(encode)
        # Its own checks would report the same mistakes again.
        return found or cast("Encoder", sound).encoding_problems()
    return encode.encoding_problems()


def _table_problems(table: ToTable) -> list[str]:
    found = _list_problems("partition_by", table.partition_by)
    if table.is_ours:
        try:
            changes_max(as_text(table.options))
        except OptionError as error:
            found.append(str(error))
    match table.format.lower():
        case "iceberg":
            if table.path is not None:
                found.append(
                    "an Iceberg table has a name in a catalog, and no path of its own: give name= and catalog="
                )
            elif table.name is None or "." not in table.name:
                found.append("an Iceberg table needs its name with the namespace, as in name='shop.orders'")
            if not table.catalog:
                found.append("""an Iceberg table needs catalog=, as in {"type": "rest", "uri": "http://..."}""")
            found += _secret_problems("catalog", table.catalog)
            found += _secret_problems("storage", table.storage)
        case "delta":
            if table.path is None:
                found.append("a Delta table needs the path of its directory")
            else:
                found += _place_problems(table.path, table.storage)
            if table.catalog:
                found.append("catalog= is for format='iceberg'")
        case _:
            if (table.path is None) == (table.name is None):
                found.append("give the path of a directory or the name of a table, one of them")
            given = [name for name in ("catalog", "storage", *_CHANGE_FIELDS) if getattr(table, name)]
            if given:
                ours = " or ".join(map(repr, OUR_FORMATS))
                found.append(f"{given[0]}= needs format={ours}, or a database: Spark's own sink writes {table.format}")
    return found


def _change_problems(sink: Changing) -> list[str]:
    found = _list_problems("merge_on", sink.merge_on)
    if not sink.merge_on:
        found += [f"{name}= needs merge_on=" for name in _CHANGE_FIELDS[1:] if getattr(sink, name)]
    elif sink.history and sink.sequence_by is None:
        found.append("history=True needs sequence_by=: from when on each version counts")
    if sink.sequence_by is not None and sink.sequence_by in sink.merge_on:
        found.append(f"sequence_by is {sink.sequence_by}, which is part of the key")
    if sink.deletes is not None and not sink.deletes.strip():
        found.append("deletes is empty: leave it out, or write a condition")
    return found


def _condition_problems(sink: Sink) -> list[str]:
    found = []
    if sink.where is not None and not sink.where.strip():
        found.append("where is empty: leave it out, or write a condition")
    if is_decided(sink) and not _LABEL.fullmatch(sink.label):
        found.append(f"{sink.label!r} cannot be the name of a sink: give name=, of letters, digits, '.', '_' and '-'")
    return found


def _list_problems(name: str, value: object) -> list[str]:
    return [f"{name} is a list of columns: [{value!r}]"] if isinstance(value, str) else []


def _place_problems(path: str, storage: Mapping[str, str]) -> list[str]:
    found = _secret_problems("storage", storage)
    scheme = urlsplit(path).scheme if "://" in path else ""
    if not path.strip():
        found.append("path is empty: name a directory")
    elif scheme not in _STORES:
        found.append(f"{path} is neither a directory nor s3://BUCKET/...: no other store is known here")
    return found


def _database_problems(sink: ToDatabase) -> list[str]:
    found = []
    scheme = sink.url.partition(":")[0].partition("+")[0]
    if scheme not in _DATABASES:
        found.append(f"url is of no database that is known here: it begins with {'://, '.join(_DATABASES)}://")
    elif _has_password(sink.url):
        found.append("url holds a password, which every decision would show: refer to it, as in ${env:PASSWORD}")
    if not sink.table.strip():
        found.append("table is empty: name a table")
    return found


def _secret_problems(what: str, settings: Mapping[str, str]) -> list[str]:
    found = [
        f"{what} holds {name} itself, which every decision would show: refer to it, as in ${{env:{name.upper()}}}"
        for name, value in settings.items()
        if _SECRET.search(name) and not has_reference(value)
    ]
    return found + [
        f"{what} holds a password in {name}, which every decision would show: refer to it, as in ${{env:PASSWORD}}"
        for name, value in settings.items()
        if "://" in value and _has_password(value)
    ]


def _has_password(url: str) -> bool:
    user = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    password = user.partition(":")[2]
    return bool(password) and not has_reference(password)


def _together(pipeline: Pipeline, sinks: Sequence[Sink]) -> list[str]:
    found = []
    if len(sinks) > 1:
        found += [_stands_alone(each) for each in sinks if not is_decided(each)]
    for label, times in Counter(each.label for each in sinks).items():
        if times > 1:
            found.append(f"{times} sinks have the name {label}: give each name= of its own")
    found += _output_mode_problems(pipeline, sinks)
    topics = [each for each in sinks if isinstance(each, ToTopic)]
    found += _topic_problems(pipeline, topics)
    if any(is_decided(each) and not isinstance(each, ToTopic) for each in sinks):
        found += _staging_problems(pipeline)
    return found


def _stands_alone(sink: Sink) -> str:
    if isinstance(sink, ToTopic):
        return (
            f"the sink {sink.label} delivers at least once, and so stands alone: others need delivery='{EXACTLY_ONCE}'"
        )
    assert isinstance(sink, ToTable)
    return (
        f"the sink {sink.label} is of format {sink.format}, which Spark itself writes, and so stands alone: "
        "ToFiles writes Parquet beside other sinks"
    )


def _output_mode_problems(pipeline: Pipeline, sinks: Sequence[Sink]) -> list[str]:
    mode = pipeline.output_mode
    if mode not in {"update", "complete"}:
        return []
    found = []
    for each in sinks:
        match each:
            case ToTopic() if not is_decided(each):
                if mode == "update":
                    # Spark's word on sinks that are written in Python, which it has only once the query runs.
                    found.append(f"Spark writes no updates to a topic: it takes delivery='{EXACTLY_ONCE}'")
            case ToTopic() if each.key is None and each.encode != "columns":
                found.append(f"output_mode {mode} changes rows, and records of {each.label} have no key: give key=")
            case ToFiles():
                found.append(f"files are only added: output_mode {mode} needs a table with merge_on=, or a topic")
            case ToDatabase() if not each.merge_on:
                found.append(f"output_mode {mode} changes rows of {each.label}: give merge_on=")
            case ToTable() if each.is_ours and not each.merge_on:
                found.append(f"output_mode {mode} changes rows of {each.label}: give merge_on=")
            case ToTable() if not each.is_ours and (each.path is not None or each.format.lower() in _FILES):
                found.append(f"files are only added: output_mode {mode} needs a topic, or a table that can change")
    return found


def _topic_problems(pipeline: Pipeline, topics: Sequence[ToTopic]) -> list[str]:
    """Topics of one cluster are written in one transaction a task, by one producer."""
    found = []
    first: dict[str, dict[str, str]] = {}
    for each in topics:
        options = client_options_of(pipeline, each)
        if first.setdefault(cluster_of(pipeline, each), options) != options:
            found.append(
                f"the sink {each.label} has other options than another topic of its cluster: one producer writes both"
            )
        if cluster_of(pipeline, each) != decisions_bootstrap(pipeline):
            found += [
                f"the sink {each.label} holds {name} itself, which every decision would show: refer to it, as in ${{env:SECRET}}"
                for name, text in options.items()
                if is_secret(name) and not has_reference(text)
            ]
    prefixes = {_prefix(each) for each in topics}
    if len(prefixes) > 1:
        found.append("sinks have different transactionalIdPrefix, and one query has one")
    return found


def client_options_of(pipeline: Pipeline, sink: ToTopic) -> dict[str, str]:
    """What its producer is told."""
    options = sink_options(pipeline, sink)
    return {name.lower(): text for name, text in options.items() if name.lower() not in {"topic", "includetimestamp"}}


def _prefix(sink: ToTopic) -> str:
    return as_text({name.lower(): text for name, text in sink.options.items()}).get("transactionalidprefix", "")


def _staging_problems(pipeline: Pipeline) -> list[str]:
    place = pipeline.staging if pipeline.staging is not None else pipeline.checkpoint or ""
    if pipeline.staging is not None and not pipeline.staging.strip():
        return ["staging is empty: name a directory, or s3://BUCKET/..."]
    found = _secret_problems("storage", pipeline.storage)
    scheme = urlsplit(place).scheme if "://" in place else ""
    if scheme not in _STORES:
        what = "staging" if pipeline.staging is not None else "the checkpoint, which rows would be staged in,"
        found.append(f"{what} is neither a directory nor s3://BUCKET/...: give staging= that is one of them")
    return found


def is_topic(name: str) -> bool:
    return bool(_TOPIC.fullmatch(name)) and name not in {".", ".."}
