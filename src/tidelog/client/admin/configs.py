"""The configuration of topics, brokers, their loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias, TypeVar

from tidelog.client.admin.outcomes import each_of, error_of, no_topic, value_of
from tidelog.client.admin.requests import ANYONE, CONTROLLER, OneBroker, Requests, Route
from tidelog.client.errors import ClientError, RefusedError, UnsupportedError, refusal
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class ResourceKind(IntEnum):
    """What has a configuration. The numbers are Kafka's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Something with a configuration. The broker of the empty name is the default of all brokers."""

    kind: ResourceKind
    name: str


class ConfigSource(IntEnum):
    """Where a value comes from. The numbers are Kafka's."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    CLUSTER_DEFAULT = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(IntEnum):
    """What a value is. The numbers are Kafka's."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """What to do with a value; APPEND and SUBTRACT are for lists. The numbers are Kafka's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value that would count if none before it were there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of an incremental alteration."""

    name: str
    operation: ConfigOperation
    value: str | None = None


V = TypeVar("V")
Outcomes: TypeAlias = "dict[ConfigResource, V | ClientError]"


class ConfigCalls:
    """What an admin does with configurations."""

    _requests: Requests

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | ClientError]:
        """What resources are configured to do, by key; all keys, or these.

        >>> await admin.describe_configs([ConfigResource(ResourceKind.TOPIC, "orders")])
        """

        async def describe(route: Route, asked: Sequence[ConfigResource]) -> Outcomes[dict[str, ConfigEntry]]:
            def request(version: int) -> DescribeConfigsRequest:
                return DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(
                            resource_type=kind,
                            resource_name=name,
                            configuration_keys=None if keys is None else list(keys),
                        )
                        for kind, name in asked
                    ],
                    include_synonyms=include_synonyms,
                    include_documentation=include_documentation and version >= 3,
                )

            answer = await self._requests.ask(route, request, DescribeConfigsResponse)
            found: Outcomes[dict[str, ConfigEntry]] = {}
            for result in answer.results:
                resource = ConfigResource(ResourceKind(result.resource_type), result.resource_name)
                error = _error(resource, result.error_code, result.error_message)
                entries = sorted(map(_entry, result.configs), key=lambda entry: entry.name)
                found[resource] = error or {entry.name: entry for entry in entries}
            return found

        return await _by_route(resources, describe, ANYONE)

    async def describe_config(
        self, kind: ResourceKind, name: str, *, keys: Sequence[str] | None = None, include_documentation: bool = False
    ) -> dict[str, ConfigEntry]:
        """What one resource is configured to do, by key.

        >>> (await admin.describe_config(ResourceKind.TOPIC, "orders"))["retention.ms"].value
        """
        resource = ConfigResource(kind, name)
        found = await self.describe_configs([resource], keys=keys, include_documentation=include_documentation)
        return value_of(found[resource])

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, ClientError | None]:
        """Change single values: all those of a resource, or none of them."""
        wanted = {resource: list(each) for resource, each in changes.items()}

        async def alter(route: Route, asked: Sequence[ConfigResource]) -> Outcomes[None]:
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsAlterConfigsResource(
                        resource_type=resource.kind,
                        resource_name=resource.name,
                        configs=[
                            IncrementalAlterConfigsAlterableConfig(
                                name=each.name, config_operation=each.operation, value=each.value
                            )
                            for each in wanted[resource]
                        ],
                    )
                    for resource in asked
                ],
                validate_only=validate_only,
            )
            answer = await self._requests.ask(
                route,
                request,
                IncrementalAlterConfigsResponse,
                codes=lambda each: [result.error_code for result in each.responses],
                # Appending twice is not the same as once.
                is_repeatable=all(
                    each.operation is ConfigOperation.SET or each.operation is ConfigOperation.DELETE
                    for resource in asked
                    for each in wanted[resource]
                ),
            )
            return _altered(answer.responses)

        return await _by_route(wanted, alter, CONTROLLER)

    async def alter_config(
        self,
        kind: ResourceKind,
        name: str,
        *,
        set: Mapping[str, str] | None = None,  # noqa: A002 - Kafka's word
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set keys of one resource, give others back to their defaults, and add to or take from lists: all or nothing.

        >>> await admin.alter_config(ResourceKind.TOPIC, "orders", set={"retention.ms": "1000"}, delete=["segment.bytes"])
        """
        changes = [
            *(ConfigChange(key, ConfigOperation.SET, value) for key, value in (set or {}).items()),
            *(ConfigChange(key, ConfigOperation.DELETE) for key in delete),
            *(ConfigChange(key, ConfigOperation.APPEND, value) for key, value in (append or {}).items()),
            *(ConfigChange(key, ConfigOperation.SUBTRACT, value) for key, value in (subtract or {}).items()),
        ]
        resource = ConfigResource(kind, name)
        value_of((await self.incremental_alter_configs({resource: changes}, validate_only=validate_only))[resource])

    async def alter_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[ConfigResource, ClientError | None]:
        """Give resources exactly these values: what is not named is unset. For clusters before Apache Kafka 2.3; else
        `incremental_alter_configs` does not undo what somebody else sets at the same time."""

        async def alter(route: Route, asked: Sequence[ConfigResource]) -> Outcomes[None]:
            request = AlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=resource.kind,
                        resource_name=resource.name,
                        configs=[AlterableConfig(name=key, value=value) for key, value in configs[resource].items()],
                    )
                    for resource in asked
                ],
                validate_only=validate_only,
            )
            answer = await self._requests.ask(
                route,
                request,
                AlterConfigsResponse,
                codes=lambda each: [result.error_code for result in each.responses],
            )
            return _altered(answer.responses)

        return await _by_route(configs, alter, CONTROLLER)

    async def list_config_resources(self, kinds: Iterable[ResourceKind] = ()) -> list[ConfigResource]:
        """What has a configuration of its own: all, or these kinds (KIP-1142). Groups and client metrics are found so only."""
        wanted = sorted(set(kinds))

        def request(version: int) -> ListConfigResourcesRequest:
            if version == 0:
                if wanted != [ResourceKind.CLIENT_METRICS]:
                    raise UnsupportedError(
                        "the cluster is too old to list any configurations but those of client metrics"
                    )
                return ListConfigResourcesRequest(resource_types=[])
            return ListConfigResourcesRequest(resource_types=[int(each) for each in wanted])

        answer = await self._requests.ask(ANYONE, request, ListConfigResourcesResponse)
        if answer.error_code:
            raise refusal(answer.error_code, None)
        known = {kind.value for kind in ResourceKind}
        return sorted(
            ConfigResource(ResourceKind(each.resource_type), each.resource_name)
            for each in answer.config_resources
            if each.resource_type in known
        )


async def _by_route(
    resources: Iterable[ConfigResource],
    work: Callable[[Route, Sequence[ConfigResource]], Awaitable[Outcomes[V]]],
    otherwise: Route,
) -> Outcomes[V]:
    """Only a broker itself knows its configuration and its loggers; everything else is the same wherever it is asked for."""
    wanted = list(dict.fromkeys(resources))
    by_route: dict[Route, list[ConfigResource]] = {}
    for resource in wanted:
        by_route.setdefault(_route(resource) or otherwise, []).append(resource)
    outcomes: Outcomes[V] = {}
    for route, found in (await each_of(by_route, lambda each: work(each, by_route[each]))).items():
        asked = by_route[route]
        outcomes.update(dict.fromkeys(asked, found) if isinstance(found, ClientError) else found)
    missing = RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "the cluster's answer leaves it out")
    return {resource: outcomes.get(resource, missing) for resource in wanted}


def _route(resource: ConfigResource) -> Route | None:
    is_of_one = resource.kind in {ResourceKind.BROKER, ResourceKind.BROKER_LOGGER}
    is_number = resource.name.isascii() and resource.name.isdigit()
    return OneBroker(int(resource.name)) if is_of_one and is_number else None


def _altered(responses: Iterable[AlterConfigsResourceResponse]) -> Outcomes[None]:
    outcomes: Outcomes[None] = {}
    for each in responses:
        resource = ConfigResource(ResourceKind(each.resource_type), each.resource_name)
        outcomes[resource] = _error(resource, each.error_code, each.error_message)
    return outcomes


def _error(resource: ConfigResource, code: int, message: str | None) -> RefusedError | None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and resource.kind is ResourceKind.TOPIC:
        return no_topic(resource.name)
    return error_of(code, message, about="" if message else f"{resource.kind.name.lower()} {resource.name}")


def _entry(each: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        each.name,
        each.value,
        _source(each.config_source),
        each.read_only,
        each.is_sensitive,
        each.documentation,
        ConfigType(each.config_type) if each.config_type in _TYPES else ConfigType.UNKNOWN,
        tuple(ConfigSynonym(same.name, same.value, _source(same.source)) for same in each.synonyms),
    )


_TYPES = frozenset(kind.value for kind in ConfigType)
_SOURCES = frozenset(source.value for source in ConfigSource)


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in _SOURCES else ConfigSource.UNKNOWN
