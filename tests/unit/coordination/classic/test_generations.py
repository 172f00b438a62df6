"""What happens within a generation and at its end: syncs, heartbeats, sessions, members that leave."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.classic_groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    START_MS,
    ClassicDriver,
    is_parked,
    subscription,
    value_of,
)
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.internal.offset_records import GroupMetadataKey


@pytest.fixture
def driver() -> ClassicDriver:
    return ClassicDriver()


def joined_pair(driver: ClassicDriver) -> tuple[str, str]:
    leader, _ = driver.join_with_id()
    follower, _ = driver.join_with_id()
    driver.advance(6_000)
    assert driver.group.state_name == "CompletingRebalance"
    return leader, follower


# Syncs


def test_everybody_gets_its_assignment_once_that_is_committed(driver: ClassicDriver) -> None:
    leader, follower = joined_pair(driver)
    driver.holds_commits = True
    follows = driver.sync(follower, 1)
    leads = driver.sync(leader, 1, {leader: b"A", follower: b"B", "somebody": b"C"})
    assert is_parked(follows)
    assert is_parked(leads)

    driver.commit()

    assert (value_of(leads).assignment, value_of(follows).assignment) == (b"A", b"B")
    assert (value_of(leads).protocol_type, value_of(leads).protocol_name) == ("consumer", "range")
    assert driver.group.state_name == "Stable"
    written = driver.last_written()
    assert [(member.member_id, member.assignment) for member in written.members] == [(leader, b"A"), (follower, b"B")]
    assert (written.generation, written.leader, written.protocol) == (1, leader, "range")
    assert written.members[0].subscription == subscription("orders")
    assert (written.members[0].session_timeout, written.members[0].rebalance_timeout) == (SESSION_MS, REBALANCE_MS)


def test_a_member_that_the_leader_forgot_gets_nothing(driver: ClassicDriver) -> None:
    leader, follower = joined_pair(driver)
    driver.sync(leader, 1, {leader: b"A"})

    assert value_of(driver.sync(follower, 1)).assignment == b""


def test_assignments_that_cannot_be_written_start_a_rebalance(driver: ClassicDriver) -> None:
    leader, follower = joined_pair(driver)
    follows = driver.sync(follower, 1)
    driver.append_error = ErrorCode.NOT_COORDINATOR

    leads = driver.sync(leader, 1, {leader: b"A", follower: b"B"})

    assert value_of(leads).error_code == value_of(follows).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.group.state_name == "PreparingRebalance"


def test_a_commit_that_comes_after_a_new_rebalance_changes_nothing(driver: ClassicDriver) -> None:
    leader, follower = joined_pair(driver)
    driver.holds_commits = True
    leads = driver.sync(leader, 1, {leader: b"A"})
    driver.join_with_id()
    assert value_of(leads).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    driver.commit()

    assert driver.group.state_name == "PreparingRebalance"
    assert driver.group.members[follower].assignment == b""


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
        ({"instance": "till-1"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_has_to_fit_the_group(driver: ClassicDriver, said: dict[str, Any], error: ErrorCode) -> None:
    leader, _ = driver.stable_group()

    assert value_of(driver.sync(leader, 1, **said)).error_code == error


def test_a_sync_of_another_generation_or_member_is_refused(driver: ClassicDriver) -> None:
    assert value_of(driver.sync("somebody", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = driver.stable_group()

    assert value_of(driver.sync("somebody", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert value_of(driver.sync(leader, 0)).error_code == ErrorCode.ILLEGAL_GENERATION
    driver.join(leader)
    assert value_of(driver.sync(follower, 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_that_is_repeated_answers_the_one_before(driver: ClassicDriver) -> None:
    leader, follower = joined_pair(driver)
    first = driver.sync(follower, 1)
    second = driver.sync(follower, 1)
    driver.sync(leader, 1, {follower: b"B"})

    assert value_of(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert value_of(second).assignment == b"B"


def test_who_does_not_sync_in_time_is_out(driver: ClassicDriver) -> None:
    leader, _ = driver.join_with_id(session_ms=2 * REBALANCE_MS)
    follower, _ = driver.join_with_id(session_ms=2 * REBALANCE_MS)
    driver.advance(6_000)
    waits = driver.sync(follower, 1)

    driver.advance(REBALANCE_MS)

    assert value_of(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(driver.group.members) == [follower]
    assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_never_syncs_is_out_of_a_stable_group_too(driver: ClassicDriver) -> None:
    leader, _ = driver.join_with_id(session_ms=2 * REBALANCE_MS)
    driver.join_with_id(session_ms=2 * REBALANCE_MS)
    driver.advance(6_000)
    driver.sync(leader, 1, {leader: b"A"})
    assert driver.group.state_name == "Stable"

    driver.advance(REBALANCE_MS)

    assert list(driver.group.members) == [leader]
    assert driver.group.state_name == "PreparingRebalance"


# Sessions


def test_heartbeats_keep_a_session(driver: ClassicDriver) -> None:
    leader, follower = driver.stable_group()
    for _ in range(5):
        driver.advance(SESSION_MS - 1)
        assert driver.heartbeat(leader, 1) is ErrorCode.NONE
        assert driver.heartbeat(follower, 1) is ErrorCode.NONE
    driver.advance(SESSION_MS - 1)
    driver.heartbeat(leader, 1)
    driver.advance(1)

    assert list(driver.group.members) == [leader]
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_keeps_a_session(driver: ClassicDriver) -> None:
    (leader,) = driver.stable_group(1)
    for _ in range(3):
        driver.advance(SESSION_MS - 1)
        assert driver.group.check_commit(leader, None, 1, 9, driver.now_ms) is ErrorCode.NONE

    assert leader in driver.group.members


def test_a_member_that_waits_for_us_needs_no_heartbeat(driver: ClassicDriver) -> None:
    leader, follower = driver.stable_group(session_ms=6_000)
    rejoined = driver.join(leader, session_ms=6_000)
    for _ in range(4):
        driver.advance(5_000)
        driver.heartbeat(follower, 1)

    assert is_parked(rejoined)
    assert leader in driver.group.members


def test_the_last_member_that_fails_leaves_an_empty_group_behind(driver: ClassicDriver) -> None:
    driver.stable_group(1)

    driver.advance(SESSION_MS)

    assert driver.group.is_empty
    written = driver.last_written()
    assert (written.generation, written.protocol_type, written.protocol, written.leader) == (2, "consumer", None, None)
    assert written.members == []
    assert driver.group.offsets_expire_from_ms() == written.current_state_timestamp > START_MS
    assert len(driver.deadlines) == 0


@pytest.mark.parametrize(
    ("generation", "member", "error"),
    [(1, "somebody", ErrorCode.UNKNOWN_MEMBER_ID), (0, None, ErrorCode.ILLEGAL_GENERATION)],
)
def test_a_heartbeat_has_to_fit_the_group(
    driver: ClassicDriver, generation: int, member: str | None, error: ErrorCode
) -> None:
    assert driver.heartbeat("somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    (leader,) = driver.stable_group(1)

    assert driver.heartbeat(member or leader, generation) is error


def test_heartbeats_between_join_and_sync_are_heartbeats(driver: ClassicDriver) -> None:
    leader, _ = joined_pair(driver)

    assert driver.heartbeat(leader, 1) is ErrorCode.NONE


# Leaving


def test_those_who_stay_join_again_when_one_leaves(driver: ClassicDriver) -> None:
    leader, follower = driver.stable_group()

    left = driver.leave((leader, None))

    assert [(member.member_id, member.error_code) for member in left.members] == [(leader, ErrorCode.NONE)]
    assert driver.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert value_of(driver.join(follower)).leader == follower


def test_each_of_several_leavers_has_its_own_outcome(driver: ClassicDriver) -> None:
    members = driver.stable_group(1)
    pending = value_of(driver.join()).member_id
    static = value_of_static(driver, "till-1")

    left = driver.leave(
        (members[0], None),
        (pending, None),
        ("somebody", None),
        ("", None),
        ("", "till-2"),
        ("somebody", "till-1"),
        ("", "till-1"),
    )

    assert [member.error_code for member in left.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
    ]
    assert left.error_code == ErrorCode.NONE
    assert static not in driver.group.members
    assert driver.group.is_empty


def value_of_static(driver: ClassicDriver, instance: str) -> str:
    """A static member that has just joined; the others have not joined again."""
    assert is_parked(driver.join(instance=instance))
    return driver.group.static_member_ids[instance]


@pytest.mark.parametrize("version", [0, 2])
def test_before_version_3_one_member_leaves(driver: ClassicDriver, version: int) -> None:
    assert driver.leave(("somebody", None), version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    (leader,) = driver.stable_group(1)

    assert driver.leave(("somebody", None), version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    left = driver.leave((leader, None), version=version)

    assert (left.error_code, left.members) == (ErrorCode.NONE, [])
    assert driver.group.is_empty


def test_what_a_leaver_waits_for_is_answered(driver: ClassicDriver) -> None:
    leader, follower = joined_pair(driver)
    waits = driver.sync(follower, 1)

    driver.leave((follower, None))

    assert value_of(waits).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_first_rebalance_that_everybody_leaves_ends_in_an_empty_group(driver: ClassicDriver) -> None:
    member_id, joined = driver.join_with_id()
    driver.leave((member_id, None))
    assert value_of(joined).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    driver.advance(REBALANCE_MS)

    assert driver.group.is_empty
    assert len(driver.deadlines) == 0


# Offsets


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("leader", 1, ErrorCode.NONE),
        ("leader", 0, ErrorCode.ILLEGAL_GENERATION),
        ("somebody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit(driver: ClassicDriver, member: str, generation: int, error: ErrorCode) -> None:
    (leader,) = driver.stable_group(1)

    found = driver.group.check_commit(leader if member == "leader" else member, None, generation, 9, driver.now_ms)

    assert found is error


def test_nobody_commits_between_join_and_sync(driver: ClassicDriver) -> None:
    leader, _ = joined_pair(driver)

    assert driver.group.check_commit(leader, None, 1, 9, driver.now_ms) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_old_generation_commits_while_it_joins_again(driver: ClassicDriver) -> None:
    leader, follower = driver.stable_group()
    driver.join(leader)

    assert driver.group.check_commit(follower, None, 1, 9, driver.now_ms) is ErrorCode.NONE


def test_a_simple_group_lives_by_its_offsets(driver: ClassicDriver) -> None:
    group = driver.classic.group_for_offsets(GROUP, driver.now_ms)

    assert group is driver.group
    assert group.is_simple
    assert (group.type_name, group.protocol_type, group.state_name) == ("classic", "", "Empty")
    assert group.check_commit("", None, -1, 9, driver.now_ms) is ErrorCode.NONE
    assert group.check_commit("somebody", None, 3, 9, driver.now_ms) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.offsets_expire_from_ms() is None
    assert not group.is_subscribed_to("orders")
    assert group.offsets_may_expire
    assert driver.classic.group_for_offsets(GROUP, driver.now_ms) is group


def test_what_the_members_read_is_known(driver: ClassicDriver) -> None:
    driver.stable_group(1)
    assert driver.group.is_subscribed_to("orders")
    assert not driver.group.is_subscribed_to("returns")
    assert driver.group.check_offset_delete() is ErrorCode.NONE
    assert driver.group.check_delete() is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize(("protocol_type", "metadata"), [("consumer", b"\x00"), ("connect", subscription("orders"))])
def test_what_cannot_be_read_counts_as_in_use(driver: ClassicDriver, protocol_type: str, metadata: bytes) -> None:
    driver.stable_group(1, protocol_type=protocol_type, protocols={"p": metadata})

    assert driver.group.is_subscribed_to("returns")
    assert not driver.group.offsets_may_expire


def test_an_empty_group_can_be_deleted(driver: ClassicDriver) -> None:
    driver.stable_group(1)
    driver.advance(SESSION_MS)
    assert driver.group.check_delete() is ErrorCode.NONE
    (ended,) = driver.group.tombstones()

    assert isinstance(ended.key, GroupMetadataKey)
    driver.classic.replay_group(ended.key, None, driver.now_ms)

    assert (ended.value, driver.groups) == (None, {})
