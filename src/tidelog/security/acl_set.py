"""All ACLs of a cluster, arranged for the one question: which of them hold for this resource and this caller?

Immutable. Patterns are found by name: a literal one by the resource's name, prefixed ones by its beginnings, of which only those
lengths are tried that some pattern has. Under each name the ACLs lie by principal, so that a question costs the same however
many principals a resource has ACLs for.

Where this differs from Apache Kafka's `StandardAuthorizerData`, which walks one sorted set: that one walks it for ever for names
that begin with a character before `*` where other patterns lie beside them; it overlooks ACLs on `*` for names that begin with
`*`, so that a DENY for all groups can be avoided by such a name; and it fails on an ACL whose principal has no colon, which Kafka
never writes, and which holds for nobody here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from tidelog.model.acl import (
    EVERYBODY,
    WILDCARD,
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    principal_parts,
    text_of,
)

Entries = tuple[AccessControlEntry, ...]
# Under None those that hold for nobody: whose principal cannot be read.
ByPrincipal = Mapping[tuple[str, str] | None, Entries]

# What an ALLOW of one operation lets its holder do besides. A DENY implies nothing.
IMPLIED_BY_ALLOW: dict[int, frozenset[int]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}


class Rule(Struct, frozen=True, gc=False):
    """A decision and what it rests on. Prints as in Kafka's audit log."""

    is_allowed: bool
    name: str
    acl: AccessControlEntry | None = None

    def __str__(self) -> str:
        return self.name if self.acl is None else f"MatchingAcl(acl={acl_text(self.acl)})"


SUPER_USER = Rule(True, "SuperUser")
DEFAULT_ALLOW = Rule(True, "DefaultAllow")
DEFAULT_DENY = Rule(False, "DefaultDeny")


def acl_text(acl: AccessControlEntry) -> str:
    """An ACL as Kafka's `StandardAcl` prints."""
    return (
        f"StandardAcl[resourceType={text_of(ResourceType, acl.resource_type)}, resourceName={acl.resource_name}, "
        f"patternType={text_of(PatternType, acl.pattern_type)}, principal={acl.principal}, host={acl.host}, "
        f"operation={text_of(AclOperation, acl.operation)}, permissionType={text_of(PermissionType, acl.permission_type)}]"
    )


class _Patterns:
    """The ACLs of one type of resource."""

    __slots__ = ("literals", "prefix_lengths", "prefixes")

    def __init__(self, literals: Mapping[str, ByPrincipal], prefixes: Mapping[str, ByPrincipal]) -> None:
        self.literals = literals
        self.prefixes = prefixes
        # The longest first, as Kafka meets them.
        self.prefix_lengths = tuple(sorted({len(name) for name in prefixes}, reverse=True))

    def matching(self, name: str) -> Iterator[ByPrincipal]:
        """The ACLs of each pattern that holds for a name, the narrowest first."""
        literal = self.literals.get(name)
        if literal is not None and name != WILDCARD:
            yield literal
        prefixes, length = self.prefixes, len(name)
        for prefix_length in self.prefix_lengths:
            if prefix_length <= length:
                prefixed = prefixes.get(name[:prefix_length])
                if prefixed is not None:
                    yield prefixed
        everything = self.literals.get(WILDCARD)
        if everything is not None:
            yield everything

    def changed(self, removed: Iterable[AccessControlEntry], added: Iterable[AccessControlEntry]) -> _Patterns:
        gone, come = _by_pattern(removed), _by_pattern(added)
        return _Patterns(
            _changed(self.literals, gone[True], come[True]), _changed(self.prefixes, gone[False], come[False])
        )


class AclSet:
    """The ACLs as they were at one moment. `changed` makes the next set, and copies only what differs."""

    __slots__ = ("_types", "count")

    def __init__(self, types: Mapping[int, _Patterns] | None = None, count: int = 0) -> None:
        self._types = types or {}
        self.count = count

    @classmethod
    def of(cls, acls: Iterable[AccessControlEntry]) -> AclSet:
        return cls().changed((), acls)

    def changed(self, removed: Iterable[AccessControlEntry], added: Iterable[AccessControlEntry]) -> AclSet:
        """The set without those and with these. What is removed must be there, and what is added must not."""
        gone, come = _by_type(removed), _by_type(added)
        types = dict(self._types)
        for kind in {**gone, **come}:
            types[kind] = types.get(kind, _NO_PATTERNS).changed(gone.get(kind, ()), come.get(kind, ()))
        count = self.count - sum(map(len, gone.values())) + sum(map(len, come.values()))
        return AclSet(types, count)

    def rule(
        self,
        principal: tuple[str, str],
        host: str,
        operation: int,
        resource_type: int,
        name: str,
        default: Rule = DEFAULT_DENY,
    ) -> Rule:
        """What the ACLs say. `default` where there is none for the resource, whomever it may be for.

        Of several that apply Kafka names the first that denies, or else the last that allows.
        """
        patterns = self._types.get(resource_type)
        allowing: AccessControlEntry | None = None
        has_acls = False
        if patterns is not None:
            for acls in patterns.matching(name):
                has_acls = True
                for acl in _held_by(acls, principal):
                    if acl.host not in (WILDCARD, host):
                        continue
                    if acl.permission_type != PermissionType.ALLOW:
                        if acl.operation in (AclOperation.ALL, operation):
                            return Rule(False, "MatchingAcl", acl)
                    elif _lets(acl.operation, operation):
                        allowing = acl
        if allowing is not None:
            return Rule(True, "MatchingAcl", allowing)
        return DEFAULT_DENY if has_acls else default

    def allows_any(self, principal: tuple[str, str], host: str, operation: int, resource_type: int) -> bool:
        """Whether there is a pattern by which the caller may do this to some resource of the type, and which no DENY covers.

        Only ACLs for this operation or for ALL count, as in Kafka: nothing is implied.
        """
        patterns = self._types.get(resource_type)
        if patterns is None:
            return False
        literals, prefixes = (
            {
                name: _verdict(acls, principal, host, operation)
                for name, acls in names.items()
                if principal in acls or EVERYBODY in acls
            }
            for names in (patterns.literals, patterns.prefixes)
        )
        everything = literals.pop(WILDCARD, _Verdict(False, False))
        if everything.denies or everything.allows:
            return not everything.denies
        denied = {name for name, verdict in prefixes.items() if verdict.denies}
        lengths = sorted({len(name) for name in denied})

        def is_dominated(name: str) -> bool:
            return any(name[:length] in denied for length in lengths if length <= len(name))

        return any(
            verdict.allows and not verdict.denies and not is_dominated(name) for name, verdict in literals.items()
        ) or any(verdict.allows and not is_dominated(name) for name, verdict in prefixes.items())

    def __iter__(self) -> Iterator[AccessControlEntry]:
        """In Kafka's order: by type, by name from the last to the first, then by pattern and what follows."""
        for kind in sorted(self._types):
            patterns = self._types[kind]
            for name in sorted({*patterns.literals, *patterns.prefixes}, reverse=True):
                for names in (patterns.literals, patterns.prefixes):
                    acls = [acl for held in names.get(name, {}).values() for acl in held]
                    yield from sorted(acls, key=_order)


class _Verdict(Struct, frozen=True, gc=False):
    allows: bool
    denies: bool


_NO_PATTERNS = _Patterns({}, {})


def _verdict(acls: ByPrincipal, principal: tuple[str, str], host: str, operation: int) -> _Verdict:
    """What the ACLs of one pattern say to a caller of exactly this operation."""
    found = [
        acl.permission_type
        for acl in _held_by(acls, principal)
        if acl.host in (WILDCARD, host) and acl.operation in (operation, AclOperation.ALL)
    ]
    return _Verdict(PermissionType.ALLOW in found, PermissionType.DENY in found)


def _held_by(acls: ByPrincipal, principal: tuple[str, str]) -> Entries:
    """The ACLs of one pattern that name this principal or everybody, in Kafka's order."""
    own = acls.get(principal, ())
    if principal == EVERYBODY:
        return own
    everybodys = acls.get(EVERYBODY, ())
    if not own or not everybodys:
        return own or everybodys
    return tuple(sorted((*own, *everybodys), key=_order))


def _lets(granted: int, operation: int) -> bool:
    if granted in (AclOperation.ALL, operation):
        return True
    implied = IMPLIED_BY_ALLOW.get(operation)
    return implied is not None and granted in implied


def _order(acl: AccessControlEntry) -> tuple[int, str, str, int]:
    return acl.operation, acl.principal, acl.host, acl.permission_type


def _by_type(acls: Iterable[AccessControlEntry]) -> dict[int, list[AccessControlEntry]]:
    sorted_out: dict[int, list[AccessControlEntry]] = {}
    for acl in acls:
        sorted_out.setdefault(acl.resource_type, []).append(acl)
    return sorted_out


def _by_pattern(acls: Iterable[AccessControlEntry]) -> dict[bool, list[AccessControlEntry]]:
    sorted_out: dict[bool, list[AccessControlEntry]] = {True: [], False: []}
    for acl in acls:
        sorted_out[acl.pattern_type == PatternType.LITERAL].append(acl)
    return sorted_out


def _changed(
    names: Mapping[str, ByPrincipal], removed: list[AccessControlEntry], added: list[AccessControlEntry]
) -> Mapping[str, ByPrincipal]:
    if not removed and not added:
        return names
    following = dict(names)
    touched: dict[str, dict[tuple[str, str] | None, list[AccessControlEntry]]] = {}

    def held(acl: AccessControlEntry) -> list[AccessControlEntry]:
        name, holder = acl.resource_name, principal_parts(acl.principal)
        return touched.setdefault(name, {}).setdefault(holder, list(names.get(name, {}).get(holder, ())))

    for acl in removed:
        held(acl).remove(acl)
    for acl in added:
        held(acl).append(acl)
    for name, holders in touched.items():
        by_principal = {
            **names.get(name, {}),
            **{holder: tuple(sorted(acls, key=_order)) for holder, acls in holders.items()},
        }
        following[name] = {holder: acls for holder, acls in by_principal.items() if acls}
        if not following[name]:
            del following[name]
    return following
