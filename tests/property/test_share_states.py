"""States of share partitions against a model that has one entry for each offset, with restarts at any moment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, strategies as st

from tests.support.examples import examples
from tests.support.share_states import ShareStateDriver, batch, key
from tidelog.coordination.share_state.share_state_settings import ShareStateSettings
from tidelog.coordination.share_state.state_batches import StateBatch, merged

OFFSETS = st.integers(0, 30)
BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: batch(first, first + length, state, count),
        OFFSETS,
        st.integers(0, 8),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 3),
    ),
    max_size=6,
)


def by_offset(batches: Sequence[StateBatch], start: int = -1) -> dict[int, tuple[int, int]]:
    """The highest deliveries and state that are said of each offset."""
    known: dict[int, tuple[int, int]] = {}
    for each in batches:
        for offset in range(max(each.first_offset, start), each.last_offset + 1):
            known[offset] = max(known.get(offset, each.rank), each.rank)
    return known


@examples(400)
@given(BATCHES, BATCHES, st.integers(-1, 30))
def test_merged_batches_say_of_each_offset_what_the_highest_says(
    known: list[StateBatch], written: list[StateBatch], start: int
) -> None:
    both = merged(known, written, start)

    assert by_offset(both) == by_offset([*known, *written], start)
    if len(known) + len(written) > 1:
        assert all(first.last_offset < second.first_offset for first, second in pairwise(both))


WRITES = st.lists(
    st.tuples(st.integers(0, 1), BATCHES, st.one_of(st.just(-1), OFFSETS), st.integers(0, 9)), max_size=30
)


@examples(150)
@given(WRITES, st.integers(0, 4))
def test_a_restart_at_any_moment_changes_nothing(
    writes: list[tuple[int, list[StateBatch], int, int]], updates_per_snapshot: int
) -> None:
    settings = ShareStateSettings(updates_per_snapshot=updates_per_snapshot)
    steady, restarting = ShareStateDriver(settings), ShareStateDriver(settings)
    model: dict[int, dict[int, tuple[int, int]]] = {0: {}, 1: {}}
    starts = {0: 0, 1: 0}
    for driver in (steady, restarting):
        for partition in model:
            driver.initialise(key(partition), start_offset=0)

    for partition, batches, start, action in writes:
        for driver in (steady, restarting):
            driver.write(key(partition), *batches, start_offset=start)
        if start != -1:
            starts[partition] = start
        for offset, rank in by_offset(batches, start).items():
            known = model[partition]
            known[offset] = max(known.get(offset, rank), rank)
        model[partition] = {offset: rank for offset, rank in model[partition].items() if offset >= starts[partition]}
        if action == 0:
            restarting = restarting.restarted()

        for driver in (steady, restarting):
            state = driver.shard.state_of(key(partition))
            assert state is not None
            assert state.start_offset == starts[partition]
            assert by_offset(state.batches) == model[partition]
    assert restarting.log == steady.log
