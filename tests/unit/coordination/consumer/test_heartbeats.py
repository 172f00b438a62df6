"""A group of the consumer protocol, by what its members send and are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.coordination.consumer.consumer_harness import (
    GROUP,
    RETRY_MS,
    Shard,
    assigned,
    partition_count,
    topic_id,
    topics_of,
)
from tidelog.coordination.consumer.member import MemberState
from tidelog.coordination.group_settings import ConsumerGroupLimits, GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.consumer_groups import ConsumerGroupHeartbeatResponse

SESSION_MS = 45_000


def _kinds(records: list[CoordinatorRecord]) -> list[str]:
    return [
        type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key") + ("" if record.value else " gone")
        for record in records
    ]


def _settle(shard: Shard, *members: str) -> None:
    """Let members heartbeat, with nothing to hold on to, until all have what they should have."""
    for _ in range(6):
        for member_id in members:
            member = shard.group.members[member_id]
            owned = {bytes(t).lstrip(b"\x01").decode(): list(epochs) for t, epochs in member.assigned.items()}
            assert shard.send(member_id, member.member_epoch, owned).error_code == 0
    assert shard.group.state_name == "Stable"


class TestJoining:
    def test_the_first_member_gets_everything_at_once(self) -> None:
        shard = Shard()
        answer = shard.join("A", "a", "b")
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "A", 2)
        assert answer.heartbeat_interval_ms == 5_000
        assert assigned(answer) == {"a": [0, 1, 2, 3], "b": [0, 1]}
        assert shard.group.state_name == "Stable"

    def test_records_come_in_kafkas_order(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        assert _kinds(shard.log) == [
            "MemberMetadata",
            "Metadata",
            "TargetAssignmentMember",
            "TargetAssignmentMetadata",
            "CurrentMemberAssignment",
        ]

    def test_a_member_without_an_id_is_given_one_before_version_1(self) -> None:
        shard = Shard()
        answer = shard.join("", "a", api_version=0)
        assert answer.member_id
        assert len(answer.member_id) == 22
        assert list(shard.group.members) == [answer.member_id]

    def test_a_member_may_subscribe_to_topics_that_come_later(self) -> None:
        shard = Shard()
        answer = shard.join("A", "later")
        assert assigned(answer) == {}
        shard.change_topics(topics_of(later=2), "later")
        assert assigned(shard.send("A", answer.member_epoch)) == {"later": [0, 1]}

    def test_a_member_that_joins_again_gets_what_it_had(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        answer = shard.join("A", "a")
        assert (answer.member_epoch, assigned(answer)) == (2, {"a": [0, 1, 2, 3]})

    def test_a_group_that_is_full_refuses_new_members_only(self) -> None:
        shard = Shard(settings=GroupSettings(consumer_max_size=1))
        shard.join("A", "a")
        assert shard.join("B", "a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert shard.join("A", "a").error_code == 0

    @pytest.mark.parametrize("policy", ["uniform", "range"])
    def test_members_choose_the_assignor(self, policy: str) -> None:
        shard = Shard()
        shard.join("A", "a", server_assignor=policy)
        assert shard.consumer.describe(shard.group).assignor_name == policy


class TestReconciliation:
    def test_a_second_member_waits_until_the_first_lets_go(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        answer = shard.join("B", "a")
        assert (answer.member_epoch, assigned(answer)) == (3, {})
        assert shard.group.members["B"].state is MemberState.UNRELEASED_PARTITIONS
        assert assigned(shard.send("A", 2)) == {"a": [0, 1]}
        assert shard.group.members["A"].state is MemberState.UNREVOKED_PARTITIONS
        assert assigned(shard.send("B", 3)) is None
        # Not said is not let go, nor is part of it.
        assert shard.send("A", 2).member_epoch == 2
        assert shard.send("A", 2, {"a": [0, 1, 3]}).member_epoch == 2
        answer = shard.send("A", 2, {"a": [0, 1]})
        assert (answer.member_epoch, assigned(answer)) == (3, None)
        assert assigned(shard.send("B", 3)) == {"a": [2, 3]}
        assert shard.group.state_name == "Stable"

    def test_a_quiet_heartbeat_writes_nothing_and_carries_no_assignment(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.send("A", 2)
        written = len(shard.log)
        assert shard.send("A", 2).assignment is None
        assert len(shard.log) == written

    def test_a_full_request_is_answered_in_full(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        answer = shard.send("A", 2, {"a": [0, 1, 2, 3]}, subscribed_topic_names=["a"], rebalance_timeout_ms=60_000)
        assert assigned(answer) == {"a": [0, 1, 2, 3]}

    def test_a_member_that_leaves_hands_its_partitions_over(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.join("B", "a")
        _settle(shard, "A", "B")
        epoch = shard.group.epoch
        answer = shard.send("B", -1)
        assert (answer.error_code, answer.member_epoch) == (0, -1)
        assert shard.group.epoch == epoch + 1
        assert assigned(shard.send("A", epoch)) == {"a": [0, 1, 2, 3]}

    def test_a_topic_that_is_left_out_is_revoked(self) -> None:
        shard = Shard()
        shard.join("A", "a", "b")
        answer = shard.send("A", 2, subscribed_topic_names=["b"])
        assert (answer.member_epoch, assigned(answer)) == (2, {"b": [0, 1]})
        assert shard.send("A", 2, {"b": [0, 1]}).member_epoch == 3

    def test_topics_grow_and_go(self) -> None:
        shard = Shard()
        shard.join("A", "a", "b")
        shard.change_topics(topics_of(a=6, b=2), "a")
        answer = shard.send("A", 2)
        assert (answer.member_epoch, assigned(answer)) == (3, {"a": [0, 1, 2, 3, 4, 5], "b": [0, 1]})
        shard.change_topics(topics_of(a=6), "b")
        assert assigned(shard.send("A", 3)) == {"a": [0, 1, 2, 3, 4, 5]}

    def test_a_change_of_topics_that_nobody_reads_changes_nothing(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.send("A", 2)
        written = len(shard.log)
        shard.change_topics(topics_of(a=4, b=9), "b")
        assert shard.send("A", 2).member_epoch == 2
        assert len(shard.log) == written

    def test_changes_within_the_assignment_interval_share_an_assignment(self) -> None:
        limits = ConsumerGroupLimits(assignment_interval_ms=1_000)
        shard = Shard(settings=GroupSettings(consumer_limits_of=lambda _group: limits))
        shard.join("A", "a")
        shard.now_ms += 500
        assert assigned(shard.join("B", "a")) == {}
        assert shard.group.state_name == "Assigning"
        assert (shard.group.epoch, shard.group.assignment_epoch) == (3, 2)
        shard.now_ms += 500
        assert shard.send("A", 2).assignment is not None
        assert shard.group.assignment_epoch == 3

    def test_a_state_of_a_later_release_begins_anew(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        for record in [r for r in shard.log if _kinds([r]) == ["CurrentMemberAssignment"]]:
            record.value.state = 77  # type: ignore[union-attr]
            shard.replay(record)
        assert shard.send("A", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert shard.send("A", 2, {}).error_code == 0
        assert shard.group.state_name == "Stable"


class TestFencing:
    def test_epochs_that_are_not_the_members_own(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        assert shard.send("A", 3).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert shard.send("A", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert shard.send("X", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert shard.send("X", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert shard.send("A", 2, group_id="other").error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert shard.send("A", -1, group_id="other").error_code == ErrorCode.GROUP_ID_NOT_FOUND

    def test_the_epoch_before_is_accepted_with_nothing_but_ones_own(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.change_topics(topics_of(a=5), "a")
        assert shard.send("A", 2).member_epoch == 3
        assert shard.send("A", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert shard.send("A", 2, {"b": [0]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert shard.send("A", 2, {"a": [0, 9]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert shard.send("A", 2, {"a": [0, 1]}).member_epoch == 3

    def test_a_silent_member_is_taken_out(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.join("B", "a")
        shard.pass_ms(SESSION_MS - 1)
        shard.send("A", 2)
        shard.pass_ms(1)
        assert list(shard.group.members) == ["A"]
        assert not shard.group.targets.get("B")

    def test_a_member_that_does_not_let_go_in_time_is_taken_out(self) -> None:
        shard = Shard()
        shard.join("A", "a", rebalance_timeout_ms=10_000)
        shard.join("B", "a", rebalance_timeout_ms=10_000)
        shard.send("A", 2)
        shard.pass_ms(9_999)
        shard.send("A", 2)
        assert "A" in shard.group.members
        shard.pass_ms(1)
        assert list(shard.group.members) == ["B"]
        assert partition_count(assigned(shard.send("B", 3))) == 4

    def test_a_member_that_let_go_in_time_stays(self) -> None:
        shard = Shard()
        shard.join("A", "a", rebalance_timeout_ms=10_000)
        shard.join("B", "a")
        shard.send("A", 2)
        shard.send("A", 2, {"a": [0, 1]})
        shard.pass_ms(20_000)
        assert sorted(shard.group.members) == ["A", "B"]

    def test_an_expiry_that_could_not_be_written_comes_again(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
        shard.pass_ms(SESSION_MS)
        assert "A" in shard.group.members
        shard.pass_ms(SESSION_MS)
        assert shard.group.is_empty

    def test_offsets_are_only_taken_from_a_member_in_its_epoch(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.join("B", "a")
        _settle(shard, "A", "B")
        group, epoch = shard.group, shard.group.epoch
        assert group.check_commit("A", None, epoch, 9, 0) == ErrorCode.NONE
        assert group.check_commit("A", None, epoch - 1, 9, 0) == ErrorCode.STALE_MEMBER_EPOCH
        assert group.check_commit("A", None, epoch + 1, 9, 0) == ErrorCode.STALE_MEMBER_EPOCH
        assert group.check_commit("X", None, epoch, 9, 0) == ErrorCode.UNKNOWN_MEMBER_ID
        assert group.check_commit("", None, -1, 9, 0) == ErrorCode.UNKNOWN_MEMBER_ID
        assert group.check_commit("A", None, epoch, 8, 0) == ErrorCode.UNSUPPORTED_VERSION
        # A kept partition 0 since epoch 2; B got partition 2 with epoch 3.
        assert group.check_commit_of("A", 2, topic_id("a"), 0) == ErrorCode.NONE
        assert group.check_commit_of("B", 2, topic_id("a"), 2) == ErrorCode.STALE_MEMBER_EPOCH
        assert group.check_commit_of("A", 2, topic_id("a"), 2) == ErrorCode.STALE_MEMBER_EPOCH
        assert group.check_commit_of("A", 9, topic_id("a"), 0) == ErrorCode.STALE_MEMBER_EPOCH
        assert group.check_fetch("A", epoch) == ErrorCode.NONE
        assert group.check_fetch(None, -1) == ErrorCode.NONE
        assert group.check_fetch("A", epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
        assert group.check_fetch("X", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
        assert group.check_delete() == ErrorCode.NON_EMPTY_GROUP

    def test_an_empty_group_takes_offsets_from_an_administrator_and_can_end(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.send("A", -1)
        assert (shard.group.state_name, shard.group.is_empty) == ("Empty", True)
        assert shard.group.check_commit("", None, -1, 9, 0) == ErrorCode.NONE
        assert shard.group.check_delete() == ErrorCode.NONE
        for record in shard.group.tombstones():
            shard.replay(record)
        assert GROUP not in shard.groups
        assert len(shard.deadlines) == 0


class TestStaticMembers:
    def test_one_that_will_be_back_keeps_its_partitions(self) -> None:
        shard = Shard()
        shard.join("A", "a", instance_id="i")
        answer = shard.send("A", -2, instance_id="i")
        assert (answer.error_code, answer.member_epoch) == (0, -2)
        epoch = shard.group.epoch
        answer = shard.join("A2", "a", instance_id="i")
        assert (answer.member_epoch, assigned(answer)) == (epoch, {"a": [0, 1, 2, 3]})
        assert list(shard.group.members) == ["A2"]
        assert shard.group.epoch == epoch

    def test_one_that_comes_back_under_the_same_member_id_is_watched_again(self) -> None:
        shard = Shard()
        shard.join("A", "a", instance_id="i")
        shard.send("A", -2, instance_id="i")
        assert assigned(shard.join("A", "a", instance_id="i")) == {"a": [0, 1, 2, 3]}
        shard.pass_ms(SESSION_MS)
        assert shard.group.is_empty

    def test_one_that_does_not_come_back_is_taken_out(self) -> None:
        shard = Shard()
        shard.join("A", "a", instance_id="i")
        shard.send("A", -2, instance_id="i")
        shard.pass_ms(SESSION_MS)
        assert shard.group.is_empty

    def test_an_instance_id_has_one_holder(self) -> None:
        shard = Shard()
        shard.join("A", "a", instance_id="i")
        assert shard.join("B", "a", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        assert shard.send("B", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
        assert shard.send("B", -1, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
        assert shard.send("B", 2, instance_id="other").error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_zombie_of_one_that_came_back_is_fenced(self) -> None:
        shard = Shard()
        shard.join("A", "a", instance_id="i")
        shard.send("A", -2, instance_id="i")
        shard.join("A2", "a", instance_id="i")
        assert shard.send("A", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
        assert shard.send("A", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def resolved(shard: Shard, member_id: str, regex: str) -> ConsumerGroupHeartbeatResponse:
    """The second answer to a member that joins with an expression: it is resolved between the two."""
    joined = shard.join(member_id, subscribed_topic_regex=regex)
    shard.pass_ms(0)
    return shard.send(member_id, joined.member_epoch)


class TestRegularExpressions:
    def test_an_expression_stands_for_all_topics_that_it_matches_as_a_whole(self) -> None:
        shard = Shard(topics_of(ab=1, ac=2, bab=1))
        answer = shard.join("A", subscribed_topic_regex="a.")
        assert (answer.member_epoch, assigned(answer)) == (1, {})
        assert _kinds(shard.log) == ["MemberMetadata", "CurrentMemberAssignment"]
        shard.pass_ms(0)
        assert _kinds(shard.log)[2:] == ["RegularExpression", "Metadata"]
        answer = shard.send("A", 1)
        assert (answer.member_epoch, assigned(answer)) == (2, {"ab": [0], "ac": [0, 1]})

    def test_one_that_others_have_already_counts_at_once(self) -> None:
        shard = Shard(topics_of(ab=1, ac=2, bab=1))
        shard.join("A", subscribed_topic_regex="a.")
        shard.pass_ms(0)
        assert shard.join("B", subscribed_topic_regex="a.").member_epoch == 3
        shard.pass_ms(0)
        assert shard.group.epoch == 3

    def test_a_second_one_is_resolved_when_the_first_one_may_be_again(self) -> None:
        shard = Shard(topics_of(ab=1, ac=1, b=1))
        epoch = resolved(shard, "A", "a.").member_epoch
        assert shard.join("B", subscribed_topic_regex="b").member_epoch == epoch
        shard.pass_ms(10_000)
        shard.send("B", epoch)
        shard.pass_ms(0)
        assert list(shard.group.resolved_regexes) == ["a."]
        shard.pass_ms(1)
        shard.send("B", epoch)
        shard.pass_ms(0)
        assert assigned(shard.send("B", epoch)) == {"b": [0]}

    def test_what_cannot_be_written_down_is_resolved_again(self) -> None:
        shard = Shard(topics_of(ab=1))
        shard.join("A", subscribed_topic_regex="a.")
        shard.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
        shard.pass_ms(0)
        assert shard.group.resolved_regexes == {}
        shard.pass_ms(RETRY_MS)
        assert assigned(shard.send("A", 1)) == {"ab": [0]}

    def test_a_group_that_is_gone_by_then_needs_none(self) -> None:
        shard = Shard(topics_of(ab=1))
        shard.join("A", subscribed_topic_regex="a.")
        shard.send("A", -1)
        written = len(shard.log)
        shard.pass_ms(0)
        assert len(shard.log) == written

    def test_it_adds_to_the_names(self) -> None:
        shard = Shard(topics_of(ab=1, ac=2, b=1))
        joined = shard.join("A", "b", subscribed_topic_regex="ab")
        assert (joined.member_epoch, assigned(joined)) == (2, {"b": [0]})
        shard.pass_ms(0)
        assert assigned(shard.send("A", 2)) == {"ab": [0], "b": [0]}

    def test_new_topics_are_found_with_the_next_refresh(self) -> None:
        shard = Shard(topics_of(ab=1))
        epoch = resolved(shard, "A", "a.").member_epoch
        shard.change_topics(topics_of(ab=1, ac=1), "ac")
        shard.pass_ms(10_000)
        assert shard.send("A", epoch).assignment is None
        shard.pass_ms(1)
        assert shard.send("A", epoch).assignment is None
        shard.pass_ms(0)
        assert assigned(shard.send("A", epoch)) == {"ab": [0], "ac": [0]}
        written = len(shard.log)
        shard.now_ms += 20_000
        shard.send("A", epoch + 1)
        assert len(shard.log) == written

    def test_it_is_resolved_again_after_the_refresh_interval(self) -> None:
        shard = Shard(topics_of(ab=1), settings=GroupSettings(consumer_regex_refresh_interval_ms=30_000))
        epoch = resolved(shard, "A", "a.").member_epoch
        shard.pass_ms(30_001)
        shard.send("A", epoch)
        shard.pass_ms(0)
        assert _kinds(shard.log)[-1] == "RegularExpression"

    def test_what_nobody_subscribes_by_any_more_is_forgotten(self) -> None:
        shard = Shard(topics_of(ab=1, b=1))
        epoch = resolved(shard, "A", "a.").member_epoch
        shard.send("A", epoch, subscribed_topic_names=["b"], subscribed_topic_regex="")
        assert shard.group.resolved_regexes == {}
        resolved(shard, "B", "a.")
        shard.send("B", -1)
        assert shard.group.resolved_regexes == {}
        assert not shard.group.is_subscribed_to("ab")

    @pytest.mark.parametrize("regex", ["(", "a(?=b)", r"(a)\1"])
    def test_what_is_not_re2_is_refused(self, regex: str) -> None:
        shard = Shard()
        answer = shard.join("A", subscribed_topic_regex=regex)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert regex in (answer.error_message or "")
        assert not shard.log


class TestBadRequests:
    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"epoch": 0, "member_id": ""}, "MemberId can't be empty."),
            ({"epoch": 1, "member_id": "", "api_version": 0}, "MemberId can't be empty."),
            ({"epoch": -1, "member_id": "", "api_version": 0}, "MemberId can't be empty."),
            ({"epoch": 1, "group_id": ""}, "GroupId can't be empty."),
            ({"epoch": 1, "instance_id": ""}, "InstanceId can't be empty."),
            ({"epoch": 1, "rack_id": " "}, "RackId can't be empty."),
            ({"epoch": 0, "owned": {}}, "RebalanceTimeoutMs must be provided in first request."),
            ({"epoch": 0, "rebalance_timeout_ms": 1}, "TopicPartitions must be empty when (re-)joining."),
            (
                {"epoch": 0, "rebalance_timeout_ms": 1, "owned": {"a": [0]}},
                "TopicPartitions must be empty when (re-)joining.",
            ),
            (
                {"epoch": 0, "rebalance_timeout_ms": 1, "owned": {}},
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            ),
            ({"epoch": -2}, "InstanceId can't be null."),
            ({"epoch": -3}, "MemberEpoch is invalid."),
        ],
    )
    def test_what_no_group_would_grant(self, fields: dict[str, Any], sentence: str) -> None:
        shard = Shard()
        answer = shard.send(fields.pop("member_id", "A"), fields.pop("epoch"), fields.pop("owned", None), **fields)
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, sentence)
        assert not shard.log

    def test_an_assignor_that_is_not_there(self) -> None:
        answer = Shard().join("A", "a", server_assignor="best")
        assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        assert answer.error_message == "ServerAssignor best is not supported. Supported assignors: uniform, range."


class TestRestart:
    def test_a_group_goes_on_where_it_was(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.join("B", "a")
        shard.send("A", 2)
        other = shard.reloaded()
        assert assigned(other.send("A", 2, {"a": [0, 1]})) is None
        assert assigned(other.send("B", 3)) == {"a": [2, 3]}

    def test_every_member_has_a_session_to_come_back_in(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.join("B", "a", rebalance_timeout_ms=1_000)
        shard.send("A", 2)
        other = shard.reloaded()
        other.pass_ms(SESSION_MS - 1)
        assert sorted(other.group.members) == ["A", "B"]
        other.pass_ms(60_000)
        assert other.group.is_empty

    def test_an_append_that_is_refused_changes_nothing(self) -> None:
        shard = Shard()
        shard.join("A", "a")
        shard.send("A", 2)
        shard.change_topics(topics_of(a=5), "a")
        shard.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
        assert shard.apply(shard.decide("A", 2)) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert shard.group.epoch == 2
        assert assigned(shard.send("A", 2)) == {"a": [0, 1, 2, 3, 4]}


def test_describe_says_what_members_have_and_should_have() -> None:
    shard = Shard()
    shard.join("A", "a", rack_id="r", instance_id="i")
    shard.join("B", "a")
    shard.send("A", 2)
    described = shard.consumer.describe(shard.group)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    assert described.assignor_name == "uniform"
    first = described.members[0]
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("A", "i", "r", 2)
    assert (first.client_id, first.client_host, first.subscribed_topic_names) == ("client", "/127.0.0.1", ["a"])
    assert first.member_type == 1
    [has] = first.assignment.topic_partitions
    [should] = first.target_assignment.topic_partitions
    assert (has.topic_name, has.partitions, should.partitions) == ("a", [0, 1, 2, 3], [0, 1])
