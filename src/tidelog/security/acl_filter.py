"""Which ACLs somebody looks for, to see them or to remove them."""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.acl import (
    WILDCARD,
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    text_of,
)

_UNKNOWN = "UNKNOWN"


class AclFilter(Struct, frozen=True):
    """None, and ANY, stand for everything. MATCH: every pattern that would hold for a resource of this name."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = PermissionType.ANY

    @property
    def has_unknown_pattern(self) -> bool:
        """Whether its resource is told with a word that nobody knows."""
        return _UNKNOWN in (text_of(ResourceType, self.resource_type), text_of(PatternType, self.pattern_type))

    @property
    def has_unknown_entry(self) -> bool:
        """Whether what may be done is told with a word that nobody knows."""
        return _UNKNOWN in (text_of(AclOperation, self.operation), text_of(PermissionType, self.permission_type))

    def matches(self, acl: AccessControlEntry) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
        )

    def _matches_pattern(self, acl: AccessControlEntry) -> bool:
        name, wanted = self.resource_name, self.pattern_type
        if wanted not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if wanted != PatternType.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name in (name, WILDCARD)
        return name.startswith(acl.resource_name)
