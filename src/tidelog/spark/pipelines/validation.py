"""The mistakes in a pipeline's definition, all of them, as far as they show without Spark and without a cluster.

What SQL and schemas say about columns needs Spark: `query_plan` finds that, when the pipeline is planned.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.definition import (
    AVAILABLE_NOW,
    RECORD,
    FromTopic,
    Pipeline,
    ToTable,
    ToTopic,
    Watermark,
)
from tidelog.spark.pipelines.query_options import (
    SINK_FIELDS,
    SOURCE_FIELDS,
    as_text,
    dead_letter_options,
    sink_options,
    source_options,
)
from tidelog.spark.sink_options import parse_sink_options
from tidelog.spark.source_options import parse_source_options, stream_start

# Names of topics have the same characters, and so may be part of a path.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_VIEW = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INTERVAL = re.compile(r"(\d+ (nano|micro|milli)?(second|minute|hour|day|week|month|year)s?( |$))+", re.IGNORECASE)
_OUTPUT_MODES = ("append", "update", "complete")
_ENCODINGS = ("json", "columns")


def problems_of(pipelines: Sequence[Pipeline]) -> list[str]:
    """Every mistake of the pipelines of one file, each a sentence that begins with the pipeline's name."""
    found = [f"{each.name}: {problem}" for each in pipelines for problem in pipeline_problems(each)]
    for name, times in Counter(each.name for each in pipelines).items():
        if times > 1:
            found.append(
                f"{name}: {times} pipelines have this name: each needs a name, a group and a checkpoint of its own"
            )
    places = Counter(each.checkpoint for each in pipelines if each.checkpoint is not None)
    found += [f"{place}: {times} pipelines have this checkpoint" for place, times in places.items() if times > 1]
    masters = sorted({each.master for each in pipelines})
    if len(masters) > 1:
        found.append(f"pipelines of one file share a Spark session, and name different masters: {', '.join(masters)}")
    settings: dict[str, str] = {}
    for each in pipelines:
        for key, value in as_text(each.spark).items():
            if settings.setdefault(key, value) != value:
                found.append(f"{each.name}: another pipeline of the file sets {key} to {settings[key]}, not to {value}")
    return found


def pipeline_problems(pipeline: Pipeline) -> list[str]:
    found = []
    if not _NAME.fullmatch(pipeline.name) or pipeline.name in {".", ".."}:
        found.append(
            f"{pipeline.name!r} cannot be the name of a pipeline: letters, digits, '.', '_' and '-', 200 at most"
        )
    sources = pipeline.sources
    if not sources:
        found.append("there is no source")
    for index, source in enumerate(sources):
        where = "source" if len(sources) == 1 else f"source {index + 1}"
        found += [f"{where}: {problem}" for problem in _source_problems(pipeline, source)]
    if any(not isinstance(each, FromTopic) for each in sources):
        return found
    for view, times in Counter(source.view.lower() for source in sources).items():
        if times > 1:
            found.append(f"{times} sources have the name {view}: give one of them name=")
    found += _transform_problems(pipeline.transform, sources)
    found += [f"sink: {problem}" for problem in _sink_problems(pipeline, pipeline.sink)]
    if pipeline.has_dead_letters and isinstance(pipeline.sink, ToTable):
        found += _option_problems(
            "dead letters", lambda: parse_sink_options(dead_letter_options(pipeline), is_stream=True)
        )
    found += _loops(pipeline)
    if pipeline.output_mode not in _OUTPUT_MODES:
        found.append(f"output_mode is {pipeline.output_mode!r}; it can be {', '.join(_OUTPUT_MODES)}")
    if pipeline.trigger is not None and pipeline.trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(pipeline.trigger):
        found.append(f"trigger is {pipeline.trigger!r}; it is a time such as '10 seconds', or {AVAILABLE_NOW}")
    if pipeline.checkpoint is not None and not pipeline.checkpoint.strip():
        found.append("checkpoint is empty: name a directory")
    if not pipeline.master.strip():
        found.append("master is empty: local[*] is this machine")
    return found


def _source_problems(pipeline: Pipeline, source: object) -> list[str]:
    if not isinstance(source, FromTopic):
        return [f"expected FromTopic, not {type(source).__name__}"]
    found = []
    if (source.topic is None) == (source.pattern is None):
        found.append("give a topic or a pattern, one of them")
    found += _given_elsewhere(source.options, SOURCE_FIELDS)
    if source.pattern is not None and source.name is None:
        found.append("a pattern is no name for a table: give name= as well")
    elif not _VIEW.fullmatch(source.view):
        found.append(f"{source.view!r} cannot be the name of a table in SQL: give name=")
    if source.decode is None:
        if source.expect:
            found.append("expect is about columns, and without decode= there are none but record")
        if source.dead_letters is not None:
            found.append("dead_letters without decode=: no value can be broken")
    else:
        found += source.decode.problems()
    if source.expect and source.dead_letters is None:
        found.append("expect needs dead_letters=, a topic for what is not as expected")
    found += [f"expect {reason!r} has no condition" for reason, text in source.expect.items() if not text.strip()]
    if source.dead_letters is not None and not _is_topic(source.dead_letters):
        found.append(f"{source.dead_letters!r} cannot be the name of a topic")
    if source.watermark is not None:
        found += _watermark_problems(source.watermark)
    if not found:
        options = source_options(pipeline, source, group_id=pipeline.name)
        found += _option_problems("", lambda: stream_start(parse_source_options(options)))
        if "columns" in {name.lower() for name in source.options}:
            found.append("columns would take away from record what a pipeline needs")
    return found


def _watermark_problems(watermark: Watermark) -> list[str]:
    found = []
    if not _VIEW.fullmatch(watermark.column):
        found.append(
            f"the watermark's column is {watermark.column!r}; it is the name of a column. "
            "An expression can make one: Watermark('at', '1 minute', 'record.timestamp')"
        )
    elif watermark.column == RECORD:
        found.append("the watermark cannot be record: its time is record.timestamp, as the expression")
    if not _INTERVAL.fullmatch(watermark.delay):
        found.append(f"the watermark's delay is {watermark.delay!r}; it is a time such as '10 minutes'")
    return found


def _transform_problems(transform: object, sources: Sequence[FromTopic]) -> list[str]:
    if transform is None:
        return [] if len(sources) <= 1 else ["several sources need a transform, which makes one of them"]
    if isinstance(transform, str):
        return [] if transform.strip() else ["transform is empty: leave it out, or write a SELECT"]
    if not callable(transform):
        return [f"transform is SQL or a function, not {type(transform).__name__}"]
    try:
        inspect.signature(transform).bind(*sources)
    except TypeError:
        return [f"transform is given {len(sources)} DataFrames, one for each source, and does not take so many"]
    except ValueError:  # one written in C has none to look at
        return []
    return []


def _sink_problems(pipeline: Pipeline, sink: object) -> list[str]:
    match sink:
        case ToTopic():
            return _topic_sink_problems(pipeline, sink)
        case ToTable():
            return _table_problems(pipeline, sink)
    return [f"expected ToTopic or ToTable, not {type(sink).__name__}"]


def _topic_sink_problems(pipeline: Pipeline, sink: ToTopic) -> list[str]:
    found = _given_elsewhere(sink.options, SINK_FIELDS)
    if not _is_topic(sink.topic):
        found.append(f"{sink.topic!r} cannot be the name of a topic")
    if sink.encode not in _ENCODINGS:
        found.append(f"encode is {sink.encode!r}; it can be {' or '.join(_ENCODINGS)}")
    if sink.key is not None and sink.encode == "columns":
        found.append("key= is for rows that are encoded; with encode='columns' a column key says it")
    if sink.key is not None and not sink.key.strip():
        found.append("key is empty: leave it out, or name a column")
    if not found:
        found += _option_problems("", lambda: parse_sink_options(sink_options(pipeline, sink), is_stream=True))
    return found


def _table_problems(pipeline: Pipeline, table: ToTable) -> list[str]:
    found = []
    if (table.path is None) == (table.name is None):
        found.append("give the path of a directory or the name of a table, one of them")
    if isinstance(table.partition_by, str):
        found.append(f"partition_by is a list of columns: [{table.partition_by!r}]")
    if table.path is not None and pipeline.output_mode != "append":
        found.append(
            f"files are only added: output_mode {pipeline.output_mode} needs a topic, or a table that can change"
        )
    return found


def _loops(pipeline: Pipeline) -> list[str]:
    """A pipeline that reads what it writes never ends."""
    read = {name.strip() for source in pipeline.sources for name in (source.topic or "").split(",")}
    written = [("sink", pipeline.sink.topic)] if isinstance(pipeline.sink, ToTopic) else []
    written += [("dead_letters", each.dead_letters) for each in pipeline.sources if each.dead_letters is not None]
    here = (
        all(each.bootstrap is None for each in pipeline.sources) and getattr(pipeline.sink, "bootstrap", None) is None
    )
    return [f"{what} writes to {topic}, which the pipeline reads" for what, topic in written if here and topic in read]


def _given_elsewhere(options: Mapping[str, object], fields: Mapping[str, str]) -> list[str]:
    return [
        f"the option {name} is said by {fields[name.lower()]}: leave it out"
        for name in options
        if name.lower() in fields
    ]


def _option_problems(where: str, parse: Callable[[], object]) -> list[str]:
    try:
        parse()
    except OptionError as error:
        return [f"{where}: {error}" if where else str(error)]
    return []


def _is_topic(name: str) -> bool:
    return bool(_TOPIC.fullmatch(name)) and name not in {".", ".."}
