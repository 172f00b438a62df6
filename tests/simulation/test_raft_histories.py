"""A quorum under faults that a seed decides: every invariant holds at every step, and in peace everything works again.

A failing seed replays alone: `pytest tests/simulation/test_raft_histories.py -k 'history[87]'`; `run_history(87, trace=[])` keeps
the trace.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.raft_chaos import run_history

SEEDS = 36
SOAK_SEEDS = int(os.environ.get("SOAK_EXAMPLES", "2000"))
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_quorum_survives_its_history(seed: int) -> None:
    cluster = run_history(seed)

    assert cluster.acknowledged > 0


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_quorums_survive_many_histories() -> None:
    virtual_ms = 0
    for seed in range(SEEDS, SEEDS + SOAK_SEEDS):
        try:
            virtual_ms += run_history(seed).now_ms
        except AssertionError as broken:
            broken.add_note(f"replay with run_history({seed})")
            raise
    assert virtual_ms > 0


@pytest.mark.parametrize("seed", [1, 2, 9])
def test_a_seed_gives_one_trace_under_any_hash_seed(seed: int) -> None:
    script = f"from tests.simulation.raft_chaos import run_history; print(run_history({seed}, duration_ms=3000).trace_digest())"
    digests = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "4711")
    ]

    assert digests[0] == digests[1]
    assert len(digests[0].strip()) == 32


def test_other_seeds_give_other_traces() -> None:
    assert run_history(1, duration_ms=500).trace_digest() != run_history(4, duration_ms=500).trace_digest()
