"""InitProducerId with a transactional id: who gets which producer id and epoch, and whom that fences.

    state              without keepPreparedTxn                      with it (KIP-939)
    (unknown)          a fresh id, epoch 0                          the same
    Empty, Complete*   the next epoch, or a fresh id                the same
    Ongoing            aborted; CONCURRENT_TRANSACTIONS, and the    left as it is; the client gets the next epoch, or a fresh
                       client comes again                           id, and is told whose the open transaction is
    Prepare*           CONCURRENT_TRANSACTIONS                      CONCURRENT_TRANSACTIONS

A producer that names the id and epoch it has (KIP-360) gets the next epoch only if nobody came after it: its epoch is the present
one, or the last one, when it asks again because the answer was lost. Anybody else is fenced, and touches nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.coordination.transaction.metadata import (
    CLIENT_EPOCH_MAX,
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    TransactionMetadata,
    bumps_epoch,
)
from tidelog.coordination.transaction.states import TransactionState
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse

# Kafka's answer while its broker has no block of producer ids: the client retries.
NO_FRESH_PRODUCER_ID = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Initialisation(NamedTuple):
    """What InitProducerId brings about, and what it is answered once that is recorded."""

    after: TransactionMetadata
    answer: InitProducerIdResponse


def check_request(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode:
    """What can be said of a request without knowing the id."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if (request.producer_id == NO_PRODUCER_ID) is not (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.enable_2pc and not settings.is_two_phase_commit_enabled:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn and not bumps_epoch(settings.transaction_version()):
        # The second pair of id and epoch, and the end that goes by it, are of version 2.
        return ErrorCode.UNSUPPORTED_VERSION
    if not request.enable_2pc and not 0 < request.transaction_timeout_ms <= settings.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def needs_producer_id(known: TransactionMetadata | None) -> bool:
    """Whether the next producer under this id needs a producer id that nobody has had."""
    return known is None or (known.is_epoch_exhausted and not known.state.is_prepared)


def initialise(
    known: TransactionMetadata | None,
    request: InitProducerIdRequest,
    fresh_producer_id: int,
    server_version: int,
    now_ms: int,
) -> Initialisation | ErrorCode:
    """Decide a request that `check_request` has passed. A fresh producer id is used only where one is needed."""
    if known is not None and known.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if known is not None and _is_fenced(known, request):
        return ErrorCode.PRODUCER_FENCED
    if needs_producer_id(known) and fresh_producer_id == NO_PRODUCER_ID:
        return NO_FRESH_PRODUCER_ID
    timeout_ms = NO_TIMEOUT_MS if request.enable_2pc else request.transaction_timeout_ms
    if known is None:
        assert request.transactional_id is not None
        created = TransactionMetadata.created(request.transactional_id, fresh_producer_id, timeout_ms, now_ms)
        return _answered(created.initialised(0, NO_PRODUCER_EPOCH, timeout_ms, now_ms))
    if known.state is TransactionState.ONGOING:
        if request.keep_prepared_txn:
            # Its time is not cut by a client that asks for less than the one that prepared it.
            kept_ms = NO_TIMEOUT_MS if request.enable_2pc else known.timeout_ms
            return _answered(known.kept(fresh_producer_id, kept_ms, now_ms))
        fenced = known.fenced(server_version, fresh_producer_id, now_ms)
        return Initialisation(fenced, refused(ErrorCode.CONCURRENT_TRANSACTIONS))
    return _begin(known, request.producer_epoch, timeout_ms, fresh_producer_id, now_ms)


def _begin(
    known: TransactionMetadata, expected_epoch: int, timeout_ms: int, fresh_producer_id: int, now_ms: int
) -> Initialisation | ErrorCode:
    """No transaction is open."""
    is_expected = expected_epoch != NO_PRODUCER_EPOCH
    is_present = not is_expected or expected_epoch == known.producer_epoch
    if not is_present and expected_epoch != known.last_producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    last_producer_epoch = expected_epoch if is_expected else NO_PRODUCER_EPOCH
    if known.producer_epoch == EPOCH_MAX or (is_present and known.is_epoch_exhausted):
        return _answered(known.rotated(fresh_producer_id, last_producer_epoch, timeout_ms, now_ms))
    # The answer that gave the client its present epoch was lost: it gets the same again.
    producer_epoch = known.producer_epoch + 1 if is_present else known.producer_epoch
    return _answered(known.initialised(producer_epoch, last_producer_epoch, timeout_ms, now_ms))


def _is_fenced(known: TransactionMetadata, request: InitProducerIdRequest) -> bool:
    """Whether somebody else has come after the producer that names its id and epoch."""
    if request.producer_id == NO_PRODUCER_ID:
        return False
    if request.producer_id != known.client_producer_id:
        is_asking_again = (
            request.producer_id == known.previous_producer_id and request.producer_epoch >= CLIENT_EPOCH_MAX
        )
        return known.state is TransactionState.ONGOING or not is_asking_again
    # A late request of an earlier incarnation must not abort what a later one has open.
    return known.state is TransactionState.ONGOING and request.producer_epoch != known.client_producer_epoch


def _answered(after: TransactionMetadata) -> Initialisation:
    answer = InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        producer_id=after.client_producer_id,
        producer_epoch=after.client_producer_epoch,
        ongoing_txn_producer_id=after.producer_id if after.is_kept else NO_PRODUCER_ID,
        ongoing_txn_producer_epoch=after.producer_epoch if after.is_kept else NO_PRODUCER_EPOCH,
    )
    return Initialisation(after, answer)


def refused(error: ErrorCode) -> InitProducerIdResponse:
    """The answer to a producer that gets no id."""
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
