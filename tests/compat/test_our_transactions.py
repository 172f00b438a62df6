"""Our clients' transactions against Apache Kafka, in both versions of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node
from tests.support.transaction_scenarios import SCENARIOS, Scenario, a_prepared_transaction_waits_for_its_decision
from tidelog import Admin
from tidelog.client.admin import UpgradeType

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def bootstrap(
    request: pytest.FixtureRequest, kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    node = Node(
        kafka,
        tmp_path_factory.mktemp("kafka"),
        {**SMALL_NODE, "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"},
    )
    node.format()
    with node.running():
        if request.param == 1:
            with Admin(bootstrap_servers=node.bootstrap) as admin:
                admin.update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        yield node.bootstrap


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario(bootstrap: str, scenario: Scenario) -> None:
    scenario(bootstrap)


def test_prepared_transactions(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two-phase commit is in Apache Kafka 4.3 for those who turn on what is not stable."""
    node = Node(
        kafka,
        tmp_path_factory.mktemp("kafka"),
        {
            **SMALL_NODE,
            "unstable.api.versions.enable": "true",
            "transaction.two.phase.commit.enable": "true",
        },
    )
    node.format()
    with node.running():
        a_prepared_transaction_waits_for_its_decision(node.bootstrap)
