"""Lag in seconds: how long ago the record was written that a group reads next.

at the end                            0
within the samples of the ends        interpolated: when did the end go beyond the committed offset?
older than the samples                the timestamp of that record, by one bounded fetch, kept
no timestamp, or not to be fetched    unknown (None), never 0
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.console.cluster.partition_samples import PartitionSamples

# Of each round of samples; those that are left have their turn in the next.
FETCHES_PER_ROUND = 20
TIMES_MAX = 20_000

TimestampOf = Callable[[TopicPartition, int], Awaitable[int | None]]
"""The timestamp in milliseconds of the first record at or after an offset."""


class LagTimes:
    def __init__(self, samples: PartitionSamples, timestamp_of: TimestampOf) -> None:
        self._samples = samples
        self._timestamp_of = timestamp_of
        # None: looked for, and there is none.
        self._timestamps: OrderedDict[tuple[TopicPartition, int], int | None] = OrderedDict()
        self._wanted: dict[tuple[TopicPartition, int], None] = {}

    def seconds(self, partition: TopicPartition, committed: int, now_s: float) -> float | None:
        """How old the record at a committed offset is. None where that is not known, or not yet."""
        end = self._samples.end(partition)
        if end is None:
            return None
        if committed >= end:
            return 0.0
        ring = self._samples.ring(partition)
        time_s = None if ring is None else ring.time_after(committed)
        if time_s is not None:
            return max(0.0, now_s - time_s)
        place = (partition, committed)
        if place not in self._timestamps:
            if len(self._wanted) < TIMES_MAX:
                self._wanted[place] = None
            return None
        self._timestamps.move_to_end(place)
        timestamp_ms = self._timestamps[place]
        return None if timestamp_ms is None else max(0.0, now_s - timestamp_ms / 1000)

    async def fetch_wanted(self, first: Iterable[tuple[TopicPartition, int]] = ()) -> None:
        """Look for some of the timestamps that `seconds` missed."""
        chosen = [each for each in first if each not in self._timestamps]
        chosen += list(self._wanted)[: max(0, FETCHES_PER_ROUND - len(chosen))]
        found = await asyncio.gather(*(self._found(*each) for each in chosen))
        for place, outcome in zip(chosen, found, strict=True):
            self._wanted.pop(place, None)
            if not isinstance(outcome, ClientError):
                self._timestamps[place] = outcome
        while len(self._timestamps) > TIMES_MAX:
            self._timestamps.popitem(last=False)

    async def _found(self, partition: TopicPartition, offset: int) -> int | ClientError | None:
        try:
            return await self._timestamp_of(partition, offset)
        except ClientError as error:
            return error
