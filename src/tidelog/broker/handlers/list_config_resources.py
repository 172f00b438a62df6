"""ListConfigResources (74), v0-1: what can be configured (KIP-1142).

v0 subscriptions to client metrics alone (KIP-714) · v1 any types; none named means all

Groups and subscriptions are those that have a configuration of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.cluster.endpoints import ListenerView
from tidelog.broker.config.config_resources import ConfigResourceType, resource_type_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.configs import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse


@handles(ListConfigResourcesRequest)
def list_config_resources(
    request: ListConfigResourcesRequest, caller: Caller, node: Node
) -> ListConfigResourcesResponse:
    if not caller.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return _response(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = {resource_type_of(number) for number in request.resource_types}
    if caller.api_version == 0:
        wanted = {ConfigResourceType.CLIENT_METRICS}
    elif not wanted:
        wanted = set(ConfigResourceType)
    if None in wanted:
        return _response(ErrorCode.UNSUPPORTED_VERSION)
    found = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in ConfigResourceType
        if kind in wanted
        for name in _names(kind, caller, node)
    ]
    return _response(ErrorCode.NONE, found)


def _names(kind: ConfigResourceType, caller: Caller, node: Node) -> Iterable[str]:
    match kind:
        case ConfigResourceType.TOPIC:
            return node.image.topic_ids
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(broker.node_id) for broker, _ in ListenerView(node.image, caller.listener_name).brokers]
        case _:
            return [resource.name for resource in node.image.configs if resource.type == kind]


def _response(error: ErrorCode, found: list[ConfigResource] | None = None) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(throttle_time_ms=0, error_code=error, config_resources=found or [])
