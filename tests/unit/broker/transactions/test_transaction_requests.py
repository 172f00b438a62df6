"""The requests around transactions: partitions and offsets that are added, markers, producers, and who may ask."""

from __future__ import annotations

import pytest

from tests.support.data_node import OTHER, Denying
from tests.unit.broker.transaction_node import TransactionalProducer, TransactionNode
from tidelog.broker.handlers.add_offsets_to_txn import add_offsets_to_txn
from tidelog.broker.handlers.add_partitions_to_txn import add_partitions_to_txn
from tidelog.broker.handlers.delete_groups import delete_groups
from tidelog.broker.handlers.describe_producers import describe_producers
from tidelog.broker.handlers.end_txn import end_txn
from tidelog.broker.handlers.find_coordinator import KeyType, find_coordinator
from tidelog.broker.handlers.offset_fetch import offset_fetch
from tidelog.broker.handlers.txn_offset_commit import txn_offset_commit
from tidelog.broker.handlers.write_txn_markers import write_txn_markers
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.model.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_admin import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.messages.producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from tidelog.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ADDS_OFFSETS = 5


@pytest.fixture
def node() -> TransactionNode:
    node = TransactionNode()
    node.create_topic("orders", partitions=2)
    return node


# Offsets


def commit_offset(
    producer: TransactionalProducer,
    offset: int,
    *,
    group: str = "billing",
    version: int = ADDS_OFFSETS,
    partition: int = 0,
    topic: str = "orders",
    generation: int = -1,
    member: str = "",
    metadata: str | None = "",
) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=generation,
        member_id=member,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
        ],
    )
    answer = producer.node.tell(txn_offset_commit, request, TxnOffsetCommitResponse, version)
    return ErrorCode.of(answer.topics[0].partitions[0].error_code)


def committed(node: TransactionNode, *, stable: bool = False, group: str = "billing") -> tuple[ErrorCode, int]:
    topics = [OffsetFetchRequestTopics(name="orders", topic_id=ZERO_UUID, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable)
    answer = node.tell(offset_fetch, request, OffsetFetchResponse, 8)
    found = answer.groups[0].topics[0].partitions[0]
    return ErrorCode.of(found.error_code), found.committed_offset


def add_offsets(producer: TransactionalProducer, group: str = "billing", version: int = 4) -> ErrorCode:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    return ErrorCode.of(producer.node.tell(add_offsets_to_txn, request, AddOffsetsToTxnResponse, version).error_code)


@pytest.mark.parametrize(("commit", "found"), [(True, 7), (False, -1)])
def test_offsets_count_once_their_transaction_has_ended_well(node: TransactionNode, commit: bool, found: int) -> None:
    producer = node.producer()

    assert commit_offset(producer, 7) is ErrorCode.NONE
    assert committed(node) == (ErrorCode.NONE, -1)
    assert committed(node, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    producer.end(commit=commit)

    assert committed(node) == committed(node, stable=True) == (ErrorCode.NONE, found)


def test_pending_offsets_are_pending_still_after_a_crash(node: TransactionNode) -> None:
    producer = node.producer()
    commit_offset(producer, 7)

    node.restart_coordinators()

    assert committed(node, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    producer.end(commit=True)
    assert committed(node, stable=True) == (ErrorCode.NONE, 7)


def test_committed_offsets_are_the_same_after_a_crash(node: TransactionNode) -> None:
    producer = node.producer()
    commit_offset(producer, 7)
    producer.end(commit=True)
    commit_offset(producer, 9)
    producer.end(commit=False)

    node.restart_coordinators()

    assert committed(node, stable=True) == (ErrorCode.NONE, 7)


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)])
def test_an_older_client_has_to_add_the_groups_offsets_first(
    node: TransactionNode, version: int, error: ErrorCode
) -> None:
    producer = node.producer()
    producer.add("orders")

    assert commit_offset(producer, 7, version=version) is error
    assert add_offsets(producer) is ErrorCode.NONE
    assert commit_offset(producer, 7, version=version) is ErrorCode.NONE
    assert producer.end(commit=True, version=4) is ErrorCode.NONE
    assert committed(node) == (ErrorCode.NONE, 7)


def test_the_offsets_of_several_groups_go_with_one_transaction(node: TransactionNode) -> None:
    producer = node.producer()
    commit_offset(producer, 1, group="a")
    commit_offset(producer, 2, group="b")
    producer.send("orders", "x")
    producer.end(commit=True)

    assert [committed(node, group=group)[1] for group in "ab"] == [1, 2]


def test_a_late_commit_of_offsets_does_not_enter_the_next_transaction(node: TransactionNode) -> None:
    producer = node.producer()
    commit_offset(producer, 7)
    late = TransactionalProducer.__new__(TransactionalProducer)
    late.__dict__.update(producer.__dict__)
    producer.end(commit=True)
    producer.send("orders", "a")

    assert commit_offset(late, 99) is ErrorCode.INVALID_PRODUCER_EPOCH
    producer.end(commit=True)
    assert committed(node, stable=True) == (ErrorCode.NONE, 7)


def test_a_member_of_a_generation_that_is_not_there_is_a_zombie(node: TransactionNode) -> None:
    producer = node.producer()

    assert commit_offset(producer, 7, generation=3, member="m") is ErrorCode.ILLEGAL_GENERATION
    assert commit_offset(producer, 7) is ErrorCode.NONE
    assert commit_offset(producer, 7, generation=3, member="m") is ErrorCode.UNKNOWN_MEMBER_ID


def test_what_a_commit_of_offsets_is_refused_for(node: TransactionNode) -> None:
    producer = node.producer()

    assert commit_offset(producer, 7, topic="nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit_offset(producer, 7, partition=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit_offset(producer, 7, group="") is ErrorCode.INVALID_GROUP_ID
    assert commit_offset(producer, 7, metadata="m" * 5000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    node.authorizer = Denying((AclOperation.READ, "orders"))
    assert commit_offset(producer, 7) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node.authorizer = Denying((AclOperation.READ, "billing"))
    assert commit_offset(producer, 7) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert add_offsets(producer) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    node.authorizer = Denying((AclOperation.WRITE, "payments"))
    assert commit_offset(producer, 7) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert add_offsets(producer) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_coordinator_that_is_not_here_is_looked_for_elsewhere(node: TransactionNode) -> None:
    producer = node.producer()
    node.change(CONSUMER_OFFSETS, leader=OTHER, isr=[1, 2], replicas=[1, 2])

    assert commit_offset(producer, 7) is ErrorCode.NOT_COORDINATOR


def test_a_transaction_coordinator_that_is_not_here_is_nobodys_to_look_for(node: TransactionNode) -> None:
    producer = node.producer()
    node.change(TRANSACTION_STATE, leader=OTHER, isr=[1, 2], replicas=[1, 2])

    assert commit_offset(producer, 7) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert commit_offset(producer, 7, version=1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert add_offsets(producer) is ErrorCode.NOT_COORDINATOR


def test_a_deleted_group_takes_its_pending_offsets_with_it(node: TransactionNode) -> None:
    producer = node.producer()
    commit_offset(producer, 7)

    request = DeleteGroupsRequest(groups_names=["billing"])
    answer = node.tell(delete_groups, request, DeleteGroupsResponse, 2)
    producer.end(commit=True)

    assert answer.results[0].error_code == ErrorCode.NONE
    assert committed(node, stable=True) == (ErrorCode.NONE, -1)


# Partitions


def test_one_partition_that_cannot_be_added_keeps_the_others_out(node: TransactionNode) -> None:
    producer = node.producer()
    request = AddPartitionsToTxnRequest(
        transactions=[],
        v3_and_below_transactional_id="payments",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name="orders", partitions=[0, 9]),
            AddPartitionsToTxnTopic(name=CONSUMER_OFFSETS, partitions=[0]),
        ],
    )

    answer = node.tell(add_partitions_to_txn, request, AddPartitionsToTxnResponse, 3)

    codes = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    assert codes == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added_in_every_version(node: TransactionNode, version: int) -> None:
    producer = node.producer()

    assert added(producer, version) is ErrorCode.NONE
    assert added(producer, version) is ErrorCode.NONE
    producer.epoch += 1
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert added(producer, version) is fenced


def test_a_broker_may_ask_without_adding(node: TransactionNode) -> None:
    producer = node.producer()

    assert added(producer, 5, verify_only=True) is ErrorCode.TRANSACTION_ABORTABLE
    added(producer, 5)
    assert added(producer, 5, verify_only=True) is ErrorCode.NONE


def test_only_brokers_add_for_several_transactions(node: TransactionNode) -> None:
    producer = node.producer()
    node.authorizer = Denying((AclOperation.CLUSTER_ACTION, None))

    assert added(producer, 4) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    node.authorizer = Denying((AclOperation.WRITE, "payments"))
    assert added(producer, 3) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def added(producer: TransactionalProducer, version: int, *, verify_only: bool = False) -> ErrorCode:
    if version < 4:
        return producer.add("orders", version=version)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    answer = producer.node.tell(add_partitions_to_txn, request, AddPartitionsToTxnResponse, version)
    if answer.error_code:
        return ErrorCode.of(answer.error_code)
    result = answer.results_by_transaction[0].topic_results[0].results_by_partition[0]
    return ErrorCode.of(result.partition_error_code)


# The end


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_ends_in_every_version(node: TransactionNode, version: int) -> None:
    producer = node.producer()
    producer.add("orders")
    producer.send("orders", "a", version=11)

    assert producer.end(commit=True, version=version) is ErrorCode.NONE
    assert producer.epoch == (1 if version == 5 else 0)


def test_who_may_not_end_a_transaction(node: TransactionNode) -> None:
    node.authorizer = Denying((AclOperation.WRITE, "payments"))
    request = EndTxnRequest(transactional_id="payments", producer_id=1, producer_epoch=0, committed=True)

    answer = node.tell(end_txn, request, EndTxnResponse, 5)

    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# Markers


def write_marker(
    node: TransactionNode,
    producer: TransactionalProducer,
    *,
    commit: bool = False,
    topic: str = "orders",
    coordinator_epoch: int = 0,
    version: int = 2,
) -> ErrorCode:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    answer = node.tell(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, version)
    assert answer.markers[0].producer_id == producer.producer_id
    return ErrorCode.of(answer.markers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_ends_what_a_producer_has_open(node: TransactionNode, version: int) -> None:
    producer = node.producer()
    producer.send("orders", "a")

    assert write_marker(node, producer, version=version) is ErrorCode.NONE

    assert node.log("orders").last_stable_offset == 2
    assert len(node.log("orders").aborted_transactions(0, 9)) == 1


def test_a_marker_in_the_groups_log_takes_their_offsets_in(node: TransactionNode) -> None:
    producer = node.producer()
    commit_offset(producer, 7)

    assert write_marker(node, producer, commit=True, topic=CONSUMER_OFFSETS) is ErrorCode.NONE
    assert committed(node, stable=True) == (ErrorCode.NONE, 7)


def test_what_a_marker_is_refused_for(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    producer.end(commit=True)
    producer.send("orders", "b")

    assert write_marker(node, producer, topic="nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write_marker(node, producer, coordinator_epoch=-1) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    producer.epoch -= 1
    assert write_marker(node, producer) is ErrorCode.INVALID_PRODUCER_EPOCH
    node.change(CONSUMER_OFFSETS, leader=OTHER, isr=[1, 2], replicas=[1, 2])
    assert write_marker(node, producer, topic=CONSUMER_OFFSETS) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.authorizer = Denying((AclOperation.ALTER, None), (AclOperation.CLUSTER_ACTION, None))
    assert write_marker(node, producer) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    node.authorizer = Denying((AclOperation.CLUSTER_ACTION, None))
    assert write_marker(node, producer) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-1, -1), (7, -1)])
def test_a_marker_of_no_producer_is_not_written(node: TransactionNode, producer_id: int, epoch: int) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    producer.producer_id, producer.epoch = producer_id, epoch

    assert write_marker(node, producer) is ErrorCode.INVALID_REQUEST
    assert node.log("orders").log_end_offset == 1


# Producers


def producers_of(node: TransactionNode, topic: str = "orders", index: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
    return node.tell(describe_producers, request, DescribeProducersResponse, 0).topics[0].partitions[0]


def test_a_partitions_producers_are_described(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a", "b")
    producer.end(commit=True)
    producer.send("orders", "c")

    (found,) = producers_of(node).active_producers

    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, 1)
    assert (found.last_sequence, found.current_txn_start_offset, found.coordinator_epoch) == (0, 3, 0)
    assert producers_of(node, index=1).active_producers == []


def test_a_follower_describes_the_producers_of_its_log(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    node.change("orders", 0, leader=OTHER, isr=[1, 2], replicas=[1, 2])

    described = producers_of(node)

    assert described.error_code == ErrorCode.NONE
    assert [each.producer_id for each in described.active_producers] == [producer.producer_id]


def test_whose_producers_are_not_described(node: TransactionNode) -> None:
    assert producers_of(node, "no such/name").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert producers_of(node, "nothing").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producers_of(node, index=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.authorizer = Denying((AclOperation.READ, "orders"))
    assert producers_of(node).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# Where to find the coordinator


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_of_a_transactional_id_is_found(node: TransactionNode, version: int) -> None:
    node.register_broker(1, "here", 9092)
    several = version >= 4
    request = FindCoordinatorRequest(
        key="" if several else "payments",
        key_type=KeyType.TRANSACTION,
        coordinator_keys=["payments"] if several else [],
    )

    answer = node.tell(find_coordinator, request, FindCoordinatorResponse, version)

    found = answer.coordinators[0] if several else answer
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "here", 9092)


def test_who_may_not_look_for_it(node: TransactionNode) -> None:
    node.authorizer = Denying((AclOperation.DESCRIBE, "payments"))
    request = FindCoordinatorRequest(key="", key_type=KeyType.TRANSACTION, coordinator_keys=["payments"])

    answer = node.tell(find_coordinator, request, FindCoordinatorResponse, 6)

    assert answer.coordinators[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
