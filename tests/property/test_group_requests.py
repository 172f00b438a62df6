"""Heartbeats and commits through a dispatcher against the same handlers called by hand, with messages that generated functions
read and write: the same answers, byte for byte, the same files, deadlines and offsets, whatever members send."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import cast

import pytest
from hypothesis import given, strategies as st

from tests.support.answered_connection import AnsweredConnection
from tests.support.by_hand import answer_by_hand
from tests.support.data_node import NODE, OTHER, Denying
from tests.support.examples import examples
from tests.unit.broker.group_node import GroupNode
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.internal_topics import CONSUMER_OFFSETS
from tidelog.net.connection import Connection
from tidelog.wire.frames import read_response, request_frame
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.wire.schema import Request, Response

load_handlers()

TOPICS = {"orders": 2, "p": 1, "hidden": 1}
CLIENT = "a client"
CLASSIC, STATIC, CONSUMERS, SIMPLE = "classic", "static", "consumers", "simple"
GROUPS = (CLASSIC, STATIC, CONSUMERS, SIMPLE, "unknown", "secret", "")
LONG = "m" * 5000


class Served:
    """A node with a group of each kind, behind a dispatcher or behind a few lines that do what one does."""

    def __init__(self, *, by_hand: bool = False, is_replicated: bool = False) -> None:
        self._by_hand = by_hand
        denying = Denying((AclOperation.READ, "hidden"), (AclOperation.READ, "secret"))
        self.node = GroupNode(authorizer=denying, coordinates=not is_replicated)
        if is_replicated:
            self.node.create_topic(CONSUMER_OFFSETS, replicas=(NODE, OTHER))
        for name, partitions in TOPICS.items():
            self.node.create_topic(name, partitions=partitions)
        self.connection = AnsweredConnection()
        self.dispatcher = Dispatcher(cast("Node", self.node), self.node.authorizer, "broker")
        if is_replicated:
            self.read(frame_of(commit(SIMPLE, -1, "", [("orders", [0])]), 9))
            return
        # Of each group with members: its member, and that one's generation or epoch.
        self.members = {group_id: self._join(group_id) for group_id in (CLASSIC, STATIC)}
        self.members[CONSUMERS] = ("a-member", self._settle())
        self.ask(commit(SIMPLE, -1, "", [("orders", [0])]), 9)

    def read(self, frame: bytes) -> None:
        if self._by_hand:
            answer_by_hand(frame, self.connection, self.node, self.node.authorizer)
            return
        connection = cast("Connection", self.connection)
        self.dispatcher.frame(connection, memoryview(bytearray(frame)))
        self.dispatcher.frames_done(connection)

    def ask(self, request: Request, version: int) -> Response:
        self.read(frame_of(request, version))
        # The joining of a group ends when nobody else has come for no time at all.
        self.node.timers.advance(0)
        answer = self.connection.answers[-1]
        assert answer is not None
        return read_response(answer, request.api_key, version)[1]

    def _join(self, group_id: str) -> tuple[str, int]:
        """A stable classic group of one member."""
        instance_id = "an-instance" if group_id == STATIC else None
        joining = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = cast("JoinGroupResponse", self.ask(joining, 9))
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joining.member_id = joined.member_id
            joined = cast("JoinGroupResponse", self.ask(joining, 9))
        assert joined.error_code == 0
        member_id = joined.member_id
        synced = self.ask(
            SyncGroupRequest(
                group_id=group_id,
                generation_id=joined.generation_id,
                member_id=member_id,
                group_instance_id=instance_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"")],
            ),
            5,
        )
        assert cast("SyncGroupResponse", synced).error_code == 0
        return member_id, joined.generation_id

    def _settle(self) -> int:
        """A consumer group of one member that has all it should have. Its epoch."""
        answer = self.ask(consumer_heartbeat("a-member", 0, rebalance_timeout_ms=10_000, names=["orders"], owned=[]), 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        assert answer.assignment is not None
        owned = answer.assignment.topic_partitions
        answer = self.ask(consumer_heartbeat("a-member", answer.member_epoch, owned=owned), 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer.member_epoch

    def committed(self) -> list[Response]:
        """What each group has committed."""
        groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in (CLASSIC, STATIC, CONSUMERS, SIMPLE)]
        return [self.ask(OffsetFetchRequest(groups=[each], require_stable=False), 8) for each in groups]

    def deadlines(self) -> list[dict[object, int]]:
        return [
            {key: each.at_ms for key, each in shard.deadlines._by_key.items()} for shard in self.node.groups.shards()
        ]

    def counted(self) -> dict[tuple[int, int], tuple[int, int, int, dict[int, int]]]:
        return {
            key: (each.count, each.request_bytes, each.response_bytes, dict(each.errors))
            for key, each in self.node.metrics.requests.items()
        }


def frame_of(request: Request, version: int, correlation_id: int = 0) -> bytes:
    return request_frame(request, version, correlation_id, CLIENT)[4:]


def commit(
    group_id: str, epoch: int, member_id: str, topics: Sequence[tuple[str, Sequence[int]]]
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=each, committed_offset=7, committed_metadata="")
                    for each in partitions
                ],
            )
            for name, partitions in topics
        ],
    )


def consumer_heartbeat(
    member_id: str,
    epoch: int,
    *,
    group_id: str = CONSUMERS,
    rebalance_timeout_ms: int = -1,
    names: list[str] | None = None,
    owned: list[TopicPartitions] | None = None,
    instance_id: str | None = None,
    rack_id: str | None = None,
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        rack_id=rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=names,
        topic_partitions=owned,
    )


def a_commit(random: Random, served: Served, *, is_odd: bool) -> tuple[Request, int]:
    group_id, member_id, epoch, instance_id = _who(random, served, is_odd=is_odd)
    # Members of the new protocol commit with an epoch.
    version = random.choice([2, 5, 6, 7, 10] if is_odd else [9, 10] if group_id == CONSUMERS else [6, 7, 8, 9, 10])
    topics = []
    for name in random.sample(list(TOPICS) if is_odd else ["orders", "p"], k=random.choice([1, 1, 2])):
        indexes = random.choice([[0], [0, 1], [1, 0], [5], [0, 0]]) if is_odd else random.choice([[0], [0]])
        topics.append((name, indexes))
    if is_odd and random.random() < 0.2:
        topics += topics
    request = commit(group_id, epoch, member_id, topics)
    if version >= 7:
        request.group_instance_id = instance_id
    if version < 5 and is_odd:
        request.retention_time_ms = random.choice([-1, 1000])
    for topic in request.topics:
        known = served.node.image.topic(TopicName(topic.name))
        assert known is not None
        topic.topic_id = bytes(16) if is_odd and random.random() < 0.2 else known.topic_id
        for each in topic.partitions:
            each.committed_offset = random.choice([0, 1, 2**40, -1])
            each.committed_metadata = random.choice(
                ["", "told", None, "ü", LONG] if is_odd else ["", "told", "x" * 130]
            )
            each.committed_leader_epoch = random.choice([-1, 0, 3]) if version >= 6 else -1
    return request, version


def _who(random: Random, served: Served, *, is_odd: bool) -> tuple[str, str, int, str | None]:
    """Group, member, generation or epoch, and instance."""
    group_id = random.choice(GROUPS if is_odd else (CLASSIC, STATIC, CONSUMERS, SIMPLE))
    if group_id == SIMPLE:
        return (
            group_id,
            random.choice(["", "somebody"]) if is_odd else "",
            random.choice([-1, 1]) if is_odd else -1,
            None,
        )
    member_id, epoch = served.members.get(group_id, ("", 1))
    instance_id = "an-instance" if group_id == STATIC else None
    if is_odd:
        member_id = random.choice([member_id, "nobody", ""])
        epoch = random.choice([epoch, epoch + 1, epoch - 1, -1])
        instance_id = random.choice([instance_id, "an-instance", "another"])
    return group_id, member_id, epoch, instance_id


def a_heartbeat(random: Random, served: Served, *, is_odd: bool) -> tuple[Request, int]:
    version = random.randrange(5)
    group_id, member_id, epoch, instance_id = _who(random, served, is_odd=is_odd)
    if not is_odd:
        group_id = random.choice([CLASSIC, STATIC])
        member_id, epoch = served.members[group_id]
        instance_id = "an-instance" if group_id == STATIC else None
    request = HeartbeatRequest(group_id=group_id, generation_id=epoch, member_id=member_id)
    if version >= 3:
        request.group_instance_id = instance_id
    return request, version


def a_consumer_heartbeat(random: Random, served: Served, *, is_odd: bool) -> tuple[Request, int]:
    version = random.randrange(2)
    if not is_odd:
        return consumer_heartbeat(*served.members[CONSUMERS]), version
    group_id, member_id, epoch, instance_id = _who(random, served, is_odd=True)
    return (
        consumer_heartbeat(
            member_id,
            epoch,
            group_id=group_id,
            instance_id=instance_id,
            rack_id=random.choice([None, "r"]),
            rebalance_timeout_ms=random.choice([-1, 5000]),
            names=random.choice([None, ["orders"], []]),
            owned=random.choice([None, []]),
        ),
        version,
    )


def a_frame(random: Random, served: Served, correlation_id: int) -> bytes:
    """A request that is plain in two cases of three, and may be anything in the third."""
    is_odd = random.random() < 0.3
    make = random.choice([a_commit, a_heartbeat, a_consumer_heartbeat])
    request, version = make(random, served, is_odd=is_odd)
    client_id = random.choice([None, CLIENT, "ü"]) if is_odd else CLIENT
    frame = bytearray(request_frame(request, version, correlation_id, client_id)[4:])
    if is_odd and random.random() < 0.5:
        for _ in range(random.choice([1, 2])):
            frame[random.randrange(8, len(frame))] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)])
    if is_odd and random.random() < 0.1:
        del frame[random.randrange(8, len(frame)) :]
    if is_odd and random.random() < 0.1:
        frame += b"\0"
    return bytes(frame)


@examples(40)
@given(seed=st.integers(0, 2**32))
def test_a_dispatcher_answers_writes_and_knows_what_the_handlers_do(seed: int) -> None:
    random = Random(seed)
    served, by_hand = Served(), Served(by_hand=True)
    asked: Counter[tuple[int, int]] = Counter()
    before = served.counted()
    for correlation_id in range(random.randrange(1, 30)):
        frame = a_frame(random, served, correlation_id)
        for each in (served, by_hand):
            each.read(frame)
        assert served.connection.answers == by_hand.connection.answers
        assert served.connection.is_closed == by_hand.connection.is_closed
        if served.connection.is_closed:
            break
        asked[frame[1], frame[3]] += 1
        for each in (served, by_hand):
            each.node.timers.advance(3)

    counted = served.counted()
    for key, count in asked.items():
        assert counted[key][0] - before.get(key, (0,))[0] == count
    assert served.node.files() == by_hand.node.files()
    assert served.deadlines() == by_hand.deadlines()
    assert served.committed() == by_hand.committed()


def followed(served: Served) -> None:
    served.node.partition(CONSUMER_OFFSETS).read_as_follower(OTHER, 4, 1000, broker_epoch=1, log_start_offset=0)


def led_elsewhere(served: Served) -> None:
    served.node.change(CONSUMER_OFFSETS, leader=OTHER)


def given_up(served: Served) -> None:
    served.node.timers.advance(60_000)


@pytest.mark.parametrize("ending", [followed, led_elsewhere, given_up])
@pytest.mark.parametrize("version", [6, 9, 10])
def test_a_commit_that_waits_for_another_replica_is_answered_as_by_the_handler(
    ending: Callable[[Served], None], version: int
) -> None:
    both = Served(is_replicated=True), Served(is_replicated=True, by_hand=True)
    request = commit(SIMPLE, -1, "", [("orders", [1, 0]), ("p", [0])])
    for topic in request.topics:
        known = both[0].node.image.topic(TopicName(topic.name))
        assert known is not None
        topic.topic_id = known.topic_id

    for served in both:
        served.read(frame_of(request, version))
        assert served.connection.answers == [None, None]
        ending(served)
        assert None not in served.connection.answers

    assert both[0].connection.answers == both[1].connection.answers
    assert both[0].node.files() == both[1].node.files()


def test_a_commit_that_the_disk_refuses_is_answered() -> None:
    served = Served()
    served.node.disk.fail("pwritev", "*.log", errno.EIO)

    answer = served.ask(commit(SIMPLE, -1, "", [("orders", [0])]), 9)

    assert cast("OffsetCommitResponse", answer).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
