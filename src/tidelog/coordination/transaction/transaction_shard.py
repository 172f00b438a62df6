"""The transactions of one partition of `__transaction_state`: the ids whose hash falls there.

A request is decided at once; what it changes is recorded first, and becomes known when the record is committed. Until then every
other request for the id is answered CONCURRENT_TRANSACTIONS, so that nobody acts on what may yet be lost. `states` has the table
of the states, `initialising` and `ending` the rules of the two requests that have many.

What is committed may be followed on the same stack: with one replica the record of an end is committed as it is written, its
markers may be written within `send_markers`, and `markers_written` come back before the answer to EndTxn has left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import Protocol, TypeVar

from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Decision
from tidelog.coordination.transaction import ending, initialising
from tidelog.coordination.transaction.id_pattern import matcher
from tidelog.coordination.transaction.markers_due import MarkersDue
from tidelog.coordination.transaction.metadata import TransactionMetadata, bumps_epoch
from tidelog.coordination.transaction.records import TransactionRecords, metadata_of, transaction_tombstone
from tidelog.coordination.transaction.states import STATES_BY_NAME, TransactionState
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages import transaction_admin
from tidelog.wire.messages.internal.transaction_records import TransactionLogKey, TransactionLogValue
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transaction_admin import ListTransactionsTransactionState, TopicData
from tidelog.wire.messages.transactions import EndTxnRequest, EndTxnResponse

A = TypeVar("A")

# How long a completion that could not be written waits for its next attempt.
COMPLETION_RETRY_MS = 500
# Tombstones are written in batches of about this many bytes of ids, far below what a topic accepts.
EXPIRY_BATCH_BYTES = 16_384

_TIME_OUTS = ("transactions", "time out")
_EXPIRY = ("transactional ids", "expire")


class TransactionListener(Protocol):
    """Who wants to know what becomes of a transactional id."""

    def kept(self, metadata: TransactionMetadata) -> None:
        """This is written down and committed."""
        ...


class TransactionShard:
    """The transactional ids of one partition. `coordinator_epoch` is the epoch in which this node leads it.

    `send_markers` is given what has to be written once an outcome is committed, and again for each outcome whose markers may
    be missing when the log is loaded. It must not forget it.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        coordinator_epoch: int,
        send_markers: Callable[[MarkersDue], None],
        listeners: Mapping[str, TransactionListener] | None = None,
    ) -> None:
        """`listeners` are told of what their ids come to; they may come and go."""
        self.deadlines = Deadlines()
        self._listeners = {} if listeners is None else listeners
        self._settings = settings
        self._coordinator_epoch = coordinator_epoch
        self._send_markers = send_markers
        self._transactions: dict[str, TransactionMetadata] = {}
        # The ids of open transactions, which may time out.
        self._open: dict[str, None] = {}
        # The ids for which a record is written and not committed.
        self._pending: set[str] = set()
        self._is_unloaded = False

    # --- producers ---------------------------------------------------------------------------------------------------------

    def needs_producer_id(self, request: InitProducerIdRequest) -> bool:
        """Whether this request, as things are, takes a producer id that nobody has had."""
        if initialising.check_request(request, self._settings) is not ErrorCode.NONE:
            return False
        transactional_id = request.transactional_id or ""
        return transactional_id not in self._pending and initialising.needs_producer_id(
            self._transactions.get(transactional_id)
        )

    def init_producer_id(
        self, request: InitProducerIdRequest, fresh_producer_id: int, now_ms: int
    ) -> Decision[InitProducerIdResponse]:
        """`fresh_producer_id` is -1, or one that nobody has had; it is used if it is needed."""
        error = initialising.check_request(request, self._settings)
        if error is ErrorCode.NONE and request.transactional_id in self._pending:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if error is not ErrorCode.NONE:
            return Decision(initialising.refused(error))
        known = self._transactions.get(request.transactional_id or "")
        version = self._settings.transaction_version()
        outcome = initialising.initialise(known, request, fresh_producer_id, version, now_ms)
        if isinstance(outcome, ErrorCode):
            return Decision(initialising.refused(outcome))
        return self._record(outcome.after, outcome.answer, now_ms)

    # --- partitions --------------------------------------------------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        transaction_version: int,
        now_ms: int,
    ) -> Decision[ErrorCode]:
        """Take partitions into the producer's transaction, which begins with the first."""
        if not transactional_id:
            return Decision(ErrorCode.INVALID_REQUEST)
        known = self._transactions.get(transactional_id)
        if transactional_id in self._pending or (known is not None and known.state.is_prepared):
            return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
        error = _check_producer(known, producer_id, producer_epoch)
        if error is not ErrorCode.NONE or known is None:
            return Decision(error)
        if known.is_kept:
            return Decision(ErrorCode.INVALID_TXN_STATE)
        added = frozenset(partitions)
        if known.state is TransactionState.ONGOING and added <= known.partitions:
            return Decision(ErrorCode.NONE)
        return self._record(known.with_partitions(added, transaction_version, now_ms), ErrorCode.NONE, now_ms)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is part of the producer's transaction, which is what a broker asks before it appends."""
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        known = self._transactions.get(transactional_id)
        error = _check_producer(known, producer_id, producer_epoch)
        if error is not ErrorCode.NONE or known is None:
            return dict.fromkeys(partitions, error)
        if known.is_kept:
            return dict.fromkeys(partitions, ErrorCode.INVALID_TXN_STATE)
        return {
            each: ErrorCode.NONE if each in known.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in partitions
        }

    def has_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> bool:
        """Whether all of these are part of the producer's transaction. False: `verify_partitions` knows why, or that they are."""
        known = self._transactions.get(transactional_id)
        return (
            known is not None
            # With a next epoch there is none open, or one that was kept.
            and known.next_producer_epoch == NO_PRODUCER_EPOCH
            and known.producer_id == producer_id
            and known.producer_epoch == producer_epoch
            and not known.state.is_prepared
            and known.partitions.issuperset(partitions)
        )

    # --- the end -----------------------------------------------------------------------------------------------------------

    def end_needs_producer_id(self, request: EndTxnRequest, transaction_version: int) -> bool:
        """Whether this end, as things are, takes a producer id that nobody has had: its epochs are used up."""
        known = self._transactions.get(request.transactional_id)
        return known is not None and ending.needs_producer_id(known, transaction_version)

    def end(
        self, request: EndTxnRequest, transaction_version: int, now_ms: int, fresh_producer_id: int = NO_PRODUCER_ID
    ) -> Decision[EndTxnResponse]:
        """Commit or abort. Without the fresh producer id that `end_needs_producer_id` asks for, the client is to come again."""
        outcome = self._end(request, transaction_version, fresh_producer_id, now_ms)
        if isinstance(outcome, TransactionMetadata):
            return self._record(outcome, ending.answer(outcome, transaction_version), now_ms)
        if outcome is ErrorCode.NONE:
            known = self._transactions[request.transactional_id]
            return Decision(ending.answer(known, transaction_version))
        return Decision(ending.refused(outcome))

    def _end(
        self, request: EndTxnRequest, transaction_version: int, fresh_producer_id: int, now_ms: int
    ) -> TransactionMetadata | ErrorCode:
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        known = self._transactions.get(request.transactional_id)
        if known is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        outcome = ending.end(known, request, transaction_version, fresh_producer_id, now_ms)
        if request.transactional_id not in self._pending:
            return outcome
        # The epoch is about to change: by version 2 nobody can tell a producer that is fenced from one that asks again.
        is_certain = not bumps_epoch(transaction_version) and outcome in _NOT_THIS_PRODUCER
        return outcome if is_certain else ErrorCode.CONCURRENT_TRANSACTIONS

    def markers_written(
        self, transactional_id: str, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Decision[None]:
        """Every partition of the `MarkersDue` with these names has its marker."""
        known = self._transactions.get(transactional_id)
        if (
            known is None
            or not known.state.is_prepared
            or (known.producer_id, known.producer_epoch) != (producer_id, producer_epoch)
            or transactional_id in self._pending
        ):
            return Decision(None)
        return self._record(known.completed(now_ms), None, now_ms)

    def _retry_completion(self, transactional_id: str, decided_ms: int) -> None:
        """The markers are written, and the record that says so is not: that must not wait for a restart."""

        def complete(now_ms: int) -> Decision[None] | None:
            known = self._transactions.get(transactional_id)
            if known is None:
                return None
            return self.markers_written(transactional_id, known.producer_id, known.producer_epoch, now_ms)

        self.deadlines.set(("completion", transactional_id), decided_ms + COMPLETION_RETRY_MS, complete)

    # --- time --------------------------------------------------------------------------------------------------------------

    def _abort_timed_out(self, now_ms: int) -> None:
        for transactional_id in self._open:
            if _is_timed_out(self._transactions[transactional_id], now_ms):
                self._abort_at(transactional_id, now_ms)
        self.deadlines.set(_TIME_OUTS, now_ms + self._settings.abort_timed_out_interval_ms, self._abort_timed_out)

    def _abort_at(self, transactional_id: str, at_ms: int) -> None:
        """One record for each, so that one that cannot be written does not keep the others."""

        def abort(now_ms: int) -> Decision[None] | None:
            known = self._transactions.get(transactional_id)
            if known is None or transactional_id in self._pending or not _is_timed_out(known, now_ms):
                return None
            # No fresh producer id is at hand. Where one were needed, the producer is left to ask for it.
            fenced = known.fenced(self._settings.transaction_version(), NO_PRODUCER_ID, now_ms)
            return self._record(fenced, None, now_ms)

        self.deadlines.set(("time-out", transactional_id), at_ms, abort)

    def _expire_ids(self, now_ms: int) -> Decision[None]:
        """Tombstones for ids that nobody uses, a batch at a time; between two of them the node gets on with its other work."""
        before_ms = now_ms - self._settings.transactional_id_expiration_ms
        expired: list[str] = []
        size_bytes = 0
        for transactional_id, known in self._transactions.items():
            if known.state.is_at_rest and known.last_update_ms <= before_ms and transactional_id not in self._pending:
                expired.append(transactional_id)
                size_bytes += len(transactional_id)
                if size_bytes >= EXPIRY_BATCH_BYTES:
                    break
        is_all = size_bytes < EXPIRY_BATCH_BYTES
        next_ms = now_ms + (self._settings.remove_expired_interval_ms if is_all else 1)
        self.deadlines.set(_EXPIRY, next_ms, self._expire_ids)
        self._pending.update(expired)

        def settled(error: ErrorCode) -> None:
            if self._is_unloaded:
                return
            self._pending.difference_update(expired)
            if error is ErrorCode.NONE:
                for transactional_id in expired:
                    self._forget(transactional_id)
            else:
                self.deadlines.set(_EXPIRY, now_ms + self._settings.remove_expired_interval_ms, self._expire_ids)

        records = tuple(transaction_tombstone(each) for each in expired)
        return Decision(None, records, replays=False, settled=settled)

    # --- administration ----------------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str, now_ms: int) -> transaction_admin.TransactionState:  # noqa: ARG002 - of the contract
        """As DescribeTransactions has it: the transaction, under the producer id and epoch that it was written with."""
        if not transactional_id:
            return undescribed(transactional_id, ErrorCode.INVALID_REQUEST)
        known = self._transactions.get(transactional_id)
        if known is None:
            return undescribed(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction_admin.TransactionState(
            error_code=ErrorCode.NONE,
            transactional_id=transactional_id,
            transaction_state=known.state.display_name,
            transaction_timeout_ms=known.timeout_ms,
            transaction_start_time_ms=known.start_ms,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            topics=[
                TopicData(topic=topic, partitions=[each.partition for each in partitions])
                for topic, partitions in groupby(sorted(known.partitions), key=lambda each: each.topic)
            ],
        )

    def listed(
        self,
        states: Iterable[str],
        producer_ids: Collection[int],
        duration_ms: int,
        pattern: str | None,
        now_ms: int,
    ) -> tuple[list[str], list[ListTransactionsTransactionState]]:
        """The names of states that there are not, and the ids that pass every filter. An empty filter passes all.

        `duration_ms` below 0 is no filter. A pattern that cannot be read passes none: `id_pattern.check_pattern` tells.
        """
        names = list(states)
        wanted = {STATES_BY_NAME[name] for name in names if name in STATES_BY_NAME}
        is_matched = matcher(pattern)
        found = [
            ListTransactionsTransactionState(
                transactional_id=known.transactional_id,
                producer_id=known.producer_id,
                transaction_state=known.state.display_name,
            )
            for known in self._transactions.values()
            if (not producer_ids or known.producer_id in producer_ids)
            and (not names or known.state in wanted)
            and (duration_ms < 0 or now_ms - known.start_ms > duration_ms)
            and is_matched(known.transactional_id)
        ]
        return [name for name in names if name not in STATES_BY_NAME], found

    # --- what is recorded --------------------------------------------------------------------------------------------------

    def _record(self, after: TransactionMetadata, answer: A, now_ms: int) -> Decision[A]:
        """Write down what an id comes to. A transaction of no partitions has no markers to wait for, and is complete at once."""
        steps = [after]
        if after.state.is_prepared and not after.partitions:
            steps.append(after.completed(now_ms))
        final = steps[-1]
        known = self._transactions.get(after.transactional_id)
        is_completion = known is not None and known.state.is_prepared
        self._pending.add(after.transactional_id)

        def settled(error: ErrorCode) -> None:
            if self._is_unloaded:
                return
            self._pending.discard(final.transactional_id)
            if error is not ErrorCode.NONE:
                if is_completion:
                    self._retry_completion(final.transactional_id, now_ms)
                return
            self._keep(final)
            if final.state.is_prepared:
                self._send_markers(self._markers_due(final))

        records = TransactionRecords(steps, self._settings.transaction_version())
        return Decision(answer, records, replays=False, settled=settled, packed=records)

    def _keep(self, metadata: TransactionMetadata) -> None:
        self._transactions[metadata.transactional_id] = metadata
        if self._listeners and metadata.transactional_id in self._listeners:
            self._listeners[metadata.transactional_id].kept(metadata)
        if metadata.state is TransactionState.ONGOING:
            self._open[metadata.transactional_id] = None
        else:
            self._open.pop(metadata.transactional_id, None)

    def _forget(self, transactional_id: str) -> None:
        self._transactions.pop(transactional_id, None)
        self._open.pop(transactional_id, None)

    def _markers_due(self, metadata: TransactionMetadata) -> MarkersDue:
        return MarkersDue(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            coordinator_epoch=self._coordinator_epoch,
            is_committed=metadata.state is TransactionState.PREPARE_COMMIT,
            partitions=tuple(sorted(metadata.partitions)),
            transaction_version=metadata.client_transaction_version,
        )

    # --- the shard's life --------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int, now_ms: int) -> None:  # noqa: ARG002 - of the contract
        """Take in a record of the log while it is loaded."""
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey)
        assert value is None or isinstance(value, TransactionLogValue)
        if value is None:
            self._forget(key.transactional_id)
        else:
            self._keep(metadata_of(key.transactional_id, value))

    def end_transaction(self, producer_id: int, offset: int, *, is_committed: bool) -> None:
        """Nobody writes to this log in a transaction."""

    def loaded(self, now_ms: int) -> list[Decision[None]]:
        """Go on where the last coordinator stopped: outcomes that are decided and may have no markers yet."""
        self.deadlines.set(_TIME_OUTS, now_ms + self._settings.abort_timed_out_interval_ms, self._abort_timed_out)
        self.deadlines.set(_EXPIRY, now_ms + self._settings.remove_expired_interval_ms, self._expire_ids)
        return [self._go_on(known, now_ms) for known in self._transactions.values() if known.state.is_prepared]

    def _go_on(self, known: TransactionMetadata, now_ms: int) -> Decision[None]:
        if not known.partitions:
            return self.markers_written(known.transactional_id, known.producer_id, known.producer_epoch, now_ms)

        def settled(error: ErrorCode) -> None:
            # With any other outcome another node leads, or will.
            if error is ErrorCode.NONE and not self._is_unloaded:
                self._send_markers(self._markers_due(known))

        return Decision(None, settled=settled)

    def unload(self) -> None:
        """Nobody waits here: what is pending is answered by the host, and whoever leads now sends the markers."""
        self._is_unloaded = True
        self._transactions.clear()
        self._open.clear()
        self._pending.clear()
        self.deadlines.clear()


_NOT_THIS_PRODUCER = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED)


def _check_producer(known: TransactionMetadata | None, producer_id: int, producer_epoch: int) -> ErrorCode:
    if known is None or producer_id != known.client_producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != known.client_producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if known.state.is_prepared else ErrorCode.NONE


def _is_timed_out(known: TransactionMetadata, now_ms: int) -> bool:
    return (
        known.state is TransactionState.ONGOING
        and not known.is_two_phase
        and known.start_ms + known.timeout_ms < now_ms
    )


def undescribed(transactional_id: str, error: ErrorCode) -> transaction_admin.TransactionState:
    """The answer about an id that cannot be described."""
    return transaction_admin.TransactionState(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
