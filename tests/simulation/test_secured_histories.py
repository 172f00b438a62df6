"""The same histories in clusters where nodes and clients log in, have rights and are held to quotas: the same promises."""

from __future__ import annotations

import pytest

from tests.simulation import cluster_security
from tests.simulation.cluster_history import attempt, plan_of, run_history

# Each load several times; nodes that come and voters that change among them (5, 21).
SEEDS = (0, 1, 2, 3, 4, 5, 7, 8, 21)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_secured_cluster_keeps_its_promises_whatever_befalls_it(seed: int) -> None:
    outcome = run_history(seed, is_secured=True)

    assert outcome.acknowledged > 0
    assert outcome.logins_again > 0
    assert outcome.throttled


def test_the_seeds_have_every_load_and_a_change_of_voters() -> None:
    plans = [plan_of(seed) for seed in SEEDS]

    assert {plan.load for plan in plans} == {"records", "transactions", "groups"}
    assert any(plan.changes_voters for plan in plans)


def test_a_client_without_rights_gets_nothing_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_security, "RIGHTS", cluster_security.RIGHTS[2:])

    outcome = attempt(0, [], is_secured=True)

    assert outcome.acknowledged == 0
    assert "authorization failed" in str(outcome.failure).lower()


def test_a_seed_gives_one_trace_with_logins_too() -> None:
    assert attempt(1, is_secured=True).digest() == attempt(1, is_secured=True).digest()
