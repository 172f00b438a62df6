"""Rows of several origins, each with sinks of its own, as the one DataFrame that a query has.

one pass    all are made of the rows of one table, row by row: a column a sink, null where the row is not for it
union       else: the rows of each table in their turn, with the columns of the others null
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines.batch_rows import SinkRows
from tidelog.spark.pipelines.row_steps import RowStep, row_step


@dataclass(frozen=True, slots=True)
class Origin:
    """Rows, and what the sinks that take from them get."""

    rows: DataFrame
    sinks: Sequence[SinkRows]
    takes: Sequence[str] = ()
    """Names of the tables that the rows are made of at once."""


@dataclass(frozen=True, slots=True)
class Base:
    """Rows that several origins may be made of: those of a table, or of one origin alone."""

    name: str
    rows: DataFrame
    takes: Sequence[str] | None = None
    """Of an origin alone."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Sinks by the table that their rows are made of, one by one."""

    base: Base
    steps: Sequence[tuple[SinkRows, RowStep]]


def branches_of(origins: Sequence[Origin], bases: Sequence[Base]) -> list[Branch]:
    """Each origin with the first table that it is made of row by row. The last of them, at least, is the origin itself."""
    steps: dict[str, list[tuple[SinkRows, RowStep]]] = {}
    for number, origin in enumerate(origins):
        packed = origin.rows.select(*[each.struct.alias(f"s{index}") for index, each in enumerate(origin.sinks)])
        own = Base(f"origin {number}", packed, origin.takes)
        own_labels = {each.label for each in origin.sinks}
        for base in bases:
            # Two tables with one topic of dead letters: a row may be set apart by both, and a sink gets one row of each.
            is_free = own_labels.isdisjoint(sink.label for sink, _ in steps.get(base.name, ()))
            step = row_step(packed, base.rows) if is_free else None
            if step is not None:
                break
        else:
            base, step = own, RowStep([F.col(name) for name in packed.columns], None)
            bases = [*bases, own]
        found = steps.setdefault(base.name, [])
        found += [
            (replace(sink, origin=number), RowStep([column], step.condition))
            for sink, column in zip(origin.sinks, step.columns, strict=True)
        ]
    return [Branch(base, steps[base.name]) for base in bases if base.name in steps]


def joined(branches: Sequence[Branch], order: Sequence[str]) -> tuple[DataFrame, list[SinkRows]]:
    """The rows of all branches, and what each sink gets of them, in this order of their labels."""
    columns = {label: f"r{index}" for index, label in enumerate(order)}
    parts = []
    for branch in branches:
        own = {sink.label: _column(step).alias(columns[sink.label]) for sink, step in branch.steps}
        parts.append(branch.base.rows.select(*[own[label] for label in order if label in own]))
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    found = [
        replace(
            sink,
            fields=tuple((name, F.col(f"{columns[sink.label]}.`{name}`")) for name, _ in sink.fields),
            condition=f"{columns[sink.label]} IS NOT NULL",
        )
        for branch in branches
        for sink, _ in branch.steps
    ]
    by_label = {each.label: each for each in found}
    return rows, [by_label[label] for label in order]


def forks_of(
    branches: Sequence[Branch], takes: Mapping[str, Sequence[str]], by_row: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Tables that more than one branch, or table on the way to one, takes from. `takes` are the tables that each table is made
    of, by its name in small letters. Of those that are made `by_row` each taker takes from what they are made of."""
    takers: dict[str, set[str]] = {}

    def reach(name: str, taker: str) -> None:
        known = takers.setdefault(name.lower(), set())
        is_new = taker not in known
        known.add(taker)
        if is_new:
            for each in takes.get(name.lower(), ()):
                reach(each, taker if name.lower() in by_row else name.lower())

    for index, branch in enumerate(branches):
        for each in (branch.base.name,) if branch.base.takes is None else branch.base.takes:
            reach(each, f"branch {index}")
    return frozenset(name for name, found in takers.items() if len(found) > 1) - by_row


def _column(step: RowStep) -> Column:
    (column,) = step.columns
    return column if step.condition is None else F.when(step.condition, column)
