"""A group changes its protocol while it has members, and has members of both meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.coordination.consumer.consumer_harness import EAGER, GROUP, Owned, Shard, assigned, topics_of
from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.decision import Caller
from tidelog.coordination.group_settings import GroupSettings, MigrationPolicy
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import decode_consumer_protocol, encode_version_prefixed
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.wire.messages.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

CALLER = Caller("old", "/127.0.0.1", 9)
SETTINGS = replace(EAGER, initial_rebalance_delay_ms=0)


class Mixed(Shard):
    """Sends classic requests too, each to the kind of group that is there."""

    def __init__(self, settings: GroupSettings = SETTINGS) -> None:
        super().__init__(topics_of(a=4), settings)

    @property
    def is_consumer(self) -> bool:
        return isinstance(self.groups.get(GROUP), ConsumerGroup)

    def join_classic(self, member_id: str = "", owned: Owned | None = None, **fields: Any) -> Any:
        subscription = ConsumerProtocolSubscription(
            topics=["a"],
            owned_partitions=[TopicPartition(topic=name, partitions=parts) for name, parts in (owned or {}).items()],
        )
        metadata = encode_version_prefixed(subscription, 3)
        fields.setdefault("protocols", [JoinGroupRequestProtocol(name="range", metadata=metadata)])
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            **fields,
        )
        handler = self.consumer.join_classic if self.is_consumer else self.classic.join
        answer = self.apply(handler(request, CALLER, self.now_ms))
        self.pass_ms(0)
        return answer.value if isinstance(answer, Pending) else answer

    def sync(self, joined: JoinGroupResponse, *given: tuple[str, list[int]], **fields: Any) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=fields.pop("generation_id", joined.generation_id),
            member_id=joined.member_id,
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=m, assignment=_bytes(parts)) for m, parts in given],
        )
        handler = self.consumer.sync_classic if self.is_consumer else self.classic.sync
        answer = self.apply(handler(request, CALLER, self.now_ms))
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def beat(self, joined: JoinGroupResponse) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
        handler = self.consumer.heartbeat_classic if self.is_consumer else self.classic.heartbeat
        return int(self.apply(handler(request, self.now_ms)).error_code)

    def classic_member(self) -> JoinGroupResponse:
        """A stable classic group of one, which has everything."""
        member_id = self.join_classic().member_id
        joined = self.join_classic(member_id)
        assert isinstance(joined, JoinGroupResponse)
        assert _partitions(self.sync(joined, (member_id, [0, 1, 2, 3]))) == [0, 1, 2, 3]
        return joined


def _bytes(partitions: list[int]) -> bytes:
    topics = [TopicPartition(topic="a", partitions=partitions)]
    return encode_version_prefixed(ConsumerProtocolAssignment(assigned_partitions=topics), 3)


def _partitions(answer: SyncGroupResponse) -> list[int]:
    assert answer.error_code == ErrorCode.NONE
    assignment = decode_consumer_protocol(ConsumerProtocolAssignment, answer.assignment)
    return [partition for topic in assignment.assigned_partitions for partition in topic.partitions]


def test_a_rolling_upgrade_and_back() -> None:
    shard = Mixed()
    old = shard.classic_member()
    # A member of the new protocol joins: the group goes on with the old one's assignment.
    new = shard.join("N", "a")
    assert (new.error_code, assigned(new)) == (0, {})
    assert shard.is_consumer
    assert shard.group.members[old.member_id].classic is not None
    # The old one is told to join again, lets go, and gets what remains.
    assert shard.beat(old) == ErrorCode.REBALANCE_IN_PROGRESS
    again = shard.join_classic(old.member_id, {"a": [0, 1, 2, 3]})
    assert (again.error_code, again.member_id, again.protocol_name) == (0, old.member_id, "range")
    assert _partitions(shard.sync(again)) == [0, 1]
    assert shard.beat(again) == ErrorCode.REBALANCE_IN_PROGRESS
    again = shard.join_classic(old.member_id, {"a": [0, 1]})
    assert again.generation_id == new.member_epoch
    assert _partitions(shard.sync(again)) == [0, 1]
    assert shard.beat(again) == ErrorCode.NONE
    assert assigned(shard.send("N", new.member_epoch)) == {"a": [2, 3]}
    assert shard.group.state_name == "Stable"
    assert [m.member_type for m in shard.consumer.describe(shard.group).members] == [0, 1]
    # The last member of the new protocol leaves: those who stay are a classic group, and join again.
    assert shard.send("N", -1).error_code == 0
    assert isinstance(shard.groups[GROUP], ClassicGroup)
    assert shard.beat(again) == ErrorCode.REBALANCE_IN_PROGRESS
    back = shard.join_classic(old.member_id, {"a": [0, 1]})
    assert (back.error_code, back.leader) == (0, old.member_id)
    assert _partitions(shard.sync(back, (old.member_id, [0, 1, 2, 3]))) == [0, 1, 2, 3]


def test_what_is_written_on_the_way_gives_the_same_group_after_a_restart() -> None:
    shard = Mixed()
    old = shard.classic_member()
    shard.join("N", "a")
    converted = shard.reloaded().groups[GROUP]
    assert isinstance(converted, ConsumerGroup)
    assert converted.members == shard.group.members
    assert converted.targets == shard.group.targets
    shard.send("N", -1)
    back = shard.reloaded().groups[GROUP]
    assert isinstance(back, ClassicGroup)
    assert list(back.members) == [old.member_id]


def test_an_upgrade_that_could_not_be_written_leaves_the_classic_group() -> None:
    shard = Mixed()
    old = shard.classic_member()
    shard.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert shard.apply(shard.decide("N", 0, {}, subscribed_topic_names=["a"], rebalance_timeout_ms=1)) == (
        ErrorCode.NOT_ENOUGH_REPLICAS
    )
    assert shard.beat(old) == ErrorCode.NONE
    shard.pass_ms(60_000)
    assert shard.groups[GROUP].is_empty


def test_a_downgrade_that_could_not_be_written_leaves_the_consumer_group() -> None:
    shard = Mixed()
    shard.classic_member()
    shard.join("N", "a")
    shard.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    shard.apply(shard.decide("N", -1))
    assert "N" in shard.group.members
    shard.pass_ms(200_000)
    assert shard.groups[GROUP].is_empty


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (MigrationPolicy.DISABLED, "online upgrade is disabled"),
        (MigrationPolicy.DOWNGRADE, "online upgrade is disabled"),
    ],
)
def test_a_group_whose_policy_forbids_it_stays_classic(policy: MigrationPolicy, sentence: str) -> None:
    shard = Mixed(replace(SETTINGS, consumer_migration_policy=policy))
    old = shard.classic_member()
    answer = shard.join("N", "a")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert sentence in (answer.error_message or "")
    assert shard.beat(old) == ErrorCode.NONE


def test_a_group_whose_policy_forbids_it_stays_of_the_new_protocol() -> None:
    shard = Mixed(replace(SETTINGS, consumer_migration_policy=MigrationPolicy.UPGRADE))
    old = shard.classic_member()
    shard.join("N", "a")
    shard.send("N", -1)
    assert list(shard.group.members) == [old.member_id]
    assert shard.beat(old) == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_empty_group_of_either_kind_becomes_the_other() -> None:
    shard = Mixed()
    shard.join("N", "a")
    shard.send("N", -1)
    old = shard.classic_member()
    assert isinstance(shard.groups[GROUP], ClassicGroup)
    leaving = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=old.member_id)])
    shard.apply(shard.classic.leave(leaving, CALLER, shard.now_ms))
    shard.pass_ms(60_000)
    assert shard.join("N", "a").error_code == 0
    assert shard.is_consumer


def test_classic_requests_that_are_wrong() -> None:
    shard = Mixed()
    shard.join("N", "a")
    given_id = shard.join_classic()
    assert given_id.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = shard.join_classic(given_id.member_id)
    other = JoinGroupRequestProtocol(name="other", metadata=b"\0\0\0\0\0\0\0\0\0\0")
    assert shard.join_classic("x", protocols=[other]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    torn = JoinGroupRequestProtocol(name="range", metadata=b"\0")
    # Who has no id yet is given one before its subscription is read.
    assert shard.join_classic(protocols=[torn]).error_code == ErrorCode.MEMBER_ID_REQUIRED
    refused = shard.join_classic("x", protocols=[torn])
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert shard.join_classic("x", protocols=[]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.sync(joined, generation_id=77).error_code == ErrorCode.ILLEGAL_GENERATION
    assert shard.sync(joined, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    new = replace_member(joined, "N")
    assert shard.sync(new).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.beat(new) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.beat(replace_member(joined, "nobody")) == ErrorCode.UNKNOWN_MEMBER_ID


def replace_member(joined: JoinGroupResponse, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=0,
        generation_id=joined.generation_id,
        protocol_name="range",
        leader="",
        member_id=member_id,
        members=[],
    )


def test_a_classic_member_that_does_not_sync_or_join_in_time_is_taken_out() -> None:
    shard = Mixed()
    new = shard.join("N", "a")
    joined = shard.join_classic(shard.join_classic().member_id)
    for _ in range(3):
        shard.pass_ms(20_000)
        shard.beat(joined)
        shard.send("N", new.member_epoch, {"a": [0, 1]})
    assert list(shard.group.members) == ["N"]


def test_members_of_both_kinds_may_be_taken_out_by_leave_group() -> None:
    shard = Mixed()
    shard.join("N", "a", instance_id="i")
    joined = shard.join_classic(shard.join_classic().member_id)
    identities = [
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id=joined.member_id),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id="wrong", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="unknown"),
    ]
    request = LeaveGroupRequest(group_id=GROUP, members=identities)
    answer = shard.apply(shard.consumer.leave_classic(request, CALLER, shard.now_ms))
    assert [member.error_code for member in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert shard.group.is_empty


@pytest.mark.parametrize(("member_id", "error"), [("N", ErrorCode.NONE), ("nobody", ErrorCode.UNKNOWN_MEMBER_ID)])
def test_the_versions_of_leave_group_that_name_one_member(member_id: str, error: ErrorCode) -> None:
    shard = Mixed()
    shard.join("N", "a")
    request = LeaveGroupRequest(group_id=GROUP, member_id=member_id, members=[])

    answer = shard.apply(shard.consumer.leave_classic(request, Caller("old", "/127.0.0.1", 2), shard.now_ms))

    assert (answer.error_code, answer.members) == (error, [])
    assert shard.group.is_empty == (error is ErrorCode.NONE)


def test_a_static_member_that_comes_back_with_the_classic_protocol_brings_the_group_back() -> None:
    shard = Mixed()
    shard.join("N", "a", instance_id="i")
    shard.send("N", -2, instance_id="i")
    joined = shard.join_classic(group_instance_id="i")
    assert joined.error_code == ErrorCode.NONE
    group = shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.static_member_ids == {"i": joined.member_id}
    reloaded = shard.reloaded().groups[GROUP]
    assert isinstance(reloaded, ClassicGroup)
    assert list(reloaded.members) == [joined.member_id]
