"""Sharing offsets out among tasks."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import OptionError
from tidelog.spark.source.offset_ranges import OffsetRange, split_ranges


def of(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition("t", partition), start, end)


RANGES = st.lists(
    st.tuples(st.integers(0, 10**12), st.one_of(st.integers(0, 50), st.integers(0, 10**6))), min_size=1, max_size=6
).map(lambda sizes: [of(index, start, start + size) for index, (start, size) in enumerate(sizes)])


def test_a_partition_is_a_task_unless_more_are_asked_for() -> None:
    assert split_ranges([of(1, 5, 9), of(0, 0, 3), of(2, 4, 4)]) == [of(0, 0, 3), of(1, 5, 9)]


def test_the_skewed_partition_is_the_one_that_is_divided() -> None:
    split = split_ranges([of(0, 0, 10), of(1, 0, 1000), of(2, 0, 10)], min_partitions=12)

    assert [each.size for each in split] == [10, *[100] * 10, 10]


def test_no_task_gets_more_than_the_most() -> None:
    split = split_ranges([of(0, 7, 32), of(1, 0, 4)], max_records_per_partition=10)

    assert [(each.start, each.end) for each in split] == [(7, 15), (15, 23), (23, 32), (0, 4)]


@given(RANGES, st.none() | st.integers(1, 40), st.none() | st.integers(20_000, 10**6))
def test_every_offset_is_in_one_range_and_the_wishes_hold(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    split = split_ranges(ranges, min_partitions=min_partitions, max_records_per_partition=max_records)

    for whole in ranges:
        pieces = [each for each in split if each.partition == whole.partition]
        assert sum(each.size for each in pieces) == whole.size
        if pieces:
            assert [each.start for each in pieces] == [whole.start, *(each.end for each in pieces[:-1])]
            assert pieces[-1].end == whole.end
    assert all(each.size > 0 for each in split)
    assert len(split) >= min(min_partitions or 0, sum(each.size for each in ranges))
    if max_records is not None:
        assert all(each.size <= max_records for each in split)
    if max_records is None:
        counts = {whole: sum(each.partition == whole.partition for each in split) for whole in ranges}
        largest = max((whole.size / count for whole, count in counts.items() if count), default=0)
        assert all(whole.size / (count - 1) >= largest for whole, count in counts.items() if count > 1)


def test_a_plan_has_a_limit() -> None:
    with pytest.raises(OptionError, match="1000001 partitions, more than 1000000"):
        split_ranges([of(0, 0, 1_000_001)], max_records_per_partition=1)
    with pytest.raises(OptionError, match="smaller minPartitions"):
        split_ranges([of(0, 0, 10**9)], min_partitions=10**9)
