"""What an error of the cluster means for a transaction.

    RETRY              the same again after a wait
    FIND_COORDINATOR   the same again, at another broker
    ABORTABLE          the transaction cannot be committed, and the next one can
    FENCED             another producer has the transactional id
    FATAL              this producer cannot go on

The tables are the Java client's of 4.3.
"""

from __future__ import annotations

from enum import Enum

from tidelog.client.errors import (
    ClientError,
    ProducerFailedError,
    ProducerFencedError,
    RefusedError,
    TransactionAbortableError,
)
from tidelog.client.retries import needs_coordinator
from tidelog.model.errors import ErrorCode


class Verdict(Enum):
    RETRY = "retry"
    FIND_COORDINATOR = "find coordinator"
    ABORTABLE = "abortable"
    FENCED = "fenced"
    FATAL = "fatal"


class Step(Enum):
    """What was asked of the cluster."""

    INIT_PRODUCER_ID = "the producer's id"
    ADD_PARTITIONS = "adding partitions to the transaction"
    ADD_OFFSETS = "adding the group's offsets to the transaction"
    COMMIT_OFFSETS = "the offsets of the transaction"
    COMMIT = "the commit"
    ABORT = "the abort"
    DESCRIBE = "what became of the transaction"


_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})

_ABORTABLE = frozenset(
    {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED}
)

# Of single partitions, or of a member that has left its group: the next transaction may do without them.
_ABORTABLE_IN = {
    Step.ADD_PARTITIONS: frozenset(ErrorCode)
    - {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    },
    Step.COMMIT_OFFSETS: frozenset(
        {
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.STALE_MEMBER_EPOCH,
        }
    ),
}

_FATAL_TO_BATCHES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)

_GROUP_HAS_GONE_ON = _ABORTABLE_IN[Step.COMMIT_OFFSETS]


def verdict_of(step: Step, code: ErrorCode) -> Verdict:
    """What an answer of a coordinator means."""
    if needs_coordinator(code) or code is ErrorCode.REQUEST_TIMED_OUT:
        return Verdict.FIND_COORDINATOR
    if code.retriable:
        return Verdict.RETRY
    if code in _FENCED:
        return Verdict.FENCED
    if step is Step.ABORT:
        # There is nothing left to fall back on.
        return Verdict.FATAL
    if code in _ABORTABLE or code in _ABORTABLE_IN.get(step, ()):
        return Verdict.ABORTABLE
    return Verdict.FATAL


def verdict_of_batch(code: ErrorCode | None) -> Verdict:
    """What a batch that was given up means. An older epoch is one that a time-out may have raised: the abort will tell."""
    if code is ErrorCode.PRODUCER_FENCED:
        return Verdict.FENCED
    return Verdict.FATAL if code in _FATAL_TO_BATCHES else Verdict.ABORTABLE


def error_for(verdict: Verdict, transactional_id: str, reason: ClientError) -> RefusedError:
    """The error of an application, with what to do about it."""
    code = reason.code or ErrorCode.UNKNOWN_SERVER_ERROR
    about = f"transactional id {transactional_id!r}"
    if verdict is Verdict.FENCED:
        sentence = (
            f"{about}: another producer has taken it over, or the transaction ran into its time-out: close this producer; "
            f"what it had not committed is aborted ({code.name})"
        )
        return ProducerFencedError(ErrorCode.PRODUCER_FENCED, sentence)
    if verdict is Verdict.FATAL:
        return ProducerFailedError(code, f"{about}: {reason}: the producer cannot go on, close it and make another one")
    advice = "abort the transaction, then do its work again in a new one"
    if code in _GROUP_HAS_GONE_ON:
        advice = "the group has given the partitions to others: abort the transaction, and poll before the next one"
    return TransactionAbortableError(code, f"{about}: {reason}: {advice}")
