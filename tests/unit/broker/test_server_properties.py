"""How a node is told its configuration."""

from __future__ import annotations

import pytest

from tidelog.broker.other_keys import NOT_SUPPORTED, WITHOUT_EFFECT
from tidelog.broker.server_properties import check_properties, gather_properties
from tidelog.model import broker_config as keys
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.config import ConfigError
from tidelog.model.topic_config import TOPIC_KEYS

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
def test_an_unknown_key_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"Unknown configuration {name}; did you mean {nearest}"):
        check_properties({name: "1"})


def test_an_unknown_variable_is_named_as_it_was_set() -> None:
    with pytest.raises(ConfigError, match=r"TIDELOG_LOG_RETENTON_MS cannot be taken: .* log\.retenton\.ms"):
        gather_properties(environment={"TIDELOG_LOG_RETENTON_MS": "1"})


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("ssl.keystore.location", "/keys", "TLS"),
        ("sasl.enabled.mechanisms", "PLAIN", "SASL"),
        ("remote.log.storage.system.enable", "true", "tiered"),
        ("zookeeper.connect", "localhost:2181", "ZooKeeper"),
        ("listener.name.internal.ssl.client.auth", "required", "single listener"),
        ("security.inter.broker.protocol", "SSL", "PLAINTEXT"),
    ],
)
def test_what_is_not_there_is_refused_with_the_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot be set: .*{reason}"):
        check_properties({name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("remote.log.storage.system.enable", "false"),
        ("security.inter.broker.protocol", "PLAINTEXT"),
        ("create.topic.policy.class.name", ""),
    ],
)
def test_what_is_done_anyway_is_not_refused(name: str, text: str) -> None:
    assert name in check_properties({name: text}).without_effect


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

    assert not acting & set(WITHOUT_EFFECT)
    assert not {name for name in acting for prefix in NOT_SUPPORTED if name.startswith(prefix)}
    assert not {name for name in WITHOUT_EFFECT for prefix in NOT_SUPPORTED if name.startswith(prefix)}
    assert {key.synonym for key in TOPIC_KEYS.values() if key.synonym} <= acting
