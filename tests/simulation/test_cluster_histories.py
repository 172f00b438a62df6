"""Whole clusters that live through faults under load, each history decided by a seed."""

from __future__ import annotations

import logging

import pytest

from tests.simulation.cluster_chaos import run_history

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_befalls_a_cluster_what_was_acknowledged_stays(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    run_history(seed)


def test_the_same_seed_gives_the_same_history(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    runs = [run_history(3, misfortunes=3) for _ in range(2)]
    assert runs[0].loop.time() == runs[1].loop.time()
    assert runs[0].loop.callbacks_run == runs[1].loop.callbacks_run
    assert run_history(4, misfortunes=3).loop.callbacks_run != runs[0].loop.callbacks_run
