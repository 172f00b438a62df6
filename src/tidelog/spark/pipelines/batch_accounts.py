"""What is known of a query's sinks before it runs, and what each of them has of a batch: its account, for the audit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidelog.spark.outputs.staged import StagedOutput, Target, sum_checksums
from tidelog.spark.pipelines.batch_rows import SinkRows
from tidelog.spark.pipelines.sink_targets import StagedSink
from tidelog.spark.pipelines.sink_writing import TaskMessage, TopicCluster, TopicPlan
from tidelog.spark.sink.audit_entry import PartitionRange, SinkAudit
from tidelog.spark.sink.sink_participant import DecidingCluster

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics of one cluster."""

    cluster: TopicCluster
    target: Target | None
    """As a decision names the cluster; None for that of the decisions."""

    def decided_at(self, cluster: DecidingCluster) -> TopicGroup:
        """With transactions that say so, where the decisions are not on this cluster."""
        return self if self.target is None else replace(self, cluster=replace(self.cluster, decided_at=cluster))

    @property
    def label(self) -> str:
        return ",".join(each.sink for each in self.cluster.sinks)


@dataclass(frozen=True, slots=True)
class QuerySinks:
    """All that is known of a query's sinks before it runs."""

    pipeline: str
    checkpoint: str
    """Of this query: the directory or URL that Spark has for it."""
    prefix: str
    rows: Sequence[SinkRows]
    """In the order in which batches end."""
    staged: Sequence[StagedSink]
    schemas: Mapping[str, pa.Schema]
    """Of the staged sinks' rows, by label."""
    topics: Sequence[TopicGroup]
    code_version: str = ""


def accounts_of(
    sinks: QuerySinks,
    staged: Sequence[StagedOutput],
    messages: Sequence[TaskMessage],
    ranges: Mapping[str, tuple[PartitionRange, ...]],
) -> list[SinkAudit]:
    """Of every sink, also of those that got nothing. `ranges` are offsets of topics, by sink, as far as they are known."""
    outputs = {each.sink: each for each in staged}
    found = [_of_staged(each, outputs.get(each.label), messages) for each in sinks.staged]
    for group in sinks.topics:
        found += [_of_topic(each, group.target, messages, ranges.get(each.sink, ())) for each in group.cluster.sinks]
    return found


def _of_staged(sink: StagedSink, output: StagedOutput | None, messages: Sequence[TaskMessage]) -> SinkAudit:
    target = sink.target
    place = f"{target.place} {target.table}".strip()
    if output is None:
        return SinkAudit(sink.label, target.kind, place, 0, 0)
    files = sum(len(each.staged[sink.label].files) for each in messages if sink.label in each.staged)
    return SinkAudit(sink.label, target.kind, place, output.rows, output.checksum, files=files, staged=output)


def _of_topic(
    topic: TopicPlan, cluster: Target | None, messages: Sequence[TaskMessage], ranges: tuple[PartitionRange, ...]
) -> SinkAudit:
    written = [rows for each in messages for rows in each.topics if rows.sink == topic.sink]
    return SinkAudit(
        topic.sink,
        "topic",
        topic.topic,
        sum(each.rows for each in written),
        sum_checksums(each.checksum for each in written),
        ranges if written else (),
        cluster,
    )
