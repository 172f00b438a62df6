"""ACLs, and what they mean by the letter of Kafka's documentation: one loop over all of them for each question."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.model.acl import AccessControlEntry, AclOperation, PatternType, PermissionType, ResourceType
from tidelog.model.principal import Principal

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY


def acl(
    principal: str,
    operation: AclOperation,
    name: str,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    permission: PermissionType = ALLOW,
) -> AccessControlEntry:
    return AccessControlEntry(kind, name, pattern, principal, host, operation, permission)


class NaiveAuthorizer:
    """What StandardAuthorizer decides, written as it is told in words."""

    def __init__(self, acls: Sequence[AccessControlEntry], *, allow_everyone: bool = False) -> None:
        self.acls = acls
        self.allow_everyone = allow_everyone

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        on_resource = [each for each in self.acls if each.resource_type == resource_type and _holds_for(each, name)]
        applying = [each for each in on_resource if _is_for(each, principal, host) and _fits(each, operation)]
        if any(each.permission_type == DENY for each in applying):
            return False
        return bool(applying) or (self.allow_everyone and not on_resource)

    def allows_any(self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        applying = [
            each
            for each in self.acls
            if each.resource_type == resource_type
            and _is_for(each, principal, host)
            and each.operation in (operation, AclOperation.ALL)
        ]
        denied = {(each.pattern_type, each.resource_name) for each in applying if each.permission_type == DENY}
        allowed = {(each.pattern_type, each.resource_name) for each in applying if each.permission_type == ALLOW}
        everything = (PatternType.LITERAL, "*")
        if everything in denied or everything in allowed:
            return everything not in denied
        return any(not _is_dominated(kind, name, denied) for kind, name in allowed)


def _is_dominated(kind: int, name: str, denied: set[tuple[int, str]]) -> bool:
    if kind == PatternType.LITERAL and (kind, name) in denied:
        return True
    return any(other == PatternType.PREFIXED and name.startswith(prefix) for other, prefix in denied)


def _holds_for(each: AccessControlEntry, name: str) -> bool:
    if each.pattern_type == PatternType.PREFIXED:
        return name.startswith(each.resource_name)
    return each.resource_name in ("*", name)


def _is_for(each: AccessControlEntry, principal: Principal, host: str) -> bool:
    return each.principal in ("User:*", str(principal)) and each.host in ("*", host)


def _fits(each: AccessControlEntry, operation: AclOperation) -> bool:
    implied = {
        AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
        AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
    }
    if each.operation in (operation, AclOperation.ALL):
        return True
    return each.permission_type == ALLOW and each.operation in implied.get(operation, set())
