"""What is known of a group and its partitions at one moment: the evidence for why it lags."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.client.admin import (
    GroupDescription,
    GroupMember,
    GroupState,
    GroupType,
    OffsetSpec,
    ProducerState,
)
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.console.cluster.view import ClusterView

# Of one group's screen.
PARTITIONS_MAX = 2_000
# Partitions in which open transactions are looked for.
_OPEN_MAX = 50


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """The producer whose transaction holds a partition's last stable offset."""

    state: ProducerState
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    partition: TopicPartition
    committed: int | None
    end: int | None
    lso: int | None
    lag: int | None
    lag_seconds: float | None
    member: GroupMember | None
    commit_rate: float | None
    in_rate: float | None
    stuck_s: float | None
    """For how long the console has seen no new commit."""
    open_producer: OpenProducer | None
    is_shared: bool
    """Of a share group, whose members have partitions together."""
    has_members: bool


@dataclass(frozen=True, slots=True)
class GroupFacts:
    group: GroupDescription
    partitions: tuple[PartitionFacts, ...]
    state_s: float | None
    """For how long the console has seen the group in its state."""

    @property
    def has_members(self) -> bool:
        return has_members(self.group)

    @property
    def lag(self) -> int | None:
        lags = [each.lag for each in self.partitions if each.lag is not None]
        return sum(lags) if lags else None

    @property
    def lag_seconds(self) -> float | None:
        if self.lag == 0:
            return 0.0
        ages = [each.lag_seconds for each in self.partitions if each.lag and each.lag_seconds is not None]
        return max(ages) if ages else None


async def gather_facts(view: ClusterView, group: GroupDescription, now_s: float) -> GroupFacts:
    """Asked for now, beside what the samples tell."""
    sampler = view.sampler
    lags = (await view.admin.group_lag(group.group_id))[:PARTITIONS_MAX]
    partitions = [each.partition for each in lags]
    stable = await view.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), read_committed=True)
    lsos = {each: found.offset for each, found in stable.items() if not isinstance(found, ClientError)}
    held = [
        each.partition
        for each in lags
        if each.committed is not None
        and each.log_end_offset is not None
        and (lso := lsos.get(each.partition)) is not None
        and lso < each.log_end_offset
        and each.committed <= lso
    ]
    open_producers = await _open_producers(view, held[:_OPEN_MAX], lsos)
    missing = [
        (each.partition, each.committed)
        for each in lags
        if each.committed is not None
        and each.lag
        and sampler.times.seconds(each.partition, each.committed, now_s) is None
    ]
    await sampler.times.fetch_wanted(missing[:_OPEN_MAX])
    members = {each.member_id: each for each in group.members}
    sampled = sampler.groups.groups.get(group.group_id)
    facts = []
    for each in lags:
        commit = None if sampled is None else sampled.commits.get(each.partition)
        is_known = each.committed is not None
        facts.append(
            PartitionFacts(
                each.partition,
                each.committed,
                each.log_end_offset,
                lsos.get(each.partition),
                each.lag,
                sampler.times.seconds(each.partition, each.committed or 0, now_s) if is_known else None,
                None if each.member_id is None else members.get(each.member_id),
                sampler.groups.rate(group.group_id, each.partition, now_s),
                sampler.partitions.rate(each.partition, now_s),
                None if commit is None or commit.offset != each.committed else now_s - commit.moved_s,
                open_producers.get(each.partition),
                group.type is GroupType.SHARE,
                has_members(group),
            )
        )
    return GroupFacts(group, tuple(facts), None if sampled is None else now_s - sampled.state_since_s)


def has_members(group: GroupDescription) -> bool:
    """Also in the moment in which those that were listed are not described yet."""
    return bool(group.members) or str(group.state) not in {GroupState.EMPTY, GroupState.DEAD}


async def _open_producers(
    view: ClusterView, partitions: Iterable[TopicPartition], lsos: dict[TopicPartition, int | None]
) -> dict[TopicPartition, OpenProducer]:
    """Who holds the last stable offset of each."""
    wanted = list(partitions)
    if not wanted:
        return {}
    described = await view.admin.describe_producers(wanted)
    found: dict[TopicPartition, ProducerState] = {}
    for partition, states in described.items():
        if isinstance(states, ClientError):
            continue
        holding = [each for each in states if each.transaction_start_offset == lsos.get(partition)]
        if holding:
            found[partition] = holding[0]
    ids = await _transactional_ids(view, {each.producer_id for each in found.values()})
    return {partition: OpenProducer(state, ids.get(state.producer_id)) for partition, state in found.items()}


async def _transactional_ids(view: ClusterView, producer_ids: set[int]) -> dict[int, str]:
    if not producer_ids:
        return {}
    try:
        async with asyncio.timeout(5):
            listed = await view.admin.list_transactions(producer_ids=sorted(producer_ids))
    except (ClientError, TimeoutError):
        return {}
    return {each.producer_id: each.transactional_id for each in listed}
