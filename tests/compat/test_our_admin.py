"""Our admin against Apache Kafka: the same scenarios that our own node is held to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.admin_scenarios import SCENARIOS
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node
from tidelog import Admin

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def bootstrap(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Node(kafka, tmp_path_factory.mktemp("kafka"), SMALL_NODE) as node:
        yield node.bootstrap


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_admin(bootstrap: str, name: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        SCENARIOS[name](admin, bootstrap)
