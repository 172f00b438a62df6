"""A share group over three nodes on virtual time, whose leaders, coordinators and members die at any moment.

- no member is given a record that another has in hand under the same leader, within its lock
- what was accepted, and told so, is never given out again; what was rejected is not either
- every record is accepted or rejected by somebody, or was given out exactly as often as the group allows
- the start comes to the end: nothing is left that nobody has settled, and it passes nothing else
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from tests.support.simulated_node import Asker
from tidelog.broker.share.delivery import ACQUIRED, AVAILABLE, Delivery
from tidelog.broker.share.led_share_partition import LedSharePartition
from tidelog.broker.share.persister import ShareState
from tidelog.broker.share.share_partition import Change, SharePartition
from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName, uuid_to_text
from tidelog.net.errors import ConnectionLostError
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.messages import share_group_state as state
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

TOPIC, GROUP = "jobs", "workers"
RECORDS = 40
LOCK_S = 2.0
LIMIT = 3
VERSION = 2
ACCEPT, RELEASE, REJECT = 1, 2, 3
STEPS = 60
CONFIG = {
    "min.insync.replicas": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.share.record.lock.duration.ms": str(int(LOCK_S * 1000)),
    "group.share.delivery.count.limit": str(LIMIT),
}


class History:
    """What members have seen of each offset."""

    def __init__(self) -> None:
        self.settled: dict[int, str] = {}
        """By whom a record was accepted or rejected, and told so."""
        self.tried: set[int] = set()
        """What somebody has tried to accept or to reject, whatever came of it."""
        self.deliveries: dict[int, int] = {}
        """The highest count that a record came with."""
        self.held: dict[int, tuple[str, float, int]] = {}
        """Who has a record in hand for certain, until when, and in which epoch of the leader."""

    def given(self, member: str, offset: int, count: int, *, asked_s: float, told_s: float, epoch: int) -> None:
        assert offset not in self.settled, f"{offset} came again after {self.settled[offset]} had settled it"
        assert 1 <= count <= LIMIT, f"{offset} came for the {count}th time"
        other, until_s, held_epoch = self.held.get(offset, ("", 0.0, -1))
        assert other in {"", member} or held_epoch != epoch or until_s <= told_s, (
            f"{offset} is {other}'s until {until_s}"
        )
        self.deliveries[offset] = max(count, self.deliveries.get(offset, 0))
        # The lock began after it was asked for.
        self.held[offset] = member, asked_s + LOCK_S, epoch

    def let_go(self, member: str, offsets: list[int] | None = None) -> None:
        """A member says something of these, or is gone."""
        for offset, (holder, _, _) in list(self.held.items()):
            if holder == member and (offsets is None or offset in offsets):
                del self.held[offset]


class Member:
    """One member with a connection to whoever leads."""

    def __init__(self, cluster: SimulatedCluster, name: str, topic_id: TopicId, history: History) -> None:
        self.cluster, self.name, self.topic_id, self.history = cluster, name, topic_id, history
        self.in_hand: list[tuple[int, int]] = []
        self._asker: Asker | None = None
        self._host = ""
        self._epoch = 0

    def die(self) -> None:
        """Without a word: its records are free as soon as that is noticed."""
        if self._asker is not None:
            self._asker.close()
        self._asker = None
        self._epoch = 0
        self.in_hand = []
        self.history.let_go(self.name)

    def _connection(self) -> Asker | None:
        leader = self.cluster.leader_of(TOPIC)
        if leader is None:
            return None
        if self._asker is None or leader.name != self._host:
            self.die()
            self._host = leader.name
            self._asker = Asker(self.cluster, leader.name)
        return self._asker

    async def fetch(self, records: int, *, is_exact: bool) -> None:
        asker = self._connection()
        if asker is None:
            return
        topics = [FetchTopic(topic_id=self.topic_id, partitions=[_fetched()])] if self._epoch == 0 else []
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self._epoch,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=records,
            batch_size=records,
            share_acquire_mode=int(is_exact),
            topics=topics,
            forgotten_topics_data=[],
        )
        asked_s, epoch = self.cluster.loop.time(), self._leader_epoch()
        try:
            answer = await asker.call(request, ShareFetchResponse, VERSION)
        except (ConnectionLostError, TimeoutError):
            self.die()
            return
        if answer.error_code != ErrorCode.NONE:
            self.die()
            return
        self._epoch += 1
        for topic in answer.responses:
            for data in topic.partitions:
                self._take(data, asked_s, epoch)

    def _take(self, data: PartitionData, asked_s: float, epoch: int) -> None:
        told_s = self.cluster.loop.time()
        for each in data.acquired_records:
            self.in_hand.append((each.first_offset, each.last_offset))
            for offset in range(each.first_offset, each.last_offset + 1):
                self.history.given(self.name, offset, each.delivery_count, asked_s=asked_s, told_s=told_s, epoch=epoch)

    def _leader_epoch(self) -> int:
        partition = self.cluster.partition(TOPIC)
        return -1 if partition is None else partition.leader_epoch

    async def say(self, first: int, last: int, types: list[int]) -> None:
        asker = self._asker
        if asker is None or self._epoch == 0:
            return
        offsets = list(range(first, last + 1))
        said = {offset: types[0] if len(types) == 1 else types[offset - first] for offset in offsets}
        self.history.tried |= {offset for offset, each in said.items() if each != RELEASE}
        self.history.let_go(self.name, offsets)
        batch = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self._epoch,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        try:
            answer = await asker.call(request, ShareAcknowledgeResponse, VERSION)
        except (ConnectionLostError, TimeoutError):
            self.die()
            return
        if answer.error_code != ErrorCode.NONE:
            self.die()
            return
        self._epoch += 1
        if answer.responses[0].partitions[0].error_code == ErrorCode.NONE:
            self.history.settled.update({offset: self.name for offset, each in said.items() if each != RELEASE})


def _fetched() -> FetchPartition:
    return FetchPartition(partition_index=0, acknowledgement_batches=[])


async def begin(cluster: SimulatedCluster) -> TopicId:
    """The topic with its records, and the state of the group on it."""
    await cluster.start()
    asker = Asker(cluster, "node-1")
    assert await asker.create(TOPIC, replicas=3) == ErrorCode.NONE
    await cluster.until(lambda: cluster.leader_of(TOPIC) is not None, "a leader")
    leader = cluster.leader_of(TOPIC)
    assert leader is not None
    assert leader.node is not None
    topic_id = leader.node.image.topic_ids[TopicName(TOPIC)]
    key = f"{GROUP}:{uuid_to_text(topic_id)}:0"
    while True:
        found = await asker.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), FindCoordinatorResponse, 6)
        coordinator = found.coordinators[0]
        if coordinator.error_code == ErrorCode.NONE:
            begun = Asker(cluster, f"node-{coordinator.node_id}")
            data = state.InitializeStateData(
                topic_id=topic_id, partitions=[state.PartitionData(partition=0, state_epoch=0, start_offset=0)]
            )
            answer = await begun.call(
                state.InitializeShareGroupStateRequest(group_id=GROUP, topics=[data]),
                state.InitializeShareGroupStateResponse,
                0,
            )
            begun.close()
            if answer.results[0].partitions[0].error_code == ErrorCode.NONE:
                break
        await asyncio.sleep(0.05)
    asker.close()
    producer = Asker(cluster, leader.name)
    for _ in range(RECORDS // 4):
        assert await producer.produce(TOPIC, b"v", more=[b"v"] * 3) == ErrorCode.NONE
    producer.close()
    return topic_id


async def disturb(cluster: SimulatedCluster, random: Random) -> None:
    """A node dies, most likely the leader, and comes back; by then another leads, or no other could."""
    machines = [machine for machine in cluster.machines.values() if machine.is_up]
    leader = cluster.leader_of(TOPIC)
    if len(machines) < 3 or leader is None:
        return
    victim = leader if random.random() < 0.6 else random.choice(machines)
    await victim.kill(lose_power=random.random() < 0.3)
    await asyncio.sleep(random.choice((0.1, 1.0, 3.0)))
    await victim.begin()
    await cluster.until(lambda: cluster.leader_of(TOPIC) is not None, "a leader")


async def live(cluster: SimulatedCluster, seed: int, history: History) -> None:
    random = Random(seed)
    topic_id = await begin(cluster)
    members = [Member(cluster, name, topic_id, history) for name in ("a", "b", "c")]
    for _ in range(STEPS):
        member = random.choice(members)
        action = random.random()
        if action < 0.45 or not member.in_hand:
            await member.fetch(random.randint(1, 8), is_exact=random.random() < 0.5)
        elif action < 0.85:
            first, last = member.in_hand.pop(random.randrange(len(member.in_hand)))
            count = 1 if random.random() < 0.5 else last - first + 1
            await member.say(first, last, [random.choice((ACCEPT, ACCEPT, RELEASE, REJECT)) for _ in range(count)])
        elif action < 0.92:
            member.die()
        else:
            await asyncio.sleep(random.choice((0.1, LOCK_S)))
        if random.random() < 0.05:
            await disturb(cluster, random)
    for member in members:
        member.die()
    await drain(cluster, Member(cluster, "z", topic_id, history))


async def drain(cluster: SimulatedCluster, member: Member) -> None:
    """Nothing fails any more, and a member accepts all that it is given."""

    def start() -> int:
        leader = cluster.leader_of(TOPIC)
        if leader is None or leader.node is None:
            return -1
        led = leader.node.share_leader.find(GROUP, member.topic_id, PartitionIndex(0))
        return -1 if led is None else led.machine.start_offset

    for _ in range(400):
        if start() == RECORDS:
            break
        await member.fetch(10, is_exact=False)
        for first, last in member.in_hand:
            await member.say(first, last, [ACCEPT])
        member.in_hand = []
        await asyncio.sleep(0.05)
    assert start() == RECORDS
    member.die()


@pytest.mark.parametrize("seed", range(8))
def test_every_record_is_settled_once_whoever_dies(seed: int) -> None:
    history = History()

    SimulatedCluster(seed, config=CONFIG).run(lambda cluster: live(cluster, seed, history))

    for offset in range(RECORDS):
        assert offset in history.tried or history.deliveries.get(offset) == LIMIT, (
            f"{offset} is settled, and nobody has said so: it came {history.deliveries.get(offset)} times"
        )


# --- known bugs: a simulation that does not find them proves nothing ----------------------------------------------------------


def answer_before_the_write(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement is answered before it is committed."""
    begin_change = LedSharePartition._begin

    def begin(led: LedSharePartition, change: Change) -> None:
        begin_change(led, change)

    patch.setattr(LedSharePartition, "_begin", begin)


def give_what_others_have(patch: pytest.MonkeyPatch) -> None:
    """A lock keeps nobody from a record."""
    patch.setattr(
        Delivery, "can_be_acquired", property(lambda each: each.state in {AVAILABLE, ACQUIRED} and not each.is_changing)
    )


def forget_what_was_written(patch: pytest.MonkeyPatch) -> None:
    """A new leader knows the start alone."""
    load = SharePartition.load

    def forgetful(partition: SharePartition, state: ShareState, start_offset: int) -> str | None:
        return load(partition, state._replace(batches=()), start_offset)

    patch.setattr(SharePartition, "load", forgetful)


def keep_what_could_not_be_written(patch: pytest.MonkeyPatch) -> None:
    """The start passes what is settled in memory alone, and whoever holds what lies behind is passed with it."""
    patch.setattr(Delivery, "is_terminal", property(lambda each: each.state is not AVAILABLE))


@pytest.mark.parametrize(
    "bug",
    [answer_before_the_write, give_what_others_have, forget_what_was_written, keep_what_could_not_be_written],
    ids=lambda bug: bug.__name__,
)
def test_a_known_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)

    found = None
    for seed in range(12):
        try:
            test_every_record_is_settled_once_whoever_dies(seed)
        except (AssertionError, BugError) as error:
            found = error
            break

    assert found is not None
