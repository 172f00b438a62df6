"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

import pytest

from tests.support.transactions import AUDIT, ID, ORDERS, START_MS, TIMEOUT_MS, TransactionDriver, partition
from tidelog.coordination.transaction.id_pattern import check_pattern
from tidelog.model.errors import ErrorCode


@pytest.fixture
def driver() -> TransactionDriver:
    """Three ids: one with nothing, one open since the start, one open since a second later, one that is complete."""
    driver = TransactionDriver()
    for transactional_id in ("empty", "old", "young", "done"):
        driver.init(transactional_id)
    driver.add(4_002, 0, ORDERS, transactional_id="old")
    driver.advance(1_000)
    driver.add(4_003, 0, AUDIT, transactional_id="young")
    driver.add(4_004, 0, AUDIT, transactional_id="done")
    driver.end(4_004, 0, commit=True, transactional_id="done")
    return driver


def listed(driver: TransactionDriver, **filters: object) -> list[str]:
    fields = {"states": (), "producer_ids": (), "duration_ms": -1, "pattern": None, **filters}
    _, found = driver.shard.listed(**fields, now_ms=driver.now_ms)  # type: ignore[arg-type]
    return [each.transactional_id for each in found]


def test_an_open_transaction_is_described() -> None:
    driver = TransactionDriver()
    driver.init()
    driver.add(4_001, 0, partition("orders", 2), AUDIT, ORDERS)

    found = driver.shard.describe(ID, driver.now_ms)

    assert (found.error_code, found.transactional_id, found.transaction_state) == (ErrorCode.NONE, ID, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (4_001, 0)
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (TIMEOUT_MS, START_MS)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("audit", [3]), ("orders", [0, 2])]


def test_what_is_not_there_is_not_described() -> None:
    driver = TransactionDriver()

    assert driver.shard.describe("other", START_MS).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert driver.shard.describe("", START_MS).error_code == ErrorCode.INVALID_REQUEST


def test_all_ids_are_listed(driver: TransactionDriver) -> None:
    _, found = driver.shard.listed((), (), -1, None, driver.now_ms)

    assert [(each.transactional_id, each.producer_id, each.transaction_state) for each in found] == [
        ("empty", 4_001, "Empty"),
        ("old", 4_002, "Ongoing"),
        ("young", 4_003, "Ongoing"),
        ("done", 4_004, "CompleteCommit"),
    ]


def test_they_are_filtered_by_state(driver: TransactionDriver) -> None:
    assert listed(driver, states=["Ongoing", "Empty"]) == ["empty", "old", "young"]


def test_names_of_states_that_there_are_not_come_back(driver: TransactionDriver) -> None:
    unknown, found = driver.shard.listed(["ongoing", "Finished"], (), -1, None, driver.now_ms)

    assert (unknown, found) == (["ongoing", "Finished"], [])


def test_they_are_filtered_by_producer(driver: TransactionDriver) -> None:
    assert listed(driver, producer_ids={4_003, 4_004}) == ["young", "done"]


def test_they_are_filtered_by_age(driver: TransactionDriver) -> None:
    assert listed(driver, states=["Ongoing"], duration_ms=0) == ["old"]
    driver.advance(1)
    assert listed(driver, states=["Ongoing"], duration_ms=0) == ["old", "young"]
    assert listed(driver, states=["Ongoing"], duration_ms=1_001) == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("o.*", ["old"]), ("o", []), (".*y.*", ["empty", "young"]), ("", ["empty", "old", "young", "done"]), ("(", [])],
)
def test_they_are_filtered_by_a_pattern_of_the_whole_id(
    driver: TransactionDriver, pattern: str, expected: list[str]
) -> None:
    assert listed(driver, pattern=pattern) == expected


def test_a_pattern_that_cannot_be_read_is_told() -> None:
    assert check_pattern("(") is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert [check_pattern(each) for each in ("a.*", "", None)] == [ErrorCode.NONE] * 3
