"""Names and rules of Kerberos: `sasl.kerberos.principal.to.local.rules`, right ones and wrong ones."""

from __future__ import annotations

from random import Random
from typing import Any

REALM = "EXAMPLE.COM"
NAMES = [
    "alice@EXAMPLE.COM",
    "alice",
    "alice@OTHER.ORG",
    "kafka/host.example@EXAMPLE.COM",
    "kafka/host@OTHER.ORG",
    "alice/admin@EXAMPLE.COM",
    "Alice@EXAMPLE.COM",
    "alice@",
    "@EXAMPLE.COM",
    "",
    "/",
    "a/b",
    "a/b/c@EXAMPLE.COM",
    "a@b@c",
    "a/@EXAMPLE.COM",
    "/b@EXAMPLE.COM",
    "alice@example.com",
    "bob-x.y_z@EXAMPLE.COM",
    "jürgen@EXAMPLE.COM",
    "a b@EXAMPLE.COM",
    "mmm@EXAMPLE.COM",
    "a/b@",
    "$1@EXAMPLE.COM",
    "a\\b@EXAMPLE.COM",
    "alice.admin@OTHER.ORG",
]
RULES = [
    "DEFAULT",
    "RULE:[1:$1]",
    "RULE:[2:$1]",
    "RULE:[1:$1@$0]",
    "RULE:[2:$1/$2]",
    "RULE:[2:$1.$2]/L",
    "RULE:[1:$1]/U",
    "RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*//",
    "RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*//L",
    "RULE:[2:$1@$0](kafka@.*)s/.*/svc/",
    "RULE:[1:$1](m+)s/m/n/g",
    "RULE:[1:$1](m+)s/m/n/",
    "RULE:[1:$1]s/(.)(.*)/$2$1/",
    "RULE:[1:$2]",
    "RULE:[1:$1$9]",
    "RULE:[0:x]",
    "RULE:[3:$1]",
    "RULE:[:x]",
    "RULE:[1:]",
    "RULE:[1:$]",
    "RULE:[1:a$b]",
    "RULE:[2:$2;$1](^.*;admin$)s/^(.*);admin$/$1/",
    "RULE:[1:$1]s/a/b/L",
    "RULE:[1:$1]s/a/b//U",
    "RULE:[1:$1]s/a/b/g/L",
    "RULE:[1:$1]g",
    "RULE:[1:$1](",
    "RULE:[1:$1]([)",
    "RULE:[1:$1](a)",
    "default",
    "",
    " DEFAULT",
    "RULE:[1:$1]s/(/x/",
    "RULE:[1:$1]s/a/$1/",
    "RULE:[1:$1]s/a/\\$/",
    "RULE:[1:$1]s/a/$/",
    "RULE:[99999999999:$1]",
    "RULE:[1:$99999999999]",
    "RULE:[1:$0]",
    "RULE:[1:$1]/",
    "RULE:[1:$1]L",
    "RULE:[1:$1](.*)s/\\W/_/g",
    "RULE:[1:$1](?i)s/A/x/",
    "RULE:[1:$01]",
    "RULE:[2:$1](kafka)/L",
    "DEFAULTx",
    "RULE:[1:$1]DEFAULT",
]


def questions(count: int, seed: int = 2) -> list[dict[str, Any]]:
    """Every rule alone over some names, then lists of rules."""
    random = Random(seed)
    made: list[dict[str, Any]] = []
    for rule in RULES:
        made += [{"realm": REALM, "rules": [rule], "name": name} for name in random.sample(NAMES, 8)]
    while len(made) < count:
        rules = random.sample(RULES[:28], random.randint(0, 4))
        made.append(
            {"realm": random.choice([REALM, REALM, "", "OTHER.ORG"]), "rules": rules, "name": random.choice(NAMES)}
        )
    return made[:count]
