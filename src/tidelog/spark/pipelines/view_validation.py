"""What is wrong with views, and with who takes from whom, as far as it shows without Spark: each by itself, then all together."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.model.config import did_you_mean
from tidelog.spark.pipelines.expectations import ACTIONS, EXPECTATIONS_MAX, QUARANTINE, WARN, Expect
from tidelog.spark.pipelines.field_types import with_right_types
from tidelog.spark.pipelines.sink_validation import is_topic
from tidelog.spark.pipelines.views import VIEWS_MAX, View, in_order, parameters_of, taken_by
from tidelog.spark.pipelines.watermark_validation import check_watermark

if TYPE_CHECKING:
    from tidelog.spark.pipelines.definition import FromTopic, Pipeline
    from tidelog.spark.pipelines.sinks import Sink

VIEW_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class CheckedViews(NamedTuple):
    views: Sequence[View]
    """Those that can be planned, each behind all that it takes from."""
    unknown: frozenset[str]
    """Names of the others, whose columns nobody knows."""
    problems: Sequence[str]


def check_views(declared: Sequence[object], sources: Sequence[FromTopic]) -> CheckedViews:
    if len(declared) > VIEWS_MAX:
        return CheckedViews((), frozenset(), [f"there are {len(declared)} views: a pipeline has {VIEWS_MAX} at most"])
    found: list[str] = []
    sound: dict[str, View] = {}
    wrong: set[str] = set()
    named = Counter(each.view.lower() for each in sources)
    views = [each for each in declared if isinstance(each, View)]
    known = [*(each.view for each in sources), *(each.name for each in views if _has_name(each))]
    for index, each in enumerate(declared):
        if not isinstance(each, View):
            found.append(f"view {index + 1}: expected View, not {type(each).__name__}")
            continue
        where = f"view {each.name}" if _has_name(each) else f"view {index + 1}"
        view, problems = _check_view(each)
        query_problems = _query_problems(each.query, known)
        found += [f"{where}: {problem}" for problem in (*problems, *query_problems)]
        named[view.name.lower()] += 1
        if named[view.name.lower()] == 2:
            found.append(f"{where}: another view or source has this name: each needs one of its own")
        if query_problems or not VIEW_NAME.fullmatch(view.name):
            wrong.add(view.name)
        sound.setdefault(view.name, view)
    ordered, circles = in_order([each for each in sound.values() if each.name not in wrong], known)
    found += [f"views take from each other in a circle: {', '.join([*each, each[0]])}" for each in circles]
    return CheckedViews(ordered, frozenset(set(sound) - {each.name for each in ordered}), found)


def origin_problems(pipeline: Pipeline, sinks: Sequence[Sink]) -> list[str]:
    """Of a pipeline whose sources, views and sinks are known: who takes from what is not there, and what nobody takes from."""
    known = pipeline.tables
    lower = {each.lower() for each in known}
    found = []
    for index, sink in enumerate(sinks):
        where = "sink" if len(sinks) == 1 else f"sink {index + 1}"
        if sink.of is not None and sink.of.lower() not in lower:
            found.append(f"{where}: of is {sink.of!r}, which is no source and no view{did_you_mean(sink.of, known)}")
        elif sink.of is None and pipeline.transform is None and len(known) > 1:
            found.append(
                f"{where}: without a transform it has to say what it takes from, of {', '.join(known)}: give of="
            )
    if pipeline.transform is not None and sinks and all(each.of is not None for each in sinks):
        found.append("no sink takes what the transformation gives: leave transform out, or of= at a sink")
    taken = {name.lower() for view in pipeline.views for name in taken_by(view.query, known)}
    taken |= {name.lower() for name in taken_by(pipeline.transform, known)}
    taken |= {each.of.lower() for each in sinks if each.of is not None}
    found += [
        f"view {each.name}: nobody takes from it: leave it out, or name it in a view, in transform or as of= of a sink"
        for each in pipeline.views
        if each.name.lower() not in taken
    ]
    return found


def transform_problems(pipeline: Pipeline, sources: Sequence[FromTopic]) -> list[str]:
    transform: object = pipeline.transform
    if transform is None:
        # With views, or where a sink says what it takes from, it is looked at with the sinks.
        has_graph = pipeline.views or any(getattr(each, "of", None) is not None for each in pipeline.sinks)
        return [] if len(sources) <= 1 or has_graph else ["several sources need a transform, which makes one of them"]
    if isinstance(transform, str):
        return [] if transform.strip() else ["transform is empty: leave it out, or write a SELECT"]
    if not callable(transform):
        return [f"transform is SQL or a function, not {type(transform).__name__}"]
    if pipeline.views:
        names = [each.name for each in pipeline.views if _has_name(each)]
        return [f"transform: {each}" for each in _parameter_problems(transform, [*(s.view for s in sources), *names])]
    try:
        inspect.signature(transform).bind(*sources)
    except TypeError:
        return [f"transform is given {len(sources)} DataFrames, one for each source, and does not take so many"]
    except ValueError:  # one written in C has none to look at
        return []
    return []


def check_expectations(declared: Mapping[str, Expect]) -> tuple[dict[str, Expect], list[str]]:
    """Those that Spark can look at, and what is wrong with the others."""
    if len(declared) > EXPECTATIONS_MAX:
        return {}, [f"there are {len(declared)} expectations: {EXPECTATIONS_MAX} are the most"]
    sound = {}
    found = []
    for name, each in declared.items():
        expectation, wrong = with_right_types(each)
        if expectation.action not in ACTIONS:
            wrong.append(f"action is {expectation.action!r}; it can be {', '.join(ACTIONS)}")
            expectation = replace(expectation, action=WARN)
        found += [f"expect {name!r}: {problem}" for problem in wrong]
        if expectation.condition.strip():
            sound[name] = expectation
        else:
            found.append(f"expect {name!r} has no condition")
    return sound, found


def _check_view(declared: View) -> tuple[View, list[str]]:
    view, found = with_right_types(declared)
    if view.name == declared.name and not VIEW_NAME.fullmatch(view.name):
        found.append(f"{view.name!r} cannot be the name of a table in SQL")
    expectations, wrong = check_expectations(view.expectations)
    found += wrong
    sets_apart = any(each.action == QUARANTINE for each in expectations.values())
    if sets_apart and view.dead_letters is None:
        found.append(
            "expect needs dead_letters=, a topic for what is not as expected, or another action than quarantine"
        )
    if view.dead_letters is not None and not sets_apart and not wrong:
        found.append("dead_letters without an expectation that sets rows apart: no row would go there")
    if view.dead_letters is not None and not is_topic(view.dead_letters):
        found.append(f"{view.dead_letters!r} cannot be the name of a topic")
    watermark, wrong = check_watermark(view.watermark)
    found += wrong
    return replace(view, expect=expectations, watermark=watermark), found


def _query_problems(query: object, known: Sequence[str]) -> list[str]:
    if query is None:
        return []
    if isinstance(query, str):
        return [] if query.strip() else ["its SQL is empty: write a SELECT"]
    if not callable(query):
        return [f"query is SQL or a function, not {type(query).__name__}"]
    return _parameter_problems(query, known)


def _parameter_problems(function: object, known: Sequence[str]) -> list[str]:
    assert callable(function)
    parameters = parameters_of(function)
    if parameters is None:
        return ["the names of the function's parameters are not to be had: write it in Python"]
    lower = {each.lower() for each in known}
    found = []
    for each in parameters:
        if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY}:
            stars = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
            found.append(
                f"the function takes {stars}{each.name}: its parameters are the names of sources and views, each by itself"
            )
        elif each.name.lower() not in lower and each.default is each.empty:
            found.append(
                f"the function takes {each.name}, which is no source and no view{did_you_mean(each.name, known)}"
            )
    return found


def _has_name(declared: object) -> bool:
    return isinstance(declared, View) and isinstance(declared.name, str)
