"""The simulation finds known bugs: each mutant is run with the seed that found it first.

A change of the simulation or of the machine's timing gives seeds another meaning. `test_every_mutant_is_found` (soak) looks
for new ones, and prints them.
"""

from __future__ import annotations

import pytest

from tests.simulation.raft_chaos import run_history
from tests.simulation.raft_mutants import MUTANTS
from tidelog.raft.errors import InvariantError

SEED_THAT_FINDS = {
    "vote_twice": 10,
    "announce_before_saving": 4,
    "forget_the_vote": 160,
    "vote_for_a_shorter_log": 8,
    "acknowledge_before_flushing": 2,
    "count_own_unflushed_log": 0,
    "commit_an_earlier_epoch": 7,
    "commit_without_majority": 2,
    "win_without_majority": 3,
    "ignore_divergence": 2,
    "lead_again_after_restart": 2,
    "change_voters_at_will": 14,
    "keep_voters_after_truncation": 53,
}
SEEDS_MAX = 1000


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_does_not_survive(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)

    with pytest.raises((AssertionError, InvariantError)):
        run_history(SEED_THAT_FINDS[name])


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)

    for seed in range(SEEDS_MAX):
        try:
            run_history(seed)
        except (AssertionError, InvariantError) as found:
            print(f"{name}: seed {seed}, {str(found)[:100]}")
            return
    pytest.fail(f"no seed below {SEEDS_MAX} finds {name}")
