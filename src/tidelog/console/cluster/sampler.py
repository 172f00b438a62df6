"""Samples of a cluster, taken in the background as long as somebody may look: what there is, how far partitions and groups are.

    topics and leaders, ends of partitions, groups and their commits      every round
    starts of partitions, log directories                                 every `SLOW_S`

The next round begins when as long has passed as the last one took, five times as long as this process computed for it, and at
least `ROUND_S`. So a cluster of thousands of topics is asked less often, and the console takes a sixth of a core at most. What a
user may not see is left out, and said in `problems`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from tidelog.client.admin import (
    ClusterDescription,
    ConfigResource,
    LogDirDescription,
    OffsetSpec,
    QuorumDescription,
    ResourceKind,
    TopicDescription,
)
from tidelog.client.admin.async_admin import AsyncAdmin
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import AuthenticationError, ClientError, NotReachedError, UnsupportedError
from tidelog.console.cluster.bulk_requests import commits_of, fetch_bytes, groups_of, members_of, offsets_of
from tidelog.console.cluster.group_samples import EMPTY, GroupSamples
from tidelog.console.cluster.lag_time import LagTimes
from tidelog.console.cluster.partition_samples import PartitionSamples
from tidelog.console.cluster.sample_ring import SampleRing
from tidelog.console.serving.api_error import ApiError, api_error_of
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import each_batch
from tidelog.wire.records import decode_batch

log = logging.getLogger(__name__)

ROUND_S = 2.0
SLOW_S = 15.0
# Nobody has asked for so long: only what the history needs is asked for, this often.
UNWATCHED_S = 120.0
UNWATCHED_ROUND_S = 10.0
_COST_FACTOR = 5
_ROUND_MAX_S = 60.0
_NOT_LET_IN = 401

# The series of a cluster; the plots show an hour.
SERIES_SAMPLES = 1_800
# Groups whose offsets have to be asked for one at a time: share groups, and all groups of old nodes.
SINGLE_GROUPS_MAX = 200
# A request that asks every node for one key of so many topics.
TOPICS_PER_REQUEST = 1_000
_MIN_ISR = "min.insync.replicas"
_HTTP_ADDRESS = "tidelog.http.address"
# The batch at a committed offset; a larger one comes whole.
_STAMP_BYTES = 4_096


class Sampler:
    """The samples of one user's view of one cluster. `run` takes them until it is cancelled."""

    def __init__(self, admin: AsyncAdmin, http: Mapping[int, str], now_s: Callable[[], float] = time.time) -> None:
        self._admin = admin
        self._now_s = now_s
        self.partitions = PartitionSamples()
        self.times = LagTimes(self.partitions, self.timestamp_of)
        self.groups = GroupSamples(self.partitions, self.times)
        self.topics: dict[str, TopicDescription] = {}
        self.cluster: ClusterDescription | None = None
        self.quorum: QuorumDescription | None = None
        self.log_dirs: dict[int, dict[str, LogDirDescription]] = {}
        self.topic_bytes: dict[str, int] = {}
        self._given_http = dict(http)
        self.http = dict(http)
        """Where nodes tell what happens in them, of those that do."""
        self.is_tidelog = False
        """Whether a node has said so."""
        self.min_isr: dict[str, int] = {}
        self.series = {name: SampleRing(SERIES_SAMPLES) for name in SERIES}
        self.problems: dict[str, ApiError] = {}
        self.round = 0
        self.round_cost_s = 0.0
        self._slow_at_s = 0.0
        self._asked_s = now_s()
        self._sooner = asyncio.Event()
        self._news = asyncio.Condition()

    def asked(self) -> None:
        """Somebody looks."""
        if self._now_s() - self._asked_s > UNWATCHED_S:
            self._sooner.set()
        self._asked_s = self._now_s()

    def sooner(self) -> None:
        """Something was changed: the next round begins now."""
        self._slow_at_s = 0.0
        self._sooner.set()

    async def next_round(self, after: int, timeout_s: float) -> int:
        """The number of the latest round, which is higher than `after` unless that takes too long."""
        try:
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait_for(lambda: self.round > after)
        except TimeoutError:
            pass
        return self.round

    async def run(self) -> None:
        while True:
            begun_s, computed_s = time.monotonic(), time.process_time()
            await self._take()
            self.round_cost_s = max(time.monotonic() - begun_s, _COST_FACTOR * (time.process_time() - computed_s))
            self.round += 1
            problem = self.problems.get("cluster")
            async with self._news:
                self._news.notify_all()
            watched = self._now_s() - self._asked_s <= UNWATCHED_S
            least_s = ROUND_S if watched else UNWATCHED_ROUND_S
            if problem is not None and problem.status == _NOT_LET_IN:
                # A password that is not good any more: asking again and again may lock the user out.
                least_s = _ROUND_MAX_S
            wait_s = min(_ROUND_MAX_S, max(least_s, self.round_cost_s))
            self._sooner.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._sooner.wait()
            except TimeoutError:
                pass

    async def _take(self) -> None:
        is_slow = time.monotonic() >= self._slow_at_s
        if is_slow:
            self._slow_at_s = time.monotonic() + max(SLOW_S, _COST_FACTOR * self.round_cost_s)
        if not await self._part("cluster", self._take_cluster):
            # Nobody is reached, and each further question would take its time to find that out.
            return
        await self._part("quorum", self._take_quorum)
        await self._part("topics", self._take_topics)
        await self._part("ends", self._take_ends)
        if is_slow:
            await self._part("starts", self._take_starts)
            await self._part("log_dirs", self._take_log_dirs)
            await self._part("min_isr", self._take_min_isr)
            await self._part("addresses", self._take_addresses)
        await self._part("groups", self._take_groups)
        await self._part("members", lambda: self._take_members(everywhere=is_slow))
        await self._part("lag_seconds", self.times.fetch_wanted)
        self._take_series()

    async def _part(self, name: str, take: Callable[[], Awaitable[None]]) -> bool:
        """False where nobody answers."""
        try:
            await take()
        except ClientError as error:
            self.problems[name] = api_error_of(error)
            return not isinstance(error, NotReachedError | AuthenticationError)
        self.problems.pop(name, None)
        return True

    async def _take_cluster(self) -> None:
        if "cluster" in self.problems or self.cluster is None:
            # Each of the bootstrap servers once: whoever waits is told at once what is wrong with them.
            await self._admin.connect()
        try:
            self.cluster = await self._admin.describe_cluster(include_fenced_brokers=True)
        except UnsupportedError:
            self.cluster = await self._admin.describe_cluster()

    async def _take_quorum(self) -> None:
        self.quorum = None
        self.quorum = await self._admin.describe_quorum()

    async def _take_topics(self) -> None:
        described = await self._admin.describe_topics()
        self.topics = {name: each for name, each in described.items() if isinstance(each, TopicDescription)}
        self.partitions.keep(
            TopicPartition(topic.name, each.index) for topic in self.topics.values() for each in topic.partitions
        )

    def by_leader(self, topics: list[str] | None = None) -> dict[int, list[TopicPartition]]:
        """The partitions of all topics, or of some, by who leads them."""
        found: dict[int, list[TopicPartition]] = {}
        for name in self.topics if topics is None else topics:
            topic = self.topics.get(name)
            for each in () if topic is None else topic.partitions:
                if each.leader is not None:
                    found.setdefault(each.leader, []).append(TopicPartition(name, each.index))
        return found

    def leader_of(self, partition: TopicPartition) -> int | None:
        topic = self.topics.get(partition.topic)
        for each in () if topic is None else topic.partitions:
            if each.index == partition.partition:
                return each.leader
        return None

    async def _take_ends(self) -> None:
        ends = await offsets_of(self._admin.requests, self.by_leader(), OffsetSpec.LATEST)
        self.partitions.add(self._now_s(), ends)

    async def _take_starts(self) -> None:
        starts = await offsets_of(self._admin.requests, self.by_leader(), OffsetSpec.EARLIEST)
        self.partitions.starts = starts

    async def _take_log_dirs(self) -> None:
        self.log_dirs = {}
        described = await self._admin.describe_log_dirs()
        problem: ClientError | None = None
        for node_id, each in described.items():
            if isinstance(each, ClientError):
                problem = each
            else:
                self.log_dirs[node_id] = each
        self.topic_bytes = self._bytes_by_topic()
        if problem is not None and not self.log_dirs:
            raise problem

    async def _take_min_isr(self) -> None:
        names = list(self.topics)
        found: dict[str, int] = {}
        for start in range(0, len(names), TOPICS_PER_REQUEST):
            resources = [ConfigResource(ResourceKind.TOPIC, each) for each in names[start : start + TOPICS_PER_REQUEST]]
            described = await self._admin.describe_configs(resources, keys=[_MIN_ISR])
            for resource, entries in described.items():
                if not isinstance(entries, ClientError) and _MIN_ISR in entries:
                    value = entries[_MIN_ISR].value
                    if value is not None and value.isdigit():
                        found[resource.name] = int(value)
        self.min_isr = found

    async def _take_addresses(self) -> None:
        """Where nodes tell what happens in them: each says so in its configuration, unless the console was told."""
        brokers = () if self.cluster is None else self.cluster.brokers
        resources = [ConfigResource(ResourceKind.BROKER, str(each.node_id)) for each in brokers if not each.is_fenced]
        found: dict[int, str] = {}
        described = await self._admin.describe_configs(resources, keys=[_HTTP_ADDRESS])
        problem: ClientError | None = None
        for resource, entries in described.items():
            if isinstance(entries, ClientError):
                problem = entries
            elif _HTTP_ADDRESS in entries and entries[_HTTP_ADDRESS].value:
                found[int(resource.name)] = str(entries[_HTTP_ADDRESS].value).rstrip("/")
        # A node that is away for a moment is at the same place when it comes back, as often as not.
        self.http = {**self.http, **found, **self._given_http}
        self.is_tidelog = self.is_tidelog or bool(found)
        if problem is not None and not found:
            raise problem

    def _bytes_by_topic(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for dirs in self.log_dirs.values():
            for each in dirs.values():
                for partition, replica in each.replicas.items():
                    sums[partition.topic] = sums.get(partition.topic, 0) + replica.size_bytes
        return sums

    async def _take_groups(self) -> None:
        listed, is_complete = await groups_of(self._admin.requests)
        now_s = self._now_s()
        self.groups.list(listed, now_s, is_complete=is_complete)
        together: dict[int, list[str]] = {}
        single: list[str] = []
        for each in listed:
            if each.type == "share":
                single.append(each.group_id)
            else:
                together.setdefault(each.coordinator, []).append(each.group_id)
        try:
            for group_id, offsets in (await commits_of(self._admin.requests, together)).items():
                self.groups.committed(group_id, offsets, now_s)
        except UnsupportedError:
            single = [each for groups in together.values() for each in groups] + single
        shares = {each.group_id for each in listed if each.type == "share"}
        for group_id in single[:SINGLE_GROUPS_MAX]:
            self.groups.committed(group_id, await self._single(group_id, is_share=group_id in shares), now_s)

    async def _take_members(self, *, everywhere: bool) -> None:
        """Of groups that have changed their state; of all that have any from time to time."""
        wanted = [
            each.listed
            for each in self.groups.groups.values()
            if each.members is None or (everywhere and each.listed.state != EMPTY)
        ]
        for group_id, count in (await members_of(self._admin.requests, wanted)).items():
            group = self.groups.groups.get(group_id)
            if group is not None:
                group.members = count

    async def _single(self, group_id: str, *, is_share: bool) -> dict[TopicPartition, int]:
        try:
            if is_share:
                positions = await self._admin.list_share_group_offsets(group_id)
                return {partition: each.start_offset for partition, each in positions.items() if each.start_offset >= 0}
            return {
                partition: each.offset for partition, each in (await self._admin.list_group_offsets(group_id)).items()
            }
        except ClientError:
            return {}

    def _take_series(self) -> None:
        now_s = self._now_s()
        leaders = [TopicPartition(t.name, p.index) for t in self.topics.values() for p in t.partitions]
        rates = [rate for each in leaders if (rate := self.partitions.rate(each, now_s)) is not None]
        if rates:
            self.series["records_in"].add(now_s, max(0.0, sum(rates)))
        nodes = 0 if self.cluster is None else sum(not each.is_fenced for each in self.cluster.brokers)
        if len(self.log_dirs) == nodes > 0:
            # Of all nodes or of none: one that comes back is no growth.
            self.series["log_bytes"].add(now_s, sum(self.topic_bytes.values()))
            grown = self.series["log_bytes"].rate(now_s, 4 * SLOW_S)
            if grown is not None:
                self.series["bytes_in"].add(now_s, max(0.0, grown))
        self.series["under_replicated"].add(now_s, self.under_replicated())
        self.series["offline"].add(now_s, self.offline())
        lags = [each.lag for each in self.groups.groups.values() if each.lag is not None]
        self.series["lag"].add(now_s, sum(lags))
        ages = [each.lag_seconds for each in self.groups.groups.values() if each.lag_seconds is not None]
        if ages:
            self.series["lag_seconds"].add(now_s, max(ages))

    def under_replicated(self) -> int:
        return sum(len(p.in_sync) < len(p.replicas) for t in self.topics.values() for p in t.partitions)

    def offline(self) -> int:
        return sum(p.leader is None for t in self.topics.values() for p in t.partitions)

    def under_min_isr(self) -> int:
        """Partitions that take no write with acks=all."""
        return sum(len(p.in_sync) < self.min_isr.get(t.name, 1) for t in self.topics.values() for p in t.partitions)

    async def timestamp_of(self, partition: TopicPartition, offset: int) -> int | None:
        """The time of the first record at or after an offset, by one bounded fetch. None where there is none."""
        leader = self.leader_of(partition)
        if leader is None:
            return None
        fetched = await fetch_bytes(self._admin.requests, leader, partition, offset, bytes_max=_STAMP_BYTES)
        try:
            for position, header in each_batch(fetched.records):
                if header.is_control or header.last_offset < offset:
                    continue
                for record in decode_batch(fetched.records, header, position):
                    if record.offset >= offset:
                        return record.timestamp if record.timestamp >= 0 else None
        except CorruptBatchError:
            return None
        return None


SERIES = ("records_in", "bytes_in", "log_bytes", "under_replicated", "offline", "lag", "lag_seconds")
