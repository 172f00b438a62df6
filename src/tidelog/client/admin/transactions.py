"""Transactions: which there are, ending one from outside, and finding those that nobody will ever end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidelog.client.admin.outcomes import each_of, error_of, value_of
from tidelog.client.admin.requests import OneBroker, TransactionCoordinator
from tidelog.client.admin.topics import TopicCalls
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic, topic_partition, topic_partitions
from tidelog.client.errors import ClientError, RefusedError, UnsupportedError
from tidelog.client.given_names import names_of
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducerState as WireProducer,
    TopicRequest,
)
from tidelog.wire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tidelog.wire.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# Kafka's own limit of `transaction.max.timeout.ms`: an open transaction that is older has nobody who will end it.
HANGING_AFTER_MS = 15 * 60 * 1000
# Partitions that one round asks for, so that a broker with very many is not asked for all at once.
PARTITIONS_PER_ROUND = 500

# Above this EndTxn belongs to version 2 of transactions.
_END_VERSION_1_MAX = 4
# Not stable in Apache Kafka: used only where it is asked for.
_PIN_VERSION = 6
_NO_TIMEOUT_MS = 2**31 - 1
_FEATURE = "transaction.version"


class TransactionState(StrEnum):
    """What a transactional id is at. The words are Kafka's."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    coordinator: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    """When the open transaction began; None where there is none."""
    partitions: tuple[TopicPartition, ...]
    """Those that it has written to, or whose markers are still to be written."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a partition remembers of a producer that has written to it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None
    """Where the producer's open transaction begins; None where it has none."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that a partition waits for."""

    partition: TopicPartition
    producer: ProducerState


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """Who a transactional id belongs to from now on: an epoch that no producer has."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class PinnedTransaction:
    """Who may end a transactional id's open transaction from now on, and by whom it was written."""

    producer_id: int
    producer_epoch: int
    written_by: tuple[int, int] | None
    """Producer id and epoch; None where no transaction is open."""


class TransactionCalls(TopicCalls):
    """What an admin does with transactions and their producers."""

    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all coordinators, by name: all, or those in some states, of some producers, with a
        transaction that is open for longer than `duration_ms`, or whose whole name a regular expression (RE2) matches.

        >>> await admin.list_transactions(states=[TransactionState.ONGOING], duration_ms=60_000)
        """
        wanted_states, wanted_ids = [str(each) for each in states], list(producer_ids)

        def request(version: int) -> ListTransactionsRequest:
            if (duration_ms is not None and version < 1) or (pattern is not None and version < 2):
                raise UnsupportedError("the cluster is too old to list transactions by their age or a pattern")
            return ListTransactionsRequest(
                state_filters=wanted_states,
                producer_id_filters=wanted_ids,
                duration_filter=-1 if duration_ms is None else duration_ms,
                transactional_id_pattern=pattern,
            )

        async def list_on(node_id: int) -> list[TransactionListing]:
            answer = await self._requests.ask(
                OneBroker(node_id), request, ListTransactionsResponse, codes=lambda each: [each.error_code]
            )
            value_of(error_of(answer.error_code, about=f"broker {node_id}"))
            return [
                TransactionListing(each.transactional_id, each.producer_id, _state(each.transaction_state), node_id)
                for each in answer.transaction_states
            ]

        listed = await each_of(await self._requests.broker_ids(), list_on)
        return sorted(
            (each for found in listed.values() for each in value_of(found)), key=lambda each: each.transactional_id
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | ClientError]:
        """What each transactional id is at."""
        return await each_of(names_of(transactional_ids, "transactional ids"), self.describe_transaction)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """What one is at. RefusedError with the code TRANSACTIONAL_ID_NOT_FOUND where nobody has used it.

        >>> (await admin.describe_transaction("payments-1")).state
        """
        answer = await self._requests.ask(
            TransactionCoordinator(transactional_id),
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            DescribeTransactionsResponse,
            codes=lambda each: [state.error_code for state in each.transaction_states],
        )
        described = answer.transaction_states[0]
        value_of(_transaction_error(transactional_id, described.error_code))
        coordinator = self._requests.transaction_coordinator_of(transactional_id)
        return TransactionDescription(
            transactional_id,
            -1 if coordinator is None else coordinator,
            _state(described.transaction_state),
            described.producer_id,
            described.producer_epoch,
            described.transaction_timeout_ms,
            described.transaction_start_time_ms if described.transaction_start_time_ms >= 0 else None,
            tuple(
                sorted(TopicPartition(topic.topic, index) for topic in described.topics for index in topic.partitions)
            ),
        )

    async def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> None:
        """Commit or abort the open transaction of a producer that may be gone: by what `prepare_transaction` recorded.

        >>> prepared = PreparedTransaction.parse(row.transaction)
        >>> await admin.end_transaction(*prepared, commit=True)

        RefusedError with INVALID_TXN_STATE where none is open, or it has ended the other way; with PRODUCER_FENCED or
        INVALID_PRODUCER_ID_MAPPING where the transactional id has gone on: the transaction meant has ended by then.
        """
        answer = await self._requests.ask(
            TransactionCoordinator(transactional_id),
            EndTxnRequest(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=commit,
            ),
            EndTxnResponse,
            codes=lambda each: [each.error_code],
            version_max=lambda: None if self._requests.feature_level(_FEATURE) >= 2 else _END_VERSION_1_MAX,
        )
        value_of(_transaction_error(transactional_id, answer.error_code))

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, FencedProducer | ClientError]:
        """Take transactional ids from whoever has them. What is open is aborted; their producers fail at their next step."""
        return await each_of(names_of(transactional_ids, "transactional ids"), self.fence_producer)

    async def fence_producer(self, transactional_id: str) -> FencedProducer:
        """The same for one."""
        answer = await self._requests.ask(
            TransactionCoordinator(transactional_id),
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=self._requests.options.request_timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
            ),
            InitProducerIdResponse,
            codes=lambda each: [each.error_code],
        )
        value_of(_transaction_error(transactional_id, answer.error_code))
        return FencedProducer(answer.producer_id, answer.producer_epoch)

    async def pin_transaction(self, transactional_id: str) -> PinnedTransaction:
        """Take a transactional id from its producer, and leave its open transaction as it is, from now on without a time-out: to
        be ended by `end_transaction` with what is returned (KIP-939). Asking again raises the epoch once more.

        UnsupportedError, or RefusedError with UNSUPPORTED_VERSION or TRANSACTIONAL_ID_AUTHORIZATION_FAILED, where the cluster
        has no two-phase commit or does not allow it.

        >>> pinned = await admin.pin_transaction("payments-1")
        >>> await admin.end_transaction("payments-1", pinned.producer_id, pinned.producer_epoch, commit=True)
        """

        def request(version: int) -> InitProducerIdRequest:
            if version < _PIN_VERSION:
                raise UnsupportedError("the cluster does not offer two-phase commit")
            return InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=_NO_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
                enable_2pc=True,
                keep_prepared_txn=True,
            )

        answer = await self._requests.ask(
            TransactionCoordinator(transactional_id),
            request,
            InitProducerIdResponse,
            codes=lambda each: [each.error_code],
            version_max=lambda: _PIN_VERSION,
        )
        value_of(_transaction_error(transactional_id, answer.error_code))
        has_open = answer.ongoing_txn_producer_id >= 0
        return PinnedTransaction(
            answer.producer_id,
            answer.producer_epoch,
            (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) if has_open else None,
        )

    # Of partitions.

    async def describe_producers(
        self, partitions: Iterable[tuple[str, int]], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState] | ClientError]:
        """The producers that each partition remembers, as its leader or some other broker with a replica knows them.

        >>> (await admin.describe_producers([("orders", 0)]))[("orders", 0)]
        """
        wanted = topic_partitions(partitions)

        def request(asked: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=each) for name, each in by_topic(asked).items()]
            )

        def read(answer: DescribeProducersResponse) -> list[tuple[TopicPartition, int, list[ProducerState]]]:
            return [
                (
                    TopicPartition(topic.name, each.partition_index),
                    each.error_code,
                    list(map(_producer, each.active_producers)),
                )
                for topic in answer.topics
                for each in topic.partitions
            ]

        asked = dict.fromkeys(wanted)
        if broker_id is None:
            return await self._requests.ask_leaders(asked, request, DescribeProducersResponse, read)
        answer = await self._requests.ask(OneBroker(broker_id), request(asked), DescribeProducersResponse)
        return {
            partition: error_of(code, about=str(partition)) or producers for partition, code, producers in read(answer)
        }

    async def abort_transaction(
        self, partition: tuple[str, int], producer_id: int, producer_epoch: int, coordinator_epoch: int | None
    ) -> None:
        """Write the abort marker that a partition waits for in vain: for a hanging transaction, of which the coordinator knows
        nothing. One that the coordinator knows is ended by `end_transaction`, or `fence_producer`.

        >>> for open in await admin.find_hanging_transactions(topic="orders"):
        ...     await admin.abort_hanging(open)
        """
        wanted = topic_partition(partition)

        def request(asked: Mapping[TopicPartition, None]) -> WriteTxnMarkersRequest:
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=each) for name, each in by_topic(asked).items()
                ],
                # None where no transaction of the producer has ever ended there: 0 is no higher than any coordinator's.
                coordinator_epoch=coordinator_epoch or 0,
            )
            return WriteTxnMarkersRequest(markers=[marker])

        def read(answer: WriteTxnMarkersResponse) -> list[tuple[TopicPartition, int, None]]:
            return [
                (TopicPartition(topic.name, each.partition_index), each.error_code, None)
                for marker in answer.markers
                for topic in marker.topics
                for each in topic.partitions
            ]

        outcomes = await self._requests.ask_leaders({wanted: None}, request, WriteTxnMarkersResponse, read)
        value_of(outcomes[wanted])

    async def abort_hanging(self, found: OpenTransaction) -> None:
        """Abort what `find_hanging_transactions` has found."""
        await self.abort_transaction(
            found.partition, found.producer.producer_id, found.producer.producer_epoch, found.producer.coordinator_epoch
        )

    async def find_open_transaction(self, partition: tuple[str, int], start_offset: int) -> OpenTransaction:
        """The transaction of a partition that begins at an offset. RefusedError where there is none."""
        wanted = topic_partition(partition)
        for producer in value_of((await self.describe_producers([wanted]))[wanted]):
            if producer.transaction_start_offset == start_offset:
                return OpenTransaction(wanted, producer)
        raise RefusedError(
            ErrorCode.INVALID_TXN_STATE,
            f"partition {wanted} has no open transaction that begins at offset {start_offset}",
        )

    async def find_hanging_transactions(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: int = HANGING_AFTER_MS,
    ) -> list[OpenTransaction]:
        """Transactions that keep readers of committed records waiting for ever: open in a partition for longer than any
        transaction may be, while the coordinator knows nothing of them there."""
        if topic is not None and partition is not None:
            partitions = [TopicPartition(topic, partition)]
        else:
            partitions = await self._partitions_of(topic, broker_id)
        candidates: list[OpenTransaction] = []
        now_ms = self._requests.clock.now_ms()
        for start in range(0, len(partitions), PARTITIONS_PER_ROUND):
            found = await self.describe_producers(partitions[start : start + PARTITIONS_PER_ROUND], broker_id=broker_id)
            candidates += [
                OpenTransaction(each, producer)
                for each, producers in found.items()
                for producer in value_of(producers)
                if producer.transaction_start_offset is not None
                and now_ms - producer.last_timestamp_ms > max_transaction_timeout_ms
            ]
        if not candidates:
            return []
        expected = await self._expected_markers({each.producer.producer_id for each in candidates})
        return sorted(
            (each for each in candidates if each.partition not in expected.get(each.producer.producer_id, ())),
            key=lambda each: each.partition,
        )

    async def _partitions_of(self, topic: str | None, broker_id: int | None) -> list[TopicPartition]:
        names = [topic] if topic is not None else [each.name for each in await self.list_topics(include_internal=True)]
        described = [value_of(each) for each in (await self.describe_topics(names)).values()]
        return [
            TopicPartition(each.name, partition.index)
            for each in described
            for partition in each.partitions
            if broker_id is None or broker_id in partition.replicas
        ]

    async def _expected_markers(self, producer_ids: Iterable[int]) -> dict[int, frozenset[TopicPartition]]:
        """The partitions in which a coordinator will end each producer's transaction."""
        listed = await self.list_transactions(producer_ids=sorted(producer_ids))
        expected: dict[int, frozenset[TopicPartition]] = {}
        for each in listed:
            try:
                expected[each.producer_id] = frozenset(
                    (await self.describe_transaction(each.transactional_id)).partitions
                )
            except RefusedError as error:
                if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
        return expected


def _transaction_error(transactional_id: str, code: int) -> RefusedError | None:
    """The error about a transactional id, in plain words where it is one that people meet."""
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return RefusedError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id}")
    about = f"transactional id {transactional_id}"
    if code == ErrorCode.INVALID_TXN_STATE:
        sentence = f"{about} has no open transaction, or it has ended the other way"
        return RefusedError(ErrorCode.INVALID_TXN_STATE, sentence)
    if code in {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}:
        sentence = f"{about} belongs to a newer producer: the transaction of this one has ended"
        return RefusedError(ErrorCode.of(code), sentence)
    return error_of(code, about=about)


_STATES = {state.value: state for state in TransactionState}


def _state(word: str) -> TransactionState:
    return _STATES.get(word, TransactionState.UNKNOWN)


def _producer(state: WireProducer) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
        state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None,
    )
