"""Our quotas beside Kafka's own `ClientQuotaManager` of bytes and of mutations: the same throttle times, to the millisecond.

`RECORD_QUOTA_TRACES=1` writes the traces that `make test` compares with.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.quota_traces import make_trace, played, recorded, write_recorded

pytestmark = pytest.mark.compat

SOURCE: Path = REPOSITORY / "tests" / "compat" / "QuotaOracle.java"
TRACES = 3_000
RECORDED_TRACES = 300


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with JavaProcess(kafka, SOURCE) as running:
        yield running


def test_the_same_throttle_times(oracle: JavaProcess) -> None:
    for seed in range(TRACES):
        trace = make_trace(seed)

        assert played(trace) == oracle.ask(trace), f"seed {seed}"


def test_the_recorded_traces_are_still_kafkas(oracle: JavaProcess) -> None:
    if os.environ.get("RECORD_QUOTA_TRACES"):
        made = [make_trace(seed) for seed in range(RECORDED_TRACES)]
        write_recorded([(trace, oracle.ask(trace)) for trace in made])

    for trace, kafka in recorded():
        assert oracle.ask(trace) == kafka
