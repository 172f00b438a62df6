"""The part of a change of configuration that a broker does itself, before the controller writes anything down.

    duplicates and nulls       refused here, with the words of Kafka
    broker loggers             changed here and now; nothing is written down
    broker keys                checked here: only the broker itself knows its keys and which of them change at run time
    all else                   for the controller: whether the caller may, too, unless it is about loggers

The controller's node judges who may change what (`check_at_controller`), and changes its own loggers where it is asked itself.

A key of the broker that nobody knows is stored, as in Kafka, where a plug-in may know it; so are keys that change at run time in
Kafka and do nothing here. The log says that they do nothing. Where this differs from Kafka: keys that ask for what is not
there, such as policies in Java classes, are refused with the reason (`model.unused_config`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tidelog.broker.config import loggers
from tidelog.broker.config.config_resources import ConfigResourceType, authorize, node_id_of, resource_type_of
from tidelog.broker.config.server_properties import listener_key
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.node_view import Node
from tidelog.controller.configs import Operation
from tidelog.controller.image import ConfigResource
from tidelog.model.acl import AclOperation
from tidelog.model.cleaner_config import LOG_CLEANER_THREADS
from tidelog.model.config import ConfigError, ConfigKey, ConfigKeys, ConfigType, UpdateMode, did_you_mean
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.listener_config import MAX_CONNECTIONS
from tidelog.model.pending import Pending, when_all
from tidelog.model.quota_config import MAX_CONNECTION_CREATION_RATE
from tidelog.model.tls_config import STORE_NAMES, TLS_KEYS
from tidelog.model.unused_config import Effect, unused_keys
from tidelog.security.listener_settings import without_listener
from tidelog.wire.messages.configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsResponse,
)

log = logging.getLogger(__name__)

A = TypeVar("A", AlterConfigsResponse, IncrementalAlterConfigsResponse)


_AT_LEAST_ONE_ON_LISTENERS = frozenset({MAX_CONNECTIONS.name, MAX_CONNECTION_CREATION_RATE.name})
# What may be set of a listener for all brokers at a time.
_LISTENERS_OF_ALL_BROKERS = _AT_LEAST_ONE_ON_LISTENERS | {"num.network.threads"}


class Outcome(NamedTuple):
    """What a resource is told."""

    error: ErrorCode
    message: str | None


DONE = Outcome(ErrorCode.NONE, None)
UNANSWERED = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message)


class Change(NamedTuple):
    """One key. The operation is a number of the wire, and may mean nothing."""

    name: str
    operation: int
    value: str | None


class ResourceChanges(NamedTuple):
    """One resource of a request. The type is a number of the wire, and may mean nothing."""

    type: int
    name: str
    changes: Sequence[Change]

    def response(self, outcome: Outcome | None) -> AlterConfigsResourceResponse:
        """What the answer says of it. None stands for a controller that has forgotten it."""
        error, message = outcome or UNANSWERED
        return AlterConfigsResourceResponse(
            error_code=error, error_message=message, resource_type=self.type, resource_name=self.name
        )


class BrokerConfig(NamedTuple):
    """What changes of a broker's keys are checked against."""

    node_id: NodeId
    table: ConfigKeys
    dynamic: Mapping[str, Mapping[str, str]]
    """What is set at run time already, by the resource's name: the node's id, or nothing for all brokers."""


def broker_config(node: Node) -> BrokerConfig:
    image = node.image
    names = (str(node.node_id), "")
    dynamic = {name: image.config_of(ConfigResource(ConfigResourceType.BROKER, name)) for name in names}
    return BrokerConfig(node.node_id, node.static_config.table, dynamic)


def answer_changes(
    response: type[A],
    resources: Sequence[ResourceChanges],
    outcomes: Sequence[Outcome | None],
    ask_controller: Callable[[], A | Pending[A]],
) -> A | Pending[A]:
    """The answer for all resources in their order; once the controller has decided where one of them has no outcome yet."""

    def packed(outcomes: Sequence[Outcome | None], throttle_time_ms: int) -> A:
        return response(
            throttle_time_ms=throttle_time_ms,
            responses=[resource.response(outcome) for resource, outcome in zip(resources, outcomes, strict=True)],
        )

    if None not in outcomes:
        return packed(outcomes, 0)
    return when_all(
        [ask_controller()],
        lambda decided: packed(_told(resources, outcomes, decided[0].responses), decided[0].throttle_time_ms),
    )


def _told(
    resources: Sequence[ResourceChanges],
    outcomes: Sequence[Outcome | None],
    decided: Iterable[AlterConfigsResourceResponse],
) -> list[Outcome | None]:
    """The outcomes of all resources, with what the controller said of those that were left to it."""
    answers = {
        (each.resource_type, each.resource_name): Outcome(ErrorCode.of(each.error_code), each.error_message)
        for each in decided
    }
    return [
        answers.get((resource.type, resource.name)) if outcome is None else outcome
        for resource, outcome in zip(resources, outcomes, strict=True)
    ]


def check_resources(
    resources: Sequence[ResourceChanges], caller: Caller, broker: BrokerConfig, *, incremental: bool, apply: bool
) -> list[Outcome | None]:
    """For each resource what it is told at once, or None where the controller is to decide.

    `apply` says that loggers are really to be changed. `incremental` is the newer API, the only one that knows loggers.
    """
    named = [(resource.type, resource.name) for resource in resources]
    outcomes: list[Outcome | None] = []
    for resource in resources:
        if named.count((resource.type, resource.name)) > 1:
            outcomes.append(Outcome(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
        else:
            outcomes.append(_check(resource, caller, broker, incremental=incremental, apply=apply))
    return outcomes


def _check(
    resource: ResourceChanges, caller: Caller, broker: BrokerConfig, *, incremental: bool, apply: bool
) -> Outcome | None:
    problem = _changes_problem(resource.changes)
    if problem is not None:
        return problem
    kind = resource_type_of(resource.type)
    if kind is None or (kind is ConfigResourceType.BROKER_LOGGER and not incremental):
        return Outcome(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.type}")
    if kind is ConfigResourceType.BROKER_LOGGER:
        error = authorize(caller, AclOperation.ALTER_CONFIGS, kind, resource.name)
        return Outcome(error, error.message) if error else _change_loggers(resource, broker.node_id, apply=apply)
    # A caller that may not change the broker is told first what is wrong with its request: so does Kafka.
    return _broker_problem(resource, broker, incremental=incremental) if kind is ConfigResourceType.BROKER else None


def check_at_controller(
    resources: Sequence[ResourceChanges], caller: Caller, node_id: NodeId, *, incremental: bool, apply: bool
) -> list[Outcome | None]:
    """The same where a controller is asked, by a broker or directly: what the caller may change is judged here."""
    named = [(resource.type, resource.name) for resource in resources]
    outcomes: list[Outcome | None] = []
    for resource in resources:
        if named.count((resource.type, resource.name)) > 1:
            outcomes.append(_invalid("Duplicate resource."))
        else:
            outcomes.append(_judge(resource, caller, node_id, incremental=incremental, apply=apply))
    return outcomes


def _judge(
    resource: ResourceChanges, caller: Caller, node_id: NodeId, *, incremental: bool, apply: bool
) -> Outcome | None:
    kind = resource_type_of(resource.type)
    if kind is None:
        return Outcome(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {resource.type}.")
    if kind is ConfigResourceType.BROKER_LOGGER:
        if not incremental:
            return _invalid(f"Unexpected resource type {kind.name}.")
        # Not ALTER_CONFIGS, which it takes on a broker: so in Kafka.
        error = authorize(caller, AclOperation.CLUSTER_ACTION, kind, resource.name)
        return Outcome(error, error.message) if error else _change_loggers(resource, node_id, apply=apply)
    error = authorize(caller, AclOperation.ALTER_CONFIGS, kind, resource.name)
    return Outcome(error, error.message) if error else _changes_problem(resource.changes)


def _changes_problem(changes: Sequence[Change]) -> Outcome | None:
    if len({change.name for change in changes}) < len(changes):
        return Outcome(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != Operation.DELETE]
    if nulls:
        return Outcome(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    return None


# Loggers


def _change_loggers(resource: ResourceChanges, node_id: NodeId, *, apply: bool) -> Outcome:
    named = node_id_of(resource.name)
    if named is None:
        return _invalid(f"Node id must be an integer, but it is: {resource.name}")
    if named != node_id:
        return _invalid(f"Unexpected node id. Expected {node_id}, but received {resource.name}")
    for change in resource.changes:
        problem = _logger_problem(change)
        if problem is not None:
            return problem
    if apply:
        for change in resource.changes:
            if change.operation == Operation.SET and change.value is not None:
                loggers.set_level(change.name, change.value)
            else:
                loggers.unset_level(change.name)
    return DONE


def _logger_problem(change: Change) -> Outcome | None:
    match change.operation:
        case Operation.SET | Operation.DELETE:
            if not loggers.logger_exists(change.name):
                return Outcome(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        case Operation.APPEND | Operation.SUBTRACT:
            operation = Operation(change.operation)
            return _invalid(f"{operation.name} operation is not allowed for the BROKER_LOGGER resource")
        case _:
            return _invalid(f"Unknown operation type {change.operation} is not allowed for the BROKER_LOGGER resource")
    if change.operation == Operation.DELETE:
        if change.name == loggers.ROOT_LOGGER:
            return _invalid("Removing the log level of the root logger is not allowed")
    elif change.value not in loggers.LEVEL_NAMES:
        return Outcome(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(loggers.LEVEL_NAMES)}",
        )
    return None


# Brokers


def _broker_problem(resource: ResourceChanges, broker: BrokerConfig, *, incremental: bool) -> Outcome | None:
    if resource.name:
        named = node_id_of(resource.name)
        if named is None:
            return _invalid(f"Node id must be an integer, but it is: {resource.name}")
        if named != broker.node_id:
            return _invalid(f"Unexpected broker id, expected {broker.node_id}, but received {resource.name}")
    per_broker = bool(resource.name)
    present = broker.dynamic.get(str(broker.node_id) if per_broker else "", {}) if incremental else {}
    # What this release cannot take is there from another one; it is not this caller's mistake.
    current = {
        name: text
        for name, text in present.items()
        if _values_problem({name: text}, broker.table, per_broker=per_broker) is None
    }
    wanted = _changed(current, resource.changes, broker.table)
    if isinstance(wanted, Outcome):
        return wanted
    problem = _values_problem(wanted, broker.table, per_broker=per_broker)
    if problem is None:
        for change in resource.changes:
            if change.operation != Operation.DELETE:
                _log_without_effect(change.name, broker.table)
    return problem


def changed_values(resource: ResourceChanges, broker: BrokerConfig, *, incremental: bool) -> dict[str, str]:
    """What is set at run time for this broker once a change that may be is made."""
    present = broker.dynamic.get(str(broker.node_id), {}) if incremental else {}
    changed = _changed(dict(present), resource.changes, broker.table)
    return {} if isinstance(changed, Outcome) else changed


def _changed(current: dict[str, str], changes: Iterable[Change], table: ConfigKeys) -> dict[str, str] | Outcome:
    values = dict(current)
    for name, number, value in changes:
        if number == Operation.DELETE:
            values.pop(name, None)
            continue
        if number not in Operation.__members__.values():
            return _invalid(f"Unknown operations type {number}")
        assert value is not None
        if number == Operation.SET:
            values[name] = value
            continue
        operation = Operation(number)
        key = _key(name, table)
        if key is None:
            return Outcome(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
        if key.type is not ConfigType.LIST:
            return Outcome(
                ErrorCode.INVALID_CONFIG,
                f"Config value {operation.name.lower()} is not allowed for config key: {name}",
            )
        parts = [part for part in values.get(name, key.format(key.default)).split(",") if part]
        given = value.split(",")
        if operation is Operation.APPEND:
            parts += [part for part in given if part not in parts]
        else:
            parts = [part for part in parts if part not in given]
        values[name] = ",".join(parts)
    return values


def _values_problem(values: Mapping[str, str], table: ConfigKeys, *, per_broker: bool) -> Outcome | None:
    fixed = [name for name in values if _is_fixed(name, table)]
    if fixed:
        return _invalid(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    stores = [name for name in values if name in STORE_NAMES]
    if stores:
        return _invalid(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(stores)}]"
        )
    for name, text in values.items():
        problem = _value_problem(name, text, table)
        if problem is not None:
            return problem
    single = [name for name in values if _is_of_one_broker(name, table)]
    if single and not per_broker:
        return _invalid(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]"
        )
    return None


def _value_problem(name: str, text: str, table: ConfigKeys) -> Outcome | None:
    key = _key(name, table)
    if key is None or (_is_of_listener(name) and listener_key(name) is None and _is_fixed(key.name, table)):
        # As in Kafka: of a listener's names those alone have a type that change at run time.
        return None
    try:
        value = key.parse(text)
    except ConfigError as error:
        return _invalid(str(error))
    unused = unused_keys().get(key.name)
    if unused is not None and unused.effect is Effect.REFUSED and not unused.is_done_anyway(text):
        return Outcome(ErrorCode.INVALID_CONFIG, f"{name} cannot be set: {unused.reason}")
    if name != key.name and key.name in _AT_LEAST_ONE_ON_LISTENERS and value <= 0:
        # As in Kafka: of the node both may be 0.
        return _invalid(f"Invalid {key.name} {value}")
    # A node may start with none; one that runs would only seem to go on compacting.
    if name == LOG_CLEANER_THREADS.name and value == 0:
        return _invalid("Log cleaner threads should be at least 1")
    return None


def _is_fixed(name: str, table: ConfigKeys) -> bool:
    """Kafka takes any name with a listener's prefix, at least for a single broker."""
    key = None if _is_of_listener(name) else _key(name, table)
    return key is not None and key.update_mode is UpdateMode.READ_ONLY


def _is_of_one_broker(name: str, table: ConfigKeys) -> bool:
    if _is_of_listener(name):
        return without_listener(name) not in _LISTENERS_OF_ALL_BROKERS
    key = _key(name, table)
    return key is not None and key.update_mode is UpdateMode.PER_BROKER


def _is_of_listener(name: str) -> bool:
    return without_listener(name) not in ("", name)


def _key(name: str, table: ConfigKeys) -> ConfigKey[Any] | None:
    """The key of this name, whether it acts or not, with a listener's prefix or without; None where nobody knows it."""
    key = table.get(name) or listener_key(name)
    if key is not None:
        return key
    base = without_listener(name)
    return unused_keys()[base].key if base in unused_keys() else table.get(base)


def _log_without_effect(name: str, table: ConfigKeys) -> None:
    """Says so of a value that is stored for nothing. Kafka, too, takes keys of a listener that it reads at its start."""
    key = _key(name, table)
    if key is None:
        log.warning("%s is stored without effect: there is no such key%s", name, did_you_mean(name, table))
    elif key.name in unused_keys():
        log.info("%s is stored without effect: %s", name, unused_keys()[key.name].reason)
    elif _is_of_listener(name) and listener_key(name) is None:
        log.warning("%s is stored without effect: %s holds for the whole node", name, key.name)
    elif key.update_mode is UpdateMode.READ_ONLY or (key.name in TLS_KEYS and key.name not in STORE_NAMES):
        log.warning("%s is stored without effect: a node goes by what it is started with", name)


def _invalid(message: str) -> Outcome:
    return Outcome(ErrorCode.INVALID_REQUEST, message)
