"""Random histories of a consumer group: members come, go, fall silent and lose answers, topics grow and go, nodes restart.

Whatever happens: no partition has two owners, epochs do not go back, and the log alone says all, compacted too. Once it is quiet,
everyone has what it should have, and together they have everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.unit.coordination.consumer.consumer_harness import GROUP, FakeTopics, Owned, Shard, assigned, topics_of
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.member import STATIC_LEAVING_EPOCH, MemberState
from tidelog.coordination.group_settings import ConsumerGroupLimits, GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId
from tidelog.wire.internal_records import CoordinatorRecord, encode_coordinator_key

NAMES = ("a", "b", "c")
REGEXES = ("a|b", "[bc]", ".*")
ACTIONS = ("join", "beat", "beat", "beat", "lose", "leave", "away", "vanish", "time", "topics", "restart", "refuse")


@dataclass
class Client:
    """A consumer as it sees itself."""

    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    owned: Owned = field(default_factory=dict)
    is_unsure: bool = False
    """An answer was lost: the next heartbeat says everything again, and is told everything."""
    subscription: dict[str, Any] = field(default_factory=dict)


class History:
    def __init__(self, seed: int, interval_ms: int) -> None:
        self.random = Random(seed)
        limits = ConsumerGroupLimits(assignment_interval_ms=interval_ms)
        group_settings = GroupSettings(consumer_limits_of=lambda _group: limits)
        self.shard = Shard(topics_of(a=4, b=2), group_settings)
        self.clients: dict[str, Client] = {}
        self.away: list[Client] = []
        self.made = 0
        self.is_quiet = False
        self.epochs: tuple[int, int] = (0, 0)

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.shard.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    def step(self) -> None:
        action = self.random.choice(ACTIONS)
        if action == "join" and len(self.clients) < 6:
            self.join()
        elif action == "time":
            self.shard.pass_ms(self.random.choice((100, 1_000, 11_000, 40_000, 61_000)))
        elif action == "topics":
            self.change_topics()
        elif action == "restart":
            log = self.shard.log
            self.shard = self.shard.reloaded(compacted(log) if self.random.random() < 0.5 else log)
        elif action == "refuse":
            self.shard.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
        elif self.clients:
            client = self.clients[self.random.choice(sorted(self.clients))]
            if action in {"beat", "lose"}:
                self.beat(client, is_lost=action == "lose")
            elif action == "leave":
                self.leave(client, -1)
            elif action == "away" and client.instance_id is not None:
                self.leave(client, STATIC_LEAVING_EPOCH)
                self.away.append(client)
            elif action == "vanish":
                del self.clients[client.member_id]

    def join(self) -> None:
        self.made += 1
        client = Client(f"m{self.made}")
        choice = self.random.random()
        if self.away and choice < 0.3:
            client.instance_id = self.away.pop().instance_id
        elif choice < 0.5:
            client.instance_id = f"i{self.made}"
        client.subscription = {"subscribed_topic_names": sorted(self.random.sample(NAMES, self.random.randint(1, 3)))}
        if self.random.random() < 0.3:
            client.subscription = {"subscribed_topic_regex": self.random.choice(REGEXES)}
        client.subscription["server_assignor"] = self.random.choice((None, "uniform", "range"))
        self.clients[client.member_id] = client
        self.beat(client)

    def beat(self, client: Client, *, is_lost: bool = False) -> None:
        if client.epoch == 0 or client.is_unsure:
            fields = {"rebalance_timeout_ms": 30_000, "instance_id": client.instance_id, **client.subscription}
            decision = self.shard.decide(client.member_id, client.epoch, client.owned, **fields)
        else:
            says = client.owned if self.is_quiet or self.random.random() < 0.7 else None
            decision = self.shard.decide(client.member_id, client.epoch, says, instance_id=client.instance_id)
        answer = self.shard.apply(decision)
        client.is_unsure = is_lost or isinstance(answer, ErrorCode)
        if client.is_unsure:
            return
        if answer.error_code in {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID}:
            del self.clients[client.member_id]
        elif answer.error_code:
            assert answer.error_code in {
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            }
            client.epoch, client.owned = 0, {}
        else:
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                client.owned = assigned(answer) or {}

    def leave(self, client: Client, epoch: int) -> None:
        self.shard.apply(self.shard.decide(client.member_id, epoch, instance_id=client.instance_id))
        del self.clients[client.member_id]

    def change_topics(self) -> None:
        name = self.random.choice(NAMES)
        counts = {str(topic.name): len(topic.partitions) for topic in self.shard.topics.topics.values()}
        if name in counts and self.random.random() < 0.4:
            del counts[name]
        else:
            counts[name] = counts.get(name, 0) + self.random.randint(1, 3)
        self.shard.change_topics(topics_of(**counts), name)

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[tuple[TopicId, int], str] = {}
        for member_id, member in group.members.items():
            for owned in (member.assigned, member.pending_revocation):
                for topic, partitions in owned.items():
                    for partition in partitions:
                        assert owners.setdefault((topic, partition), member_id) == member_id
                        assert group.owner_of(topic, partition) == member_id
            assert member.member_epoch <= group.epoch
            assert ("session", GROUP, member_id) in self.shard.deadlines
            is_away = member.member_epoch == STATIC_LEAVING_EPOCH
            if member.state is MemberState.UNREVOKED_PARTITIONS and not is_away:
                assert ("rebalance", GROUP, member_id) in self.shard.deadlines
        assert group.assignment_epoch <= group.epoch
        epochs = (group.epoch, group.assignment_epoch)
        assert epochs >= self.epochs
        self.epochs = epochs

    def settle(self) -> None:
        """No more accidents. Whoever is silent falls out, the others get where they should be."""
        self.shard.refuses = None
        self.is_quiet = True
        for _ in range(12):
            self.shard.pass_ms(20_000)
            for client in list(self.clients.values()):
                self.beat(client)
                self.check()


def state_of(group: ConsumerGroup | None) -> object:
    """All that a group is, apart from what it forgets in a restart."""
    if group is None:
        return None
    return (
        (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms),
        dict(group.members),
        {member_id: target for member_id, target in group.targets.items() if target},
        dict(group.static_members),
        dict(group.resolved_regexes),
        dict(group.regex_subscribers),
    )


def compacted(log: list[CoordinatorRecord]) -> list[CoordinatorRecord]:
    """The last record of each key, at its place."""
    last = {encode_coordinator_key(record.key): position for position, record in enumerate(log)}
    return [log[position] for position in sorted(last.values())]


def expected(history: History, topics: FakeTopics) -> set[tuple[TopicId, int]]:
    group = history.group
    assert group is not None
    return {
        (topic.topic_id, int(partition))
        for topic in topics.topics.values()
        if group.is_subscribed_to(topic.name)
        for partition in topic.partitions
    }


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 60), interval_ms=st.sampled_from((0, 1_000)))
def test_random_histories(seed: int, steps: int, interval_ms: int) -> None:
    history = History(seed, interval_ms)
    for _ in range(steps):
        history.step()
        history.check()
    for log in (history.shard.log, compacted(history.shard.log)):
        group = history.shard.reloaded(log).groups.get(GROUP)
        assert state_of(group if isinstance(group, ConsumerGroup) else None) == state_of(history.group)
    history.settle()
    group = history.group
    if group is None or group.is_empty:
        return
    assert sorted(group.members) == sorted(history.clients)
    assert group.state_name == "Stable"
    owned = set()
    for member_id, member in group.members.items():
        has = {topic: tuple(epochs) for topic, epochs in member.assigned.items()}
        assert has == group.targets[member_id]
        owned |= {(topic, partition) for topic, partitions in has.items() for partition in partitions}
    assert owned == expected(history, history.shard.topics)
