"""Our transaction coordinator against Apache Kafka's own, request by request, on histories that nobody has thought up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.noted_oracle import SEEDS, NotingOracle, read_notes
from tests.support.transaction_histories import play

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
