"""Prepared transactions that a later producer finds and ends (KIP-939)."""

from __future__ import annotations

import pytest

from tests.support.transactions import AUDIT, ID, ORDERS, START_MS, TV1, TransactionDriver
from tidelog.coordination.transaction.metadata import NO_TIMEOUT_MS, TransactionMetadata
from tidelog.coordination.transaction.states import TransactionState
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.producers import InitProducerIdResponse

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED


def prepared(epoch: int = 100, **changes: object) -> TransactionDriver:
    """Producer 4000 has prepared a transaction at this epoch, and is gone."""
    driver = TransactionDriver()
    fields = {"timeout_ms": NO_TIMEOUT_MS, "client_transaction_version": 2, "previous_producer_id": 4_000, **changes}
    driver.plant(
        TransactionMetadata(
            transactional_id=ID,
            producer_id=4_000,
            producer_epoch=epoch,
            state=TransactionState.ONGOING,
            last_update_ms=START_MS,
            start_ms=START_MS,
            partitions=frozenset({ORDERS}),
            **fields,  # type: ignore[arg-type]
        )
    )
    return driver


def keep(driver: TransactionDriver) -> InitProducerIdResponse:
    answer = driver.init(enable_2pc=True, keep_prepared_txn=True)
    assert answer.error_code == NONE
    return answer


def pairs(answer: InitProducerIdResponse) -> tuple[tuple[int, int], tuple[int, int]]:
    ongoing = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
    return (answer.producer_id, answer.producer_epoch), ongoing


def ended(driver: TransactionDriver, producer_id: int, epoch: int, *, commit: bool = True) -> tuple[int, int]:
    answer = driver.end(producer_id, epoch, commit=commit)
    assert answer.error_code == NONE
    return answer.producer_id, answer.producer_epoch


def test_a_kept_transaction_stays_open_under_its_own_epoch() -> None:
    driver = prepared()

    assert pairs(keep(driver)) == ((4_000, 101), (4_000, 100))

    described = driver.shard.describe(ID, driver.now_ms)
    assert (described.transaction_state, described.producer_epoch, driver.sent) == ("Ongoing", 100, [])
    assert driver.known().timeout_ms == NO_TIMEOUT_MS


@pytest.mark.parametrize("commit", [True, False])
def test_it_is_ended_by_the_producer_that_found_it(commit: bool) -> None:
    driver = prepared()
    keep(driver)

    assert ended(driver, 4_000, 101, commit=commit) == (4_000, 102)

    (due,) = driver.sent
    assert (due.producer_id, due.producer_epoch, due.is_committed, due.partitions) == (4_000, 102, commit, (ORDERS,))
    assert driver.add(4_000, 102, AUDIT) is NONE


def test_the_producer_that_prepared_it_is_fenced() -> None:
    driver = prepared()
    keep(driver)

    assert driver.end(4_000, 100, commit=True).error_code == FENCED
    assert driver.add(4_000, 100, ORDERS) is FENCED
    assert driver.shard.verify_partitions(ID, 4_000, 100, [ORDERS]) == {ORDERS: FENCED}


def test_nothing_is_added_to_it() -> None:
    driver = prepared()
    keep(driver)

    assert driver.add(4_000, 101, AUDIT) is ErrorCode.INVALID_TXN_STATE
    assert driver.shard.verify_partitions(ID, 4_000, 101, [ORDERS]) == {ORDERS: ErrorCode.INVALID_TXN_STATE}


def test_each_producer_that_finds_it_fences_the_one_before() -> None:
    driver = prepared()

    assert [pairs(keep(driver)) for _ in range(3)] == [((4_000, epoch), (4_000, 100)) for epoch in (101, 102, 103)]

    assert driver.end(4_000, 102, commit=True).error_code == FENCED
    assert ended(driver, 4_000, 103) == (4_000, 104)


def test_a_late_end_of_the_producer_that_found_it_cannot_touch_the_next_transaction() -> None:
    driver = prepared()
    keep(driver)
    ended(driver, 4_000, 101)
    driver.add(4_000, 102, AUDIT)

    assert driver.end(4_000, 101, commit=True).error_code == FENCED
    assert driver.known().state is TransactionState.ONGOING


def test_it_survives_the_coordinator() -> None:
    before = prepared()
    keep(before)

    driver = before.restarted()

    assert driver.known().client_producer_epoch == 101
    assert driver.end(4_000, 100, commit=True).error_code == FENCED
    assert pairs(keep(driver)) == ((4_000, 102), (4_000, 100))
    assert ended(driver, 4_000, 102, commit=False) == (4_000, 103)


def test_without_a_word_about_keeping_it_is_aborted() -> None:
    driver = prepared()
    keep(driver)

    assert driver.init(enable_2pc=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    assert [due.is_committed for due in driver.sent] == [False]
    assert driver.init(enable_2pc=True).producer_epoch == 103


def test_where_nothing_is_open_there_is_nothing_to_keep() -> None:
    driver = TransactionDriver()

    assert pairs(keep(driver)) == ((4_001, 0), (-1, -1))
    assert pairs(keep(driver)) == ((4_001, 1), (-1, -1))


def test_an_outcome_that_is_decided_cannot_be_kept() -> None:
    driver = prepared()
    driver.holds_markers = True
    driver.end(4_000, 100, commit=True)

    answer = driver.init(enable_2pc=True, keep_prepared_txn=True)

    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_transaction_of_one_phase_may_be_kept_too_and_keeps_its_time() -> None:
    driver = prepared(timeout_ms=60_000)

    answer = driver.init(keep_prepared_txn=True, transaction_timeout_ms=5)

    assert pairs(answer) == ((4_000, 101), (4_000, 100))
    assert driver.known().timeout_ms == 60_000
    driver.advance(80_000)
    assert [due.is_committed for due in driver.sent] == [False]


def test_a_transaction_of_one_phase_that_is_kept_for_two_has_no_time_out_any_more() -> None:
    driver = prepared(timeout_ms=60_000)

    assert pairs(keep(driver)) == ((4_000, 101), (4_000, 100))

    assert driver.known().timeout_ms == NO_TIMEOUT_MS
    driver.advance(80_000)
    assert driver.sent == []
    assert ended(driver, 4_000, 101) == (4_000, 102)


def test_below_version_2_nothing_can_be_kept() -> None:
    driver = TransactionDriver(TransactionSettings(is_two_phase_commit_enabled=True, transaction_version=lambda: 1))

    assert driver.init(keep_prepared_txn=True).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_client_of_version_1_ends_it_without_raising_the_epoch() -> None:
    driver = prepared()
    keep(driver)

    assert driver.end(4_000, 101, commit=True, version=TV1).error_code == NONE

    assert (driver.sent[0].producer_epoch, driver.sent[0].transaction_version) == (100, 0)
    assert (driver.known().producer_id, driver.known().producer_epoch) == (4_000, 101)


# --- epochs that are used up ---------------------------------------------------------------------------------------------------


def test_the_one_that_finds_it_may_need_a_fresh_id() -> None:
    driver = prepared(32_766)

    assert pairs(keep(driver)) == ((4_001, 0), (4_000, 32_766))
    assert driver.end(4_000, 32_766, commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    driver.holds_markers = True
    assert ended(driver, 4_001, 0) == (4_001, 1)

    (due,) = driver.due
    assert (due.producer_id, due.producer_epoch) == (4_000, 32_767)
    assert driver.end(4_001, 0, commit=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    driver = driver.restarted(holds_markers=False)
    assert ended(driver, 4_001, 0) == (4_001, 1)
    assert driver.add(4_001, 1, AUDIT) is NONE


def test_the_end_may_need_one() -> None:
    driver = prepared(32_765)
    assert pairs(keep(driver)) == ((4_000, 32_766), (4_000, 32_765))

    assert ended(driver, 4_000, 32_766) == (4_001, 0)

    assert (driver.sent[0].producer_id, driver.sent[0].producer_epoch) == (4_000, 32_767)
    assert ended(driver, 4_000, 32_766) == (4_001, 0)


@pytest.mark.parametrize("is_restarted", [True, False])
def test_both_may_need_one(is_restarted: bool) -> None:
    driver = prepared(100, next_producer_id=3_000, next_producer_epoch=32_765)
    assert pairs(keep(driver)) == ((3_000, 32_766), (4_000, 100))
    driver.holds_markers = True

    assert ended(driver, 3_000, 32_766) == (4_001, 0)

    assert (driver.due[0].producer_id, driver.due[0].producer_epoch) == (4_000, 101)
    assert driver.end(3_000, 32_766, commit=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    if is_restarted:
        driver = driver.restarted()
    driver.write_markers()
    assert ended(driver, 3_000, 32_766) == (4_001, 0)
    assert driver.add(4_001, 0, AUDIT) is NONE
