"""A classic member against whatever a coordinator may say."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.client.consumer.assignors import ASSIGNORS
from tidelog.client.consumer.classic_member import Assigned, ClassicMember, GroupSettings, Leading, State
from tidelog.client.consumer.group_protocol import decode_subscription, encode_assignment
from tidelog.client.consumer.membership import Failed, Next
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import FencedError
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(*assignors: str, instance_id: str | None = None) -> ClassicMember:
    return ClassicMember(GroupSettings("g", instance_id), [ASSIGNORS[each] for each in assignors or ("range",)])


def join_answer(error: ErrorCode = ErrorCode.NONE, member_id: str = "m1", **fields: object) -> JoinGroupResponse:
    settled: dict[str, Any] = {
        "generation_id": 4,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": "m0",
        "members": [],
        **fields,
    }
    return JoinGroupResponse(throttle_time_ms=0, error_code=error, member_id=member_id, **settled)


def sync_answer(error: ErrorCode = ErrorCode.NONE, *partitions: TopicPartition) -> SyncGroupResponse:
    return SyncGroupResponse(throttle_time_ms=0, error_code=error, assignment=encode_assignment(partitions))


def stable(*assignors: str, instance_id: str | None = None) -> ClassicMember:
    made = member(*assignors, instance_id=instance_id)
    made.join_request(["t"], [])
    assert made.joined(join_answer(protocol_name=(assignors or ("range",))[0])) is Next.GO_ON
    assert made.synced(sync_answer(ErrorCode.NONE, T0)) == Assigned((T0,))
    assert made.state is State.STABLE
    return made


def test_the_first_join_only_brings_a_member_id() -> None:
    made = member()
    assert made.join_request(["t"], []).member_id == ""

    assert made.joined(join_answer(ErrorCode.MEMBER_ID_REQUIRED, "m1")) is Next.REJOIN

    assert made.join_request(["t"], []).member_id == "m1"


def test_a_leader_shares_out_for_all() -> None:
    made = member("range")
    joining = [
        JoinGroupResponseMember(member_id=each, metadata=member().join_request(["t"], []).protocols[0].metadata)
        for each in ("m1", "m2")
    ]
    leading = made.joined(join_answer(leader="m1", members=joining))
    assert isinstance(leading, Leading)
    assert leading.topics == {"t"}

    shared = made.share_out(leading, {"t": [frozenset()] * 2})

    assert {each.member_id: each.assignment for each in shared} == {
        "m1": encode_assignment([T0]),
        "m2": encode_assignment([T1]),
    }


def test_a_leader_that_may_skip_the_assignment_sends_none() -> None:
    made = member("range", instance_id="i")
    leading = made.joined(join_answer(leader="m1", skip_assignment=True))
    assert isinstance(leading, Leading)

    assert made.share_out(leading, {}) == []


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Next.RETRY),
        (ErrorCode.NOT_COORDINATOR, Next.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Next.FIND_COORDINATOR),
        (ErrorCode.REBALANCE_IN_PROGRESS, Next.REJOIN),
        (ErrorCode.UNKNOWN_MEMBER_ID, Next.LOST),
        (ErrorCode.ILLEGAL_GENERATION, Next.LOST),
    ],
)
def test_what_a_heartbeat_may_hear(error: ErrorCode, outcome: Next) -> None:
    made = stable()

    assert made.heartbeat_answered(error) is outcome

    keeps_its_place = outcome in {Next.RETRY, Next.FIND_COORDINATOR}
    assert (made.state is State.STABLE) == keeps_its_place
    assert (made.member_id == "") == (error is ErrorCode.UNKNOWN_MEMBER_ID)
    assert made.is_in_group == (outcome is not Next.LOST)


def test_an_unknown_member_joins_as_a_new_one_and_remembers_what_it_had() -> None:
    made = stable("sticky")
    made.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID)

    request = made.join_request(["t"], [])

    assert request.member_id == ""
    assert request.reason == "the coordinator does not know the member id"
    claimed = decode_subscription(bytes(request.protocols[0].metadata), None)
    assert ASSIGNORS["sticky"].claim_of(claimed) == ((T0,), 4)  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_what_ends_a_membership_is_told_to_the_application(error: ErrorCode) -> None:
    made = stable(instance_id="one")

    outcome = made.heartbeat_answered(error)

    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, FencedError) == (error is ErrorCode.FENCED_INSTANCE_ID)
    assert outcome.error.code is error


def test_a_sync_into_a_rebalance_joins_again_with_the_same_id() -> None:
    made = member()
    made.join_request(["t"], [])
    made.joined(join_answer())

    assert made.synced(sync_answer(ErrorCode.REBALANCE_IN_PROGRESS)) is Next.REJOIN
    assert made.join_request(["t"], []).member_id == "m1"


def test_only_assignors_that_all_cooperate_keep_partitions() -> None:
    assert member("cooperative-sticky").is_cooperative
    assert not member("range", "cooperative-sticky").is_cooperative


def test_a_cooperative_member_says_what_it_keeps() -> None:
    made = stable("cooperative-sticky")

    request = made.join_request(["t"], [T0])

    said = decode_subscription(bytes(request.protocols[0].metadata), None)
    assert (said.owned, said.generation_id) == ((T0,), 4)


def test_an_assignor_that_nobody_here_knows_is_an_error() -> None:
    made = member()

    assert isinstance(made.joined(join_answer(protocol_name="streams")), Failed)


def test_leaving_in_old_and_new_versions() -> None:
    made = stable()

    assert made.leave_request(2, "why").member_id == "m1"
    assert [each.member_id for each in made.leave_request(5, "why").members] == ["m1"]
