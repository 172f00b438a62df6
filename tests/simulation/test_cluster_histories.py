"""Whole clusters that live through faults while our own clients use them, each history decided by a seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster_faults import WEIGHTS
from tests.simulation.cluster_history import attempt, plan_of, replay_command, run_history
from tests.simulation.cluster_invariants import BrokenInvariantError
from tests.simulation.cluster_mutants import elect_from_outside_the_in_sync_set

SEEDS = 204
# Few enough for two workers to share, many enough to say which.
PER_TEST = 6
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_a_cluster_keeps_its_promises_whatever_befalls_it(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        outcome = run_history(seed)
        assert outcome.acknowledged > 0


def test_the_seeds_have_every_misfortune_and_every_load() -> None:
    plans = [plan_of(seed) for seed in range(SEEDS)]
    assert {step.name for plan in plans for step in plan.steps} == {misfortune.__name__ for misfortune in WEIGHTS}
    assert {plan.load for plan in plans} == {"records", "transactions", "groups"}
    assert {plan.load for plan in plans if plan.has_quotas} == {"records", "transactions", "groups"}
    assert {plan.transaction_version for plan in plans if plan.load == "transactions"} == {1, 2}


def test_a_seed_gives_one_trace_under_any_hash_seed() -> None:
    script = (
        "from tests.simulation.cluster_history import attempt; print(*(attempt(each).digest() for each in (1, 3, 6)))"
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for hash_seed in ("1", "4711")
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 3


def test_a_history_that_fails_says_how_to_replay_it_and_is_cut_to_what_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elect_from_outside_the_in_sync_set(monkeypatch)
    seed = next(seed for seed in range(SEEDS) if attempt(seed).failure is not None)
    with pytest.raises(BrokenInvariantError) as broken:
        run_history(seed)
    *trace, command = broken.value.__notes__[0].splitlines()
    steps = [int(number) for number in command.split()[-1].split(",") if number.isdigit()]
    assert len(steps) < len(plan_of(seed).steps)
    assert attempt(seed, steps).trace == trace
    assert command == f"replay: {replay_command(seed, steps)}"
