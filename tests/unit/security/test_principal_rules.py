"""`ssl.principal.mapping.rules`, by the examples of Kafka's own test and beyond."""

from __future__ import annotations

import pytest

from tidelog.security.principal_rules import PrincipalRules, RuleError

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U", DUKE, "DUKE"),
        ("RULE:^CN=(.*?), *OU=(.*?), *O=(.*?), *C=(.*?)$/$1@$2/", DUKE, "Duke@ServiceUsers"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$5/", DUKE, "Duke@$5"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$12/", DUKE, "Duke2"),
        ("RULE:^CN=(?<who>.*?),.*$/${who}!/", DUKE, "Duke!"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "C=US,cn=WebUser", "webuser"),
        ("RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,DEFAULT", "cn=a,ou=b,dc=c,dc=d", "A@B"),
        ("RULE:^none$/x/,RULE:^CN=(.*?),.*$/second $1/", DUKE, "second Duke"),
        (r"RULE:^CN=(.*?),.*$/$1\/x/", DUKE, "Duke/x"),
        (r"RULE:^CN=(.*?),.*$/\$1/", DUKE, "$1"),
        ("RULE:(.*)/x$0/", "CN=a", "xCN=ax"),
        ("RULE:CN=(a)(b)?/$1$2-/", "CN=a", "a-"),
        ("  RULE:^CN=(.*?),.*$/$1/L ,  DEFAULT  ", DUKE, "duke"),
    ],
)
def test_the_first_rule_that_matches_gives_the_name(rules: str, name: str, expected: str) -> None:
    assert PrincipalRules.parse(rules).name(name) == expected


def test_a_name_that_no_rule_applies_to_fails() -> None:
    rules = PrincipalRules.parse("RULE:^CN=(.*?),.*$/$1/L")

    with pytest.raises(RuleError, match=r"No rules apply to O=Org, rules \[RULE:\^CN=\(\.\*\?\),\.\*\$/\$1/L\]"):
        rules.name("O=Org")


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_empty_rules_apply_to_nobody(text: str) -> None:
    with pytest.raises(RuleError, match="No rules apply"):
        PrincipalRules.parse(text).name(DUKE)


@pytest.mark.parametrize(
    "text",
    ["default", "DEFAUL", "DEFAULT/L", "RULE:CN=(.*?),OU=ServiceUsers.*/$1", "RULE:^CN=(/x/", "RULE:a/b/LU", "RULE:"],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(RuleError, match="Invalid rule"):
        PrincipalRules.parse(text)


@pytest.mark.parametrize("replacement", ["$1", "$", "$x", "${nobody}"])
def test_a_replacement_that_refers_to_nothing_fails_the_authentication(replacement: str) -> None:
    rules = PrincipalRules.parse(f"RULE:^CN=a$/{replacement}/")

    with pytest.raises(RuleError):
        rules.name("CN=a")
