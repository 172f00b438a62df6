"""The lineage of one run of a pipeline's query: which event is due when, and of what it tells."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

from tidelog.model.clock import Clock
from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.lineage.datasets import (
    Beside,
    Dataset,
    dead_letter_topics,
    sink_dataset,
    source_topics,
)
from tidelog.spark.pipelines.lineage.run_events import Input, Job, Output, run_event
from tidelog.spark.pipelines.progress import QueryProgress
from tidelog.spark.source.partition_offsets import parse_offsets

DEFAULT_NAMESPACE = "tidelog"
# A stream has batches for ever: collectors keep every event.
BATCH_INTERVAL_MS = 60_000


class Events(Protocol):
    """`EventSender`, as far as it is needed here."""

    def send(self, event: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the events of a run of pipelines go, and what all of them say."""

    events: Events
    namespace: str
    spark_version: str
    clock: Clock

    def of(self, pipeline: Pipeline, query: str, beside: Beside) -> RunLineage:
        return RunLineage(self, pipeline, query, beside)


class RunLineage:
    """Of one query. `started`, then `took` for each of Spark's reports and `looked` behind them, and at its end once more."""

    def __init__(self, lineage: Lineage, pipeline: Pipeline, query: str, beside: Beside) -> None:
        self._lineage = lineage
        self._pipeline = pipeline
        self._outputs = _outputs(pipeline, query, beside)
        adapter = version("tidelog")
        self._job = Job(
            lineage.namespace,
            query,
            pipeline.transform if isinstance(pipeline.transform, str) else None,
            f"urn:tidelog:{adapter}",
            lineage.spark_version,
            adapter,
        )
        self._rows: dict[str, int | None] = {}
        """Of each topic that was seen; None where Spark's counts do not tell its rows from others'."""
        self._told_ms = 0
        self._told_batches = 0

    def started(self, progress: QueryProgress) -> None:
        self._tell(progress, {}, is_first=True)

    def took(self, report: Mapping[str, Any]) -> None:
        """One of Spark's reports, as its JSON has it."""
        seen: set[str] = set()
        for source in report.get("sources") or ():
            topics = _topics(source.get("endOffset"))
            rows = source.get("numInputRows")
            for topic in topics:
                before = self._rows.get(topic, 0)
                is_told = len(topics) == 1 and topic not in seen and before is not None and isinstance(rows, int)
                self._rows[topic] = before + rows if is_told else None
                seen.add(topic)

    def looked(self, progress: QueryProgress, written: Mapping[str, int]) -> None:
        """`written` are the rows of this run that count, by sink, as far as they are known."""
        is_due = self._lineage.clock.monotonic_ms() - self._told_ms >= BATCH_INTERVAL_MS
        has_news = progress.run_batches > self._told_batches
        if progress.state != "running" or (is_due and has_news):
            self._tell(progress, written)

    def _tell(self, progress: QueryProgress, written: Mapping[str, int], *, is_first: bool = False) -> None:
        self._told_ms = self._lineage.clock.monotonic_ms()
        self._told_batches = progress.run_batches
        outputs = [Output(dataset, written.get(label)) for label, dataset in self._outputs]
        at_ms = self._lineage.clock.now_ms()
        self._lineage.events.send(
            run_event(self._job, progress, self._inputs(), outputs, at_ms=at_ms, is_first=is_first)
        )

    def _inputs(self) -> list[Input]:
        found: dict[Dataset, Input] = {}
        for source in self._pipeline.sources:
            for each in source_topics(self._pipeline, source, self._seen_by(source)):
                # Two clusters may have a topic of one name each, of which Spark tells no more than the name.
                is_alone = all(other.name != each.name for other in found)
                found[each] = Input(each, self._rows.get(each.name) if is_alone else None)
        return list(found.values())

    def _seen_by(self, source: FromTopic) -> list[str]:
        if source.pattern is None:
            return []
        pattern = source.pattern
        return [each for each in self._rows if re.fullmatch(pattern, each)]


def _topics(offsets: object) -> list[str]:
    """Of one source; none where it is no topic."""
    try:
        # Offsets are JSON in Spark's JSON, as text or as an object.
        found = parse_offsets("endOffset", offsets if isinstance(offsets, str) else json.dumps(offsets))
    except OptionError:
        return []
    return sorted({each.topic for each in found})


def _outputs(pipeline: Pipeline, query: str, beside: Callable[[str], str]) -> Sequence[tuple[str, Dataset]]:
    if query == pipeline.dead_letters_query:
        return [(each.name, each) for each in dead_letter_topics(pipeline)]
    # By a query of their own only beside a sink of Spark's, and in older checkpoints.
    dead = [(each.name, each) for each in dead_letter_topics(pipeline)] if pipeline.is_decided else []
    return [*((each.label, sink_dataset(pipeline, each, beside)) for each in pipeline.sinks), *dead]
