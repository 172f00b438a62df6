"""What a transactional producer asks of coordinators: that of its transactional id, and that of a group whose offsets it commits.

Every request is asked until there is an answer to go by, since one of which nobody knows whether it was done has to be asked
again; only the caller's patience is a limit. An answer that ends the transaction or the producer is raised as
CoordinatorRefusal, with what it means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tidelog.client.connections import Connections, Versioned
from tidelog.client.consumer.records import GroupMetadata, OffsetAndMetadata
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.coordinators import CoordinatorKind, Coordinators
from tidelog.client.errors import ClientError, ClosedError, RefusedError, UnsupportedError, refusal
from tidelog.client.producer.options import INT_MAX, ProducerOptions
from tidelog.client.producer.sequences import ProducerIdentity
from tidelog.client.producer.transaction_verdicts import Step, Verdict, verdict_of
from tidelog.client.retries import CONCURRENT_BACKOFF_MS, RetryBackoff
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tidelog.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tidelog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

# Above these a request belongs to version 2 of the protocol (KIP-890).
_END_VERSION_1_MAX = 4
_COMMIT_OFFSETS_VERSION_1_MAX = 4
# Later versions of AddPartitionsToTxn are for brokers among themselves.
_ADD_PARTITIONS_VERSION_MAX = 3
# Not stable in Apache Kafka: used only where two-phase commit is asked for.
_TWO_PHASE_VERSION = 6
_KNOWN_EPOCH_VERSION = 3
_MEMBER_VERSION = 3
# Its markers are being written: it is about to be complete.
_ENDING_STATES = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class CoordinatorRefusal(Exception):  # noqa: N818 - a word from one module to the next, never an application's
    """What an answer means for the transaction, and why."""

    def __init__(self, verdict: Verdict, reason: ClientError) -> None:
        super().__init__(str(reason))
        self.verdict = verdict
        self.reason = reason


class TransactionRequests:
    """One for each producer with a `transactional_id`."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        coordinators: Coordinators,
        options: ProducerOptions,
        transactional_id: str,
    ) -> None:
        self._connections = connections
        self._coordinators = coordinators
        self._options = options
        self._transactional_id = transactional_id
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._concurrent_backoff = RetryBackoff(
            seams.random, min(CONCURRENT_BACKOFF_MS, options.retry_backoff_ms), options.retry_backoff_max_ms
        )
        self._problem: ClientError | None = None

    @property
    def reason(self) -> str:
        """What keeps the request that is under way from being done, as the end of a sentence."""
        return self._connections.because(self._problem)

    async def init_producer_id(
        self, identity: ProducerIdentity | None, *, keep_prepared: bool = False
    ) -> InitProducerIdResponse:
        """An id and epoch of the transactional id; the next epoch of a producer that says who it is (KIP-360)."""
        is_two_phase = self._options.transaction_two_phase_commit_enable

        def request(version: int) -> InitProducerIdRequest:
            if is_two_phase and version < _TWO_PHASE_VERSION:
                raise UnsupportedError("the cluster does not offer two-phase commit")
            if identity is not None and version < _KNOWN_EPOCH_VERSION:
                raise UnsupportedError("the cluster is too old for a producer to go on after an error")
            return InitProducerIdRequest(
                transactional_id=self._transactional_id,
                # A transaction that waits for another system's decision must not end by itself.
                transaction_timeout_ms=INT_MAX if is_two_phase else self._options.transaction_timeout_ms,
                producer_id=-1 if identity is None else identity.producer_id,
                producer_epoch=-1 if identity is None else identity.epoch,
                enable_2pc=is_two_phase,
                keep_prepared_txn=keep_prepared,
            )

        return await self._ask(
            Step.INIT_PRODUCER_ID,
            request,
            InitProducerIdResponse,
            lambda each: ErrorCode.of(each.error_code),
            version_max=_TWO_PHASE_VERSION if is_two_phase else None,
        )

    async def add_partitions(self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]) -> None:
        """Version 1: the coordinator has to know of a partition before anything is written to it."""
        request = AddPartitionsToTxnRequest(
            transactions=[],
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic(partitions).items()
            ],
        )
        await self._ask(
            Step.ADD_PARTITIONS,
            request,
            AddPartitionsToTxnResponse,
            lambda each: _worst(
                result.partition_error_code
                for topic in each.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ),
            version_max=_ADD_PARTITIONS_VERSION_MAX,
        )

    async def add_offsets(self, identity: ProducerIdentity, group_id: str) -> None:
        """Version 1: the same for a group's offsets."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        await self._ask(Step.ADD_OFFSETS, request, AddOffsetsToTxnResponse, lambda each: ErrorCode.of(each.error_code))

    async def commit_offsets(
        self,
        identity: ProducerIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        *,
        is_version_2: bool,
    ) -> None:
        """Commit a group's offsets as part of the transaction."""

        def request(version: int) -> TxnOffsetCommitRequest:
            knows_members = version >= _MEMBER_VERSION
            if not knows_members and group.member_id:
                raise UnsupportedError("the cluster is too old to fence a member of a group: give the group's id alone")
            return TxnOffsetCommitRequest(
                transactional_id=self._transactional_id,
                group_id=group.group_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                generation_id=group.generation_id if knows_members else -1,
                member_id=group.member_id if knows_members else "",
                group_instance_id=group.group_instance_id if knows_members else None,
                topics=_offset_topics(offsets),
            )

        await self._ask(
            Step.COMMIT_OFFSETS,
            request,
            TxnOffsetCommitResponse,
            lambda each: _worst(partition.error_code for topic in each.topics for partition in topic.partitions),
            version_max=None if is_version_2 else _COMMIT_OFFSETS_VERSION_1_MAX,
            group_id=group.group_id,
        )

    async def end(
        self, identity: ProducerIdentity, *, commit: bool, is_version_2: bool, may_be_unknown: bool
    ) -> EndTxnResponse:
        """End the transaction. With `may_be_unknown`, none to abort is as good as one that was aborted."""
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )

        def code_of(answer: EndTxnResponse) -> ErrorCode:
            code = ErrorCode.of(answer.error_code)
            return ErrorCode.NONE if may_be_unknown and code is ErrorCode.INVALID_TXN_STATE else code

        return await self._ask(
            Step.COMMIT if commit else Step.ABORT,
            request,
            EndTxnResponse,
            code_of,
            version_max=None if is_version_2 else _END_VERSION_1_MAX,
        )

    async def describe(self) -> TransactionState:
        """What the coordinator has of the transactional id, once nothing of it is in the middle of its end."""

        def code_of(answer: DescribeTransactionsResponse) -> ErrorCode:
            described = answer.transaction_states[0]
            is_ending = described.transaction_state in _ENDING_STATES
            return ErrorCode.CONCURRENT_TRANSACTIONS if is_ending else ErrorCode.of(described.error_code)

        request = DescribeTransactionsRequest(transactional_ids=[self._transactional_id])
        answer = await self._ask(Step.DESCRIBE, request, DescribeTransactionsResponse, code_of)
        return answer.transaction_states[0]

    async def _ask(
        self,
        step: Step,
        request: Request | Versioned,
        kind: type[R],
        code_of: Callable[[R], ErrorCode],
        *,
        version_max: int | None = None,
        group_id: str | None = None,
    ) -> R:
        route = (
            (CoordinatorKind.TRANSACTION, self._transactional_id)
            if group_id is None
            else (CoordinatorKind.GROUP, group_id)
        )
        failures = 0
        while True:
            backoff = self._backoff
            try:
                node_id = await self._coordinators.find(*route, timeout_ms=self._options.request_timeout_ms)
                answer = await self._connections.ask(node_id, request, kind, version_max=version_max)
            except ClosedError:
                raise
            except ClientError as error:
                if not error.retriable:
                    raise CoordinatorRefusal(_verdict_of(step, error), error) from error
                self._problem = error
                self._coordinators.lost(*route)
            else:
                code = code_of(answer)
                if code is ErrorCode.NONE:
                    self._problem = None
                    return answer
                self._problem = refusal(code, None, about=step.value)
                verdict = verdict_of(step, code)
                if verdict is Verdict.FIND_COORDINATOR:
                    self._coordinators.lost(*route)
                elif verdict is not Verdict.RETRY:
                    raise CoordinatorRefusal(verdict, self._problem)
                elif code is ErrorCode.CONCURRENT_TRANSACTIONS:
                    backoff = self._concurrent_backoff
            failures += 1
            await asyncio.sleep(backoff.after(failures) / 1000)


def _verdict_of(step: Step, error: ClientError) -> Verdict:
    """Of what was refused before a coordinator had its say."""
    return verdict_of(step, error.code) if isinstance(error, RefusedError) else Verdict.FATAL


def _worst(codes: Iterable[int]) -> ErrorCode:
    """The code that decides: one that ends something before one that may pass, and a cause before what was left undone by it."""

    def rank(code: ErrorCode) -> int:
        if code is ErrorCode.NONE:
            return 0
        if code is ErrorCode.OPERATION_NOT_ATTEMPTED:
            return 1
        return 2 if code.retriable else 3

    return max(map(ErrorCode.of, codes), key=rank, default=ErrorCode.NONE)


def _offset_topics(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[TxnOffsetCommitRequestTopic]:
    return [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=(each := offsets[TopicPartition(name, index)]).offset,
                    committed_leader_epoch=each.leader_epoch,
                    committed_metadata=each.metadata,
                )
                for index in indexes
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]
