"""The sink's protocol on a cluster in memory: whatever dies, fails, sleeps or times out, each row counts once."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tests.spark.sink_model import World


class Choices:
    """A sequence of choices, and the next one after it: every way in turn."""

    def __init__(self, taken: list[int]) -> None:
        self._taken = taken
        self._path: list[tuple[int, int]] = []

    def __call__(self, of: int) -> int:
        chosen = self._taken[len(self._path)] if len(self._path) < len(self._taken) else 0
        self._path.append((chosen, of))
        return chosen

    def next(self) -> Choices | None:
        path = list(self._path)
        while path and path[-1][0] == path[-1][1] - 1:
            path.pop()
        return Choices([chosen for chosen, _ in path[:-1]] + [path[-1][0] + 1]) if path else None


def in_every_way(*, batches: int, faults: int = 0, sleepers: int = 0, timeouts: int = 0) -> int:
    """A query with everything that may go wrong; how many histories there are."""
    count = 0
    choices: Choices | None = Choices([])
    while choices is not None:
        world = World(choices, batches=batches, faults=faults, sleepers=sleepers, timeouts=timeouts)
        world.run_to_the_end()
        world.check()
        count += 1
        choices = choices.next()
    return count


def test_each_row_counts_once_wherever_a_driver_dies_or_fails() -> None:
    assert in_every_way(batches=2, faults=1) > 50


def test_each_row_counts_once_wherever_the_driver_after_it_dies_too() -> None:
    assert in_every_way(batches=1, faults=2) > 500


def test_each_row_counts_once_wherever_a_driver_sleeps_while_another_takes_over() -> None:
    assert in_every_way(batches=2, sleepers=1) > 100


def test_each_row_counts_once_wherever_a_driver_dies_beside_one_that_sleeps() -> None:
    assert in_every_way(batches=1, sleepers=1, faults=1) > 500


def test_a_time_out_never_doubles_a_row_and_never_loses_one_silently() -> None:
    assert in_every_way(batches=1, faults=1, timeouts=1) > 1000


@given(st.data())
@settings(max_examples=50)
def test_each_row_counts_once_in_long_histories(data: st.DataObject) -> None:
    def choose(of: int) -> int:
        # Most steps go well, or no history would be long.
        return data.draw(st.one_of(st.just(0), st.just(0), st.integers(0, of - 1)))

    world = World(choose, faults=3, sleepers=3, timeouts=1)
    world.run_to_the_end()
    world.check()
