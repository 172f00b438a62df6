"""Heartbeats of streams groups: who gets which tasks and when, which epoch counts, what is refused, and what is written."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.streams_groups import (
    GROUP,
    STATEFUL,
    Claims,
    Clients,
    StreamsGroupDriver,
    info,
    join,
    part,
    some_topics,
    task_ids,
    tasks_in,
    topology,
)
from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.decision import Decision
from tidelog.coordination.group_settings import GroupSettings, StreamsGroupLimits
from tidelog.coordination.streams.configured_topology import StatusCode
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.internal.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from tidelog.wire.messages.streams_groups import KeyValue, StreamsGroupHeartbeatResponse

DELAY_MS, INTERVAL_MS, SESSION_MS, REBALANCE_MS = 3_000, 1_000, 45_000, 30_000


@pytest.fixture
def driver() -> StreamsGroupDriver:
    return StreamsGroupDriver()


@pytest.fixture
def ready() -> StreamsGroupDriver:
    """All topics of a stateful topology are there, and nobody waits for first members."""
    driver = StreamsGroupDriver(topics=some_topics(words=4, counts_changelog=4))
    driver.limits = StreamsGroupLimits(initial_rebalance_delay_ms=0)
    return driver


def codes(answer: StreamsGroupHeartbeatResponse) -> list[StatusCode]:
    return [StatusCode(each.status_code) for each in answer.status or ()]


def details(answer: StreamsGroupHeartbeatResponse) -> list[str]:
    return [each.status_detail for each in answer.status or ()]


def refused(answer: StreamsGroupHeartbeatResponse) -> tuple[ErrorCode, str | None]:
    return ErrorCode.of(answer.error_code), answer.error_message


# Joining


def test_a_new_group_waits_for_more_members_and_then_shares_out_all_tasks(driver: StreamsGroupDriver) -> None:
    first, second = driver.join("a"), driver.join("b")
    driver.advance(DELAY_MS)
    tasks = [
        tasks_in(driver.heartbeat(name, answer.member_epoch).active_tasks)
        for name, answer in (("a", first), ("b", second))
    ]

    assert codes(first) == codes(second) == [StatusCode.ASSIGNMENT_DELAYED]
    assert details(first) == ["Assignment delayed due to the configured initial rebalance delay."]
    assert (first.member_epoch, first.active_tasks, first.heartbeat_interval_ms) == (1, [], 5_000)
    assert tasks == [{"0": (0, 2)}, {"0": (1, 3)}]
    assert driver.group.state_name == "Stable"


def test_without_a_delay_the_first_member_has_everything_at_once(ready: StreamsGroupDriver) -> None:
    answer = ready.join("m", topology(STATEFUL))

    assert tasks_in(answer.active_tasks) == {"0": (0, 1, 2, 3)}
    assert (answer.member_epoch, answer.status, answer.standby_tasks, answer.warmup_tasks) == (2, [], [], [])


def test_a_join_is_written_in_the_order_of_kafka(ready: StreamsGroupDriver) -> None:
    ready.join("m", topology(STATEFUL))

    assert [type(record.key) for record in ready.records] == [
        StreamsGroupMemberMetadataKey,
        StreamsGroupTopologyKey,
        StreamsGroupMetadataKey,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupCurrentMemberAssignmentKey,
    ]
    group, current = ready.records[2].value, ready.records[5].value
    assert isinstance(group, StreamsGroupMetadataValue)
    assert (group.epoch, group.validated_topology_epoch) == (2, 0)
    assert [(each.key, each.value) for each in group.last_assignment_configs or ()] == [("num.standby.replicas", "0")]
    assert isinstance(current, StreamsGroupCurrentMemberAssignmentValue)
    assert (current.state, current.active_tasks[0].assignment_epochs) == (1, [2, 2, 2, 2])


def test_a_member_with_nothing_new_to_say_costs_no_record(ready: StreamsGroupDriver) -> None:
    epoch = ready.join("m", topology(STATEFUL)).member_epoch
    written = len(ready.log)

    answer = ready.heartbeat("m", epoch)

    assert (answer.member_epoch, answer.active_tasks, answer.status) == (epoch, None, [])
    assert len(ready.log) == written


def test_the_time_between_two_assignments_is_kept(ready: StreamsGroupDriver) -> None:
    ready.join("a", topology(STATEFUL))
    late = ready.join("b", topology(STATEFUL))
    ready.advance(INTERVAL_MS)
    served = ready.heartbeat("b", late.member_epoch)

    assert details(late) == ["Assignment delayed due to the configured assignment interval."]
    assert (codes(served), served.member_epoch) == ([], 3)


def test_a_group_that_lost_its_first_member_while_it_waited_is_assigned_nothing(driver: StreamsGroupDriver) -> None:
    driver.join("m")
    driver.leave("m")
    written = len(driver.log)
    driver.advance(DELAY_MS)

    assert len(driver.log) == written


# Revocation


def test_a_task_is_given_on_only_when_its_owner_has_let_go_of_it(ready: StreamsGroupDriver) -> None:
    clients = Clients(ready)
    clients.join("a")
    clients.settle()
    clients.join("b")
    ready.advance(INTERVAL_MS)
    clients.beat("b")
    waiting = clients.has["b"]
    asked = ready.heartbeat("a", clients.epochs["a"], clients.has["a"])
    still_waiting = clients.beat("b")
    kept: Claims = tasks_in(asked.active_tasks), {}
    ready.heartbeat("a", asked.member_epoch, kept)
    clients.beat("b")

    assert waiting == ({}, {})
    assert (asked.member_epoch, kept[0]) == (2, {"0": (0, 1)})
    assert still_waiting.active_tasks is None
    assert clients.has["b"] == ({"0": (2, 3)}, {})
    assert ready.group.members["a"].member_epoch == ready.group.members["b"].member_epoch


def test_a_member_that_does_not_let_go_in_time_is_taken_out(ready: StreamsGroupDriver) -> None:
    epoch = ready.join("a", topology(STATEFUL)).member_epoch
    ready.join("b", topology(STATEFUL))
    ready.advance(INTERVAL_MS)
    ready.heartbeat("b", 2)
    ready.heartbeat("a", epoch, ({"0": [0, 1, 2, 3]}, {}))
    ready.advance(REBALANCE_MS - 1)
    ready.heartbeat("a", epoch, ({"0": [0, 1, 2, 3]}, {}))
    assert set(ready.group.members) == {"a", "b"}
    ready.advance(1)

    assert set(ready.group.members) == {"b"}


def test_a_standby_is_on_another_process_and_takes_over(ready: StreamsGroupDriver) -> None:
    ready.limits = StreamsGroupLimits(initial_rebalance_delay_ms=0, num_standby_replicas=1)
    clients = Clients(ready)
    clients.join("a", "p")
    clients.join("b", "q")
    clients.settle()
    before = dict(clients.has)
    ready.leave("a")
    del clients.epochs["a"]
    clients.settle()

    assert before["a"][0] == before["b"][1]
    assert before["b"][0] == before["a"][1]
    assert clients.has["b"] == ({"0": (0, 1, 2, 3)}, {})


def test_the_members_of_one_process_have_no_standbys_of_each_other(ready: StreamsGroupDriver) -> None:
    ready.limits = StreamsGroupLimits(initial_rebalance_delay_ms=0, num_standby_replicas=1)
    clients = Clients(ready)
    clients.join("a", "p")
    clients.join("b", "p")
    clients.settle()

    assert clients.has["a"][1] == clients.has["b"][1] == {}


def test_another_number_of_standbys_is_another_assignment(ready: StreamsGroupDriver) -> None:
    clients = Clients(ready)
    clients.join("a", "p")
    clients.join("b", "q")
    clients.settle()
    assert clients.has["a"][1] == {}
    ready.limits = StreamsGroupLimits(initial_rebalance_delay_ms=0, num_standby_replicas=1)
    clients.settle()

    assert clients.has["a"][1] == clients.has["b"][0]


# Epochs


def test_a_lost_answer_is_made_up_for(ready: StreamsGroupDriver) -> None:
    clients = Clients(ready)
    clients.join("a")
    clients.settle()
    epoch = clients.epochs["a"]
    clients.join("b")
    ready.advance(INTERVAL_MS)
    clients.beat("b")
    ready.heartbeat("a", epoch, ({"0": [0, 1]}, {}))

    again = ready.heartbeat("a", epoch, ({"0": [0, 1]}, {}))
    assert (again.error_code, again.member_epoch) == (0, epoch + 1)
    fenced = ready.heartbeat("a", epoch, ({"0": [0, 1, 2]}, {}))
    assert refused(fenced) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        (
            f"The streams group member has a smaller member epoch ({epoch}) than the one known by the group coordinator "
            f"({epoch + 1}). The member must abandon all its partitions and rejoin."
        ),
    )


def test_an_epoch_that_is_not_reached_yet_is_fenced(ready: StreamsGroupDriver) -> None:
    epoch = ready.join("m", topology(STATEFUL)).member_epoch

    code, message = refused(ready.heartbeat("m", epoch + 1))

    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert message is not None
    assert f"greater member epoch ({epoch + 1})" in message


def test_a_silent_member_is_taken_out_and_its_tasks_are_given_on(ready: StreamsGroupDriver) -> None:
    clients = Clients(ready)
    clients.join("a")
    clients.join("b")
    clients.settle()
    for _ in range(SESSION_MS // 3_000 + 1):
        ready.advance(3_000)
        clients.beat("a")

    assert set(ready.group.members) == {"a"}
    assert clients.has["a"] == ({"0": (0, 1, 2, 3)}, {})


# Topologies


def test_an_older_topology_is_taken_note_of_and_a_newer_one_refused(ready: StreamsGroupDriver) -> None:
    ready.join("a", topology(STATEFUL, epoch=1))
    older = ready.join("b", topology(part(), epoch=0))
    newer = ready.join("c", topology(STATEFUL, epoch=2))
    other = ready.join("d", topology(part(), epoch=1))

    assert StatusCode.STALE_TOPOLOGY in codes(older)
    assert details(older)[0] == "The member's topology epoch 0 is behind the group's topology epoch 1."
    assert refused(newer) == refused(other) == (ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def test_nothing_is_assigned_while_a_source_topic_is_missing(ready: StreamsGroupDriver) -> None:
    of = topology(part(sources=["words", "gone", "lost", "away", "left"]))
    missing = ready.join("m", of)
    state = ready.group.state_name
    ready.change_topics(some_topics(words=4, gone=4, lost=1, away=1, left=1))
    ready.advance(INTERVAL_MS)
    found = ready.heartbeat("m", missing.member_epoch)

    assert codes(missing) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert details(missing) == ["Source topics away, gone, left and 1 additional topics are missing."]
    assert (state, missing.active_tasks, ready.missing) == ("NotReady", [], [])
    assert (codes(found), tasks_in(found.active_tasks)) == ([], {"0": (0, 1, 2, 3)})


def test_internal_topics_that_are_missing_are_asked_for_with_the_counts_that_they_need(
    ready: StreamsGroupDriver,
) -> None:
    ready.change_topics(some_topics(words=3))
    of = topology(
        part("0", sinks=["words-again"]),
        part(
            "1",
            [],
            repartitioned=[info("words-again", replicas=2, cleanup_policy="delete")],
            changelogs=[info("counts-changelog")],
        ),
    )
    answer = ready.join("m", of)
    asked = ready.missing
    ready.change_topics(some_topics(words=3, words_again=3, counts_changelog=3))
    ready.advance(INTERVAL_MS)
    found = ready.heartbeat("m", answer.member_epoch)

    assert codes(answer) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert details(answer) == ["Internal topics are missing: counts-changelog, words-again"]
    assert asked == ["counts-changelog", "words-again"]
    assert tasks_in(found.active_tasks) == {"0": (0, 1, 2), "1": (0, 1, 2)}
    assert (codes(found), ready.missing) == ([], [])


@pytest.mark.parametrize(
    ("of", "topics", "problem"),
    [
        (
            topology(part(sources=["words", "others"], together=[([0, 1], [])])),
            some_topics(words=3, others=2),
            "Following topics do not have the same number of partitions: [{others=2, words=3}]",
        ),
        (
            topology(
                part("0", sinks=["words-again"]),
                part("1", ["others"], repartitioned=[info("words-again", 5)], together=[([0], [0])]),
            ),
            some_topics(words=3, others=2),
            (
                "Number of partitions [5] of repartition topic [words-again] doesn't match number of partitions [2] of the "
                "source topic."
            ),
        ),
        (
            topology(STATEFUL),
            some_topics(words=3, counts_changelog=2),
            "Existing topic counts-changelog has different number of partitions: expected 3, found 2",
        ),
    ],
)
def test_topics_that_do_not_fit_each_other_are_told_of(of: object, topics: object, problem: str) -> None:
    driver = StreamsGroupDriver(topics=topics)  # type: ignore[arg-type]
    answer = driver.join("m", of)  # type: ignore[arg-type]

    assert StatusCode.INCORRECTLY_PARTITIONED_TOPICS in codes(answer)
    assert problem in details(answer)


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        (topology(part(sources=[])), "No source topics found for subtopology 0"),
        (
            topology(part(changelogs=[info("counts-changelog", 3)])),
            "Changelog topic counts-changelog must have an undefined partition count, but it is set to 3.",
        ),
        (
            topology(part("0", [], repartitioned=[info("loop")], sinks=["loop"])),
            (
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            ),
        ),
        (
            topology(part("0", repartitioned=[info("nobody-writes")])),
            (
                "Failed to compute number of partitions for all repartition topics, "
                "because a repartition source topic is never used as a sink topic."
            ),
        ),
        (
            topology(*(part(str(number)) for number in range(25_001))),
            "The topology has 100004 tasks, and may have 100000.",
        ),
        (topology(part(), epoch=-1), "Topology epoch must be non-negative."),
        (topology(part("0"), part("0")), "Each subtopology needs an id of its own."),
        (
            topology(part("0", repartitioned=[info("words-again", -1)])),
            "The number of partitions of words-again must not be negative.",
        ),
        (
            topology(part("0", together=[([1], [])])),
            "A copartition group of subtopology 0 names a topic that is not there.",
        ),
        (
            topology(part("0", together=[([-1], [])])),
            "A copartition group of subtopology 0 names a topic that is not there.",
        ),
    ],
)
def test_a_topology_that_can_run_on_no_topics_is_refused(driver: StreamsGroupDriver, of: object, problem: str) -> None:
    answer = driver.join("m", of)  # type: ignore[arg-type]

    assert refused(answer) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, problem)
    assert driver.log == []


# The application's end, and its endpoints


def test_a_member_that_wants_the_application_to_end_is_heard_by_all_until_all_are_gone(
    ready: StreamsGroupDriver,
) -> None:
    clients = Clients(ready)
    clients.join("a")
    clients.join("b")
    clients.settle()
    ready.heartbeat("a", clients.epochs["a"], shuts_down=True)
    told = ready.heartbeat("b", clients.epochs["b"])
    ready.leave("a")
    ready.leave("b")
    fresh = ready.join("c", topology(STATEFUL))

    assert details(told) == [
        "Streams group member a encountered a fatal error and requested a shutdown for the entire application."
    ]
    assert StatusCode.SHUTDOWN_APPLICATION not in codes(fresh)


def test_endpoints_tell_where_which_partitions_are(ready: StreamsGroupDriver) -> None:
    ready.limits = StreamsGroupLimits(initial_rebalance_delay_ms=0, num_standby_replicas=1, assignment_interval_ms=0)
    a = ready.send(join("a", topology(STATEFUL), endpoint=("host-a", 1)))
    ready.send(join("b", topology(STATEFUL), endpoint=("host-b", 2)))
    kept = ready.heartbeat("a", a.member_epoch, ({"0": [0, 1, 2, 3]}, {}))
    mine = tasks_in(kept.active_tasks)
    ready.heartbeat("a", kept.member_epoch, (mine, {}))
    told = ready.heartbeat("b", 3, endpoint_epoch=-1)
    known = ready.heartbeat("b", told.member_epoch, endpoint_epoch=told.endpoint_information_epoch)

    where = {
        each.user_endpoint.host: {topic.topic: tuple(topic.partitions) for topic in each.active_partitions}
        for each in told.partitions_by_user_endpoint or ()
    }
    assert where["host-a"] == {"words": (0, 1)}
    assert set(where) == {"host-a", "host-b"}
    assert told.endpoint_information_epoch > 0
    assert known.partitions_by_user_endpoint is None


def test_an_endpoint_whose_topology_cannot_run_has_no_partitions(driver: StreamsGroupDriver) -> None:
    answer = driver.send(join("m", topology(part(sources=["gone"])), endpoint=("here", 1)))

    assert answer.error_code == ErrorCode.NONE
    assert [each.active_partitions for each in answer.partitions_by_user_endpoint or ()] == [[]]


# What is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"task_offsets": []}, "TaskOffsets are not supported yet."),
        ({"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
        ({"warmup_tasks": task_ids({"0": [1]})}, "WarmupTasks are not supported yet."),
        (
            {"topology": topology(replace(part(), source_topic_regex=["w.*"]))},
            "Regular expressions for source topics are not supported yet.",
        ),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": task_ids({"0": [1]})}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup_tasks": None}, "WarmupTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
        (
            {"member_epoch": 1, "topology": None, "active_tasks": None},
            "If one task-type is non-null, all must be non-null.",
        ),
    ],
)
def test_a_request_that_no_group_could_grant_is_refused(
    driver: StreamsGroupDriver, changes: dict[str, object], message: str
) -> None:
    answer = driver.send(replace(join("m"), **changes))

    assert refused(answer) == (ErrorCode.INVALID_REQUEST, message)
    assert driver.log == []


def test_tasks_that_there_are_not_are_refused(ready: StreamsGroupDriver) -> None:
    epoch = ready.join("m", topology(STATEFUL)).member_epoch

    assert refused(ready.heartbeat("m", epoch, ({"7": [0]}, {}))) == (
        ErrorCode.INVALID_REQUEST,
        "Subtopology 7 does not exist in the topology.",
    )
    assert refused(ready.heartbeat("m", epoch, ({}, {"0": [4]}))) == (
        ErrorCode.INVALID_REQUEST,
        "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
    )


def test_groups_and_members_that_are_not_there_are_told_apart(driver: StreamsGroupDriver) -> None:
    assert refused(driver.heartbeat("m", 1)) == (ErrorCode.GROUP_ID_NOT_FOUND, "Streams group counts not found.")
    assert refused(driver.leave("m")) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group counts not found.")
    driver.join("m")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID, "Member n is not a member of group counts."
    assert refused(driver.heartbeat("n", 1)) == refused(driver.leave("n")) == unknown
    driver.groups[GROUP] = ConsumerGroup(GROUP)
    other = ErrorCode.GROUP_ID_NOT_FOUND, "Group counts is not a streams group."
    assert refused(driver.join("m")) == refused(driver.heartbeat("m", 1)) == refused(driver.leave("m")) == other


def test_an_empty_classic_group_gives_way(driver: StreamsGroupDriver) -> None:
    driver.groups[GROUP] = ClassicGroup(GROUP, state_since_ms=0)
    joined = driver.join("m")
    assert joined.error_code == ErrorCode.NONE
    assert driver.group.type_name == "streams"


def test_a_full_group_takes_nobody_in(driver: StreamsGroupDriver) -> None:
    full = StreamsGroupDriver(GroupSettings(streams_max_size=1))
    full.join("a")

    message = "The streams group has reached its maximum capacity of 1 members."
    assert refused(full.join("b")) == refused(full.join("a")) == (ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    assert full.heartbeat("a", 1).error_code == ErrorCode.NONE


def test_what_could_not_be_written_is_decided_again(ready: StreamsGroupDriver) -> None:
    ready.append_error = ErrorCode.NOT_COORDINATOR
    ready.join("m", topology(STATEFUL))
    assert ready.groups == {}
    ready.append_error = ErrorCode.NONE

    assert tasks_in(ready.join("m", topology(STATEFUL)).active_tasks) == {"0": (0, 1, 2, 3)}


# Other questions


def test_a_commit_counts_from_the_epoch_in_which_the_task_came(ready: StreamsGroupDriver) -> None:
    clients = Clients(ready)
    clients.join("a")
    clients.settle()
    first = clients.epochs["a"]
    clients.join("b")
    clients.settle()
    group, now = ready.group, clients.epochs["a"]

    def commit(member: str, epoch: int, topic: str, partition: int) -> ErrorCode:
        error = group.check_commit(member, None, epoch, 10, ready.now_ms)
        if error is ErrorCode.STALE_MEMBER_EPOCH:
            return group.check_commit_of(member, epoch, topic, partition)  # type: ignore[arg-type]
        return error

    assert first < now
    assert commit("a", now, "words", 0) is commit("a", first, "words", 0) is ErrorCode.NONE
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert commit("a", first, "words", 3) is stale, "the task is with the other one"
    assert commit("b", first, "words", 3) is stale, "it was not, in that epoch"
    assert commit("a", now + 1, "words", 0) is commit("a", first, "others", 0) is stale
    assert commit("c", now, "words", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", -1, "words", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_commit("a", None, now, 8, 0) is ErrorCode.UNSUPPORTED_VERSION
    assert group.check_commit("", None, -1, 5, 0, True) is ErrorCode.NONE


def test_a_group_is_described_with_what_its_internal_topics_have_come_to(driver: StreamsGroupDriver) -> None:
    driver.limits = StreamsGroupLimits(initial_rebalance_delay_ms=0)
    request = join("m", topology(STATEFUL), endpoint=("here", 9), tags={"zone": "z"})
    epoch = driver.send(request).member_epoch
    before = driver.streams.describe(GROUP, driver.group)
    driver.change_topics(some_topics(words=4, counts_changelog=4))
    driver.advance(INTERVAL_MS)
    driver.heartbeat("m", epoch)
    after = driver.streams.describe(GROUP, driver.group)

    def changelog_count(described: object) -> int:
        parts = described.topology.subtopologies  # type: ignore[attr-defined]
        return int(parts[0].state_changelog_topics[0].partitions)

    assert (before.group_state, changelog_count(before)) == ("NotReady", 0)
    assert (after.group_state, changelog_count(after)) == ("Stable", 4)
    member = after.members[0]
    assert (member.process_id, member.client_tags, member.topology_epoch) == (
        "process of m",
        [KeyValue(key="zone", value="z")],
        0,
    )
    assert tasks_in(member.assignment.active_tasks) == tasks_in(member.target_assignment.active_tasks)
    missing = driver.streams.describe("nobody", None)
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.")


def test_another_coordinator_goes_on_where_this_one_stopped(ready: StreamsGroupDriver) -> None:
    ready.limits = StreamsGroupLimits(num_standby_replicas=1)
    clients = Clients(ready)
    clients.join("a", "p")
    clients.join("b", "q")
    clients.settle()
    clients.join("c", "r")
    ready.advance(INTERVAL_MS)
    clients.beat("c")
    successor = ready.restarted()

    for name in ("members", "targets", "epoch", "assignment_epoch", "topology", "metadata_hash", "state_name"):
        assert getattr(successor.group, name) == getattr(ready.group, name), name
    for name in ("_active_at", "_standby_at", "validated_topology_epoch", "assignment_configs"):
        assert getattr(successor.group, name) == getattr(ready.group, name), name
    clients.driver = successor
    clients.settle()
    assert sorted(each for has in clients.has.values() for each in has[0].get("0", ())) == [0, 1, 2, 3]


def test_a_group_ends_with_all_that_was_written_of_it(ready: StreamsGroupDriver) -> None:
    ready.join("m", topology(STATEFUL))
    assert ready.group.check_delete() is ErrorCode.NON_EMPTY_GROUP
    ready.leave("m")
    assert ready.group.check_delete() is ErrorCode.NONE
    left = {bytes(key) for key, value in ready.log if value is not None}
    ready.carry_out(Decision(None, ready.group.tombstones()))

    ended = {bytes(key) for key, value in ready.log if value is None}
    assert left <= ended
    assert ready.groups == ready.restarted().groups == {}


def test_a_member_that_missed_that_tasks_were_taken_from_it_is_told_again(ready: StreamsGroupDriver) -> None:
    clients = Clients(ready)
    clients.is_prompt = False
    clients.join("a")
    clients.join("b")
    ready.advance(INTERVAL_MS)
    clients.beat("b")
    # It has heard of four tasks and has none yet; the answer that leaves it two is lost.
    ready.heartbeat("a", clients.epochs["a"], ({}, {}))
    clients.beat("b")
    clients.beat("a")

    assert clients.told == {"a": ({"0": (0, 1)}, {}), "b": ({"0": (2, 3)}, {})}


def test_a_long_chain_of_repartition_topics_costs_no_more_than_its_length(ready: StreamsGroupDriver) -> None:
    links = 4_000
    chain = [part(f"{links:05}", sinks=[f"t{links}"])] + [
        part(f"{number:05}", [], repartitioned=[info(f"t{number + 1}")], sinks=[f"t{number}"])
        for number in reversed(range(links))
    ]
    chain.reverse()
    answer = ready.join("m", topology(*chain))

    assert codes(answer) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert set(ready.missing_counts) == {4}
    assert len(ready.missing) == links
