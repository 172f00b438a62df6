"""Our clients' transactions against a node of ours, in both versions of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.transaction_scenarios import (
    KEEPING_SCENARIOS,
    SCENARIOS,
    Scenario,
    a_prepared_transaction_waits_for_its_decision,
    create,
    producer_of,
    read,
)
from tidelog import Admin, PreparedTransaction, Producer
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


def test_a_node_that_is_killed_within_transactions_costs_none_and_doubles_none(tmp_path: Path) -> None:
    committed: list[bytes] = []
    with NodeProcess(tmp_path) as node:
        bootstrap, port = node.bootstrap, node.port
        create(bootstrap, "orders")
        producer = producer_of(bootstrap, "payments", reconnect_backoff_max_ms=100, retry_backoff_max_ms=100)
        producer.init_transactions()
        run_transactions(producer, committed, 20)
        producer.begin_transaction()
        producer.send("orders", b"before the kill").result(10)
        node.kill()
    with NodeProcess(tmp_path, port=port) as node:
        # The same transaction goes on: the coordinator has read it back from its log.
        producer.send("orders", b"after the kill")
        producer.commit_transaction()
        committed += [b"before the kill", b"after the kill"]
        run_transactions(producer, committed, 20)
        producer.close()
        assert read(bootstrap, "orders", committed=True) == committed


def run_transactions(producer: Producer, committed: list[bytes], count: int) -> None:
    for number in range(count):
        value = b"%d" % (len(committed) + number)
        with producer.transaction():
            producer.send("orders", value)
            producer.send_offsets_to_transaction({("orders", 0): number}, "billing")
        committed.append(value)
