"""A task that writes the rows of a batch to all sinks of a pipeline, and tells the driver what it has written.

It is a function of Arrow batches (`mapInArrow`): one struct column a sink comes in (`batch_rows`), one message goes out. A task
opens an attempt at a sink with the first row for it. Only the messages of attempts that win come to the driver; what other
attempts have written is aborted by themselves, or swept later.

Topics of one cluster are written in one transaction: it costs as much as one topic does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import msgspec

from tidelog.spark.outputs.staged import AttemptName, StagedPart, Target, sum_checksums
from tidelog.spark.row_checksum import row_checksum
from tidelog.spark.sink.sink_participant import DecidingCluster, Participant, SinkIdentity

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.outputs.kind import OutputKind, StagingAttempt
    from tidelog.spark.pipelines.last_changes import LastChanges
    from tidelog.spark.sink.sink_options import SinkOptions
    from tidelog.spark.sink.sink_transactions import Attempt

# ruff: noqa: PLC0415 - a worker loads what its rows need

log = logging.getLogger(__name__)

MESSAGE = "message"


class TopicRows(msgspec.Struct, frozen=True):
    """What an attempt has written to one topic sink."""

    sink: str
    rows: int
    checksum: int


class TaskMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the attempt of a task that wins hands over."""

    stage: int
    staged: dict[str, StagedPart] = {}
    """By sink."""
    participants: dict[int, Participant] = {}
    """By cluster: the number of its `TopicCluster`."""
    topics: tuple[TopicRows, ...] = ()


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """A sink that is no topic, as tasks need it."""

    sink: str
    column: int
    target: Target
    staging: str
    staging_storage: dict[str, str]
    schema: str
    """Of its rows, as `manifest_store.encode_schema` makes it."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    sink: str
    column: int
    topic: str
    includes_timestamp: bool


@dataclass(frozen=True, slots=True)
class TopicCluster:
    """Topics that are written in one transaction."""

    options: SinkOptions
    """Without a topic: each row says it."""
    sinks: tuple[TopicPlan, ...]
    decided_at: DecidingCluster | None = None
    """Where the decisions lie on another cluster."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch, for all of its tasks."""

    identity: SinkIdentity
    run: str
    batch_id: int
    staged: tuple[StagedPlan, ...] = ()
    clusters: tuple[TopicCluster, ...] = ()
    is_tagged: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As Spark calls it in a task."""
        import pyarrow as pa

        message = msgspec.json.encode(_Task(self).run(batches))
        yield pa.RecordBatch.from_pydict({MESSAGE: [message]}, schema=pa.schema({MESSAGE: pa.binary()}))


class _Task:
    """One attempt of one task, at all sinks."""

    def __init__(self, plan: BatchPlan) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "only a task has rows"
        self._stage = context.stageId()
        # Spark gives no two attempts of an application the same number, whatever stage or job they are of.
        name = AttemptName(plan.run, plan.batch_id, context.partitionId(), 0, context.taskAttemptId())
        self._staged = [_StagedWriting(each, name) for each in plan.staged]
        self._clusters = [_TopicWriting(plan, each) for each in plan.clusters]

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        """Write everything. The input is read to its end, also of a batch that turns out to be a replay: state stores commit
        there."""
        try:
            for batch in batches:
                for each in self._staged:
                    each.write(batch)
                for cluster in self._clusters:
                    cluster.write(batch)
            # Topics last: what they hand over cannot be taken back here.
            staged = {each.plan.sink: part for each in self._staged if (part := each.hand_over()) is not None}
            participants = {
                index: found for index, each in enumerate(self._clusters) if (found := each.hand_over()) is not None
            }
        except BaseException:
            self._abort()
            raise
        written = tuple(rows for each in self._clusters for rows in each.written)
        return TaskMessage(self._stage, staged, participants, written)

    def _abort(self) -> None:
        aborts = [*(each.abort for each in self._staged), *(each.abort for each in self._clusters)]
        for abort in aborts:
            # The task has an error to report already, which this must not hide.
            with suppress(Exception):
                abort()


class _StagedWriting:
    """The rows of a task for one table, database or directory."""

    def __init__(self, plan: StagedPlan, name: AttemptName) -> None:
        self.plan = plan
        self._name = name
        self._kind: OutputKind | None = None
        self._attempt: StagingAttempt | None = None
        self._part: StagedPart | None = None
        self._schema: pa.Schema | None = None
        self._changes: LastChanges | None = None
        if plan.target.changes is not None:
            from tidelog.spark.pipelines.last_changes import LastChanges

            self._changes = LastChanges(plan.sink, plan.target.changes)

    def write(self, batch: pa.RecordBatch) -> None:
        rows = own_rows(batch, self.plan.column)
        if rows is None:
            return
        if self._schema is None:
            from tidelog.spark.outputs.manifest_store import decode_schema

            self._schema = decode_schema(self.plan.schema)
        rows = rows.cast(self._schema)
        self._write(rows if self._changes is None else self._changes.push(rows))

    def hand_over(self) -> StagedPart | None:
        """What it has staged; None for nothing."""
        left = None if self._changes is None else self._changes.finish()
        if left is not None:
            self._write(left)
        if self._attempt is None:
            return None
        self._part = self._attempt.hand_over()
        return self._part

    def abort(self) -> None:
        if self._part is not None and self._kind is not None:
            self._kind.discard([self._part])
        elif self._attempt is not None:
            self._attempt.abort()

    def _write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._attempt is None:
            from tidelog.spark.outputs.kind import kind_of

            assert self._schema is not None
            self._kind = kind_of(self.plan.target, self.plan.staging, self.plan.staging_storage)
            self._attempt = self._kind.open_attempt(self._name, self._schema)
        self._attempt.write(rows)


class _TopicWriting:
    """The rows of a task for the topics of one cluster."""

    def __init__(self, plan: BatchPlan, cluster: TopicCluster) -> None:
        self._plan = plan
        self._cluster = cluster
        self._attempt: Attempt | None = None
        self._is_handed_over = False
        self._rows = {each.sink: 0 for each in cluster.sinks}
        self._checksums = dict(self._rows)

    @property
    def written(self) -> list[TopicRows]:
        return [TopicRows(sink, rows, self._checksums[sink]) for sink, rows in self._rows.items() if rows]

    def write(self, batch: pa.RecordBatch) -> None:
        for each in self._cluster.sinks:
            rows = own_rows(batch, each.column)
            if rows is None:
                continue
            records = as_records(rows, each)
            if self._attempt is None:
                from tidelog.spark.sink.sink_transactions import open_attempt

                plan, cluster = self._plan, self._cluster
                # Sums are by sink, and of what a reader of the topic finds again.
                self._attempt = open_attempt(
                    cluster.options,
                    plan.identity,
                    plan.run,
                    plan.batch_id,
                    decided_at=cluster.decided_at,
                    is_summed=False,
                )
            self._attempt.write(records)
            # While the producer's own thread sends them.
            self._rows[each.sink] += records.num_rows
            self._checksums[each.sink] = sum_checksums((self._checksums[each.sink], record_checksum(records)))

    def hand_over(self) -> Participant | None:
        if self._attempt is None:
            return None
        participant = self._attempt.hand_over()
        self._is_handed_over = True
        return participant

    def abort(self) -> None:
        if self._attempt is not None and not self._is_handed_over:
            self._attempt.abort()


def own_rows(batch: pa.RecordBatch, column: int) -> pa.RecordBatch | None:
    """The rows that are for a sink, with its columns; None for none."""
    import pyarrow as pa

    structs = cast("pa.StructArray", batch.column(batch.schema.get_field_index(f"s{column}")))
    if structs.null_count:
        structs = structs.drop_null()
    return pa.RecordBatch.from_struct_array(structs) if len(structs) else None


def as_records(rows: pa.RecordBatch, plan: TopicPlan) -> pa.RecordBatch:
    """With the topic in each row, since several share a transaction; the time only where it was asked for."""
    import pyarrow as pa

    left_out = {"topic"} if plan.includes_timestamp else {"topic", "timestamp"}
    kept = rows.select([name for name in rows.schema.names if name not in left_out])
    return kept.append_column("topic", pa.repeat(pa.scalar(plan.topic), rows.num_rows))


def record_checksum(records: pa.RecordBatch) -> int:
    """Of what a record has wherever it is read again: topic, key and value."""
    import pyarrow as pa

    count = records.num_rows
    columns = [
        records.column(name).cast(pa.binary()) if name in records.schema.names else pa.nulls(count, pa.binary())
        for name in ("topic", "key", "value")
    ]
    return row_checksum(pa.RecordBatch.from_arrays(columns, ["topic", "key", "value"]))


def read_messages(rows: Sequence[bytes]) -> list[TaskMessage]:
    return [msgspec.json.decode(each, type=TaskMessage) for each in rows]
