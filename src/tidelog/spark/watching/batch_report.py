"""One of Spark's reports of a query's progress, as its JSON has it, read for what is watched. Pure.

Spark reports after each batch, and of a query that has nothing to do every ten seconds. What a report does not have, or has in
another form, is left out: releases of Spark differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidelog.spark.errors import OptionError
from tidelog.spark.source.partition_offsets import parse_offsets
from tidelog.spark.watching.log_ends import Offsets, PartitionKey


class BatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is watched of a report."""

    batch_id: int | None
    at: str
    """When it began, as Spark writes it."""
    at_ms: int | None
    rows: int
    rows_per_second: float
    duration_ms: int
    phases_ms: dict[str, int]
    """The parts of the batch by Spark's names, such as addBatch."""
    position: Offsets | None
    """Where the batch ends; None where a source is no topic."""
    ends: Offsets | None
    """Where the logs ended when it was planned."""
    state_rows: int
    state_bytes: int
    late_rows: int
    """Those that came after their watermark, and were dropped."""
    watermark_ms: int | None
    observed: dict[str, float]
    """Numbers of `DataFrame.observe`, as observation.column."""

    @property
    def lag(self) -> int | None:
        """Records that were there and are not read."""
        if self.position is None or self.ends is None:
            return None
        return sum(max(0, end - self.position.get(key, 0)) for key, end in self.ends.items())


def read_report(report: Mapping[str, Any]) -> BatchReport:
    sources = _items(report.get("sources"))
    durations = _whole_numbers(report.get("durationMs"))
    operators = _items(report.get("stateOperators"))
    at = str(report.get("timestamp", ""))
    return BatchReport(
        batch_id=report["batchId"] if isinstance(report.get("batchId"), int) else None,
        at=at,
        at_ms=moment_ms(at),
        rows=_whole(report.get("numInputRows")),
        rows_per_second=_number(report.get("processedRowsPerSecond")),
        duration_ms=durations.get(_WHOLE_BATCH, 0),
        phases_ms={name: value for name, value in durations.items() if name != _WHOLE_BATCH},
        position=_offsets(sources, "endOffset"),
        ends=_offsets(sources, "latestOffset"),
        state_rows=sum(_whole(each.get("numRowsTotal")) for each in operators),
        state_bytes=sum(_whole(each.get("memoryUsedBytes")) for each in operators),
        late_rows=sum(_whole(each.get("numRowsDroppedByWatermark")) for each in operators),
        watermark_ms=_watermark_ms(report.get("eventTime")),
        observed=_observed(report.get("observedMetrics")),
    )


def whole_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """The same with what Spark Connect leaves to its client: sums over all sources, and what was observed by name."""
    found = dict(report)
    sources = _items(report.get("sources"))
    for name in ("numInputRows", "processedRowsPerSecond"):
        if name not in found:
            found[name] = sum(_number(each.get(name)) for each in sources)
    observed = report.get("observedMetrics")
    if isinstance(observed, Mapping):
        found["observedMetrics"] = {name: _by_name(columns) for name, columns in observed.items()}
    return found


def _by_name(columns: object) -> object:
    """A row of Spark's as its columns; what has them already as it is."""
    if not isinstance(columns, Mapping) or set(columns) != {"values", "schema"}:
        return columns
    fields = _items(columns["schema"].get("fields")) if isinstance(columns["schema"], Mapping) else []
    return {str(each.get("name")): value for each, value in zip(fields, columns["values"], strict=False)}


_WHOLE_BATCH = "triggerExecution"


def moment_ms(text: str) -> int | None:
    """Milliseconds since 1970 of a time as Spark writes it."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None


def _watermark_ms(event_time: object) -> int | None:
    text = event_time.get("watermark") if isinstance(event_time, Mapping) else None
    moment = moment_ms(text) if isinstance(text, str) else None
    # Spark has one of 1970 before there is any.
    return moment or None


def _offsets(sources: Sequence[Mapping[str, Any]], name: str) -> dict[PartitionKey, int] | None:
    found: dict[PartitionKey, int] = {}
    for index, source in enumerate(sources):
        given = source.get(name)
        try:
            # Offsets are JSON in Spark's JSON, as text or as an object.
            offsets = parse_offsets(name, given if isinstance(given, str) else json.dumps(given))
        except OptionError:
            return None
        found |= {(index, each.topic, each.partition): offset for each, offset in offsets.items()}
    return found


def _observed(observed: object) -> dict[str, float]:
    if not isinstance(observed, Mapping):
        return {}
    return {
        f"{name}.{column}": float(value)
        for name, columns in observed.items()
        if isinstance(columns, Mapping)
        for column, value in columns.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _items(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _whole_numbers(value: object) -> dict[str, int]:
    return {str(name): _whole(each) for name, each in value.items()} if isinstance(value, Mapping) else {}


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
