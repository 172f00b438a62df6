"""Decisions about configuration: of topics, of brokers one by one or all, of groups and client metrics.

A resource is changed as a whole or not at all. New values are checked against the table of their resource's keys; what another
release has written stays as it is. AlterConfigs says all that a resource is to have, IncrementalAlterConfigs what changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from msgspec import Struct

from tidelog.controller.cluster_view import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    has_eligible_leader_replicas,
)
from tidelog.controller.decision import Decision, Refusal
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.controller.image_delta import TOPIC_RESOURCE
from tidelog.controller.settings import ControllerSettings
from tidelog.controller.topic_names import name_problem
from tidelog.model.client_metrics_config import INTERVAL_MS
from tidelog.model.config import INT_MAX, ConfigError, ConfigKeys, ConfigSource, ConfigType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicName
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.internal.cluster_metadata import ClearElrRecord, ConfigRecord
from tidelog.wire.messages.topics import CreatableTopicConfigs

# The length of a record's string, which is where it ends up.
VALUE_BYTES_MAX = 32767
_MIN_INSYNC_REPLICAS = "min.insync.replicas"
_CORDONED_LOG_DIRS = "cordoned.log.dirs"
_RESOURCE_NOUNS = {2: "topic", 4: "broker", 16: "client metrics", 32: "group"}
_CLIENT_METRICS_RESOURCE = 16


class Operation(IntEnum):
    """What an incremental change does to a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(Struct, frozen=True):
    """One key of one resource."""

    name: str
    operation: int
    value: str | None


def decide_incremental_alter_configs(
    image: ClusterImage, request: IncrementalAlterConfigsRequest, settings: ControllerSettings
) -> Decision[IncrementalAlterConfigsResponse]:
    changes = [
        (
            ConfigResource(each.resource_type, each.resource_name),
            [ConfigChange(config.name, config.config_operation, config.value) for config in each.configs],
        )
        for each in request.resources
    ]
    responses, records = _alter(image, changes, settings)
    answer = IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)
    return Decision(answer, () if request.validate_only else records)


def decide_alter_configs(
    image: ClusterImage, request: AlterConfigsRequest, settings: ControllerSettings
) -> Decision[AlterConfigsResponse]:
    changes = []
    for each in request.resources:
        resource = ConfigResource(each.resource_type, each.resource_name)
        given = [ConfigChange(config.name, Operation.SET, config.value) for config in each.configs]
        named = {change.name for change in given}
        dropped = [name for name in image.config_of(resource) if name not in named]
        changes.append((resource, given + [ConfigChange(name, Operation.DELETE, None) for name in dropped]))
    responses, records = _alter(image, changes, settings)
    answer = AlterConfigsResponse(throttle_time_ms=0, responses=responses)
    return Decision(answer, () if request.validate_only else records)


def refuse_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, refusal: Refusal
) -> IncrementalAlterConfigsResponse:
    resources = [ConfigResource(each.resource_type, each.resource_name) for each in request.resources]
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=_not_altered(resources, refusal))


def refuse_alter_configs(request: AlterConfigsRequest, refusal: Refusal) -> AlterConfigsResponse:
    resources = [ConfigResource(each.resource_type, each.resource_name) for each in request.resources]
    return AlterConfigsResponse(throttle_time_ms=0, responses=_not_altered(resources, refusal))


def _not_altered(resources: Iterable[ConfigResource], refusal: Refusal) -> list[AlterConfigsResourceResponse]:
    return [
        AlterConfigsResourceResponse(
            error_code=refusal.error,
            error_message=refusal.message,
            resource_type=resource.type,
            resource_name=resource.name,
        )
        for resource in dict.fromkeys(resources)
    ]


def _alter(
    image: ClusterImage, changes: Sequence[tuple[ConfigResource, list[ConfigChange]]], settings: ControllerSettings
) -> tuple[list[AlterConfigsResourceResponse], tuple[FramedRecord, ...]]:
    responses: dict[ConfigResource, AlterConfigsResourceResponse] = {}
    records: list[FramedRecord] = []
    resources = [resource for resource, _ in changes]
    for resource, wanted in changes:
        if resource in responses:
            continue
        outcome: tuple[FramedRecord, ...] | Refusal
        if resources.count(resource) > 1:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        else:
            outcome = _existence_problem(image, resource) or config_records(image, resource, wanted, settings)
        refusal = outcome if isinstance(outcome, Refusal) else None
        responses[resource] = AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE if refusal is None else refusal.error,
            error_message=None if refusal is None else refusal.message,
            resource_type=resource.type,
            resource_name=resource.name,
        )
        if not isinstance(outcome, Refusal):
            records += outcome
    return list(responses.values()), tuple(records)


def config_records(
    image: ClusterImage, resource: ConfigResource, changes: Sequence[ConfigChange], settings: ControllerSettings
) -> tuple[FramedRecord, ...] | Refusal:
    """The records that change a resource, which need not exist yet, or why it cannot be changed like this."""
    refusal = _resource_problem(resource, settings) or _changes_problem(changes)
    if refusal is not None:
        return refusal
    keys = settings.config_keys[resource.type]
    current = image.config_of(resource)
    records = []
    for change in changes:
        value = _new_value(current.get(change.name), change, keys)
        if isinstance(value, Refusal):
            return value
        if value is not None:
            # Values that are short enough each by itself may add up to one that no record can hold.
            refusal = _size_problem(value) or _value_problem(resource, change, value, keys)
            if refusal is not None:
                return refusal
        # A broker takes the same value again as a reason to look, for instance at a key store that has changed.
        if value != current.get(change.name) or resource.type == BROKER_RESOURCE:
            refusal = _min_insync_problem(image, resource, change.name, value) or _level_problem(
                image, resource, change.name
            )
            if refusal is not None:
                return refusal
            records.append(
                ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=change.name, value=value)
            )
    find_problem = settings.config_problems.get(resource.type)
    if find_problem is not None:
        values = {**current, **{record.name: record.value for record in records}}
        problem = find_problem({name: value for name, value in values.items() if value is not None})
        if problem is not None:
            return Refusal(ErrorCode.INVALID_CONFIG, problem)
    framed = [FramedRecord(record, 0) for record in records]
    if has_eligible_leader_replicas(image) and any(record.name == _MIN_INSYNC_REPLICAS for record in records):
        # Who is eligible depends on the minimum: it is worked out anew.
        topic = resource.name if resource.type == TOPIC_RESOURCE else ""
        framed.append(FramedRecord(ClearElrRecord(topic_name=topic), 0))
    return tuple(framed)


def effective_topic_configs(
    image: ClusterImage, overrides: Mapping[str, str], settings: ControllerSettings
) -> list[CreatableTopicConfigs]:
    """What every key of a topic comes to on the active controller, and where the value is from, by name."""
    keys, defaults = settings.topic_keys, settings.topic_defaults
    own = image.config_of(ConfigResource(BROKER_RESOURCE, str(settings.node_id)))
    of_all = image.config_of(CLUSTER_DEFAULT)
    described = []
    for name in sorted(keys):
        key = keys[name]
        if key.is_internal and name not in overrides:
            continue
        synonym = key.synonym or name
        if name in overrides:
            value, source = overrides[name], ConfigSource.TOPIC
        elif synonym in own:
            value, source = own[synonym], ConfigSource.DYNAMIC_BROKER
        elif synonym in of_all:
            value, source = of_all[synonym], ConfigSource.DYNAMIC_DEFAULT_BROKER
        elif name in defaults.values:
            value, source = defaults.values[name], ConfigSource.STATIC_BROKER
        else:
            value, source = key.format(key.default), ConfigSource.DEFAULT
        described.append(
            CreatableTopicConfigs(
                name=name,
                value=None if key.is_sensitive else value,
                read_only=False,
                config_source=source,
                is_sensitive=key.is_sensitive,
            )
        )
    return described


def _resource_problem(resource: ConfigResource, settings: ControllerSettings) -> Refusal | None:
    if resource.type not in settings.config_keys:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource.type}.")
    if resource.type == TOPIC_RESOURCE:
        if not resource.name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        problem = name_problem(resource.name)
        return None if problem is None else Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if resource.type == BROKER_RESOURCE:
        if resource.name and not (resource.name.isascii() and resource.name.isdigit()):
            return Refusal(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
        return None
    if not resource.name:
        noun = _RESOURCE_NOUNS.get(resource.type, "such")
        return Refusal(ErrorCode.INVALID_REQUEST, f"Default {noun} resources are not allowed.")
    return None


def _existence_problem(image: ClusterImage, resource: ConfigResource) -> Refusal | None:
    if resource.type == TOPIC_RESOURCE and resource.name and name_problem(resource.name) is None:
        if TopicName(resource.name) not in image.topic_ids:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    elif resource.type == BROKER_RESOURCE and resource.name.isdigit():
        node = NodeId(int(resource.name))
        if node not in image.brokers and node not in image.controllers:
            return Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {resource.name} found.")
    return None


def _changes_problem(changes: Iterable[ConfigChange]) -> Refusal | None:
    names: set[str] = set()
    for change in changes:
        if change.name in names:
            return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        names.add(change.name)
        if change.operation not in Operation.__members__.values():
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operation {change.operation} on key {change.name}.")
        if change.value is None and change.operation != Operation.DELETE:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
        refusal = None if change.value is None else _size_problem(change.value)
        if refusal is not None:
            return refusal
    return None


def _size_problem(value: str) -> Refusal | None:
    if len(value.encode("utf-8", "surrogatepass")) <= VALUE_BYTES_MAX:
        return None
    return Refusal(
        ErrorCode.INVALID_CONFIG,
        f"The configuration value cannot be added because it exceeds the maximum value size of {VALUE_BYTES_MAX} bytes.",
    )


def _new_value(current: str | None, change: ConfigChange, keys: ConfigKeys | None) -> str | Refusal | None:
    match change.operation:
        case Operation.SET:
            return change.value
        case Operation.DELETE:
            return None
    operation = Operation(change.operation)
    key = None if keys is None else keys.get(change.name)
    if keys is not None and (key is None or key.type is not ConfigType.LIST):
        return Refusal(
            ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {change.name} because its type is not LIST."
        )
    if current is None:
        current = "" if key is None else key.format(key.default)
    parts = [part for part in current.split(",") if part]
    named = dict.fromkeys((change.value or "").split(","))
    if operation is Operation.APPEND:
        # A set: thousands of parts are looked up in thousands.
        present = set(parts)
        parts += [part for part in named if part not in present]
    else:
        parts = [part for part in parts if part not in named]
    return ",".join(parts)


def _value_problem(
    resource: ConfigResource, change: ConfigChange, value: str, keys: ConfigKeys | None
) -> Refusal | None:
    if keys is None:
        return None
    key = keys.get(change.name)
    if key is None and resource.type == _CLIENT_METRICS_RESOURCE:
        # Kafka answers with another error than for the other resources.
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {change.name}")
    if key is None:
        noun = _RESOURCE_NOUNS.get(resource.type, "such")
        return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown {noun} config name: {change.name}")
    try:
        key.parse(value)
    except ConfigError as error:
        if resource.type == _CLIENT_METRICS_RESOURCE and key is INTERVAL_MS and _is_int(value):
            # Only a number out of range is answered so; what is no number is answered as everywhere.
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {value} for {key.name}, interval must be between 100 and 3600000 (1 hour)",
            )
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _is_int(text: str) -> bool:
    try:
        return -INT_MAX - 1 <= int(text) <= INT_MAX
    except ValueError:
        return False


def _level_problem(image: ClusterImage, resource: ConfigResource, name: str) -> Refusal | None:
    """A key that the level of the metadata log has no field for."""
    is_cordoned = name == _CORDONED_LOG_DIRS and resource.type == BROKER_RESOURCE
    if not is_cordoned or image.metadata_version.has_cordoned_directories:
        return None
    return Refusal(
        ErrorCode.INVALID_CONFIG,
        f"The {name} configuration value cannot be set because it requires metadata.version >= 4.3-IV0",
    )


def _min_insync_problem(image: ClusterImage, resource: ConfigResource, name: str, value: str | None) -> Refusal | None:
    """With KIP-966 the minimum must be the same for all who ask, and there must be one."""
    if name != _MIN_INSYNC_REPLICAS or resource.type != BROKER_RESOURCE or not has_eligible_leader_replicas(image):
        return None
    if resource.name:
        return Refusal(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if value is None:
        return Refusal(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )
    return None
