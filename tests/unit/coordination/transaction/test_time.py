"""Transactions that take too long, and ids that nobody uses."""

from __future__ import annotations

from tests.support.transactions import AUDIT, ID, ORDERS, TIMEOUT_MS, TV1, TransactionDriver
from tidelog.coordination.transaction.states import TransactionState
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.coordination.transaction.transaction_shard import EXPIRY_BATCH_BYTES
from tidelog.model.errors import ErrorCode

PRODUCER = 4_001
INTERVAL_MS = TransactionSettings().abort_timed_out_interval_ms
EXPIRY_MS = 600_000
EXPIRY_INTERVAL_MS = 60_000
EXPIRING = TransactionSettings(
    transactional_id_expiration_ms=EXPIRY_MS,
    remove_expired_interval_ms=EXPIRY_INTERVAL_MS,
    is_two_phase_commit_enabled=True,
)


def begun(settings: TransactionSettings | None = None) -> TransactionDriver:
    driver = TransactionDriver(settings)
    driver.init()
    driver.add(PRODUCER, 0, ORDERS)
    return driver


def test_an_abandoned_transaction_is_aborted_with_an_epoch_that_its_producer_does_not_have() -> None:
    driver = begun()
    driver.advance(TIMEOUT_MS)
    assert driver.sent == []

    driver.advance(INTERVAL_MS)

    (due,) = driver.sent
    assert (due.producer_epoch, due.is_committed, due.partitions) == (1, False, (ORDERS,))
    assert driver.known().state is TransactionState.COMPLETE_ABORT
    assert driver.add(PRODUCER, 0, AUDIT) is ErrorCode.PRODUCER_FENCED


def test_its_time_counts_from_the_first_partition() -> None:
    driver = begun()
    driver.advance(TIMEOUT_MS - 1_000)
    driver.add(PRODUCER, 0, AUDIT)

    driver.advance(1_000 + INTERVAL_MS)

    assert len(driver.sent) == 1


def test_one_that_is_ended_in_time_is_left_alone() -> None:
    driver = begun()
    driver.end(PRODUCER, 0, commit=True)

    driver.advance(10 * TIMEOUT_MS)

    assert [due.is_committed for due in driver.sent] == [True]
    assert driver.known().producer_epoch == 1


def test_one_whose_outcome_is_decided_is_left_alone() -> None:
    driver = begun()
    driver.holds_markers = True
    driver.end(PRODUCER, 0, commit=True)

    driver.advance(10 * TIMEOUT_MS)

    assert len(driver.sent) == 1
    assert driver.known().state is TransactionState.PREPARE_COMMIT


def test_one_that_waits_for_a_commit_is_left_to_the_next_look() -> None:
    driver = begun()
    driver.advance(TIMEOUT_MS)
    driver.holds_commits = True
    driver.add(PRODUCER, 0, AUDIT)
    driver.advance(INTERVAL_MS)
    assert driver.sent == []

    driver.commit()
    driver.holds_commits = False
    driver.advance(INTERVAL_MS)

    assert [due.partitions for due in driver.sent] == [(AUDIT, ORDERS)]


def test_one_that_cannot_be_aborted_is_tried_again() -> None:
    driver = begun()
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.advance(TIMEOUT_MS + INTERVAL_MS)
    assert driver.known().state is TransactionState.ONGOING
    driver.append_error = ErrorCode.NONE

    driver.advance(INTERVAL_MS)

    assert driver.known().state is TransactionState.COMPLETE_ABORT
    assert driver.known().producer_epoch == 1


def test_each_of_several_is_aborted() -> None:
    driver = begun()
    other = driver.init("other").producer_id
    driver.add(other, 0, AUDIT, transactional_id="other")

    driver.advance(TIMEOUT_MS + INTERVAL_MS)

    assert sorted(due.transactional_id for due in driver.sent) == ["other", ID]


def test_time_goes_on_over_a_restart() -> None:
    before = begun()
    before.advance(TIMEOUT_MS)

    driver = before.restarted()
    driver.advance(INTERVAL_MS)

    assert [due.is_committed for due in driver.sent] == [False]


def test_below_version_2_a_time_out_leaves_no_way_back() -> None:
    driver = begun(TransactionSettings(transaction_version=lambda: 1))

    driver.advance(TIMEOUT_MS + INTERVAL_MS)

    assert (driver.known().producer_epoch, driver.known().last_producer_epoch) == (1, -1)
    assert driver.end(PRODUCER, 0, commit=False, version=TV1).error_code == ErrorCode.PRODUCER_FENCED


def test_two_phases_never_time_out() -> None:
    driver = TransactionDriver()
    driver.init(enable_2pc=True)
    driver.add(PRODUCER, 0, ORDERS)

    driver.advance(100 * TIMEOUT_MS)

    assert driver.sent == []
    assert driver.known().state is TransactionState.ONGOING


# --- expiry --------------------------------------------------------------------------------------------------------------------


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    driver = begun(EXPIRING)
    driver.end(PRODUCER, 0, commit=True)
    driver.advance(EXPIRY_MS - 1)
    assert driver.shard.describe(ID, driver.now_ms).error_code == ErrorCode.NONE

    driver.advance(EXPIRY_INTERVAL_MS)

    assert driver.log[-1][1] is None
    assert driver.shard.describe(ID, driver.now_ms).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert driver.end(PRODUCER, 0, commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.restarted().shard.listed((), (), -1, None, driver.now_ms) == ([], [])


def test_an_id_that_is_used_is_kept() -> None:
    driver = begun(EXPIRING)
    driver.advance(TIMEOUT_MS + INTERVAL_MS)
    for _ in range(3):
        driver.advance(EXPIRY_MS // 2)
        driver.init()

    assert driver.known().producer_epoch == 4
    assert all(value is not None for value in driver.values())


def test_an_open_transaction_keeps_its_id() -> None:
    driver = TransactionDriver(EXPIRING)
    driver.init(enable_2pc=True)
    driver.add(PRODUCER, 0, ORDERS)

    driver.advance(2 * EXPIRY_MS)

    assert driver.known().state is TransactionState.ONGOING


def test_many_ids_go_in_batches_of_bounded_size() -> None:
    driver = TransactionDriver(EXPIRING)
    ids = [f"{number:03}-{'x' * 500}" for number in range(100)]
    for transactional_id in ids:
        driver.init(transactional_id)
    recorded = len(driver.log)
    batches: list[int] = []
    carry_out = driver.carry_out

    def counted(decision):  # type: ignore[no-untyped-def]
        batches.append(sum(len(each.key.transactional_id) for each in decision.records))
        return carry_out(decision)

    driver.carry_out = counted  # type: ignore[method-assign]
    driver.advance(EXPIRY_MS + EXPIRY_INTERVAL_MS)

    assert len(driver.log) - recorded == len(ids)
    assert len([size for size in batches if size]) > 2
    assert max(batches) < EXPIRY_BATCH_BYTES + 600


def test_an_expiry_that_is_not_written_forgets_nothing() -> None:
    driver = TransactionDriver(EXPIRING)
    driver.init()
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    driver.advance(EXPIRY_MS + 2 * EXPIRY_INTERVAL_MS)
    driver.append_error = ErrorCode.NONE

    assert driver.init().producer_epoch == 1


def test_an_id_that_is_about_to_expire_has_to_wait() -> None:
    driver = TransactionDriver(EXPIRING)
    driver.init()
    driver.holds_commits = True
    driver.advance(EXPIRY_MS + EXPIRY_INTERVAL_MS)

    assert driver.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    driver.commit()
    driver.holds_commits = False
    assert driver.init().producer_epoch == 0
