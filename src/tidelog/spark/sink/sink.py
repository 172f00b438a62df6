"""The sink as Spark calls it: `df.write.format("tidelog")` and `df.writeStream.format("tidelog")`.

    BatchSink     made in a process of the driver; copies of it write in tasks, and one commits or aborts
    StreamSink    the same for a micro-batch; the one that commits is made anew, and knows only what the messages say

Whose write it is:

                          query                      sink         run                     batch
    a stream              the streaming query's id   -            the query's run         its number
    txnAppId, txnVersion  txnAppId                   the topic    the query's run within  txnVersion
                                                                  foreachBatch, else
                                                                  this write
    another batch         this write                 the topic    this write              0

By what a batch is known that comes again: a stream's by the hash of its input, as Spark has written it down (`input_hash`); one
with txnAppId by the count and the checksum of its rows, as replayCheck says; another one does not come again.

What tasks do and what the driver does is imported where it is done: each is half of what a process of Spark's would wait for.

Method and argument names are Spark's: it calls them by name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity
from tidelog.spark.sink.sink_rows import check_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.sink.sink_batch import BatchInput, BatchWork
    from tidelog.spark.sink.sink_committer import SinkCommitter
    from tidelog.spark.sink.sink_options import SinkOptions
    from tidelog.spark.sink.sink_transactions import Attempt

# ruff: noqa: PLC0415 - see above

log = logging.getLogger(__name__)

Messages = list[WriterCommitMessage | None]

# What Spark tells the tasks of a streaming query.
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
_BATCH_ID = "streaming.sql.batchId"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
# Committers that keep their connections for the next batch: queries of one process.
_COMMITTERS_MAX = 4


@dataclass(frozen=True, slots=True)
class SinkWrite:
    """Which write a task belongs to."""

    identity: SinkIdentity
    run: str
    batch_id: int
    checkpoint: str | None = None
    """Of a stream: where Spark keeps its progress, as far as its options or its session say."""


@dataclass(frozen=True, slots=True)
class TaskWritten(WriterCommitMessage):
    """What one attempt of a task has written."""

    record_count: int
    write: SinkWrite | None = None
    """None where nothing has to be decided."""
    participant: Participant | None = None
    """None where there was no row: no transaction was opened."""


class BatchSink(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('a topic cannot be overwritten: write with mode("append")')
        check_columns(options, schema)
        self._options = options
        name = uuid4().hex
        self._write = SinkWrite(
            SinkIdentity(options.txn_app_id or f"batch-{name}", options.topic or "", options.prefix),
            name,
            options.txn_version or 0,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        if not self._options.is_exactly_once:
            from tidelog.spark.sink.sink_task import write_at_least_once

            return TaskWritten(write_at_least_once(self._options, iterator))
        # One run for all batches of a streaming query, so that workers keep their producers.
        run = _local_property(_RUN_ID) if _local_property(_QUERY_ID) is not None else None
        of = SinkWrite(self._write.identity, run or self._write.run, self._write.batch_id)
        return _write_exactly_once(self._options, of, iterator)

    def commit(self, messages: Messages) -> None:
        if self._options.is_exactly_once:
            of, participants = _read(messages, self._write)
            assert of is not None, "a batch knows its own write"
            _tell(self._options, of, participants)
            self._committer(of).commit(self._work(participants))

    def abort(self, messages: Messages) -> None:
        if self._options.is_exactly_once:
            # Without a message the run is not known. Then this write takes the query over: nothing that is open is left behind.
            of, participants = _read(messages, self._write)
            assert of is not None, "a batch knows its own write"
            self._committer(of).abort(self._work(participants))

    def _committer(self, of: SinkWrite) -> SinkCommitter:
        # What comes once has nothing to keep connections for.
        return _committer(self._options, of, is_kept=self._options.txn_app_id is not None)

    def _work(self, participants: Sequence[Participant]) -> BatchWork:
        from tidelog.spark.sink.sink_batch import BatchWork

        options = self._options
        if options.txn_app_id is None:
            return BatchWork.of_topic(self._write.batch_id, participants, is_once=True)
        return BatchWork.of_topic(self._write.batch_id, participants, _input(None, participants), options.replay_check)


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        """The copies for the tasks of a batch, made before they start. That is the first that a sink hears of its query: Spark
        makes none before there is something to read."""
        self._warn_at_start()
        return {"_options": self._options}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        if not self._options.is_exactly_once:
            from tidelog.spark.sink.sink_task import write_at_least_once

            return TaskWritten(write_at_least_once(self._options, iterator))
        query, run, batch_id = (_local_property(name) for name in (_QUERY_ID, _RUN_ID, _BATCH_ID))
        if query is None or run is None or batch_id is None:
            raise SinkError("Spark does not tell which query this task belongs to: exactly_once cannot be had here")
        identity = SinkIdentity(query, prefix=self._options.prefix)
        of = SinkWrite(identity, run, int(batch_id), self._options.checkpoint or _checkpoint_of(self._options))
        return _write_exactly_once(self._options, of, iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        if not self._options.is_exactly_once:
            return
        from tidelog.spark.sink.sink_batch import BatchWork

        of, participants = _read(messages, None)
        if of is None:
            raise SinkError("no task says which batch it has written, so that none can be committed")
        _tell(self._options, of, participants, is_told=self._own is not None)
        work = BatchWork.of_topic(batchId, participants, _input(_hash_of(of, batchId), participants))
        _committer(self._options, of).commit(work)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        if not self._options.is_exactly_once:
            return
        from tidelog.spark.sink.sink_batch import BatchWork

        of, participants = _read(messages, None)
        if of is not None:
            _committer(self._options, of).abort(BatchWork.of_topic(batchId, participants))
        elif (of := self._left(batchId)) is not None:
            _committer(self._options, of, is_kept=False).abort(BatchWork(batchId))

    def _warn_at_start(self) -> None:
        if (own := self._own) is not None and self._options.topic is not None:
            from tidelog.spark.sink.sink_warnings import warn_of_open_transactions

            warn_of_open_transactions(self._options, own, str(self._options.checkpoint), [self._options.topic])

    @cached_property
    def _own(self) -> SinkIdentity | None:
        """The query's, where that and its topic are known before any batch."""
        from tidelog.spark.sink.input_hash import InputUnreadableError, query_id

        checkpoint = self._options.checkpoint
        if checkpoint is None or self._options.topic is None:
            return None
        try:
            return SinkIdentity(query_id(checkpoint), prefix=self._options.prefix)
        except InputUnreadableError:
            return None

    def _left(self, batch_id: int) -> SinkWrite | None:
        """Who takes over from a run of which no task has told anything, so that nothing that it has open is left behind: the
        query is over, and its next start takes over from this. None, with a warning, where it is not known whose the batch is."""
        from tidelog.spark.sink.input_hash import InputUnreadableError, query_id

        options = self._options
        reason = "the option checkpointLocation is missing"
        if options.checkpoint is not None:
            try:
                identity = SinkIdentity(query_id(options.checkpoint), prefix=options.prefix)
            except InputUnreadableError as error:
                reason = str(error)
            else:
                return SinkWrite(identity, f"abort-{uuid4().hex}", batch_id, options.checkpoint)
        log.warning(
            "batch %d of %s to %s has failed, and no task says of which query it is: what it has open under %s.* ends by "
            "time-out, or with the query's next start (%s)",
            batch_id,
            options.query_name or "a query without a name",
            options.topic or "the topics that its rows name",
            options.prefix,
            reason,
        )
        return None


def _write_exactly_once(options: SinkOptions, of: SinkWrite, batches: Iterable[pa.RecordBatch]) -> TaskWritten:
    """Write the rows of a task in a transaction that the driver ends. The input is read to its end, also of a batch that turns
    out to be a replay: state stores commit there."""
    from tidelog.spark.sink.sink_transactions import open_attempt

    attempt: Attempt | None = None
    try:
        for batch in batches:
            if batch.num_rows:
                if attempt is None:
                    attempt = open_attempt(options, of.identity, of.run, of.batch_id)
                attempt.write(batch)
        participant = None if attempt is None else attempt.hand_over()
    except BaseException:
        if attempt is not None:
            attempt.abort()
        raise
    return TaskWritten(0 if participant is None else participant.records, of, participant)


def _tell(options: SinkOptions, of: SinkWrite, participants: Sequence[Participant], *, is_told: bool = False) -> None:
    """Once a run, before its first batch counts: what people should know about markers, and about transactions of others unless
    they were told at the start."""
    from tidelog.spark.sink.sink_warnings import warn_of_markers, warn_of_open_transactions

    warn_of_markers(of.identity, of.run, participants)
    if not is_told:
        topics = {topic for each in participants for topic, _ in each.partitions}
        if options.topic is not None:
            topics.add(options.topic)
        warn_of_open_transactions(options, of.identity, of.run, sorted(topics))


def _input(hash_of_input: str | None, participants: Sequence[Participant]) -> BatchInput:
    from tidelog.spark.outputs.staged import sum_checksums
    from tidelog.spark.sink.sink_batch import BatchInput

    rows = sum(each.records for each in participants)
    return BatchInput(hash_of_input, rows, sum_checksums(each.checksum for each in participants))


def _hash_of(of: SinkWrite, batch_id: int) -> str | None:
    """Of a stream's input; None where it cannot be had, and is told: then rows and checksum say whether a batch is a replay."""
    from tidelog.spark.sink.input_hash import InputUnreadableError, input_hash
    from tidelog.spark.sink.sink_warnings import warn_once, was_told

    reason = "the option checkpointLocation is missing, and the query has no name under the session's directory"
    # A store that does not answer is waited for once in a run.
    if of.checkpoint is not None and not was_told(of.run, "input"):
        try:
            return input_hash(of.checkpoint, batch_id)
        except InputUnreadableError as error:
            reason = str(error)
    warn_once(
        of.run,
        "input",
        f"batches of {of.identity} are known again by their rows alone, which have to be the same then: {reason}",
    )
    return None


def _checkpoint_of(options: SinkOptions) -> str | None:
    """Where Spark puts it that has a directory for all checkpoints: under the query's name, or under one that it makes up."""
    directory = _local_property(_CHECKPOINTS)
    return f"{directory}/{options.query_name}" if directory and options.query_name else None


_committers: dict[tuple[object, ...], SinkCommitter] = {}


def _committer(options: SinkOptions, of: SinkWrite, *, is_kept: bool = True) -> SinkCommitter:
    """For one run of a query; the process that commits keeps it, and its connections, for the next batch."""
    from tidelog.spark.sink.sink_committer import SinkCommitter

    if not is_kept:
        return SinkCommitter(of.identity, of.run, options.client)
    key = (SinkCommitter, of.identity, of.run, *sorted((name, str(each)) for name, each in options.client.items()))
    found = _committers.pop(key, None) or SinkCommitter(of.identity, of.run, options.client).__enter__()
    _committers[key] = found
    while len(_committers) > _COMMITTERS_MAX:
        _committers.pop(next(iter(_committers))).__exit__()
    return found


def _read(messages: Messages, fallback: SinkWrite | None) -> tuple[SinkWrite | None, list[Participant]]:
    written = [each for each in messages if isinstance(each, TaskWritten)]
    of = next((each.write for each in written if each.write is not None), fallback)
    return of, [each.participant for each in written if each.participant is not None]


def _local_property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)
