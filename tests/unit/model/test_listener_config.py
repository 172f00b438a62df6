from __future__ import annotations

import pytest

from tidelog.model.config import INT_MAX, ConfigError, ConfigKey
from tidelog.model.listener_config import LISTENER_CONFIG_KEYS, parse_connection_overrides


def test_the_defaults_and_types_are_kafkas_but_for_two() -> None:
    # From the ConfigDef of org.apache.kafka.network.SocketServerConfigs, Apache Kafka 4.3.1.
    assert {
        name: (key.type.name, key.format(key.default), key.at_least) for name, key in LISTENER_CONFIG_KEYS.items()
    } == {
        "connection.failed.authentication.delay.ms": ("INT", "100", 0),
        "connections.max.idle.ms": ("LONG", "600000", None),
        "max.connections": ("INT", str(INT_MAX), 0),
        "max.connections.per.ip": ("INT", str(INT_MAX), 0),
        "max.connections.per.ip.overrides": ("STRING", "", None),
        "queued.max.requests": ("INT", "500", 1),
        # Kafka's is 50; ours has no thread that only accepts.
        "socket.listen.backlog.size": ("INT", "1024", 1),
        # Kafka's is 102400; ours leaves the buffer to the system.
        "socket.receive.buffer.bytes": ("INT", "-1", None),
        "socket.request.max.bytes": ("INT", "104857600", 1),
        "socket.send.buffer.bytes": ("INT", "102400", None),
    }


def test_overrides_name_hosts_with_numbers() -> None:
    assert parse_connection_overrides("") == {}
    assert parse_connection_overrides("hostName:100,127.0.0.1:200, [::1]:3,fe80::1:4") == {
        "hostName": 100,
        "127.0.0.1": 200,
        "::1": 3,
        "fe80::1": 4,
    }


@pytest.mark.parametrize("text", ["host", "host:", ":5", "host:-1", "host:x", "host:1,other", f"host:{INT_MAX + 1}"])
def test_an_override_that_is_none_is_refused(text: str) -> None:
    key: ConfigKey[str] = LISTENER_CONFIG_KEYS["max.connections.per.ip.overrides"]
    with pytest.raises(ConfigError, match="is not a host and a number"):
        key.parse(text)
