"""Our transaction coordinator against Apache Kafka's own, request by request, on histories that nobody has thought up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.noted_oracle import SEEDS, NotingOracle, read_notes
from tests.support.transaction_histories import play
from tests.support.transactions import ID, ORDERS, START_MS, TransactionDriver
from tidelog.coordination.transaction.metadata import NO_TIMEOUT_MS, TransactionMetadata
from tidelog.coordination.transaction.states import TransactionState
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import CoordinatorLog, decode_coordinator_record
from tidelog.wire.messages.internal.transaction_records import TransactionLogValue

pytestmark = pytest.mark.compat

SOURCE = REPOSITORY / "tests" / "compat" / "TransactionOracle.java"
HISTORIES = 100


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with JavaProcess(kafka, SOURCE) as process:
        yield process


@pytest.mark.parametrize("first_seed", [1_000, 2_000, 3_000, 4_000, 5_000])
def test_both_coordinators_decide_alike(oracle: JavaProcess, first_seed: int) -> None:
    for seed in range(first_seed, first_seed + HISTORIES):
        play(oracle, seed)


def test_what_was_noted_down_is_what_kafka_says(oracle: JavaProcess) -> None:
    notes = read_notes()

    for seed in SEEDS[::10]:
        noting = NotingOracle(oracle)
        play(noting, seed)
        assert noting.conversation == notes[seed]


# --- transactions that were kept, which Kafka 4.3.1 does not know of ----------------------------------------------------------


def kept(oracle: JavaProcess, epoch: int, *, is_ended: bool) -> None:
    """A transaction of producer 4000 at this epoch that another client has found, and perhaps ended: Kafka reads that log."""
    driver = TransactionDriver()
    driver.holds_markers = True
    prepared = TransactionMetadata(
        ID, 4_000, epoch, NO_TIMEOUT_MS, TransactionState.ONGOING, START_MS, START_MS, frozenset({ORDERS})
    )
    driver.plant(prepared)
    found = driver.init(enable_2pc=True, keep_prepared_txn=True)
    if is_ended:
        ended = driver.end(found.producer_id, found.producer_epoch, commit=True)
        assert ended.error_code == ErrorCode.NONE
    key, value = driver.log[-1]
    assert value is not None
    oracle.ask({"do": "begin", "now_ms": START_MS, "version": 2, "next_producer_id": 9_000, "two_phases": True})
    oracle.ask({"do": "load", "now_ms": START_MS, "rows": [[key.hex(), value.hex()]]})


@pytest.mark.parametrize(("epoch", "completed"), [(100, (4_000, 102)), (32_765, (4_001, 0)), (32_766, (4_001, 0))])
def test_kafka_completes_what_was_kept_and_ended(oracle: JavaProcess, epoch: int, completed: tuple[int, int]) -> None:
    kept(oracle, epoch, is_ended=True)

    ((key, value),) = oracle.ask({"do": "markers", "now_ms": START_MS})["rows"]

    decoded = decode_coordinator_record(CoordinatorLog.TRANSACTION_STATE, bytes.fromhex(key), bytes.fromhex(value))
    assert isinstance(decoded.value, TransactionLogValue)
    assert decoded.value.transaction_status == TransactionState.COMPLETE_COMMIT
    assert (decoded.value.producer_id, decoded.value.producer_epoch) == completed


def test_kafka_goes_on_with_what_was_kept_under_its_first_epoch(oracle: JavaProcess) -> None:
    kept(oracle, 100, is_ended=False)
    question = {"do": "end", "now_ms": START_MS, "transactional_id": ID, "producer_id": 4_000, "version": 2}

    fenced = oracle.ask({**question, "producer_epoch": 101, "commit": True})
    ended = oracle.ask({**question, "producer_epoch": 100, "commit": True})

    assert fenced["error"] == "PRODUCER_FENCED"
    assert (ended["error"], ended["epoch"]) == ("NONE", 101)
