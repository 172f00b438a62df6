# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Who may do what: the decisions of Apache Kafka's `StandardAuthorizer`.

    authorizer = StandardAuthorizer(super_users, allow_everyone=False)
    authorizer.follow(image.access_control)           whenever the cluster's metadata has changed
    authorizer.is_ready = True                        once they are all there
    authorizer.allows(principal, host, operation, resource_type, name)

A super user may do everything, from the first moment on. Everybody else is judged by the ACLs, and until these are there nobody
can be judged: `AuthorizerNotReadyError`. Decisions are remembered until the ACLs change, so that one that was made before costs
a look into a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.model.acl import AccessControlEntry, AclOperation, ResourceType, principal_parts
from tidelog.model.config import ConfigError
from tidelog.security.acl_set import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, AclSet, Rule

if TYPE_CHECKING:
    from tidelog.model.principal import Principal

# A caller may ask for any number of names that do not exist: what is remembered of them must have an end. At most some 25 MB.
DECISIONS_MAX = 50_000
# As long as a topic's name can be. Whatever else has a longer one is judged each time.
REMEMBERED_NAME_MAX = 249
# What Kafka looks a caller's right to just any resource up by first: a name like any other.
ANY_NAME = "hardcode"


class AuthorizerNotReadyError(Exception):
    """The ACLs are not there yet: nothing is allowed and nothing is denied, and the caller has to ask again."""


class StandardAuthorizer:
    """One for each node. All that changes is the ACLs."""

    __slots__ = (
        "_acls",
        "_decisions",
        "_default",
        "_followed",
        "_super_users",
        "allowed_count",
        "denied_count",
        "is_ready",
        "revision",
    )

    def __init__(self, super_users: frozenset[str] = frozenset(), *, allow_everyone: bool = False) -> None:
        """`super_users` as `Type:name`. `allow_everyone`: a resource without any ACL is open to all."""
        self._super_users = super_users
        self._default = DEFAULT_ALLOW if allow_everyone else DEFAULT_DENY
        self._acls = AclSet()
        self._followed: Mapping[bytes, AccessControlEntry] = {}
        # By who, from where, what, and on what; that on a type as a whole under no name.
        self._decisions: dict[tuple[Principal, str, int, int, str | None], Rule] = {}
        self.is_ready = False
        self.revision = 0
        """Another number whenever the ACLs have changed: what was allowed before may not be any more."""
        self.allowed_count = 0
        self.denied_count = 0

    @property
    def acl_count(self) -> int:
        return self._acls.count

    @property
    def acls(self) -> AclSet:
        return self._acls

    def follow(self, acls: Mapping[bytes, AccessControlEntry]) -> None:
        """Decide by these ACLs from now on. They are by their ids, and the mapping does not change any more."""
        former = self._followed
        if acls is former:
            return
        # An id is never used again, so that an ACL under the same id is the same ACL.
        removed = [acl for acl_id, acl in former.items() if acls.get(acl_id) != acl]
        added = [acl for acl_id, acl in acls.items() if former.get(acl_id) != acl]
        self._followed = acls
        if removed or added:
            self._acls = self._acls.changed(removed, added)
            self._decisions.clear()
            self.revision += 1

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the caller may do this. AuthorizerNotReadyError where nobody can say yet."""
        rule = self._decisions.get((principal, host, operation, resource_type, name))
        if rule is None:
            rule = self.rule(principal, host, operation, resource_type, name)
        if rule.is_allowed:
            self.allowed_count += 1
            return True
        self.denied_count += 1
        return False

    def rule(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Rule:
        """What a decision rests on; without counting it."""
        asked = (principal, host, operation, resource_type, name)
        known = self._decisions.get(asked)
        if known is not None:
            return known
        if str(principal) in self._super_users:
            rule = SUPER_USER
        elif not self.is_ready:
            raise AuthorizerNotReadyError("the ACLs of the cluster are not there yet")
        else:
            rule = self._acls.rule(principal[:2], host, operation, resource_type, name, self._default)
        if len(name) <= REMEMBERED_NAME_MAX:
            self._remember(asked, rule)
        return rule

    def allows_any(self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the caller may do this to some resource of the type, whichever."""
        if self.rule(principal, host, operation, resource_type, ANY_NAME).is_allowed:
            return True
        asked = (principal, host, operation, resource_type, None)
        known = self._decisions.get(asked)
        if known is None:
            is_allowed = self._acls.allows_any(principal[:2], host, operation, resource_type)
            known = DEFAULT_ALLOW if is_allowed else DEFAULT_DENY
            self._remember(asked, known)
        return known.is_allowed

    def _remember(self, asked: tuple[Principal, str, int, int, str | None], rule: Rule) -> None:
        if len(self._decisions) >= DECISIONS_MAX:
            # All at once: whoever is asked for again is there again after one decision.
            self._decisions.clear()
        self._decisions[asked] = rule


def super_users_of(text: str) -> frozenset[str]:
    """What `super.users` says. ConfigError where one of them is no principal."""
    users = [user for user in map(str.strip, text.split(";")) if user]
    for user in users:
        if principal_parts(user) is None:
            raise ConfigError(
                f"super.users names {user}, which is no principal: expected Type:name, for example User:admin"
            )
    return frozenset(users)
