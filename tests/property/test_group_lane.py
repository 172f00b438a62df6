"""The short way of heartbeats and commits against the ordinary one: the same answers, byte for byte, and the same files."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from random import Random
from typing import cast
from unittest import mock

import pytest
from hypothesis import given, strategies as st

from tests.support.answered_connection import AnsweredConnection
from tests.support.data_node import NODE, OTHER, Denying
from tests.support.examples import examples
from tests.support.kernel_twins import TWINS, twin_of
from tests.unit.broker.group_node import GroupNode
from tidelog.broker.groups import group_lane
from tidelog.broker.groups.group_lane import CONSUMER_HEARTBEAT_KEY, HEARTBEAT_KEY, OFFSET_COMMIT_KEY
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.node_view import Node
from tidelog.coordination import offset_records
from tidelog.kernel_choice import Twin
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
    """A node with a group of each kind behind a dispatcher, with or without the short way."""

    def __init__(self, *, has_lane: bool, is_replicated: bool = False) -> None:
        denying = Denying((AclOperation.READ, "hidden"), (AclOperation.READ, "secret"))
        self.node = GroupNode(authorizer=denying, coordinates=not is_replicated)
        if is_replicated:
            self.node.create_topic(CONSUMER_OFFSETS, replicas=(NODE, OTHER))
        for name, partitions in TOPICS.items():
            self.node.create_topic(name, partitions=partitions)
        self.connection = AnsweredConnection()
        self.dispatcher = Dispatcher(cast("Node", self.node), self.node.authorizer, "broker")
        if not has_lane:
            self.dispatcher._takers.clear()
        if is_replicated:
            self.read(frame_of(commit(SIMPLE, -1, "", [("orders", [0])]), 9))
            return
        # Of each group with members: its member, and that one's generation or epoch.
        self.members = {group_id: self._join(group_id) for group_id in (CLASSIC, STATIC)}
        self.members[CONSUMERS] = ("a-member", self._settle())
        self.ask(commit(SIMPLE, -1, "", [("orders", [0])]), 9)

    def read(self, frame: bytes) -> None:
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


@pytest.mark.parametrize("twin", TWINS)
@examples(30)
@given(seed=st.integers(0, 2**32))
def test_both_ways_answer_write_and_know_the_same(twin: Twin, seed: int) -> None:
    random = Random(seed)
    short, ordinary = Served(has_lane=True), Served(has_lane=False)
    kernel = twin_of("group_kernel", twin)
    with mock.patch.object(group_lane, "_kernel", kernel), mock.patch.object(offset_records, "_kernel", kernel):
        for correlation_id in range(random.randrange(1, 30)):
            frame = a_frame(random, short, correlation_id)
            for served in (short, ordinary):
                served.read(frame)
            assert short.connection.answers == ordinary.connection.answers
            assert short.connection.is_closed == ordinary.connection.is_closed
            if short.connection.is_closed:
                break
            for served in (short, ordinary):
                served.node.timers.advance(3)

    assert short.node.files() == ordinary.node.files()
    assert short.deadlines() == ordinary.deadlines()
    assert short.counted() == ordinary.counted()
    assert short.committed() == ordinary.committed()


@examples(40)
@given(seed=st.integers(0, 2**32))
def test_the_twins_read_the_same(seed: int) -> None:
    random = Random(seed)
    compiled, plain = (twin_of("group_kernel", twin) for twin in TWINS)
    served = Served(has_lane=False)
    for _ in range(10):
        frame = memoryview(bytearray(a_frame(random, served, 1)))
        for name in ("read_heartbeat", "read_consumer_heartbeat", "read_offset_commit"):
            assert getattr(compiled, name)(frame) == getattr(plain, name)(frame)


@pytest.mark.parametrize(
    ("make", "api_key"),
    [
        (a_commit, OFFSET_COMMIT_KEY),
        (a_heartbeat, HEARTBEAT_KEY),
        (a_consumer_heartbeat, CONSUMER_HEARTBEAT_KEY),
    ],
)
def test_plain_requests_go_the_short_way(make: Callable[..., tuple[Request, int]], api_key: int) -> None:
    """The comparison above would prove nothing if the lane took none of them."""
    random = Random(7)
    served = Served(has_lane=True)
    connection = cast("Connection", served.connection)
    take = served.dispatcher._takers[api_key][0]
    for number in range(50):
        request, version = make(random, served, is_odd=False)
        frame = memoryview(bytearray(frame_of(request, version, number)))
        assert take(connection, frame, 0), (request, version)


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
    short, ordinary = Served(has_lane=True, is_replicated=True), Served(has_lane=False, is_replicated=True)
    request = commit(SIMPLE, -1, "", [("orders", [1, 0]), ("p", [0])])
    for topic in request.topics:
        known = short.node.image.topic(TopicName(topic.name))
        assert known is not None
        topic.topic_id = known.topic_id
    taken = short.dispatcher._takers[OFFSET_COMMIT_KEY][0]

    assert taken(cast("Connection", short.connection), memoryview(bytearray(frame_of(request, version))), 0)
    ordinary.read(frame_of(request, version))

    assert short.connection.answers == ordinary.connection.answers == [None, None]
    ending(short)
    ending(ordinary)
    assert None not in short.connection.answers
    assert short.connection.answers == ordinary.connection.answers
    assert short.counted() == ordinary.counted()
    assert short.node.files() == ordinary.node.files()


def test_a_commit_that_the_disk_refuses_is_answered_by_the_handler() -> None:
    served = Served(has_lane=True)
    served.node.disk.fail("pwritev", "*.log", errno.EIO)

    answer = served.ask(commit(SIMPLE, -1, "", [("orders", [0])]), 9)

    assert cast("OffsetCommitResponse", answer).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
