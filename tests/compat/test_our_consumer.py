"""Our consumer against Apache Kafka: groups of both protocols, beside librdkafka, transactions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import consumer_scenarios as scenarios
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def bootstrap(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "100",
    }
    with Node(kafka, tmp_path_factory.mktemp("kafka"), {**SMALL_NODE, **settings}) as node:
        yield node.bootstrap


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_a_consumer(bootstrap: str, name: str) -> None:
    scenarios.SCENARIOS[name](bootstrap)


def test_aborted_transactions_are_left_out(bootstrap: str) -> None:
    scenarios.skips_what_was_aborted(bootstrap)
