"""Records that are written and not committed, or not even written: what others see, and what becomes of it."""

from __future__ import annotations

import pytest

from tests.support.transactions import AUDIT, ID, ORDERS, TV1, TV2, TransactionDriver, init_request
from tidelog.coordination.transaction.states import TransactionState
from tidelog.coordination.transaction.transaction_shard import COMPLETION_RETRY_MS
from tidelog.model.errors import ErrorCode

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
PRODUCER = 4_001


@pytest.fixture
def driver() -> TransactionDriver:
    """With a transaction that is open, and commits that take their time from here on."""
    driver = TransactionDriver()
    driver.init()
    driver.add(PRODUCER, 0, ORDERS)
    driver.holds_commits = True
    return driver


def test_while_a_record_is_not_committed_every_other_request_has_to_wait(driver: TransactionDriver) -> None:
    driver.add(PRODUCER, 0, AUDIT)
    before = driver.known()

    assert driver.add(PRODUCER, 0, AUDIT) is CONCURRENT
    assert driver.init().error_code == CONCURRENT
    assert driver.end(PRODUCER, 0, commit=True).error_code == CONCURRENT
    assert driver.end(PRODUCER, 9, commit=True).error_code == CONCURRENT
    assert driver.end(PRODUCER, 0, commit=True, version=TV1).error_code == CONCURRENT
    assert driver.known() == before
    assert not driver.shard.needs_producer_id(init_request())

    driver.commit()
    assert driver.known().partitions == {ORDERS, AUDIT}


def test_by_version_1_a_fenced_producer_is_told_at_once(driver: TransactionDriver) -> None:
    driver.add(PRODUCER, 0, AUDIT)

    assert driver.end(PRODUCER, 9, commit=True, version=TV1).error_code == ErrorCode.PRODUCER_FENCED


def test_another_id_does_not_wait(driver: TransactionDriver) -> None:
    driver.add(PRODUCER, 0, AUDIT)

    assert driver.init("other").error_code == ErrorCode.NONE


def test_markers_are_due_when_the_outcome_is_committed(driver: TransactionDriver) -> None:
    driver.end(PRODUCER, 0, commit=True)
    assert driver.sent == []

    driver.commit()

    assert [due.is_committed for due in driver.sent] == [True]
    assert driver.known().state is TransactionState.PREPARE_COMMIT
    driver.commit()
    assert driver.known().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_what_is_not_committed_changes_nothing(driver: TransactionDriver, error: ErrorCode) -> None:
    before = driver.known()
    driver.end(PRODUCER, 0, commit=True)

    driver.commit(error)

    assert driver.known() == before
    assert driver.sent == []
    assert driver.end(PRODUCER, 0, commit=True).error_code == ErrorCode.NONE


def test_an_id_whose_first_record_is_lost_is_not_known() -> None:
    driver = TransactionDriver()
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.init()
    driver.append_error = ErrorCode.NONE

    assert driver.add(PRODUCER, 0, ORDERS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.init().producer_epoch == 0


def test_a_completion_that_is_lost_is_tried_again(driver: TransactionDriver) -> None:
    driver.holds_commits = False
    driver.holds_markers = True
    driver.end(PRODUCER, 0, commit=True)
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.write_markers()
    assert driver.known().state is TransactionState.PREPARE_COMMIT

    driver.advance(COMPLETION_RETRY_MS)
    assert driver.known().state is TransactionState.PREPARE_COMMIT
    driver.append_error = ErrorCode.NONE
    driver.advance(COMPLETION_RETRY_MS)

    assert driver.known().state is TransactionState.COMPLETE_COMMIT


def test_markers_of_another_outcome_complete_nothing(driver: TransactionDriver) -> None:
    driver.holds_commits = False
    driver.holds_markers = True
    driver.end(PRODUCER, 0, commit=True)
    written = driver.shard.markers_written
    recorded = len(driver.log)

    for decision in (
        written(ID, PRODUCER, 0, driver.now_ms),
        written(ID, PRODUCER + 1, 1, driver.now_ms),
        written("other", PRODUCER, 1, driver.now_ms),
    ):
        driver.carry_out(decision)

    assert len(driver.log) == recorded
    driver.write_markers()
    driver.carry_out(written(ID, PRODUCER, 1, driver.now_ms))
    assert driver.statuses() == [0, 1, 2, 4]


@pytest.mark.parametrize("version", [TV1, TV2])
def test_with_one_replica_all_of_it_happens_before_the_answer(version: int) -> None:
    driver = TransactionDriver()
    driver.init()
    driver.add(PRODUCER, 0, ORDERS, version=version)

    driver.end(PRODUCER, 0, commit=True, version=version)

    assert driver.known().state is TransactionState.COMPLETE_COMMIT
    assert driver.statuses() == [0, 1, 2, 4]


def test_a_shard_that_was_unloaded_sends_nothing(driver: TransactionDriver) -> None:
    driver.end(PRODUCER, 0, commit=True)

    driver.shard.unload()
    driver.commit()

    assert driver.sent == []
    assert driver.shard.deadlines.next_ms is None
    assert driver.add(PRODUCER, 0, ORDERS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
