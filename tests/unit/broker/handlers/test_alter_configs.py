"""IncrementalAlterConfigs and AlterConfigs: what is refused or done here, and what the controller is left to decide."""

from __future__ import annotations

import logging

import pytest

from tests.unit.broker.admin_node import CONTROLLER_LISTENER, AdminNode, Denies, ask, broker, config, topic
from tidelog.broker.handlers import alter_configs, incremental_alter_configs
from tidelog.controller.configs import Operation
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
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

HANDLED = (alter_configs, incremental_alter_configs)
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = Operation
Change = tuple[str, int, str | None]
Told = tuple[int, str | None]


def taken(
    request: IncrementalAlterConfigsRequest | AlterConfigsRequest,
) -> list[AlterConfigsResourceResponse]:
    """A controller that takes everything but topics named `bad`."""
    return [
        AlterConfigsResourceResponse(
            error_code=ErrorCode.INVALID_CONFIG if each.resource_name == "bad" else ErrorCode.NONE,
            error_message="No." if each.resource_name == "bad" else None,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in request.resources
    ]


def node_with(*applied: object) -> AdminNode:
    node = AdminNode(broker(1), *topic("orders"), *applied)  # type: ignore[arg-type]

    def controller(
        request: IncrementalAlterConfigsRequest | AlterConfigsRequest,
    ) -> IncrementalAlterConfigsResponse | AlterConfigsResponse:
        if isinstance(request, AlterConfigsRequest):
            return AlterConfigsResponse(throttle_time_ms=0, responses=taken(request))
        return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=taken(request))

    node.controller = controller
    return node


def changed(
    node: AdminNode,
    *resources: tuple[int, str, list[Change]],
    validate_only: bool = False,
    version: int = 1,
    authorizer: Denies | None = None,
    listener: str | None = None,
) -> list[Told]:
    asked = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    answer = ask(node, asked, IncrementalAlterConfigsResponse, version, authorizer=authorizer, listener=listener)
    assert [(each.resource_type, each.resource_name) for each in answer.responses] == [each[:2] for each in resources]
    return [(each.error_code, each.error_message) for each in answer.responses]


def replaced(
    node: AdminNode,
    kind: int,
    name: str,
    values: dict[str, str | None],
    *,
    version: int = 2,
    authorizer: Denies | None = None,
    listener: str | None = None,
) -> Told:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in values.items()],
    )
    asked = AlterConfigsRequest(resources=[resource], validate_only=False)
    (answer,) = ask(node, asked, AlterConfigsResponse, version, authorizer=authorizer, listener=listener).responses
    return answer.error_code, answer.error_message


def passed_on(node: AdminNode) -> list[tuple[int, str]]:
    return [
        (resource.resource_type, resource.resource_name)
        for request in node.forwarded
        if isinstance(request, IncrementalAlterConfigsRequest | AlterConfigsRequest)
        for resource in request.resources
    ]


SEGMENT_MS: list[Change] = [("segment.ms", SET, "5000")]


@pytest.mark.parametrize("version", [0, 1])
def test_the_controller_decides_on_topics_groups_and_client_metrics(version: int) -> None:
    node = node_with()

    told = changed(
        node,
        (TOPIC, "orders", SEGMENT_MS),
        (TOPIC, "bad", SEGMENT_MS),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
        (CLIENT_METRICS, "m", [("interval.ms", SET, "1000")]),
        version=version,
    )

    assert told == [(0, None), (ErrorCode.INVALID_CONFIG, "No."), (0, None), (0, None)]
    assert len(node.forwarded) == 1
    assert passed_on(node) == [(TOPIC, "orders"), (TOPIC, "bad"), (GROUP, "g"), (CLIENT_METRICS, "m")]


def test_validation_alone_stays_validation() -> None:
    node = node_with()

    changed(node, (TOPIC, "orders", SEGMENT_MS), validate_only=True)

    assert [each.validate_only for each in node.forwarded] == [True]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (TOPIC, SEGMENT_MS * 2, "Error due to duplicate config keys"),
        (
            TOPIC,
            [("segment.ms", SET, None), ("retention.ms", APPEND, None), ("x", DELETE, None)],
            "Null value not supported for : segment.ms, retention.ms",
        ),
        (0, SEGMENT_MS, "Unknown resource type 0"),
        (3, SEGMENT_MS, "Unknown resource type 3"),
    ],
)
def test_requests_that_contradict_themselves(kind: int, changes: list[Change], message: str) -> None:
    node = node_with()

    assert changed(node, (kind, "orders", changes)) == [(ErrorCode.INVALID_REQUEST, message)]
    assert node.forwarded == []


def test_a_resource_that_comes_twice_is_refused_twice_and_others_go_on() -> None:
    node = node_with()

    told = changed(node, (TOPIC, "a", SEGMENT_MS), (TOPIC, "b", SEGMENT_MS), (TOPIC, "a", []))

    twice = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert told == [twice, (0, None), twice]
    assert passed_on(node) == [(TOPIC, "b")]


def test_a_controller_that_forgets_a_resource_is_told_of() -> None:
    node = node_with()
    node.controller = lambda _: IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=[])

    assert changed(node, (TOPIC, "orders", SEGMENT_MS))[0][0] == ErrorCode.UNKNOWN_SERVER_ERROR


# Brokers


@pytest.mark.parametrize("name", ["", "1"])
def test_a_brokers_keys_are_checked_and_passed_on(name: str) -> None:
    node = node_with()

    assert changed(node, (BROKER, name, [("num.io.threads", SET, "4"), ("log.retention.ms", DELETE, None)])) == [
        (0, None)
    ]
    assert passed_on(node) == [(BROKER, name)]


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("1", ("num.partitions", SET, "3"), 42, "Cannot update these configs dynamically: [num.partitions]"),
        ("", ("log.dirs", APPEND, "/x"), 42, "Cannot update these configs dynamically: [log.dirs]"),
        (
            "",
            ("listener.security.protocol.map", SET, "A:PLAINTEXT"),
            42,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "[listener.security.protocol.map]"
            ),
        ),
        (
            "1",
            ("log.retention.ms", SET, "x"),
            42,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            "1",
            ("num.io.threads", SET, "0"),
            42,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        ("1", ("log.cleaner.threads", SET, "0"), 42, "Log cleaner threads should be at least 1"),
        ("1", ("num.io.threads", 9, "4"), 42, "Unknown operations type 9"),
        (
            "1",
            ("num.io.threads", APPEND, "4"),
            40,
            "Config value append is not allowed for config key: num.io.threads",
        ),
        (
            "",
            ("num.io.threads", SUBTRACT, "4"),
            40,
            "Config value subtract is not allowed for config key: num.io.threads",
        ),
        ("1", ("nope", APPEND, "4"), 40, "Unknown config name: nope"),
        (
            "1",
            ("metrics.num.samples", SET, "4"),
            42,
            "Cannot update these configs dynamically: [metrics.num.samples]",
        ),
        ("1", ("broker.id", SET, "4"), 42, "Cannot update these configs dynamically: [broker.id]"),
        (
            "1",
            ("principal.builder.class", SET, "org.example.Builder"),
            40,
            "principal.builder.class cannot be set: it names Java classes, which do not run here",
        ),
        (
            "",
            ("listener.name.clients.ssl.keystore.type", SET, "PEM"),
            42,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "[listener.name.clients.ssl.keystore.type]"
            ),
        ),
        (
            "",
            ("ssl.keystore.type", SET, "PEM"),
            42,
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "[ssl.keystore.type]"
            ),
        ),
        (
            "1",
            ("ssl.truststore.location", SET, "/ca.pem"),
            42,
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "[ssl.truststore.location]"
            ),
        ),
        (
            "",
            ("listener.name.clients.num.io.threads", SET, "4"),
            42,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "[listener.name.clients.num.io.threads]"
            ),
        ),
        (
            "",
            ("listener.name.clients.someones.plug.in", SET, "4"),
            42,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "[listener.name.clients.someones.plug.in]"
            ),
        ),
        (
            "1",
            ("listener.name.clients.num.io.threads", SET, "many"),
            42,
            "Invalid value many for configuration num.io.threads: Not a number of type INT",
        ),
        (
            "",
            ("listener.name.clients.max.connections", SET, "0"),
            42,
            "Invalid max.connections 0",
        ),
        (
            "1",
            ("listener.name.clients.principal.builder.class", SET, "org.example.Builder"),
            40,
            (
                "listener.name.clients.principal.builder.class cannot be set: it names Java classes, which do not run here"
            ),
        ),
        ("2", ("num.io.threads", SET, "4"), 42, "Unexpected broker id, expected 1, but received 2"),
        ("x", ("num.io.threads", SET, "4"), 42, "Node id must be an integer, but it is: x"),
    ],
)
def test_changes_that_a_broker_refuses(name: str, change: Change, error: int, message: str) -> None:
    node = node_with()

    assert changed(node, (BROKER, name, [change])) == [(error, message)]
    assert node.forwarded == []


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate", "num.network.threads"])
def test_three_keys_of_a_listener_may_be_set_for_all_brokers(name: str) -> None:
    node = node_with()

    assert changed(node, (BROKER, "", [(f"listener.name.clients.{name}", SET, "4")])) == [(0, None)]
    assert passed_on(node) == [(BROKER, "")]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("num.io.threads", "it tunes"),
        ("log.retention.ms", "log.retention.ms holds for the whole node"),
        ("num.partitions", "num.partitions holds for the whole node"),
        ("connections.max.reauth.ms", "a node goes by what it is started with"),
    ],
)
def test_what_is_no_key_of_a_running_listener_is_stored_for_one_and_the_log_says_so(
    name: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with()

    with caplog.at_level(logging.INFO):
        assert changed(node, (BROKER, "1", [(f"listener.name.clients.{name}", SET, "4")])) == [(0, None)]

    assert f"listener.name.clients.{name} is stored without effect: {reason}" in caplog.text
    assert passed_on(node) == [(BROKER, "1")]


def test_keys_that_only_tune_apache_kafka_are_stored_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    node = node_with(config(BROKER, "", "background.threads", "2"))

    with caplog.at_level(logging.INFO):
        assert changed(node, (BROKER, "", [("background.threads", SET, "3")])) == [(0, None)]

    assert "background.threads is stored without effect" in caplog.text
    assert passed_on(node) == [(BROKER, "")]


def test_a_key_that_nobody_knows_is_stored_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    node = node_with()

    for name in ("1", ""):
        assert changed(node, (BROKER, name, [("log.retenton.ms", SET, "3")])) == [(0, None)]

    assert (
        "log.retenton.ms is stored without effect: there is no such key; did you mean log.retention.ms?" in caplog.text
    )
    assert passed_on(node) == [(BROKER, "1"), (BROKER, "")]


def test_a_list_is_extended_from_what_is_set_or_else_from_the_default() -> None:
    node = node_with(config(BROKER, "", "log.cleanup.policy", "compact"))

    assert changed(node, (BROKER, "", [("log.cleanup.policy", APPEND, "delete,compact")])) == [(0, None)]
    assert changed(node, (BROKER, "1", [("log.cleanup.policy", SUBTRACT, "delete")])) == [(0, None)]


def test_what_another_release_has_stored_is_nobodys_mistake_and_can_be_unset() -> None:
    node = node_with(config(BROKER, "1", "someones.plug.in", "x"), config(BROKER, "1", "num.io.threads", "many"))

    assert changed(node, (BROKER, "1", [("min.insync.replicas", SET, "2"), ("someones.plug.in", DELETE, None)])) == [
        (0, None)
    ]


# Loggers


@pytest.fixture
def logger() -> logging.Logger:
    logger = logging.getLogger("tests.altered")
    logger.setLevel(logging.NOTSET)
    return logger


def test_a_loggers_level_is_changed_at_once_and_nothing_is_written_down(logger: logging.Logger) -> None:
    node = node_with()

    assert changed(node, (BROKER_LOGGER, "1", [("tests.altered", SET, "DEBUG")])) == [(0, None)]
    assert logger.level == logging.DEBUG
    assert changed(node, (BROKER_LOGGER, "1", [("tests.altered", DELETE, None)])) == [(0, None)]
    assert logger.level == logging.NOTSET
    assert node.forwarded == []


def test_validation_alone_changes_no_logger(logger: logging.Logger) -> None:
    assert changed(node_with(), (BROKER_LOGGER, "1", [("tests.altered", SET, "ERROR")]), validate_only=True) == [
        (0, None)
    ]
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("1", ("tests.no_such", SET, "INFO"), 40, "Logger tests.no_such does not exist!"),
        ("1", ("tests.no_such", DELETE, None), 40, "Logger tests.no_such does not exist!"),
        (
            "1",
            ("root", SET, "warn"),
            40,
            (
                "Cannot set the log level of root to warn as it is not a supported log level. "
                "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
            ),
        ),
        ("1", ("root", DELETE, None), 42, "Removing the log level of the root logger is not allowed"),
        ("1", ("root", APPEND, "INFO"), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("1", ("root", SUBTRACT, "INFO"), 42, "SUBTRACT operation is not allowed for the BROKER_LOGGER resource"),
        ("1", ("root", 9, "INFO"), 42, "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource"),
        ("2", ("root", SET, "INFO"), 42, "Unexpected node id. Expected 1, but received 2"),
        ("", ("root", SET, "INFO"), 42, "Node id must be an integer, but it is: "),
    ],
)
def test_changes_of_loggers_that_are_refused(name: str, change: Change, error: int, message: str) -> None:
    assert changed(node_with(), (BROKER_LOGGER, name, [change])) == [(error, message)]


def test_one_bad_logger_leaves_all_as_they_are(logger: logging.Logger) -> None:
    changes: list[Change] = [("tests.altered", SET, "ERROR"), ("tests.no_such", SET, "ERROR")]

    assert changed(node_with(), (BROKER_LOGGER, "1", changes))[0][0] == ErrorCode.INVALID_CONFIG
    assert logger.level == logging.NOTSET


# Who may


@pytest.mark.parametrize(
    ("kind", "name", "change", "resource", "error"),
    [
        (TOPIC, "orders", ("segment.ms", SET, "1"), ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (GROUP, "g", ("x", SET, "1"), ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (BROKER, "1", ("num.io.threads", SET, "1"), ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (CLIENT_METRICS, "m", ("x", SET, "1"), ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (BROKER_LOGGER, "1", ("root", SET, "INFO"), ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_who_may_not_change(kind: int, name: str, change: Change, resource: ResourceType, error: ErrorCode) -> None:
    node = node_with()
    level = logging.getLogger().level
    # A controller's loggers take another right than a broker's.
    operation = AclOperation.CLUSTER_ACTION if kind == BROKER_LOGGER else AclOperation.ALTER_CONFIGS
    denies = Denies((operation, resource, None))

    told = changed(node, (kind, name, [change]), authorizer=denies, listener=CONTROLLER_LISTENER)

    assert told == [(error, error.message)]
    assert node.forwarded == []
    assert logging.getLogger().level == level


def test_a_broker_judges_who_changes_its_loggers_and_leaves_all_else_to_the_controller() -> None:
    node = node_with()
    denies = Denies(*((AclOperation.ALTER_CONFIGS, each, None) for each in ResourceType))
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    assert changed(node, (BROKER_LOGGER, "1", [("root", SET, "INFO")]), authorizer=denies) == [(error, error.message)]
    assert node.forwarded == []
    assert changed(node, (TOPIC, "orders", [("segment.ms", SET, "6000")]), authorizer=denies) == [(0, None)]
    assert len(node.forwarded) == 1


def test_a_controller_judges_and_checks_no_brokers_keys() -> None:
    node = node_with()

    told = changed(
        node,
        (BROKER, "7", [("segment.ms", SET, "6000")]),
        (TOPIC, "orders", []),
        (TOPIC, "orders", []),
        (99, "x", []),
        listener=CONTROLLER_LISTENER,
    )

    assert told == [
        (0, None),
        (ErrorCode.INVALID_REQUEST, "Duplicate resource."),
        (ErrorCode.INVALID_REQUEST, "Duplicate resource."),
        (ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type 99."),
    ]


# AlterConfigs


@pytest.mark.parametrize("version", range(3))
def test_the_older_api_is_passed_on_as_a_whole(version: int) -> None:
    node = node_with()

    assert replaced(node, TOPIC, "orders", {"segment.ms": "6000"}, version=version) == (0, None)
    assert replaced(node, TOPIC, "bad", {}, version=version) == (ErrorCode.INVALID_CONFIG, "No.")
    assert all(isinstance(each, AlterConfigsRequest) for each in node.forwarded)


@pytest.mark.parametrize(
    ("kind", "name", "values", "message"),
    [
        (TOPIC, "orders", {"segment.ms": None}, "Null value not supported for : segment.ms"),
        (BROKER_LOGGER, "1", {"root": "INFO"}, "Unknown resource type 8"),
        (BROKER, "1", {"num.partitions": "3"}, "Cannot update these configs dynamically: [num.partitions]"),
        (0, "x", {}, "Unknown resource type 0"),
    ],
)
def test_what_the_older_api_refuses(kind: int, name: str, values: dict[str, str | None], message: str) -> None:
    node = node_with()

    assert replaced(node, kind, name, values) == (ErrorCode.INVALID_REQUEST, message)
    assert node.forwarded == []


def test_the_older_api_takes_permission_too() -> None:
    denies = Denies((AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "orders"))

    error, _ = replaced(node_with(), TOPIC, "orders", {}, authorizer=denies, listener=CONTROLLER_LISTENER)

    assert error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
