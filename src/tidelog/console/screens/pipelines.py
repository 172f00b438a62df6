"""Pipelines on Spark, as their own account tells of them: batches, rows, lag, dead letters, and transactions that are open.

What is read is the topic that every pipeline's driver writes its finished batches to, by the declarations of its records; no
Spark runs here. A pipeline that has finished no batch is not known, and whether one runs is told by when it last did.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from tidelog.client.admin import TransactionState
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, RefusedError
from tidelog.console.cluster.view import ClusterView
from tidelog.console.records.record_reading import read_record
from tidelog.console.records.topic_tail import TopicTail
from tidelog.console.serving.answers import Json
from tidelog.console.serving.api_error import ApiError
from tidelog.console.serving.call import Call, get
from tidelog.model.errors import ErrorCode

# Batches; a batch a second for some hours.
RECORDS_MAX = 20_000
PIPELINES_MAX = 500
BATCHES_SHOWN = 50
TOPICS_MAX = 2_000
# A query that reads finishes a batch far more often.
QUIET_S = 60.0


@dataclass(slots=True)
class _Pipeline:
    name: str
    query: str = ""
    batches: OrderedDict[int, Any] = field(default_factory=OrderedDict)
    """The newest entries of the newest query."""


class PipelineAccounts:
    """Of one view; kept from question to question, so that each batch is read once."""

    def __init__(self, topic: str) -> None:
        self._tail = TopicTail(TopicPartition(topic, 0), RECORDS_MAX)
        self.pipelines: OrderedDict[str, _Pipeline] = OrderedDict()
        self._are_letters: dict[str, bool] = {}
        """Whether the records of a sink's topic are dead letters, which they say themselves."""

    async def letter_topics(self, view: ClusterView, entry: Any) -> frozenset[str]:
        """The topics of a batch's sinks that take its dead letters."""
        from tidelog.spark.pipelines.dead_letter import PREFIX  # noqa: PLC0415 - as below

        for sink in entry.sinks:
            if sink.target in self._are_letters or not sink.ranges or not sink.rows or sink.cluster is not None:
                continue
            place = sink.ranges[0]
            try:
                row = await read_record(view, TopicPartition(place.topic, place.partition), place.start)
            except (ApiError, ClientError):
                continue
            if len(self._are_letters) < TOPICS_MAX:
                self._are_letters[sink.target] = any(name.startswith(PREFIX) for name, _ in row.headers)
        return frozenset(each.target for each in entry.sinks if self._are_letters.get(each.target))

    async def refresh(self, view: ClusterView) -> None:
        from tidelog.spark.sink.audit_entry import decode_audit  # noqa: PLC0415 - for those who look at pipelines

        for row in await self._tail.news(view):
            entry = decode_audit(row.value or b"")
            if entry is None:
                continue
            pipeline = self.pipelines.setdefault(entry.pipeline, _Pipeline(entry.pipeline))
            if pipeline.query != entry.query:
                # Begun anew with another checkpoint.
                pipeline.query = entry.query
                pipeline.batches.clear()
            pipeline.batches[entry.batch_id] = entry
            while len(pipeline.batches) > BATCHES_SHOWN:
                pipeline.batches.popitem(last=False)
            while len(self.pipelines) > PIPELINES_MAX:
                self.pipelines.popitem(last=False)


async def list_pipelines(call: Call) -> Json:
    try:
        from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC  # noqa: PLC0415 - the extra `spark`
        from tidelog.spark.sink.sink_participant import DEFAULT_PREFIX, parse_transactional_id  # noqa: PLC0415
    except ImportError as error:
        raise ApiError(
            501,
            "MISSING_EXTRA",
            f"{error.name} is not installed, which the accounts of pipelines are read with",
            "`pip install 'tidelog[spark]'`",
        ) from error
    view = call.view
    sampler = await view.sampled()
    if AUDIT_TOPIC not in sampler.topics:
        return []
    accounts = view.notes.setdefault("pipelines", PipelineAccounts(AUDIT_TOPIC))
    try:
        await accounts.refresh(view)
        listed = await view.admin.list_transactions(states=[TransactionState.ONGOING])
    except RefusedError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        raise
    open_by_query: dict[str, int] = {}
    for each in listed:
        parsed = parse_transactional_id(each.transactional_id, DEFAULT_PREFIX)
        if parsed is not None:
            open_by_query[parsed.identity.query] = open_by_query.get(parsed.identity.query, 0) + 1
    now_s = time.time()
    rows = []
    for each in sorted(accounts.pipelines.values(), key=lambda each: each.name):
        if each.batches:
            letters: set[str] = set()
            for entry in list(each.batches.values()):
                letters |= await accounts.letter_topics(view, entry)
            rows.append(_row(view, each, frozenset(letters), open_by_query.get(each.query, 0), now_s))
    return rows


def _row(view: ClusterView, pipeline: _Pipeline, letters: frozenset[str], open_transactions: int, now_s: float) -> Json:
    entries = list(pipeline.batches.values())
    last = entries[-1]
    since_s = max(0.0, now_s - last.finished_ms / 1000)
    lag, lag_seconds = _lag(view, last, now_s)
    return {
        "name": pipeline.name,
        "query": pipeline.query,
        "state": "finishes batches" if since_s < QUIET_S else "quiet",
        "seconds_since_batch": round(since_s, 1),
        "batches": last.batch_id + 1,
        "last_batch": {
            "id": last.batch_id,
            "started_ms": last.started_ms,
            "decided_ms": last.decided_ms,
            "finished_ms": last.finished_ms,
            "rows": sum(each.rows for each in last.sinks),
        },
        "rows_per_second": _rate(entries),
        "lag": lag,
        "lag_seconds": lag_seconds,
        "dead_letters": sum(each.rows for entry in entries for each in entry.sinks if each.target in letters),
        "dead_letters_of_batches": len(entries),
        "open_transactions": open_transactions,
        "code_version": last.code_version,
        "input": [
            {"topic": each.topic, "partition": each.partition, "start": each.start, "end": each.end}
            for each in last.input
        ],
        "sinks": [
            {
                "sink": each.sink,
                "kind": each.kind,
                "target": each.target,
                "rows": each.rows,
                "skipped": each.is_skipped,
                "ranges": [
                    {"topic": one.topic, "partition": one.partition, "start": one.start, "end": one.end}
                    for one in each.ranges
                ],
            }
            for each in last.sinks
        ],
        "history": [
            {"batch": each.batch_id, "finished_ms": each.finished_ms, "rows": sum(sink.rows for sink in each.sinks)}
            for each in entries
        ],
    }


def _lag(view: ClusterView, entry: Any, now_s: float) -> tuple[int | None, float | None]:
    """How far the batch's input ends before its topics do."""
    sampler = view.sampler
    lags, ages = [], []
    for each in entry.input:
        partition = TopicPartition(each.topic, each.partition)
        end = sampler.partitions.end(partition)
        if end is None:
            continue
        lags.append(max(0, end - each.end))
        if end > each.end:
            age = sampler.times.seconds(partition, each.end, now_s)
            if age is not None:
                ages.append(age)
    if not lags:
        return None, None
    return sum(lags), (max(ages) if ages else 0.0 if not sum(lags) else None)


def _rate(entries: list[Any]) -> float | None:
    if len(entries) < 2:
        return None
    length_s = (entries[-1].finished_ms - entries[0].finished_ms) / 1000
    rows = sum(sink.rows for each in entries[1:] for sink in each.sinks)
    return round(rows / length_s, 1) if length_s > 0 else None


async def batches_with(view: ClusterView, partition: TopicPartition, offset: int) -> list[Json]:
    """The batches that have read a record, or written it, of those that are known."""
    accounts = view.notes.get("pipelines")
    try:
        from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC  # noqa: PLC0415 - the extra `spark`

        if AUDIT_TOPIC not in view.sampler.topics:
            return []
        if accounts is None:
            accounts = view.notes.setdefault("pipelines", PipelineAccounts(AUDIT_TOPIC))
        await accounts.refresh(view)
    except (ImportError, ClientError):
        return []
    found: list[Json] = []
    for pipeline in accounts.pipelines.values():
        for entry in pipeline.batches.values():
            has_read = any(_holds(each, partition, offset) for each in entry.input)
            has_written = any(_holds(each, partition, offset) for sink in entry.sinks for each in sink.ranges)
            if has_read or has_written:
                found.append(
                    {
                        "pipeline": pipeline.name,
                        "query": entry.query,
                        "batch": entry.batch_id,
                        "finished_ms": entry.finished_ms,
                        "read": has_read,
                        "wrote": has_written,
                    }
                )
    return found


def _holds(each: Any, partition: TopicPartition, offset: int) -> bool:
    return bool(
        each.topic == partition.topic and each.partition == partition.partition and each.start <= offset < each.end
    )


ROUTES = [get("/pipelines", list_pipelines)]
