"""Lag in seconds: from samples, from one record's timestamp, or unknown; never 0 where it is not."""

from __future__ import annotations

import asyncio

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import NotReachedError
from tidelog.console.cluster.bulk_requests import ListedGroup
from tidelog.console.cluster.group_samples import GroupSamples
from tidelog.console.cluster.lag_time import FETCHES_PER_ROUND, LagTimes
from tidelog.console.cluster.partition_samples import PartitionSamples

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


class Records:
    """A log in which the record at an offset has a time."""

    def __init__(self, timestamp_ms: int | None = None) -> None:
        self.timestamp_ms = timestamp_ms
        self.asked: list[tuple[TopicPartition, int]] = []
        self.is_down = False

    async def timestamp_of(self, partition: TopicPartition, offset: int) -> int | None:
        self.asked.append((partition, offset))
        if self.is_down:
            raise NotReachedError("nobody")
        return self.timestamp_ms


def sampled(*ends: tuple[float, int]) -> PartitionSamples:
    samples = PartitionSamples()
    for time_s, end in ends:
        samples.add(time_s, {ORDERS: end})
    return samples


def test_whoever_has_read_everything_is_not_behind() -> None:
    times = LagTimes(sampled((100, 50)), Records().timestamp_of)
    assert times.seconds(ORDERS, 50, 1000) == 0
    assert times.seconds(ORDERS, 51, 1000) == 0


def test_lag_is_the_age_of_the_next_record_by_the_samples_of_the_end() -> None:
    times = LagTimes(sampled((100, 50), (110, 150)), Records().timestamp_of)
    assert times.seconds(ORDERS, 100, 125) == 20
    assert times.seconds(OTHER, 3, 125) is None


def test_beyond_the_samples_one_record_is_fetched_and_its_time_kept() -> None:
    records = Records(timestamp_ms=40_000)
    times = LagTimes(sampled((100, 50), (110, 150)), records.timestamp_of)
    assert times.seconds(ORDERS, 7, 125) is None
    asyncio.run(times.fetch_wanted())
    assert times.seconds(ORDERS, 7, 125) == 85
    asyncio.run(times.fetch_wanted())
    assert records.asked == [(ORDERS, 7)]


def test_a_record_without_a_timestamp_leaves_the_lag_unknown() -> None:
    times = LagTimes(sampled((100, 50)), Records(timestamp_ms=None).timestamp_of)
    assert times.seconds(ORDERS, 7, 125) is None
    asyncio.run(times.fetch_wanted())
    assert times.seconds(ORDERS, 7, 125) is None


def test_a_fetch_that_failed_is_tried_again() -> None:
    records = Records(timestamp_ms=40_000)
    records.is_down = True
    times = LagTimes(sampled((100, 50)), records.timestamp_of)
    for _ in range(2):
        assert times.seconds(ORDERS, 7, 125) is None
        asyncio.run(times.fetch_wanted())
    records.is_down = False
    assert times.seconds(ORDERS, 7, 125) is None
    asyncio.run(times.fetch_wanted())
    assert times.seconds(ORDERS, 7, 125) == 85


def test_one_round_fetches_a_bounded_number_of_records() -> None:
    records = Records(timestamp_ms=1)
    times = LagTimes(sampled((100, 5000)), records.timestamp_of)
    for offset in range(1000):
        times.seconds(ORDERS, offset, 125)
    asyncio.run(times.fetch_wanted())
    assert len(records.asked) == FETCHES_PER_ROUND


def test_a_partition_that_begins_anew_forgets_its_past() -> None:
    samples = sampled((100, 50), (110, 150), (120, 10))
    times = LagTimes(samples, Records().timestamp_of)
    assert samples.end(ORDERS) == 10
    assert times.seconds(ORDERS, 5, 125) is None


def test_a_group_that_lags_in_unknown_time_is_not_told_as_without_lag() -> None:
    samples = PartitionSamples()
    samples.add(100, {ORDERS: 50, OTHER: 70})
    groups = GroupSamples(samples, LagTimes(samples, Records().timestamp_of))
    groups.list([ListedGroup("billing", "classic", "consumer", "Stable", 1)], 100)
    groups.committed("billing", {ORDERS: 50, OTHER: 20}, 100)
    found = groups.groups["billing"]
    assert (found.lag, found.lag_seconds) == (50, None)
    groups.committed("billing", {ORDERS: 50, OTHER: 70}, 101)
    assert (found.lag, found.lag_seconds) == (0, 0.0)


def test_a_commit_that_does_not_move_keeps_the_time_at_which_it_did() -> None:
    samples = sampled((100, 50))
    groups = GroupSamples(samples, LagTimes(samples, Records().timestamp_of))
    groups.list([ListedGroup("billing", "classic", "consumer", "Stable", 1)], 100)
    for second, offset in ((100, 10), (110, 20), (120, 20), (130, 20)):
        groups.committed("billing", {ORDERS: offset}, second)
    assert groups.groups["billing"].commits[ORDERS].moved_s == 110
    groups.list([], 140, is_complete=False)
    assert groups.groups["billing"].commits[ORDERS].moved_s == 110
    groups.list([], 150)
    assert groups.groups == {}
