"""How far the queries of a pipeline are: what Spark reports after each batch, kept in a file for `tidelog pipeline status`.

The file lies in the checkpoint, where that is a directory of this machine. It is written anew, as a whole, after each batch. The
same is beside it as metrics in Prometheus' text format, for an exporter that reads files.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.expectations import ExpectationCount, counted
from tidelog.spark.source.partition_offsets import parse_offsets

FILE_NAME = "progress.json"
METRICS_NAME = "metrics.prom"
_VERSION = 1

State = Literal["running", "caught up", "stopped", "failed"]


class QueryProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One query: all it has done in this run, and its last batch that had rows."""

    query: str
    """The name, also of the consumer group."""
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
    rows_per_second: float = 0.0
    run_rows: int = 0
    lag: int | None = None
    """Records that were there and not read yet when the last batch was planned."""
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


def advance(progress: QueryProgress, report: Mapping[str, Any]) -> QueryProgress:
    """With one of Spark's reports of progress, as its JSON has it. A report of no rows says only how far behind it is."""
    lag = _lag(report.get("sources", ()))
    rows = int(report.get("numInputRows", 0))
    if not rows:
        return msgspec.structs.replace(progress, lag=progress.lag if lag is None else lag)
    return msgspec.structs.replace(
        progress,
        batch_id=int(report["batchId"]),
        batch_at=str(report["timestamp"]),
        batch_rows=rows,
        batch_duration_ms=int(report.get("durationMs", {}).get("triggerExecution", 0)),
        rows_per_second=float(report.get("processedRowsPerSecond", 0.0)),
        run_rows=progress.run_rows + rows,
        lag=lag,
        expectations=counted(progress.expectations, report.get("observedMetrics") or {}),
    )


def write_progress(checkpoint: str, progress: PipelineProgress) -> None:
    """Into a directory of this machine; a reader sees the old or the new one."""
    _write(checkpoint, FILE_NAME, msgspec.json.format(msgspec.json.encode(progress), indent=1) + b"\n")
    _write(checkpoint, METRICS_NAME, metrics_text(progress).encode())


def _write(checkpoint: str, name: str, content: bytes) -> None:
    place = Path(checkpoint) / name
    place.parent.mkdir(parents=True, exist_ok=True)
    made = place.with_name(f".{name}.{os.getpid()}")
    made.write_bytes(content)
    made.replace(place)


def metrics_text(progress: PipelineProgress) -> str:
    """As Prometheus reads it. `tidelog_pipeline_stuck` is the one to be woken by."""
    lines = []
    for name, kind, about, value in _METRICS:
        lines += [f"# HELP tidelog_pipeline_{name} {about}", f"# TYPE tidelog_pipeline_{name} {kind}"]
        for each in progress.queries:
            found = value(each)
            if found is not None:
                labels = f'pipeline="{progress.pipeline}",query="{each.query}"'
                lines.append(f"tidelog_pipeline_{name}{{{labels}}} {found}")
    return "\n".join([*lines, *_expectation_lines(progress)]) + "\n"


def _expectation_lines(progress: PipelineProgress) -> list[str]:
    name = "tidelog_pipeline_expectation_total"
    lines = []
    for query in progress.queries:
        for each in query.expectations:
            said = {
                "pipeline": progress.pipeline,
                "query": query.query,
                "of": each.of,
                "expectation": each.name,
                "action": each.action,
            }
            labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in said.items())
            lines += [
                f'{name}{{{labels},outcome="passed"}} {each.passed}',
                f'{name}{{{labels},outcome="violated"}} {each.violated}',
            ]
    if not lines:
        return []
    about = "Rows of this run for which an expectation holds, and those for which it does not."
    return [f"# HELP {name} {about}", f"# TYPE {name} counter", *lines]


def _escaped(text: str) -> str:
    """As a label holds it. Whoever names an expectation may write anything."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


_METRICS: tuple[tuple[str, str, str, Callable[[QueryProgress], float | None]], ...] = (
    ("stuck", "gauge", "A decided batch waits for a person to see to it.", lambda each: int(each.is_stuck)),
    ("failed", "gauge", "The query has stopped with an error.", lambda each: int(each.state == "failed")),
    ("batch", "gauge", "The last batch that had rows.", lambda each: each.batch_id),
    ("rows_total", "counter", "Rows that this run has read.", lambda each: each.run_rows),
    ("lag", "gauge", "Records that were not read yet when the last batch was planned.", lambda each: each.lag),
    ("swept_files_total", "counter", "Staged files of no batch that counts, removed.", lambda each: each.swept_files),
    ("swept_bytes_total", "counter", "Their bytes.", lambda each: each.swept_bytes),
    ("swept_rows_total", "counter", "Staged rows of no batch that counts, removed.", lambda each: each.swept_rows),
    ("expired_snapshots_total", "counter", "Snapshots of tables, expired.", lambda each: each.expired_snapshots),
    ("upkeep_failures_total", "counter", "Times that upkeep was left for later.", lambda each: each.upkeep_failures),
    ("compacted_files_total", "counter", "Small files that were made into fewer.", lambda each: each.compacted_files),
)


def read_progress(checkpoint: str) -> PipelineProgress | None:
    """What the last run has left; None if it has left nothing that can be read here."""
    try:
        return msgspec.json.decode((Path(checkpoint) / FILE_NAME).read_bytes(), type=PipelineProgress)
    except (OSError, msgspec.DecodeError):
        return None


def _lag(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """What is left to read of all sources; None where one does not say it."""
    lag = 0
    for source in sources:
        try:
            end, latest = (parse_offsets(name, _text(source.get(name))) for name in ("endOffset", "latestOffset"))
        except OptionError:
            return None
        lag += sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())
    return lag


def _text(offsets: object) -> str:
    """Offsets are JSON in Spark's JSON, as text or as an object."""
    return offsets if isinstance(offsets, str) else json.dumps(offsets)
