"""`server.properties`, `--set key=value` and `TIDELOG_` variables: how a node is told its configuration.

    file             key=value in Java's syntax, as Kafka reads it
    environment      TIDELOG_LOG_RETENTION_MS=1000 is log.retention.ms=1000: goes before the file
    --set            log.retention.ms=1000: goes before both

What Kafka knows and nothing here acts on is accepted and told as without effect, or refused with the reason. What nobody knows
is refused with the nearest name. Every ConfigError is one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tidelog.broker.other_keys import DONE_ANYWAY, WITHOUT_EFFECT, reason_against
from tidelog.model.broker_config import BROKER_KEYS, NODE_ID
from tidelog.model.config import ConfigError, ConfigValues, did_you_mean
from tidelog.storage.properties import parse_properties

VARIABLE_PREFIX = "TIDELOG_"

# Variables that are about this program and not about a node.
OWN_VARIABLES = frozenset({"TIDELOG_KERNELS", "TIDELOG_BUILD_KERNELS", "TIDELOG_KAFKA_DIR", "TIDELOG_BOOTSTRAP"})

_BROKER_ID = "broker.id"


class ServerProperties(Struct, frozen=True):
    """A configuration that a node can start with."""

    values: ConfigValues
    without_effect: Mapping[str, str]
    """What was set and does nothing, with the reason."""


def gather_properties(
    content: bytes = b"", environment: Mapping[str, str] | None = None, settings: Iterable[str] = ()
) -> dict[str, str]:
    """All that was said about a node, the later source going before the earlier."""
    given = parse_properties(content)
    given.update(_from_environment(environment or {}))
    given.update(parse_setting(setting) for setting in settings)
    return given


def check_properties(given: Mapping[str, str]) -> ServerProperties:
    """The typed values of a configuration. ConfigError for the first thing that is wrong with it."""
    acting: dict[str, str] = {}
    without_effect: dict[str, str] = {}
    for name, text in given.items():
        if name in BROKER_KEYS:
            acting[name] = text
        elif name == _BROKER_ID:
            _check_broker_id(text, given.get(NODE_ID.name))
            acting[NODE_ID.name] = text
        elif name in WITHOUT_EFFECT:
            without_effect[name] = WITHOUT_EFFECT[name]
        else:
            without_effect[name] = _harmless(name, text)
    return ServerProperties(BROKER_KEYS.parse(acting), without_effect)


def parse_setting(setting: str) -> tuple[str, str]:
    """The two halves of `key=value`."""
    name, equals, text = setting.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{setting!r} is not a setting: expected key=value, as in --set log.retention.ms=1000")
    return name.strip(), text.strip()


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    given = {}
    for variable, text in environment.items():
        if not variable.startswith(VARIABLE_PREFIX) or variable in OWN_VARIABLES:
            continue
        name = variable.removeprefix(VARIABLE_PREFIX).lower().replace("_", ".")
        try:
            _check_known(name)
        except ConfigError as error:
            raise ConfigError(f"The variable {variable} cannot be taken: {error}") from None
        given[name] = text
    return given


def _check_known(name: str) -> None:
    if name in BROKER_KEYS or name in WITHOUT_EFFECT or name == _BROKER_ID or reason_against(name) is not None:
        return
    raise ConfigError(f"Unknown configuration {name}{did_you_mean(name, [*BROKER_KEYS, *WITHOUT_EFFECT])}")


def _harmless(name: str, text: str) -> str:
    """Why a key that is not supported does no harm with this value. ConfigError where it would."""
    _check_known(name)
    reason = reason_against(name)
    if text.strip() in {"", "false", *DONE_ANYWAY.get(name, ())}:
        return "it asks for what is done anyway"
    raise ConfigError(f"{name} cannot be set: {reason}; remove it")


def _check_broker_id(text: str, node_id: str | None) -> None:
    if node_id is not None and text.strip() != node_id.strip():
        raise ConfigError(
            f"broker.id is {text} and node.id is {node_id}: they are the same number, so set only node.id"
        )
