"""How far the queries of a pipeline are: what Spark reports after each batch, kept in a file for `tidelog pipeline status`.

The file lies in the checkpoint, where that is a directory of this machine. It is written anew, as a whole, after each batch.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidelog.spark.errors import OptionError
from tidelog.spark.source.partition_offsets import parse_offsets

FILE_NAME = "progress.json"
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
    )


def write_progress(checkpoint: str, progress: PipelineProgress) -> None:
    """Into a directory of this machine; a reader sees the old or the new one."""
    place = Path(checkpoint) / FILE_NAME
    place.parent.mkdir(parents=True, exist_ok=True)
    made = place.with_name(f".{FILE_NAME}.{os.getpid()}")
    made.write_bytes(msgspec.json.format(msgspec.json.encode(progress), indent=1) + b"\n")
    made.replace(place)


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
