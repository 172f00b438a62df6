"""The progress of pipelines as people see it: one table that stays in its place on a terminal, lines anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidelog.cli.admin_session import print_json, print_line
from tidelog.spark.pipelines.progress import PipelineProgress, QueryProgress

_COLOURS = {"running": "cyan", "caught up": "green", "stopped": "yellow", "failed": "red"}


class ProgressDisplay(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, pipelines: Sequence[PipelineProgress]) -> None: ...

    def say(self, sentence: str) -> None: ...


def progress_display(*, as_json: bool) -> ProgressDisplay:
    if as_json or not sys.stdout.isatty():
        return LineDisplay(as_json=as_json)
    return TableDisplay(Console())


class LineDisplay:
    """A line for each batch and each end of a query."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._shown: dict[str, tuple[str, int | None, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout.flush()

    def show(self, pipelines: Sequence[PipelineProgress]) -> None:
        for each in (query for pipeline in pipelines for query in pipeline.queries):
            mark = (each.state, each.batch_id, each.run_rows)
            if self._shown.get(each.query) == mark:
                continue
            self._shown[each.query] = mark
            if self._as_json:
                print_json([as_row(each)])
            else:
                print_line(as_line(each))
        sys.stdout.flush()

    def say(self, sentence: str) -> None:
        if not self._as_json:
            print_line(sentence)
            sys.stdout.flush()


class TableDisplay:
    """Drawn again after each batch."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, pipelines: Sequence[PipelineProgress]) -> None:
        self._live.update(as_table([query for pipeline in pipelines for query in pipeline.queries]), refresh=True)

    def say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False)


def as_table(queries: Sequence[QueryProgress]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("query")
    table.add_column("state")
    for title in ("batch", "rows", "rows/s", "in", "in all", "lag"):
        table.add_column(title, justify="right")
    for each in queries:
        table.add_row(
            each.query,
            Text(each.state, style=_COLOURS[each.state]),
            *("-" if each.batch_id is None else text for text in _figures(each)),
            "-" if each.lag is None else f"{each.lag:,}",
        )
    return table


def as_line(query: QueryProgress) -> str:
    if query.batch_id is None:
        return f"{query.query}: {query.state}, no rows so far"
    batch, rows, rate, seconds, total = _figures(query)
    lag = "" if query.lag is None else f", lag {query.lag:,}"
    odd = f", {query.run_violations:,} not as expected" if query.run_violations else ""
    return f"{query.query}: {query.state}, batch {batch}: {rows} rows in {seconds} ({rate} rows/s), {total} in all{lag}{odd}"


def as_row(query: QueryProgress) -> dict[str, str | int | float | None]:
    """One query for a program that reads."""
    return {
        "query": query.query,
        "query_id": query.query_id,
        "state": query.state,
        "error": query.error,
        "batch_id": query.batch_id,
        "batch_at": query.batch_at,
        "batch_rows": query.batch_rows,
        "batch_duration_ms": query.batch_duration_ms,
        "rows_per_second": round(query.rows_per_second, 1),
        "run_rows": query.run_rows,
        "lag": query.lag,
        "lag_ms": query.lag_ms,
        "caught_up_at_ms": query.caught_up_at_ms,
        "state_rows": query.state_rows,
        "state_bytes": query.state_bytes,
        "late_rows": query.late_rows,
        "is_stuck": query.is_stuck,
        "swept_files": query.swept_files,
        "swept_bytes": query.swept_bytes,
        "compacted_files": query.compacted_files,
        "run_violations": query.run_violations,
    }


def _figures(query: QueryProgress) -> tuple[str, str, str, str, str]:
    return (
        str(query.batch_id),
        f"{query.batch_rows:,}",
        f"{query.rows_per_second:,.0f}",
        f"{query.batch_duration_ms / 1000:.1f} s",
        f"{query.run_rows:,}",
    )
