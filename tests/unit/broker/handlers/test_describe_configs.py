from __future__ import annotations

import logging

import pytest

from tests.unit.broker.admin_node import BROKER_TABLE, AdminNode, Denies, ask, broker, config, topic
from tidelog.broker.handlers import describe_configs
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.config import ConfigSource, ConfigType
from tidelog.model.errors import ErrorCode
from tidelog.model.group_config import GROUP_KEYS
from tidelog.model.topic_config import RETENTION_MS, TOPIC_KEYS
from tidelog.model.unused_config import unused_keys
from tidelog.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

HANDLED = describe_configs
SHOWN = {*BROKER_TABLE, *(name for name, unused in unused_keys().items() if not unused.key.is_internal)}
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def described(
    node: AdminNode,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = True,
    documentation: bool = False,
    authorizer: Denies | None = None,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )
    (result,) = ask(node, request, DescribeConfigsResponse, version, authorizer=authorizer).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def by_name(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
    return {each.name: each for each in result.configs}


def synonyms_of(entry: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


def node_with(*applied: object, **static: str) -> AdminNode:
    names = {name.replace("_", "."): value for name, value in static.items()}
    return AdminNode(broker(1), *topic("orders"), *applied, static=names)  # type: ignore[arg-type]


# Topics


def test_every_key_of_a_topic_is_told_in_order() -> None:
    entries = by_name(described(node_with(), TOPIC, "orders"))

    assert list(entries) == sorted(set(TOPIC_KEYS) - {"internal.segment.bytes"})
    assert not any(each.read_only or each.is_sensitive for each in entries.values())
    assert entries["cleanup.policy"].config_type == ConfigType.LIST
    assert entries["flush.messages"].value == "9223372036854775807"
    assert entries["preallocate"].value == "false"


def test_a_topics_value_comes_before_all_of_the_brokers() -> None:
    node = node_with(
        config(TOPIC, "orders", "retention.ms", "1000"),
        config(BROKER, "1", "log.retention.ms", "3600000"),
        config(BROKER, "", "log.retention.ms", "7200000"),
        log_retention_hours="24",
    )

    entry = by_name(described(node, TOPIC, "orders"))["retention.ms"]

    assert (entry.value, entry.config_source) == ("1000", ConfigSource.TOPIC)
    assert synonyms_of(entry) == [
        ("retention.ms", "1000", 1),
        ("log.retention.ms", "3600000", 2),
        ("log.retention.ms", "7200000", 3),
        ("log.retention.hours", "24", 4),
        ("log.retention.hours", "168", 5),
    ]


@pytest.mark.parametrize(
    ("static", "value", "source", "synonyms"),
    [
        ({}, "604800000", 5, []),
        ({"log_retention_hours": "24"}, "86400000", 5, []),
        (
            {"log_retention_ms": "5", "log_retention_hours": "24"},
            "5",
            4,
            [("log.retention.ms", "5", 4), ("log.retention.hours", "24", 4), ("log.retention.hours", "168", 5)],
        ),
    ],
)
def test_a_topic_that_says_nothing_takes_the_brokers_value(
    static: dict[str, str], value: str, source: int, synonyms: list[tuple[str, str, int]]
) -> None:
    entry = by_name(described(node_with(**static), TOPIC, "orders"))["retention.ms"]

    assert (entry.value, entry.config_source, synonyms_of(entry)) == (value, source, synonyms)


def test_synonyms_and_documentation_are_told_if_asked_for() -> None:
    node = node_with(config(TOPIC, "orders", "retention.ms", "1000"))

    plain = described(node, TOPIC, "orders", ["retention.ms"], synonyms=False).configs[0]
    full = described(node, TOPIC, "orders", ["retention.ms"], documentation=True).configs[0]
    old = described(node, TOPIC, "orders", ["retention.ms"], version=1).configs[0]

    assert (plain.synonyms, plain.documentation, plain.config_source) == ([], None, ConfigSource.TOPIC)
    assert full.documentation == RETENTION_MS.doc
    assert (full.config_type, old.config_type) == (ConfigType.LONG, 0)
    assert len(old.synonyms) == len(full.synonyms)


@pytest.mark.parametrize("version", range(1, 5))
def test_only_the_keys_that_are_asked_for_are_told(version: int) -> None:
    node = node_with()

    assert list(by_name(described(node, TOPIC, "orders", ["segment.ms", "nope"], version=version))) == ["segment.ms"]
    assert len(described(node, TOPIC, "orders", [], version=version).configs) == len(TOPIC_KEYS) - 1


def test_what_another_release_has_stored_is_told_as_it_is() -> None:
    node = node_with(
        config(TOPIC, "orders", "remote.storage.enable", "true"), config(TOPIC, "orders", "retention.ms", "soon")
    )

    entries = by_name(described(node, TOPIC, "orders"))

    remote = entries["remote.storage.enable"]
    assert (remote.value, remote.config_source, remote.config_type) == ("true", ConfigSource.TOPIC, 0)
    assert entries["retention.ms"].value == "soon"


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (
            "a b",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
    ],
)
def test_topics_that_are_not_there(name: str, error: ErrorCode, message: str) -> None:
    result = described(node_with(), TOPIC, name)

    assert (result.error_code, result.error_message, result.configs) == (error, message, [])


# Brokers


def test_a_broker_tells_of_itself() -> None:
    node = node_with(
        config(BROKER, "1", "num.io.threads", "4"),
        config(BROKER, "1", "ssl.key.password", "hush"),
        config(BROKER, "", "someones.plug.in", "x"),
        log_dirs="/a,/b",
    )

    entries = by_name(described(node, BROKER, "1"))

    assert list(entries) == sorted({*SHOWN, "someones.plug.in"})
    assert (entries["broker.id"].value, entries["node.id"].value) == ("1", "1")
    threads = entries["num.io.threads"]
    assert (threads.value, threads.config_source, threads.read_only) == ("4", ConfigSource.DYNAMIC_BROKER, False)
    directories = entries["log.dirs"]
    assert (directories.value, directories.config_source, directories.read_only) == ("/a,/b", 4, True)
    unset = entries["log.retention.ms"]
    assert (unset.value, unset.config_source, unset.synonyms) == (None, ConfigSource.DEFAULT, [])
    secret = entries["ssl.key.password"]
    assert (secret.value, secret.is_sensitive, secret.synonyms[0].value) == (None, True, None)
    foreign = entries["someones.plug.in"]
    assert (foreign.value, foreign.is_sensitive, foreign.read_only, foreign.config_type) == (None, True, True, 0)
    assert [(each.value, each.source) for each in foreign.synonyms] == [(None, ConfigSource.DYNAMIC_DEFAULT_BROKER)]


@pytest.mark.parametrize("name", ["+1", "01"])
def test_javas_spellings_of_a_broker_are_understood(name: str) -> None:
    assert len(described(node_with(), BROKER, name).configs) == len(SHOWN)


def test_a_key_without_effect_is_told_with_its_value_and_says_so() -> None:
    node = node_with(num_network_threads="5")

    entry = by_name(described(node, BROKER, "1", ["num.network.threads"], documentation=True))["num.network.threads"]

    assert (entry.value, entry.config_source, entry.config_type) == ("5", ConfigSource.STATIC_BROKER, ConfigType.INT)
    assert synonyms_of(entry) == [("num.network.threads", "5", 4), ("num.network.threads", "3", 5)]
    assert "Without effect here" in (entry.documentation or "")


def test_an_internal_key_is_told_where_it_is_set() -> None:
    node = node_with(config(TOPIC, "orders", "internal.segment.bytes", "4096"), server_max_startup_time_ms="7")

    assert by_name(described(node, TOPIC, "orders"))["internal.segment.bytes"].value == "4096"
    assert by_name(described(node, BROKER, "1"))["server.max.startup.time.ms"].value == "7"
    assert "log.initial.task.delay.ms" not in by_name(described(node, BROKER, "1"))


def test_without_a_name_a_broker_tells_what_is_set_for_all() -> None:
    node = node_with(
        config(BROKER, "", "min.insync.replicas", "2"),
        config(BROKER, "1", "min.insync.replicas", "3"),
        min_insync_replicas="4",
    )

    (entry,) = described(node, BROKER, "").configs

    assert (entry.name, entry.value, entry.config_source) == ("min.insync.replicas", "2", 3)
    assert synonyms_of(entry) == [("min.insync.replicas", "2", 3)]


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (BROKER, "2", "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER, "x", "Broker id must be an integer, but it is: x"),
        (BROKER_LOGGER, "", "Broker id must not be empty"),
        (BROKER_LOGGER, "2", "Unexpected broker id, expected 1 but received 2"),
        (BROKER_LOGGER, "x", "Broker id must be an integer, but it is: x"),
        (GROUP, "", "Group name must not be empty"),
        (CLIENT_METRICS, "", "Client metrics subscription name must not be empty"),
    ],
)
def test_resources_that_this_broker_does_not_tell_of(kind: int, name: str, message: str) -> None:
    result = described(node_with(), kind, name)

    assert (result.error_code, result.error_message, result.configs) == (ErrorCode.INVALID_REQUEST, message, [])


def test_loggers_have_kafkas_levels() -> None:
    logging.getLogger("tests.described").setLevel(logging.CRITICAL)

    entries = by_name(described(node_with(), BROKER_LOGGER, "1"))

    assert entries["tests.described"].value == "FATAL"
    assert "root" in entries
    assert {each.config_source for each in entries.values()} == {ConfigSource.DYNAMIC_BROKER_LOGGER}
    assert list(by_name(described(node_with(), BROKER_LOGGER, "1", ["root"]))) == ["root"]


# Groups and client metrics


def test_a_group_takes_what_it_does_not_say_from_the_broker() -> None:
    node = node_with(
        config(GROUP, "g", "consumer.session.timeout.ms", "50000"), group_consumer_session_timeout_ms="46000"
    )

    entries = by_name(described(node, GROUP, "g"))

    assert list(entries) == sorted(GROUP_KEYS)
    own = entries["consumer.session.timeout.ms"]
    assert (own.value, own.config_source) == ("50000", ConfigSource.GROUP)
    assert synonyms_of(own) == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "46000", 4),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    other = by_name(described(node, GROUP, "another"))["consumer.session.timeout.ms"]
    assert (other.value, other.config_source) == ("46000", ConfigSource.STATIC_BROKER)
    assert synonyms_of(entries["share.auto.offset.reset"]) == [("share.auto.offset.reset", "latest", 5)]


def test_a_subscription_to_client_metrics() -> None:
    node = node_with(config(CLIENT_METRICS, "m", "metrics", "a,b"))

    entries = by_name(described(node, CLIENT_METRICS, "m"))

    assert {name: (each.value, each.config_source) for name, each in entries.items()} == {
        "interval.ms": ("300000", ConfigSource.DEFAULT),
        "match": ("", ConfigSource.DEFAULT),
        "metrics": ("a,b", ConfigSource.CLIENT_METRICS),
    }
    assert synonyms_of(entries["metrics"]) == [("metrics", "a,b", 7)]
    assert entries["match"].synonyms == []


# Whole requests


def test_an_unknown_type_of_resource_refuses_the_whole_request() -> None:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name="orders", configuration_keys=None)
        for kind in (TOPIC, 3)
    ]

    answer = ask(node_with(), DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, 4)

    assert [each.error_code for each in answer.results] == [ErrorCode.INVALID_REQUEST] * 2
    assert all(each.configs == [] for each in answer.results)


@pytest.mark.parametrize(
    ("kind", "name", "resource", "error"),
    [
        (TOPIC, "orders", ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (GROUP, "g", ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (BROKER, "1", ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (BROKER_LOGGER, "1", ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (CLIENT_METRICS, "m", ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_who_may_not_look(kind: int, name: str, resource: ResourceType, error: ErrorCode) -> None:
    denies = Denies((AclOperation.DESCRIBE_CONFIGS, resource, None))

    result = described(node_with(), kind, name, authorizer=denies)

    assert (result.error_code, result.error_message, result.configs) == (error, error.message, [])
