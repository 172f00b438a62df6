"""What is known of one transactional id. Immutable: each method gives the next state of affairs, to be recorded and then kept.

Which producer id and epoch the client holds, and which the transaction was written with, are mostly the same pair. They differ
after InitProducerId has kept a prepared transaction (KIP-939): the transaction stays under `producer_id` and `producer_epoch`,
and the client holds `next_producer_id` and `next_producer_epoch`. They also differ while markers are written for a transaction
whose end has used up the epochs of its producer id (KIP-890): `next_producer_id` is the one to go on with, from epoch 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tidelog.coordination.transaction.states import TransactionState, check_transition
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

EPOCH_MAX: Final = 32_767
# No client ever holds the largest epoch, so that there is always one left to fence it with.
CLIENT_EPOCH_MAX: Final = EPOCH_MAX - 1
# The time-out that a transaction of two phases is recorded with: it never comes.
NO_TIMEOUT_MS: Final = 2**31 - 1
# The first level of `transaction.version` at which the epoch rises with every end.
EPOCH_BUMP_VERSION: Final = 2

_NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


def bumps_epoch(transaction_version: int) -> bool:
    """Whether a transaction that is ended by this version raises the epoch."""
    return transaction_version >= EPOCH_BUMP_VERSION


class TransactionMetadata(msgspec.Struct, frozen=True):
    """One transactional id, as its last record has it, and `last_producer_epoch`, which no record holds."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    """When the first partition was added."""
    partitions: frozenset[TopicPartition] = _NO_PARTITIONS
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch from which the same client came to its present one. Lost with the coordinator, as in Kafka."""
    client_transaction_version: int = 0
    """By which version the client has done what is recorded; 0 also stands for 1."""

    # --- what it means -----------------------------------------------------------------------------------------------------

    @property
    def client_producer_id(self) -> int:
        return self.producer_id if self.next_producer_epoch == NO_PRODUCER_EPOCH else self.next_producer_id

    @property
    def client_producer_epoch(self) -> int:
        return self.producer_epoch if self.next_producer_epoch == NO_PRODUCER_EPOCH else self.next_producer_epoch

    @property
    def is_kept(self) -> bool:
        """Whether this is a transaction that a later producer has found prepared, and may end but not add to."""
        return self.state is TransactionState.ONGOING and self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the client's next epoch needs another producer id."""
        return self.client_producer_epoch >= CLIENT_EPOCH_MAX

    @property
    def is_two_phase(self) -> bool:
        """Whether only its client ends it, however long that takes."""
        return self.timeout_ms == NO_TIMEOUT_MS

    # --- what comes next ---------------------------------------------------------------------------------------------------

    @staticmethod
    def created(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
        """An id that was not known: nobody has an epoch yet."""
        return TransactionMetadata(
            transactional_id, producer_id, NO_PRODUCER_EPOCH, timeout_ms, TransactionState.EMPTY, now_ms
        )

    def initialised(
        self, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        """For a producer that begins, with this epoch."""
        return self._at(
            TransactionState.EMPTY,
            now_ms,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=_NO_PARTITIONS,
            start_ms=NO_TIMESTAMP,
        )

    def rotated(self, producer_id: int, last_producer_epoch: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
        """For a producer that begins, with another producer id, since this one has no epoch left."""
        return self._at(
            TransactionState.EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=_NO_PARTITIONS,
            start_ms=NO_TIMESTAMP,
        )

    def kept(self, fresh_producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
        """With the open transaction as it is, for a producer that is to end it: the one that wrote it is fenced."""
        is_rotated = self.is_epoch_exhausted
        return self._at(
            TransactionState.ONGOING,
            now_ms,
            next_producer_id=fresh_producer_id if is_rotated else self.client_producer_id,
            next_producer_epoch=0 if is_rotated else self.client_producer_epoch + 1,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
        )

    def with_partitions(
        self, partitions: Iterable[TopicPartition], transaction_version: int, now_ms: int
    ) -> TransactionMetadata:
        return self._at(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions.union(partitions),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_transaction_version=transaction_version,
        )

    def prepared(
        self, *, is_committed: bool, transaction_version: int, fresh_producer_id: int, now_ms: int
    ) -> TransactionMetadata:
        """With its outcome decided. By version 2 the client goes on with the next epoch, or else with a fresh producer id."""
        state = TransactionState.PREPARE_COMMIT if is_committed else TransactionState.PREPARE_ABORT
        # An abort where nothing was added (version 2) begins and ends at once.
        start_ms = self.start_ms if self.state is TransactionState.ONGOING else now_ms
        if not bumps_epoch(transaction_version):
            return self._at(state, now_ms, start_ms=start_ms, client_transaction_version=0)
        is_under_own_id = self.client_producer_id == self.producer_id
        next_producer_id: int = NO_PRODUCER_ID
        next_producer_epoch: int = NO_PRODUCER_EPOCH
        if self.is_epoch_exhausted:
            next_producer_id = fresh_producer_id
        elif not is_under_own_id:
            next_producer_id, next_producer_epoch = self.client_producer_id, self.client_producer_epoch + 1
        # The markers' epoch is above that of the records. Where both pairs have one id, it is also the client's next.
        base_epoch = self.client_producer_epoch if is_under_own_id else self.producer_epoch
        return self._at(
            state,
            now_ms,
            producer_epoch=min(base_epoch + 1, EPOCH_MAX),
            last_producer_epoch=self.client_producer_epoch,
            previous_producer_id=self.client_producer_id,
            next_producer_id=next_producer_id,
            next_producer_epoch=next_producer_epoch,
            start_ms=start_ms,
            client_transaction_version=transaction_version,
        )

    def fenced(self, server_version: int, fresh_producer_id: int, now_ms: int) -> TransactionMetadata:
        """About to be aborted by the coordinator, with an epoch that its producer does not have."""
        if bumps_epoch(server_version):
            return self.prepared(
                is_committed=False,
                transaction_version=server_version,
                fresh_producer_id=fresh_producer_id,
                now_ms=now_ms,
            )
        return self._at(
            TransactionState.PREPARE_ABORT,
            now_ms,
            producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX),
            last_producer_epoch=NO_PRODUCER_EPOCH,
            client_transaction_version=0,
        )

    def completed(self, now_ms: int) -> TransactionMetadata:
        """With every marker written."""
        is_committed = self.state is TransactionState.PREPARE_COMMIT
        is_rotated = self.next_producer_id != NO_PRODUCER_ID
        return self._at(
            TransactionState.COMPLETE_COMMIT if is_committed else TransactionState.COMPLETE_ABORT,
            now_ms,
            producer_id=self.next_producer_id if is_rotated else self.producer_id,
            producer_epoch=max(self.next_producer_epoch, 0) if is_rotated else self.producer_epoch,
            # Where the id changes, the one that the client has ended the transaction with tells a repeated end.
            previous_producer_id=self.previous_producer_id if is_rotated else self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            partitions=_NO_PARTITIONS,
        )

    def _at(self, state: TransactionState, now_ms: int, **changes: object) -> TransactionMetadata:
        """As Kafka does it, the previous producer id is what was the producer id before this change, whatever it was."""
        check_transition(self.state, state)
        changes.setdefault("previous_producer_id", self.producer_id)
        return msgspec.structs.replace(self, state=state, last_update_ms=now_ms, **changes)
