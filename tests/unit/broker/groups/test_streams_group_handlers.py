"""The requests about streams groups, from a client's bytes to its answer, on a node that coordinates them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.data_node import Denying
from tests.support.streams_groups import STATEFUL, info, join, part, tasks_in, topology
from tests.unit.broker.group_node import GroupNode
from tidelog.broker.groups.streams_topics import StreamsTopics
from tidelog.broker.handlers.delete_groups import delete_groups
from tidelog.broker.handlers.join_group import join_group
from tidelog.broker.handlers.list_groups import list_groups
from tidelog.broker.handlers.offset_commit import offset_commit
from tidelog.broker.handlers.streams_group_describe import streams_group_describe
from tidelog.broker.handlers.streams_group_heartbeat import streams_group_heartbeat
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.messages import streams_groups as wire
from tidelog.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.groups_classic import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.messages.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.typed.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

GROUP = "counts"


class _Controller:
    """Where CreateTopics goes: notes what is asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[CreateTopicsRequest] = []
        self.answers: list[Pending[CreateTopicsResponse]] = []

    def forward(self, request: CreateTopicsRequest, _answer: object, _caller: object) -> Pending[CreateTopicsResponse]:
        self.asked.append(request)
        self.answers.append(Pending())
        return self.answers[-1]

    def refuse(self, name: str, error: ErrorCode, message: str | None) -> None:
        result = CreatableTopicResult(
            name=name, topic_id=bytes(16), error_code=error, error_message=message, configs=[]
        )
        self.answers[-1].complete(CreateTopicsResponse(throttle_time_ms=0, topics=[result]))


class _Counting:
    """A node with the topic `words`, whose streams groups wait for nobody."""

    def __init__(self, *, authorizer: Denying | None = None, **settings: str) -> None:
        given: dict[str, Any] = {"group_streams_initial_rebalance_delay_ms": "0", **settings}
        self.node = GroupNode(authorizer=authorizer, **given)
        self.controller = _Controller()
        self.now_ms = 0
        self.node.streams_topics = StreamsTopics(cast("Any", self.controller), lambda: self.now_ms)
        self.node.commit(FeatureLevelRecord(name="streams.version", feature_level=1))
        self.node.create_topic("words", partitions=2)

    def send(self, request: wire.StreamsGroupHeartbeatRequest) -> wire.StreamsGroupHeartbeatResponse:
        return self.node.tell(streams_group_heartbeat, request, wire.StreamsGroupHeartbeatResponse, 0)

    def join(self, of: wire.Topology | None = None) -> wire.StreamsGroupHeartbeatResponse:
        return self.send(join("m", of))

    def beat(self, epoch: int) -> wire.StreamsGroupHeartbeatResponse:
        return self.send(
            wire.StreamsGroupHeartbeatRequest(
                group_id=GROUP, member_id="m", member_epoch=epoch, endpoint_information_epoch=0
            )
        )

    def describe(self, group: str = GROUP, *, operations: bool = False) -> wire.DescribedGroup:
        request = wire.StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=operations)
        return self.node.tell(streams_group_describe, request, wire.StreamsGroupDescribeResponse, 0).groups[0]

    def commit(self, epoch: int, partition: int = 0, member: str = "m", version: int = 9) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name="words",
                    topic_id=bytes(16),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=7,
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                    ],
                )
            ],
        )
        answer = self.node.tell(offset_commit, request, OffsetCommitResponse, version)
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)


@pytest.fixture
def counting() -> _Counting:
    return _Counting()


def test_a_member_gets_its_tasks_and_the_group_is_listed_described_and_deleted(counting: _Counting) -> None:
    joined = counting.join()
    listed = counting.node.tell(
        list_groups, ListGroupsRequest(states_filter=[], types_filter=["Streams"]), ListGroupsResponse, 5
    ).groups
    described = counting.describe(operations=True)

    assert tasks_in(joined.active_tasks) == {"0": (0, 1)}
    assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed] == [
        (GROUP, "streams", "Stable", "streams")
    ]
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.authorized_operations > 0
    assert _delete(counting) is ErrorCode.NON_EMPTY_GROUP
    counting.beat(-1)
    assert counting.describe().group_state == "Empty"
    assert _delete(counting) is ErrorCode.NONE
    assert counting.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def _delete(counting: _Counting) -> ErrorCode:
    answer = counting.node.tell(delete_groups, DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse, 2)
    return ErrorCode.of(answer.results[0].error_code)


def test_where_the_cluster_or_the_node_has_no_streams_groups_they_are_refused() -> None:
    excluded = _Counting(group_coordinator_rebalance_protocols="classic,consumer")
    too_old = _Counting()
    too_old.node.commit(FeatureLevelRecord(name="streams.version", feature_level=0))

    for each in (excluded, too_old):
        assert each.join().error_code == ErrorCode.UNSUPPORTED_VERSION
        assert each.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


# Internal topics


def test_missing_internal_topics_are_created_once_and_then_used(counting: _Counting) -> None:
    of = topology(part(changelogs=[info("counts-log", replicas=1, cleanup_policy="compact")]))
    joined = counting.join(of)
    counting.beat(joined.member_epoch)

    assert len(counting.controller.asked) == 1
    (topic,) = counting.controller.asked[0].topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("counts-log", 2, 1)
    assert [(each.name, each.value) for each in topic.configs] == [("cleanup.policy", "compact")]
    counting.controller.answers[0].complete(CreateTopicsResponse(throttle_time_ms=0, topics=[]))
    counting.node.create_topic("counts-log", partitions=2)
    counting.node.timers.advance(1_000)
    found = counting.beat(joined.member_epoch)
    assert (tasks_in(found.active_tasks), found.status) == ({"0": (0, 1)}, [])
    assert len(counting.controller.asked) == 1


def test_why_a_topic_cannot_be_created_is_told_for_two_heartbeats(counting: _Counting) -> None:
    epoch = counting.join(topology(STATEFUL)).member_epoch
    counting.controller.refuse("counts-changelog", ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers")
    told = counting.beat(epoch)
    asked = len(counting.controller.asked)
    counting.now_ms += 10_000
    silent = counting.beat(epoch)

    assert [each.status_detail for each in told.status or ()] == [
        "Internal topics are missing: counts-changelog; Creation failed: counts-changelog (too few brokers)."
    ]
    assert [each.status_detail for each in silent.status or ()] == ["Internal topics are missing: counts-changelog"]
    assert (asked, len(counting.controller.asked)) == (1, 2)


def test_errors_are_forgotten_before_there_are_too_many() -> None:
    counting = _Counting()
    parts = [
        part(str(number), changelogs=[info(f"log-{number}-{place}") for place in range(300)]) for number in range(4)
    ]
    epoch = counting.join(topology(*parts)).member_epoch
    results = [
        CreatableTopicResult(
            name=topic.name, topic_id=bytes(16), error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="", configs=[]
        )
        for topic in counting.controller.asked[0].topics
    ]
    counting.controller.answers[0].complete(CreateTopicsResponse(throttle_time_ms=0, topics=results))
    told = counting.beat(epoch)

    (detail,) = [each.status_detail for each in told.status or ()]
    assert detail.startswith("Internal topics are missing: log-0-0, log-0-1, log-0-10 and 1197 additional topics; ")
    assert detail.endswith("and 997 more.")
    assert len(counting.controller.asked[1].topics) == 200


# Rights


def test_a_member_needs_its_group_its_topics_and_the_right_to_create_what_is_missing() -> None:
    no_group = _Counting(authorizer=Denying((AclOperation.READ, GROUP)))
    no_topic = _Counting(authorizer=Denying((AclOperation.DESCRIBE, "counts-changelog")))
    no_creation = _Counting(
        authorizer=Denying((AclOperation.CREATE, "kafka-cluster"), (AclOperation.CREATE, "counts-changelog"))
    )

    assert no_group.join().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert no_topic.join(topology(STATEFUL)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    told = no_creation.join(topology(STATEFUL))
    assert [each.status_detail for each in told.status or ()] == [
        "Internal topics are missing: counts-changelog; Unauthorized to CREATE on topics counts-changelog."
    ]
    assert no_creation.controller.asked == []


def test_a_group_with_a_hidden_topic_is_not_described() -> None:
    counting = _Counting()
    counting.join()
    counting.node.authorizer = Denying((AclOperation.DESCRIBE, "words"))
    hidden = counting.describe()

    assert (hidden.error_code, hidden.topology, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, [])
    assert hidden.error_message == "The described group uses topics that the client is not authorized to describe."
    counting.node.authorizer = Denying((AclOperation.DESCRIBE, GROUP))
    assert counting.describe().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert counting.describe("").error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (
            topology(part(sources=["__consumer_offsets", "words"])),
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (topology(part(sinks=["a b", "c/d"])), "Topic names a b,c/d are not valid topic names."),
    ],
)
def test_topics_that_no_application_may_use_are_refused(counting: _Counting, of: wire.Topology, message: str) -> None:
    answer = counting.join(of)

    assert (answer.error_code, answer.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


# Groups of other kinds, and offsets


def test_commits_are_fenced_by_the_epochs_of_tasks(counting: _Counting) -> None:
    epoch = counting.join().member_epoch

    assert counting.commit(epoch) is ErrorCode.NONE
    assert counting.commit(epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert counting.commit(epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert counting.commit(epoch, member="n") is ErrorCode.UNKNOWN_MEMBER_ID
    assert counting.commit(epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert counting.commit(-1, member="") is ErrorCode.UNKNOWN_MEMBER_ID
    counting.beat(-1)
    assert counting.commit(-1, member="") is ErrorCode.NONE


def test_an_empty_streams_group_gives_way_to_a_classic_one_and_takes_its_place(counting: _Counting) -> None:
    def join_classic() -> ErrorCode:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return ErrorCode.of(counting.node.tell(join_group, request, JoinGroupResponse, 9).error_code)

    counting.join()
    assert join_classic() is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    counting.beat(-1)
    assert join_classic() is ErrorCode.MEMBER_ID_REQUIRED
    assert counting.describe().error_message == f"Group {GROUP} is not a streams group."
