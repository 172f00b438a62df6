"""Transactions that outlive other things: the records they began with, and the time that the machine's clock showed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.broker.transaction_node import BATCHES, TransactionNode
from tidelog.model.errors import ErrorCode
from tidelog.storage.fetched import FetchIsolation

RETENTION_MS = 10_000
# Two batches of such words do not fit into one segment.
WORDS = ["a" * 600_000, "b" * 600_000, "c" * 600_000]
CONFIGS = {"segment.bytes": str(1024 * 1024), "retention.ms": str(RETENTION_MS)}


def by_retention(node: TransactionNode) -> None:
    node.timers.advance(2 * RETENTION_MS)
    (directory,) = node.log_directories
    assert directory.apply_retention() > 0


def by_delete_records(node: TransactionNode) -> None:
    log = node.log("orders")
    assert log.delete_records_before(2) is ErrorCode.NONE
    log.remove_segments_before_start()


Removal = Callable[[TransactionNode], None]
removals = pytest.mark.parametrize("remove", [by_retention, by_delete_records])


@pytest.fixture
def node() -> TransactionNode:
    node = TransactionNode()
    node.create_topic("orders", configs=CONFIGS)
    return node


# Records of an open transaction go: Kafka holds them back no more than others, and neither do we.


@removals
def test_what_an_open_transaction_began_with_may_go(node: TransactionNode, remove: Removal) -> None:
    producer = node.producer()
    for word in WORDS:
        assert producer.send("orders", word) is ErrorCode.NONE
    remove(node)

    log = node.log("orders")
    assert log.log_start_offset > 0
    # Nothing of what is left is certain yet, and nothing before the log's start is promised to anybody.
    assert log.last_stable_offset == log.log_start_offset


@pytest.mark.parametrize(
    ("remove", "crashes"), [(by_retention, False), (by_delete_records, False), (by_delete_records, True)]
)
@pytest.mark.parametrize("commit", [False, True])
def test_its_end_lets_readers_go_on(node: TransactionNode, remove: Removal, *, crashes: bool, commit: bool) -> None:
    producer = node.producer(timeout_ms=600_000)
    for word in WORDS:
        producer.send("orders", word)
    remove(node)
    if crashes:
        node.restart_coordinators()

    assert producer.send("orders", "last") is ErrorCode.NONE
    assert node.log("orders").last_stable_offset == node.log("orders").log_start_offset
    assert producer.end(commit=commit) is ErrorCode.NONE

    log = node.log("orders")
    assert log.last_stable_offset == log.high_watermark == log.log_end_offset
    assert BATCHES.values(log)[-1] == "last"
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    assert [each.producer_id for each in aborted] == ([] if commit else [producer.producer_id])
    assert all(each.first_offset <= log.log_start_offset for each in aborted)


def test_a_crash_after_all_of_it_went_leaves_an_abort(node: TransactionNode) -> None:
    producer = node.producer(timeout_ms=600_000)
    for word in WORDS:
        producer.send("orders", word)
    by_retention(node)
    node.restart_coordinators()

    # Nothing is known of the producer any more. One that goes by version 2 would begin with 0, so that records are missing.
    assert producer.send("orders", "last") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.end(commit=False) is ErrorCode.NONE
    log = node.log("orders")
    assert log.last_stable_offset == log.high_watermark == log.log_end_offset


def test_another_producer_is_not_held_back_by_what_is_gone(node: TransactionNode) -> None:
    slow, quick = node.producer("slow", timeout_ms=600_000), node.producer("quick")
    slow.send("orders", WORDS[0])
    quick.send("orders", WORDS[1])
    quick.end(commit=True)
    node.timers.advance(2 * RETENTION_MS)
    (directory,) = node.log_directories
    directory.apply_retention()

    log = node.log("orders")
    found = log.read(log.log_start_offset, 10_000, upper_bound=FetchIsolation.LAST_STABLE_OFFSET)
    assert not isinstance(found, ErrorCode)
    assert sum(region.count for region in found.regions) == 0
    assert slow.end(commit=True) is ErrorCode.NONE
    assert log.last_stable_offset == log.log_end_offset


# The clock is set back while the node is down. While it runs, nothing of a coordinator goes by that clock.


def test_a_transaction_from_the_future_can_be_ended(node: TransactionNode) -> None:
    producer = node.producer(timeout_ms=1_000)
    producer.send("orders", "a")
    node.clock.ms -= 3_600_000

    node.restart_coordinators()

    assert producer.send("orders", "b") is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    assert node.log("orders").last_stable_offset == node.log("orders").log_end_offset


def test_a_transaction_from_the_future_times_out_when_its_time_has_come() -> None:
    node = TransactionNode(transaction_abort_timed_out_transaction_cleanup_interval_ms="100")
    node.create_topic("orders")
    producer = node.producer(timeout_ms=1_000)
    producer.send("orders", "a")
    node.clock.ms -= 5_000
    node.restart_coordinators()

    node.timers.advance(1_500)
    assert node.log("orders").last_stable_offset == 0
    for _ in range(60):
        node.timers.advance(100)

    assert node.log("orders").last_stable_offset == node.log("orders").log_end_offset == 2
    assert producer.end(commit=True) is not ErrorCode.NONE


def test_records_with_the_time_of_a_clock_that_was_set_back(node: TransactionNode) -> None:
    node.create_topic("stamped", configs={**CONFIGS, "message.timestamp.type": "LogAppendTime"})
    producer = node.producer(timeout_ms=600_000)
    begun_ms = node.clock.ms
    assert producer.send("stamped", WORDS[0]) is ErrorCode.NONE
    node.clock.ms -= 5_000
    assert producer.send("stamped", WORDS[1]) is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE

    log = node.log("stamped")
    assert [each.timestamp for each in BATCHES.records(log)][:2] == [begun_ms, begun_ms - 5_000]
    found = log.offset_for_timestamp(begun_ms - 1_000)
    assert found is not None
    assert not isinstance(found, ErrorCode)
    assert found.offset == 0
    (directory,) = node.log_directories
    assert directory.apply_retention() == 0
    node.restart_coordinators()
    assert BATCHES.values(node.log("stamped")) == WORDS[:2]
