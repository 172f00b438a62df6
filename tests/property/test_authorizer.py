"""The authoriser against a model that looks at every ACL for every question, through changes of the ACLs."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tests.support.acls import NaiveAuthorizer
from tidelog.model.acl import AccessControlEntry, AclOperation, PatternType, PermissionType, ResourceType
from tidelog.model.principal import Principal
from tidelog.security.acl_set import AclSet
from tidelog.security.authorizer import StandardAuthorizer

# Few letters, among them ones before and after `*`, so that names begin with each other.
NAMES = st.text("!*a", min_size=1, max_size=3)
OPERATIONS = st.sampled_from(
    [each for each in AclOperation if each not in (AclOperation.UNKNOWN, AclOperation.ANY, AclOperation.ALL)]
)
HOSTS = st.sampled_from(["10.0.0.1", "10.0.0.2"])
TYPES = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
PRINCIPALS = st.sampled_from([Principal("User", "a"), Principal("User", "b"), Principal("Role", "a")])
ACLS = st.builds(
    AccessControlEntry,
    resource_type=TYPES,
    resource_name=NAMES,
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    principal=st.sampled_from(["User:a", "User:b", "User:*", "Role:a", "Role:*"]),
    host=st.sampled_from(["*", "10.0.0.1"]),
    operation=OPERATIONS | st.just(AclOperation.ALL),
    permission_type=st.sampled_from([PermissionType.ALLOW, PermissionType.DENY]),
)
QUESTIONS = st.lists(st.tuples(PRINCIPALS, HOSTS, OPERATIONS, TYPES, NAMES), min_size=1, max_size=12)


@given(st.lists(st.lists(ACLS, max_size=8, unique=True), min_size=1, max_size=4), QUESTIONS, st.booleans())
def test_every_decision_is_that_of_the_words(
    generations: list[list[AccessControlEntry]],
    questions: list[tuple[Principal, str, AclOperation, ResourceType, str]],
    allow_everyone: bool,
) -> None:
    authorizer = StandardAuthorizer(allow_everyone=allow_everyone)
    authorizer.is_ready = True
    for acls in generations:
        authorizer.follow({repr(each).encode(): each for each in acls})
        model = NaiveAuthorizer(acls, allow_everyone=allow_everyone)
        assert authorizer.acl_count == len(acls)
        assert sorted(authorizer.acls, key=repr) == sorted(acls, key=repr)
        # Each question twice: what is remembered is the same as what is decided.
        for principal, host, operation, kind, name in [*questions, *questions]:
            allowed = model.allows(principal, host, operation, kind, name)
            assert authorizer.allows(principal, host, operation, kind, name) == allowed
            assert authorizer.rule(principal, host, operation, kind, name).is_allowed == allowed
            assert authorizer.allows_any(principal, host, operation, kind) == model.allows_any(
                principal, host, operation, kind
            )


@given(st.lists(ACLS, unique=True, max_size=12))
def test_acls_are_listed_in_kafkas_order(acls: list[AccessControlEntry]) -> None:
    def order(each: AccessControlEntry) -> tuple[object, ...]:
        backwards = (*(-ord(letter) for letter in each.resource_name), 1)
        return (each.resource_type, backwards, each.pattern_type, each.operation, each.principal, each.host)

    listed = list(AclSet.of(acls))
    assert [order(each) for each in listed] == sorted(order(each) for each in acls)
