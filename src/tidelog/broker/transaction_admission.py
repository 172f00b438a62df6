"""Lets transactional records in: their coordinator must know of the partition before the first of a transaction is appended.

    client                            what is done before the append
    Produce v12+, TxnOffsetCommit v5+ the partition is added to the transaction, which this begins (KIP-890)
    older                             the client has added it, and the coordinator is asked whether it did, unless
                                      `transaction.partition.verification.enable` is off

Nothing is asked for a partition in which the producer has a transaction open already. Each answer is worth only as much as the
guard that was given out with the question (`storage.verification_guard`). What a coordinator says is told in words that the
client's version knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.model import transaction_config as keys
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.pending import Pending
from tidelog.model.timers import Timers
from tidelog.replication.partition import Partition
from tidelog.storage.verification_guard import NO_GUARD

ADDS_PARTITIONS_VERSION = 2
"""The transaction version whose clients leave it to brokers to add partitions."""


class Understanding(Enum):
    """What a client's version of a request knows about transactions."""

    NO_ABORTABLE_ERROR = "it takes INVALID_TXN_STATE for what is TRANSACTION_ABORTABLE"
    ABORTABLE_ERROR = "it knows TRANSACTION_ABORTABLE"
    ADDS_PARTITIONS = "it leaves it to the broker to add partitions"


def produce_understanding(version: int) -> Understanding:
    """Of a Produce request."""
    if version > 11:
        return Understanding.ADDS_PARTITIONS
    return Understanding.ABORTABLE_ERROR if version > 10 else Understanding.NO_ABORTABLE_ERROR


def commit_understanding(version: int) -> Understanding:
    """Of a TxnOffsetCommit request."""
    if version > 4:
        return Understanding.ADDS_PARTITIONS
    return Understanding.ABORTABLE_ERROR if version > 3 else Understanding.NO_ABORTABLE_ERROR


class Admission(NamedTuple):
    """Of each partition either the guard to append with (None: nobody verifies), or why nothing may be."""

    guards: dict[TopicPartition, int | None]
    errors: dict[TopicPartition, ErrorCode]


class TransactionAdmission:
    """The partitions of a node, and the coordinators that they ask."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        clock: Clock,
        timers: Timers,
        config_now: Callable[[], ConfigValues],
    ) -> None:
        self._transactions = transactions
        self._clock = clock
        self._timers = timers
        self._config_now = config_now
        self.failure_count = 0
        """How many partitions were refused, since the start."""

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        sequences: Mapping[Partition, int],
        understanding: Understanding,
        *,
        tries_again: bool = True,
    ) -> Admission | Pending[Admission]:
        """Whether a producer may write to these partitions, to each from a sequence number on.

        `tries_again`: wait a little for a transaction that is still being ended, rather than have the client come again.
        """
        adds = understanding is Understanding.ADDS_PARTITIONS
        verifies: bool = self._config_now()[keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE]
        admission = Admission({}, {})
        if not adds and not verifies:
            admission.guards.update((partition.topic_partition, None) for partition in sequences)
            return admission
        asked: list[TopicPartition] = []
        for partition, sequence in sequences.items():
            where = partition.topic_partition
            guard = partition.begin_verification(producer_id, producer_epoch, sequence, raises_epochs=adds)
            if isinstance(guard, ErrorCode):
                admission.errors[where] = guard
                continue
            if guard != NO_GUARD:
                asked.append(where)
            admission.guards[where] = guard if verifies else None
        if not asked:
            return admission
        if adds:
            return _Adding(self, transactional_id, producer_id, producer_epoch, asked, admission, tries_again).start()
        verified = self._transactions.verify_partitions(transactional_id, producer_id, producer_epoch, asked)
        self.refuse(admission, verified, understanding)
        return admission

    def add(self, adding: _Adding) -> ErrorCode | Pending[ErrorCode]:
        return self._transactions.add_partitions(
            adding.transactional_id,
            adding.producer_id,
            adding.producer_epoch,
            adding.asked,
            ADDS_PARTITIONS_VERSION,
        )

    def refuse(
        self, admission: Admission, outcomes: Mapping[TopicPartition, ErrorCode], understanding: Understanding
    ) -> None:
        """Take note of what the coordinator has refused."""
        for where, error in outcomes.items():
            if error is ErrorCode.NONE:
                continue
            self.failure_count += 1
            del admission.guards[where]
            if error is ErrorCode.PRODUCER_FENCED:
                # What producers know how to handle in the answer to a Produce.
                error = ErrorCode.INVALID_PRODUCER_EPOCH  # noqa: PLW2901
            elif error is ErrorCode.TRANSACTION_ABORTABLE and understanding is Understanding.NO_ABORTABLE_ERROR:
                error = ErrorCode.INVALID_TXN_STATE  # noqa: PLW2901
            admission.errors[where] = error

    @property
    def retry_backoff_ms(self) -> int:
        return self._config_now()[keys.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS]

    @property
    def retry_backoff_max_ms(self) -> int:
        return self._config_now()[keys.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS]

    @property
    def timers(self) -> Timers:
        return self._timers

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()


class _Adding:
    """Partitions that are on their way into a transaction."""

    __slots__ = (
        "_admission",
        "_answer",
        "_begun_ms",
        "_owner",
        "_tries_again",
        "asked",
        "producer_epoch",
        "producer_id",
        "transactional_id",
    )

    def __init__(
        self,
        owner: TransactionAdmission,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        asked: list[TopicPartition],
        admission: Admission,
        tries_again: bool,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.asked = asked
        self._owner = owner
        self._admission = admission
        self._tries_again = tries_again
        self._begun_ms = owner.monotonic_ms()
        self._answer: Pending[Admission] | None = None

    def start(self) -> Admission | Pending[Admission]:
        added = self._owner.add(self)
        if not isinstance(added, Pending) and not self._is_to_be_tried_again(added):
            return self._settled(added)
        self._answer = Pending()
        self._follow(added)
        return self._answer

    def _again(self) -> None:
        self._follow(self._owner.add(self))

    def _follow(self, added: ErrorCode | Pending[ErrorCode]) -> None:
        if isinstance(added, Pending):
            added.then(self._added)
        else:
            self._added(added)

    def _added(self, error: ErrorCode) -> None:
        assert self._answer is not None
        if self._is_to_be_tried_again(error):
            self._owner.timers.after(self._owner.retry_backoff_ms, self._again)
        else:
            self._answer.complete(self._settled(error))

    def _is_to_be_tried_again(self, error: ErrorCode) -> bool:
        if error is not ErrorCode.CONCURRENT_TRANSACTIONS or not self._tries_again:
            return False
        return self._owner.monotonic_ms() - self._begun_ms < self._owner.retry_backoff_max_ms

    def _settled(self, error: ErrorCode) -> Admission:
        outcomes = dict.fromkeys(self.asked, error)
        self._owner.refuse(self._admission, outcomes, Understanding.ADDS_PARTITIONS)
        return self._admission
