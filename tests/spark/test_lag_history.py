"""How far behind a query was over time, in a bounded number of moments; and what the next run knows by it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from tidelog.spark.pipelines.progress import QueryProgress
from tidelog.spark.pipelines.query_watch import QueryWatch
from tidelog.spark.watching.batch_report import BatchReport, read_report
from tidelog.spark.watching.lag_history import SAMPLES_MAX, PipelineHistory, QueryHistory

START_MS = 1_794_000_000_000


def raw(at_ms: int, position: int, end: int, rows: int = 1, duration_ms: int = 0) -> dict[str, Any]:
    return {
        "batchId": 1,
        "timestamp": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(),
        "numInputRows": rows,
        "durationMs": {"triggerExecution": duration_ms},
        "sources": [{"endOffset": {"t": {"0": position}}, "latestOffset": {"t": {"0": end}}}],
    }


def report(at_ms: int, position: int, end: int, rows: int = 1) -> BatchReport:
    return read_report(raw(at_ms, position, end, rows))


def test_moments_grow_wider_and_the_worst_and_all_rows_stay() -> None:
    history = QueryHistory(query="q")
    for each in range(5 * SAMPLES_MAX):
        history = history.with_batch(report(START_MS + 1000 * each, 0, 5000 if each == 700 else each % 7), 10 * each)

    assert SAMPLES_MAX // 2 <= len(history.samples) <= SAMPLES_MAX
    assert history.step_ms == 8000
    assert sum(each.rows for each in history.samples) == 5 * SAMPLES_MAX
    assert max(each.lag for each in history.samples) == 5000
    assert history.samples[-1].lag_ms == 10 * (5 * SAMPLES_MAX - 1)
    assert [each.at_ms for each in history.samples] == sorted({each.at_ms for each in history.samples})
    assert len(msgspec.json.encode(history)) < 20_000


def test_a_clock_that_was_set_back_and_a_source_that_says_nothing() -> None:
    history = QueryHistory(query="q")
    for at_ms in (START_MS, START_MS + 60_000, START_MS + 30_000):
        history = history.with_batch(report(at_ms, 0, 1), None)
    assert [each.at_ms - START_MS for each in history.samples] == [0, 30_000]
    assert history.with_batch(read_report({"timestamp": "2026-01-01T00:00:00Z", "sources": [{}]}), None) is history
    assert history.with_batch(read_report({"sources": []}), None) is history


def test_the_next_run_knows_how_old_records_are_that_came_while_nobody_ran() -> None:
    def watch(history: QueryHistory) -> QueryWatch:
        return QueryWatch(QueryProgress(query="q", query_id="q", run_id="r"), history)

    first = watch(QueryHistory(query="q"))
    first.take(raw(START_MS, position=100, end=100))
    assert first.progress.lag_ms == 0
    kept = msgspec.json.decode(msgspec.json.encode(PipelineHistory((first.history,))), type=PipelineHistory)

    hour_ms = 3_600_000
    second = watch(kept.by_query["q"])
    second.take(raw(START_MS + hour_ms, position=125, end=200, duration_ms=1000))
    assert second.progress.lag_ms == hour_ms * 3 // 4 + 1000, "a quarter of what came in an hour is read"
    assert [each.lag for each in second.history.samples] == [0, 75]

    stranger = watch(QueryHistory(query="q"))
    stranger.take(raw(START_MS + hour_ms, position=125, end=200, duration_ms=1000))
    assert stranger.progress.lag_ms == 1000, "nothing is known but that it was there when it was looked"
