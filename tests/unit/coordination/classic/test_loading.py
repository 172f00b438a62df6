"""A coordinator that begins or ends: groups are replayed, converted, unloaded."""

from __future__ import annotations

import pytest

from tests.support.classic_groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ClassicDriver,
    is_parked,
    subscription,
    value_of,
)
from tidelog.coordination.classic.group import ClassicGroup, GroupState
from tidelog.coordination.classic.member import ClassicMember
from tidelog.coordination.classic.records import group_record
from tidelog.coordination.decision import tombstone
from tidelog.coordination.group_settings import GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.consumer_group_records import ConsumerGroupMetadataKey
from tidelog.wire.messages.internal.offset_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def member(number: int) -> ClassicMember:
    return ClassicMember(
        f"m{number}",
        None,
        "client",
        "/127.0.0.1",
        rebalance_timeout_ms=REBALANCE_MS,
        session_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=(("range", subscription("orders")),),
        assignment=b"a%d" % number,
    )


def test_a_generation_goes_on_after_a_restart() -> None:
    before = ClassicDriver()
    leader, follower = before.stable_group()

    driver = before.restarted()

    assert (driver.group.state_name, driver.group.generation_id, driver.group.leader_id) == ("Stable", 1, leader)
    assert driver.heartbeat(leader, 1) is ErrorCode.NONE
    assert value_of(driver.sync(follower, 1)).assignment == b"a1"
    assert driver.classic.describe(driver.group) == before.classic.describe(before.group)
    assert driver.group.is_subscribed_to("orders")


def test_members_that_do_not_come_back_after_a_restart_are_out() -> None:
    before = ClassicDriver()
    leader, _ = before.stable_group()
    driver = before.restarted()
    driver.advance(SESSION_MS - 1)
    assert driver.heartbeat(leader, 1) is ErrorCode.NONE
    driver.advance(1)

    assert list(driver.group.members) == [leader]


def test_an_empty_group_is_empty_after_a_restart() -> None:
    before = ClassicDriver()
    before.stable_group(1)
    before.advance(SESSION_MS)
    driver = before.restarted()

    assert driver.group.is_empty
    assert driver.group.offsets_expire_from_ms() == before.group.offsets_expire_from_ms()
    assert driver.group.protocol_type == "consumer"


def test_a_record_of_an_old_version_is_understood() -> None:
    driver = ClassicDriver()
    written = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=SESSION_MS, subscription=b"s", assignment=b"a"
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="m", members=[written])

    driver.classic.replay_group(GroupMetadataKey(group=GROUP), value, driver.now_ms)

    assert driver.group.rebalance_timeout_ms == SESSION_MS
    assert driver.group.state_since_ms is None
    # A subscription that cannot be read.
    assert driver.group.is_subscribed_to("orders")


def test_a_leader_that_is_no_member_does_not_stop_a_group() -> None:
    driver = ClassicDriver()
    written = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=SESSION_MS, subscription=b"s", assignment=b"a"
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="gone", members=[written]
    )
    driver.classic.replay_group(GroupMetadataKey(group=GROUP), value, driver.now_ms)

    assert value_of(driver.join("m", protocols={"range": b"other"})).leader == "m"


def test_who_waits_is_told_when_another_node_leads() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable_group()
    joined = driver.join(leader)

    driver.classic.unload()

    assert value_of(joined).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.heartbeat(follower, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(driver.deadlines) == 0


def test_a_commit_that_fails_because_another_node_leads_changes_nothing() -> None:
    driver = ClassicDriver()
    leader, _ = driver.join_with_id()
    driver.advance(6_000)
    driver.holds_commits = True
    synced = driver.sync(leader, 1, {leader: b"A"})

    driver.classic.unload()
    driver.commit(ErrorCode.NOT_COORDINATOR)

    assert value_of(synced).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.group.state is GroupState.DEAD


def test_an_empty_group_of_another_kind_gives_way() -> None:
    driver = ClassicDriver()
    other = _Other(is_empty=True)
    driver.groups[GROUP] = other

    driver.join()

    assert isinstance(driver.groups[GROUP], ClassicGroup)
    assert [record.value is None for record in driver.log] == [True, False]


def test_a_group_of_another_kind_with_members_does_not() -> None:
    driver = ClassicDriver()
    driver.groups[GROUP] = _Other(is_empty=False)

    assert value_of(driver.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert value_of(driver.sync("m", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave(("m", None)).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_kind_of_group_is_kept_if_the_new_one_cannot_be_written() -> None:
    driver = ClassicDriver()
    other = driver.groups[GROUP] = _Other(is_empty=True)
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    driver.join()

    assert driver.groups[GROUP] is other


@pytest.mark.parametrize("rebalances", [False, True])
def test_a_group_that_was_of_another_kind_goes_on(rebalances: bool) -> None:
    driver = ClassicDriver()
    group = ClassicGroup.from_members(GROUP, 5, [member(0), member(1)], driver.now_ms)
    record = group_record(group)

    assert driver.classic.adopt(group, driver.now_ms, rebalances=rebalances) == ()

    assert (group.generation_id, group.leader_id, group.protocol_name) == (5, "m0", "range")
    assert driver.heartbeat("m0", 5) is (ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE)
    assert isinstance(record.value, GroupMetadataValue)
    assert [written.assignment for written in record.value.members] == [b"a0", b"a1"]
    driver.advance(SESSION_MS)
    assert driver.group.is_empty


def test_a_group_that_becomes_another_kind_holds_nobody() -> None:
    driver = ClassicDriver()
    leader, _ = driver.stable_group()
    joined = driver.join(leader)

    driver.classic.release(driver.group)

    assert value_of(joined).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(driver.deadlines) == 0


def test_two_thousand_members_take_two_thousand_steps() -> None:
    driver = ClassicDriver(GroupSettings(initial_rebalance_delay_ms=0))
    joins = [driver.join(instance=f"i{number}") for number in range(2_000)]
    driver.advance(0)
    members = [value_of(answer).member_id for answer in joins]
    assert len(value_of(joins[0]).members) == 2_000
    assert sum(len(value_of(answer).members) for answer in joins) == 2_000
    syncs = [driver.sync(member_id, 1) for member_id in reversed(members)]
    assert not any(is_parked(answer) for answer in syncs)

    driver.advance(SESSION_MS)

    assert driver.group.is_empty
    assert len(driver.deadlines) == 0


class _Other:
    """A group of another kind, as far as a classic one can see it."""

    group_id = GROUP
    type_name = "consumer"
    protocol_type = "consumer"
    state_name = "Empty"
    offsets_may_expire = True
    gives_way = True
    has_offsets = True

    def __init__(self, is_empty: bool) -> None:
        self.is_empty = is_empty

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def offsets_expire_from_ms(self) -> int | None:
        return None

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,
        now_ms: int,
        is_transactional: bool = False,
    ) -> ErrorCode:
        return ErrorCode.NONE

    def as_committed(self) -> _Other:
        return self

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return (tombstone(ConsumerGroupMetadataKey(group_id=GROUP)),)


def test_the_same_seed_gives_the_same_ids() -> None:
    ids = [value_of(ClassicDriver(seed=3).join()).member_id for _ in range(2)]

    assert ids[0] == ids[1]
