"""Lets transactional records in: their coordinator must know of the partition before the first of a transaction is appended.

    client                            what is done before the append
    Produce v12+, TxnOffsetCommit v5+ the partition is added to the transaction, which this begins (KIP-890)
    older                             the client has added it, and the coordinator is asked whether it did, unless
                                      `transaction.partition.verification.enable` is off

Nothing is asked for a partition in which the producer has a transaction open already, and nothing twice: what it sends to a
partition while that is asked about waits for the answer as well (`admission_order`). Each answer is worth only as much as the
guard that was given out with the question (`storage.verification_guard`). What a coordinator says is told in words that the
client's version knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from tidelog.broker.transactions.admission_order import AdmissionOrder
from tidelog.broker.transactions.transaction_questions import Outcomes, TransactionQuestions, Writing
from tidelog.model import transaction_config as keys
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.metrics import LATENCY_BOUNDS_MS, Histogram
from tidelog.model.pending import Pending
from tidelog.model.timers import Timers
from tidelog.replication.partition import Partition
from tidelog.storage.verification_guard import NO_GUARD


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
        questions: TransactionQuestions,
        clock: Clock,
        timers: Timers,
        config_now: Callable[[], ConfigValues],
    ) -> None:
        self._questions = questions
        self._clock = clock
        self._timers = timers
        self._config_now = config_now
        # Every batch of a transaction asks, and the configuration almost never changes.
        self._config_known: ConfigValues | None = None
        self._verifies_known = False
        self._order: AdmissionOrder[Admission] = AdmissionOrder()
        self.failure_count = 0
        """How many partitions were refused, since the start."""
        self.verification_ms = Histogram(LATENCY_BOUNDS_MS)
        """How long coordinators took to answer, since the start. One on this node answers at once."""

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
        Whoever reads a pending answer has to append before that returns: it is the turn of the producer's next request then.
        """
        writing = (transactional_id, producer_id, producer_epoch)
        ask = partial(self._ask, *writing, sequences, understanding, tries_again)
        return self._order.next(producer_id, sequences.keys(), ask)

    def _ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        sequences: Mapping[Partition, int],
        understanding: Understanding,
        tries_again: bool,
    ) -> Admission | Pending[Admission]:
        adds = understanding is Understanding.ADDS_PARTITIONS
        verifies = self._verifies()
        admission = Admission({}, {})
        if not adds and not verifies:
            admission.guards.update((partition.topic_partition, None) for partition in sequences)
            return admission
        asked: dict[Partition, int] = {}
        for partition, sequence in sequences.items():
            where = partition.topic_partition
            guard = partition.begin_verification(producer_id, producer_epoch, sequence, raises_epochs=adds)
            if isinstance(guard, ErrorCode):
                admission.errors[where] = guard
                continue
            if guard != NO_GUARD:
                asked[partition] = sequence
            admission.guards[where] = guard if verifies else None
        if not asked:
            return admission
        partitions = [partition.topic_partition for partition in asked]
        writing = Writing(transactional_id, producer_id, producer_epoch, partitions)
        if adds:
            return _Adding(self, writing, asked, admission, tries_again).start()
        verified = self._questions.verify(writing)
        if not isinstance(verified, Pending):
            self.verification_ms.observe(0)
            self.refuse(admission, verified, understanding)
            return admission
        answer: Pending[Admission] = Pending()
        verified.then(partial(self._verified, answer, admission, understanding, self.monotonic_ms()))
        return answer

    def ask_at_once(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        sequences: Sequence[tuple[Partition, int]],
        understanding: Understanding,
    ) -> Sequence[int | None] | None:
        """`ask` where nobody has to be waited for and nothing is refused: the guard for each partition.

        None otherwise. `ask` is to follow then; what was asked for here already does no harm there.
        """
        if self._order.has(producer_id):
            return None
        adds = understanding is Understanding.ADDS_PARTITIONS
        verifies = self._verifies()
        if not adds and not verifies:
            return [None] * len(sequences)
        guards: list[int | None] = []
        asked: list[TopicPartition] = []
        for partition, sequence in sequences:
            guard = partition.begin_verification(producer_id, producer_epoch, sequence, raises_epochs=adds)
            if isinstance(guard, ErrorCode):
                return None
            if guard != NO_GUARD:
                asked.append(partition.topic_partition)
            guards.append(guard if verifies else None)
        if asked:
            writing = Writing(transactional_id, producer_id, producer_epoch, asked)
            if not self._questions.allows_at_once(writing, adds=adds):
                return None
            self.verification_ms.observe(0)
        return guards

    def _verifies(self) -> bool:
        config = self._config_now()
        if config is not self._config_known:
            self._config_known = config
            self._verifies_known = config[keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE]
        return self._verifies_known

    def _verified(
        self,
        answer: Pending[Admission],
        admission: Admission,
        understanding: Understanding,
        begun_ms: int,
        outcomes: Outcomes,
    ) -> None:
        self.verification_ms.observe(self.monotonic_ms() - begun_ms)
        self.refuse(admission, outcomes, understanding)
        answer.complete(admission)

    def add(self, writing: Writing) -> ErrorCode | Pending[ErrorCode]:
        return self._questions.add(writing)

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
    def waiting_count(self) -> int:
        """How many requests wait for a coordinator, or for one that does."""
        return self._order.waiting_count

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

    __slots__ = ("_admission", "_answer", "_begun_ms", "_owner", "_sequences", "_tries_again", "_writing")

    def __init__(
        self,
        owner: TransactionAdmission,
        writing: Writing,
        sequences: Mapping[Partition, int],
        admission: Admission,
        tries_again: bool,
    ) -> None:
        self._writing = writing
        self._sequences = sequences
        self._owner = owner
        self._admission = admission
        self._tries_again = tries_again
        self._begun_ms = owner.monotonic_ms()
        self._answer: Pending[Admission] | None = None

    def start(self) -> Admission | Pending[Admission]:
        added = self._owner.add(self._writing)
        if not isinstance(added, Pending) and not self._is_to_be_tried_again(added):
            return self._settled(added)
        self._answer = Pending()
        self._follow(added)
        return self._answer

    def _again(self) -> None:
        self._renew_guards()
        self._follow(self._owner.add(self._writing))

    def _follow(self, added: ErrorCode | Pending[ErrorCode]) -> None:
        if isinstance(added, Pending):
            added.then(self._added)
        else:
            self._added(added)

    def _added(self, error: ErrorCode) -> None:
        assert self._answer is not None
        if error is ErrorCode.NONE and self._renew_guards():
            if self._is_in_time():
                self._follow(self._owner.add(self._writing))
            else:
                self._answer.complete(self._settled(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif self._is_to_be_tried_again(error):
            self._owner.timers.after(self._owner.retry_backoff_ms, self._again)
        else:
            self._answer.complete(self._settled(error))

    def _is_to_be_tried_again(self, error: ErrorCode) -> bool:
        if error is not ErrorCode.CONCURRENT_TRANSACTIONS or not self._tries_again:
            return False
        return self._is_in_time()

    def _is_in_time(self) -> bool:
        return self._owner.monotonic_ms() - self._begun_ms < self._owner.retry_backoff_max_ms

    def _renew_guards(self) -> bool:
        """Take the guards that count now. Whether one is new: then what its partition is told by an earlier answer is worth
        nothing. The markers of the producer's last transaction may arrive while the coordinator is asked about this one."""
        is_new = False
        guards, writing = self._admission.guards, self._writing
        for partition, sequence in self._sequences.items():
            known = guards[partition.topic_partition]
            if known is None:
                continue
            guard = partition.begin_verification(
                writing.producer_id, writing.producer_epoch, sequence, raises_epochs=True
            )
            # Whatever else has changed the append will say.
            if not isinstance(guard, ErrorCode) and guard not in {known, NO_GUARD}:
                guards[partition.topic_partition] = guard
                is_new = True
        return is_new

    def _settled(self, error: ErrorCode) -> Admission:
        self._owner.verification_ms.observe(self._owner.monotonic_ms() - self._begun_ms)
        outcomes = dict.fromkeys(self._writing.partitions, error)
        self._owner.refuse(self._admission, outcomes, Understanding.ADDS_PARTITIONS)
        return self._admission
