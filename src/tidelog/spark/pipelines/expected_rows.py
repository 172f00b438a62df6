"""Rows that are looked at as a pipeline expects them to be: a column for each expectation, counted by Spark as the rows go by."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines.expectations import Expect, count_names, observation_name

VIOLATED = "__violated"
"""How names of these columns begin."""


def violation(index: int) -> Column:
    """Whether the expectation of this number is violated; null where nothing is expected of the row."""
    return F.col(f"{VIOLATED}{index}")


def with_violations(rows: DataFrame, expectations: Mapping[str, Expect], is_exempt: Column) -> DataFrame:
    if not expectations:
        return rows
    # What is null is not as expected either.
    found = [
        F.when(~is_exempt, ~F.coalesce(F.expr(each.condition), F.lit(False))).alias(f"{VIOLATED}{index}")
        for index, each in enumerate(expectations.values())
    ]
    return rows.select("*", *found)


def observed(rows: DataFrame, of: str, expectations: Mapping[str, Expect]) -> DataFrame:
    """The same rows, counted as they go by. A plan may have them several times: it is one observation."""
    if not expectations:
        return rows
    counts = []
    for index in range(len(expectations)):
        violated, passed = count_names(index)
        counts += [F.count_if(violation(index)).alias(violated), F.count_if(~violation(index)).alias(passed)]
    return rows.observe(observation_name(of), *counts)


def failure(where: Column, expectation: str, what: str) -> Column:
    """An error that stops the query, and tells which row of `what` was not as expected."""
    return F.raise_error(F.concat(F.lit(f"{what}: the expectation {expectation!r} does not hold for "), where))
