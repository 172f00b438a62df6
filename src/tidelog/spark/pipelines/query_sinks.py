"""The sinks of a query as its batches need them, made of a pipeline and its plan; looked at and prepared before it starts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidelog.client.errors import ClientError
from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.outputs.kind import OutputKind, kind_of
from tidelog.spark.pipelines.batch_accounts import QuerySinks, TopicGroup
from tidelog.spark.pipelines.batch_rows import SinkRows
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.query_options import cluster_of, decision_options, letter_sinks, sink_options
from tidelog.spark.pipelines.sink_targets import Beside, StagedSink, cluster_target, staged_sinks
from tidelog.spark.pipelines.sink_writing import TopicCluster, TopicPlan
from tidelog.spark.pipelines.sinks import ToTopic
from tidelog.spark.sink.sink_decisions import deciding_cluster
from tidelog.spark.sink.sink_options import SinkOptions, parse_sink_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def query_sinks(
    pipeline: Pipeline,
    rows: Sequence[SinkRows],
    *,
    checkpoint: str,
    query: str,
    beside: Beside,
    code_version: str = "",
) -> QuerySinks:
    """`checkpoint` is the pipeline's, `query` the name of its query, which has a directory there."""
    staged = staged_sinks(pipeline, checkpoint, beside)
    schemas = {each.label: arrow_schema(each.schema) for each in rows}
    return QuerySinks(
        pipeline=pipeline.name,
        checkpoint=f"{checkpoint}/{query}",
        prefix=decider_options(pipeline).prefix,
        rows=tuple(rows),
        staged=tuple(staged),
        schemas={each.label: schemas[each.label] for each in staged},
        topics=tuple(topic_groups(pipeline, [each.label for each in rows])),
        code_version=code_version,
    )


def decider_options(pipeline: Pipeline) -> SinkOptions:
    """What whoever decides is told, as the sink of a topic is."""
    return parse_sink_options(decision_options(pipeline), is_stream=True)


def topic_groups(pipeline: Pipeline, labels: Sequence[str]) -> list[TopicGroup]:
    """Topics by cluster, in declared order. `labels` are those of all sinks, in the order of their columns."""
    groups: dict[str, list[ToTopic]] = {}
    for each in (*pipeline.sinks, *letter_sinks(pipeline)):
        # Dead letters that are a query of their own are not among them.
        if isinstance(each, ToTopic) and each.label in labels:
            groups.setdefault(cluster_of(pipeline, each), []).append(each)
    found = []
    for sinks in groups.values():
        options = [parse_sink_options(sink_options(pipeline, each), is_stream=True) for each in sinks]
        plans = tuple(
            TopicPlan(each.label, labels.index(each.label), each.topic, parsed.includes_timestamp)
            for each, parsed in zip(sinks, options, strict=True)
        )
        shared = replace(options[0], topic=None, includes_timestamp=any(each.includes_timestamp for each in options))
        found.append(TopicGroup(TopicCluster(shared, plans), cluster_target(pipeline, sinks[0])))
    return found


def arrow_schema(schema: StructType) -> pa.Schema:
    """As tables have it: times are instants, in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - with Spark

    return to_arrow_schema(schema, timezone="UTC")


def output_problems(sinks: QuerySinks) -> list[str]:
    """What tables and databases say against the rows, before any is written. They are asked; nothing is made."""
    found = []
    for each in sinks.staged:
        try:
            problems = _kind(each).validate(sinks.schemas[each.label])
        except (SinkError, OptionError, OSError) as error:
            problems = [str(error)]
        found += [f"sink {each.label}: {problem}" for problem in problems]
    return found


def prepare_outputs(sinks: QuerySinks) -> QuerySinks:
    """Have what is missing: tables, and places for staging. The same sinks, with the tables that are there now. QueryFailedError
    where one cannot be had."""
    prepared = []
    for each in sinks.staged:
        kind = _kind(each)
        try:
            kind.prepare(sinks.schemas[each.label])
            target = msgspec.structs.replace(each.target, table_id=kind.table_id())
        except (SinkError, OptionError, OSError) as error:
            raise QueryFailedError(f"{sinks.pipeline}: the sink {each.label} cannot be prepared: {error}") from error
        prepared.append(each._replace(target=target))
    return replace(sinks, staged=tuple(prepared))


def with_deciding_cluster(sinks: QuerySinks, client: Mapping[str, object]) -> QuerySinks:
    """With transactions that say where they are decided on, on clusters other than that of the decisions, to which `client`
    leads. QueryFailedError where it does not answer."""
    if all(each.target is None for each in sinks.topics):
        return sinks
    try:
        cluster = deciding_cluster(client)
    except ClientError as error:
        raise QueryFailedError(f"{sinks.pipeline}: the cluster of its decisions does not answer: {error}") from error
    return replace(sinks, topics=[each.decided_at(cluster) for each in sinks.topics])


def code_version(path: Path) -> str:
    """Of a pipeline's file, for accounts of its batches: the beginning of its SHA-256; empty where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def _kind(sink: StagedSink) -> OutputKind:
    return kind_of(sink.target, sink.staging, sink.staging_storage)
