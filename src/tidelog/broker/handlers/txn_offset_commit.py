"""TxnOffsetCommit (28), v0-5: commit a group's offsets as part of a transaction; they count once it has ended well.

v2 leader epoch · v3 the member's generation, which fences a zombie (KIP-447) · v4 TRANSACTION_ABORTABLE
v5 the group's offsets are taken into the transaction by this request itself (KIP-890)

A topic or partition that does not exist has its own error; what is committed for the others counts all the same.
"""

from __future__ import annotations

from tidelog.broker.groups.group_coordinator import member_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.transactions.transaction_admission import Admission, commit_understanding
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_SEQUENCE, TopicName
from tidelog.model.pending import Pending, when_all
from tidelog.replication.partition import Partition
from tidelog.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

# Before it, clients take it for a failure of their own that a coordinator is still loading.
LOADING_VERSION = 2


@handles(TxnOffsetCommitRequest)
def txn_offset_commit(request: TxnOffsetCommitRequest, caller: Caller, node: Node) -> Answer[TxnOffsetCommitResponse]:
    if not caller.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _all_refused(request.topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return _all_refused(request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    wanted: list[TxnOffsetCommitRequestTopic] = []
    refused: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        _sort_out(topic, caller, node, wanted, refused)
    if not wanted:
        return TxnOffsetCommitResponse(throttle_time_ms=0, topics=refused)
    # The request is ours: nobody reads it again.
    request.topics = wanted
    committed = _commit(request, caller, node)
    return when_all([committed], lambda done: _answer(done[0], refused, caller.api_version))


def _commit(
    request: TxnOffsetCommitRequest, caller: Caller, node: Node
) -> TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]:
    if not request.group_id:
        return _all_refused(request.topics, ErrorCode.INVALID_GROUP_ID)
    partition = node.groups.partition_for(request.group_id)
    if isinstance(partition, ErrorCode):
        return _all_refused(request.topics, partition)
    admission = node.transaction_admission.ask(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        {partition: NO_SEQUENCE},
        commit_understanding(caller.api_version),
        tries_again=False,
    )
    if not isinstance(admission, Pending):
        return _commit_admitted(request, partition, admission, caller, node)
    answer: Pending[TxnOffsetCommitResponse] = Pending()

    def admitted(outcome: Admission) -> None:
        committed = _commit_admitted(request, partition, outcome, caller, node)
        if isinstance(committed, Pending):
            committed.then(answer.complete)
        else:
            answer.complete(committed)

    admission.then(admitted)
    return answer


def _commit_admitted(
    request: TxnOffsetCommitRequest, partition: Partition, admission: Admission, caller: Caller, node: Node
) -> TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]:
    def refuse(error: ErrorCode) -> TxnOffsetCommitResponse:
        return _all_refused(request.topics, error)

    where = partition.topic_partition
    if where in admission.errors:
        return refuse(_as_a_group_coordinator_says(admission.errors[where]))
    guard = admission.guards[where]
    member = member_of(caller)
    return node.groups.decide(
        request.group_id,
        lambda shard, now_ms: shard.commit_offsets_in_transaction(request, member, guard, now_ms, refuse),
        refuse,
    )


def _as_a_group_coordinator_says(error: ErrorCode) -> ErrorCode:
    """What went wrong with the transaction's coordinator, where the client would take it for the group's."""
    if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ErrorCode.NOT_COORDINATOR
    # It is not this coordinator that the client would have to look for anew.
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error in _OTHER_COORDINATOR_AWAY else error


# The second is what the clients of older versions do not know.
_OTHER_COORDINATOR_AWAY = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION})


def _sort_out(
    topic: TxnOffsetCommitRequestTopic,
    caller: Caller,
    node: Node,
    wanted: list[TxnOffsetCommitRequestTopic],
    refused: list[TxnOffsetCommitResponseTopic],
) -> None:
    """Add the partitions that exist to what is wanted, and answers for the others to what is refused."""
    if not caller.may(AclOperation.READ, ResourceType.TOPIC, topic.name):
        refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        return
    known = node.image.topic(TopicName(topic.name))
    partitions = {} if known is None else known.partitions
    there = [each for each in topic.partitions if each.partition_index in partitions]
    missing = [each for each in topic.partitions if each.partition_index not in partitions]
    if there:
        wanted.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=there))
    if missing:
        refused.append(
            _refused(
                TxnOffsetCommitRequestTopic(name=topic.name, partitions=missing), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        )


def _answer(
    done: TxnOffsetCommitResponse, refused: list[TxnOffsetCommitResponseTopic], version: int
) -> TxnOffsetCommitResponse:
    by_name = {topic.name: topic for topic in done.topics}
    for topic in refused:
        known = by_name.get(topic.name)
        if known is None:
            done.topics.append(topic)
        else:
            known.partitions += topic.partitions
    if version < LOADING_VERSION:
        for topic in done.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    each.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return done


def _refused(topic: TxnOffsetCommitRequestTopic, error: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
        ],
    )


def _all_refused(topics: list[TxnOffsetCommitRequestTopic], error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(throttle_time_ms=0, topics=[_refused(topic, error) for topic in topics])
