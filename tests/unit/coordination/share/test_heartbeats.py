"""Heartbeats of share groups: who gets what and when, which epoch counts, what is refused, and what is written."""

from __future__ import annotations

import pytest

from tests.support.share_groups import CALLER, GROUP, ShareGroupDriver
from tests.support.share_states import AUDIT, ORDERS
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.decision import Caller
from tidelog.coordination.group_settings import GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.internal.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

SESSION_MS = 45_000


@pytest.fixture
def driver() -> ShareGroupDriver:
    return ShareGroupDriver()


def test_a_first_heartbeat_assigns_nothing_and_the_next_one_what_has_a_state(driver: ShareGroupDriver) -> None:
    first = driver.heartbeat("m", 0, "orders")
    driver.advance(5_000)
    second = driver.heartbeat("m", first.member_epoch)

    assert (first.error_code, first.member_epoch, first.heartbeat_interval_ms) == (0, 2, 5_000)
    assert first.assignment is not None
    assert first.assignment.topic_partitions == []
    assert second.member_epoch == 3
    assert second.assignment is not None
    assert [(each.topic_id, each.partitions) for each in second.assignment.topic_partitions] == [(ORDERS, [0, 1, 2, 3])]


def test_a_join_is_written_in_the_order_of_kafka(driver: ShareGroupDriver) -> None:
    driver.begins_states = False
    driver.heartbeat("m", 0, "orders")

    assert [type(record.key) for record in driver.records] == [
        ShareGroupMemberMetadataKey,
        ShareGroupMetadataKey,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupCurrentMemberAssignmentKey,
        ShareGroupStatePartitionMetadataKey,
    ]
    target = driver.records[3].value
    assert isinstance(target, ShareGroupTargetAssignmentMetadataValue)
    assert target.assignment_timestamp == driver.now_ms


def test_a_member_with_nothing_new_to_say_costs_no_record(driver: ShareGroupDriver) -> None:
    epoch = driver.settled("m")
    written = len(driver.log)

    answer = driver.heartbeat("m", epoch)

    assert (answer.member_epoch, answer.assignment) == (epoch, None)
    assert len(driver.log) == written


def test_a_full_request_is_answered_with_the_assignment(driver: ShareGroupDriver) -> None:
    epoch = driver.settled("m")

    answer = driver.heartbeat("m", epoch, "orders")

    assert answer.assignment is not None


def test_members_share_partitions_and_partitions_members(driver: ShareGroupDriver) -> None:
    driver.settled("a", "b")
    assert [sum(map(len, driver.assigned(member).values())) for member in "ab"] == [2, 2]

    driver.settled(*"abcdef")

    assert sorted(sum(map(len, driver.assigned(member).values())) for member in "abcdef") == [1, 1, 1, 1, 2, 2]


def test_a_burst_of_joins_shares_one_assignment(driver: ShareGroupDriver) -> None:
    driver.heartbeat("a", 0, "orders")
    driver.heartbeat("b", 0, "orders")
    assert driver.group.assignment_epoch == 2

    driver.advance(1_000)
    driver.heartbeat("b", 2)

    assert driver.group.assignment_epoch == driver.group.epoch > 2


def test_states_are_asked_for_once_and_again_after_the_interval(driver: ShareGroupDriver) -> None:
    driver.begins_states = False
    epoch = driver.heartbeat("m", 0, "orders").member_epoch
    driver.advance(29_000)
    driver.heartbeat("m", epoch)
    asked_before = len(driver.asked)
    driver.advance(1_000)
    driver.heartbeat("m", epoch)

    assert (asked_before, len(driver.asked)) == (1, 2)
    assert driver.asked[0].state_epoch == 2
    assert driver.asked[0].offsets == {ORDERS: dict.fromkeys(range(4), -1)}


def test_states_that_could_not_be_begun_are_asked_for_with_the_next_heartbeat(driver: ShareGroupDriver) -> None:
    driver.begins_states = False
    epoch = driver.heartbeat("m", 0, "orders").member_epoch
    driver.answer(driver.asked[0], fails=True)
    driver.advance(1_000)

    driver.heartbeat("m", epoch)

    assert len(driver.asked) == 2
    assert driver.group.partitions.initialised == {}


def test_new_partitions_of_a_topic_get_states_and_then_members(driver: ShareGroupDriver) -> None:
    driver.settled("m")
    driver.change_topics({ORDERS: 6, AUDIT: 2})

    driver.advance(1_000)
    epoch = driver.heartbeat("m", driver.group.epoch).member_epoch
    driver.advance(1_000)
    driver.heartbeat("m", epoch)

    assert driver.assigned() == {"orders": (0, 1, 2, 3, 4, 5)}


def test_a_topic_that_is_gone_is_forgotten_and_does_not_come_up_again(driver: ShareGroupDriver) -> None:
    epoch = driver.settled("m", topics=("orders", "audit"))
    driver.change_topics({ORDERS: 4})

    assert AUDIT not in driver.group.partitions.topic_ids
    for _ in range(3):
        driver.advance(1_000)
        epoch = driver.heartbeat("m", epoch).member_epoch
    assert driver.heartbeat("m", epoch).member_epoch == epoch
    assert driver.assigned() == {"orders": (0, 1, 2, 3)}


def test_a_member_that_changes_its_topics_loses_what_it_does_not_read(driver: ShareGroupDriver) -> None:
    epoch = driver.settled("m", topics=("orders", "audit"))

    driver.heartbeat("m", epoch, "audit")

    assert driver.assigned() == {"audit": (0, 1)}


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_member_ahead_of_the_group_is_fenced(driver: ShareGroupDriver, epoch: int) -> None:
    settled = driver.settled("m")
    answer = driver.heartbeat("m", settled + epoch)

    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch" in (answer.error_message or "")


def test_of_the_epochs_behind_only_the_previous_one_is_taken(driver: ShareGroupDriver) -> None:
    epoch = driver.settled("m")
    member = driver.group.members["m"]

    assert driver.heartbeat("m", member.previous_member_epoch).error_code == ErrorCode.NONE
    answer = driver.heartbeat("m", epoch - 2 if member.previous_member_epoch == epoch - 1 else 1)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert "does not match the previous member epoch" in (answer.error_message or "")


@pytest.mark.parametrize(
    ("member", "epoch", "topics", "message"),
    [
        (" ", 0, ("orders",), "MemberId can't be empty."),
        ("m", 0, (), "SubscribedTopicNames must be set in first request."),
        ("m", -2, (), "MemberEpoch is invalid."),
    ],
)
def test_what_no_group_could_grant_is_refused_in_the_words_of_kafka(
    driver: ShareGroupDriver, member: str, epoch: int, topics: tuple[str, ...], message: str
) -> None:
    answer = driver.heartbeat(member, epoch, *topics)

    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_an_unknown_group_or_member_is_told_so(driver: ShareGroupDriver) -> None:
    assert driver.heartbeat("m", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.heartbeat("m", -1).error_message == f"Group {GROUP} not found."
    driver.settled("m")
    assert driver.heartbeat("other", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("other", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_of_another_kind_is_left_alone_though_it_is_empty(driver: ShareGroupDriver) -> None:
    driver.groups[GROUP] = ConsumerGroup(GROUP)

    answer = driver.heartbeat("m", 0, "orders")

    assert (answer.error_code, answer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {GROUP} is not a share group.",
    )
    assert driver.log == []


def test_a_full_group_takes_nobody_else() -> None:
    driver = ShareGroupDriver(GroupSettings(share_max_size=2))
    driver.settled("a", "b")

    assert driver.heartbeat("c", 0, "orders").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.heartbeat("a", 0, "orders").error_code == ErrorCode.NONE


def test_a_member_that_leaves_is_gone_at_once_and_its_partitions_with_the_next_heartbeat(
    driver: ShareGroupDriver,
) -> None:
    epoch = driver.settled("a", "b")
    left = driver.heartbeat("a", -1)
    driver.advance(1_000)

    driver.heartbeat("b", epoch)

    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)
    assert driver.assigned("b") == {"orders": (0, 1, 2, 3)}
    assert len(driver.deadlines) == 1


def test_a_member_that_is_silent_for_its_session_is_removed(driver: ShareGroupDriver) -> None:
    driver.settled("m")
    driver.advance(SESSION_MS - 1)
    there_still = "m" in driver.group.members
    driver.advance(1)

    assert there_still
    assert driver.group.is_empty
    assert driver.group.state_name == "Empty"
    assert len(driver.deadlines) == 0


def test_another_coordinator_goes_on_where_this_one_stopped(driver: ShareGroupDriver) -> None:
    epoch = driver.settled("a", "b", topics=("orders", "audit"))

    other = driver.restarted()

    assert other.group.members == driver.group.members
    assert other.group.targets == driver.group.targets
    assert other.group.partitions.initialised.keys() == {ORDERS, AUDIT}
    assert other.heartbeat("a", epoch).member_epoch == epoch
    other.advance(SESSION_MS)
    assert list(other.group.members) == []


def test_what_was_not_written_is_decided_again(driver: ShareGroupDriver) -> None:
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.heartbeat("m", 0, "orders")
    assert driver.groups == {}
    assert driver.asked == []

    driver.append_error = ErrorCode.NONE

    assert driver.settled("m") > 1
    assert driver.assigned() == {"orders": (0, 1, 2, 3)}


def test_a_member_that_comes_from_elsewhere_is_written_down_anew(driver: ShareGroupDriver) -> None:
    epoch = driver.settled("m")
    written = len(driver.log)

    driver.heartbeat("m", epoch, caller=Caller("a client", "/10.0.0.2", 1))

    assert [type(record.key) for record in driver.records[written:]] == [ShareGroupMemberMetadataKey]
    assert driver.group.members["m"].client_host == "/10.0.0.2" != CALLER.client_host
