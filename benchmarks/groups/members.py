"""Members of many groups, joined for real: by JoinGroup and SyncGroup, or by ConsumerGroupHeartbeat until all is settled.

A broker answers the requests of a connection one after the other, and a join may wait for the other members. So the members of
a group have connections of their own, and of the groups that share those one joins at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.broker.load_client import LoadError
from benchmarks.groups.exchanges import Asked, Connections, Exchange
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.internal_records import encode_version_prefixed
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
)
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.wire.messages.internal import consumer_protocol
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

# Long enough that nobody's session ends while the other broker has its turn.
SESSION_TIMEOUT_MS = 600_000
REBALANCE_TIMEOUT_MS = 60_000
# A member of a group that is never settled asks no more than this often.
SETTLING_ROUNDS_MAX = 100

_JOIN_VERSION = 9
_SYNC_VERSION = 5
_HEARTBEAT_VERSION = 4
_CONSUMER_HEARTBEAT_VERSION = 1
_COMMIT_VERSION = 9


@dataclass
class Member:
    """A member of a group. `epoch` is its generation, or its epoch in a group of the new protocol."""

    group_id: str
    member_id: str
    connection: int
    epoch: int = -1
    owned: list[TopicPartitions] = field(default_factory=list)
    is_settled: bool = False


def _groups_at_once(group_ids: Sequence[str], members: int, connections: int) -> Iterator[list[list[Member]]]:
    """Groups that can join at the same time, each with its members on connections of their own."""
    lanes = connections // members
    for first in range(0, len(group_ids), lanes):
        yield [
            [Member(group_id, "", lane * members + number) for number in range(members)]
            for lane, group_id in enumerate(group_ids[first : first + lanes])
        ]


def classic_members(
    connections: Connections, group_ids: Sequence[str], members: int, connection_count: int, topic: str
) -> list[Member]:
    """Groups of the classic protocol, stable, each member with one partition.

    The first member is there before the others: the joining of an empty group ends with whoever is there when its initial
    delay is over, which is none here, while that of a stable one ends with all who have been given an id.
    """
    joined: list[Member] = []
    for groups in _groups_at_once(group_ids, members, connection_count):
        first = [group[:1] for group in groups]
        _give_ids(connections, [member for group in first for member in group], topic)
        _rebalance(connections, first, topic)
        if members > 1:
            _give_ids(connections, [member for group in groups for member in group[1:]], topic)
            _rebalance(connections, groups, topic)
        joined += [member for group in groups for member in group]
    return joined


def _give_ids(connections: Connections, members: Sequence[Member], topic: str) -> None:
    for member, exchange in zip(members, connections.ask_all([_join(each, topic) for each in members]), strict=True):
        assert isinstance(exchange.response, JoinGroupResponse)
        _check(exchange.response.error_code, ErrorCode.MEMBER_ID_REQUIRED)
        member.member_id = exchange.response.member_id


def _rebalance(connections: Connections, groups: Sequence[Sequence[Member]], topic: str) -> None:
    """All of these join and sync; the leader of each group assigns."""
    members = [member for group in groups for member in group]
    leaders: set[str] = set()
    for member, exchange in zip(members, connections.ask_all([_join(each, topic) for each in members]), strict=True):
        assert isinstance(exchange.response, JoinGroupResponse)
        _check(exchange.response.error_code)
        member.epoch = exchange.response.generation_id
        leaders.add(exchange.response.leader)
    syncs = [_sync(member, group if member.member_id in leaders else (), topic) for group in groups for member in group]
    for exchange in connections.ask_all(syncs):
        assert isinstance(exchange.response, SyncGroupResponse)
        _check(exchange.response.error_code)


def _join(member: Member, topic: str) -> Asked:
    subscription = ConsumerProtocolSubscription(topics=[topic], user_data=None, owned_partitions=[])
    request = JoinGroupRequest(
        group_id=member.group_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        member_id=member.member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=encode_version_prefixed(subscription, 1))],
    )
    return Asked(member.connection, request, _JOIN_VERSION)


def _sync(member: Member, assigned_to: Sequence[Member], topic: str) -> Asked:
    assignments = []
    for number, each in enumerate(assigned_to):
        partitions = [consumer_protocol.TopicPartition(topic=topic, partitions=[number])]
        assignment = ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=None)
        assignments.append(
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=encode_version_prefixed(assignment, 1))
        )
    request = SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.epoch,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    return Asked(member.connection, request, _SYNC_VERSION)


def consumer_members(
    connections: Connections, group_ids: Sequence[str], members: int, connection_count: int, topic: str
) -> list[Member]:
    """Groups of the consumer protocol in which everybody has what it should have."""
    groups = [group for groups in _groups_at_once(group_ids, members, connection_count) for group in groups]
    everybody = [member for group in groups for member in group]
    for member in everybody:
        member.member_id = str(uuid.uuid4())
        member.epoch = 0
    asked = [_consumer_heartbeat(member, topic, is_first=True) for member in everybody]
    for _ in range(SETTLING_ROUNDS_MAX):
        for member, exchange in zip(everybody, connections.ask_all(asked), strict=True):
            _take_in(member, exchange)
        if all(_is_settled(group) for group in groups):
            return everybody
        asked = [_consumer_heartbeat(member, topic) for member in everybody]
    raise LoadError(f"groups are not settled after {SETTLING_ROUNDS_MAX} rounds of heartbeats")


def _consumer_heartbeat(member: Member, topic: str, *, is_first: bool = False) -> Asked:
    has_news = is_first or not member.is_settled
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        member_epoch=member.epoch,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_first else -1,
        subscribed_topic_names=[topic] if is_first else None,
        topic_partitions=member.owned if has_news else None,
    )
    return Asked(member.connection, request, _CONSUMER_HEARTBEAT_VERSION)


def _take_in(member: Member, exchange: Exchange) -> None:
    response = exchange.response
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    _check(response.error_code)
    member.is_settled = response.assignment is None and response.member_epoch == member.epoch
    member.epoch = response.member_epoch
    if response.assignment is not None:
        member.owned = response.assignment.topic_partitions


def _is_settled(group: Sequence[Member]) -> bool:
    """Whether all are in one epoch, heard nothing new, and each has a partition."""
    return all(each.is_settled and each.epoch == group[0].epoch and each.owned for each in group)


def heartbeat(member: Member) -> Asked:
    """A classic member's sign of life."""
    request = HeartbeatRequest(group_id=member.group_id, generation_id=member.epoch, member_id=member.member_id)
    return Asked(member.connection, request, _HEARTBEAT_VERSION)


def consumer_heartbeat(member: Member) -> Asked:
    """That of a member that has nothing new to say."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group_id, member_id=member.member_id, member_epoch=member.epoch
    )
    return Asked(member.connection, request, _CONSUMER_HEARTBEAT_VERSION)


def commit(member: Member, topic: str, partitions: int) -> Asked:
    """A commit of some partitions; of a member without an id where the group is a simple one."""
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=ZERO_UUID,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=1_000 + index, committed_metadata=""
                    )
                    for index in range(partitions)
                ],
            )
        ],
    )
    return Asked(member.connection, request, _COMMIT_VERSION)


def answered_well(exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
    """The exchanges, if every answer to a heartbeat or a commit is without an error and without news. LoadError otherwise."""
    for each in exchanges:
        match each.response:
            case HeartbeatResponse(error_code=error):
                _check(error)
            case ConsumerGroupHeartbeatResponse(error_code=error, assignment=assignment):
                _check(error)
                if assignment is not None:
                    raise LoadError("a settled member was given another assignment")
            case OffsetCommitResponse(topics=topics):
                for topic in topics:
                    for partition in topic.partitions:
                        _check(partition.error_code)
            case _:
                raise LoadError(f"{type(each.response).__name__} is no answer to a heartbeat or a commit")
    return exchanges


def _check(error: int, expected: ErrorCode = ErrorCode.NONE) -> None:
    if error != expected:
        raise LoadError(f"a member was answered {ErrorCode.of(error).name}, not {expected.name}")
