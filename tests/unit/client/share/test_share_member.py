"""A member of a share group against whatever a coordinator may say."""

from __future__ import annotations

import pytest

from tidelog.client.consumer.membership import Failed, Next
from tidelog.client.share.share_member import ShareMember, State
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.share_groups import Assignment, ShareGroupHeartbeatResponse, TopicPartitions

TOPIC = bytes(range(16))


def answer(
    epoch: int = 1, assigned: dict[bytes, list[int]] | None = None, error: ErrorCode = ErrorCode.NONE
) -> ShareGroupHeartbeatResponse:
    listed = [TopicPartitions(topic_id=key, partitions=each) for key, each in (assigned or {}).items()]
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=5000,
        assignment=None if assigned is None else Assignment(topic_partitions=listed),
    )


def joined() -> ShareMember:
    made = ShareMember("g", "m", "north")
    made.subscribe(frozenset({"t"}))
    made.heartbeat_request()
    made.answered(answer(1, {TOPIC: [1, 0]}))
    return made


def test_joining_says_all_and_then_only_what_changed() -> None:
    made = ShareMember("g", "m", "north")
    made.subscribe(frozenset({"b", "a"}))
    assert made.has_news
    first = made.heartbeat_request()
    made.answered(answer(1, {}))
    second = made.heartbeat_request()
    made.subscribe(frozenset({"c"}))

    assert (first.member_epoch, first.subscribed_topic_names, first.rack_id) == (0, ["a", "b"], "north")
    assert (second.member_epoch, second.subscribed_topic_names, second.rack_id) == (1, None, None)
    assert made.has_news
    assert made.heartbeat_request().subscribed_topic_names == ["c"]


def test_what_is_assigned_counts_at_once_and_until_something_else_is() -> None:
    made = joined()
    made.answered(answer(2))

    assert made.assigned == {TOPIC: [0, 1]}
    made.answered(answer(3, {TOPIC: [1]}))
    assert made.assigned == {TOPIC: [1]}


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_joins_again_under_its_id(error: ErrorCode) -> None:
    made = joined()

    assert made.answered(answer(error=error)) is Next.LOST
    assert made.assigned == {}
    request = made.heartbeat_request()
    assert (request.member_id, request.member_epoch, request.subscribed_topic_names) == ("m", 0, ["t"])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ErrorCode.NOT_COORDINATOR, Next.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Next.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Next.RETRY),
    ],
)
def test_a_coordinator_that_moves_costs_no_partition(error: ErrorCode, outcome: Next) -> None:
    made = joined()

    assert made.answered(answer(error=error)) is outcome
    assert made.assigned == {TOPIC: [0, 1]}
    assert made.heartbeat_request().subscribed_topic_names == ["t"]


@pytest.mark.parametrize("error", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED])
def test_what_ends_a_membership_is_told(error: ErrorCode) -> None:
    made = joined()
    outcome = made.answered(answer(error=error))

    assert isinstance(outcome, Failed)
    assert outcome.error.code is error
    assert made.is_silent
    assert not made.is_in_group


def test_one_that_was_away_joins_when_it_is_back() -> None:
    made = joined()
    assert not made.back()
    made.away()
    assert made.is_silent
    assert made.answered(answer(2, {TOPIC: [0]})) is Next.GO_ON
    assert made.assigned == {}

    assert made.back()
    assert made.heartbeat_request().member_epoch == 0


def test_leaving_has_an_epoch_of_its_own_and_is_the_end() -> None:
    made = joined()

    assert made.leave_request().member_epoch == -1
    made.left()
    assert made.state is State.UNSUBSCRIBED
    assert not made.has_news
