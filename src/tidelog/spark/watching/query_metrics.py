"""Figures of queries as Prometheus reads them: families of numbers, each with the names of the query as labels.

Whoever has more to tell of a query adds metrics of its own; a prefix says whose they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from tidelog.model.metrics import Family, Kind, Reading
from tidelog.model.metrics_text import render
from tidelog.spark.watching.query_figures import QueryFigures

F = TypeVar("F", bound=QueryFigures)
F_contra = TypeVar("F_contra", bound=QueryFigures, contravariant=True)

# Parts of a metric by more labels: their values, and the number.
Parts: TypeAlias = Iterable[tuple[tuple[str, ...], float]]


class QueryMetric(NamedTuple, Generic[F_contra]):
    """One number of a query."""

    kind: Kind
    name: str
    help: str
    read: Callable[[F_contra], float | None]
    """None where it is not known."""


class SplitMetric(NamedTuple, Generic[F_contra]):
    """A number of a query for each of some parts."""

    kind: Kind
    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[F_contra], Parts]


QUERY_METRICS: tuple[QueryMetric[QueryFigures] | SplitMetric[QueryFigures], ...] = (
    QueryMetric(Kind.GAUGE, "failed", "The query has stopped with an error.", lambda each: int(each.state == "failed")),
    QueryMetric(Kind.GAUGE, "running", "The query runs.", lambda each: int(each.state == "running")),
    QueryMetric(
        Kind.GAUGE, "lag", "Records that were not read yet when the last batch was planned.", lambda each: each.lag
    ),
    QueryMetric(
        Kind.GAUGE,
        "lag_seconds",
        "How old the oldest record may be that was not read when the last batch was done.",
        lambda each: _seconds(each.lag_ms),
    ),
    QueryMetric(
        Kind.GAUGE,
        "caught_up_timestamp_seconds",
        "The moment up to which everything is read that was there then.",
        lambda each: _seconds(each.caught_up_at_ms),
    ),
    QueryMetric(Kind.GAUGE, "batch", "The last batch that had rows.", lambda each: each.batch_id),
    QueryMetric(Kind.GAUGE, "batch_rows", "The rows of the last batch that had some.", lambda each: each.batch_rows),
    QueryMetric(
        Kind.GAUGE, "batch_seconds", "How long that batch took.", lambda each: _seconds(each.batch_duration_ms)
    ),
    SplitMetric(
        Kind.GAUGE,
        "batch_phase_seconds",
        "How long each part of that batch took, by Spark's names.",
        ("phase",),
        lambda each: _in_seconds(each.batch_phases_ms),
    ),
    QueryMetric(
        Kind.GAUGE, "rows_per_second", "How fast the rows of that batch were done.", lambda each: each.rows_per_second
    ),
    QueryMetric(Kind.COUNTER, "rows_total", "Rows that this run has read.", lambda each: each.run_rows),
    QueryMetric(
        Kind.COUNTER, "batches_total", "Batches with rows that this run has done.", lambda each: each.run_batches
    ),
    QueryMetric(
        Kind.COUNTER,
        "batch_seconds_total",
        "How long all batches of this run took.",
        lambda each: _seconds(each.run_duration_ms),
    ),
    SplitMetric(
        Kind.COUNTER,
        "batch_phase_seconds_total",
        "How long each part of all batches took.",
        ("phase",),
        lambda each: _in_seconds(each.run_phases_ms),
    ),
    QueryMetric(Kind.GAUGE, "state_rows", "Rows that are kept as state.", lambda each: each.state_rows),
    QueryMetric(Kind.GAUGE, "state_bytes", "Memory that state takes.", lambda each: each.state_bytes),
    QueryMetric(
        Kind.COUNTER, "late_rows_total", "Rows dropped since their watermark had passed.", lambda each: each.late_rows
    ),
    QueryMetric(
        Kind.GAUGE,
        "watermark_timestamp_seconds",
        "The event time before which rows are late.",
        lambda each: _seconds(each.watermark_ms),
    ),
    SplitMetric(
        Kind.GAUGE,
        "observed",
        "What DataFrame.observe has counted in the last batch with rows.",
        ("name",),
        lambda each: [((name,), value) for name, value in each.observed.items()],
    ),
)


def families(
    prefix: str,
    metrics: Sequence[QueryMetric[F] | SplitMetric[F]],
    labels: tuple[str, ...],
    queries: Callable[[], Iterable[tuple[tuple[str, ...], F]]],
) -> list[Family]:
    """`queries` gives the values of the labels of each query, and its figures, whenever somebody asks."""
    return [
        Family(
            each.kind,
            f"{prefix}_{each.name}",
            each.help,
            (*labels, *each.labels) if isinstance(each, SplitMetric) else labels,
            partial(_readings, each, queries),
        )
        for each in metrics
    ]


def text_of(found: Iterable[Family]) -> str:
    return b"".join(render(found)).decode()


def _readings(
    metric: QueryMetric[F] | SplitMetric[F], queries: Callable[[], Iterable[tuple[tuple[str, ...], F]]]
) -> list[Reading]:
    readings: list[Reading] = []
    for values, figures in queries():
        if isinstance(metric, SplitMetric):
            readings += [((*values, *part), value) for part, value in metric.read(figures)]
        else:
            value = metric.read(figures)
            if value is not None:
                readings.append((values, value))
    return readings


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _in_seconds(parts_ms: dict[str, int]) -> Parts:
    return [((name,), ms / 1000) for name, ms in parts_ms.items()]
