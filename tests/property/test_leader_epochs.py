"""Leader epochs against the log itself: the epoch of every offset, one by one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.leader_epochs import UNDEFINED_EPOCH_END, LeaderEpochs

PATH = "/leader-epoch-checkpoint"

# What happens to a log: some records under a new or the same leader, truncation at either end, a restart.
events = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("cut_end"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("cut_start"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@given(events)
def test_the_entries_are_the_runs_of_the_log(history: list[tuple[str, int, int]]) -> None:
    disk = SimulatedDisk()
    epochs = LeaderEpochs(disk, PATH)
    start, log = 0, list[int]()  # log[i] is the epoch of offset start + i
    epoch = 0
    for event, amount, count in history:
        if event == "append":
            epoch += amount
            for _ in range(count):
                epochs.assign(epoch, start + len(log))
                log.append(epoch)
        elif event == "cut_end":
            log = log[: max(0, len(log) - amount)]
            epochs.truncate_from_end(start + len(log))
        elif event == "cut_start":
            start, log = start + min(amount, len(log)), log[amount:]
            epochs.truncate_from_start(start)
            # An epoch that holds nothing any more is dropped when the log is opened; so it is here.
            epochs.truncate_from_end(start + len(log))
        else:
            epochs.flush()
            epochs = LeaderEpochs(disk, PATH)

        runs = [(known, start + index) for index, known in enumerate(log) if index == 0 or log[index - 1] != known]
        assert list(epochs.entries) == runs
        end = start + len(log)
        for offset in range(start, end):
            assert epochs.epoch_for_offset(offset) == log[offset - start]
        for asked in range(-1, epoch + 2):
            assert epochs.end_offset_for(asked, end) == naive_end(runs, asked, end)


def naive_end(runs: list[tuple[int, int]], asked: int, end: int) -> tuple[int, int]:
    """KIP-279 in words: the largest epoch at or below the one asked for, and where the next one begins."""
    if asked < 0 or not runs or asked > runs[-1][0]:
        return UNDEFINED_EPOCH_END
    if asked == runs[-1][0]:
        return (asked, end)
    next_start = min(offset for known, offset in runs if known > asked)
    return (max((known for known, _ in runs if known <= asked), default=asked), next_start)


entries = st.tuples(st.integers(0, 6), st.integers(0, 30))


@given(st.lists(entries, max_size=15))
def test_whatever_is_assigned_both_numbers_rise_and_the_last_word_counts(assigned: list[tuple[int, int]]) -> None:
    disk = SimulatedDisk()
    epochs = LeaderEpochs(disk, PATH)
    for epoch, offset in assigned:
        before = epochs.latest
        epochs.assign(epoch, offset)

        known = epochs.entries
        assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(known))
        if before is not None and before.epoch == epoch and before.start_offset <= offset:
            assert epochs.latest == before
        else:
            assert epochs.latest == (epoch, offset)
        assert LeaderEpochs(disk, PATH).entries == known
