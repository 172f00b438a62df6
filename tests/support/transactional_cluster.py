"""A scripted cluster with transactions: one coordinator that keeps the rules of Kafka's, in either version of the protocol.

    world = TransactionalCluster(version=2, topics={"orders": 1})
    world.run(main)
    world.visible["orders", 0]             # what a reader of committed records sees

It is a judge, not a broker: a batch of a transaction that is not open where it should be fails the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.scripted_cluster import Partition, ScriptedBroker, ScriptedCluster
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.wire.record_batch import read_header
from tidelog.wire.schema import Request, Response

_KEYS = (
    ApiKey.PRODUCE,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.FIND_COORDINATOR,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
)


@dataclass
class Transaction:
    """What the coordinator knows of one transactional id."""

    producer_id: int
    epoch: int = 0
    is_open: bool = False
    ended_by: bool | None = None
    """Whether the last one was committed; None where there was none."""
    partitions: set[tuple[str, int]] = field(default_factory=set)
    values: list[tuple[str, int, bytes | None]] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)


class TransactionalCluster(ScriptedCluster):
    def __init__(
        self,
        *,
        version: int = 2,
        seed: int = 1,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        two_phase: bool = False,
    ) -> None:
        super().__init__(seed=seed, brokers=brokers, topics=topics)
        self.version = version
        self.features_epoch = 1
        self.two_phase = two_phase
        self.transactions: dict[str, Transaction] = {}
        self.visible: dict[tuple[str, int], list[bytes | None]] = {}
        self.committed_offsets: dict[tuple[str, str, int], int] = {}
        self.ended: list[tuple[str, bool]] = []

    def answer(self, broker: ScriptedBroker, request: Request) -> Response:
        match request:
            case ApiVersionsRequest():
                return self._api_versions()
            case InitProducerIdRequest():
                return self._init(request)
            case AddPartitionsToTxnRequest():
                return self._add_partitions(request)
            case AddOffsetsToTxnRequest():
                return self._add_offsets(request)
            case TxnOffsetCommitRequest():
                return self._commit_offsets(broker, request)
            case EndTxnRequest():
                return self._end(broker, request)
            case ProduceRequest() if request.transactional_id is not None:
                return self._produce_in_transaction(broker, request)
        return super().answer(broker, request)

    def _api_versions(self) -> ApiVersionsResponse:
        spoken = []
        for key in _KEYS:
            lowest, highest = self.versions.get(key, tuple(api(key).announced_versions))
            if key is ApiKey.INIT_PRODUCER_ID and self.two_phase:
                highest = 6
            spoken.append(ApiVersion(api_key=key, min_version=lowest, max_version=highest))
        level = FinalizedFeatureKey(name="transaction.version", max_version_level=self.version, min_version_level=0)
        return ApiVersionsResponse(
            error_code=0,
            api_keys=spoken,
            throttle_time_ms=0,
            finalized_features_epoch=self.features_epoch,
            finalized_features=[level] if self.version else [],
        )

    def raise_feature(self, version: int) -> None:
        """The cluster agrees on another level; nodes that are greeted from now on tell."""
        self.version = version
        self.features_epoch += 1

    # The coordinator.

    def _init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        assert request.transactional_id is not None
        known = self.transactions.get(request.transactional_id)
        if known is None:
            self.next_producer_id += 1
            known = self.transactions[request.transactional_id] = Transaction(self.next_producer_id, -1)
        elif request.producer_id >= 0:
            # The epoch before is a repetition of a request whose answer was lost.
            if request.producer_id != known.producer_id or not 0 <= known.epoch - request.producer_epoch <= 1:
                return InitProducerIdResponse(
                    throttle_time_ms=0, error_code=ErrorCode.PRODUCER_FENCED, producer_id=-1, producer_epoch=-1
                )
            assert not known.is_open, "the epoch is raised within a transaction"
            if request.producer_epoch < known.epoch:
                return InitProducerIdResponse(
                    throttle_time_ms=0, error_code=0, producer_id=known.producer_id, producer_epoch=known.epoch
                )
        ongoing = (known.producer_id, known.epoch) if known.is_open and request.keep_prepared_txn else (-1, -1)
        if known.is_open and not request.keep_prepared_txn:
            self._close(request.transactional_id, known, commit=False)
        known.epoch += 1
        return InitProducerIdResponse(
            throttle_time_ms=0,
            error_code=0,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
            ongoing_txn_producer_id=ongoing[0],
            ongoing_txn_producer_epoch=ongoing[1],
        )

    def _refusal(self, transactional_id: str, producer_id: int, epoch: int) -> ErrorCode:
        known = self.transactions.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if known.epoch == epoch else ErrorCode.PRODUCER_FENCED

    def _add_partitions(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        name = request.v3_and_below_transactional_id
        code = self._refusal(name, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        if not code:
            known = self.transactions[name]
            known.is_open = True
            known.partitions |= {
                (topic.name, each) for topic in request.v3_and_below_topics for each in topic.partitions
            }
        return add_partitions_answer(request, code)

    def _add_offsets(self, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        code = self._refusal(request.transactional_id, request.producer_id, request.producer_epoch)
        if not code:
            known = self.transactions[request.transactional_id]
            known.is_open = True
            known.groups.add(request.group_id)
        return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)

    def _commit_offsets(self, broker: ScriptedBroker, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        code = self._refusal(request.transactional_id, request.producer_id, request.producer_epoch)
        implies = broker.versions[-1][1] >= 5
        assert not implies or self.version >= 2, "the cluster has not agreed on version 2"
        if not code:
            known = self.transactions[request.transactional_id]
            if implies:
                known.is_open = True
                known.groups.add(request.group_id)
            if request.group_id in known.groups and known.is_open:
                for topic in request.topics:
                    for each in topic.partitions:
                        known.offsets[request.group_id, topic.name, each.partition_index] = each.committed_offset
            else:
                code = ErrorCode.INVALID_TXN_STATE
        return offsets_answer(request, code)

    def _end(self, broker: ScriptedBroker, request: EndTxnRequest) -> EndTxnResponse:
        known = self.transactions.get(request.transactional_id)
        raises_epoch = broker.versions[-1][1] >= 5
        assert not raises_epoch or self.version >= 2, "the cluster has not agreed on version 2"
        code = self._refusal(request.transactional_id, request.producer_id, request.producer_epoch)
        if known is not None and raises_epoch and request.producer_epoch == known.epoch - 1 and not known.is_open:
            # A repetition of what was done, or an abort of what had ended by itself.
            is_done = known.ended_by is request.committed or not request.committed
            code = ErrorCode.NONE if is_done else ErrorCode.PRODUCER_FENCED
        elif not code and known is not None:
            if known.is_open:
                self._close(request.transactional_id, known, commit=request.committed)
                known.epoch += raises_epoch
            elif raises_epoch and not request.committed:
                known.epoch += 1
            elif known.ended_by is not request.committed:
                code = ErrorCode.INVALID_TXN_STATE
        answer = EndTxnResponse(throttle_time_ms=0, error_code=code)
        if raises_epoch and not code and known is not None:
            answer.producer_id, answer.producer_epoch = known.producer_id, known.epoch
        return answer

    def _close(self, name: str, known: Transaction, *, commit: bool) -> None:
        if commit:
            for topic, partition, value in known.values:
                self.visible.setdefault((topic, partition), []).append(value)
            self.committed_offsets.update(known.offsets)
        known.is_open, known.ended_by = False, commit
        known.partitions, known.values, known.groups, known.offsets = set(), [], set(), {}
        self.ended.append((name, commit))

    # The leaders.

    def _produce_in_transaction(self, broker: ScriptedBroker, request: ProduceRequest) -> ProduceResponse:
        name = request.transactional_id
        assert name is not None
        known = self.transactions[name]
        implies = broker.versions[-1][1] >= 12
        assert not implies or self.version >= 2, "the cluster has not agreed on version 2"
        before = {each: len(log.values) for each, log in self._logs().items()}
        refused = {}
        for topic in request.topic_data:
            topic_name = topic.name or next(each for each in self.topics if self.topic_id(each) == topic.topic_id)
            for data in topic.partition_data:
                assert data.records is not None
                header = read_header(bytes(data.records))  # type: ignore[arg-type]
                assert header.is_transactional
                where = (topic_name, data.index)
                if (header.producer_id, header.producer_epoch) != (known.producer_id, known.epoch):
                    refused[where] = ErrorCode.INVALID_PRODUCER_EPOCH
                elif implies:
                    known.is_open = True
                    known.partitions.add(where)
                elif not known.is_open or where not in known.partitions:
                    refused[where] = ErrorCode.INVALID_TXN_STATE
        if refused:
            return produce_answer(request, self, refused)
        answer = self._produce(broker, request)
        for where, log in self._logs().items():
            known.values += [(*where, value) for value in log.values[before[where] :]]
        return answer

    def _logs(self) -> dict[tuple[str, int], Partition]:
        return {(name, index): each for name, logs in self.topics.items() for index, each in enumerate(logs)}


def produce_answer(
    request: ProduceRequest, world: ScriptedCluster, codes: Mapping[tuple[str, int], ErrorCode]
) -> ProduceResponse:
    """An answer that refuses partitions, none of which is written."""
    responses = []
    for topic in request.topic_data:
        name = topic.name or next(each for each in world.topics if world.topic_id(each) == topic.topic_id)
        responses.append(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=codes.get((name, data.index), ErrorCode.NOT_LEADER_OR_FOLLOWER),
                        base_offset=-1,
                        record_errors=[],
                    )
                    for data in topic.partition_data
                ],
            )
        )
    return ProduceResponse(responses=responses)


def add_partitions_answer(request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        error_code=0,
        results_by_transaction=[],
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ],
    )


def offsets_answer(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def refused(request: Request, code: ErrorCode) -> Response:
    """The answer to any request of a transaction, refused as a whole."""
    match request:
        case InitProducerIdRequest():
            return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
        case AddPartitionsToTxnRequest():
            return add_partitions_answer(request, code)
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)
        case TxnOffsetCommitRequest():
            return offsets_answer(request, code)
        case EndTxnRequest():
            return EndTxnResponse(throttle_time_ms=0, error_code=code)
    raise NotImplementedError(type(request).__name__)
