"""The lines of the audit log, as Kafka writes them: who was allowed or denied what, from where, and by which rule."""

from __future__ import annotations

from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.principal import Principal
from tidelog.security.acl_set import Rule

AUDIT_LOGGER = "kafka.authorizer.logger"
# Kafka's TRACE: below Python's DEBUG.
TRACE = 5


def audit_line(
    principal: Principal,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    *,
    api_name: str,
    count: int,
    rule: Rule,
) -> str:
    """`count` is how often the request names the resource."""
    return (
        f"Principal = {principal} is {'Allowed' if rule.is_allowed else 'Denied'} operation = {operation.name} "
        f"from host = {host} on resource = {_type_name(resource_type)}:LITERAL:{name} for request = {api_name} "
        f"with resourceRefCount = {count} based on rule {rule}"
    )


def _type_name(resource_type: ResourceType) -> str:
    return "".join(word.capitalize() for word in resource_type.name.split("_"))
