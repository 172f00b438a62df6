"""Random sets of ACLs with questions about them, as `AuthorizerOracle.java` reads them.

Names share prefixes, so that ACLs of all patterns meet. Two things are left out, with which Kafka 4.3.1 cannot be asked, and
one in which ours differ:
- Names that begin with a character that sorts before `*` (a blank, `!`, `#`, `$`, `%`, `&`, brackets). Kafka searches its sorted
  set for ever, or fails on a substring, as soon as another ACL begins with the same character:
  StandardAuthorizerData.checkSection cuts its wildcard exemplar, `*`, to as many characters as match.
- Names that begin with `*` and go on. To them an ACL on LITERAL `*` does not apply in Kafka, whether it allows or denies: it is
  taken for a literal name that is only a prefix. Ours take it for what it says.
- A caller `User:*` who is no super user: every question of his fails (Set.of of the caller and the wildcard holds him twice).
"""

from __future__ import annotations

from random import Random
from typing import Any

NAMES = [
    "a",
    "ab",
    "abc",
    "abd",
    "abc.d",
    "b",
    "*",
    "a*",
    "orders",
    "orders-eu",
    "ord",
    "Orders",
    "h",
    "hard",
    "hardcode",
    "ä",
    "äb",
]
ACL_PRINCIPALS = [
    "User:alice",
    "User:alice",
    "User:*",
    "User:bob",
    "User:*",
    "User:Alice",
    "Group:alice",
    "User:a:b",
    "User:",
    "*:alice",
    "Group:*",
]
CALLERS = [
    ("User", "alice"),
    ("User", "bob"),
    ("User", "carol"),
    ("User", "root"),
    ("Group", "alice"),
    ("User", "a:b"),
    ("User", ""),
]
ACL_HOSTS = ["*", "*", "*", "10.0.0.1", "0:0:0:0:0:0:0:1", "::1", "localhost"]
ADDRESSES = ["10.0.0.1", "10.0.0.2", "::1", "2001:db8::10", "::ffff:10.0.0.1"]
TYPES = ["TOPIC", "TOPIC", "GROUP", "TRANSACTIONAL_ID", "USER", "DELEGATION_TOKEN", "CLUSTER"]
OPERATIONS = [
    "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
]  # fmt: skip
SUPER_USERS = ["", "User:root", "User:root; User:alice ;Group:alice", "User:*", "User:"]
QUESTIONS = 20

Case = dict[str, Any]


def case(seed: int) -> Case:
    """A set of ACLs and some questions; few kinds of things in each, so that they meet."""
    random = Random(seed)
    names = random.sample(NAMES, random.randint(1, 6))
    types = random.sample(TYPES, random.randint(1, 2))
    operations = [*random.sample(OPERATIONS, random.randint(1, 3)), "DESCRIBE"]
    principals = random.sample(ACL_PRINCIPALS, random.randint(1, 3))
    hosts = random.sample(ACL_HOSTS, random.randint(1, 4))
    denies = random.choice([0.0, 0.1, 0.3, 0.6])

    def acl() -> tuple[str, ...]:
        kind = random.choice(types)
        return (
            kind,
            "kafka-cluster" if kind == "CLUSTER" else random.choice(names),
            random.choice(["LITERAL", "PREFIXED"]),
            random.choice(principals),
            random.choice(hosts),
            random.choice([*operations, "ALL"]),
            "DENY" if random.random() < denies else "ALLOW",
        )

    acls = {acl(): None for _ in range(random.choice([0, 1, 1, 2, 3, 5, 8, 14]))}
    return {
        "super_users": random.choice(SUPER_USERS) if random.random() < 0.3 else "User:root",
        "allow_everyone": random.random() < 0.3,
        "acls": [list(each) for each in acls],
        "questions": [_question(random, list(acls), types, operations) for _ in range(QUESTIONS)],
    }


def _question(random: Random, acls: list[tuple[str, ...]], types: list[str], operations: list[str]) -> list[str | None]:
    """About something that an ACL speaks of, as a rule, from somebody whom it may or may not concern."""
    kind, name, principal, host = random.choice(types), random.choice(NAMES[:6]), "", ""
    if acls and random.random() < 0.8:
        kind, name, _, principal, host, _, _ = random.choice(acls)
    name = random.choice(NAMES[:6]) if name == "*" else name
    caller = tuple(principal.split(":", 1))
    if caller not in CALLERS or random.random() < 0.25:
        caller = random.choice(CALLERS)
    if name != "*" and random.random() < 0.4:
        name += random.choice(["c", "-eu", ".d", "x"])
    return [
        *caller,
        host if host in ADDRESSES and random.random() < 0.7 else random.choice(ADDRESSES),
        random.choice(operations if random.random() < 0.8 else OPERATIONS),
        kind,
        None if random.random() < 0.2 else "kafka-cluster" if kind == "CLUSTER" else name,
    ]
