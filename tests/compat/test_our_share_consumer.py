"""Our share consumer against Apache Kafka: every acknowledgement, in rows and in columns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import share_scenarios as scenarios
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def bootstrap(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {**SMALL_NODE, **{name: str(value) for name, value in scenarios.SETTINGS.items()}}
    with Node(kafka, tmp_path_factory.mktemp("kafka"), settings) as node:
        yield node.bootstrap


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_a_share_consumer(bootstrap: str, name: str) -> None:
    scenarios.SCENARIOS[name](bootstrap)
