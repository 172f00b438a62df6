"""What is known of a query that runs or has run: all it has done in this run, and its last batch that had rows."""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from tidelog.spark.watching.batch_report import BatchReport
from tidelog.spark.watching.log_ends import LogEnds

State = Literal["running", "caught up", "stopped", "failed"]


class QueryFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a query."""

    query: str
    """The name, also of the consumer group of a pipeline."""
    query_id: str
    """Spark's, the same after a restart: what `tidelog pipeline recover` takes."""
    run_id: str
    state: State = "running"
    error: str | None = None
    batch_id: int | None = None
    batch_at: str | None = None
    """When the last batch with rows began."""
    batch_rows: int = 0
    batch_duration_ms: int = 0
    batch_phases_ms: dict[str, int] = {}
    """Its parts, by Spark's names."""
    rows_per_second: float = 0.0
    run_batches: int = 0
    run_rows: int = 0
    run_duration_ms: int = 0
    run_phases_ms: dict[str, int] = {}
    lag: int | None = None
    """Records that were there and not read yet when the last batch was planned."""
    lag_ms: int | None = None
    """How old the oldest record may be that was not read when the last batch was done."""
    caught_up_at_ms: int | None = None
    """The moment up to which everything is read that was there then: `log_ends`."""
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    """Dropped in this run, since they came after their watermark."""
    watermark_ms: int | None = None
    observed: dict[str, float] = {}
    """Of the last batch: what `DataFrame.observe` has counted."""


F = TypeVar("F", bound=QueryFigures)


def advance(figures: F, report: BatchReport, ends: LogEnds) -> F:
    """With one more of Spark's reports. One of no rows says only how far behind the query is, and what it keeps."""
    caught_up_at_ms, lag_ms = figures.caught_up_at_ms, figures.lag_ms
    if report.at_ms is not None and report.position is not None and report.ends is not None:
        ends.look(report.at_ms, report.ends)
        caught_up_at_ms = ends.caught_up_at_ms(report.position)
        if caught_up_at_ms is not None:
            done_at_ms = report.at_ms + (report.duration_ms if report.rows else 0)
            lag_ms = max(0, done_at_ms - caught_up_at_ms)
    figures = msgspec.structs.replace(
        figures,
        lag=figures.lag if report.lag is None else report.lag,
        lag_ms=lag_ms,
        caught_up_at_ms=caught_up_at_ms,
        state_rows=report.state_rows or figures.state_rows,
        state_bytes=report.state_bytes or figures.state_bytes,
        late_rows=figures.late_rows + report.late_rows,
        watermark_ms=figures.watermark_ms if report.watermark_ms is None else report.watermark_ms,
    )
    if not report.rows:
        return figures
    return msgspec.structs.replace(
        figures,
        batch_id=report.batch_id,
        batch_at=report.at,
        batch_rows=report.rows,
        batch_duration_ms=report.duration_ms,
        batch_phases_ms=report.phases_ms,
        rows_per_second=report.rows_per_second,
        run_batches=figures.run_batches + 1,
        run_rows=figures.run_rows + report.rows,
        run_duration_ms=figures.run_duration_ms + report.duration_ms,
        run_phases_ms=_sum(figures.run_phases_ms, report.phases_ms),
        observed=report.observed,
    )


def idle(figures: F, at_ms: int) -> F:
    """At a moment at which Spark has looked for more to read and found nothing."""
    if figures.lag is None or figures.state != "running":
        return figures
    return msgspec.structs.replace(figures, lag=0, lag_ms=0, caught_up_at_ms=at_ms)


def _sum(total: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return {name: total.get(name, 0) + more.get(name, 0) for name in sorted({*total, *more})}
