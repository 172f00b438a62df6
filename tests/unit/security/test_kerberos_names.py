"""Principals of Kerberos as short names, beside what `test_recorded_tables` holds to Apache Kafka's answers."""

from __future__ import annotations

import pytest

from tidelog.security.kerberos_names import KerberosName, KerberosNameError, ShortNames


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("kafka/broker.example@EXAMPLE.COM", ("kafka", "broker.example", "EXAMPLE.COM")),
        ("alice@EXAMPLE.COM", ("alice", None, "EXAMPLE.COM")),
        ("alice", ("alice", None, None)),
    ],
)
def test_a_name_is_put_together_as_it_was(text: str, parts: tuple[str, str | None, str | None]) -> None:
    name = KerberosName.parse(text)

    assert name == parts
    assert str(name) == text


def test_a_group_can_be_referred_to_by_its_name() -> None:
    names = ShortNames.parse("EXAMPLE.COM", ["RULE:[1:$1]s/^(?<first>.)(.*)$/$2-${first}/"])

    assert names.short_name("alice@EXAMPLE.COM") == "lice-a"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("RULE:[1:$1]s/a/\\/", "character to be escaped is missing"),
        ("RULE:[1:$1]s/a/${no}/", "No group with name {no}"),
        ("RULE:[1:$1]s/a/$x/", "Illegal group reference"),
        (f"RULE:[{'9' * 5000}:$1]", "For input string"),
        (f"RULE:[1:${'9' * 5000}]", "bad format in username mapping"),
        ("RULE:[1:$1](a{99999999999})", "cannot be used"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_told(rule: str, problem: str) -> None:
    with pytest.raises(KerberosNameError, match=problem):
        ShortNames.parse("EXAMPLE.COM", [rule]).short_name("alice@EXAMPLE.COM")
