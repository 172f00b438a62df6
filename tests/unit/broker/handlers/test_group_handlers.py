"""The handlers of groups: each refusal in every version, and what versions change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.classic_groups import subscription
from tests.support.data_node import Denying
from tests.unit.broker.group_node import HOST, PORT, GroupNode
from tidelog.broker.handlers.consumer_group_describe import consumer_group_describe
from tidelog.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from tidelog.broker.handlers.delete_groups import delete_groups
from tidelog.broker.handlers.describe_groups import describe_groups
from tidelog.broker.handlers.find_coordinator import find_coordinator
from tidelog.broker.handlers.heartbeat import heartbeat
from tidelog.broker.handlers.join_group import join_group
from tidelog.broker.handlers.leave_group import leave_group
from tidelog.broker.handlers.list_groups import list_groups
from tidelog.broker.handlers.offset_commit import offset_commit
from tidelog.broker.handlers.offset_delete import offset_delete
from tidelog.broker.handlers.offset_fetch import offset_fetch
from tidelog.broker.handlers.sync_group import sync_group
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.consumer_groups import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.schema import Request, Response, Struct

GROUP = "payments"
TOPIC_ID = b"\x07" * 16
STRANGE_ID = b"\x08" * 16


def join(version: int, group: str = GROUP, member_id: str = "", session_ms: int = 10_000) -> Request:
    assert version >= 0
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))],
    )


def sync(version: int, group: str = GROUP, **protocol: str | None) -> Request:
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return SyncGroupRequest(group_id=group, generation_id=1, member_id="m", assignments=[], **named | protocol)


def beat(_version: int, group: str = GROUP) -> Request:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


def leave(version: int, group: str = GROUP) -> Request:
    several = version >= 3
    members = [MemberIdentity(member_id="m")] if several else []
    return LeaveGroupRequest(group_id=group, member_id="" if several else "m", members=members)


def commit(
    version: int, group: str = GROUP, topic: str = "orders", indexes: tuple[int, ...] = (0,), **more: Any
) -> Request:
    assert version >= 2
    topic_id = TOPIC_ID if topic == "orders" else STRANGE_ID
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=5 + index, committed_metadata=more.get("metadata", "note")
        )
        for index in indexes
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=more.get("epoch", -1),
        member_id=more.get("member_id", ""),
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=partitions)],
    )


def fetch(
    version: int,
    *groups: str,
    topics: dict[str, list[int]] | None = None,
    is_all: bool = False,
    member_id: str | None = None,
) -> Request:
    wanted = {"orders": [0]} if topics is None else topics
    if version < 8:
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in wanted.items()]
        return OffsetFetchRequest(group_id=groups[0] if groups else GROUP, topics=None if is_all else old, groups=[])
    new = [
        OffsetFetchRequestTopics(
            name=name, topic_id=TOPIC_ID if name == "orders" else STRANGE_ID, partition_indexes=indexes
        )
        for name, indexes in wanted.items()
    ]
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=group, member_id=member_id, topics=None if is_all else new)
            for group in groups or (GROUP,)
        ]
    )


def delete_offsets(_version: int, group: str = GROUP, topic: str = "orders", index: int = 0) -> Request:
    partition = OffsetDeleteRequestPartition(partition_index=index)
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=[partition])])


def describe(version: int, group: str = GROUP) -> Request:
    return DescribeGroupsRequest(groups=[group], include_authorized_operations=version >= 3)


def describe_consumer(_version: int, group: str = GROUP) -> Request:
    return ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)


def delete(_version: int, group: str = GROUP) -> Request:
    return DeleteGroupsRequest(groups_names=[group])


def consumer_beat(_version: int, group: str = GROUP) -> Request:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )


class Api(NamedTuple):
    """A handler, a request to it, and who may ask."""

    handler: Callable[[Any, Any, Any], Any]
    request: Callable[..., Request]
    answer: type[Response]
    operation: AclOperation
    empty_group: ErrorCode = ErrorCode.INVALID_GROUP_ID


APIS = {
    "join": Api(join_group, join, JoinGroupResponse, AclOperation.READ),
    "sync": Api(sync_group, sync, SyncGroupResponse, AclOperation.READ),
    "heartbeat": Api(heartbeat, beat, HeartbeatResponse, AclOperation.READ),
    "leave": Api(leave_group, leave, LeaveGroupResponse, AclOperation.READ),
    "commit": Api(offset_commit, commit, OffsetCommitResponse, AclOperation.READ),
    "fetch": Api(offset_fetch, fetch, OffsetFetchResponse, AclOperation.DESCRIBE),
    "delete offsets": Api(offset_delete, delete_offsets, OffsetDeleteResponse, AclOperation.DELETE),
    "describe": Api(describe_groups, describe, DescribeGroupsResponse, AclOperation.DESCRIBE),
    "describe consumer": Api(
        consumer_group_describe, describe_consumer, ConsumerGroupDescribeResponse, AclOperation.DESCRIBE
    ),
    "delete": Api(delete_groups, delete, DeleteGroupsResponse, AclOperation.DELETE),
    "consumer heartbeat": Api(
        consumer_group_heartbeat, consumer_beat, ConsumerGroupHeartbeatResponse, AclOperation.READ
    ),
}


def each_version(answer: type[Response]) -> range:
    lowest, highest = answer.versions
    return range(lowest, highest + 1)


EVERY_VERSION = [(name, version) for name, api in APIS.items() for version in each_version(api.answer)]
IN_EVERY_VERSION = pytest.mark.parametrize(("name", "version"), EVERY_VERSION)


def errors_of(found: object) -> Iterator[ErrorCode]:
    """Every error in an answer, wherever its version has a place for it."""
    if isinstance(found, Struct | Response):
        for field in found.__struct_fields__:
            value = getattr(found, field)
            if field == "error_code" and value:
                yield ErrorCode.of(value)
            yield from errors_of(value)
    elif isinstance(found, list):
        for each in found:
            yield from errors_of(each)


def told(node: GroupNode, name: str, version: int, **said: Any) -> set[ErrorCode]:
    api = APIS[name]
    return set(errors_of(node.tell(api.handler, api.request(version, **said), api.answer, version)))


def new_node(**more: Any) -> GroupNode:
    node = GroupNode(**more)
    node.create_topic("orders", partitions=2, topic_id=TOPIC_ID)
    return node


@pytest.fixture
def node() -> GroupNode:
    return new_node()


def committed(node: GroupNode, group: str = GROUP) -> dict[int, tuple[int, str | None]]:
    answer = node.tell(offset_fetch, fetch(9, group, topics={"orders": [0, 1]}), OffsetFetchResponse, 9)
    (topic,) = answer.groups[0].topics
    return {each.partition_index: (each.committed_offset, each.metadata) for each in topic.partitions}


@pytest.mark.parametrize("version", [0, 1])
def test_a_node_whose_configuration_excludes_the_consumer_protocol_does_not_offer_it(version: int) -> None:
    node = new_node(group_coordinator_rebalance_protocols="classic,streams")

    assert told(node, "consumer heartbeat", version) == {ErrorCode.UNSUPPORTED_VERSION}
    assert told(node, "describe consumer", version) == {ErrorCode.UNSUPPORTED_VERSION}


@pytest.mark.parametrize("version", [0, 1])
def test_a_cluster_of_group_version_0_has_no_consumer_groups(node: GroupNode, version: int) -> None:
    node.commit(FeatureLevelRecord(name="group.version", feature_level=0))

    assert told(node, "consumer heartbeat", version) == {ErrorCode.UNSUPPORTED_VERSION}
    assert told(node, "describe consumer", version) == {ErrorCode.UNSUPPORTED_VERSION}


@IN_EVERY_VERSION
def test_a_node_that_does_not_lead_the_group_says_so(name: str, version: int) -> None:
    assert told(new_node(coordinates=False), name, version) == {ErrorCode.NOT_COORDINATOR}


@IN_EVERY_VERSION
def test_a_node_that_still_loads_says_so_but_alarms_no_member(node: GroupNode, name: str, version: int) -> None:
    node.tell(offset_commit, commit(9), OffsetCommitResponse, 9)
    release = node.start_loading()

    expected = set() if name == "heartbeat" else {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert told(node, name, version) == expected
    release()
    assert committed(node)[0] == (5, "note")


@IN_EVERY_VERSION
def test_who_may_not_is_told_so(name: str, version: int) -> None:
    denying = new_node(authorizer=Denying((APIS[name].operation, GROUP)))
    assert told(denying, name, version) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("name", "version"), [each for each in EVERY_VERSION if each[0] in {"join", "sync", "heartbeat", "leave"}]
)
def test_a_member_names_its_group(node: GroupNode, name: str, version: int) -> None:
    assert told(node, name, version, group="") == {ErrorCode.INVALID_GROUP_ID}


@pytest.mark.parametrize("version", each_version(JoinGroupResponse))
def test_sessions_are_neither_too_short_nor_too_long(node: GroupNode, version: int) -> None:
    for session_ms in (5_999, 1_800_001):
        assert told(node, "join", version, session_ms=session_ms) == {ErrorCode.INVALID_SESSION_TIMEOUT}


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_a_sync_of_version_5_names_its_protocol(node: GroupNode, missing: str) -> None:
    assert told(node, "sync", 5, **{missing: None}) == {ErrorCode.INCONSISTENT_GROUP_PROTOCOL}


@pytest.mark.parametrize("version", each_version(JoinGroupResponse))
def test_a_refused_join_has_no_protocol(version: int) -> None:
    answer = new_node(coordinates=False).tell(join_group, join(version, member_id="m"), JoinGroupResponse, version)
    assert (answer.generation_id, answer.member_id, answer.leader, answer.members) == (-1, "", "", [])
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", each_version(OffsetCommitResponse))
def test_what_exists_is_committed_and_the_rest_is_refused(node: GroupNode, version: int) -> None:
    answer = node.tell(offset_commit, commit(version, indexes=(0, 7, 1)), OffsetCommitResponse, version)
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id) == (("", TOPIC_ID) if version >= 10 else ("orders", ZERO_UUID))
    assert {each.partition_index: each.error_code for each in topic.partitions} == {
        0: 0,
        1: 0,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert committed(node) == {0: (5, "note"), 1: (6, "note")}


@pytest.mark.parametrize("version", each_version(OffsetCommitResponse))
def test_a_topic_that_is_not_there_takes_no_offsets(node: GroupNode, version: int) -> None:
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(node, "commit", version, topic="nowhere") == {missing}


@pytest.mark.parametrize("version", each_version(OffsetCommitResponse))
def test_who_may_not_read_the_topic_commits_nothing_for_it(version: int) -> None:
    denying = new_node(authorizer=Denying((AclOperation.READ, "orders")))
    assert told(denying, "commit", version) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert committed(denying)[0] == (-1, "")


def test_metadata_has_a_limit_in_characters() -> None:
    node = new_node(offset_metadata_max_bytes="4")
    assert told(node, "commit", 9, metadata="üüüü") == set()
    assert told(node, "commit", 9, metadata="xxxxx") == {ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert told(node, "commit", 9, metadata=None, indexes=(1,)) == set()
    assert committed(node) == {0: (5, "üüüü"), 1: (6, "")}


@pytest.mark.parametrize("version", each_version(OffsetFetchResponse))
def test_offsets_are_fetched_as_each_version_has_them(node: GroupNode, version: int) -> None:
    node.tell(offset_commit, commit(9), OffsetCommitResponse, 9)
    request = fetch(version, topics={"orders": [0, 1]})
    answer = node.tell(offset_fetch, request, OffsetFetchResponse, version)
    if version >= 8:
        (group,) = answer.groups
        (new,) = group.topics
        assert (group.group_id, new.name, new.topic_id) == (
            (GROUP, "", TOPIC_ID) if version >= 10 else (GROUP, "orders", ZERO_UUID)
        )
        found = [(each.partition_index, each.committed_offset, each.metadata) for each in new.partitions]
    else:
        (old,) = answer.topics
        assert old.name == "orders"
        found = [(each.partition_index, each.committed_offset, each.metadata) for each in old.partitions]
    assert found == [(0, 5, "note"), (1, -1, "")]


@pytest.mark.parametrize("version", [each for each in each_version(OffsetFetchResponse) if each >= 2])
def test_all_topics_are_those_with_offsets(node: GroupNode, version: int) -> None:
    node.tell(offset_commit, commit(9), OffsetCommitResponse, 9)
    answer = node.tell(offset_fetch, fetch(version, is_all=True), OffsetFetchResponse, version)
    topics: list[Any] = list(answer.groups[0].topics if version >= 8 else answer.topics)
    assert [each.partition_index for topic in topics for each in topic.partitions] == [0]
    if version >= 10:
        assert topics[0].topic_id == TOPIC_ID


@pytest.mark.parametrize("version", [each for each in each_version(OffsetFetchResponse) if each >= 8])
def test_several_groups_are_answered_each_for_itself(version: int) -> None:
    node = new_node(authorizer=Denying((AclOperation.DESCRIBE, "secret")))
    node.tell(offset_commit, commit(9), OffsetCommitResponse, 9)
    answer = node.tell(offset_fetch, fetch(version, GROUP, "secret", "absent"), OffsetFetchResponse, version)
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        (GROUP, 0),
        ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("absent", 0),
    ]
    assert [each.topics[0].partitions[0].committed_offset for each in answer.groups if each.topics] == [5, -1]


@pytest.mark.parametrize("version", each_version(OffsetFetchResponse))
def test_topics_that_may_not_be_described_are_not(version: int) -> None:
    node = new_node(authorizer=Denying((AclOperation.DESCRIBE, "orders")))
    assert told(node, "commit", 9) == set()
    assert told(node, "fetch", version) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    if version >= 2:
        answer = node.tell(offset_fetch, fetch(version, is_all=True), OffsetFetchResponse, version)
        assert [group.topics for group in answer.groups] == ([[]] if version >= 8 else [])
        assert answer.topics == []


def test_an_unknown_topic_id_is_an_error_and_an_unknown_name_has_no_offsets(node: GroupNode) -> None:
    assert told(node, "fetch", 10, topics={"nowhere": [0]}) == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert told(node, "fetch", 9, topics={"nowhere": [0]}) == set()


def test_offsets_are_deleted_where_they_are(node: GroupNode) -> None:
    assert told(node, "delete offsets", 0) == {ErrorCode.GROUP_ID_NOT_FOUND}
    node.tell(offset_commit, commit(9, indexes=(0, 1)), OffsetCommitResponse, 9)
    assert told(node, "delete offsets", 0, index=9) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert told(node, "delete offsets", 0, topic="nowhere") == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert told(node, "delete offsets", 0) == set()
    assert committed(node) == {0: (-1, ""), 1: (6, "note")}


@pytest.mark.parametrize("version", each_version(DeleteGroupsResponse))
def test_groups_are_deleted_with_their_offsets(node: GroupNode, version: int) -> None:
    assert told(node, "delete", version) == {ErrorCode.GROUP_ID_NOT_FOUND}
    node.tell(offset_commit, commit(9), OffsetCommitResponse, 9)
    assert told(node, "delete", version) == set()
    assert committed(node)[0] == (-1, "")
    node.tell(consumer_group_heartbeat, consumer_beat(1), ConsumerGroupHeartbeatResponse, 1)
    assert told(node, "delete", version) == {ErrorCode.NON_EMPTY_GROUP}


def test_an_expression_stands_for_no_topic_that_its_member_may_not_know() -> None:
    node = new_node(authorizer=Denying((AclOperation.DESCRIBE, "orders-secret")))
    node.create_topic("orders-open", partitions=1, topic_id=b"o" * 16)
    node.create_topic("orders-secret", partitions=1, topic_id=b"s" * 16)
    request = consumer_beat(1)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    request.subscribed_topic_names, request.subscribed_topic_regex = None, "orders.*"

    joined = node.tell(consumer_group_heartbeat, request, ConsumerGroupHeartbeatResponse, 1)
    assert (joined.member_epoch, joined.assignment) == (1, Assignment(topic_partitions=[]))
    node.timers.advance(0)
    request.member_epoch = joined.member_epoch
    answer = node.tell(consumer_group_heartbeat, request, ConsumerGroupHeartbeatResponse, 1)

    assert answer.member_epoch == 2
    assert answer.assignment is not None
    assert {each.topic_id for each in answer.assignment.topic_partitions} == {TOPIC_ID, b"o" * 16}


@pytest.mark.parametrize("version", each_version(ListGroupsResponse))
def test_groups_are_listed_by_state_and_type(node: GroupNode, version: int) -> None:
    node.tell(offset_commit, commit(9), OffsetCommitResponse, 9)
    node.tell(consumer_group_heartbeat, consumer_beat(1, "live"), ConsumerGroupHeartbeatResponse, 1)

    def listed(states: list[str], types: list[str]) -> list[tuple[str, str]]:
        request = ListGroupsRequest(
            states_filter=states if version >= 4 else [], types_filter=types if version >= 5 else []
        )
        answer = node.tell(list_groups, request, ListGroupsResponse, version)
        assert answer.error_code == 0
        return [(each.group_id, each.group_type) for each in answer.groups]

    kinds = ("classic", "consumer") if version >= 5 else ("", "")
    assert listed([], []) == [(GROUP, kinds[0]), ("live", kinds[1])]
    if version >= 4:
        assert listed(["empty"], []) == [(GROUP, kinds[0])]
        assert listed(["Nonsense"], []) == []
    if version >= 5:
        assert listed([], ["CONSUMER"]) == [("live", "consumer")]
        assert listed(["Empty"], ["consumer"]) == []


@pytest.mark.parametrize("version", each_version(ListGroupsResponse))
def test_only_groups_that_may_be_described_are_listed(version: int) -> None:
    hidden = new_node(authorizer=Denying((AclOperation.DESCRIBE, "kafka-cluster"), (AclOperation.DESCRIBE, "secret")))
    for group in (GROUP, "secret"):
        hidden.tell(offset_commit, commit(9, group), OffsetCommitResponse, 9)
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    answer = hidden.tell(list_groups, request, ListGroupsResponse, version)
    assert [each.group_id for each in answer.groups] == [GROUP]

    hidden.start_loading()
    answer = hidden.tell(list_groups, request, ListGroupsResponse, version)
    assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


def find(version: int, *keys: str, key_type: int = 0) -> Request:
    several = version >= 4
    return FindCoordinatorRequest(
        key="" if several else keys[0], key_type=key_type, coordinator_keys=list(keys) if several else []
    )


@pytest.mark.parametrize("version", each_version(FindCoordinatorResponse))
def test_the_leader_of_the_groups_partition_is_found(version: int) -> None:
    node = new_node(authorizer=Denying((AclOperation.DESCRIBE, "secret")))
    answer = node.tell(find_coordinator, find(version, GROUP), FindCoordinatorResponse, version)
    refused = node.tell(find_coordinator, find(version, "secret"), FindCoordinatorResponse, version)
    if version >= 4:
        (one,) = answer.coordinators
        assert (one.key, one.node_id, one.host, one.port, one.error_code) == (GROUP, 1, HOST, PORT, 0)
    else:
        assert (answer.node_id, answer.host, answer.port, answer.error_code) == (1, HOST, PORT, 0)
    assert set(errors_of(refused)) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("version", each_version(FindCoordinatorResponse))
def test_nobody_is_found_while_there_is_nobody(node: GroupNode, version: int) -> None:
    node.internal_topics.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = node.tell(find_coordinator, find(version, GROUP), FindCoordinatorResponse, version)
    assert set(errors_of(answer)) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    if version >= 1:
        strange = node.tell(find_coordinator, find(version, GROUP, key_type=9), FindCoordinatorResponse, version)
        assert set(errors_of(strange)) == {ErrorCode.INVALID_REQUEST}


def test_a_deleted_topics_offsets_go_with_it(node: GroupNode) -> None:
    node.tell(offset_commit, commit(9), OffsetCommitResponse, 9)
    node.delete_topic("orders")
    assert committed(node)[0] == (-1, "")
