"""DescribeClientQuotas (48), v0-1: the limits of users, client ids and addresses that a filter matches (KIP-546).

A filter has a component for each type of an entity: a name, the default of the type, or any of it. Strict: entities of these
types and no other. Without components it matches everything, or nothing where it is strict.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import QuotaEntity
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, ANY = 0, 1, 2
_NOT_TOGETHER = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter "
    "component."
)
_TYPES = frozenset({"user", "client-id", "ip"})


@handles(DescribeClientQuotasRequest)
def describe_client_quotas(
    request: DescribeClientQuotasRequest, caller: Caller, node: Node
) -> DescribeClientQuotasResponse:
    if not caller.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(error, error.message)
    problem = _problem(request.components)
    if problem is not None:
        return _refused(*problem)
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
            values=[ValueData(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in node.image.quotas.items()
        if _matches(entity, request)
    ]
    return DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, entries=entries
    )


def _refused(error: ErrorCode, message: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=error, error_message=message, entries=None)


def _problem(components: list[ComponentData]) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        problem = None
        if not kind:
            problem = "Invalid empty entity type."
        elif kind in seen:
            problem = f"Entity type {kind} cannot appear more than once in the filter."
        elif kind not in _TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
        elif component.match_type == EXACT and component.match is None:
            problem = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        elif component.match_type == DEFAULT and component.match is not None:
            problem = "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
        elif component.match_type == ANY and component.match is not None:
            problem = "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
        elif component.match_type not in (EXACT, DEFAULT, ANY):
            problem = f"Unknown match type {component.match_type}"
        if problem is not None:
            return ErrorCode.INVALID_REQUEST, problem
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        return ErrorCode.INVALID_REQUEST, _NOT_TOGETHER
    return None


def _matches(entity: QuotaEntity, request: DescribeClientQuotasRequest) -> bool:
    parts = dict(entity.parts)
    if request.strict and len(parts) != len(request.components):
        return False
    return all(
        component.entity_type in parts
        and (component.match_type == ANY or parts[component.entity_type] == component.match)
        for component in request.components
    )
