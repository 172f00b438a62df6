"""A member of the new protocol against whatever a coordinator may say."""

from __future__ import annotations

import pytest

from tidelog.client.consumer.classic_member import GroupSettings
from tidelog.client.consumer.consumer_member import ConsumerMember, State, Wanted
from tidelog.client.consumer.membership import Failed, Next
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_groups import Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions

TOPIC = bytes(range(16))


def answer(
    epoch: int = 1, target: dict[bytes, list[int]] | None = None, error: ErrorCode = ErrorCode.NONE
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=5000,
        assignment=None
        if target is None
        else Assignment(
            topic_partitions=[TopicPartitions(topic_id=key, partitions=each) for key, each in target.items()]
        ),
    )


def joined(instance_id: str | None = None) -> ConsumerMember:
    made = ConsumerMember(GroupSettings("g", instance_id), "m")
    made.subscribe(Wanted(frozenset({"t"})))
    made.heartbeat_request()
    made.answered(answer(1, {}))
    assert made.state is State.STABLE
    return made


def test_joining_says_all_and_then_only_what_changed() -> None:
    made = ConsumerMember(GroupSettings("g"), "m", "uniform")
    made.subscribe(Wanted(frozenset({"b", "a"})))

    first = made.heartbeat_request()
    made.answered(answer(1, {}))
    second = made.heartbeat_request()

    assert (first.member_epoch, first.subscribed_topic_names, first.topic_partitions) == (0, ["a", "b"], [])
    assert (first.server_assignor, first.rebalance_timeout_ms) == ("uniform", 300_000)
    assert (second.member_epoch, second.subscribed_topic_names, second.topic_partitions) == (1, None, None)
    assert (second.server_assignor, second.rebalance_timeout_ms) == (None, -1)


def test_a_target_is_reconciled_and_acknowledged() -> None:
    made = joined()
    made.answered(answer(2, {TOPIC: [1, 0]}))
    assert made.needs_reconciling
    assert made.target == {TOPIC: [0, 1]}

    made.reconciled({TOPIC: [0, 1]})
    assert made.has_news
    said = made.heartbeat_request()
    made.answered(answer(2))

    assert [(each.topic_id, each.partitions) for each in said.topic_partitions or []] == [(TOPIC, [0, 1])]
    assert made.state is State.STABLE
    assert made.heartbeat_request().topic_partitions is None


def test_a_target_that_changes_on_the_way_is_reconciled_again() -> None:
    made = joined()
    made.answered(answer(2, {TOPIC: [0, 1]}))
    made.reconciled({TOPIC: [0, 1]})
    made.heartbeat_request()

    made.answered(answer(3, {TOPIC: [0]}))

    assert made.needs_reconciling


def test_after_silence_everything_is_said_again() -> None:
    made = joined()
    made.heartbeat_request()
    made.unanswered()

    again = made.heartbeat_request()

    assert (again.member_epoch, again.subscribed_topic_names, again.topic_partitions) == (1, ["t"], [])


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_gives_up_and_joins_again_under_its_id(error: ErrorCode) -> None:
    made = joined()
    made.answered(answer(2, {TOPIC: [0]}))
    made.reconciled({TOPIC: [0]})

    assert made.answered(answer(error=error)) is Next.LOST
    assert made.state is State.FENCED
    assert not made.is_in_group
    made.given_up()

    request = made.heartbeat_request()
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("m", 0, [])


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
    assert made.is_in_group


@pytest.mark.parametrize(
    "error",
    [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.INVALID_REGULAR_EXPRESSION, ErrorCode.GROUP_AUTHORIZATION_FAILED],
)
def test_what_ends_a_membership_is_told_to_the_application(error: ErrorCode) -> None:
    made = joined()

    outcome = made.answered(answer(error=error))

    assert isinstance(outcome, Failed)
    assert outcome.error.code is error
    assert made.state is State.UNSUBSCRIBED


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("one", -2)])
def test_a_static_member_leaves_for_a_while(instance_id: str | None, epoch: int) -> None:
    assert joined(instance_id).leave_request().member_epoch == epoch


def test_a_pattern_is_sent_and_taken_back() -> None:
    made = ConsumerMember(GroupSettings("g"), "m")
    made.subscribe(Wanted(regex="a.*"))
    assert made.heartbeat_request().subscribed_topic_regex == "a.*"
    made.answered(answer(1, {}))

    made.subscribe(Wanted(frozenset({"t"})))

    request = made.heartbeat_request()
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("", ["t"])
