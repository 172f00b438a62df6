"""Each known bug is found by a history of whole clusters; a seed that found it is replayed here.

Whatever changes the product's timing, or a misfortune, gives seeds another meaning. Then the next ones are tried, a few of them;
`make soak` looks through all of its seeds, and prints which of them find which bug.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.cluster_history import attempt
from tests.simulation.cluster_mutants import MUTANTS
from tests.support.kernel_twins import plain_only

SEEDS_MAX = 60


@plain_only
@pytest.mark.parametrize(("mutant", "seeds"), MUTANTS.items(), ids=lambda each: getattr(each, "__name__", None))
def test_a_known_bug_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    found = next((each for each in (*seeds, *range(SEEDS_MAX)) if attempt(each).failure is not None), None)
    assert found is not None, f"neither seeds {seeds} nor any below {SEEDS_MAX} find {mutant.__name__}"
    if found != seeds[0]:
        print(f"{mutant.__name__} is found by seed {found} by now, not by {seeds[0]}")
