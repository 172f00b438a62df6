"""How far the queries of a pipeline are: what Spark reports after each batch, kept in a file for `tidelog pipeline status`.

The file lies in the checkpoint, a directory or an object store. It is written anew, as a whole, after each batch. The same is
beside it as metrics in Prometheus' text format, for an exporter that reads files, and how far behind queries were over time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from tidelog.model.metrics import Family, Kind
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles
from tidelog.spark.pipelines.expectations import ExpectationCount, counted, is_of_expectations
from tidelog.spark.watching.batch_report import BatchReport
from tidelog.spark.watching.lag_history import PipelineHistory
from tidelog.spark.watching.log_ends import LogEnds
from tidelog.spark.watching.query_figures import QueryFigures, advance
from tidelog.spark.watching.query_metrics import QUERY_METRICS, QueryMetric, SplitMetric, families, text_of

FILE_NAME = "progress.json"
METRICS_NAME = "metrics.prom"
HISTORY_NAME = "lag-history.json"
_VERSION = 1
_Left = TypeVar("_Left")


class QueryProgress(QueryFigures, frozen=True, kw_only=True):
    """One query of a pipeline."""

    is_stuck: bool = False
    """A decided batch is refused by a sink, or part of it is lost: it goes on only once a person has seen to it."""
    swept_files: int = 0
    """Staged and of no batch that counts, removed in this run."""
    swept_bytes: int = 0
    swept_rows: int = 0
    compacted_files: int = 0
    """Small files of tables that were made into fewer, in this run."""
    expired_snapshots: int = 0
    upkeep_failures: int = 0
    """Times that upkeep was left for later."""
    expectations: tuple[ExpectationCount, ...] = ()

    @property
    def run_violations(self) -> int:
        """Of all expectations: a row may have violated several."""
        return sum(each.violated for each in self.expectations)


class PipelineProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline's run."""

    version: int = _VERSION
    pipeline: str
    host: str
    pid: int
    queries: tuple[QueryProgress, ...]

    @property
    def is_alive(self) -> bool:
        """Whether the process that runs it is there, as far as this machine can tell."""
        if self.host != socket.gethostname():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def advance_progress(
    progress: QueryProgress, report: Mapping[str, Any], read: BatchReport, ends: LogEnds
) -> QueryProgress:
    """With one more of Spark's reports, as its JSON has it and as it is read: figures of any query, and expectations by their
    names."""
    progress = advance(progress, read, ends)
    if not read.rows:
        return progress
    return msgspec.structs.replace(
        progress,
        expectations=counted(progress.expectations, report.get("observedMetrics") or {}),
        observed={name: value for name, value in read.observed.items() if not is_of_expectations(name)},
    )


def write_progress(files: CheckpointFiles, progress: PipelineProgress) -> None:
    files.write(FILE_NAME, msgspec.json.format(msgspec.json.encode(progress), indent=1) + b"\n")
    files.write(METRICS_NAME, metrics_text(progress).encode())


def write_history(files: CheckpointFiles, history: PipelineHistory) -> None:
    files.write(HISTORY_NAME, msgspec.json.encode(history) + b"\n")


def metrics_text(*pipelines: PipelineProgress) -> str:
    """As Prometheus reads it. `tidelog_pipeline_stuck` is the one to be woken by."""
    return text_of(progress_families(lambda: pipelines))


def progress_families(pipelines: Callable[[], Iterable[PipelineProgress]]) -> list[Family]:
    """Of all queries of some pipelines, whenever somebody asks."""

    def queries() -> Iterator[tuple[tuple[str, ...], QueryProgress]]:
        for pipeline in pipelines():
            yield from (((pipeline.pipeline, each.query), each) for each in pipeline.queries)

    metrics: list[QueryMetric[QueryProgress] | SplitMetric[QueryProgress]] = [*_METRICS, *QUERY_METRICS]
    return families("tidelog_pipeline", metrics, ("pipeline", "query"), queries)


_METRICS: tuple[QueryMetric[QueryProgress] | SplitMetric[QueryProgress], ...] = (
    QueryMetric(
        Kind.GAUGE, "stuck", "A decided batch waits for a person to see to it.", lambda each: int(each.is_stuck)
    ),
    QueryMetric(
        Kind.COUNTER,
        "swept_files_total",
        "Staged files of no batch that counts, removed.",
        lambda each: each.swept_files,
    ),
    QueryMetric(Kind.COUNTER, "swept_bytes_total", "Their bytes.", lambda each: each.swept_bytes),
    QueryMetric(
        Kind.COUNTER, "swept_rows_total", "Staged rows of no batch that counts, removed.", lambda each: each.swept_rows
    ),
    QueryMetric(
        Kind.COUNTER, "expired_snapshots_total", "Snapshots of tables, expired.", lambda each: each.expired_snapshots
    ),
    QueryMetric(
        Kind.COUNTER,
        "upkeep_failures_total",
        "Times that upkeep was left for later.",
        lambda each: each.upkeep_failures,
    ),
    QueryMetric(
        Kind.COUNTER,
        "compacted_files_total",
        "Small files that were made into fewer.",
        lambda each: each.compacted_files,
    ),
    SplitMetric(
        Kind.COUNTER,
        "expectation_total",
        "Rows of this run for which an expectation holds, and those for which it does not.",
        ("of", "expectation", "action", "outcome"),
        lambda each: [
            ((found.of, found.name, found.action, outcome), count)
            for found in each.expectations
            for outcome, count in (("passed", found.passed), ("violated", found.violated))
        ],
    ),
)


def read_progress(files: CheckpointFiles) -> PipelineProgress | None:
    """What the last run has left; None if it has left nothing, or nothing that can be understood. OSError where the place cannot
    be reached."""
    return _decoded(files.read(FILE_NAME), PipelineProgress)


def read_history(files: CheckpointFiles) -> PipelineHistory | None:
    """As `read_progress`, of how far behind the queries were over time."""
    return _decoded(files.read(HISTORY_NAME), PipelineHistory)


def _decoded(content: bytes | None, kind: type[_Left]) -> _Left | None:
    try:
        return None if content is None else msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError:
        return None
