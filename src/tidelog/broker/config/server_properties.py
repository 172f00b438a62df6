"""`server.properties`, `--set key=value` and `TIDELOG_` variables: how a node is told its configuration.

    file             key=value in Java's syntax, as Kafka reads it
    environment      TIDELOG_LOG_RETENTION_MS=1000 is log.retention.ms=1000: goes before the file
    --set            log.retention.ms=1000: goes before both
    config.providers ${file:/etc/secrets.properties:token} in a value is what that file says, once all of this is gathered

What Kafka knows and nothing here acts on is accepted and told as without effect, or refused with the reason. A name that nobody
knows is told too, with the nearest one, and otherwise ignored, as in Kafka, where a plug-in may know it; `strict` refuses it.
What a person has just typed, a setting, is always refused. Every ConfigError is one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from tidelog.model.broker_config import BROKER_ID, BROKER_KEYS, NODE_ID, PER_LISTENER_KEYS
from tidelog.model.config import ConfigError, ConfigKey, ConfigType, ConfigValues, Password, did_you_mean
from tidelog.model.provider_config import is_about_providers
from tidelog.model.unused_config import Effect, unused_keys
from tidelog.security.config_providers import resolve
from tidelog.security.listener_settings import without_listener
from tidelog.storage.properties import parse_properties, parse_properties_text

VARIABLE_PREFIX = "TIDELOG_"

# Variables that are about this program and not about a node.
OWN_VARIABLES = frozenset(
    {
        "TIDELOG_KERNELS",
        "TIDELOG_BUILD_KERNELS",
        "TIDELOG_KAFKA_DIR",
        "TIDELOG_BOOTSTRAP",
        "TIDELOG_COMMAND_CONFIG",
        "TIDELOG_PROFILE",
    }
)


class ServerProperties(Struct, frozen=True):
    """A configuration that a node can start with."""

    values: ConfigValues
    """What acts, typed; what does not, as text."""
    without_effect: Mapping[str, str]
    """What was set and does nothing, with the reason."""
    unknown: Mapping[str, str]
    """What was set and nobody knows, with a sentence about it."""


def gather_properties(
    content: bytes = b"", environment: Mapping[str, str] | None = None, settings: Iterable[str] = ()
) -> dict[str, str]:
    """All that was said about a node, the later source going before the earlier."""
    given = parse_properties(content)
    given.update(_from_environment(environment or {}))
    for name, text in map(parse_setting, settings):
        problem = unknown_problem(name)
        if problem is not None:
            raise ConfigError(problem)
        given[name] = text
    return given


def resolve_properties(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """What was gathered, with what `config.providers` look up. Not to be written down anywhere."""
    return resolve(given, environment, parse_properties_text)


def check_properties(given: Mapping[str, str], *, strict: bool = False) -> ServerProperties:
    """The values of a configuration. ConfigError for the first thing that is wrong with it; a name nobody knows, if `strict`."""
    acting: dict[str, str] = {}
    of_listeners: dict[str, object] = {}
    without_effect: dict[str, str] = {}
    unknown: dict[str, str] = {}
    of_providers: dict[str, object] = {}
    for name, text in given.items():
        if name in BROKER_KEYS:
            acting[name] = text
            continue
        if is_about_providers(name):
            # They have done their work when the properties were gathered.
            of_providers[name] = text
            continue
        key = listener_key(name)
        if key is not None:
            of_listeners[name] = _parse(name, key, text)
            continue
        problem = unknown_problem(name)
        if problem is None:
            without_effect[name] = _why_without_effect(name, text)
        elif strict:
            raise ConfigError(problem)
        else:
            unknown[name] = problem
    if BROKER_ID.name in acting:
        _check_broker_id(acting[BROKER_ID.name], acting.setdefault(NODE_ID.name, acting[BROKER_ID.name]))
    values: dict[str, object] = {name: _parse(name, BROKER_KEYS[name], text) for name, text in acting.items()}
    values |= of_listeners | of_providers
    # Nobody knows whether those that nobody knows are secrets.
    values.update((name, Password(given[name])) for name in unknown)
    values.update((name, Password(given[name]) if _is_secret(name) else given[name]) for name in without_effect)
    hidden = [name for name, text in given.items() if isinstance(text, Password)]
    return ServerProperties(ConfigValues(BROKER_KEYS, values, hidden), without_effect, unknown)


def _parse(name: str, key: ConfigKey[Any], text: str) -> object:
    """A value of a key. What was looked up elsewhere is not told, also where it cannot be taken."""
    if not isinstance(text, Password):
        return key.parse(text)
    try:
        return key.parse(text)
    except ConfigError:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {name}: what was looked up for it is no {key.type.name} that it may hold"
        ) from None


def _is_secret(name: str) -> bool:
    unused = unused_keys().get(without_listener(name))
    return unused is not None and unused.key.type is ConfigType.PASSWORD


def parse_setting(setting: str) -> tuple[str, str]:
    """The two halves of `key=value`."""
    name, equals, text = setting.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{setting!r} is not a setting: expected key=value, as in --set log.retention.ms=1000")
    return name.strip(), text.strip()


def listener_key(name: str) -> ConfigKey[Any] | None:
    """The key that a name with the prefix of a listener, and perhaps of a mechanism, sets there. None: it is no such name."""
    base = without_listener(name)
    if base == name:
        return None
    return PER_LISTENER_KEYS.get(base) or PER_LISTENER_KEYS.get(base.partition(".")[2])


def unknown_problem(name: str) -> str | None:
    """The sentence about a key that neither this program nor Kafka knows; None for one that is known."""
    base = _base_name(name)
    if base in BROKER_KEYS or base in unused_keys() or listener_key(name) is not None or is_about_providers(name):
        return None
    return f"Unknown configuration {name}{did_you_mean(name, [*BROKER_KEYS, *unused_keys()])}"


def _base_name(name: str) -> str:
    """A name without the prefix of a listener, and without that of a mechanism where nobody knows it with one."""
    base = without_listener(name)
    if base == name or base in BROKER_KEYS or base in unused_keys():
        return base
    of_mechanism = base.partition(".")[2]
    return of_mechanism if of_mechanism in unused_keys() else base


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        variable.removeprefix(VARIABLE_PREFIX).lower().replace("_", "."): text
        for variable, text in environment.items()
        if variable.startswith(VARIABLE_PREFIX) and variable not in OWN_VARIABLES
    }


def _why_without_effect(name: str, text: str) -> str:
    """Why a known key that nothing acts on does no harm with this value. ConfigError where it would, or cannot hold it."""
    base = _base_name(name)
    unused = unused_keys().get(base)
    if unused is None:
        return f"{base} holds for the whole node, as in Apache Kafka: set it without the listener's prefix"
    if unused.is_done_anyway(text):
        return "it asks for what is done anyway"
    if unused.effect is Effect.REFUSED:
        raise ConfigError(f"{name} cannot be set: {unused.reason}; remove it")
    return unused.reason


def _check_broker_id(text: str, node_id: str) -> None:
    if text.strip() != node_id.strip():
        raise ConfigError(
            f"broker.id is {text} and node.id is {node_id}: they are the same number, so set only node.id"
        )
