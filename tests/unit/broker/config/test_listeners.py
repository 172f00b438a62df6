"""Where a node listens, and which of its listeners is for what."""

from __future__ import annotations

import pytest

from tidelog.broker.config.listeners import inter_broker_listener, listener_specs
from tidelog.broker.config.server_properties import check_properties
from tidelog.model.config import ConfigError, ConfigValues


def config(**given: str) -> ConfigValues:
    listeners = {
        "listeners": "CLIENTS://:0,PLAINTEXT://:0,CONTROLLER://:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
    }
    return check_properties({**listeners, **{name.replace("_", "."): text for name, text in given.items()}}).values


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "CLIENTS"),
        ({"inter_broker_listener_name": "PLAINTEXT"}, "PLAINTEXT"),
        ({"security_inter_broker_protocol": "PLAINTEXT"}, "PLAINTEXT"),
        ({"process_roles": "controller", "listeners": "CONTROLLER://:0"}, ""),
    ],
)
def test_the_listener_between_brokers_is_the_one_that_is_named_or_the_first(given: dict[str, str], name: str) -> None:
    assert inter_broker_listener(config(**given)) == name


def test_its_name_and_its_protocol_are_not_set_together() -> None:
    both = config(inter_broker_listener_name="CLIENTS", security_inter_broker_protocol="PLAINTEXT")

    with pytest.raises(
        ConfigError, match=r"Only one of inter\.broker\.listener\.name and security\.inter\.broker\.protocol"
    ):
        inter_broker_listener(both)


@pytest.mark.parametrize(
    "given", [{"inter_broker_listener_name": "CONTROLLER"}, {"security_inter_broker_protocol": "SSL"}]
)
def test_it_must_be_among_the_listeners(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="there is no listener of that name"):
        inter_broker_listener(config(**given))


def test_listeners_have_the_protocol_that_the_map_says() -> None:
    given = {"listener.security.protocol.map": "CLIENTS:SASL_SSL,PLAINTEXT:SSL"}
    specs = listener_specs(config(**given))

    assert {spec.name: spec.security_protocol.name for spec in specs} == {
        "CLIENTS": "SASL_SSL",
        "PLAINTEXT": "SSL",
        "CONTROLLER": "PLAINTEXT",
    }
    assert [spec.security_protocol.uses_tls for spec in specs] == [True, True, False]
    assert [spec.security_protocol.uses_sasl for spec in specs] == [True, False, False]
    assert specs[0].endpoint(9092, "localhost").security_protocol == 3


def test_a_listener_without_a_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"add it to listener\.security\.protocol\.map"):
        listener_specs(config(**{"listener.security.protocol.map": "CLIENTS:SSL"}))
