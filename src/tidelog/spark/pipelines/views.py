"""Steps between sources and sinks: tables that SQL or a function makes of sources and of other views. Data, without Spark.

    View("clean", "SELECT * FROM orders WHERE id IS NOT NULL", expect={"it is dear": Expect("price > 1", "warn")})
    View("totals", totals)                                        def totals(clean): ..., a function of DataFrames

What a view takes from is in its SQL, or in the names of its function's parameters; so the order in which views are made follows,
and no file has to say it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from tidelog.spark.pipelines.declaration import Declaration, lenient
from tidelog.spark.pipelines.expectations import Expect, as_expectations
from tidelog.spark.pipelines.sql_text import tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.spark.pipelines.definition import Watermark

VIEWS_MAX = 100
"""Spark resolves each of them again in all that take from it."""


@lenient
@dataclass(frozen=True, slots=True)
class View(Declaration):
    """A table that others of the pipeline take from."""

    name: str
    query: str | Callable[..., DataFrame]
    """SQL over sources and views by their names; or a function, whose parameters have these names."""
    _: KW_ONLY
    expect: Mapping[str, str | Expect] = field(default_factory=dict)
    """As of a source. What is set apart has to have its `record` still."""
    dead_letters: str | None = None
    """The topic for what is set apart."""
    watermark: Watermark | None = None

    @property
    def expectations(self) -> dict[str, Expect]:
        return as_expectations(self.expect)


def parameters_of(function: Callable[..., object]) -> list[inspect.Parameter] | None:
    """None of one that is written in C, which has none to look at."""
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        return None


def taken_by(query: object, known: Sequence[str]) -> list[str]:
    """Those of the known tables that SQL or a function takes from, by name. What else it names is for Spark to find."""
    if isinstance(query, str):
        names = tables_of(query)
    elif callable(query):
        names = [each.name for each in parameters_of(query) or ()]
    else:
        names = []
    as_known = {each.lower(): each for each in known}
    return list(dict.fromkeys(as_known[each.lower()] for each in names if each.lower() in as_known))


def in_order(views: Sequence[View], known: Sequence[str]) -> tuple[list[View], list[list[str]]]:
    """Each behind all that it takes from, otherwise as declared; and circles, each by the names in it. What leads to a circle is
    not among the first. `known` are the names of sources and views."""
    by_name = {each.name: each for each in views}
    takes = {each.name: [name for name in taken_by(each.query, known) if name in by_name] for each in views}
    ordered: list[View] = []
    circles: list[list[str]] = []
    done: set[str] = set()
    bad: set[str] = set()

    def visit(name: str, way: list[str]) -> None:
        if name in way:
            circles.append(way[way.index(name) :])
            bad.update(way)
            return
        if name in done or name in bad:
            bad.update(way if name in bad else ())
            return
        for each in takes[name]:
            visit(each, [*way, name])
        if name not in bad:
            done.add(name)
            ordered.append(by_name[name])

    for each in views:
        visit(each.name, [])
    return ordered, circles
