"""Replays a history: `python -m tests.simulation.replay 17 [--steps 0,2] [--secured] [--mutant NAME] [--shortest]`."""

from __future__ import annotations

import argparse
import traceback

import pytest

from tests.simulation.cluster_history import attempt, shortest


def main() -> int:
    parser = argparse.ArgumentParser(description="Replays a history of a simulated cluster, and prints its trace.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--steps", help="the misfortunes to keep, by number: 0,2")
    parser.add_argument("--secured", action="store_true", help="with logins, ACLs and quotas")
    parser.add_argument("--mutant", help="a known bug to patch in first: see cluster_mutants")
    parser.add_argument("--shortest", action="store_true", help="leave out misfortunes as long as it still fails")
    given = parser.parse_args()
    steps = None if given.steps is None else [int(number) for number in given.steps.split(",") if number]
    with pytest.MonkeyPatch.context() as patch:
        if given.mutant is not None:
            from tests.simulation.cluster_mutants import MUTANTS

            {mutant.__name__: mutant for mutant in MUTANTS}[given.mutant](patch)
        outcome = attempt(given.seed, steps, is_secured=given.secured)
        if given.shortest and outcome.failure is not None:
            outcome = shortest(outcome)
    plan = outcome.plan
    print(
        f"seed {plan.seed}: {plan.load}, {'patient' if plan.is_patient else 'quick'}, transactions {plan.transaction_version}"
    )
    for step in plan.steps:
        print(f"  step {step.number}: {step.name}, {step.after_s:.2f} s after the one before, for {step.for_s:.2f} s")
    print(*outcome.trace, sep="\n")
    speed = outcome.virtual_s / max(outcome.cpu_s, 1e-9)
    print(f"{outcome.virtual_s:.1f} virtual seconds in {outcome.cpu_s:.2f} s: {speed:.0f} a second")
    if outcome.failure is not None:
        traceback.print_exception(outcome.failure)
    return 0 if outcome.failure is None else 1


if __name__ == "__main__":
    raise SystemExit(main())
