"""`listeners` and its relatives: where a node listens, and what others are told."""

from __future__ import annotations

import re

from msgspec import Struct

from tidelog.controller.image import Endpoint
from tidelog.model import broker_config as keys
from tidelog.model.cluster_config import INTER_BROKER_LISTENER_NAME, SECURITY_INTER_BROKER_PROTOCOL
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.security_protocol import SecurityProtocol

_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*):(?P<port>-?\d+)")
_PORT_MAX = 65535


class ListenerSpec(Struct, frozen=True):
    """One listener as configured. Port 0 takes any that is free."""

    name: str
    host: str
    port: int
    is_controller: bool
    security_protocol: SecurityProtocol
    advertised: tuple[str, int] | None

    def endpoint(self, port: int, default_host: str) -> Endpoint:
        """What others are told, once the listener has its port."""
        host, told = self.advertised or (self.host or default_host, port)
        return Endpoint(self.name, host, told or port, int(self.security_protocol))


def listener_specs(config: ConfigValues) -> list[ListenerSpec]:
    """The listeners of a node. ConfigError for what contradicts itself."""
    names = config[keys.CONTROLLER_LISTENER_NAMES]
    controllers = frozenset(names)
    advertised = {
        name: (host, port) for name, host, port in _parse_all("advertised.listeners", config[keys.ADVERTISED_LISTENERS])
    }
    specs = []
    for name, host, port in _parse_all("listeners", config[keys.LISTENERS]):
        protocol = security_protocol(config, name)
        specs.append(ListenerSpec(name, host, port, name in controllers, protocol, advertised.pop(name, None)))
    if len({spec.name for spec in specs}) != len(specs):
        raise ConfigError("Each listener must have a name of its own")
    if advertised:
        raise ConfigError(
            f"advertised.listeners names {', '.join(sorted(advertised))}, which is not among the listeners"
        )
    roles = config[keys.PROCESS_ROLES]
    missing = controllers - {spec.name for spec in specs}
    if "controller" not in roles:
        if missing != controllers:
            raise ConfigError("A node that is no controller has no listener of controller.listener.names")
    elif missing:
        raise ConfigError(
            f"controller.listener.names names {', '.join(sorted(missing))}, which is not among the listeners"
        )
    if "broker" in roles and all(spec.is_controller for spec in specs):
        raise ConfigError("A broker needs a listener that is not a controller's")
    return specs


def security_protocol(config: ConfigValues, name: str) -> SecurityProtocol:
    """What a listener of this name uses, this node's or another's. ConfigError where nobody has said it."""
    protocol = _security_protocols(config[keys.LISTENER_SECURITY_PROTOCOL_MAP]).get(name)
    if protocol is not None:
        return protocol
    if name in config[keys.CONTROLLER_LISTENER_NAMES]:
        return SecurityProtocol.PLAINTEXT
    raise ConfigError(f"Listener {name} has no security protocol: add it to listener.security.protocol.map")


def inter_broker_listener(config: ConfigValues) -> str:
    """The listener by which brokers reach each other: the one that is named, the one that has the name of the security protocol,
    or the first. Empty where the node is no broker. ConfigError where it is not among the listeners."""
    name: str = config[INTER_BROKER_LISTENER_NAME]
    is_told = SECURITY_INTER_BROKER_PROTOCOL.name in config.given
    if name and is_told:
        raise ConfigError(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set: remove the latter"
        )
    controllers = config[keys.CONTROLLER_LISTENER_NAMES]
    names = [each for each, _, _ in _parse_all("listeners", config[keys.LISTENERS]) if each not in controllers]
    if "broker" not in config[keys.PROCESS_ROLES] or not names:
        return ""
    if is_told:
        name = config[SECURITY_INTER_BROKER_PROTOCOL]
    if name and name not in names:
        key = SECURITY_INTER_BROKER_PROTOCOL.name if is_told else INTER_BROKER_LISTENER_NAME.name
        raise ConfigError(f"{key} is {name}, and there is no listener of that name: set inter.broker.listener.name")
    return name or names[0]


def _parse_all(key: str, values: tuple[str, ...]) -> list[tuple[str, str, int]]:
    parsed = []
    for value in values:
        match = _LISTENER.fullmatch(value)
        if match is None or not 0 <= int(match["port"]) <= _PORT_MAX:
            raise ConfigError(f"Invalid value {value} for configuration {key}: expected NAME://host:port")
        parsed.append((match["name"], match["host"].strip("[]"), int(match["port"])))
    return parsed


def _security_protocols(text: str) -> dict[str, SecurityProtocol]:
    protocols = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, colon, protocol = pair.partition(":")
        if not colon or protocol not in SecurityProtocol.__members__:
            raise ConfigError(
                f"Invalid value {pair} for configuration listener.security.protocol.map: expected NAME:PROTOCOL with one of "
                f"{', '.join(SecurityProtocol.__members__)}"
            )
        protocols[name] = SecurityProtocol[protocol]
    return protocols
