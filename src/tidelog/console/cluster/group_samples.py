"""What is remembered of groups: what they have committed, their lag over time, and since when a commit has not moved."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.cluster.bulk_requests import ListedGroup
from tidelog.console.cluster.lag_time import LagTimes
from tidelog.console.cluster.partition_samples import RATE_WINDOW_S, PartitionSamples
from tidelog.console.cluster.sample_ring import SampleRing

# Sixteen bytes each, twice for every group.
SAMPLES_MAX = 1_000_000
SAMPLES_PER_GROUP_MAX = 600
SAMPLES_PER_GROUP_MIN = 8
# Two hundred bytes each. Of further groups the lag is what the last round saw, without since when.
COMMITS_MAX = 200_000
# Groups that somebody looks at, whose partitions have a history each.
WATCHED_MAX = 50
EMPTY = "Empty"
WATCHED_PARTITIONS_MAX = 200


@dataclass(slots=True)
class Commit:
    offset: int
    moved_s: float
    """When it was seen to move last, or first seen."""


@dataclass(slots=True)
class SampledGroup:
    listed: ListedGroup
    lags: SampleRing
    ages: SampleRing
    commits: dict[TopicPartition, Commit] = field(default_factory=dict)
    lag: int | None = None
    lag_seconds: float | None = None
    members: int | None = None
    """None where nobody has told since its state has changed."""
    state_since_s: float = 0.0


class GroupSamples:
    def __init__(self, partitions: PartitionSamples, times: LagTimes) -> None:
        self._partitions = partitions
        self._times = times
        self.groups: dict[str, SampledGroup] = {}
        self._commits = 0
        self._watched: OrderedDict[str, dict[TopicPartition, SampleRing]] = OrderedDict()

    def list(self, listed: Iterable[ListedGroup], now_s: float, *, is_complete: bool = True) -> None:
        """The groups that there are now; with those from before, where not all nodes have told theirs."""
        groups: dict[str, SampledGroup] = {} if is_complete else dict(self.groups)
        found = list(listed)
        capacity = max(SAMPLES_PER_GROUP_MIN, min(SAMPLES_PER_GROUP_MAX, SAMPLES_MAX // max(1, 2 * len(found))))
        for each in found:
            known = self.groups.get(each.group_id)
            if known is None:
                known = SampledGroup(each, SampleRing(capacity), SampleRing(capacity), state_since_s=now_s)
            elif known.listed.state != each.state:
                known.state_since_s = now_s
                known.members = None
            if each.state == EMPTY:
                known.members = 0
            known.listed = each
            known.lags.capacity = known.ages.capacity = capacity
            groups[each.group_id] = known
        self.groups = groups
        self._commits = sum(len(each.commits) for each in groups.values())
        for gone in [each for each in self._watched if each not in groups]:
            del self._watched[gone]

    def watch(self, group_id: str) -> None:
        """Somebody looks at this group: from now on its partitions have a history."""
        if group_id in self._watched:
            self._watched.move_to_end(group_id)
            return
        self._watched[group_id] = {}
        while len(self._watched) > WATCHED_MAX:
            self._watched.popitem(last=False)

    def committed(self, group_id: str, offsets: Mapping[TopicPartition, int], now_s: float) -> None:
        """What a group had committed at a time."""
        group = self.groups.get(group_id)
        if group is None:
            return
        self._commits -= len(group.commits)
        commits: dict[TopicPartition, Commit] = {}
        for partition, offset in offsets.items():
            known = group.commits.get(partition)
            if known is None:
                known = Commit(offset, now_s)
            elif known.offset != offset:
                known.offset, known.moved_s = offset, now_s
            if self._commits + len(commits) < COMMITS_MAX:
                commits[partition] = known
        group.commits = commits
        self._commits += len(commits)
        self._sum_up(group, offsets, now_s)
        watched = self._watched.get(group_id)
        if watched is not None:
            self._remember(watched, offsets, now_s)

    def _sum_up(self, group: SampledGroup, offsets: Mapping[TopicPartition, int], now_s: float) -> None:
        lag, age, is_known = 0, None, False
        for partition, offset in offsets.items():
            end = self._partitions.end(partition)
            if end is None:
                continue
            is_known = True
            behind = max(0, end - offset)
            lag += behind
            # A partition that is read to its end says nothing of the others.
            seconds = self._times.seconds(partition, offset, now_s) if behind else None
            if seconds is not None:
                age = seconds if age is None else max(age, seconds)
        if is_known and not lag:
            age = 0.0
        group.lag, group.lag_seconds = (lag if is_known else None), age
        if is_known:
            group.lags.add(now_s, lag)
        if age is not None:
            group.ages.add(now_s, age)

    @staticmethod
    def _remember(
        watched: dict[TopicPartition, SampleRing], offsets: Mapping[TopicPartition, int], now_s: float
    ) -> None:
        for partition, offset in offsets.items():
            ring = watched.get(partition)
            if ring is None:
                if len(watched) >= WATCHED_PARTITIONS_MAX:
                    continue
                ring = watched[partition] = SampleRing(SAMPLES_PER_GROUP_MAX)
            ring.add(now_s, offset)

    def rate(self, group_id: str, partition: TopicPartition, now_s: float) -> float | None:
        """Records a second that a watched group commits."""
        ring = self._watched.get(group_id, {}).get(partition)
        return None if ring is None else ring.rate(now_s, RATE_WINDOW_S)

    def watched(self, group_id: str) -> Mapping[TopicPartition, SampleRing]:
        return self._watched.get(group_id, {})
