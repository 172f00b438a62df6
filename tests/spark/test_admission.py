"""How much one micro-batch may take."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.source.admission import Admission, limited

A, B, C = (TopicPartition("t", index) for index in range(3))
MINUTE_MS = 60_000


def test_without_limits_all_there_is_is_read() -> None:
    assert Admission(None, None, 0).admit({A: 1, B: 2}, {A: 10, B: 2}, 0) == {A: 10, B: 2}


def test_the_most_is_shared_in_proportion() -> None:
    assert limited({A: 0, B: 100, C: 7}, {A: 300, B: 200, C: 7}, 40) == {A: 30, B: 110, C: 7}


def test_a_small_partition_does_not_starve() -> None:
    assert limited({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_an_end_that_went_back_is_handed_on_as_it_is() -> None:
    assert limited({A: 50, B: 0}, {A: 40, B: 100}, 10) == {A: 40, B: 10}


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.just("t"), st.integers(0, 20)),
        st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 2**40),
)
def test_no_batch_goes_too_far_and_every_one_goes_on(
    waiting: dict[TopicPartition, tuple[int, int]], count_max: int
) -> None:
    start = {partition: at for partition, (at, _) in waiting.items()}
    latest = {partition: at + size for partition, (at, size) in waiting.items()}

    end = limited(start, latest, count_max)

    taken = {partition: end[partition] - start[partition] for partition in start}
    filled = [partition for partition in start if latest[partition] > start[partition]]
    assert all(start[partition] <= end[partition] <= latest[partition] for partition in start)
    assert all(taken[partition] >= 1 for partition in filled)
    waits = sum(latest[each] - start[each] for each in filled)
    assert sum(taken.values()) == min(waits, max(count_max, len(filled)))


def test_a_batch_waits_for_the_least_and_no_longer_than_the_delay() -> None:
    admission = Admission(None, 10, MINUTE_MS)
    assert admission.admit({A: 0}, {A: 1}, 1_000_000) == {A: 1}, "the first batch waits for nothing"

    assert admission.admit({A: 1}, {A: 5}, 1_010_000) == {A: 1}
    assert admission.admit({A: 1}, {A: 11}, 1_020_000) == {A: 11}
    assert admission.admit({A: 11}, {A: 12}, 1_079_999) == {A: 11}
    assert admission.admit({A: 11}, {A: 12}, 1_080_000) == {A: 12}


def test_a_trigger_without_records_does_not_restart_the_delay() -> None:
    admission = Admission(None, 10, MINUTE_MS)
    admission.admit({A: 0}, {A: 1}, 0)
    admission.admit({A: 1}, {A: 1}, MINUTE_MS)

    assert admission.admit({A: 1}, {A: 2}, MINUTE_MS + 1) == {A: 2}


def test_least_and_most_hold_together() -> None:
    admission = Admission(20, 10, MINUTE_MS)
    assert admission.admit({A: 0, B: 0}, {A: 30, B: 10}, 0) == {A: 15, B: 5}
    assert admission.admit({A: 25, B: 10}, {A: 30, B: 10}, 1) == {A: 25, B: 10}
