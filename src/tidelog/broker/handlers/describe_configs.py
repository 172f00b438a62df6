"""DescribeConfigs (32), v1-4: the configuration of topics, brokers, their loggers, groups and client metrics.

v1 where a value is from, and its synonyms · v3 its type and documentation

A broker tells of itself alone, and, where no name is given, of what is set at run time for all brokers.

A request that names a type of resource that does not exist is refused as a whole. Values that another release has stored under
names unknown here are told as they are, with the type UNKNOWN; those of a broker are sensitive, as in Kafka, and not told.
Keys come in the order of their names. A broker that shows its metrics tells where, by `tidelog.http.address`,
which Kafka has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.broker.config.config_resources import ConfigResourceType, authorize, node_id_of, resource_type_of
from tidelog.broker.config.config_view import BrokerConfigView, normalised, value_text
from tidelog.broker.config.loggers import logger_levels
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import ConfigResource
from tidelog.controller.topic_names import name_problem
from tidelog.model.acl import AclOperation
from tidelog.model.client_metrics_config import CLIENT_METRICS_KEYS
from tidelog.model.config import ConfigKey, ConfigSource, UpdateMode
from tidelog.model.errors import ErrorCode
from tidelog.model.group_config import GROUP_KEYS
from tidelog.model.topic_config import TOPIC_KEYS
from tidelog.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_UNKNOWN_TYPE = 0
_STRING_TYPE = 2

HTTP_ADDRESS = "tidelog.http.address"
_HTTP_ADDRESS_DOC = (
    "Where the broker shows its metrics, its health and what happens in it. Not there without such a port."
)


class _Asked(NamedTuple):
    """What is asked of every key."""

    keys: frozenset[str]
    """Empty for all of them."""
    synonyms: bool
    documentation: bool

    def wants(self, name: str) -> bool:
        return not self.keys or name in self.keys


class _Problem(NamedTuple):
    error: ErrorCode
    message: str


@handles(DescribeConfigsRequest)
def describe_configs(request: DescribeConfigsRequest, caller: Caller, node: Node) -> DescribeConfigsResponse:
    kinds = [resource_type_of(resource.resource_type) for resource in request.resources]
    if None in kinds:
        error = ErrorCode.INVALID_REQUEST
        results = [_failed(resource, _Problem(error, error.message)) for resource in request.resources]
        return DescribeConfigsResponse(throttle_time_ms=0, results=results)
    view = BrokerConfigView.of(node.static_config, node.image, node.node_id)
    results = []
    for resource, kind in zip(request.resources, kinds, strict=True):
        assert kind is not None
        error = authorize(caller, AclOperation.DESCRIBE_CONFIGS, kind, resource.resource_name)
        asked = _Asked(
            frozenset(resource.configuration_keys or ()), request.include_synonyms, request.include_documentation
        )
        if error:
            results.append(_failed(resource, _Problem(error, error.message)))
            continue
        match _described(kind, resource.resource_name, asked, view, node):
            case _Problem() as problem:
                results.append(_failed(resource, problem))
            case configs:
                results.append(
                    DescribeConfigsResult(
                        error_code=ErrorCode.NONE,
                        error_message="",
                        resource_type=resource.resource_type,
                        resource_name=resource.resource_name,
                        configs=configs,
                    )
                )
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def _described(
    kind: ConfigResourceType, name: str, asked: _Asked, view: BrokerConfigView, node: Node
) -> list[DescribeConfigsResourceResult] | _Problem:
    own = node.image.config_of(ConfigResource(kind, name))
    match kind:
        case ConfigResourceType.TOPIC:
            problem = name_problem(name)
            if problem is not None:
                return _Problem(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
            if name not in node.image.topic_ids:
                return _Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            return _topic(own, asked, view)
        case ConfigResourceType.BROKER if not name:
            return _all_brokers(asked, view)
        case ConfigResourceType.BROKER:
            return _node_problem(name, node, " or empty string,") or _broker(asked, view, node)
        case ConfigResourceType.BROKER_LOGGER:
            if not name:
                return _Problem(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            return _node_problem(name, node, "") or _loggers(asked)
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                return _Problem(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return _client_metrics(own, asked)
        case ConfigResourceType.GROUP:
            if not name:
                return _Problem(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return _group(own, asked, view)


def _node_problem(name: str, node: Node, alternative: str) -> _Problem | None:
    named = node_id_of(name)
    if named is None:
        return _Problem(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if named != node.node_id:
        return _Problem(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.node_id}{alternative} but received {name}",
        )
    return None


def _topic(own: Mapping[str, str], asked: _Asked, view: BrokerConfigView) -> list[DescribeConfigsResourceResult]:
    results = []
    for name in _names((key.name for key in TOPIC_KEYS.values() if not key.is_internal), own, asked):
        key = TOPIC_KEYS.get(name)
        synonyms = [] if key is None or key.synonym is None else view.synonyms(key.synonym)
        if name in own:
            value = own[name] if key is None else normalised(key, own[name])
            synonyms = [_synonym(key, name, value, ConfigSource.TOPIC), *synonyms]
        else:
            assert key is not None
            value = view.topic_default(key) or key.format(key.default)
        results.append(_result(key, name, value, synonyms, asked))
    return results


def _broker(asked: _Asked, view: BrokerConfigView, node: Node) -> list[DescribeConfigsResourceResult]:
    results = [
        _broker_result(name, view.value(name), view.synonyms(name), asked, view)
        for name in _names(view.names(), (), asked)
    ]
    # No key: what the port for watchers is, whoever has opened it.
    if node.http_address and asked.wants(HTTP_ADDRESS):
        results.append(_http_address(node.http_address, asked))
        results.sort(key=lambda each: each.name)
    return results


def _http_address(address: str, asked: _Asked) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=HTTP_ADDRESS,
        value=address,
        read_only=True,
        config_source=ConfigSource.STATIC_BROKER,
        is_sensitive=False,
        synonyms=[],
        config_type=_STRING_TYPE,
        documentation=_HTTP_ADDRESS_DOC if asked.documentation else None,
    )


def _all_brokers(asked: _Asked, view: BrokerConfigView) -> list[DescribeConfigsResourceResult]:
    results = []
    for name in _names({}, view.dynamic_default, asked):
        synonyms = [each for each in view.synonyms(name) if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER]
        results.append(_broker_result(name, view.dynamic_default[name], synonyms, asked, view))
    return results


def _broker_result(
    name: str, value: str | None, synonyms: list[DescribeConfigsSynonym], asked: _Asked, view: BrokerConfigView
) -> DescribeConfigsResourceResult:
    key = view.key(name)
    read_only = key is None or key.update_mode is UpdateMode.READ_ONLY
    return _result(key, name, value, synonyms, asked, read_only=read_only, is_sensitive=view.is_sensitive(name))


def _loggers(asked: _Asked) -> list[DescribeConfigsResourceResult]:
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level,
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            is_sensitive=False,
            synonyms=[],
            documentation="",
        )
        for name, level in logger_levels().items()
        if asked.wants(name)
    ]


def _client_metrics(own: Mapping[str, str], asked: _Asked) -> list[DescribeConfigsResourceResult]:
    results = []
    for name in _names(CLIENT_METRICS_KEYS, own, asked):
        key = CLIENT_METRICS_KEYS.get(name)
        synonyms = [_synonym(key, name, own[name], ConfigSource.CLIENT_METRICS)] if name in own else []
        value = own[name] if key is None or name in own else value_text(key, key.default)
        results.append(_result(key, name, value, synonyms, asked))
    return results


def _group(own: Mapping[str, str], asked: _Asked, view: BrokerConfigView) -> list[DescribeConfigsResourceResult]:
    results = []
    for name in _names(GROUP_KEYS, own, asked):
        key = GROUP_KEYS.get(name)
        if key is None:
            value, synonyms = own[name], [_synonym(key, name, own[name], ConfigSource.GROUP)]
        else:
            broker_name = key.synonym or name
            synonyms = view.synonyms(broker_name) or [
                _synonym(key, broker_name, key.format(key.default), ConfigSource.DEFAULT)
            ]
            value = synonyms[0].value or ""
            if name in own:
                value = normalised(key, own[name])
                synonyms = [_synonym(key, name, value, ConfigSource.GROUP), *synonyms]
        results.append(_result(key, name, value, synonyms, asked))
    return results


def _names(keys: Iterable[str], set_: Iterable[str], asked: _Asked) -> list[str]:
    return sorted(name for name in {*keys, *set_} if asked.wants(name))


def _synonym(key: ConfigKey[object] | None, name: str, value: str, source: ConfigSource) -> DescribeConfigsSynonym:
    shown = None if key is not None and key.is_sensitive else value
    return DescribeConfigsSynonym(name=name, value=shown, source=source)


def _result(
    key: ConfigKey[object] | None,
    name: str,
    value: str | None,
    synonyms: list[DescribeConfigsSynonym],
    asked: _Asked,
    *,
    read_only: bool = False,
    is_sensitive: bool = False,
) -> DescribeConfigsResourceResult:
    is_sensitive = is_sensitive or (key is not None and key.is_sensitive)
    return DescribeConfigsResourceResult(
        name=name,
        value=None if is_sensitive else value,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=is_sensitive,
        synonyms=synonyms if asked.synonyms else [],
        config_type=_UNKNOWN_TYPE if key is None else key.type,
        documentation=key.doc if key is not None and asked.documentation else None,
    )


def _failed(resource: DescribeConfigsResource, problem: _Problem) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=problem.error,
        error_message=problem.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
