"""Streams groups of one shard without a broker: what they decide goes into a list and is replayed, and time passes when a test
says so. Members do what a client does: they keep what they were told to, and say what they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tests.support.share_states import START_MS, SomeTopics
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings, StreamsGroupLimits
from tidelog.coordination.streams.group import StreamsGroup
from tidelog.coordination.streams.groups import StreamsGroups
from tidelog.coordination.streams.heartbeats import HeartbeatResult
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import (
    CoordinatorLog,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from tidelog.wire.messages import streams_groups as wire
from tidelog.wire.messages.streams_groups import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

A = TypeVar("A")

GROUP = "counts"
CALLER = Caller("a client", "/10.0.0.1", 0)
WORDS = "words"


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().ljust(16, b"-")[:16])


def some_topics(**counts: int) -> SomeTopics:
    """Topics with so many partitions; `_` in a name stands for `-`."""
    return SomeTopics({topic_id(name.replace("_", "-")): count for name, count in counts.items()})


def info(name: str, partitions: int = 0, replicas: int = 0, **configs: str) -> wire.TopicInfo:
    return wire.TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[wire.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def part(
    subtopology_id: str = "0",
    sources: Sequence[str] = (WORDS,),
    *,
    changelogs: Sequence[wire.TopicInfo] = (),
    repartitioned: Sequence[wire.TopicInfo] = (),
    sinks: Sequence[str] = (),
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> wire.Subtopology:
    """`together` has for each copartition group the places of source topics and of repartition topics."""
    return wire.Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartitioned),
        copartition_groups=[
            wire.CopartitionGroup(
                source_topics=list(places), source_topic_regex=[], repartition_source_topics=list(others)
            )
            for places, others in together
        ],
    )


def topology(*parts: wire.Subtopology, epoch: int = 0) -> wire.Topology:
    return wire.Topology(epoch=epoch, subtopologies=list(parts) or [part()])


STATEFUL = part(changelogs=[info("counts-changelog")])

Claims = tuple[Mapping[str, Iterable[int]], Mapping[str, Iterable[int]]]


def task_ids(tasks: Mapping[str, Iterable[int]]) -> list[wire.TaskIds]:
    return [wire.TaskIds(subtopology_id=name, partitions=list(each)) for name, each in tasks.items()]


def tasks_in(named: Sequence[wire.TaskIds] | None) -> dict[str, tuple[int, ...]]:
    return {each.subtopology_id: tuple(each.partitions) for each in named or ()}


def join(
    member: str,
    of: wire.Topology | None = None,
    *,
    process: str | None = None,
    group: str = GROUP,
    endpoint: tuple[str, int] | None = None,
    tags: Mapping[str, str] | None = None,
) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=30_000,
        topology=of or topology(),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id=process or f"process of {member}",
        user_endpoint=None if endpoint is None else wire.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[wire.KeyValue(key=key, value=value) for key, value in (tags or {}).items()],
    )


class StreamsGroupDriver:
    """The groups, their log and a host that commits at once."""

    def __init__(
        self,
        settings: GroupSettings | None = None,
        log: list[tuple[bytes, bytes | None]] | None = None,
        topics: SomeTopics | None = None,
    ) -> None:
        self.limits = StreamsGroupLimits()
        self.settings = settings or GroupSettings(streams_limits_of=lambda _group: self.limits)
        self.topics = topics or some_topics(words=4)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = [] if log is None else log
        self.append_error = ErrorCode.NONE
        self.groups: dict[str, Group] = {}
        self.deadlines = Deadlines()
        self.streams = StreamsGroups(self.groups, self.deadlines, self.settings, self.topics)
        for row in self.log:
            self.streams.replay(decode_coordinator_record(CoordinatorLog.CONSUMER_OFFSETS, *row))
        self.streams.loaded(self.topics, self.now_ms)
        self.missing: list[str] = []
        self.missing_counts: list[int] = []
        """The internal topics that the last heartbeat found missing, and how many partitions they need."""

    def restarted(self) -> StreamsGroupDriver:
        """Another coordinator, from what the log says."""
        driver = StreamsGroupDriver(None, list(self.log), self.topics)
        driver.limits, driver.now_ms = self.limits, self.now_ms
        return driver

    @property
    def group(self) -> StreamsGroup:
        group = self.groups[GROUP]
        assert isinstance(group, StreamsGroup)
        return group

    @property
    def records(self) -> list[CoordinatorRecord]:
        """All that was written, as it is read back."""
        return [decode_coordinator_record(CoordinatorLog.CONSUMER_OFFSETS, *row) for row in self.log]

    def carry_out(self, decision: Decision[A]) -> A:
        error = self.append_error if decision.records else ErrorCode.NONE
        for each in decision.records if error is ErrorCode.NONE else ():
            value = None if each.value is None else encode_coordinator_value(each.value, each.version)
            row = encode_coordinator_key(each.key), value
            self.log.append(row)
            self.streams.replay(decode_coordinator_record(CoordinatorLog.CONSUMER_OFFSETS, *row))
        if decision.settled is not None:
            decision.settled(error)
        assert not isinstance(decision.answer, Pending)
        return decision.answer

    def advance(self, ms: int) -> None:
        """Let time pass, and everything happen that is due then."""
        self.now_ms += ms
        while (due := self.deadlines.take_due(self.now_ms)) is not None:
            decision = due[1](self.now_ms)
            if decision is not None:
                self.carry_out(decision)

    def change_topics(self, topics: SomeTopics) -> None:
        """The cluster has these topics from now on."""
        before, self.topics = self.topics, topics
        names = [TopicName(each.name) for each in (*before.topics.values(), *topics.topics.values())]
        self.streams.topics_changed(topics, names)

    # Members

    def send(self, request: StreamsGroupHeartbeatRequest, caller: Caller = CALLER) -> StreamsGroupHeartbeatResponse:
        result: HeartbeatResult = self.carry_out(self.streams.heartbeat(request, caller, self.now_ms))
        self.missing = [topic.name for topic in result.missing_topics]
        self.missing_counts = [topic.partitions for topic in result.missing_topics]
        return result.response

    def join(
        self, member: str = "m", of: wire.Topology | None = None, *, process: str | None = None
    ) -> StreamsGroupHeartbeatResponse:
        return self.send(join(member, of, process=process))

    def heartbeat(
        self,
        member: str = "m",
        epoch: int = 1,
        claims: Claims | None = None,
        *,
        endpoint_epoch: int = 0,
        shuts_down: bool = False,
    ) -> StreamsGroupHeartbeatResponse:
        return self.send(
            StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member,
                member_epoch=epoch,
                endpoint_information_epoch=endpoint_epoch,
                active_tasks=None if claims is None else task_ids(claims[0]),
                standby_tasks=None if claims is None else task_ids(claims[1]),
                warmup_tasks=None if claims is None else [],
                shutdown_application=shuts_down,
            )
        )

    def leave(self, member: str = "m") -> StreamsGroupHeartbeatResponse:
        return self.heartbeat(member, -1)


class Clients:
    """Members as clients keep them: what each has, and reports. Prompt ones do what they are told as soon as they hear."""

    def __init__(self, driver: StreamsGroupDriver, of: wire.Topology | None = None) -> None:
        self.driver = driver
        self.of = of or topology(STATEFUL)
        self.epochs: dict[str, int] = {}
        self.has: dict[str, Claims] = {}
        self.told: dict[str, Claims] = {}
        """What each should have, by what it heard last."""
        self.is_prompt = True

    def join(self, member: str, process: str | None = None) -> None:
        self.take_in(member, self.driver.join(member, self.of, process=process))

    def beat(self, member: str) -> StreamsGroupHeartbeatResponse:
        answer = self.driver.heartbeat(member, self.epochs[member], self.has[member])
        self.take_in(member, answer)
        return answer

    def take_in(self, member: str, answer: StreamsGroupHeartbeatResponse) -> None:
        """What a client makes of an answer: after an error it has nothing any more, and is nobody."""
        if answer.error_code:
            self.epochs.pop(member, None)
            self.has.pop(member, None)
            self.told.pop(member, None)
            return
        self.epochs[member] = answer.member_epoch
        self.has.setdefault(member, ({}, {}))
        if answer.active_tasks is not None:
            self.told[member] = (tasks_in(answer.active_tasks), tasks_in(answer.standby_tasks))
        if self.is_prompt:
            self.obey(member)

    def obey(self, member: str) -> None:
        """Have what it should have."""
        self.has[member] = self.told.get(member, ({}, {}))

    def settle(self) -> None:
        """Let everybody beat until nobody gets anything new."""
        for _ in range(50):
            before = dict(self.epochs), dict(self.has)
            self.driver.advance(3_000)
            for member in list(self.epochs):
                self.obey(member)
                self.beat(member)
            if before == (self.epochs, self.has) and len(set(self.epochs.values())) == 1:
                return
        raise AssertionError(f"the members do not come to rest: {self.epochs} {self.has}")
