# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Produce (0), v3-13: append record batches, one for each partition named, and answer as far as `acks` asks.

v5 log start offset · v7 zstd · v8 which records were refused (KIP-467) · v10 the current leader (KIP-951)
v11 TRANSACTION_ABORTABLE · v12 adds partitions to the transaction itself (KIP-890) · v13 topics by id

acks 0    no answer; an error closes the connection, since nothing else can tell the client
acks 1    as soon as the records are in the leader's page cache
acks -1   when the high watermark has passed them, or REQUEST_TIMED_OUT after `timeout_ms`

Nearly all requests are alike: acks 1 or all, whole and undamaged batches, topics that ask nothing of their records, partitions
that this node leads; in a transaction, one that is open already, or whose coordinator is on this node and lets it begin. Those
of one read are gathered (`produce_gather`): one write for each partition, and the answers at the end. Anything else closes the
gather, and is then looked at closely and appended by itself.

No record is decoded unless the topic's configuration demands it (`record_validation`). Nothing waits for the disk. Who waits in a
fetch for several of the partitions is told once, after the last append.

Before the first records of a transaction enter a partition, its coordinator is asked (`transaction_admission`); with one replica
it answers at once. A request that waits for that keeps a copy of its records, since their buffer is used again.

Where this differs from Kafka: of a partition that is named twice both batches are appended and answered; Kafka drops the first
one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.broker.data.produce_answer import (
    TOPIC_ID_VERSION,
    ProduceAnswer,
    append_run,
    produced_batch,
    trace_received,
)
from tidelog.broker.data.record_validation import ZSTD_VERSION_MIN, RecordsRefused, check_produced
from tidelog.broker.metrics.topic_counts import TopicCounts
from tidelog.broker.requests.handling import handles
from tidelog.broker.transactions.produced_transaction import find_transaction, in_memory
from tidelog.broker.transactions.transaction_admission import Understanding, produce_understanding
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending
from tidelog.replication.partition import ALL_IN_SYNC
from tidelog.storage.checked_batches import CheckedBatch, checked_in
from tidelog.storage.verification_guard import NO_GUARD
from tidelog.wire.record_batch import CODEC_MASK, TRANSACTIONAL_BIT
from tidelog.wire.typed.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from tidelog.broker.data.produce_answer import ProducedBatch
    from tidelog.broker.data.produce_gather import ProduceGather
    from tidelog.broker.requests.caller import Caller
    from tidelog.broker.requests.node_view import Node
    from tidelog.broker.transactions.transaction_admission import Admission
    from tidelog.replication.topic_config import TopicConfig
    from tidelog.wire.typed.produce import PartitionProduceData, TopicProduceData

logger = logging.getLogger(__name__)

NO_ANSWER = 0
_VALID_ACKS = (ALL_IN_SYNC, 1, NO_ANSWER)

# Kafka's own admin tools may write to Kafka's own topics.
ADMIN_CLIENT_ID = "__admin_client"

# Enumeration members are slow to look up, and these are asked for by every request.
_WRITE = AclOperation.WRITE
_TOPIC = ResourceType.TOPIC
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

# The same for this module alone: what C knows by its type, Python does not see.
_ALL_IN_SYNC = ALL_IN_SYNC
_TOPIC_ID_VERSION = TOPIC_ID_VERSION
_ANY_CODEC_VERSION = ZSTD_VERSION_MIN
_CODEC_MASK = CODEC_MASK
_TRANSACTIONAL_BIT = TRANSACTIONAL_BIT

# Of a topic that this node does not have: its name becomes no label.
_NOT_COUNTED = TopicCounts()


@handles(ProduceRequest)
def produce(
    request: ProduceRequest, caller: Caller, node: Node
) -> ProduceAnswer | ProduceResponse | Pending[ProduceResponse] | None:
    """A `ProduceAnswer` is sent when the gather of its read is closed."""
    gather = caller.gather
    if gather is not None:
        gathered = _gather(request, caller, node, gather)
        if gathered is not None:
            return gathered
        # What is judged closely is judged by what the requests before it have left.
        gather.close()
    return _produce_alone(request, caller, node)


# --- requests that are gathered --------------------------------------------------------------------------------------------


def _gather(request: ProduceRequest, caller: Caller, node: Node, gather: ProduceGather) -> ProduceAnswer | None:
    """Add a request to those of its read. None if there is anything unusual about it; then nothing of it was noted."""
    acks = request.acks
    version = caller.api_version
    if (acks != 1 and acks != _ALL_IN_SYNC) or version < _ANY_CODEC_VERSION:  # noqa: PLR1714 - these are C's numbers
        return None
    if not gather.is_open:
        gather.begin()
    transactional_id = request.transactional_id
    attributes = 0 if transactional_id is None else _TRANSACTIONAL_BIT
    answer = ProduceAnswer(acks, request.timeout_ms, version)
    batches: list[ProducedBatch] = []
    is_traced = False
    for topic in request.topic_data:
        asked = topic.topic_id if version >= _TOPIC_ID_VERSION else topic.name
        if asked != gather.topic:
            _look_up(asked, topic, caller, node, gather)
        hosted = gather.hosted
        if hosted is None:
            return None
        entries = answer.add_topic(topic.name, topic.topic_id)
        for data in topic.partition_data:
            partition = hosted.get(data.index)
            records = data.records
            if partition is None or type(records) is not memoryview:
                return None
            batch = checked_in(records, 0, len(records))
            # In a transaction where the request is in one; with its producer's timestamps.
            if batch is None or batch.attributes & ~_CODEC_MASK != attributes:
                return None
            if not _is_taken_as_it_is(batch, partition.config, gather.now_ms) or not partition.takes_writes(acks):
                return None
            if partition.trace is not None:
                is_traced = True
            batches.append(produced_batch(answer, entries, data.index, batch, partition))
    if not batches or (transactional_id is not None and not _is_admitted(transactional_id, batches, caller, node)):
        return None
    if not caller.is_free:
        _note_rights(request, caller, node)
    if is_traced:
        trace_received(batches, caller.client_id, caller.correlation_id)
    gather.add(answer, batches, caller.connection)
    return answer


def _look_up(asked: str | bytes, topic: TopicProduceData, caller: Caller, node: Node, gather: ProduceGather) -> None:
    """Find a topic for the rest of the read, with its replicas if the caller may write to it."""
    gather.topic = asked
    gather.hosted = None
    name = _known_name(topic, caller, node)
    # Counted and logged once it is known whether the request is gathered or looked at more closely.
    if name is not None and name not in INTERNAL_TOPICS and caller.might(_WRITE, _TOPIC, name):
        gather.hosted = node.partitions.named(name)


def _note_rights(request: ProduceRequest, caller: Caller, node: Node) -> None:
    """Count and log what the caller of a gathered request was found to be allowed, once for each request."""
    if request.transactional_id is not None:
        caller.may(_WRITE, _TRANSACTIONAL_ID, request.transactional_id)
    for topic in request.topic_data:
        name = _known_name(topic, caller, node)
        if name is not None:
            caller.may(_WRITE, _TOPIC, name, len(topic.partition_data))


def _is_taken_as_it_is(batch: CheckedBatch, config: TopicConfig, now_ms: int) -> bool:
    """Whether nothing in a topic's configuration demands a look at the records of a batch, or refuses it."""
    size_max = config.batch_bytes_max
    ahead_max_ms = config.message_timestamp_after_max_ms
    timestamp = batch.max_timestamp
    # Two of these numbers may be as large as they get: their sum need not fit into one of C's.
    is_too_new = timestamp > now_ms and timestamp - now_ms > ahead_max_ms
    return bool(config.takes_batches_as_they_are) and batch.size_bytes <= size_max and not is_too_new


def _is_admitted(transactional_id: str, batches: list[ProducedBatch], caller: Caller, node: Node) -> bool:
    """Whether the batches of a transaction may be appended, which is known at once. Each gets its guard then."""
    first = batches[0].batch
    producer_id = first.producer_id
    producer_epoch = first.producer_epoch
    sequences = []
    for produced in batches:
        batch = produced.batch
        if batch.producer_id != producer_id or batch.producer_epoch != producer_epoch:
            return False
        sequences.append((produced.partition, batch.base_sequence))
    if producer_id < 0 or not caller.might(_WRITE, _TRANSACTIONAL_ID, transactional_id):
        return False
    understanding = produce_understanding(caller.api_version)
    guards = node.transaction_admission.ask_at_once(
        transactional_id, producer_id, producer_epoch, sequences, understanding
    )
    if guards is None:
        return False
    for place, produced in enumerate(batches):
        produced.batch.guard = guards[place]
    return True


# --- a request by itself ---------------------------------------------------------------------------------------------------


def _produce_alone(
    request: ProduceRequest, caller: Caller, node: Node
) -> ProduceResponse | Pending[ProduceResponse] | None:
    transaction = find_transaction(request, caller, node)
    if transaction is None:
        return _produce(request, caller, node, None)
    if isinstance(transaction, ErrorCode):
        answer = ProduceAnswer(request.acks, request.timeout_ms, caller.api_version)
        for topic in request.topic_data:
            _refuse_topic(answer, topic, RecordsRefused(transaction, None))
        return _finish(answer, caller, node)
    admission = node.transaction_admission.ask(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.sequences,
        produce_understanding(caller.api_version),
    )
    if not isinstance(admission, Pending):
        return _produce(request, caller, node, admission)
    _keep_records(request)
    return _produce_later(request, caller, node, admission)


def _produce_later(
    request: ProduceRequest, caller: Caller, node: Node, admission: Pending[Admission]
) -> Pending[ProduceResponse] | None:
    answer: Pending[ProduceResponse] = Pending()
    correlation_id = caller.correlation_id

    def admitted(outcome: Admission) -> None:
        # The caller is that of later requests, too.
        caller.correlation_id = correlation_id
        answered = _produce(request, caller, node, outcome)
        if isinstance(answered, Pending):
            answered.then(answer.complete)
        elif answered is not None:
            answer.complete(answered)

    admission.then(admitted)
    return None if request.acks == NO_ANSWER else answer


def _keep_records(request: ProduceRequest) -> None:
    """Copy the records out of the buffer that they arrived in."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = in_memory(data)
            if records is not None:
                data.records = memoryview(bytearray(records))


def _produce(
    request: ProduceRequest, caller: Caller, node: Node, admission: Admission | None
) -> ProduceResponse | Pending[ProduceResponse] | None:
    answer = ProduceAnswer(request.acks, request.timeout_ms, caller.api_version)
    wakeups = node.partitions.wakeups
    wakeups.hold()
    try:
        for topic in request.topic_data:
            _produce_to_topic(answer, topic, caller, node, admission)
    finally:
        wakeups.release()
    return _finish(answer, caller, node)


def _finish(answer: ProduceAnswer, caller: Caller, node: Node) -> ProduceResponse | Pending[ProduceResponse] | None:
    if answer.acks == NO_ANSWER:
        if answer.has_errors:
            _close_on_error(answer.response, caller)
        return None
    return answer.finished(caller.listener_name, node)


def _produce_to_topic(
    answer: ProduceAnswer, topic: TopicProduceData, caller: Caller, node: Node, admission: Admission | None
) -> None:
    name = _name_of(topic, caller, node)
    if isinstance(name, RecordsRefused):
        _refuse_topic(answer, topic, name)
        return
    version = caller.api_version
    hosted = node.partitions.named(name)
    is_closed = name in INTERNAL_TOPICS and caller.client_id != ADMIN_CLIENT_ID
    now_ms = node.clock.now_ms()
    counts = node.metrics.topics[name] if hosted else _NOT_COUNTED
    entries = answer.add_topic(topic.name, topic.topic_id)
    for data in topic.partition_data:
        partition = hosted.get(data.index)
        refused: RecordsRefused | None = None
        if partition is None:
            refused = RecordsRefused(node.partitions.missing(name, data.index), None)
        elif answer.acks not in _VALID_ACKS:
            refused, partition = _INVALID_ACKS, None
        elif is_closed:
            refused, partition = _INTERNAL_TOPIC, None
        else:
            log = partition.log
            next_offset = 0 if log is None else log.log_end_offset
            where, config = partition.topic_partition, partition.config
            batch = check_produced(in_memory(data), version, where, config, now_ms, next_offset)
            if isinstance(batch, RecordsRefused):
                counts.produce_refused(batch.error, _size_bytes(data))
                refused = batch
            elif admission is not None and where in admission.errors:
                refused = _not_admitted(admission.errors[where], version)
            else:
                batch.guard = NO_GUARD if admission is None else admission.guards.get(where, NO_GUARD)
                produced = produced_batch(answer, entries, data.index, batch, partition)
                if partition.trace is not None:
                    trace_received([produced], caller.client_id, caller.correlation_id)
                append_run([produced], answer.acks, node.metrics.topics)
                continue
        counts.total_produce_requests += 1
        if partition is not None and partition.trace is not None:
            partition.trace.produce_refused(refused.error)
        answer.refuse(entries, data.index, refused, partition)


def _name_of(topic: TopicProduceData, caller: Caller, node: Node) -> TopicName | RecordsRefused:
    """The name of a topic that the caller may write to."""
    name = _known_name(topic, caller, node)
    if name is None:
        return _UNKNOWN_ID
    return name if caller.may(_WRITE, _TOPIC, name, len(topic.partition_data)) else _NOT_AUTHORIZED


def _known_name(topic: TopicProduceData, caller: Caller, node: Node) -> TopicName | None:
    """The name by which a topic is asked for; None for an id that no topic has."""
    if caller.api_version < _TOPIC_ID_VERSION:
        # Not `TopicName(...)`, a call at run time, which every request would pay for.
        return topic.name  # type: ignore[return-value]
    known = node.image.topics.get(TopicId(topic.topic_id))
    return None if known is None else known.name


def _size_bytes(data: PartitionProduceData) -> int:
    return len(in_memory(data) or b"")


# --- refusals ------------------------------------------------------------------------------------------------------------

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


def _refuse_topic(answer: ProduceAnswer, topic: TopicProduceData, refused: RecordsRefused) -> None:
    entries = answer.add_topic(topic.name, topic.topic_id)
    for data in topic.partition_data:
        answer.refuse(entries, data.index, refused, None)


def _close_on_error(response: ProduceResponse, caller: Caller) -> None:
    failed = [
        f"{topic.name}-{partition.index}: {ErrorCode.of(partition.error_code).name}"
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    ]
    logger.info("%s: closed, since records sent with acks=0 were refused: %s", caller.connection, ", ".join(failed))
    caller.connection.abort()
