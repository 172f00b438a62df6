"""Produce (0), v3-13: append record batches, one for each partition named, and answer as far as `acks` asks.

v5 log start offset · v7 zstd · v8 which records were refused (KIP-467) · v10 the current leader (KIP-951)
v11 TRANSACTION_ABORTABLE · v12 adds partitions to the transaction itself (KIP-890) · v13 topics by id

acks 0    no answer; an error closes the connection, since nothing else can tell the client
acks 1    as soon as the records are in the leader's page cache
acks -1   when the high watermark has passed them, or REQUEST_TIMED_OUT after `timeout_ms`

No record is decoded unless the topic's configuration demands it (`record_validation`). One append for each partition; nothing
waits for the disk. Who waits in a fetch for several of these partitions is told once, after the last append.

Before the first records of a transaction enter a partition, its coordinator is asked (`transaction_admission`); with one replica
it answers at once.

Where this differs from Kafka: of a partition that is named twice both batches are appended and answered; Kafka drops the first
one.
"""

from __future__ import annotations

import logging

from tidelog.broker.data.delayed_produce import Waiting, delayed_produce
from tidelog.broker.data.leader_hints import LeaderHints
from tidelog.broker.data.record_validation import RecordsRefused, check_produced
from tidelog.broker.metrics.topic_counts import TopicCounts
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.transactions.produced_transaction import find_transaction, in_memory
from tidelog.broker.transactions.transaction_admission import Admission, Understanding, produce_understanding
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, NO_TIMESTAMP, Offset, PartitionIndex, TopicId, TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending
from tidelog.replication.partition import ALL_IN_SYNC, Partition
from tidelog.storage.append import AppendInfo, AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.verification_guard import NO_GUARD
from tidelog.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

logger = logging.getLogger(__name__)

TOPIC_ID_VERSION = 13
LEADER_HINT_VERSION = 10

NO_ANSWER = 0
_VALID_ACKS = (ALL_IN_SYNC, 1, NO_ANSWER)

# Kafka's own admin tools may write to Kafka's own topics.
ADMIN_CLIENT_ID = "__admin_client"

# Members that are reached through their class cost more, and these are asked for by every request.
_WRITE = AclOperation.WRITE
_TOPIC = ResourceType.TOPIC

# Of a topic that this node does not have: its name becomes no label.
_NOT_COUNTED = TopicCounts()


@handles(ProduceRequest)
def produce(request: ProduceRequest, caller: Caller, node: Node) -> ProduceResponse | Pending[ProduceResponse] | None:
    transaction = find_transaction(request, caller, node)
    if transaction is None:
        return _produce(request, caller, node, None)
    if isinstance(transaction, ErrorCode):
        refused = RecordsRefused(transaction, None)
        return _answer([_refused_topic(topic, refused) for topic in request.topic_data], [], request, caller, node)
    admission = node.transaction_admission.ask(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.sequences,
        produce_understanding(caller.api_version),
    )
    if not isinstance(admission, Pending):
        return _produce(request, caller, node, admission)
    # The frame that the request came in is used again for the next one.
    _keep_records(request)
    return _produce_later(request, caller, node, admission)


def _produce_later(
    request: ProduceRequest, caller: Caller, node: Node, admission: Pending[Admission]
) -> Pending[ProduceResponse] | None:
    answer: Pending[ProduceResponse] = Pending()

    def admitted(outcome: Admission) -> None:
        answered = _produce(request, caller, node, outcome)
        if isinstance(answered, Pending):
            answered.then(answer.complete)
        elif answered is not None:
            answer.complete(answered)

    admission.then(admitted)
    return None if request.acks == NO_ANSWER else answer


def _produce(
    request: ProduceRequest, caller: Caller, node: Node, admission: Admission | None
) -> ProduceResponse | Pending[ProduceResponse] | None:
    waiting: list[Waiting] = []
    wakeups = node.partitions.wakeups
    wakeups.hold()
    try:
        answers = [_produce_to_topic(topic, request, caller, node, waiting, admission) for topic in request.topic_data]
    finally:
        wakeups.release()
    return _answer(answers, waiting, request, caller, node)


def _answer(
    answers: list[TopicProduceResponse], waiting: list[Waiting], request: ProduceRequest, caller: Caller, node: Node
) -> ProduceResponse | Pending[ProduceResponse] | None:
    if request.acks == NO_ANSWER:
        _close_on_error(answers, caller)
        return None
    response = ProduceResponse(responses=answers)
    if caller.api_version >= LEADER_HINT_VERSION:
        _add_leader_hints(response, caller, node)
    if waiting:
        return delayed_produce(response, waiting, node.timers, request.timeout_ms)
    return response


def _produce_to_topic(
    topic: TopicProduceData,
    request: ProduceRequest,
    caller: Caller,
    node: Node,
    waiting: list[Waiting],
    admission: Admission | None,
) -> TopicProduceResponse:
    name = TopicName(topic.name)
    if caller.api_version >= TOPIC_ID_VERSION:
        known = node.image.topics.get(TopicId(topic.topic_id))
        if known is None:
            return _refused_topic(topic, _UNKNOWN_ID)
        name = known.name
    if not caller.may(_WRITE, _TOPIC, name):
        return _refused_topic(topic, _NOT_AUTHORIZED)
    hosted = node.partitions.named(name)
    is_closed = name in INTERNAL_TOPICS and caller.client_id != ADMIN_CLIENT_ID
    now_ms = node.clock.now_ms()
    counts = node.metrics.topics[name] if hosted else _NOT_COUNTED
    counts.total_produce_requests += len(topic.partition_data)
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        partition = hosted.get(data.index)
        if partition is None:
            error = node.partitions.missing(name, data.index)
            answers.append(refused_partition(data.index, RecordsRefused(error, None)))
            continue
        if request.acks not in _VALID_ACKS:
            answers.append(refused_partition(data.index, _INVALID_ACKS))
            continue
        if is_closed:
            answers.append(refused_partition(data.index, _INTERNAL_TOPIC))
            continue
        log = partition.log
        batch = check_produced(
            in_memory(data),
            caller.api_version,
            partition.topic_partition,
            partition.config,
            now_ms,
            0 if log is None else log.log_end_offset,
        )
        if isinstance(batch, RecordsRefused):
            counts.produce_refused(batch.error, _size_bytes(data))
            answers.append(refused_partition(data.index, batch, partition))
        elif admission is not None and partition.topic_partition in admission.errors:
            refused = _not_admitted(admission.errors[partition.topic_partition], caller.api_version)
            answers.append(refused_partition(data.index, refused, partition))
        else:
            batch.guard = NO_GUARD if admission is None else admission.guards.get(partition.topic_partition, NO_GUARD)
            answers.append(_append(data.index, batch, partition, request.acks, waiting, counts))
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _append(
    index: int,
    batch: CheckedBatch,
    partition: Partition,
    acks: int,
    waiting: list[Waiting],
    counts: TopicCounts,
) -> PartitionProduceResponse:
    outcome = partition.append([batch], AppendRule.LEADER, acks)[0]
    if isinstance(outcome, AppendRefused):
        counts.produce_refused(outcome.error, batch.size_bytes)
        return refused_partition(index, RecordsRefused(outcome.error, outcome.reason), partition)
    if isinstance(outcome, AppendInfo):
        first_offset, last_offset, time_ms = outcome.first_offset, outcome.last_offset, outcome.append_time_ms
    else:
        first_offset, last_offset, time_ms = Offset(outcome), Offset(outcome + batch.last_offset_delta), NO_TIMESTAMP
    if not isinstance(outcome, AppendInfo) or not outcome.is_duplicate:
        counts.messages_in += batch.record_count
        counts.bytes_in += batch.size_bytes
    log = partition.log
    answer = appended_partition(index, first_offset, NO_OFFSET if log is None else log.log_start_offset, time_ms)
    if acks == ALL_IN_SYNC:
        committed = partition.when_committed(last_offset + 1)
        if isinstance(committed, Pending):
            waiting.append((answer, committed))
        else:
            answer.error_code = committed
    return answer


def _size_bytes(data: PartitionProduceData) -> int:
    return len(in_memory(data) or b"")


def _keep_records(request: ProduceRequest) -> None:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = in_memory(data)
            if records is not None:
                data.records = memoryview(bytearray(records))


def appended_partition(
    index: int, first_offset: int, log_start_offset: int, append_time_ms: int = NO_TIMESTAMP
) -> PartitionProduceResponse:
    """The answer for a partition whose records were appended."""
    return PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=first_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log_start_offset,
        record_errors=[],
    )


# Refusals

_NOT_AUTHORIZED = RecordsRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
_UNKNOWN_ID = RecordsRefused(ErrorCode.UNKNOWN_TOPIC_ID, None)
_INVALID_ACKS = RecordsRefused(ErrorCode.INVALID_REQUIRED_ACKS, None)
_INTERNAL_TOPIC = RecordsRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, "clients may not write to an internal topic")

# What a producer would not try again, or only after it has looked for a coordinator, which is not its business here.
_COORDINATOR_AWAY = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def _not_admitted(error: ErrorCode, version: int) -> RecordsRefused:
    """Why records may not be appended, as a producer is told."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return RecordsRefused(error, "the partition was not added to the transaction")
    adds = produce_understanding(version) is Understanding.ADDS_PARTITIONS
    if error in _COORDINATOR_AWAY or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        reason = f"whether the partition is part of the transaction cannot be told now: {error.message}"
        return RecordsRefused(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return RecordsRefused(error, None)


def _refused_topic(topic: TopicProduceData, refused: RecordsRefused) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[refused_partition(data.index, refused) for data in topic.partition_data],
    )


def refused_partition(
    index: int, refused: RecordsRefused, partition: Partition | None = None
) -> PartitionProduceResponse:
    """The answer for a partition whose records were refused."""
    log = None if partition is None else partition.log
    return PartitionProduceResponse(
        index=index,
        error_code=refused.error,
        base_offset=NO_OFFSET,
        log_append_time_ms=NO_TIMESTAMP,
        log_start_offset=NO_OFFSET if log is None else log.log_start_offset,
        record_errors=list(refused.record_errors),
        error_message=refused.reason,
    )


def _close_on_error(answers: list[TopicProduceResponse], caller: Caller) -> None:
    failed = [
        f"{topic.name}-{partition.index}: {ErrorCode.of(partition.error_code).name}"
        for topic in answers
        for partition in topic.partition_responses
        if partition.error_code
    ]
    if failed:
        logger.info("%s: closed, since records sent with acks=0 were refused: %s", caller.connection, ", ".join(failed))
        caller.connection.abort()


def _add_leader_hints(response: ProduceResponse, caller: Caller, node: Node) -> None:
    hints: LeaderHints | None = None
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            name = TopicName(topic.name)
            if caller.api_version >= TOPIC_ID_VERSION:
                known = node.image.topics.get(TopicId(topic.topic_id))
                if known is None:
                    continue
                name = known.name
            hints = hints or LeaderHints(node.image, caller.listener_name)
            hint = hints.leader_of(name, PartitionIndex(partition.index))
            partition.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
    if hints is not None:
        response.node_endpoints = [
            NodeEndpoint(node_id=each.node_id, host=each.endpoint.host, port=each.endpoint.port, rack=each.rack)
            for each in hints.endpoints.values()
        ]
