"""A coordinator that begins: what the log says, and what has to go on."""

from __future__ import annotations

import pytest

from tests.support.transactions import AUDIT, COORDINATOR_EPOCH, ID, ORDERS, TransactionDriver
from tidelog.coordination.coordinator_log import UnreadableLogError
from tidelog.coordination.decision import record
from tidelog.coordination.transaction.states import TransactionState
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.internal.transaction_records import TransactionLogKey, TransactionLogValue

PRODUCER = 4_001


def value(**changes: object) -> TransactionLogValue:
    fields = {
        "producer_id": 5,
        "producer_epoch": 1,
        "transaction_timeout_ms": 60_000,
        "transaction_status": int(TransactionState.PREPARE_ABORT),
        "transaction_partitions": [],
        "transaction_last_update_timestamp_ms": 10,
        "transaction_start_timestamp_ms": 10,
        **changes,
    }
    return TransactionLogValue(**fields)  # type: ignore[arg-type]


def test_an_open_transaction_goes_on_after_a_restart() -> None:
    before = TransactionDriver()
    before.init()
    before.add(PRODUCER, 0, ORDERS)

    driver = before.restarted()

    assert driver.add(PRODUCER, 0, AUDIT) is ErrorCode.NONE
    assert driver.end(PRODUCER, 0, commit=True).producer_epoch == 1
    assert driver.sent[0].partitions == (AUDIT, ORDERS)
    assert driver.sent[0].coordinator_epoch == COORDINATOR_EPOCH + 1


@pytest.mark.parametrize("commit", [True, False])
def test_markers_that_may_be_missing_are_sent_again(commit: bool) -> None:
    before = TransactionDriver()
    before.holds_markers = True
    before.init()
    before.add(PRODUCER, 0, ORDERS)
    before.end(PRODUCER, 0, commit=commit)

    driver = before.restarted(holds_markers=False)

    (due,) = driver.sent
    assert due == before.sent[0]._replace(coordinator_epoch=COORDINATOR_EPOCH + 1)
    assert driver.known().state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    answer = driver.end(PRODUCER, 0, commit=commit)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 1)


def test_an_outcome_without_partitions_is_completed() -> None:
    driver = TransactionDriver()
    driver.shard.replay(record(TransactionLogKey(transactional_id=ID), value(), 1), 0, -1, 0)

    for decision in driver.shard.loaded(driver.now_ms):
        driver.carry_out(decision)

    assert driver.statuses() == [TransactionState.COMPLETE_ABORT]
    assert driver.sent == []


def test_a_list_of_partitions_that_is_null_is_empty() -> None:
    driver = TransactionDriver()

    driver.shard.replay(record(TransactionLogKey(transactional_id=ID), value(transaction_partitions=None), 0), 0, -1, 0)

    assert driver.known().partitions == frozenset()


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_state_that_is_never_recorded_is_not_understood(status: int) -> None:
    driver = TransactionDriver()
    unknown = record(TransactionLogKey(transactional_id=ID), value(transaction_status=status), 1)

    with pytest.raises(UnreadableLogError, match=f"{ID} is recorded in the unknown state {status}"):
        driver.shard.replay(unknown, 0, -1, 0)


def test_nobody_writes_to_this_log_in_a_transaction() -> None:
    driver = TransactionDriver()
    driver.init()
    before = driver.known()

    driver.shard.end_transaction(PRODUCER, 5, is_committed=False)

    assert driver.known() == before
