from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import (
    CLUSTER_ID,
    CONTROLLER_LISTENER,
    DIRECTORY,
    AdminNode,
    Denies,
    ask,
    broker,
    topic,
    topic_id_of,
)
from tidelog.broker.handlers import metadata
from tidelog.model.acl import OPERATIONS_NOT_ASKED, AclOperation, ResourceType
from tidelog.model.config import ConfigKeys, ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LOST_DIRECTORY, ZERO_UUID, NodeId
from tidelog.model.metadata_config import AUTO_CREATE_TOPICS_ENABLE
from tidelog.net.node_connection import Event
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.topics import CreateTopicsRequest

HANDLED = metadata
TOPIC_OPERATIONS = 0b110111111000


def named(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in names]


def identified(*ids: bytes) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]


def asked(
    node: AdminNode,
    topics: list[MetadataRequestTopic] | None,
    version: int = 12,
    *,
    creates: bool = False,
    operations: bool = False,
    authorizer: Denies | None = None,
    listener: str = "PLAINTEXT",
) -> MetadataResponse:
    request = MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=creates or version < 4,
        include_cluster_authorized_operations=operations and 8 <= version <= 10,
        include_topic_authorized_operations=operations and version >= 8,
    )
    return ask(node, request, MetadataResponse, version, authorizer=authorizer, listener=listener)


def errors(answer: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(each.name, each.error_code) for each in answer.topics]


def partition_of(answer: MetadataResponse) -> MetadataResponsePartition:
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(14))
def test_a_topic_is_described_in_every_version(version: int) -> None:
    node = AdminNode(broker(1, rack="r1"), *topic("orders", 2))

    answer = asked(node, named("orders"), version)

    (described,) = answer.topics
    (one,) = answer.brokers
    assert (one.node_id, one.host, one.port) == (1, "host1", 9092)
    assert one.rack == ("r1" if version >= 1 else None)
    assert answer.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert described.topic_id == (topic_id_of("orders") if version >= 10 else ZERO_UUID)
    assert [each.partition_index for each in described.partitions] == [0, 1]
    first = described.partitions[0]
    assert (first.error_code, first.leader_id, first.replica_nodes, first.isr_nodes) == (0, 1, [1], [1])
    assert first.leader_epoch == (4 if version >= 7 else -1)


def test_no_topics_means_all_in_v0_and_none_later() -> None:
    node = AdminNode(broker(1), *topic("a"), *topic("b"))

    assert errors(asked(node, [], 0)) == [("a", 0), ("b", 0)]
    assert errors(asked(node, [], 1)) == []
    assert errors(asked(node, None, 1)) == [("a", 0), ("b", 0)]


def test_answers_keep_the_order_of_the_request_and_name_each_topic_once() -> None:
    node = AdminNode(broker(1), *topic("a"), *topic("b"))

    assert errors(asked(node, named("b", "nope", "a", "b"))) == [("b", 0), ("nope", 3), ("a", 0)]


def test_internal_topics_are_marked_whether_they_exist_or_not() -> None:
    node = AdminNode(broker(1), *topic("__consumer_offsets"))

    answer = asked(node, named("__consumer_offsets", "__transaction_state", "__cluster_metadata"))

    assert [each.is_internal for each in answer.topics] == [True, True, False]


def test_names_that_no_topic_can_have_are_an_error_of_their_own() -> None:
    answer = asked(AdminNode(broker(1)), named("a b", "", "..", "x" * 250, "fine"))

    assert [each.error_code for each in answer.topics] == [17, 17, 17, 17, 3]


def test_topics_are_found_by_id_and_names_beside_them_are_ignored() -> None:
    node = AdminNode(broker(1), *topic("orders"), *topic("payments"))

    answer = asked(node, identified(b"x" * 16, topic_id_of("orders")) + named("payments"))

    assert [(each.error_code, each.name, each.topic_id) for each in answer.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_ID, None, b"x" * 16),
        (ErrorCode.NONE, "orders", topic_id_of("orders")),
    ]


@pytest.mark.parametrize(
    ("version", "topics"),
    [
        (10, named(None)),
        (11, [MetadataRequestTopic(topic_id=b"x" * 16, name="orders")]),
        (12, named("orders", None)),
    ],
)
def test_a_topic_without_a_name_or_an_id_too_early_refuses_the_request(
    version: int, topics: list[MetadataRequestTopic]
) -> None:
    answer = asked(AdminNode(broker(1), *topic("orders")), topics, version)

    assert {each.error_code for each in answer.topics} == {ErrorCode.INVALID_REQUEST}
    assert [each.name for each in answer.topics] == [each.name or "" for each in topics]
    assert (answer.brokers, answer.controller_id) == ([], -1)


# Brokers and replicas


def test_brokers_are_those_of_the_callers_listener() -> None:
    node = AdminNode(
        broker(1, listeners=("PLAINTEXT", "INSIDE")), broker(2, listeners=("INSIDE",)), broker(3, fenced=True)
    )

    assert [each.node_id for each in asked(node, []).brokers] == [1]
    inside = asked(node, [], listener="INSIDE").brokers
    assert [(each.node_id, each.port) for each in inside] == [(1, 9093), (2, 9092)]


def test_there_is_no_controller_while_no_broker_is_alive() -> None:
    assert asked(AdminNode(broker(1, fenced=True)), []).controller_id == -1


def test_the_node_that_answers_names_itself_while_no_broker_is_alive() -> None:
    node = AdminNode(broker(1, fenced=True), broker(2, fenced=True), broker(3, listeners=("INSIDE",)))

    assert [each.node_id for each in asked(node, []).brokers] == [1]
    assert [each.node_id for each in asked(node, [], listener="INSIDE").brokers] == [3]


@pytest.mark.parametrize(("version", "error"), [(5, 5), (6, 72), (12, 72)])
def test_a_leader_without_the_callers_listener(version: int, error: int) -> None:
    node = AdminNode(broker(1, listeners=("INSIDE",)), *topic("orders"))

    found = partition_of(asked(node, named("orders"), version))

    assert (found.error_code, found.leader_id, found.offline_replicas) == (error, -1, [1])


@pytest.mark.parametrize("leader", [-1, 9])
def test_a_partition_without_a_leader(leader: int) -> None:
    node = AdminNode(broker(1), *topic("orders", leader=leader))

    found = partition_of(asked(node, named("orders")))

    assert (found.error_code, found.leader_id, found.leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 4)


def test_a_fenced_leader_is_still_the_leader_and_its_replica_is_offline() -> None:
    node = AdminNode(broker(1, fenced=True), *topic("orders"))

    found = partition_of(asked(node, named("orders")))

    assert (found.error_code, found.leader_id, found.offline_replicas) == (ErrorCode.NONE, 1, [1])


def test_replicas_are_offline_with_their_broker_their_listener_or_their_disk() -> None:
    records = [
        broker(1),
        broker(2, fenced=True),
        broker(3, listeners=("INSIDE",)),
        broker(4, directories=(b"e" * 16,)),
        broker(6),
    ]
    directories = [DIRECTORY] * 5 + [LOST_DIRECTORY]
    node = AdminNode(*records, *topic("orders", replicas=[1, 2, 3, 4, 5, 6], directories=directories))

    found = partition_of(asked(node, named("orders")))

    assert found.offline_replicas == [2, 3, 4, 5, 6]
    assert found.replica_nodes == [1, 2, 3, 4, 5, 6]


def test_v0_leaves_out_replicas_that_are_not_there_and_says_so() -> None:
    node = AdminNode(
        broker(1), broker(2, fenced=True), *topic("orders", replicas=[1, 2], isr=[1, 2], directories=[DIRECTORY] * 2)
    )

    found = partition_of(asked(node, named("orders"), 0))

    assert (found.error_code, found.replica_nodes, found.isr_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1], [1])
    assert partition_of(asked(node, named("orders"), 1)).error_code == ErrorCode.NONE


# Creation on demand


def test_a_topic_is_created_on_demand_for_the_next_request() -> None:
    node = AdminNode(broker(1))

    first = asked(node, named("orders", "a b"), creates=True)
    again = asked(node, named("orders"), creates=True)

    assert errors(first) == [("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("a b", 17)]
    assert errors(again) == [("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    (request,) = node.forwarded
    assert isinstance(request, CreateTopicsRequest)
    assert [(each.name, each.num_partitions, each.replication_factor) for each in request.topics] == [
        ("orders", -1, -1)
    ]


@pytest.mark.parametrize(("version", "allowed"), [(3, True), (4, False), (12, False)])
def test_clients_before_v4_always_allow_creation(version: int, allowed: bool) -> None:
    node = AdminNode(broker(1))

    asked(node, named("orders"), version)

    assert bool(node.forwarded) is allowed


def test_nothing_is_created_where_the_broker_does_not_do_that_or_all_topics_are_asked_for() -> None:
    node = AdminNode(broker(1))
    asked(node, None, creates=True)
    node.config = ConfigValues(ConfigKeys([AUTO_CREATE_TOPICS_ENABLE]), {AUTO_CREATE_TOPICS_ENABLE.name: False})

    answer = asked(node, named("orders"), creates=True)

    assert errors(answer) == [("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert node.forwarded == []


def test_creation_takes_permission_on_the_cluster_or_the_topic() -> None:
    cluster = (AclOperation.CREATE, ResourceType.CLUSTER, None)
    node = AdminNode(broker(1))

    answer = asked(
        node,
        named("mine", "theirs"),
        creates=True,
        authorizer=Denies(cluster, (AclOperation.CREATE, ResourceType.TOPIC, "theirs")),
    )

    assert errors(answer) == [("mine", 3), ("theirs", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert [each.name for each in node.forwarded[0].topics] == ["mine"]  # type: ignore[attr-defined]


# Authorisation


def test_topics_that_a_caller_may_not_describe_are_not_told_of() -> None:
    node = AdminNode(broker(1), *topic("mine"), *topic("theirs"))
    denies = Denies((AclOperation.DESCRIBE, ResourceType.TOPIC, "theirs"))

    by_name = asked(node, named("mine", "theirs"), authorizer=denies)
    by_id = asked(node, identified(topic_id_of("theirs")), authorizer=denies)

    assert errors(by_name) == [("mine", 0), ("theirs", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert by_name.topics[1].topic_id == ZERO_UUID
    assert [(each.name, each.topic_id, each.error_code) for each in by_id.topics] == [
        (None, topic_id_of("theirs"), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    ]
    assert errors(asked(node, None, authorizer=denies)) == [("mine", 0)]


def operations_of(topics: list[MetadataResponseTopic]) -> list[int]:
    return [each.topic_authorized_operations for each in topics]


def test_authorized_operations_are_told_if_asked_for() -> None:
    node = AdminNode(broker(1), *topic("orders"))

    assert operations_of(asked(node, named("orders", "nope"), operations=True).topics) == [TOPIC_OPERATIONS] * 2
    assert operations_of(asked(node, named("orders")).topics) == [OPERATIONS_NOT_ASKED]
    cluster = asked(node, [], 8, operations=True)
    assert cluster.cluster_authorized_operations == 0b1111110100000
    denied = asked(
        node, [], 10, operations=True, authorizer=Denies((AclOperation.DESCRIBE, ResourceType.CLUSTER, None))
    )
    assert denied.cluster_authorized_operations == 0


def test_the_listener_of_controllers_has_no_brokers() -> None:
    assert asked(AdminNode(broker(1)), [], listener=CONTROLLER_LISTENER).brokers == []


def test_what_is_led_by_a_broker_in_doubt_is_told_when_there_is_news() -> None:
    node = AdminNode(broker(1), *topic("orders"), *topic("others", 1, leader=2), broker(2))
    node.doubted_brokers.connection_of(NodeId(1))(Event.BROKEN)
    assert errors(asked(node, named("others"))) == [("others", ErrorCode.NONE)]
    for topics in (named("orders"), identified(topic_id_of("orders")), None):
        with pytest.raises(LookupError):
            asked(node, topics)
    node.doubted_brokers.connection_of(NodeId(1))(Event.CONNECTED)
    assert errors(asked(node, named("orders"))) == [("orders", ErrorCode.NONE)]
