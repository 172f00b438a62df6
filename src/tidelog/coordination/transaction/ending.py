"""EndTxn: what an end does in each state, and what tells a repeated end from a late one.

    version 1          the epoch must be the present one, which an end leaves as it is
    state              commit                        abort
    Ongoing            PrepareCommit                 PrepareAbort
    CompleteCommit     done already                  INVALID_TXN_STATE
    CompleteAbort      INVALID_TXN_STATE             done already
    Empty              INVALID_TXN_STATE             INVALID_TXN_STATE

    version 2          each end raises the epoch, so that an end is repeated if its epoch is the one before the present one
    state              commit again          commit anew           abort again           abort anew
    Ongoing            PRODUCER_FENCED       PrepareCommit         PRODUCER_FENCED       PrepareAbort
    CompleteCommit     done already          INVALID_TXN_STATE     INVALID_TXN_STATE     PrepareAbort, of nothing
    CompleteAbort      INVALID_TXN_STATE     INVALID_TXN_STATE     done already          PrepareAbort, of nothing
    Empty              PRODUCER_FENCED       INVALID_TXN_STATE     PRODUCER_FENCED       PrepareAbort, of nothing

A client of version 2 aborts also where it is not sure whether anything was added; that raises its epoch all the same, so that
whatever it has sent so far cannot come into its next transaction. Every other epoch is PRODUCER_FENCED, every other producer id
INVALID_PRODUCER_ID_MAPPING. While markers are written, in the states Prepare*, an end is CONCURRENT_TRANSACTIONS, of version 1
only if the producer is the right one.
"""

from __future__ import annotations

from tidelog.coordination.transaction.initialising import NO_FRESH_PRODUCER_ID
from tidelog.coordination.transaction.metadata import CLIENT_EPOCH_MAX, EPOCH_MAX, TransactionMetadata, bumps_epoch
from tidelog.coordination.transaction.states import TransactionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.wire.messages.transactions import EndTxnRequest, EndTxnResponse

_IS_COMMITTED = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}


def needs_producer_id(known: TransactionMetadata, transaction_version: int) -> bool:
    """Whether an end, if it is one, takes the client to another producer id."""
    return bumps_epoch(transaction_version) and known.is_epoch_exhausted and not known.state.is_prepared


def end(
    known: TransactionMetadata,
    request: EndTxnRequest,
    transaction_version: int,
    fresh_producer_id: int,
    now_ms: int,
) -> TransactionMetadata | ErrorCode:
    """The prepared transaction; NONE where it was ended like this before."""
    if not bumps_epoch(transaction_version):
        return _end_without_bump(known, request, now_ms)
    if known.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _end_with_bump(known, request, transaction_version, fresh_producer_id, now_ms)


def answer(after: TransactionMetadata, transaction_version: int) -> EndTxnResponse:
    """For a client whose transaction is ended as it asked: the producer id and epoch that it continues with."""
    if not bumps_epoch(transaction_version):
        return refused(ErrorCode.NONE)
    final = after.completed(after.last_update_ms) if after.state.is_prepared else after
    return EndTxnResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        producer_id=final.producer_id,
        producer_epoch=final.producer_epoch,
    )


def refused(error: ErrorCode) -> EndTxnResponse:
    """Without a producer id and epoch to continue with."""
    return EndTxnResponse(
        throttle_time_ms=0, error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


def _end_without_bump(
    known: TransactionMetadata, request: EndTxnRequest, now_ms: int
) -> TransactionMetadata | ErrorCode:
    if request.producer_id != known.client_producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != known.client_producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if known.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if known.state is TransactionState.ONGOING:
        return known.prepared(
            is_committed=request.committed, transaction_version=0, fresh_producer_id=NO_PRODUCER_ID, now_ms=now_ms
        )
    return _repeated(known, is_committed=request.committed)


def _end_with_bump(
    known: TransactionMetadata, request: EndTxnRequest, transaction_version: int, fresh_producer_id: int, now_ms: int
) -> TransactionMetadata | ErrorCode:
    is_after_rotation = _is_after_rotation(known, request)
    if request.producer_id != known.client_producer_id and not is_after_rotation:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if _has_bumped(known) and (is_after_rotation or _is_after_bump(known, request)):
        return _repeated(known, is_committed=request.committed)
    if request.producer_epoch != known.client_producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if request.committed and known.state is not TransactionState.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    if known.is_epoch_exhausted and fresh_producer_id == NO_PRODUCER_ID:
        return NO_FRESH_PRODUCER_ID
    return known.prepared(
        is_committed=request.committed,
        transaction_version=transaction_version,
        fresh_producer_id=fresh_producer_id,
        now_ms=now_ms,
    )


def _has_bumped(known: TransactionMetadata) -> bool:
    """Whether the last thing that has happened is an end by version 2. After one by version 1 no epoch can be told apart."""
    return known.state in _IS_COMMITTED and bumps_epoch(known.client_transaction_version)


def _is_after_bump(known: TransactionMetadata, request: EndTxnRequest) -> bool:
    """Whether the epoch is the one after that of the request."""
    # The largest epoch is nobody's: a producer that would be told to go on with it begins anew instead.
    return request.producer_epoch + 1 == known.producer_epoch and known.producer_epoch != EPOCH_MAX


def _is_after_rotation(known: TransactionMetadata, request: EndTxnRequest) -> bool:
    """Whether the producer id is the one after that of the request, which had the last epoch."""
    return (
        request.producer_id == known.previous_producer_id
        and request.producer_epoch == CLIENT_EPOCH_MAX
        and known.producer_epoch == 0
    )


def _repeated(known: TransactionMetadata, *, is_committed: bool) -> ErrorCode:
    """Nothing is open: the same outcome again is fine."""
    return ErrorCode.NONE if _IS_COMMITTED.get(known.state) is is_committed else ErrorCode.INVALID_TXN_STATE
