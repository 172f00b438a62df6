"""How members come into a classic group, and back into it."""

from __future__ import annotations

import pytest

from tests.support.classic_groups import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    START_MS,
    ClassicDriver,
    is_parked,
    subscription,
    value_of,
)
from tidelog.coordination.classic.joining import NEW_MEMBER_JOIN_TIMEOUT_MS
from tidelog.coordination.classic.member import protocols_of
from tidelog.coordination.group_settings import GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.groups_classic import JoinGroupRequestProtocol, JoinGroupResponse

RANGE = {"range": b"r"}
BOTH = {"range": b"r", "roundrobin": b"rr"}
ROUND_ROBIN_FIRST = {"roundrobin": b"rr", "range": b"r"}


@pytest.fixture
def driver() -> ClassicDriver:
    return ClassicDriver()


def test_a_new_member_is_given_an_id_before_it_joins(driver: ClassicDriver) -> None:
    first = value_of(driver.join(version=4, client="cart"))

    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("cart-")
    assert len(first.member_id) == len("cart-") + 36
    assert driver.group.is_empty
    assert is_parked(driver.join(first.member_id, version=4))


@pytest.mark.parametrize("name", ["x" * 32_767, "é" * 16_383, "x" + "é" * 16_383], ids=["ASCII", "even", "odd"])
def test_a_member_id_always_fits_into_a_string(driver: ClassicDriver, name: str) -> None:
    first = value_of(driver.join(version=4, client=name))

    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert 32_766 <= len(first.member_id.encode()) <= 32_767
    assert name.startswith(first.member_id[:-37])
    assert decode(JoinGroupResponse, 4, encode(first, 4)).member_id == first.member_id
    assert is_parked(driver.join(first.member_id, version=4, client=name))


def test_before_version_4_a_new_member_joins_at_once(driver: ClassicDriver) -> None:
    assert is_parked(driver.join(version=3))
    assert driver.group.state_name == "PreparingRebalance"


def test_a_group_is_written_down_when_it_begins(driver: ClassicDriver) -> None:
    driver.join()

    written = driver.last_written()
    assert (driver.log[-1].version, written.generation, written.members) == (3, 0, [])
    assert (written.protocol_type, written.protocol, written.leader) == ("", None, None)
    assert written.current_state_timestamp == START_MS


@pytest.mark.parametrize("version", [2, 9])
def test_a_group_that_cannot_be_written_down_does_not_begin(driver: ClassicDriver, version: int) -> None:
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    answer = driver.join(version=version)

    if version == 2:
        refused = value_of(answer)
        assert (refused.error_code, refused.protocol_name) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert GROUP not in driver.groups
    assert len(driver.deadlines) == 0


def test_an_id_that_is_not_used_in_time_is_void(driver: ClassicDriver) -> None:
    first = value_of(driver.join())
    driver.advance(SESSION_MS)

    again = value_of(driver.join(first.member_id))

    assert (again.error_code, again.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, first.member_id)


def test_who_comes_within_the_first_delay_is_in_the_first_generation(driver: ClassicDriver) -> None:
    leader, first = driver.join_with_id()
    driver.advance(DELAY_MS - 1)
    follower, second = driver.join_with_id()
    assert is_parked(first)

    # The delay begins anew, since somebody came.
    driver.advance(DELAY_MS)
    assert is_parked(first)
    driver.advance(1)

    told = value_of(first)
    assert (told.generation_id, told.leader, told.protocol_name, told.protocol_type) == (1, leader, "range", "consumer")
    assert [member.member_id for member in told.members] == [leader, follower]
    assert {member.metadata for member in told.members} == {subscription("orders")}
    follows = value_of(second)
    assert (follows.generation_id, follows.leader, follows.member_id, follows.members) == (1, leader, follower, [])


def test_the_first_delay_ends_with_the_rebalance_timeout(driver: ClassicDriver) -> None:
    _, first = driver.join_with_id(rebalance_ms=2 * DELAY_MS + 1)
    for _ in range(5):
        driver.advance(DELAY_MS - 1)
        driver.join_with_id(rebalance_ms=2 * DELAY_MS + 1)

    assert not is_parked(first)


def test_a_later_rebalance_ends_as_soon_as_all_have_joined(driver: ClassicDriver) -> None:
    leader, follower = driver.stable_group()

    newcomer, joined = driver.join_with_id()
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = driver.join(leader)
    assert is_parked(rejoined)
    last = driver.join(follower)

    assert value_of(last).generation_id == 2
    assert [member.member_id for member in value_of(rejoined).members] == [leader, follower, newcomer]
    assert value_of(joined).leader == leader


def test_a_rebalance_waits_for_an_id_that_was_just_given_out(driver: ClassicDriver) -> None:
    leader, follower = driver.stable_group()
    expected = value_of(driver.join()).member_id

    first = driver.join(leader)
    second = driver.join(follower, protocols=BOTH)
    assert is_parked(first)
    assert is_parked(second)
    driver.advance(SESSION_MS)

    assert value_of(first).generation_id == 2
    assert expected not in driver.group.members


def test_who_does_not_join_in_time_is_out_and_another_leads(driver: ClassicDriver) -> None:
    leader, follower = driver.stable_group(session_ms=REBALANCE_MS * 2)
    joined = driver.join(follower, protocols=BOTH)

    driver.advance(REBALANCE_MS)

    assert value_of(joined).leader == follower
    assert list(driver.group.members) == [follower]
    assert value_of(driver.join(leader)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_protocol_with_the_most_votes_wins(driver: ClassicDriver) -> None:
    _, answer = driver.join_with_id(protocols=BOTH)
    driver.join_with_id(protocols=ROUND_ROBIN_FIRST)
    driver.join_with_id(protocols=ROUND_ROBIN_FIRST)
    driver.advance(REBALANCE_MS)

    assert value_of(answer).protocol_name == "roundrobin"
    assert {member.metadata for member in value_of(answer).members} == {b"rr"}


def test_a_protocol_that_one_member_lacks_cannot_win(driver: ClassicDriver) -> None:
    _, answer = driver.join_with_id(protocols=RANGE)
    for _ in range(3):
        driver.join_with_id(protocols=ROUND_ROBIN_FIRST)
    driver.advance(REBALANCE_MS)

    assert value_of(answer).protocol_name == "range"


def test_a_protocol_that_is_named_twice_counts_once(driver: ClassicDriver) -> None:
    named = [JoinGroupRequestProtocol(name="range", metadata=metadata) for metadata in (b"1", b"2")]

    assert protocols_of(named) == (("range", b"1"),)


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("consumer", {"sticky": b""}), ("connect", RANGE), ("consumer", {}), ("", RANGE)],
)
def test_members_must_have_a_protocol_in_common(
    driver: ClassicDriver, protocol_type: str, protocols: dict[str, bytes]
) -> None:
    driver.stable_group(1, protocols=RANGE)

    refused = value_of(driver.join(protocol_type=protocol_type, protocols=protocols))

    assert (refused.error_code, refused.protocol_name) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)
    assert driver.group.state_name == "Stable"


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", {})])
def test_a_first_member_without_a_protocol_makes_no_group(
    driver: ClassicDriver, protocol_type: str, protocols: dict[str, bytes]
) -> None:
    refused = value_of(driver.join(protocol_type=protocol_type, protocols=protocols))

    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not driver.groups
    assert not driver.log


def test_an_id_that_nobody_gave_out_is_unknown(driver: ClassicDriver) -> None:
    assert value_of(driver.join("somebody")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.stable_group()
    assert value_of(driver.join("somebody")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert value_of(driver.join("somebody", instance="till-1")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_cannot_become_static(driver: ClassicDriver) -> None:
    member_id = value_of(driver.join()).member_id

    assert value_of(driver.join(member_id, instance="till-1")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_follower_that_joins_again_unchanged_is_told_what_it_missed(driver: ClassicDriver) -> None:
    leader, follower = driver.stable_group()

    again = value_of(driver.join(follower))

    assert (again.error_code, again.generation_id, again.leader, again.members) == (ErrorCode.NONE, 1, leader, [])
    assert driver.group.state_name == "Stable"


def test_a_leader_that_joins_again_before_the_sync_is_told_all_members_again(driver: ClassicDriver) -> None:
    leader, _ = driver.join_with_id()
    driver.advance(DELAY_MS)

    assert [member.member_id for member in value_of(driver.join(leader)).members] == [leader]
    assert driver.group.state_name == "CompletingRebalance"


def test_a_leader_of_a_stable_group_that_joins_again_starts_a_rebalance(driver: ClassicDriver) -> None:
    leader, _ = driver.stable_group()

    assert is_parked(driver.join(leader))
    assert driver.group.state_name == "PreparingRebalance"


def test_a_follower_that_joins_with_another_subscription_starts_a_rebalance(driver: ClassicDriver) -> None:
    _, follower = driver.stable_group()

    assert is_parked(driver.join(follower, protocols={"range": subscription("returns")}))
    assert driver.group.state_name == "PreparingRebalance"


def test_a_join_that_is_repeated_answers_the_one_before(driver: ClassicDriver) -> None:
    leader, _ = driver.stable_group()
    first = driver.join(leader)

    second = driver.join(leader)

    assert value_of(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert is_parked(second)
    assert driver.group.awaiting_joins_count == 1


def test_a_new_member_that_waits_too_long_has_to_come_again(driver: ClassicDriver) -> None:
    driver.stable_group(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    member_id, joined = driver.join_with_id()
    driver.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert is_parked(joined)
    driver.advance(1)

    told = value_of(joined)
    assert (told.error_code, told.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert member_id not in driver.group.members


def test_version_0_has_the_sessions_timeout_for_both(driver: ClassicDriver) -> None:
    driver.join(version=0, rebalance_ms=-1)

    assert driver.group.rebalance_timeout_ms == SESSION_MS


def test_a_full_group_takes_nobody_in() -> None:
    driver = ClassicDriver(GroupSettings(max_size=2, initial_rebalance_delay_ms=0))
    members = driver.stable_group(2)

    refused = value_of(driver.join())

    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert list(driver.group.members) == members


def test_of_a_group_that_has_become_too_large_the_first_to_join_stay() -> None:
    before = ClassicDriver()
    members = before.stable_group(3)
    before.settings = GroupSettings(max_size=2)
    driver = before.restarted()
    assert driver.group.state_name == "PreparingRebalance"

    first, second = driver.join(members[2]), driver.join(members[1])
    refused = value_of(driver.join(members[0]))

    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert value_of(first).generation_id == value_of(second).generation_id == 2
    assert list(driver.group.members) == members[1:]
