"""AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.metadata_node import NODE, MetadataNode
from tidelog.controller.cluster_view import BROKER_RESOURCE, TopicDefaults, topic_value
from tidelog.controller.configs import (
    ConfigChange,
    Operation,
    config_records,
    decide_incremental_alter_configs,
)
from tidelog.controller.decision import Refusal
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.controller.image_delta import TOPIC_RESOURCE
from tidelog.controller.settings import ControllerSettings
from tidelog.model.client_metrics_config import CLIENT_METRICS_KEYS
from tidelog.model.config import ConfigKeys, int_key, list_key
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.topic_config import SEGMENT_MS, TOPIC_KEYS
from tidelog.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.internal.cluster_metadata import ClearElrRecord, ConfigRecord

TOPIC, BROKER = TOPIC_RESOURCE, BROKER_RESOURCE
GROUP = 32
CLIENT_METRICS = 16
SET, DELETE, APPEND, SUBTRACT = Operation


@pytest.fixture
def node() -> MetadataNode:
    node = MetadataNode(config={"metadata.max.idle.interval.ms": "0"})
    node.start()
    node.serve(1)
    node.create_topic("orders", configs={"retention.ms": "60000"})
    return node


def resource(
    kind: int, name: str, *changes: tuple[str, int, str | None]
) -> IncrementalAlterConfigsAlterConfigsResource:
    return IncrementalAlterConfigsAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


def change(
    node: MetadataNode, kind: int, name: str, *changes: tuple[str, int, str | None]
) -> AlterConfigsResourceResponse:
    request = IncrementalAlterConfigsRequest(resources=[resource(kind, name, *changes)], validate_only=False)
    [response] = node.ask(request, IncrementalAlterConfigsResponse).responses
    return response


def configs(node: MetadataNode, kind: int = TOPIC, name: str = "orders") -> dict[str, str]:
    return dict(node.image.config_of(ConfigResource(kind, name)))


class TestIncrementally:
    def test_keys_are_set_and_unset(self, node: MetadataNode) -> None:
        assert (
            change(node, TOPIC, "orders", ("segment.ms", SET, "7000"), ("retention.ms", DELETE, None)).error_code == 0
        )
        assert configs(node) == {"segment.ms": "7000"}

    def test_lists_grow_and_shrink_from_what_counts_now(self, node: MetadataNode) -> None:
        change(node, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
        grown = configs(node)["cleanup.policy"]
        change(node, TOPIC, "orders", ("cleanup.policy", APPEND, "compact,compact"))
        same = configs(node)["cleanup.policy"]
        change(node, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))

        assert (grown, same, configs(node)["cleanup.policy"]) == ("delete,compact", "delete,compact", "compact")

    def test_a_list_grows_no_longer_than_a_record_can_hold(self, node: MetadataNode) -> None:
        throttled = "follower.replication.throttled.replicas"
        first, second = (",".join(f"{number}:1" for number in range(start, start + 3000)) for start in (10_000, 13_000))

        appended = change(node, TOPIC, "orders", (throttled, APPEND, first))
        end = node.image.offset
        refused = change(node, TOPIC, "orders", (throttled, APPEND, second))

        assert appended.error_code == ErrorCode.NONE
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert refused.error_message == (
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
        )
        assert (configs(node)[throttled], node.image.offset) == (first, end)
        assert change(node, TOPIC, "orders", (throttled, SUBTRACT, first)).error_code == ErrorCode.NONE

    def test_a_value_may_be_as_long_as_a_record_can_hold(self, node: MetadataNode) -> None:
        # In bytes, of which this letter has two.
        assert change(node, BROKER, "1", ("any.key", SET, "ü" * 16_383 + "x")).error_code == ErrorCode.NONE
        assert change(node, BROKER, "1", ("any.key", SET, "ü" * 16_384)).error_code == ErrorCode.INVALID_CONFIG
        assert len(configs(node, BROKER, "1")["any.key"]) == 16_384

    def test_what_is_so_already_writes_nothing_but_for_brokers(self, node: MetadataNode) -> None:
        change(node, BROKER, "", ("log.segment.ms", SET, "1"))
        end = node.image.offset

        change(node, TOPIC, "orders", ("retention.ms", SET, "60000"), ("segment.ms", DELETE, None))
        assert node.image.offset == end
        change(node, BROKER, "", ("log.segment.ms", SET, "1"))
        assert node.image.offset == end + 1

    def test_brokers_one_by_one_and_all_at_once(self, node: MetadataNode) -> None:
        change(node, BROKER, "1", ("any.key", SET, "a"))
        change(node, BROKER, "", ("any.key", SET, "b"))

        assert configs(node, BROKER, "1") == {"any.key": "a"}
        assert configs(node, BROKER, "")["any.key"] == "b"

    def test_validation_writes_nothing(self, node: MetadataNode) -> None:
        end = node.image.offset
        request = IncrementalAlterConfigsRequest(
            resources=[resource(TOPIC, "orders", ("segment.ms", SET, "7000"))], validate_only=True
        )

        [response] = node.ask(request, IncrementalAlterConfigsResponse).responses

        assert response.error_code == 0
        assert node.image.offset == end

    def test_a_resource_changes_as_a_whole_or_not_at_all(self, node: MetadataNode) -> None:
        change(node, TOPIC, "orders", ("segment.ms", SET, "7000"), ("retention.ms", SET, "nonsense"))

        assert configs(node) == {"retention.ms": "60000"}

    def test_others_change_beside_it(self, node: MetadataNode) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=[
                resource(TOPIC, "orders", ("segment.ms", SET, "7000")),
                resource(TOPIC, "missing", ("segment.ms", SET, "7000")),
                resource(BROKER, "1", ("x", SET, "y")),
            ],
            validate_only=False,
        )

        responses = node.ask(request, IncrementalAlterConfigsResponse).responses

        assert [response.error_code for response in responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        assert configs(node)["segment.ms"] == "7000"

    @pytest.mark.parametrize(
        ("kind", "name", "changes", "error", "message"),
        [
            (TOPIC, "missing", [("segment.ms", SET, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
            (
                TOPIC,
                "",
                [("segment.ms", SET, "1")],
                ErrorCode.INVALID_REQUEST,
                "Default topic resources are not allowed.",
            ),
            (TOPIC, "a b", [("segment.ms", SET, "1")], ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
            (BROKER, "x", [("k", SET, "1")], ErrorCode.INVALID_REQUEST, "Unable to parse broker name"),
            (BROKER, "-1", [("k", SET, "1")], ErrorCode.INVALID_REQUEST, "Unable to parse broker name"),
            (BROKER, "9", [("k", SET, "1")], ErrorCode.BROKER_ID_NOT_REGISTERED, "No node with id 9 found."),
            (GROUP, "g", [("k", SET, "1")], ErrorCode.INVALID_REQUEST, "Unexpected resource type 32"),
            (TOPIC, "orders", [("no.such", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
            (TOPIC, "orders", [("segment.ms", SET, "0")], ErrorCode.INVALID_CONFIG, "at least 1"),
            (
                TOPIC,
                "orders",
                [("segment.ms", SET, None)],
                ErrorCode.INVALID_REQUEST,
                "Null value not supported for : segment.ms",
            ),
            (TOPIC, "orders", [("segment.ms", 7, "1")], ErrorCode.INVALID_REQUEST, "Unknown operation 7"),
            (
                TOPIC,
                "orders",
                [("segment.ms", SET, "1"), ("segment.ms", SET, "2")],
                ErrorCode.INVALID_REQUEST,
                "duplicate config keys",
            ),
            (
                TOPIC,
                "orders",
                [("segment.ms", APPEND, "1")],
                ErrorCode.INVALID_CONFIG,
                "Can't APPEND to key segment.ms because its type is not LIST.",
            ),
            (TOPIC, "orders", [("cleanup.policy", APPEND, "shred")], ErrorCode.INVALID_CONFIG, "String must be one of"),
            (
                TOPIC,
                "orders",
                [("cleanup.policy", SET, "x" * 40_000)],
                ErrorCode.INVALID_CONFIG,
                "maximum value size of 32767 bytes",
            ),
            (
                BROKER,
                "1",
                [("min.insync.replicas", SET, "2")],
                ErrorCode.INVALID_CONFIG,
                "Broker-level min.insync.replicas cannot be altered",
            ),
            (
                BROKER,
                "",
                [("min.insync.replicas", DELETE, None)],
                ErrorCode.INVALID_CONFIG,
                "Cluster-level min.insync.replicas cannot be removed",
            ),
        ],
    )
    def test_what_is_wrong_is_said(
        self,
        node: MetadataNode,
        kind: int,
        name: str,
        changes: list[tuple[str, int, str | None]],
        error: ErrorCode,
        message: str,
    ) -> None:
        end = node.image.offset

        response = change(node, kind, name, *changes)

        assert response.error_code == error
        assert message in (response.error_message or "")
        assert node.image.offset == end

    def test_a_resource_that_comes_twice_is_not_changed(self, node: MetadataNode) -> None:
        twice = resource(TOPIC, "orders", ("segment.ms", SET, "7000"))
        request = IncrementalAlterConfigsRequest(resources=[twice, twice], validate_only=False)

        [response] = node.ask(request, IncrementalAlterConfigsResponse).responses

        assert (response.error_code, response.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Each resource must appear at most once.",
        )

    def test_another_minimum_of_replicas_clears_who_is_eligible(self, node: MetadataNode) -> None:
        end = node.image.offset + 1

        change(node, TOPIC, "orders", ("min.insync.replicas", SET, "2"))
        change(node, BROKER, "", ("min.insync.replicas", SET, "2"))

        cleared = [record.topic_name for record in node.records(end) if isinstance(record, ClearElrRecord)]
        assert cleared == ["orders", ""]


class TestAsAWhole:
    def alter(
        self, node: MetadataNode, values: dict[str, str | None], *, validate_only: bool = False
    ) -> AlterConfigsResourceResponse:
        configs = [AlterableConfig(name=name, value=value) for name, value in values.items()]
        resources = [AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=configs)]
        request = AlterConfigsRequest(resources=resources, validate_only=validate_only)
        [response] = node.ask(request, AlterConfigsResponse).responses
        return response

    def test_what_is_not_named_is_unset(self, node: MetadataNode) -> None:
        change(node, TOPIC, "orders", ("segment.ms", SET, "7000"))

        assert self.alter(node, {"segment.ms": "8000", "flush.ms": "9"}).error_code == 0
        assert configs(node) == {"segment.ms": "8000", "flush.ms": "9"}

    def test_validation_writes_nothing(self, node: MetadataNode) -> None:
        assert self.alter(node, {}, validate_only=True).error_code == 0
        assert configs(node) == {"retention.ms": "60000"}

    def test_nulls_and_nonsense_are_refused(self, node: MetadataNode) -> None:
        assert self.alter(node, {"segment.ms": None}).error_code == ErrorCode.INVALID_REQUEST
        assert self.alter(node, {"segment.ms": "x"}).error_code == ErrorCode.INVALID_CONFIG
        assert configs(node) == {"retention.ms": "60000"}


class TestTables:
    def settings(self, groups: ConfigKeys | None = None) -> ControllerSettings:
        return ControllerSettings(
            NODE, "cluster", config_keys={TOPIC: TOPIC_KEYS, BROKER: None, GROUP: groups or ConfigKeys([])}
        )

    def test_other_resources_have_tables_of_their_own(self) -> None:
        table = ConfigKeys([list_key("consumer.assignors", ("range",), doc="")])
        image = ClusterImage()

        def decided(name: str, group: str = "g") -> AlterConfigsResourceResponse:
            request = IncrementalAlterConfigsRequest(
                resources=[resource(GROUP, group, (name, SET, "x"))], validate_only=False
            )
            decision = decide_incremental_alter_configs(image, request, self.settings(table))
            return decision.answer.responses[0]

        assert decided("consumer.assignors").error_code == 0
        assert decided("other").error_message == "Unknown group config name: other"
        assert decided("consumer.assignors", "").error_message == "Default group resources are not allowed."

    def test_values_may_be_wrong_together(self) -> None:
        """Each value alone is right; the whole is judged as it would be after the change."""
        table = ConfigKeys([int_key("low", 1, doc=""), int_key("high", 9, doc="")])

        def problem(values: Mapping[str, str]) -> str | None:
            return "low is above high" if int(values.get("low", "1")) > int(values.get("high", "9")) else None

        settings = ControllerSettings(NODE, "cluster", config_keys={GROUP: table}, config_problems={GROUP: problem})

        def decided(*changes: tuple[str, int, str | None]) -> tuple[int, str | None, int]:
            request = IncrementalAlterConfigsRequest(resources=[resource(GROUP, "g", *changes)], validate_only=False)
            decision = decide_incremental_alter_configs(ClusterImage(), request, settings)
            answer = decision.answer.responses[0]
            return answer.error_code, answer.error_message, len(decision.records)

        assert decided(("low", SET, "5")) == (0, None, 1)
        assert decided(("low", SET, "12"), ("high", SET, "20")) == (0, None, 2)
        assert decided(("low", SET, "12")) == (ErrorCode.INVALID_CONFIG, "low is above high", 0)

    def test_an_unknown_key_of_client_metrics_is_an_invalid_request(self) -> None:
        settings = ControllerSettings(NODE, "cluster", config_keys={CLIENT_METRICS: CLIENT_METRICS_KEYS})
        request = IncrementalAlterConfigsRequest(
            resources=[resource(CLIENT_METRICS, "all", ("other", SET, "x"))], validate_only=False
        )
        (answer,) = decide_incremental_alter_configs(ClusterImage(), request, settings).answer.responses
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.error_message == "Unknown client metrics configuration: other"

    @pytest.mark.parametrize(
        ("value", "error", "message"),
        [
            (
                "50",
                ErrorCode.INVALID_REQUEST,
                "Invalid value 50 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            ),
            (
                "3600001",
                ErrorCode.INVALID_REQUEST,
                "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            ),
            (
                "99999999999",
                ErrorCode.INVALID_CONFIG,
                "Invalid value 99999999999 for configuration interval.ms: Not a number of type INT",
            ),
            (
                "often",
                ErrorCode.INVALID_CONFIG,
                "Invalid value often for configuration interval.ms: Not a number of type INT",
            ),
        ],
    )
    def test_an_interval_of_client_metrics_out_of_range_is_an_invalid_request(
        self, value: str, error: ErrorCode, message: str
    ) -> None:
        settings = ControllerSettings(NODE, "cluster", config_keys={CLIENT_METRICS: CLIENT_METRICS_KEYS})
        request = IncrementalAlterConfigsRequest(
            resources=[resource(CLIENT_METRICS, "all", ("interval.ms", SET, value))], validate_only=False
        )
        (answer,) = decide_incremental_alter_configs(ClusterImage(), request, settings).answer.responses
        assert (answer.error_code, answer.error_message) == (error, message)

    def test_broker_keys_without_a_table_may_be_lists(self) -> None:
        outcome = config_records(
            ClusterImage(),
            ConfigResource(BROKER, ""),
            [ConfigChange("some.list", Operation.APPEND, "a,b")],
            self.settings(),
        )

        assert not isinstance(outcome, Refusal)
        [framed] = outcome
        assert framed.message == ConfigRecord(resource_type=BROKER, resource_name="", name="some.list", value="a,b")


def test_a_value_that_this_release_does_not_allow_gives_way_to_the_next() -> None:
    image = ClusterImage(configs={ConfigResource(TOPIC, "orders"): {"segment.ms": "-5"}})

    assert topic_value(image, TopicName("orders"), SEGMENT_MS, TopicDefaults()) == SEGMENT_MS.default
    assert topic_value(image, TopicName("orders"), SEGMENT_MS, TopicDefaults({"segment.ms": "9"})) == 9
