"""CreateTopics and DeleteTopics, as a client sees them and as the log has them."""

from __future__ import annotations

import pytest

from tests.support.metadata_node import MetadataNode, creatable, directory_id
from tidelog.controller.cluster_view import BROKER_RESOURCE
from tidelog.controller.topic_names import collision_form, name_problem
from tidelog.model.config import ConfigSource
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import UNASSIGNED_DIRECTORY, ZERO_UUID, TopicName
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.internal import cluster_metadata as records
from tidelog.wire.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


@pytest.fixture
def node() -> MetadataNode:
    """Three active brokers."""
    node = MetadataNode(config={"metadata.max.idle.interval.ms": "0"})
    node.start()
    node.serve(1, 2, 3)
    return node


class TestNames:
    @pytest.mark.parametrize("name", ["a", "orders.v1", "A-Z_09", "x" * 249, "...", "__consumer_offsets"])
    def test_these_are_allowed(self, name: str) -> None:
        assert name_problem(name) is None

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("", "the empty string is not allowed"),
            (".", "'.' is not allowed"),
            ("..", "'..' is not allowed"),
            ("x" * 250, "is longer than the max allowed length 249"),
            ("a b", "other than ASCII alphanumerics, '.', '_' and '-'"),
            ("é", "other than ASCII alphanumerics, '.', '_' and '-'"),
            ("a\n", "other than ASCII alphanumerics, '.', '_' and '-'"),
            ("a/b", "other than ASCII alphanumerics, '.', '_' and '-'"),
        ],
    )
    def test_these_are_not(self, name: str, reason: str) -> None:
        problem = name_problem(name)

        assert problem is not None
        assert problem.startswith("Topic name is invalid: ")
        assert reason in problem

    def test_dots_and_underscores_look_the_same_in_a_metric(self) -> None:
        assert collision_form("a.b_c") == collision_form("a_b.c") == "a_b_c"
        assert collision_form("abc") is None


class TestCreating:
    def test_a_topic_and_its_partitions_come_as_one_batch(self, node: MetadataNode) -> None:
        end = node.image.offset + 1

        result = node.create_topic("orders", partitions=2, replicas=3, configs={"retention.ms": "60000"})

        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 3)
        [batch] = [batch for batch in node.batches() if batch.base_offset >= end]
        topic, config, *partitions = [framed.message for framed in batch.records]
        assert topic == records.TopicRecord(name="orders", topic_id=result.topic_id)
        assert config == records.ConfigRecord(
            resource_type=2, resource_name="orders", name="retention.ms", value="60000"
        )
        assert [framed.version for framed in batch.records] == [0, 0, 2, 2]
        for index, partition in enumerate(partitions):
            assert isinstance(partition, records.PartitionRecord)
            assert partition.partition_id == index
            assert sorted(partition.replicas) == sorted(partition.isr) == [1, 2, 3]
            assert partition.leader == partition.replicas[0]
            assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
            assert partition.directories == [directory_id(replica) for replica in partition.replicas]

    def test_the_answer_comes_with_the_image(self, node: MetadataNode) -> None:
        result = node.create_topic("orders")

        topic = node.image.topic(TopicName("orders"))
        assert topic is not None
        assert topic.topic_id == result.topic_id

    def test_the_answer_tells_what_every_key_comes_to(self, node: MetadataNode) -> None:
        result = node.create_topic("orders", configs={"retention.ms": "60000"})

        assert result.configs is not None
        configs = {config.name: config for config in result.configs}
        assert list(configs) == sorted(configs)
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("60000", ConfigSource.TOPIC)
        assert configs["segment.ms"].config_source == ConfigSource.DEFAULT
        assert configs["min.insync.replicas"].config_source == ConfigSource.DYNAMIC_DEFAULT_BROKER

    def test_values_of_the_controller_count_where_a_topic_has_none(self) -> None:
        node = MetadataNode(topic_defaults={"segment.ms": "7000"})
        node.start()
        node.serve(1)

        result = node.create_topic("orders")

        assert result.configs is not None
        [config] = [config for config in result.configs if config.name == "segment.ms"]
        assert (config.value, config.config_source) == ("7000", ConfigSource.STATIC_BROKER)

    def test_what_the_controllers_broker_was_given_counts_more_than_what_all_were(self, node: MetadataNode) -> None:
        for broker, value in (("", "5000"), ("1", "6000")):
            changed = IncrementalAlterConfigsAlterableConfig(name="log.roll.ms", config_operation=0, value=value)
            resource = IncrementalAlterConfigsAlterConfigsResource(
                resource_type=BROKER_RESOURCE, resource_name=broker, configs=[changed]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            node.ask(request, IncrementalAlterConfigsResponse)

            result = node.create_topic(f"after-{value}")

            assert result.configs is not None
            [config] = [config for config in result.configs if config.name == "segment.ms"]
            source = ConfigSource.DYNAMIC_BROKER if broker else ConfigSource.DYNAMIC_DEFAULT_BROKER
            assert (config.value, config.config_source) == (value, source)

    def test_a_changed_minimum_of_replicas_clears_who_is_eligible(self, node: MetadataNode) -> None:
        """As Kafka writes it for __transaction_state."""
        end = node.image.offset + 1

        node.create_topic("orders", configs={"min.insync.replicas": "2", "segment.ms": "7000"})

        kinds = [type(record) for record in node.records(end)]
        assert kinds == [
            records.TopicRecord,
            records.ConfigRecord,
            records.ConfigRecord,
            records.ClearElrRecord,
            records.PartitionRecord,
        ]

    def test_counts_default_to_the_configuration(self) -> None:
        node = MetadataNode(config={"num.partitions": "5", "default.replication.factor": "2"})
        node.start()
        node.serve(1, 2)

        result = node.create_topic("orders", partitions=-1, replicas=-1)

        assert (result.num_partitions, result.replication_factor) == (5, 2)

    def test_validation_writes_nothing(self, node: MetadataNode) -> None:
        end = node.image.offset

        result = node.create_topic("orders", validate_only=True)

        assert result.error_code == 0
        assert node.image.offset == end
        assert node.create_topic("orders").error_code == 0

    def test_replicas_by_hand(self, node: MetadataNode) -> None:
        result = node.create_topic("orders", assignments={1: [2, 3], 0: [3, 1]})

        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
        topic = node.image.topic(TopicName("orders"))
        assert topic is not None
        assert [partition.replicas for partition in topic.partitions.values()] == [(3, 1), (2, 3)]
        assert node.leaders("orders") == [3, 2]

    def test_a_fenced_replica_is_not_in_sync(self, node: MetadataNode) -> None:
        epoch = node.image.brokers[1].epoch  # type: ignore[index]
        node.heartbeat(1, epoch, want_fence=True)

        node.create_topic("orders", assignments={0: [1, 2]})

        topic = node.image.topic(TopicName("orders"))
        assert topic is not None
        partition = topic.partitions[0]  # type: ignore[index]
        assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (2,), 2)

    def test_a_broker_with_several_directories_chooses_one_later(self) -> None:
        node = MetadataNode()
        node.start()
        node.serve(1, directories=2)

        node.create_topic("orders")

        topic = node.image.topic(TopicName("orders"))
        assert topic is not None
        assert topic.partitions[0].directories == (UNASSIGNED_DIRECTORY,)  # type: ignore[index]

    @pytest.mark.parametrize(
        ("topic", "error", "message"),
        [
            (creatable("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
            (creatable("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
            (creatable("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
            (
                creatable("with_underscore"),
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                "collides with existing topic: with.underscore",
            ),
            (
                creatable("t", configs={"no.such.key": "1"}),
                ErrorCode.INVALID_CONFIG,
                "Unknown topic config name: no.such.key",
            ),
            (creatable("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG, "Invalid value x"),
            (creatable("t", configs={"retention.ms": "-2"}), ErrorCode.INVALID_CONFIG, "at least -1"),
            (
                creatable("t", configs={"retention.ms": None}),
                ErrorCode.INVALID_CONFIG,
                "Null value not supported for topic configs: retention.ms",
            ),
            (creatable("t", partitions=0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
            (creatable("t", partitions=-2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
            (creatable("t", replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
            (
                creatable("t", replicas=4),
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Unable to replicate the partition 4 time(s): ",
            ),
            (creatable("t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
            (
                creatable("t", assignments={0: [7]}),
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "includes broker 7, but no such broker",
            ),
            (creatable("t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
            (
                creatable("t", assignments={0: [1], 1: [1, 2]}),
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "not consistent with previous",
            ),
            (creatable("t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_is_wrong_is_said(self, node: MetadataNode, topic: object, error: ErrorCode, message: str) -> None:
        node.create_topic("there")
        node.create_topic("with.underscore")
        end = node.image.offset

        response = node.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)  # type: ignore[list-item]

        [result] = response.topics
        assert result.error_code == error
        assert message in (result.error_message or "")
        assert node.image.offset == end

    def test_a_hand_made_assignment_leaves_no_room_for_counts(self, node: MetadataNode) -> None:
        topic = creatable("t", assignments={0: [1]})
        topic.num_partitions = 1
        other = creatable("u", assignments={0: [1]})
        other.replication_factor = 1
        twice = creatable("v", assignments={0: [1]})
        twice.assignments.append(twice.assignments[0])

        response = node.ask(CreateTopicsRequest(topics=[topic, other, twice]), CreateTopicsResponse)

        assert [result.error_code for result in response.topics] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ]

    def test_brokers_that_are_all_fenced_lead_nothing(self) -> None:
        node = MetadataNode()
        node.start()
        node.register(1)

        assert "All brokers are currently fenced" in (node.create_topic("t").error_message or "")
        result = node.create_topic("t", assignments={0: [1]})
        assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "are fenced or in controlled shutdown" in (result.error_message or "")

    def test_good_ones_are_created_beside_bad_ones(self, node: MetadataNode) -> None:
        request = CreateTopicsRequest(topics=[creatable("a"), creatable("b", replicas=9), creatable("c")])

        response = node.ask(request, CreateTopicsResponse)

        assert [(result.name, result.error_code) for result in response.topics] == [
            ("a", 0),
            ("b", ErrorCode.INVALID_REPLICATION_FACTOR),
            ("c", 0),
        ]
        assert set(node.image.topic_ids) == {"a", "c"}

    def test_a_name_that_comes_twice_is_not_created(self, node: MetadataNode) -> None:
        request = CreateTopicsRequest(topics=[creatable("a"), creatable("b"), creatable("a")])

        response = node.ask(request, CreateTopicsResponse)

        assert [(result.name, result.error_code) for result in response.topics] == [
            ("a", ErrorCode.INVALID_REQUEST),
            ("b", 0),
        ]

    def test_too_many_at_once_are_refused_before_any_is_placed(self, node: MetadataNode) -> None:
        request = CreateTopicsRequest(topics=[creatable("a", partitions=9999), creatable("b", partitions=2)])

        response = node.ask(request, CreateTopicsResponse)

        assert {result.error_code for result in response.topics} == {ErrorCode.POLICY_VIOLATION}
        assert node.image.topic_ids == {}


class TestDeleting:
    def delete(
        self, node: MetadataNode, *states: DeleteTopicState, names: tuple[str, ...] = ()
    ) -> list[DeletableTopicResult]:
        request = DeleteTopicsRequest(topics=list(states), topic_names=list(names), timeout_ms=1000)
        return node.ask(request, DeleteTopicsResponse).responses

    def by_name(self, name: str) -> DeleteTopicState:
        return DeleteTopicState(name=name, topic_id=ZERO_UUID)

    def test_by_name_in_either_form_and_by_id(self, node: MetadataNode) -> None:
        ids = {name: node.create_topic(name, configs={"retention.ms": "1"}).topic_id for name in ("a", "b", "c", "d")}

        results = self.delete(node, self.by_name("b"), DeleteTopicState(name=None, topic_id=ids["c"]), names=("a",))

        assert [(result.name, result.topic_id, result.error_code) for result in results] == [
            (name, ids[name], 0) for name in ("a", "b", "c")
        ]
        assert set(node.image.topic_ids) == {"d"}
        assert {resource.name for resource in node.image.configs if resource.type == 2} == {"d"}

    def test_a_topic_that_comes_again_has_another_id(self, node: MetadataNode) -> None:
        before = node.create_topic("a").topic_id
        self.delete(node, self.by_name("a"))

        after = node.create_topic("a").topic_id

        assert before != after
        [result] = self.delete(node, DeleteTopicState(name=None, topic_id=before))
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_what_is_wrong_is_said(self, node: MetadataNode) -> None:
        topic_id = node.create_topic("a").topic_id

        results = self.delete(
            node,
            self.by_name("missing"),
            DeleteTopicState(name=None, topic_id=ZERO_UUID),
            DeleteTopicState(name="a", topic_id=topic_id),
            DeleteTopicState(name=None, topic_id=b"x" * 16),
        )

        assert [result.error_code for result in results] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        assert set(node.image.topic_ids) == {"a"}

    def test_one_that_is_named_twice_stays(self, node: MetadataNode) -> None:
        ids = {name: node.create_topic(name).topic_id for name in ("a", "b", "c")}

        results = self.delete(
            node,
            self.by_name("a"),
            self.by_name("a"),
            self.by_name("b"),
            DeleteTopicState(name=None, topic_id=ids["b"]),
            DeleteTopicState(name=None, topic_id=ids["c"]),
            DeleteTopicState(name=None, topic_id=ids["c"]),
        )

        assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}
        assert set(node.image.topic_ids) == {"a", "b", "c"}

    def test_deletion_can_be_switched_off(self) -> None:
        node = MetadataNode(config={"delete.topic.enable": "false"})
        node.start()
        node.serve(1)
        node.create_topic("a")

        [result] = self.delete(node, self.by_name("a"))

        assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        assert set(node.image.topic_ids) == {"a"}
