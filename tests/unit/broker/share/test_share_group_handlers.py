"""The requests about share groups, from a client's bytes to its answer, on a node that also is their share coordinator."""

from __future__ import annotations

import pytest

from tests.support.appends import produced
from tests.support.data_node import Denying
from tests.support.log_builder import LogBuilder
from tests.unit.broker.share_node import ShareNode
from tidelog.broker.handlers.alter_share_group_offsets import alter_share_group_offsets
from tidelog.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from tidelog.broker.handlers.delete_groups import delete_groups
from tidelog.broker.handlers.delete_share_group_offsets import delete_share_group_offsets
from tidelog.broker.handlers.describe_share_group_offsets import describe_share_group_offsets
from tidelog.broker.handlers.join_group import join_group
from tidelog.broker.handlers.list_groups import list_groups
from tidelog.broker.handlers.share_group_describe import share_group_describe
from tidelog.broker.handlers.share_group_heartbeat import share_group_heartbeat
from tidelog.broker.share.persister import ShareState, StateBatch
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName
from tidelog.wire.messages import share_group_offsets as wire
from tidelog.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.groups_classic import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.messages.share_groups import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tidelog.wire.typed.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

BATCHES = LogBuilder()
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


class _Workers:
    """A node with the topic `orders`, and a share group on it."""

    def __init__(self, node: ShareNode | None = None) -> None:
        self.node = node or ShareNode()
        self.node.create_topic("orders", partitions=2)

    def heartbeat(self, epoch: int = 0, *topics: str, member: str = MEMBER) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id="workers", member_id=member, member_epoch=epoch, subscribed_topic_names=list(topics) or None
        )
        return self.node.tell(share_group_heartbeat, request, ShareGroupHeartbeatResponse, 1)

    def join(self) -> int:
        """Join, and beat until everything is assigned. The epoch then."""
        epoch = self.heartbeat(0, "orders").member_epoch
        self.node.timers.advance(1_000)
        return self.heartbeat(epoch).member_epoch

    def leave(self) -> None:
        assert self.heartbeat(-1).error_code == ErrorCode.NONE

    def describe(self, group: str = "workers", *, operations: bool = False) -> DescribedGroup:
        request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=operations)
        return self.node.tell(share_group_describe, request, ShareGroupDescribeResponse, 1).groups[0]

    def offsets(self, *topics: str) -> wire.DescribeShareGroupOffsetsResponseGroup:
        asked = [wire.DescribeShareGroupOffsetsRequestTopic(topic_name=each, partitions=[0, 1]) for each in topics]
        group = wire.DescribeShareGroupOffsetsRequestGroup(group_id="workers", topics=asked or None)
        request = wire.DescribeShareGroupOffsetsRequest(groups=[group])
        answer = self.node.tell(describe_share_group_offsets, request, wire.DescribeShareGroupOffsetsResponse, 1)
        return answer.groups[0]

    def alter(self, topic: str, **starts: int) -> wire.AlterShareGroupOffsetsResponse:
        """`p0=7`: partition 0 begins at 7."""
        partitions = [
            wire.AlterShareGroupOffsetsRequestPartition(partition_index=int(name[1:]), start_offset=start)
            for name, start in starts.items()
        ]
        request = wire.AlterShareGroupOffsetsRequest(
            group_id="workers",
            topics=[wire.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)],
        )
        return self.node.tell(alter_share_group_offsets, request, wire.AlterShareGroupOffsetsResponse, 0)

    def delete_offsets(self, *topics: str) -> wire.DeleteShareGroupOffsetsResponse:
        request = wire.DeleteShareGroupOffsetsRequest(
            group_id="workers",
            topics=[wire.DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics],
        )
        return self.node.tell(delete_share_group_offsets, request, wire.DeleteShareGroupOffsetsResponse, 0)

    def delete(self) -> ErrorCode:
        request = DeleteGroupsRequest(groups_names=["workers"])
        answer = self.node.tell(delete_groups, request, DeleteGroupsResponse, 2)
        return ErrorCode.of(answer.results[0].error_code)

    def read_state(self, partition: int = 0) -> object:
        topic_id = self.node.image.topic_ids[TopicName("orders")]
        return self.node.persister.read("workers", topic_id, PartitionIndex(partition), 0).value

    @property
    def states(self) -> int:
        return sum(shard.state_count for shard in self.node.share_coordinator.shards())


@pytest.fixture
def workers() -> _Workers:
    return _Workers()


def test_a_member_gets_partitions_once_they_have_a_state(workers: _Workers) -> None:
    first = workers.heartbeat(0, "orders")
    assert first.assignment is not None
    assert first.assignment.topic_partitions == []
    workers.node.timers.advance(1_000)

    second = workers.heartbeat(first.member_epoch)

    assert second.assignment is not None
    assert [each.partitions for each in second.assignment.topic_partitions] == [[0, 1]]
    assert workers.read_state() == ShareState(2, -1, ())


def test_a_group_is_listed_and_described(workers: _Workers) -> None:
    epoch = workers.join()
    listed = workers.node.tell(
        list_groups, ListGroupsRequest(states_filter=[], types_filter=["share"]), ListGroupsResponse, 5
    ).groups
    described = workers.describe(operations=True)

    assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed] == [
        ("workers", "share", "Stable", "share")
    ]
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", epoch, epoch)
    assert described.assignor_name == "simple"
    assert described.authorized_operations >= 0
    (member,) = described.members
    assert (member.member_id, member.client_host, member.subscribed_topic_names) == (MEMBER, "/127.0.0.1", ["orders"])
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [("orders", [0, 1])]


def test_what_is_no_share_group_is_not_described(workers: _Workers) -> None:
    assert workers.describe("nobody").error_message == "Group nobody not found."
    assert workers.describe("").error_code == ErrorCode.INVALID_GROUP_ID


def test_without_the_feature_there_are_no_share_groups(workers: _Workers) -> None:
    workers.node.commit(FeatureLevelRecord(name="share.version", feature_level=0))

    assert workers.heartbeat(0, "orders").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert workers.describe().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert workers.offsets().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert workers.alter("orders", p0=1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert workers.delete_offsets("orders").error_code == ErrorCode.UNSUPPORTED_VERSION

    workers.node.commit(FeatureLevelRecord(name="share.version", feature_level=1))
    assert workers.heartbeat(0, "orders").error_code == ErrorCode.NONE


@pytest.mark.parametrize("member", ["", "m" * 37])
def test_a_member_id_is_a_uuid_at_most(workers: _Workers, member: str) -> None:
    answer = workers.heartbeat(0, "orders", member=member)

    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, None)


@pytest.mark.parametrize(
    ("operation", "name", "error"),
    [
        (AclOperation.READ, "workers", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclOperation.DESCRIBE, "orders", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_member_needs_the_group_and_to_know_of_its_topics(
    operation: AclOperation, name: str, error: ErrorCode
) -> None:
    workers = _Workers(ShareNode(authorizer=Denying((operation, name))))

    assert workers.heartbeat(0, "orders").error_code == error


def test_a_group_with_a_topic_that_the_caller_may_not_know_of_is_hidden() -> None:
    denying = Denying()
    workers = _Workers(ShareNode(authorizer=denying))
    workers.join()
    denying.change((AclOperation.DESCRIBE, "orders"))

    described = workers.describe()

    assert (described.error_code, described.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    assert described.group_state == ""
    assert workers.offsets().topics == []
    assert [each.error_code for each in workers.offsets("orders").topics[0].partitions] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ] * 2


def test_offsets_are_altered_described_with_lag_and_deleted(workers: _Workers) -> None:
    produced(workers.node.partition("orders"), BATCHES.batch("a", "b", "c", "d", "e"))
    altered = workers.alter("orders", p0=2, p7=1)
    described = workers.offsets()
    deleted = workers.delete_offsets("orders", "unknown")

    assert altered.error_code == ErrorCode.NONE
    assert [each.error_code for each in altered.responses[0].partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (topic,) = described.topics
    assert [(each.partition_index, each.start_offset, each.lag) for each in topic.partitions] == [(0, 2, 3)]
    assert [(each.topic_name, each.error_code) for each in deleted.responses] == [
        ("orders", 0),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert workers.offsets().topics == []
    assert workers.states == 0


def test_what_is_settled_behind_the_start_is_no_lag(workers: _Workers) -> None:
    produced(workers.node.partition("orders"), BATCHES.batch("a", "b", "c", "d", "e"))
    workers.join()
    topic_id = workers.node.image.topic_ids[TopicName("orders")]
    batches = [StateBatch(1, 2, 2, 1)]
    workers.node.persister.write("workers", topic_id, PartitionIndex(0), 0, 2, 0, 2, batches)

    where = workers.offsets("orders").topics[0].partitions

    assert [(each.start_offset, each.lag) for each in where] == [(0, 3), (-1, -1)]


def test_a_topic_that_is_not_there_is_nowhere(workers: _Workers) -> None:
    (topic,) = workers.offsets("unknown").topics

    assert [(each.start_offset, each.lag, each.error_code) for each in topic.partitions] == [(-1, -1, 0)] * 2
    altered = workers.alter("unknown", p0=0).responses[0].partitions
    assert [each.error_code for each in altered] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_group_with_members_keeps_its_offsets_and_itself(workers: _Workers) -> None:
    workers.join()

    assert workers.alter("orders", p0=0).error_code == ErrorCode.NON_EMPTY_GROUP
    assert workers.delete_offsets("orders").error_code == ErrorCode.NON_EMPTY_GROUP
    assert workers.delete() is ErrorCode.NON_EMPTY_GROUP
    assert workers.states == 2


def test_a_deleted_group_leaves_no_state(workers: _Workers) -> None:
    workers.join()
    workers.leave()

    assert workers.delete() is ErrorCode.NONE
    assert workers.states == 0
    assert workers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert workers.delete() is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_go_on_after_their_coordinator_crashed(workers: _Workers) -> None:
    epoch = workers.join()
    described = workers.describe()

    workers.node.start_loading()()
    workers.node.restart_share_coordinator()

    assert workers.heartbeat(epoch).member_epoch == epoch
    assert workers.describe() == described


def test_a_thousand_idle_groups_share_a_timer_for_each_partition_of_the_log(workers: _Workers) -> None:
    before = workers.node.timers.pending
    for number in range(1_000):
        request = ShareGroupHeartbeatRequest(
            group_id=f"group-{number}", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["orders"]
        )
        answer = workers.node.tell(share_group_heartbeat, request, ShareGroupHeartbeatResponse, 1)
        assert answer.error_code == ErrorCode.NONE

    assert workers.node.timers.pending - before <= 5


def test_an_empty_group_stays_since_it_has_no_offsets_that_could_expire(workers: _Workers) -> None:
    workers.join()
    workers.leave()

    workers.node.timers.advance(8 * 24 * 3_600_000)

    assert workers.describe().group_state == "Empty"
    assert workers.states == 2


def test_members_of_other_protocols_find_the_name_taken(workers: _Workers) -> None:
    workers.join()
    workers.leave()
    consumer = ConsumerGroupHeartbeatRequest(
        group_id="workers",
        member_id=MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    classic = JoinGroupRequest(
        group_id="workers",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )

    heartbeat = workers.node.tell(consumer_group_heartbeat, consumer, ConsumerGroupHeartbeatResponse, 1)
    joined = workers.node.tell(join_group, classic, JoinGroupResponse, 5)

    assert heartbeat.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert heartbeat.error_message == "Group workers is not a consumer group."
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert workers.describe().group_state == "Empty"
