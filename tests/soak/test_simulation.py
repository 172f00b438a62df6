"""Thousands of histories of clusters, and every known bug found by them. `SOAK_HISTORIES` says how many (3000)."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import pytest

from tests.simulation.cluster_history import attempt, run_history
from tests.simulation.cluster_mutants import MUTANTS

HISTORIES = int(os.environ.get("SOAK_HISTORIES", "3000"))
PER_TASK = 50
# Each known bug is found by one of the first seeds, or counts as not found.
MUTANT_SEEDS = min(HISTORIES, 600)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]


class _Lived(NamedTuple):
    first: int
    virtual_s: float
    cpu_s: float
    acknowledged: int
    failures: list[str]


def _live(first: int) -> _Lived:
    virtual_s = cpu_s = 0.0
    acknowledged = 0
    failures = []
    for seed in range(first, min(first + PER_TASK, HISTORIES)):
        try:
            outcome = run_history(seed)
        except Exception as broken:  # noqa: BLE001 - all of them are told of in the end
            failures.append("\n".join([f"seed {seed}: {broken}", *getattr(broken, "__notes__", [])]))
        else:
            virtual_s += outcome.virtual_s
            cpu_s += outcome.cpu_s
            acknowledged += outcome.acknowledged
    return _Lived(first, virtual_s, cpu_s, acknowledged, failures)


def test_clusters_keep_their_promises_in_thousands_of_histories() -> None:
    failures: list[str] = []
    virtual_s = cpu_s = 0.0
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for lived in processes.map(_live, range(0, HISTORIES, PER_TASK)):
            virtual_s += lived.virtual_s
            cpu_s += lived.cpu_s
            failures += lived.failures
            print(
                f"seeds {lived.first} to {min(lived.first + PER_TASK, HISTORIES) - 1}: {lived.acknowledged} acknowledged, "
                f"{lived.virtual_s:.0f} virtual seconds, {lived.virtual_s / max(lived.cpu_s, 1e-9):.1f} of them a second",
                flush=True,
            )
    print(f"{virtual_s:.0f} virtual seconds in {cpu_s:.0f} s: {virtual_s / max(cpu_s, 1e-9):.1f} a second")
    assert not failures, "\n\n".join(failures)


def _find(name: str) -> tuple[str, int | None, str]:
    """The first seed that finds a known bug, and what it breaks."""
    mutant = {mutant.__name__: mutant for mutant in MUTANTS}[name]
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        for seed in range(MUTANT_SEEDS):
            failure = attempt(seed).failure
            if failure is not None:
                return name, seed, str(failure)
    return name, None, ""


def test_every_known_bug_is_found() -> None:
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        found = list(processes.map(_find, [mutant.__name__ for mutant in MUTANTS]))
    for name, seed, phrase in found:
        print(f"{name}: {'not found' if seed is None else f'seed {seed}'}  {phrase[:100]}")
    missing = [name for name, seed, _ in found if seed is None]
    assert not missing, f"no seed below {MUTANT_SEEDS} finds {missing}"
