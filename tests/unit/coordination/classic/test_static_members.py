"""Static members keep their place under a name of their own (KIP-345, KIP-814)."""

from __future__ import annotations

import pytest

from tests.support.classic_groups import REBALANCE_MS, SESSION_MS, ClassicDriver, is_parked, value_of
from tidelog.model.errors import ErrorCode

BOTH = {"range": b"r", "roundrobin": b"rr"}


@pytest.fixture
def driver() -> ClassicDriver:
    return ClassicDriver()


def static_pair(driver: ClassicDriver) -> tuple[str, str]:
    """A stable group of `till-1`, which leads, and `till-2`."""
    joins = [driver.join(instance=name, protocols=BOTH) for name in ("till-1", "till-2")]
    driver.advance(6_000)
    leader, follower = (value_of(answer).member_id for answer in joins)
    driver.sync(leader, 1, {leader: b"A", follower: b"B"}, instance="till-1")
    driver.sync(follower, 1, instance="till-2")
    assert driver.group.state_name == "Stable"
    return leader, follower


def test_a_static_member_joins_in_one_round_under_an_id_with_its_name(driver: ClassicDriver) -> None:
    leader, follower = static_pair(driver)

    assert leader.startswith("till-1-")
    assert driver.group.static_member_ids == {"till-1": leader, "till-2": follower}


def test_a_follower_that_starts_again_takes_its_assignment_over(driver: ClassicDriver) -> None:
    leader, follower = static_pair(driver)

    back = value_of(driver.join(instance="till-2", protocols=BOTH))

    assert (back.error_code, back.generation_id, back.leader, back.skip_assignment) == (0, 1, leader, False)
    assert back.member_id != follower
    assert value_of(driver.sync(back.member_id, 1, instance="till-2")).assignment == b"B"
    assert {member.member_id: member.assignment for member in driver.last_written().members} == {
        leader: b"A",
        back.member_id: b"B",
    }


def test_a_leader_that_starts_again_is_told_to_leave_the_assignment(driver: ClassicDriver) -> None:
    _, follower = static_pair(driver)

    back = value_of(driver.join(instance="till-1", protocols=BOTH))

    assert (back.leader, back.skip_assignment) == (back.member_id, True)
    assert sorted(member.member_id for member in back.members) == sorted([back.member_id, follower])
    assert driver.group.state_name == "Stable"


def test_before_version_9_a_leader_that_starts_again_is_told_that_its_old_id_leads(driver: ClassicDriver) -> None:
    leader, _ = static_pair(driver)

    back = value_of(driver.join(instance="till-1", protocols=BOTH, version=8))

    assert (back.leader, back.members, back.skip_assignment) == (leader, [], False)
    assert driver.group.leader_id == back.member_id


def test_the_one_before_is_fenced(driver: ClassicDriver) -> None:
    leader, _ = static_pair(driver)
    driver.join(instance="till-1", protocols=BOTH)

    assert driver.heartbeat(leader, 1, "till-1") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert value_of(driver.sync(leader, 1, instance="till-1")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert value_of(driver.join(leader, instance="till-1")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave((leader, "till-1")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.group.check_commit(leader, "till-1", 1, 9, driver.now_ms) is ErrorCode.FENCED_INSTANCE_ID


def test_what_the_one_before_waits_for_is_answered(driver: ClassicDriver) -> None:
    first = driver.join(instance="till-1")
    second = driver.join(instance="till-1")

    assert value_of(first).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert is_parked(second)


def test_who_starts_again_between_join_and_sync_lets_all_join_again(driver: ClassicDriver) -> None:
    joins = [driver.join(instance=name) for name in ("till-1", "till-2")]
    driver.advance(6_000)
    leader, follower = (value_of(answer).member_id for answer in joins)
    waits = driver.sync(follower, 1, instance="till-2")

    back = driver.join(instance="till-2")

    assert value_of(waits).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert is_parked(back)
    assert driver.heartbeat(leader, 1, "till-1") is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_comes_back_with_another_protocol_lets_all_join_again(driver: ClassicDriver) -> None:
    static_pair(driver)

    assert is_parked(driver.join(instance="till-2", protocols={"roundrobin": b"rr"}))
    assert driver.group.state_name == "PreparingRebalance"


def test_a_new_id_that_cannot_be_written_is_taken_back(driver: ClassicDriver) -> None:
    _, follower = static_pair(driver)
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    refused = value_of(driver.join(instance="till-2", protocols={"range": b"other"}))

    assert (refused.error_code, refused.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert driver.heartbeat(follower, 1, "till-2") is ErrorCode.NONE
    assert driver.group.members[follower].protocols == tuple(BOTH.items())
    assert driver.group.members[follower].assignment == b"B"


def test_a_static_member_stays_while_it_is_away_until_its_session_ends(driver: ClassicDriver) -> None:
    leader, follower = static_pair(driver)
    driver.join_with_id(protocols=BOTH)
    driver.join(leader, instance="till-1", protocols=BOTH)
    driver.advance(SESSION_MS - 1)
    assert follower in driver.group.members
    driver.advance(1)

    assert follower not in driver.group.members
    assert driver.group.state_name == "CompletingRebalance"


def test_a_rebalance_that_only_absent_static_members_could_join_waits_for_their_sessions(
    driver: ClassicDriver,
) -> None:
    joins = [driver.join(instance=name, session_ms=3 * REBALANCE_MS, protocols=BOTH) for name in ("till-1", "till-2")]
    driver.advance(6_000)
    leader, follower = (value_of(answer).member_id for answer in joins)
    for member_id, name in ((follower, "till-2"), (leader, "till-1")):
        driver.sync(member_id, 1, {leader: b"A"}, instance=name)
    driver.leave((leader, "till-1"))

    driver.advance(2 * REBALANCE_MS)
    assert driver.group.state_name == "PreparingRebalance"
    driver.advance(REBALANCE_MS)

    assert driver.group.is_empty
