"""Decisions as Apache Kafka's StandardAuthorizer makes them; the examples are those that its own class was asked."""

from __future__ import annotations

import pytest

from tests.support.acls import DENY, acl
from tidelog.model.acl import AccessControlEntry, AclOperation, PatternType, ResourceType
from tidelog.model.config import ConfigError
from tidelog.model.principal import Principal
from tidelog.security import authorizer as authorizer_module
from tidelog.security.authorizer import AuthorizerNotReadyError, StandardAuthorizer, super_users_of

READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
TOPIC = ResourceType.TOPIC
ALICE, ZED = Principal("User", "alice"), Principal("User", "zed")
HOST = "10.0.0.1"


def authorizer_of(*acls: AccessControlEntry, allow_everyone: bool = False, supers: str = "") -> StandardAuthorizer:
    made = StandardAuthorizer(super_users_of(supers), allow_everyone=allow_everyone)
    made.follow({bytes([number]): each for number, each in enumerate(acls)})
    made.is_ready = True
    return made


def test_before_the_acls_are_there_only_a_super_user_may_do_anything() -> None:
    made = StandardAuthorizer(super_users_of("User:alice; User:bob"))
    assert made.allows(ALICE, HOST, READ, TOPIC, "any")
    with pytest.raises(AuthorizerNotReadyError):
        made.allows(ZED, HOST, READ, TOPIC, "any")
    made.is_ready = True
    assert not made.allows(ZED, HOST, READ, TOPIC, "any")


def test_a_super_user_may_do_what_a_deny_forbids() -> None:
    made = authorizer_of(acl("User:*", ALL, "*", permission=DENY), supers="User:alice")
    assert made.allows(ALICE, HOST, WRITE, TOPIC, "orders")
    assert str(made.rule(ALICE, HOST, WRITE, TOPIC, "orders")) == "SuperUser"


def test_an_acl_for_somebody_else_closes_a_resource_that_was_open_to_all() -> None:
    made = authorizer_of(acl("User:zed", READ, "foo", pattern=PatternType.PREFIXED), allow_everyone=True)
    assert not made.allows(ALICE, HOST, READ, TOPIC, "foobar")
    assert made.allows(ALICE, HOST, READ, TOPIC, "bar")
    assert str(made.rule(ALICE, HOST, READ, TOPIC, "bar")) == "DefaultAllow"


def test_an_allowed_operation_implies_describe_and_a_denied_one_does_not() -> None:
    made = authorizer_of(acl("User:zed", AclOperation.ALTER_CONFIGS, "t"))
    assert made.allows(ZED, HOST, AclOperation.DESCRIBE_CONFIGS, TOPIC, "t")
    assert not made.allows(ZED, HOST, DESCRIBE, TOPIC, "t")
    made = authorizer_of(acl("User:*", READ, "*", permission=DENY), acl("User:zed", ALL, "q"))
    assert not made.allows(ZED, HOST, READ, TOPIC, "q")
    assert made.allows(ZED, HOST, DESCRIBE, TOPIC, "q")


def test_everybody_means_principals_of_every_type_and_hosts_are_compared_as_text() -> None:
    made = authorizer_of(
        acl("User:*", WRITE, "t", host="0:0:0:0:0:0:0:1"), acl("User:*", ALL, "t", host="::1", permission=DENY)
    )
    group = Principal("Group", "g")
    assert made.allows(group, "0:0:0:0:0:0:0:1", WRITE, TOPIC, "t")
    assert made.allows(group, "0:0:0:0:0:0:0:1", DESCRIBE, TOPIC, "t")
    assert not made.allows(group, "0:0:0:0:0:0:0:1", READ, TOPIC, "t")
    assert not made.allows(group, HOST, WRITE, TOPIC, "t")


def test_a_principals_type_ends_at_the_first_colon() -> None:
    made = authorizer_of(acl("User:a:b", READ, "t"), acl("nobody", READ, "t"))
    assert made.allows(Principal("User", "a:b"), HOST, READ, TOPIC, "t")
    assert not made.allows(Principal("User:a", "b"), HOST, READ, TOPIC, "t")
    assert not made.allows(Principal("", "nobody"), HOST, READ, TOPIC, "t")


def test_a_name_before_the_wildcard_beside_other_patterns_is_decided() -> None:
    # Kafka 4.3.1 never comes to an end here.
    made = authorizer_of(
        acl("User:alice", READ, "!other", kind=ResourceType.GROUP),
        acl("User:alice", READ, "#", kind=ResourceType.GROUP, pattern=PatternType.PREFIXED),
        acl("User:zed", READ, "*", kind=ResourceType.GROUP),
    )
    assert not made.allows(ALICE, HOST, READ, ResourceType.GROUP, "!group")
    assert made.allows(ZED, HOST, READ, ResourceType.GROUP, "!group")
    assert made.allows(ALICE, HOST, READ, ResourceType.GROUP, "#group")


def test_acls_on_everything_hold_for_a_name_that_begins_with_the_wildcard_too() -> None:
    # Kafka 4.3.1 overlooks them there, so that such a name avoids a DENY.
    made = authorizer_of(acl("User:*", READ, "*", permission=DENY), allow_everyone=True)
    assert not made.allows(ALICE, HOST, READ, TOPIC, "*mine")
    assert not made.allows(ALICE, HOST, READ, TOPIC, "*")


def test_the_rule_names_the_first_acl_that_denies_or_else_the_widest_that_allows() -> None:
    narrow = acl("User:alice", READ, "orders")
    wide = acl("User:*", READ, "*")
    assert authorizer_of(narrow, wide).rule(ALICE, HOST, READ, TOPIC, "orders").acl == wide
    denying = acl("User:*", READ, "ord", pattern=PatternType.PREFIXED, permission=DENY)
    assert str(authorizer_of(narrow, wide, denying).rule(ALICE, HOST, READ, TOPIC, "orders")) == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=ord, patternType=PREFIXED, principal=User:*, host=*, "
        "operation=READ, permissionType=DENY])"
    )


def test_a_decision_is_remembered_until_the_acls_change() -> None:
    made = authorizer_of(acl("User:alice", READ, "t"))
    assert made.allows(ALICE, HOST, READ, TOPIC, "t")
    revision = made.revision
    same = {b"1": acl("User:alice", READ, "t", permission=DENY)}
    made.follow(same)
    assert not made.allows(ALICE, HOST, READ, TOPIC, "t")
    assert made.revision == revision + 1
    made.follow(same)
    made.follow(dict(same))
    assert made.revision == revision + 1
    assert (made.allowed_count, made.denied_count, made.acl_count) == (1, 1, 1)


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "DECISIONS_MAX", 10)
    made = authorizer_of(acl("User:alice", READ, "t"))
    for number in range(100):
        assert not made.allows(ALICE, HOST, READ, TOPIC, f"t{number}")
    assert not made.allows(ALICE, HOST, READ, TOPIC, "x" * 30_000)
    assert len(made._decisions) <= 10
    assert max(len(key[4] or "") for key in made._decisions) < 300


def test_a_right_to_any_resource_of_a_type_is_enough_where_just_some_is_asked_for() -> None:
    made = authorizer_of(acl("User:alice", WRITE, "orders"), acl("User:zed", READ, "orders"))
    assert made.allows_any(ALICE, HOST, WRITE, TOPIC)
    assert not made.allows_any(ZED, HOST, WRITE, TOPIC)
    assert not made.allows_any(ALICE, HOST, WRITE, ResourceType.GROUP)


def test_a_right_that_a_deny_covers_is_none() -> None:
    made = authorizer_of(
        acl("User:alice", WRITE, "orders"),
        acl("User:alice", WRITE, "order", pattern=PatternType.PREFIXED),
        acl("User:*", ALL, "ord", pattern=PatternType.PREFIXED, permission=DENY),
    )
    assert not made.allows_any(ALICE, HOST, WRITE, TOPIC)


def test_super_users_are_parted_by_semicolons_and_have_a_type() -> None:
    assert super_users_of(" User:CN=a,O=b ; User:c;") == {"User:CN=a,O=b", "User:c"}
    with pytest.raises(ConfigError, match=r"super\.users names admin"):
        super_users_of("admin")
