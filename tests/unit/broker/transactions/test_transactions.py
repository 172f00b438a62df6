"""Transactions through a node's handlers: what is let in, how it ends, and what a late request can no longer do."""

from __future__ import annotations

import pytest

from tests.support.data_node import OTHER, Denying
from tests.unit.broker.transaction_node import BATCHES, TransactionalProducer, TransactionNode, error_of
from tidelog.broker.handlers.describe_transactions import describe_transactions
from tidelog.broker.handlers.init_producer_id import init_producer_id
from tidelog.broker.handlers.list_transactions import list_transactions
from tidelog.broker.handlers.produce import produce
from tidelog.broker.transactions.stable_offset_holders import HELD_MS_MIN, SHOWN_MAX, StableOffsetHolders
from tidelog.broker.transactions.transaction_gauges import LATE_MS, register_transactions
from tidelog.broker.transactions.transaction_markers import RETRY_MS_MAX, RETRY_MS_MIN
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.internal_topics import TRANSACTION_STATE
from tidelog.model.metrics import Histogram, Registry
from tidelog.model.pending import Pending
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


@pytest.fixture
def node() -> TransactionNode:
    node = TransactionNode()
    node.create_topic("orders", partitions=2)
    return node


def described(node: TransactionNode, transactional_id: str = "payments") -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (state,) = node.tell(describe_transactions, request, DescribeTransactionsResponse, 0).transaction_states
    return state


def state_of(node: TransactionNode, transactional_id: str = "payments") -> str:
    return described(node, transactional_id).transaction_state


# What is let in


def test_produce_begins_a_transaction_and_its_end_makes_the_records_stable(node: TransactionNode) -> None:
    producer = node.producer()

    assert producer.send("orders", "a", "b") is ErrorCode.NONE
    assert state_of(node) == "Ongoing"
    assert node.log("orders").last_stable_offset == 0
    assert producer.end(commit=True) is ErrorCode.NONE

    assert state_of(node) == "CompleteCommit"
    assert producer.epoch == 1
    assert (node.log("orders").last_stable_offset, node.log("orders").log_end_offset) == (3, 3)


def test_an_abort_is_found_in_the_index_of_aborted_transactions(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")

    assert producer.end(commit=False) is ErrorCode.NONE

    assert state_of(node) == "CompleteAbort"
    (aborted,) = node.log("orders").aborted_transactions(0, 10)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (producer.producer_id, 0, 1)


def test_one_request_adds_only_what_it_writes_to(node: TransactionNode) -> None:
    producer = node.producer()

    producer.send("orders", "a", index=1)

    assert [(each.topic, each.partitions) for each in described(node).topics] == [("orders", [1])]


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_an_older_client_has_to_add_the_partition_first(node: TransactionNode, version: int, error: ErrorCode) -> None:
    producer = node.producer()
    producer.add("orders", 1)

    assert producer.send("orders", "a", version=version) is error
    assert node.log("orders").log_end_offset == 0
    assert producer.add("orders", 0) is ErrorCode.NONE
    assert producer.send("orders", "a", version=version) is ErrorCode.NONE
    assert producer.end(commit=True, version=4) is ErrorCode.NONE
    assert producer.epoch == 0


def test_without_verification_nobody_asks_whether_an_older_client_did() -> None:
    node = TransactionNode(transaction_partition_verification_enable="false")
    node.create_topic("orders")

    assert node.producer().send("orders", "a", version=9) is ErrorCode.NONE
    assert state_of(node) == "Empty"


def test_without_verification_a_newer_client_still_adds_its_partitions() -> None:
    node = TransactionNode(transaction_partition_verification_enable="false")
    node.create_topic("orders")

    assert node.producer().send("orders", "a") is ErrorCode.NONE
    assert state_of(node) == "Ongoing"


def test_a_producer_id_that_is_not_the_transactional_ids_is_refused(node: TransactionNode) -> None:
    producer = node.producer()
    producer.producer_id += 1

    assert producer.send("orders", "a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert node.log("orders").log_end_offset == 0


def test_the_records_of_two_producers_in_one_request_are_refused(node: TransactionNode) -> None:
    first, second = node.producer("first"), node.producer("second")
    request = first.request("orders", 0, "a")
    request.topic_data += second.request("orders", 1, "b").topic_data

    answer = node.answered(produce, request, 12)

    codes = [each.error_code for topic in answer.responses for each in topic.partition_responses]
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert node.log("orders", 0).log_end_offset == 0


def test_topics_that_the_caller_may_not_write_to_are_not_added(node: TransactionNode) -> None:
    node.create_topic("salaries")
    producer = node.producer()
    node.authorizer = Denying((AclOperation.WRITE, "salaries"))

    assert producer.send("salaries", "a") is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert state_of(node) == "Empty"


def test_who_is_no_coordinator_has_the_producer_try_again(node: TransactionNode) -> None:
    producer = node.producer()
    node.change(TRANSACTION_STATE, leader=OTHER, isr=[1, 2], replicas=[1, 2])

    assert producer.send("orders", "a") is ErrorCode.NOT_ENOUGH_REPLICAS


def test_an_open_transaction_of_a_producer_needs_no_coordinator(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    node.change(TRANSACTION_STATE, leader=OTHER, isr=[1, 2], replicas=[1, 2])

    assert producer.send("orders", "b") is ErrorCode.NONE


# What comes late


def test_a_late_produce_of_an_ended_transaction_writes_nothing(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    late = producer.request("orders", 0, "late", sequence=1)
    producer.end(commit=True)
    producer.send("orders", "b")
    before = node.log("orders").log_end_offset

    assert error_of(node.answered(produce, late, 12)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert node.log("orders").log_end_offset == before
    assert producer.end(commit=True) is ErrorCode.NONE


def test_a_late_produce_to_another_partition_does_not_enter_the_next_transaction(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    late = producer.request("orders", 1, "late", sequence=0)
    producer.end(commit=True)
    producer.send("orders", "b")

    assert error_of(node.answered(produce, late, 12)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert node.log("orders", 1).log_end_offset == 0
    assert [(each.topic, each.partitions) for each in described(node).topics] == [("orders", [0])]


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_does_not_touch_the_next_transaction(node: TransactionNode, commit: bool) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    late = TransactionalProducer.__new__(TransactionalProducer)
    late.__dict__.update(producer.__dict__)
    producer.end(commit=True)
    producer.send("orders", "b")

    assert late.end(commit=commit) is ErrorCode.PRODUCER_FENCED
    assert state_of(node) == "Ongoing"
    assert producer.send("orders", "c") is ErrorCode.NONE


def test_a_late_produce_of_an_older_client_is_kept_out_by_verification(node: TransactionNode) -> None:
    producer = node.producer()
    producer.add("orders")
    producer.send("orders", "a", version=11)
    late = producer.request("orders", 1, "late", sequence=0)
    producer.end(commit=True, version=4)

    assert error_of(node.answered(produce, late, 11)) is ErrorCode.TRANSACTION_ABORTABLE
    assert node.log("orders", 1).log_end_offset == 0


def test_a_zombie_is_fenced_by_the_next_of_its_name(node: TransactionNode) -> None:
    zombie = node.producer()
    zombie.send("orders", "a")
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
    first = node.tell(init_producer_id, request, InitProducerIdResponse, 5)
    assert first.error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    successor = node.producer()

    assert state_of(node) == "Empty"
    assert zombie.send("orders", "b") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert zombie.end(commit=True) is ErrorCode.PRODUCER_FENCED
    assert zombie.end(commit=True, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert successor.send("orders", "c") is ErrorCode.NONE


# Markers


def test_a_marker_waits_for_its_partition_to_have_a_leader_here(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    producer.send("orders", "b", index=1)
    node.change("orders", 1, leader=OTHER, isr=[1, 2], replicas=[1, 2])

    assert producer.end(commit=True) is ErrorCode.NONE
    assert state_of(node) == "PrepareCommit"
    assert node.log("orders", 0).last_stable_offset == 2
    assert (len(node.transactions.markers), node.transactions.markers.waiting_count) == (1, 1)
    for _ in range(10):
        node.timers.advance(RETRY_MS_MAX)
    assert state_of(node) == "PrepareCommit"

    node.change("orders", 1, leader=1, isr=[1], replicas=[1])
    node.timers.advance(RETRY_MS_MAX)

    assert state_of(node) == "CompleteCommit"
    assert node.log("orders", 1).last_stable_offset == 2
    assert len(node.transactions.markers) == 0


def test_while_markers_are_missing_the_next_transaction_waits_a_little(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    node.change("orders", 0, leader=OTHER, isr=[1, 2], replicas=[1, 2])
    producer.end(commit=True)

    waiting = node.ask(produce, producer.request("orders", 1, "b"), 12)
    assert isinstance(waiting, Pending)
    assert not waiting.is_complete
    node.change("orders", 0, leader=1, isr=[1], replicas=[1])
    node.timers.advance(RETRY_MS_MIN)
    node.timers.advance(20)

    assert error_of(waiting.value) is ErrorCode.NONE
    assert BATCHES.values(node.log("orders", 1)) == ["b"]


def test_and_has_the_client_come_again_if_that_takes_too_long(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    node.change("orders", 0, leader=OTHER, isr=[1, 2], replicas=[1, 2])
    producer.end(commit=True)

    waiting = node.ask(produce, producer.request("orders", 1, "b"), 12)
    for _ in range(6):
        node.timers.advance(20)

    assert error_of(waiting.value) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.log("orders", 1).log_end_offset == 0


def test_a_partition_that_is_gone_needs_no_marker(node: TransactionNode) -> None:
    node.create_topic("short-lived")
    producer = node.producer()
    producer.send("orders", "a")
    producer.send("short-lived", "b")
    node.delete_topic("short-lived")

    producer.end(commit=True)

    assert state_of(node) == "CompleteCommit"


def test_who_coordinates_no_longer_leaves_the_markers_to_others(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    node.change("orders", 0, leader=OTHER, isr=[1, 2], replicas=[1, 2])
    producer.end(commit=True)

    node.change(TRANSACTION_STATE, leader=OTHER, isr=[1, 2], replicas=[1, 2])
    node.change("orders", 0, leader=1, isr=[1], replicas=[1])
    node.timers.advance(RETRY_MS_MAX)

    assert len(node.transactions.markers) == 0
    assert node.log("orders").last_stable_offset == 0


# Starting again


def test_an_open_transaction_goes_on_after_a_crash(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")

    node.restart_coordinators()

    assert state_of(node) == "Ongoing"
    assert producer.send("orders", "b") is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    assert BATCHES.values(node.log("orders"))[:2] == ["a", "b"]
    assert node.log("orders").last_stable_offset == 3


def test_what_was_decided_and_half_marked_is_finished_by_the_next_start(node: TransactionNode) -> None:
    producer = node.producer()
    producer.send("orders", "a")
    producer.send("orders", "b", index=1)
    node.change("orders", 1, leader=OTHER, isr=[1, 2], replicas=[1, 2])
    producer.end(commit=False)
    assert state_of(node) == "PrepareAbort"
    node.change("orders", 1, leader=1, isr=[1], replicas=[1])

    node.restart_coordinators()

    assert state_of(node) == "CompleteAbort"
    assert [len(node.log("orders", index).aborted_transactions(0, 10)) for index in range(2)] == [1, 1]
    assert [node.log("orders", index).last_stable_offset for index in range(2)] == [3, 2]


# Time


def test_an_abandoned_transaction_is_aborted_in_time() -> None:
    node = TransactionNode(transaction_abort_timed_out_transaction_cleanup_interval_ms="100")
    node.create_topic("orders")
    producer = node.producer(timeout_ms=1_000)
    producer.send("orders", "a")

    node.timers.advance(900)
    assert state_of(node) == "Ongoing"
    for _ in range(4):
        node.timers.advance(100)

    assert state_of(node) == "CompleteAbort"
    assert node.log("orders").last_stable_offset == 2
    assert producer.send("orders", "b") is ErrorCode.INVALID_PRODUCER_EPOCH


# Levels of the feature


@pytest.mark.parametrize("level", [0, 1])
def test_at_a_lower_level_of_the_feature_the_epoch_stays(node: TransactionNode, level: int) -> None:
    node.commit(FeatureLevelRecord(name="transaction.version", feature_level=level))
    producer = node.producer()
    producer.add("orders")
    producer.send("orders", "a", version=11)

    assert producer.end(commit=True, version=4) is ErrorCode.NONE
    assert node.transactions.transaction_version() == level
    assert described(node).producer_epoch == 0


# Other replicas


def test_with_other_replicas_the_first_records_wait_for_the_coordinators_record(node: TransactionNode) -> None:
    node = TransactionNode(replicas=(1, 2))
    node.create_topic("orders")
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=1_000)
    given = node.ask(init_producer_id, request, 5)
    follow(node)
    producer = TransactionalProducer.__new__(TransactionalProducer)
    producer.node, producer.transactional_id, producer.sequences = node, "payments", {}
    producer.producer_id, producer.epoch = given.value.producer_id, given.value.producer_epoch
    sent = producer.request("orders", 0, "a")
    records = sent.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)

    answer = node.ask(produce, sent, 12)
    assert not answer.is_complete
    assert node.log("orders").log_end_offset == 0
    # The frame is used for the next request.
    records[:] = bytes(len(records))
    follow(node)

    assert error_of(answer.value) is ErrorCode.NONE
    assert BATCHES.values(node.log("orders")) == ["a"]


def follow(node: TransactionNode) -> None:
    """The other replica of the coordinator's log gets everything."""
    partition = node.partition(TRANSACTION_STATE)
    end = node.log(TRANSACTION_STATE).log_end_offset
    partition.read_as_follower(OTHER, end, 1000, broker_epoch=2, log_start_offset=0)


# Listing


def listed(node: TransactionNode, **filters: object) -> tuple[list[str], list[str]]:
    request = ListTransactionsRequest(
        **{"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **filters}  # type: ignore[arg-type]
    )
    answer = node.tell(list_transactions, request, ListTransactionsResponse, 2)
    assert answer.error_code == ErrorCode.NONE
    return answer.unknown_state_filters, [each.transactional_id for each in answer.transaction_states]


def test_transactions_are_listed_by_every_filter(node: TransactionNode) -> None:
    first, second = node.producer("a-1"), node.producer("b-2")
    first.send("orders", "a")
    node.timers.advance(500)

    assert listed(node) == ([], ["a-1", "b-2"])
    assert listed(node, state_filters=["Ongoing", "Nonsense"]) == (["Nonsense"], ["a-1"])
    assert listed(node, producer_id_filters=[second.producer_id]) == ([], ["b-2"])
    assert listed(node, duration_filter=400, state_filters=["Ongoing"]) == ([], ["a-1"])
    assert listed(node, duration_filter=600, state_filters=["Ongoing"]) == ([], [])
    assert listed(node, transactional_id_pattern="b-.*") == ([], ["b-2"])
    node.authorizer = Denying((AclOperation.DESCRIBE, "a-1"))
    assert listed(node) == ([], ["b-2"])


def test_an_unreadable_pattern_is_an_error(node: TransactionNode) -> None:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern="(")

    answer = node.tell(list_transactions, request, ListTransactionsResponse, 2)

    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_what_cannot_be_described(node: TransactionNode) -> None:
    node.producer()
    assert described(node, "nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    node.authorizer = Denying((AclOperation.DESCRIBE, "payments"))
    assert described(node).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    node.authorizer = Denying()
    node.change(TRANSACTION_STATE, leader=OTHER, isr=[1, 2], replicas=[1, 2])
    assert described(node).error_code == ErrorCode.NOT_COORDINATOR


# Metrics


def test_what_hangs_and_waits_and_is_refused_can_be_seen(node: TransactionNode) -> None:
    registry = Registry()
    register_transactions(registry, node.transactions, node.transaction_admission, node.partitions, node.clock)

    def values() -> list[object]:
        return [
            value.count if isinstance(value, Histogram) else value for family in registry for _, value in family.read()
        ]

    assert values() == [0, 0, 0, 0]
    producer = node.producer()
    producer.send("orders", "a")
    producer.send("orders", "b", version=11, index=1)
    node.change("orders", 0, leader=OTHER, isr=[1, 2], replicas=[1, 2])
    producer.end(commit=True)
    node.change("orders", 0, leader=1, isr=[1], replicas=[1])

    assert values() == [0, 1, 1, 2]
    node.clock.advance(node.transactions.settings.max_timeout_ms + LATE_MS + 1_000)
    assert values() == [1, 1, 1, 2]


def test_who_holds_a_last_stable_offset_back_can_be_seen(node: TransactionNode) -> None:
    registry = Registry()
    StableOffsetHolders(node.partitions, node.clock).register(registry)

    def values() -> dict[str, list[object]]:
        return {family.name.rpartition("offset_")[2]: list(family.read()) for family in registry}

    nobody: dict[str, list[object]] = {"held_partitions": [((), 0)], "lag_records": [], "held_seconds": []}
    assert values() == nobody
    producer = node.producer()
    producer.send("orders", "a")
    node.clock.advance(5_000)
    producer.send("orders", "b")
    node.producer("others").send("orders", "c")
    assert values() == nobody, "not for long enough"

    node.clock.advance(HELD_MS_MIN)
    labels = ("orders", "0", str(producer.producer_id))
    assert values() == {
        "held_partitions": [((), 1)],
        "lag_records": [(labels, 3)],
        "held_seconds": [(labels, 5 + HELD_MS_MIN / 1000)],
    }
    node.clock.advance(HELD_MS_MIN)
    producer.send("orders", "d")
    assert values()["held_seconds"] == [(labels, 5 + 2 * HELD_MS_MIN / 1000)], (
        "it goes on writing, and holds it all the same"
    )
    producer.end(commit=True)
    assert values() == nobody, "the next one holds it from now on"
    node.clock.advance(HELD_MS_MIN)
    labels = ("orders", "0", str(producer.producer_id + 1))
    assert values()["held_seconds"] == [(labels, HELD_MS_MIN / 1000)]


def test_records_of_long_ago_make_no_old_transaction_and_labels_are_few(node: TransactionNode) -> None:
    registry = Registry()
    holders = StableOffsetHolders(node.partitions, node.clock)
    holders.register(registry)
    node.create_topic("many", partitions=SHOWN_MAX + 5)
    holders.look()
    node.clock.advance(1_000)
    producer = node.producer()
    for index in range(SHOWN_MAX + 5):
        producer.send("many", "a", index=index)
    held, shown, _ = registry
    assert list(held.read()) == [((), 0)]

    node.clock.advance(HELD_MS_MIN)

    assert list(held.read()) == [((), SHOWN_MAX + 5)]
    assert len(list(shown.read())) == SHOWN_MAX
