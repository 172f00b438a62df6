"""Our clients' transactions against a node of ours, in both versions of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.transaction_scenarios import (
    KEEPING_SCENARIOS,
    SCENARIOS,
    Scenario,
    a_prepared_transaction_waits_for_its_decision,
    create,
    producer_of,
    read,
)
from tidelog import Admin, PreparedTransaction
from tidelog.client.admin import UpgradeType
from tidelog.testing import EmbeddedCluster


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with EmbeddedCluster(config=settings) as cluster:
        if request.param == 1:
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                admin.update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario(bootstrap: str, scenario: Scenario) -> None:
    scenario(bootstrap)


TWO_PHASE = (a_prepared_transaction_waits_for_its_decision, *KEEPING_SCENARIOS)


@pytest.mark.parametrize("scenario", TWO_PHASE, ids=lambda scenario: scenario.__name__)
def test_two_phase_commit(scenario: Scenario) -> None:
    with EmbeddedCluster() as cluster:
        scenario(cluster.bootstrap_servers)


def test_a_prepared_transaction_survives_its_node(tmp_path: Path) -> None:
    with EmbeddedCluster(directory=tmp_path) as cluster:
        create(cluster.bootstrap_servers, "orders")
        with producer_of(cluster.bootstrap_servers, "payments", transaction_two_phase_commit_enable=True) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"prepared")
            recorded = str(producer.prepare_transaction())
    with EmbeddedCluster(directory=tmp_path) as cluster:
        assert read(cluster.bootstrap_servers, "orders", committed=True) == []
        with producer_of(cluster.bootstrap_servers, "payments", transaction_two_phase_commit_enable=True) as producer:
            producer.init_transactions(keep_prepared_txn=True)
            assert producer.complete_transaction(PreparedTransaction.parse(recorded))
        assert read(cluster.bootstrap_servers, "orders", committed=True) == [b"prepared"]
