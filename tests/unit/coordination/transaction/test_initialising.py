"""InitProducerId: epochs, fencing, producer ids that are used up."""

from __future__ import annotations

import pytest

from tests.support.transactions import ID, ORDERS, START_MS, TIMEOUT_MS, TV1, TV2, TransactionDriver, init_request
from tidelog.coordination.transaction.metadata import NO_TIMEOUT_MS, TransactionMetadata
from tidelog.coordination.transaction.states import TransactionState
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.producers import InitProducerIdResponse


def given(answer: InitProducerIdResponse) -> tuple[int, int]:
    assert ErrorCode.of(answer.error_code) is ErrorCode.NONE
    return answer.producer_id, answer.producer_epoch


def at_epoch(epoch: int, state: TransactionState = TransactionState.EMPTY, version: int = TV2) -> TransactionDriver:
    """An id whose producer 4000 has come to this epoch."""
    driver = TransactionDriver(TransactionSettings(transaction_version=lambda: version))
    start_ms = -1 if state is TransactionState.EMPTY else START_MS
    partitions = frozenset({ORDERS}) if state is TransactionState.ONGOING else frozenset()
    driver.plant(
        TransactionMetadata(
            ID, 4_000, epoch, TIMEOUT_MS, state, START_MS, start_ms, partitions, client_transaction_version=version
        )
    )
    return driver


def test_a_new_id_gets_a_fresh_producer_id_and_epoch_0() -> None:
    driver = TransactionDriver()
    assert driver.shard.needs_producer_id(init_request())

    assert given(driver.init()) == (4_001, 0)

    assert driver.known().timeout_ms == TIMEOUT_MS
    assert not driver.shard.needs_producer_id(init_request())


def test_each_producer_gets_the_next_epoch() -> None:
    driver = TransactionDriver()

    assert [given(driver.init()) for _ in range(3)] == [(4_001, 0), (4_001, 1), (4_001, 2)]


def test_a_new_producer_brings_its_own_time_out() -> None:
    driver = TransactionDriver()
    driver.init()

    driver.init(transaction_timeout_ms=5)

    assert driver.known().timeout_ms == 5


def test_an_id_is_not_given_out_where_none_is_at_hand() -> None:
    driver = TransactionDriver()

    answer = driver.carry_out(driver.shard.init_producer_id(init_request(), -1, START_MS))

    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.log == []


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_must_be_one_that_the_broker_allows(timeout_ms: int) -> None:
    driver = TransactionDriver()

    answer = driver.init(transaction_timeout_ms=timeout_ms)

    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    assert not driver.shard.needs_producer_id(init_request(transaction_timeout_ms=timeout_ms))


@pytest.mark.parametrize(
    "changes", [{"transactional_id": ""}, {"transactional_id": None}, {"producer_id": 3}, {"producer_epoch": 3}]
)
def test_a_request_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    driver = TransactionDriver()

    assert driver.init(**changes).error_code == ErrorCode.INVALID_REQUEST  # type: ignore[arg-type]


# --- a transaction that is open ------------------------------------------------------------------------------------------------


def test_what_an_earlier_producer_has_open_is_aborted_before_the_next_begins() -> None:
    driver = TransactionDriver()
    driver.holds_markers = True
    producer_id, epoch = given(driver.init())
    driver.add(producer_id, epoch, ORDERS)

    assert driver.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    (due,) = driver.due
    assert (due.producer_id, due.producer_epoch, due.is_committed, due.partitions) == (producer_id, 1, False, (ORDERS,))
    assert driver.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    driver.write_markers()
    assert given(driver.init()) == (producer_id, 2)
    assert driver.add(producer_id, epoch, ORDERS) is ErrorCode.PRODUCER_FENCED
    assert driver.end(producer_id, epoch, commit=True).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("server_version", [0, 1])
def test_below_version_2_a_fence_leaves_no_way_back(server_version: int) -> None:
    driver = TransactionDriver(TransactionSettings(transaction_version=lambda: server_version))
    producer_id, epoch = given(driver.init())
    driver.add(producer_id, epoch, ORDERS, version=TV1)

    driver.init()

    assert driver.sent[0].transaction_version == 0
    assert driver.known().last_producer_epoch == -1
    assert driver.end(producer_id, epoch, commit=False, version=TV1).error_code == ErrorCode.PRODUCER_FENCED


# --- producers that know who they are (KIP-360) --------------------------------------------------------------------------------


def test_a_producer_that_names_its_epoch_goes_on_with_the_next() -> None:
    driver = TransactionDriver()
    producer_id, epoch = given(driver.init())

    assert given(driver.init(producer_id=producer_id, producer_epoch=epoch)) == (producer_id, epoch + 1)


def test_it_may_ask_again_when_the_answer_was_lost() -> None:
    driver = TransactionDriver()
    producer_id, epoch = given(driver.init())
    driver.init(producer_id=producer_id, producer_epoch=epoch)

    assert given(driver.init(producer_id=producer_id, producer_epoch=epoch)) == (producer_id, epoch + 1)


def test_it_is_fenced_once_somebody_else_has_come() -> None:
    driver = TransactionDriver()
    producer_id, epoch = given(driver.init())
    driver.init()

    answer = driver.init(producer_id=producer_id, producer_epoch=epoch)

    assert answer.error_code == ErrorCode.PRODUCER_FENCED
    assert driver.known().producer_epoch == epoch + 1


def test_it_is_fenced_if_its_producer_id_is_another() -> None:
    driver = TransactionDriver()
    producer_id, epoch = given(driver.init())

    answer = driver.init(producer_id=producer_id + 1, producer_epoch=epoch)

    assert answer.error_code == ErrorCode.PRODUCER_FENCED


def test_a_late_request_of_an_earlier_incarnation_does_not_abort_what_a_later_one_has_open() -> None:
    driver = TransactionDriver()
    producer_id, epoch = given(driver.init())
    _, later = given(driver.init())
    driver.add(producer_id, later, ORDERS)

    answer = driver.init(producer_id=producer_id, producer_epoch=epoch)

    assert answer.error_code == ErrorCode.PRODUCER_FENCED
    assert driver.known().state is TransactionState.ONGOING
    assert driver.sent == []


def test_a_producer_whose_id_is_forgotten_gets_a_new_one() -> None:
    driver = TransactionDriver()

    assert given(driver.init(producer_id=17, producer_epoch=3)) == (4_001, 0)


# --- epochs that are used up ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [32_766, 32_767])
def test_after_the_last_epoch_comes_another_producer_id(epoch: int) -> None:
    driver = at_epoch(epoch)

    assert given(driver.init()) == (4_001, 0)

    assert driver.known().previous_producer_id == 4_000


def test_the_last_epoch_that_a_client_may_hold_is_32766() -> None:
    driver = at_epoch(32_765)

    assert given(driver.init()) == (4_000, 32_766)
    assert given(driver.init()) == (4_001, 0)


def test_a_producer_that_asks_again_after_its_id_has_changed_gets_the_same() -> None:
    driver = at_epoch(32_766)
    first = driver.init(producer_id=4_000, producer_epoch=32_766)

    again = driver.init(producer_id=4_000, producer_epoch=32_766)

    assert given(first) == given(again) == (4_001, 0)
    assert driver.init(producer_id=4_000, producer_epoch=32_765).error_code == ErrorCode.PRODUCER_FENCED


def test_an_earlier_producer_is_fenced_also_when_epochs_are_used_up() -> None:
    driver = at_epoch(32_766)

    assert driver.init(producer_id=4_000, producer_epoch=32_700).error_code == ErrorCode.PRODUCER_FENCED


def test_a_fence_with_the_last_epoch_goes_on_with_a_fresh_id() -> None:
    driver = at_epoch(32_766, TransactionState.ONGOING)

    assert driver.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    assert (driver.sent[0].producer_id, driver.sent[0].producer_epoch) == (4_000, 32_767)
    assert (driver.known().producer_id, driver.known().producer_epoch) == (4_001, 0)
    assert given(driver.init()) == (4_001, 1)


def test_below_version_2_the_fence_takes_the_largest_epoch_and_the_next_producer_a_fresh_id() -> None:
    driver = at_epoch(32_766, TransactionState.ONGOING, TV1)

    assert driver.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    assert (driver.known().producer_id, driver.known().producer_epoch) == (4_000, 32_767)
    producer_id, epoch = given(driver.init())
    assert (producer_id > 4_000, epoch) == (True, 0)


def test_two_phases_are_for_brokers_that_allow_them() -> None:
    driver = TransactionDriver(TransactionSettings())

    assert driver.init(enable_2pc=True).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_two_phases_have_no_time_out_whatever_the_client_asks_for() -> None:
    driver = TransactionDriver()

    given(driver.init(enable_2pc=True, transaction_timeout_ms=2**31 - 1))

    assert driver.known().timeout_ms == NO_TIMEOUT_MS
