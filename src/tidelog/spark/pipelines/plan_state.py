"""What of a transformation needs more than the rows of one batch, as Spark's analysed plan says it.

    stateful_parts(result)      what keeps state from batch to batch: windows, joins of streams, duplicates, functions with state
    unlike_a_stream(result)     what of it comes out otherwise when all rows are one batch

Spark has no other way to ask but its Java classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_STATEFUL = {
    "Aggregate": "an aggregation",
    "Distinct": "distinct rows",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "FlatMapGroupsWithState": "a function with state",
    "FlatMapGroupsInPandasWithState": "a function with state",
    "TransformWithState": "a function with state",
    "TransformWithStateInPandas": "a function with state",
    "TransformWithStateInPySpark": "a function with state",
    "Window": "a window function",
    "GlobalLimit": "a limit",
    "LocalLimit": "a limit",
    "Offset": "an offset",
    "Tail": "a limit",
    "Sort": "a sort",
    "Sample": "a sample",
    "Intersect": "an intersection",
    "Except": "a difference of rows",
}
# They go by the order in which rows come, by timers, or by a watermark that a batch does not have.
_UNLIKE = ("dropDuplicatesWithinWatermark", "a function with state")


def stateful_parts(rows: DataFrame) -> list[str]:
    """In words, each once; empty where a row comes of rows of its own batch alone, whichever these are."""
    found = []
    for node in _nodes(rows._jdf.queryExecution().analyzed()):  # noqa: SLF001
        name = node.getClass().getSimpleName()
        if name in _STATEFUL:
            found.append(_STATEFUL[name])
        elif name == "Join" and all(_has_topic(each) for each in _children(node)):
            found.append("a join of topics")
    return list(dict.fromkeys(found))


def unlike_a_stream(rows: DataFrame) -> list[str]:
    return [each for each in stateful_parts(rows) if each in _UNLIKE]


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for each in _children(plan):
        yield from _nodes(each)


def _children(plan: Any) -> list[Any]:
    found = plan.children()
    return [found.apply(index) for index in range(found.size())]


def _has_topic(plan: Any) -> bool:
    """Whether rows of it are read of the pipeline's sources: Spark reads no table of its own by a data source in Python."""
    return any("tidelog" in str(each.simpleString(100)) for each in _nodes(plan) if not _children(each))
