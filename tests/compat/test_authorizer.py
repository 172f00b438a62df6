"""Our authoriser beside Kafka's own class: the same decisions, the same ACLs for the same filters, the same words for an ACL.

Names that are asked for begin with no character before `*`, which Kafka 4.3.1 would look for for ever beside other patterns; nor
with `*` itself, which it takes the ACLs on `*` not to be about (`security.acl_set`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import astuple

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tidelog.model.acl import AccessControlEntry, AclOperation, PatternType, PermissionType, ResourceType
from tidelog.model.principal import Principal
from tidelog.net.address import java_host
from tidelog.security.acl_filter import AclFilter
from tidelog.security.acl_set import acl_text
from tidelog.security.authorizer import StandardAuthorizer, super_users_of

pytestmark = pytest.mark.compat

SOURCE: Path = REPOSITORY / "tests" / "compat" / "AclOracle.java"
ROUNDS = 1_000
QUESTIONS = 100
FILTERS = 20
OPERATIONS = [each for each in AclOperation if each > AclOperation.ALL]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER]
HOSTS = ["10.0.0.1", "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:10"]
SUPER_USERS = "User:root;Role:root"


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with JavaProcess(kafka, SOURCE) as process:
        yield process


def name(random: Random) -> str:
    return "".join(random.choices("ab*é", weights=[6, 3, 2, 1], k=random.randint(1, 4)))


def acl(random: Random) -> AccessControlEntry:
    return AccessControlEntry(
        random.choice(TYPES),
        name(random),
        random.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        random.choice(["User:a", "User:b:c", "User:*", "Role:a", "Role:*"]),
        random.choice(["*", "*", *HOSTS, "::1"]),
        random.choice([*OPERATIONS, AclOperation.ALL, AclOperation.ALL]),
        random.choice([PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY]),
    )


def question(random: Random) -> tuple[Principal, str, AclOperation, ResourceType, str | None]:
    return (
        Principal(*random.choice([("User", "a"), ("User", "b:c"), ("Role", "a"), ("Role", "b"), ("User", "root")])),
        random.choice(HOSTS),
        random.choice(OPERATIONS),
        random.choice(TYPES),
        None if random.random() < 0.2 else random.choice(["*", random.choice("abé") + name(random)[1:]]),
    )


def wanted(random: Random) -> AclFilter:
    return AclFilter(
        random.choice([ResourceType.ANY, *TYPES]),
        random.choice([None, name(random)]),
        random.choice([PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]),
        random.choice([None, None, "User:a", "User:*"]),
        random.choice([None, None, "*", HOSTS[0]]),
        random.choice([AclOperation.ANY, AclOperation.ANY, *OPERATIONS]),
        random.choice([PermissionType.ANY, PermissionType.ALLOW, PermissionType.DENY]),
    )


def decided(authorizer: StandardAuthorizer, asked: Any) -> bool:
    principal, host, operation, kind, resource = asked
    if resource is None:
        return authorizer.allows_any(principal, host, operation, kind)
    return authorizer.allows(principal, host, operation, kind, resource)


def test_a_hundred_thousand_decisions_are_kafkas(oracle: JavaProcess) -> None:
    random = Random(7)
    allowed = 0
    for _ in range(ROUNDS):
        acls = list(dict.fromkeys(acl(random) for _ in range(random.randint(0, 25))))
        questions = [question(random) for _ in range(QUESTIONS)]
        filters = [wanted(random) for _ in range(FILTERS)]
        allow_everyone = random.random() < 0.3
        theirs = oracle.ask(
            {
                "acls": [astuple(each) for each in acls],
                "super_users": SUPER_USERS,
                "allow_everyone": str(allow_everyone).lower(),
                "questions": [[*asked[0][:2], *asked[1:]] for asked in questions],
                "filters": [astuple(each) for each in filters],
            }
        )
        ours = StandardAuthorizer(super_users_of(SUPER_USERS), allow_everyone=allow_everyone)
        ours.follow({str(number).encode(): each for number, each in enumerate(acls)})
        ours.is_ready = True

        decisions = [decided(ours, asked) for asked in questions]

        assert decisions == theirs["decisions"], (acls, questions)
        allowed += sum(decisions)
        assert [
            [number for number, each in enumerate(acls) if looked_for.matches(each)] for looked_for in filters
        ] == theirs["found"]
        assert [acl_text(each) for each in acls] == theirs["texts"]
    # Neither of them says the same to everything.
    assert 0.1 < allowed / (ROUNDS * QUESTIONS) < 0.9


def test_hosts_are_in_javas_form() -> None:
    assert [java_host(each) for each in HOSTS] == HOSTS
