"""Each known bug of replication is found by a history of whole clusters; the seed that finds it is replayed here."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from tests.simulation.cluster_chaos import BrokenInvariantError, run_history
from tests.simulation.cluster_mutants import MUTANTS


@pytest.mark.parametrize(("mutant", "seed"), MUTANTS.items(), ids=lambda each: getattr(each, "__name__", None))
def test_a_known_bug_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    mutant(monkeypatch)
    with pytest.raises(BrokenInvariantError):
        run_history(seed)
