"""Where a read begins and ends."""

from __future__ import annotations

import pytest

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import OptionError
from tidelog.spark.source.offset_bounds import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OffsetBound,
    check_bounds,
    questions,
    resolve,
    unmatched,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("bound", "asked"),
    [
        (Earliest(), {A: -2, B: -2}),
        (Latest(), {A: -1, B: -1}),
        (AtTimestamp(1700), {A: 1700, B: 1700}),
        (AtTimestamps({A: 1, B: 2}), {A: 1, B: 2}),
        (AtOffsets({A: 5, B: -1}), {B: -1}),
        (AtOffsets({A: 0, B: 0}), {}),
    ],
)
def test_only_what_is_not_given_is_asked(bound: OffsetBound, asked: dict[TopicPartition, int]) -> None:
    assert questions(bound, [A, B], name="startingOffsets") == asked


def test_a_given_offset_is_kept_and_an_answer_put_in() -> None:
    assert resolve(AtOffsets({A: 5, B: -2}), [A, B], {B: 3}) == {A: 5, B: 3}
    assert resolve(AtTimestamp(9), [A, B], {A: 4, B: None}) == {A: 4, B: None}


def test_a_list_has_to_be_that_of_the_partitions() -> None:
    with pytest.raises(OptionError, match="t-1 is missing: give -1 for latest"):
        questions(AtOffsets({A: 5}), [A, B], name="startingOffsets")
    with pytest.raises(OptionError, match="endingOffsets names t-1, which is not among"):
        questions(AtOffsets({A: 5, B: 1}), [A], name="endingOffsets")
    with pytest.raises(OptionError, match="endingOffsetsByTimestamp has to name every partition"):
        questions(AtTimestamps({A: 5}), [A, B], name="endingOffsets")


@pytest.mark.parametrize(
    ("starting", "ending", "sentence"),
    [
        (AtOffsets({A: 5}), AtOffsets({A: 4}), "startingOffsets 5 of t-0 is greater than endingOffsets 4"),
        (AtOffsets({A: 5}), AtOffsets({B: 5}), "name different partitions: t-0 is in one of them only"),
        (AtTimestamps({A: 5}), AtTimestamps({A: 4}), "startingOffsetsByTimestamp 5 of t-0 is greater"),
        (AtTimestamp(5), AtTimestamp(4), "startingTimestamp 5 is greater than endingTimestamp 4"),
    ],
)
def test_bounds_that_hold_nothing_are_refused(starting: OffsetBound, ending: OffsetBound, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        check_bounds(starting, ending)


@pytest.mark.parametrize(
    ("starting", "ending"),
    [
        (AtOffsets({A: 5}), AtOffsets({A: -1})),
        (AtOffsets({A: -2}), AtOffsets({A: 0})),
        (AtOffsets({A: 5}), AtOffsets({A: 5})),
        (AtTimestamp(5), Latest()),
        (Earliest(), AtOffsets({A: 0})),
    ],
)
def test_bounds_that_may_hold_something_are_left_alone(starting: OffsetBound, ending: OffsetBound) -> None:
    check_bounds(starting, ending)


def test_a_starting_time_without_a_record_is_named() -> None:
    assert "no record of t-0 is as young as the starting time 9" in str(unmatched(AtTimestamp(9), A))
    assert "no record of t-1 is as young as the starting time 7" in str(unmatched(AtTimestamps({B: 7}), B))
