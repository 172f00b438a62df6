"""How a node is told its configuration."""

from __future__ import annotations

import pytest

from tidelog.broker.config.server_properties import check_properties, gather_properties
from tidelog.model import broker_config as keys
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.config import ConfigError
from tidelog.model.topic_config import TOPIC_KEYS
from tidelog.model.unused_config import Effect, unused_keys

# The file that Apache Kafka ships, without its comments.
ORDINARY = b"""
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_the_file_of_an_ordinary_kafka_is_taken_as_it_is() -> None:
    properties = check_properties(gather_properties(ORDINARY))

    assert properties.values[keys.NODE_ID] == 1
    assert properties.values[keys.LOG_DIRS] == ("/tmp/kraft-combined-logs",)
    assert "num.io.threads" in properties.without_effect
    assert "socket.request.max.bytes" not in properties.without_effect


def test_a_setting_goes_before_a_variable_and_a_variable_before_the_file() -> None:
    given = gather_properties(
        b"node.id=1\nbroker.rack=file\nlog.dirs=/file\n",
        {
            "TIDELOG_BROKER_RACK": "variable",
            "TIDELOG_LOG_DIRS": "/variable",
            "PATH": "/bin",
            "TIDELOG_KERNELS": "python",
            "TIDELOG_COMMAND_CONFIG": "client.properties",
            "TIDELOG_PROFILE": "production",
        },
        ["log.dirs=/set"],
    )

    assert given == {"node.id": "1", "broker.rack": "variable", "log.dirs": "/set"}


def test_a_value_may_hold_an_equals_sign() -> None:
    assert gather_properties(settings=["broker.rack=a=b"]) == {"broker.rack": "a=b"}


@pytest.mark.parametrize("setting", ["", "node.id", "=1"])
def test_a_setting_is_a_key_and_a_value(setting: str) -> None:
    with pytest.raises(ConfigError, match="expected key=value"):
        gather_properties(settings=[setting])


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("log.retenton.ms", "log.retention.ms"), ("num.io.thread", "num.io.threads"), ("nodeid", "node.id")],
)
def test_an_unknown_key_is_told_with_the_nearest_name(name: str, nearest: str) -> None:
    properties = check_properties({name: "1"})

    assert properties.unknown == {name: f"Unknown configuration {name}; did you mean {nearest}?"}


def test_strictly_an_unknown_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Unknown configuration log\.retenton\.ms; did you mean log\.retention\.ms"):
        check_properties({"log.retenton.ms": "1"}, strict=True)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Unknown configuration log\.retenton\.ms; did you mean log\.retention\.ms"):
        gather_properties(settings=["log.retenton.ms=1"])


def test_variables_that_are_about_something_else_are_told_like_any_unknown_key() -> None:
    # What Kubernetes sets for a service of this name.
    given = gather_properties(environment={"TIDELOG_SERVICE_HOST": "10.0.0.7"})

    assert list(check_properties(given).unknown) == ["service.host"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("remote.log.storage.system.enable", "true", "tiered"),
        ("create.topic.policy.class.name", "a.Policy", "Java classes"),
    ],
)
def test_what_is_not_there_is_refused_with_the_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot be set: .*{reason}"):
        check_properties({name: text})


def test_what_holds_for_the_whole_node_is_told_to_do_nothing_on_a_listener() -> None:
    name = "listener.name.internal.log.retention.ms"

    assert check_properties({name: "7"}, strict=True).without_effect[name] == (
        "log.retention.ms holds for the whole node, as in Apache Kafka: set it without the listener's prefix"
    )


def test_a_listener_may_have_a_limit_of_connections_of_its_own() -> None:
    name = "listener.name.internal.max.connections"

    assert check_properties({name: "7"}).values.given[name] == 7


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("remote.log.storage.system.enable", "false"),
        ("create.topic.policy.class.name", ""),
        ("queued.max.request.bytes", "-1"),
    ],
)
def test_what_is_done_anyway_is_not_refused(name: str, text: str) -> None:
    assert check_properties({name: text}).without_effect[name] == "it asks for what is done anyway"


def test_what_is_set_for_one_listener_is_kept_under_its_whole_name() -> None:
    name = "listener.name.internal.ssl.client.auth"

    assert check_properties({name: "required"}).values.given[name] == "required"
    with pytest.raises(ConfigError, match="String must be one of: required, requested, none"):
        check_properties({name: "perhaps"})


def test_a_key_of_sasl_may_be_set_for_a_mechanism_of_a_listener() -> None:
    checked = check_properties(
        {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.out.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.out.plain.connections.max.reauth.ms": "5000",
            "listener.name.out.scram-sha-512.sasl.jaas.config": "a b;",
        },
        strict=True,
    )

    assert checked.values.given["listener.name.out.sasl.enabled.mechanisms"] == ("PLAIN",)
    assert checked.values.given["listener.name.out.plain.connections.max.reauth.ms"] == 5000
    assert not checked.without_effect


@pytest.mark.parametrize("prefix", ["", "listener.name.out.", "listener.name.out.oauthbearer."])
def test_a_java_class_is_refused_with_any_prefix(prefix: str) -> None:
    with pytest.raises(ConfigError, match="it names Java classes, which do not run here; remove it"):
        check_properties({f"{prefix}sasl.client.callback.handler.class": "com.example.Login"})
    with pytest.raises(ConfigError, match="it names a Java class, which does not run here; only org"):
        check_properties({f"{prefix}sasl.login.callback.handler.class": "com.example.Login"})


def test_a_value_that_kafka_would_refuse_is_refused_where_it_is_without_effect_too() -> None:
    with pytest.raises(
        ConfigError, match=r"Invalid value 0 for configuration num\.io\.threads: Value must be at least 1"
    ):
        check_properties({"num.io.threads": "0"})


@pytest.mark.parametrize("text", ["classic", "classic,consumer", "Classic,Share,Streams"])
def test_protocols_of_groups_may_be_chosen(text: str) -> None:
    assert (
        "group.coordinator.rebalance.protocols"
        in check_properties({"group.coordinator.rebalance.protocols": text}).values
    )


@pytest.mark.parametrize(("text", "problem"), [("consumer", "classic protocol"), ("classic,raft", "must be one of")])
def test_the_classic_protocol_stays_and_there_are_no_others(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_properties({"group.coordinator.rebalance.protocols": text})


def test_the_old_name_of_the_node_id_is_taken_unless_it_contradicts() -> None:
    assert check_properties({"broker.id": "7"}).values[keys.NODE_ID] == 7
    assert check_properties({"broker.id": "7", "node.id": "7"}).values[keys.NODE_ID] == 7
    with pytest.raises(ConfigError, match=r"broker\.id is 7 and node\.id is 8"):
        check_properties({"node.id": "8", "broker.id": "7"})


def test_a_bad_value_names_its_key() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value many for configuration num\.partitions"):
        check_properties({"num.partitions": "many"})


def test_no_key_acts_and_does_not() -> None:
    acting = set(BROKER_KEYS)

    assert not acting & set(unused_keys())
    assert {key.synonym for key in TOPIC_KEYS.values() if key.synonym} <= acting


def test_what_is_refused_has_a_default_that_is_not() -> None:
    refused = [unused for unused in unused_keys().values() if unused.effect is Effect.REFUSED]

    assert refused
    assert all(unused.is_done_anyway(unused.key.format(unused.key.default)) for unused in refused)
