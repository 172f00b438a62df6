"""Partitions of a transaction: added, and verified before a broker appends."""

from __future__ import annotations

import pytest

from tests.support.transactions import AUDIT, ID, ORDERS, START_MS, TV1, TV2, TransactionDriver, partition
from tidelog.coordination.transaction.states import TransactionState
from tidelog.model.errors import ErrorCode

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS

PRODUCER = 4_001


@pytest.fixture
def driver() -> TransactionDriver:
    driver = TransactionDriver()
    driver.init()
    return driver


def test_the_first_partition_begins_the_transaction(driver: TransactionDriver) -> None:
    driver.advance(10)

    assert driver.add(PRODUCER, 0, ORDERS) is NONE

    known = driver.known()
    assert known.partitions == {ORDERS}
    assert (known.state, known.start_ms) == (TransactionState.ONGOING, START_MS + 10)
    assert known.client_transaction_version == TV2


def test_others_join_it(driver: TransactionDriver) -> None:
    driver.add(PRODUCER, 0, ORDERS)
    driver.advance(10)

    assert driver.add(PRODUCER, 0, AUDIT, partition("orders", 2)) is NONE

    known = driver.known()
    assert known.partitions == {ORDERS, AUDIT, partition("orders", 2)}
    assert (known.start_ms, known.last_update_ms) == (START_MS, START_MS + 10)


def test_what_is_in_it_already_is_not_recorded_again(driver: TransactionDriver) -> None:
    driver.add(PRODUCER, 0, ORDERS, AUDIT)
    recorded = len(driver.log)

    assert driver.add(PRODUCER, 0, AUDIT) is NONE

    assert len(driver.log) == recorded


def test_a_transaction_after_another_has_its_own_partitions_and_time(driver: TransactionDriver) -> None:
    driver.add(PRODUCER, 0, ORDERS)
    driver.end(PRODUCER, 0, commit=True)
    driver.advance(10)

    driver.add(PRODUCER, 1, AUDIT)

    assert driver.known().partitions == {AUDIT}
    assert driver.known().start_ms == START_MS + 10


def test_who_is_not_the_producer_adds_nothing(driver: TransactionDriver) -> None:
    assert driver.add(PRODUCER + 1, 0, ORDERS) is MAPPING
    assert driver.add(PRODUCER, 1, ORDERS) is FENCED
    assert driver.add(PRODUCER, 0, ORDERS, transactional_id="other") is MAPPING
    assert driver.add(PRODUCER, 0, ORDERS, transactional_id="") is ErrorCode.INVALID_REQUEST
    assert driver.known().state is TransactionState.EMPTY


@pytest.mark.parametrize("commit", [True, False])
def test_while_markers_are_missing_nothing_is_added(driver: TransactionDriver, commit: bool) -> None:
    driver.holds_markers = True
    driver.add(PRODUCER, 0, ORDERS)
    driver.end(PRODUCER, 0, commit=commit)

    assert [driver.add(PRODUCER, epoch, AUDIT) for epoch in (0, 1)] == [CONCURRENT, CONCURRENT]
    assert driver.shard.verify_partitions(ID, PRODUCER, 0, [ORDERS]) == {ORDERS: FENCED}

    driver.write_markers()
    assert [driver.add(PRODUCER, epoch, AUDIT) for epoch in (0, 1)] == [FENCED, NONE]


def test_by_version_1_the_same_epoch_waits_for_the_markers(driver: TransactionDriver) -> None:
    driver.holds_markers = True
    driver.add(PRODUCER, 0, ORDERS, version=TV1)
    driver.end(PRODUCER, 0, commit=True, version=TV1)

    assert driver.add(PRODUCER, 0, AUDIT, version=TV1) is CONCURRENT
    assert driver.shard.verify_partitions(ID, PRODUCER, 0, [ORDERS]) == {ORDERS: CONCURRENT}


def test_a_partition_is_verified_if_it_was_added(driver: TransactionDriver) -> None:
    driver.add(PRODUCER, 0, ORDERS, version=TV1)

    assert driver.shard.verify_partitions(ID, PRODUCER, 0, [ORDERS, AUDIT]) == {
        ORDERS: NONE,
        AUDIT: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_verification_knows_the_producer(driver: TransactionDriver) -> None:
    driver.add(PRODUCER, 0, ORDERS, version=TV1)
    verify = driver.shard.verify_partitions

    assert verify(ID, PRODUCER + 1, 0, [ORDERS]) == {ORDERS: MAPPING}
    assert verify(ID, PRODUCER, 1, [ORDERS]) == {ORDERS: FENCED}
    assert verify("other", PRODUCER, 0, [ORDERS]) == {ORDERS: MAPPING}
    assert verify("", PRODUCER, 0, [ORDERS]) == {ORDERS: ErrorCode.INVALID_REQUEST}


def test_a_partition_counts_once_its_record_is_committed(driver: TransactionDriver) -> None:
    driver.holds_commits = True
    driver.add(PRODUCER, 0, ORDERS)

    assert driver.shard.verify_partitions(ID, PRODUCER, 0, [ORDERS]) == {ORDERS: ErrorCode.TRANSACTION_ABORTABLE}

    driver.commit()
    assert driver.shard.verify_partitions(ID, PRODUCER, 0, [ORDERS]) == {ORDERS: NONE}
