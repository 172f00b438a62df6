"""The mistakes in a pipeline's definition, all of them, as far as they show without Spark and without a cluster.

What SQL and schemas say about columns needs Spark: `query_plan` finds that, when the pipeline is planned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.declaration import Declaration, missing
from tidelog.spark.pipelines.definition import AVAILABLE_NOW, FromTopic, Pipeline
from tidelog.spark.pipelines.expectations import QUARANTINE
from tidelog.spark.pipelines.field_types import with_right_types
from tidelog.spark.pipelines.query_options import (
    CLIENT_FIELDS,
    SOURCE_FIELDS,
    as_text,
    dead_letter_options,
    source_options,
)
from tidelog.spark.pipelines.sink_validation import check_sinks, is_topic, parse_sink
from tidelog.spark.pipelines.sinks import ToTopic
from tidelog.spark.pipelines.view_validation import (
    VIEW_NAME,
    check_expectations,
    check_views,
    origin_problems,
    transform_problems,
)
from tidelog.spark.pipelines.views import View
from tidelog.spark.pipelines.watermark_validation import INTERVAL, check_watermark
from tidelog.spark.source.source_options import parse_source_options, stream_start

if TYPE_CHECKING:
    from tidelog.spark.pipelines.decoders import Decoder

# Names of topics have the same characters, and so may be part of a path.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_OUTPUT_MODES = ("append", "update", "complete")
_LOGIN = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")
# For an output mode that is wrong: what it would allow is not to be looked at.
UNKNOWN_MODE = ""


@dataclass(frozen=True, slots=True)
class CheckedPipeline:
    """What is wrong with a pipeline without Spark, and what is left for Spark to look at."""

    name: str
    problems: Sequence[str]
    """Sentences, without the pipeline's name."""
    sound: Pipeline
    """The same with stand-ins for what is wrong, so that one mistake hides no other."""
    unknown_sources: frozenset[int] = frozenset()
    """Those whose columns nobody knows, because their decoding is wrong."""
    unknown_views: frozenset[str] = frozenset()
    """Names of views that are not among the sound ones."""
    has_all_sources: bool = True
    has_transform: bool = True
    """False where it is neither SQL nor a function of so many sources."""
    has_sink: bool = True


def problems_of(pipelines: Sequence[Pipeline]) -> list[str]:
    """Every mistake of the pipelines of one file, each a sentence that begins with the pipeline's name."""
    return problems_of_file([check_pipeline(each) for each in pipelines])


def problems_of_file(checked: Sequence[CheckedPipeline]) -> list[str]:
    """The mistakes of each pipeline, and of all of them together."""
    found = [f"{each.name}: {problem}" for each in checked for problem in each.problems]
    pipelines = [each.sound for each in checked]
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


def wrong_arguments(pipeline: Pipeline) -> list[str]:
    """Arguments of the pipeline, its sources and its views that are missing, or none, or of a wrong type: with those nobody can
    work."""
    found = [f"{pipeline.name}: {each}" for each in with_right_types(pipeline)[1]]
    sources: Sequence[object] = pipeline.sources
    for each in sources:
        if isinstance(each, FromTopic):
            found += [f"{pipeline.name}: source: {problem}" for problem in with_right_types(each)[1]]
        elif each is not None:
            found.append(f"{pipeline.name}: source: expected FromTopic, not {type(each).__name__}")
    views: Sequence[object] = pipeline.views if isinstance(pipeline.views, list | tuple) else ()
    for index, each in enumerate(views):
        if isinstance(each, View):
            found += [f"{pipeline.name}: view {index + 1}: {problem}" for problem in with_right_types(each)[1]]
        else:
            found.append(f"{pipeline.name}: view {index + 1}: expected View, not {type(each).__name__}")
    return found


def check_pipeline(declared: Pipeline) -> CheckedPipeline:
    pipeline, found = with_right_types(declared)
    declared_views: Sequence[object] = pipeline.views
    pipeline = replace(pipeline, views=[each for each in declared_views if isinstance(each, View)])
    name = declared.name if isinstance(declared.name, str) else "a pipeline without a name"
    if name == pipeline.name and (not _NAME.fullmatch(name) or name in {".", ".."}):
        found.append(f"{name!r} cannot be the name of a pipeline: letters, digits, '.', '_' and '-', 200 at most")
    is_source_given = cast("object", declared.source) is not None
    if not (is_source_given and pipeline.sources) and not _is_told_missing("source", found):
        found.append("there is no source")
    sources: list[FromTopic] = []
    unknown = set()
    declared_sources: Sequence[object] = pipeline.sources if is_source_given else ()
    for index, source in enumerate(declared_sources):
        where = "source" if len(pipeline.sources) == 1 else f"source {index + 1}"
        if not isinstance(source, FromTopic):
            found.append(f"{where}: expected FromTopic, not {type(source).__name__}")
            continue
        sound, is_known, problems = _check_source(pipeline, source)
        found += [f"{where}: {problem}" for problem in problems]
        if not is_known:
            unknown.add(len(sources))
        sources.append(sound)
    has_sources = is_source_given and len(sources) == len(pipeline.sources)
    transform_wrong = transform_problems(pipeline, sources) if has_sources else []
    views = check_views(declared_views, sources)
    if has_sources:
        for view, times in Counter(source.view.lower() for source in sources).items():
            if times > 1:
                found.append(f"{times} sources have the name {view}: give one of them name=")
    found += views.problems
    found += transform_wrong
    pipeline = replace(pipeline, source=sources, views=views.views)
    is_sink_given = cast("object", declared.sink) is not None
    has_sinks = False
    if not is_sink_given and not _is_told_missing("sink", found):
        found.append("there is no sink")
    if is_sink_given:
        sinks, sink_problems = check_sinks(pipeline, _option_problems)
        found += sink_problems
        has_sinks = len(sinks) == len(pipeline.sinks) > 0
        if has_sources and has_sinks and not transform_wrong and not views.problems:
            found += origin_problems(pipeline, sinks)
        if has_sources and not sink_problems:
            found += _letter_problems(pipeline)
        pipeline = replace(pipeline, sink=sinks)
        if has_sources and pipeline.has_dead_letters and not any(isinstance(each, ToTopic) for each in sinks):
            found += [
                f"dead letters: {each}" for each in _option_problems(dead_letter_options(pipeline), {}, parse_sink)
            ]
        found += _loops(pipeline)
    found += _setting_problems(pipeline)
    if pipeline.output_mode not in _OUTPUT_MODES:
        pipeline = replace(pipeline, output_mode=UNKNOWN_MODE)
    return CheckedPipeline(
        name,
        found,
        pipeline,
        frozenset(unknown),
        has_all_sources=has_sources,
        unknown_views=views.unknown,
        has_transform=not transform_wrong,
        has_sink=has_sinks,
    )


def _is_told_missing(name: str, found: Sequence[str]) -> bool:
    return any(each.startswith(missing(Pipeline.__name__, name)) for each in found)


def _setting_problems(pipeline: Pipeline) -> list[str]:
    found = _given_elsewhere(pipeline.kafka, CLIENT_FIELDS)
    if pipeline.output_mode not in _OUTPUT_MODES:
        found.append(f"output_mode is {pipeline.output_mode!r}; it can be {', '.join(_OUTPUT_MODES)}")
    if pipeline.trigger is not None and pipeline.trigger != AVAILABLE_NOW and not INTERVAL.fullmatch(pipeline.trigger):
        found.append(f"trigger is {pipeline.trigger!r}; it is a time such as '10 seconds', or {AVAILABLE_NOW}")
    if pipeline.checkpoint is not None and not pipeline.checkpoint.strip():
        found.append("checkpoint is empty: name a directory")
    if not pipeline.master.strip():
        found.append("master is empty: local[*] is this machine")
    return found


def _check_source(pipeline: Pipeline, declared: FromTopic) -> tuple[FromTopic, bool, list[str]]:
    """A source that can be planned, whether its columns can be known, and its problems."""
    source, found = with_right_types(declared)
    is_known = source.decode is declared.decode
    if (source.topic is None) == (source.pattern is None):
        found.append("give a topic or a pattern, one of them")
        source = replace(source, topic=source.topic or "unknown", pattern=None)
    if source.pattern is not None and source.name is None:
        found.append("a pattern is no name for a table: give name= as well")
        is_known = False
    elif not VIEW_NAME.fullmatch(source.view):
        found.append(f"{source.view!r} cannot be the name of a table in SQL: give name=")
        is_known = False
    decoder_problems = _decoder_problems(source)
    found += decoder_problems
    is_known = is_known and not decoder_problems
    if declared.decode is None:
        if source.expect:
            found.append("expect is about columns, and without decode= there are none but record")
        if source.dead_letters is not None:
            found.append("dead_letters without decode=: no value can be broken")
    expectations, wrong = check_expectations(source.expectations)
    found += wrong
    if source.dead_letters is None and any(each.action == QUARANTINE for each in expectations.values()):
        found.append(
            "expect needs dead_letters=, a topic for what is not as expected, or another action than quarantine"
        )
    source = replace(source, expect=expectations)
    if source.dead_letters is not None and not is_topic(source.dead_letters):
        found.append(f"{source.dead_letters!r} cannot be the name of a topic")
    watermark, wrong = check_watermark(source.watermark)
    found += wrong
    source = replace(source, watermark=watermark)
    return _with_right_options(pipeline, source, found), is_known, found


def _decoder_problems(source: FromTopic) -> list[str]:
    decoder = source.decode
    if decoder is None:
        return []
    if isinstance(decoder, Declaration):
        sound, found = with_right_types(decoder)
        # Its own checks would report the same mistakes again.
        return found or cast("Decoder", sound).problems()
    return decoder.problems()


def _with_right_options(pipeline: Pipeline, source: FromTopic, found: list[str]) -> FromTopic:
    """The source without its options where one is wrong, which is added to `found`."""
    elsewhere = _given_elsewhere(source.options, SOURCE_FIELDS)
    found += elsewhere
    chosen = {name: value for name, value in source.options.items() if name.lower() not in SOURCE_FIELDS}
    own = replace(source, options={})
    wrong = _option_problems(
        source_options(pipeline, own, group_id="any"),
        as_text(chosen),
        lambda options: stream_start(parse_source_options(options)),
        lambda options: source_options(pipeline, replace(source, options=options), group_id="any"),
    )
    if "columns" in {name.lower() for name in chosen} and not wrong:
        wrong.append("columns would take away from record what a pipeline needs")
    found += wrong
    return own if elsewhere or wrong else source


def _letter_problems(pipeline: Pipeline) -> list[str]:
    """A topic of dead letters is one more sink."""
    labels = {each.label for each in pipeline.sinks} if pipeline.is_decided else set()
    return [
        f"dead_letters is {each}, which is the name of a sink as well: give that another one by name="
        for each in pipeline.dead_letter_topics
        if each in labels
    ]


def _loops(pipeline: Pipeline) -> list[str]:
    """A pipeline that reads what it writes never ends."""
    read = {name.strip() for source in pipeline.sources for name in (source.topic or "").split(",")}
    topics = [each for each in pipeline.sinks if isinstance(each, ToTopic)]
    written = [("sink", each.topic) for each in topics if each.bootstrap is None]
    if all(each.bootstrap is None for each in topics[:1]):
        written += [("dead_letters", each) for each in pipeline.dead_letter_topics]
    here = all(each.bootstrap is None for each in pipeline.sources)
    return [f"{what} writes to {topic}, which the pipeline reads" for what, topic in written if here and topic in read]


def _given_elsewhere(options: Mapping[str, object], fields: Mapping[str, str]) -> list[str]:
    return [
        f"the option {name} is said by {fields[name.lower()]}: leave it out"
        for name in options
        if name.lower() in fields
    ]


def _option_problems(
    own: Mapping[str, str],
    chosen: Mapping[str, str],
    parse: Callable[[Mapping[str, str]], object],
    together: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None,
) -> list[str]:
    """What is wrong with options: with the pipeline's own, with each that was chosen by itself, or else with all together."""

    def problem_of(options: Mapping[str, str]) -> str | None:
        try:
            parse(options)
        except OptionError as error:
            return str(error)
        return None

    whole = together or (lambda options: {**own, **options})
    first = problem_of(own)
    if first is not None:
        return [first]
    alone = {name: text for name, text in chosen.items() if not name.lower().startswith(_LOGIN)}
    # A login is several options, none of which makes sense alone.
    login = {name: text for name, text in chosen.items() if name not in alone}
    apart = [*({name: text} for name, text in alone.items()), *([login] if login else [])]
    each = [problem for options in apart if (problem := problem_of(whole(options))) is not None]
    if each:
        return list(dict.fromkeys(each))
    last = problem_of(whole(chosen))
    return [] if last is None else [last]
