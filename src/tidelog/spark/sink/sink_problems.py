"""What keeps a batch from counting in full, as errors with a sentence for a person. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.spark.errors import BatchInputError, LostTransactionError, OutputStoppedError, UnfinishedError
from tidelog.spark.outputs.staged import StagedOutput, Target
from tidelog.spark.sink.sink_batch import BatchWork, TopicOutput
from tidelog.spark.sink.sink_effects import Ending, Unended
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.sink.sink_state import Decision, SinkState

# A sentence names so many partitions of those that are lost.
_NAMED_MAX = 20


def stopped(identity: SinkIdentity, decision: Decision, output: StagedOutput, why: Unended) -> OutputStoppedError:
    """A decided batch waits for a person to see to a sink."""
    place = f"{output.target.place} {output.target.table}".strip()
    does_not = "refuses" if why.is_refused else "is not reached, and may have"
    skip = f"--skip-sink {output.sink}" + ("" if why.is_refused else " --skip-unreached")
    return OutputStoppedError(
        f"batch {decision.batch_id} of {identity} is decided, but its sink {output.sink} ({place}) {does_not} its {output.rows} "
        f"rows, which are staged in {output.manifest_path}: {why.reason}; put that right and start the query again, or go on "
        f"without these rows by `tidelog pipeline recover {identity.query} {skip}`"
    )


def not_reached(identity: SinkIdentity, decision: Decision, output: StagedOutput, why: Unended) -> UnfinishedError:
    return UnfinishedError(
        f"batch {decision.batch_id} of {identity} is decided, and its sink {output.sink} does not have it yet: {why.reason}; it "
        "goes on when the query is started again"
    )


def lost(identity: SinkIdentity, decision: Decision, endings: Sequence[Ending]) -> LostTransactionError:
    """Part of a decided batch has been aborted."""
    gone = [each for each, end in zip(decision.participants, endings, strict=True) if end is not Ending.COMMITTED]
    partitions = sorted({f"{topic}-{index}" for each in gone for topic, index in each.partitions})
    has_more = len(partitions) > _NAMED_MAX or any(each.partition_count > len(each.partitions) for each in gone)
    more = " and others" if has_more else ""
    return LostTransactionError(
        f"batch {decision.batch_id} of {identity} was decided, but {len(gone)} of its {len(decision.participants)} transactions, "
        f"with {sum(each.records for each in gone)} records for {', '.join(partitions[:_NAMED_MAX])}{more}, ended by time-out "
        "before they were committed, or are not known any more: find out what is missing there, then let the query go on without "
        f"it by `tidelog pipeline recover {identity.query} --accept-loss`"
    )


def lost_rows(topics: Sequence[TopicOutput], endings: Sequence[Ending]) -> list[tuple[Target | None, int]]:
    """By cluster, what is not known to be committed; nothing where all of it is."""
    ends = iter(endings)
    found = [
        (each.cluster, sum(one.records for one in each.participants if next(ends) is not Ending.COMMITTED))
        for each in topics
    ]
    return [each for each in found if each[1]]


def differs(identity: SinkIdentity, work: BatchWork, state: SinkState) -> BatchInputError:
    """A batch bears the number of a finished one, and is another one."""
    finished = state.finished
    assert finished is not None
    assert finished.input is not None
    assert work.input is not None
    if finished.input.hash is not None and work.input.hash is not None:
        return BatchInputError(
            f"batch {work.batch_id} of {identity} is written already, and from other input: nothing of this one is written. The "
            "checkpoint is an older one, or a copy of one with which another run has gone on: use the one that the query ran "
            f"with last ({state.owner}), or a new checkpoint, which writes everything again"
        )
    return BatchInputError(
        f"batch {work.batch_id} of {identity} is written already, with {finished.input.rows} rows, and this one has "
        f"{work.input.rows}, or others: nothing of it is written. Give each write a txnAppId of its own, or the next txnVersion; "
        "if it is the same write and its rows differ from run to run, say replayCheck=count or none"
    )
