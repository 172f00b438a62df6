"""Decides what Apache Kafka 4.3.1's coordinator has decided, and records the same bytes, on histories that were noted down."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.support.noted_oracle import SEEDS, NotedOracle, read_notes
from tests.support.transaction_histories import play


@cache
def notes() -> dict[int, list[list[Any]]]:
    return read_notes()


@pytest.mark.parametrize("tens", range(len(SEEDS) // 10))
def test_every_answer_and_every_record_is_kafkas(tens: int) -> None:
    for seed in SEEDS[10 * tens : 10 * tens + 10]:
        oracle = NotedOracle(notes()[seed])

        play(oracle, seed)

        assert oracle.is_at_end()


def test_the_histories_meet_every_kind_of_answer() -> None:
    answers = [answer for conversation in notes().values() for _, answer in conversation]

    assert {answer["error"] for answer in answers if "error" in answer} == {
        "NONE",
        "CONCURRENT_TRANSACTIONS",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
        "PRODUCER_FENCED",
    }
    assert sum(len(answer["rows"]) for answer in answers) > 1_000
