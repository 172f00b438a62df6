"""EndTxn of versions 1 and 2: outcomes, repeated ends, late ends."""

from __future__ import annotations

import pytest

from tests.support.transactions import AUDIT, COORDINATOR_EPOCH, ID, ORDERS, START_MS, TV1, TV2, TransactionDriver
from tidelog.coordination.transaction.markers_due import MarkersDue
from tidelog.coordination.transaction.metadata import TransactionMetadata
from tidelog.coordination.transaction.states import TransactionState
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.transactions import EndTxnRequest, EndTxnResponse

S = TransactionState
NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
INVALID = ErrorCode.INVALID_TXN_STATE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS

PRODUCER = 4_001


def in_state(state: TransactionState, version: int) -> tuple[TransactionDriver, int]:
    """A producer's id that has come to a state by its own doing, and the epoch that it was at when it did so."""
    driver = TransactionDriver()
    driver.holds_markers = state.is_prepared
    driver.init()
    if state is S.EMPTY:
        return driver, 0
    driver.add(PRODUCER, 0, ORDERS, version=version)
    if state is not S.ONGOING:
        is_committed = state in (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)
        assert driver.end(PRODUCER, 0, commit=is_committed, version=version).error_code == NONE
    assert driver.known().state is state
    return driver, 0


def told(answer: EndTxnResponse) -> tuple[ErrorCode, int, int]:
    return ErrorCode.of(answer.error_code), answer.producer_id, answer.producer_epoch


# --- version 1 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_by_version_1_an_end_keeps_the_epoch(commit: bool) -> None:
    driver, _ = in_state(S.ONGOING, TV1)
    driver.add(PRODUCER, 0, AUDIT, version=TV1)

    assert told(driver.end(PRODUCER, 0, commit=commit, version=TV1)) == (NONE, -1, -1)

    assert driver.sent == [MarkersDue(ID, PRODUCER, 0, COORDINATOR_EPOCH, commit, (AUDIT, ORDERS), 0)]
    assert driver.statuses() == ([0, 1, 1, 2, 4] if commit else [0, 1, 1, 3, 5])
    assert driver.add(PRODUCER, 0, ORDERS, version=TV1) is NONE


@pytest.mark.parametrize(
    ("state", "on_commit", "on_abort"),
    [
        (S.EMPTY, INVALID, INVALID),
        (S.PREPARE_COMMIT, CONCURRENT, CONCURRENT),
        (S.PREPARE_ABORT, CONCURRENT, CONCURRENT),
        (S.COMPLETE_COMMIT, NONE, INVALID),
        (S.COMPLETE_ABORT, INVALID, NONE),
    ],
)
def test_by_version_1_the_same_end_again_is_fine(
    state: TransactionState, on_commit: ErrorCode, on_abort: ErrorCode
) -> None:
    driver, epoch = in_state(state, TV1)
    recorded = len(driver.log)

    assert driver.end(PRODUCER, epoch, commit=True, version=TV1).error_code == on_commit
    assert driver.end(PRODUCER, epoch, commit=False, version=TV1).error_code == on_abort

    assert len(driver.log) == recorded
    assert driver.known().state is state


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_another_producer_id_is_no_party_to_it(state: TransactionState, version: int) -> None:
    driver, epoch = in_state(state, version)

    answer = driver.end(PRODUCER + 1, epoch, commit=True, version=version)

    assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("epoch_off", [-5, 5])
def test_another_epoch_is_fenced(version: int, epoch_off: int) -> None:
    driver, epoch = in_state(S.ONGOING, version)

    assert driver.end(PRODUCER, epoch + epoch_off, commit=True, version=version).error_code == FENCED


@pytest.mark.parametrize("version", [TV1, TV2])
def test_an_id_that_is_not_there_has_no_transaction(version: int) -> None:
    driver = TransactionDriver()

    answer = driver.end(1, 0, commit=True, version=version)
    nameless = driver.end(1, 0, commit=True, version=version, transactional_id="")

    assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert nameless.error_code == ErrorCode.INVALID_REQUEST


# --- version 2 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_by_version_2_an_end_raises_the_epoch(commit: bool) -> None:
    driver, _ = in_state(S.ONGOING, TV2)

    assert told(driver.end(PRODUCER, 0, commit=commit)) == (NONE, PRODUCER, 1)

    assert driver.sent == [MarkersDue(ID, PRODUCER, 1, COORDINATOR_EPOCH, commit, (ORDERS,), 2)]
    assert driver.known().producer_epoch == 1
    assert driver.add(PRODUCER, 1, ORDERS) is NONE


@pytest.mark.parametrize(
    ("state", "commit_again", "abort_again"),
    [
        (S.EMPTY, FENCED, FENCED),
        (S.ONGOING, FENCED, FENCED),
        (S.PREPARE_COMMIT, CONCURRENT, CONCURRENT),
        (S.PREPARE_ABORT, CONCURRENT, CONCURRENT),
        (S.COMPLETE_COMMIT, NONE, INVALID),
        (S.COMPLETE_ABORT, INVALID, NONE),
    ],
)
def test_by_version_2_an_end_with_the_epoch_before_is_a_repeated_one(
    state: TransactionState, commit_again: ErrorCode, abort_again: ErrorCode
) -> None:
    driver, _ = in_state(state, TV2)
    before = driver.known().producer_epoch - 1
    recorded = len(driver.log)

    first, second = (driver.end(PRODUCER, before, commit=commit) for commit in (True, False))

    assert (first.error_code, second.error_code) == (commit_again, abort_again)
    for answer in (first, second):
        assert told(answer)[1:] == ((PRODUCER, 1) if answer.error_code == NONE else (-1, -1))
    assert len(driver.log) == recorded


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_by_version_2_nothing_may_be_aborted_and_raises_the_epoch(state: TransactionState) -> None:
    driver, _ = in_state(state, TV2)
    epoch = driver.known().producer_epoch
    recorded, sent = len(driver.log), len(driver.sent)

    assert told(driver.end(PRODUCER, epoch, commit=False)) == (NONE, PRODUCER, epoch + 1)

    assert driver.statuses()[recorded:] == [S.PREPARE_ABORT, S.COMPLETE_ABORT]
    assert len(driver.sent) == sent
    assert told(driver.end(PRODUCER, epoch, commit=False)) == (NONE, PRODUCER, epoch + 1)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_by_version_2_nothing_cannot_be_committed(state: TransactionState) -> None:
    driver, _ = in_state(state, TV2)
    epoch = driver.known().producer_epoch

    assert driver.end(PRODUCER, epoch, commit=True).error_code == INVALID
    assert driver.known().state is state


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_while_markers_are_missing_only_version_1_can_tell_who_is_fenced(state: TransactionState) -> None:
    for version, expected in ((TV1, FENCED), (TV2, CONCURRENT)):
        driver, _ = in_state(state, version)

        assert driver.end(PRODUCER, 9, commit=True, version=version).error_code == expected


def test_a_producer_that_was_fenced_is_not_told_that_the_end_of_its_successor_was_its_own() -> None:
    driver = TransactionDriver()
    driver.init()
    driver.init()
    driver.add(PRODUCER, 1, ORDERS, version=TV1)
    driver.end(PRODUCER, 1, commit=True, version=TV1)

    assert driver.end(PRODUCER, 0, commit=True, version=TV2).error_code == FENCED


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("late_commit", [True, False])
def test_a_late_end_cannot_touch_the_next_transaction(commit: bool, late_commit: bool) -> None:
    driver, _ = in_state(S.ONGOING, TV2)
    driver.end(PRODUCER, 0, commit=commit)
    driver.add(PRODUCER, 1, AUDIT)
    second = driver.known()

    assert driver.end(PRODUCER, 0, commit=late_commit).error_code == FENCED
    assert driver.add(PRODUCER, 0, ORDERS) is FENCED
    assert driver.shard.verify_partitions(ID, PRODUCER, 0, [AUDIT]) == {AUDIT: FENCED}

    assert driver.known() == second
    assert len(driver.sent) == 1


def test_after_a_time_out_the_client_that_aborts_goes_on() -> None:
    driver, _ = in_state(S.ONGOING, TV2)
    driver.advance(80_000)
    assert driver.known().state is S.COMPLETE_ABORT

    assert driver.end(PRODUCER, 0, commit=True).error_code == INVALID
    assert told(driver.end(PRODUCER, 0, commit=False)) == (NONE, PRODUCER, 1)


def test_an_old_client_works_beside_version_2() -> None:
    driver, _ = in_state(S.ONGOING, TV1)
    assert driver.end(PRODUCER, 0, commit=True, version=TV1).error_code == NONE
    assert driver.known().client_transaction_version == 0
    driver.add(PRODUCER, 0, ORDERS, version=TV2)

    assert told(driver.end(PRODUCER, 0, commit=True, version=TV2)) == (NONE, PRODUCER, 1)

    assert [due.transaction_version for due in driver.sent] == [0, 2]


# --- epochs that are used up ---------------------------------------------------------------------------------------------------


def exhausted(*, holds_markers: bool = False) -> TransactionDriver:
    driver = TransactionDriver()
    driver.holds_markers = holds_markers
    driver.plant(
        TransactionMetadata(
            ID, 4_000, 32_766, 60_000, S.ONGOING, START_MS, START_MS, frozenset({ORDERS}), client_transaction_version=2
        )
    )
    return driver


@pytest.mark.parametrize("commit", [True, False])
def test_with_the_last_epoch_an_end_takes_the_client_to_a_fresh_id(commit: bool) -> None:
    driver = exhausted(holds_markers=True)

    assert told(driver.end(4_000, 32_766, commit=commit)) == (NONE, 4_001, 0)
    assert (driver.due[0].producer_id, driver.due[0].producer_epoch) == (4_000, 32_767)
    assert driver.end(4_000, 32_766, commit=commit).error_code == CONCURRENT
    assert driver.add(4_001, 0, ORDERS) is CONCURRENT

    driver.write_markers()
    assert told(driver.end(4_000, 32_766, commit=commit)) == (NONE, 4_001, 0)
    assert driver.end(4_000, 32_766, commit=not commit).error_code == INVALID
    assert driver.add(4_001, 0, ORDERS) is NONE
    assert driver.end(4_000, 32_766, commit=commit).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_repeated_end_is_known_after_a_restart_too() -> None:
    before = exhausted()
    before.end(4_000, 32_766, commit=True)

    driver = before.restarted()

    assert told(driver.end(4_000, 32_766, commit=True)) == (NONE, 4_001, 0)


def test_without_a_fresh_id_the_client_comes_again() -> None:
    driver = exhausted()
    asked = EndTxnRequest(transactional_id=ID, producer_id=4_000, producer_epoch=32_766, committed=True)
    assert driver.shard.end_needs_producer_id(asked, TV2)
    assert not driver.shard.end_needs_producer_id(asked, TV1)

    answer = driver.carry_out(driver.shard.end(asked, TV2, START_MS))

    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.known().state is S.ONGOING


def test_a_time_out_with_the_last_epoch_has_the_producer_begin_anew() -> None:
    driver = exhausted()
    driver.advance(80_000)
    assert (driver.sent[0].producer_epoch, driver.sent[0].is_committed) == (32_767, False)

    assert driver.end(4_000, 32_766, commit=False).error_code == FENCED
    answer = driver.init(producer_id=4_000, producer_epoch=32_766)
    assert (answer.producer_id, answer.producer_epoch) == (driver.next_producer_id, 0)
