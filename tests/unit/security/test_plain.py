from __future__ import annotations

import hmac

import pytest

from tidelog.model.principal import Principal
from tidelog.security.jaas import jaas_entry
from tidelog.security.sasl.exchange import SaslAuthenticationError
from tidelog.security.sasl.plain import PlainClient, PlainServer, password_check

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
CHECK = password_check(jaas_entry(f"{MODULE} required username=b password=p user_alice='pä ss' user_bob=b1;"))


def test_a_user_with_the_right_password_is_let_in() -> None:
    server, client = PlainServer(CHECK), PlainClient("alice", "pä ss")

    assert server.evaluate(client.evaluate(b"")) == b""

    client.evaluate(b"")
    assert client.is_complete
    assert server.is_complete
    assert server.principal == Principal("User", "alice")
    assert server.session_end_ms is None


def test_the_name_may_be_said_twice() -> None:
    server = PlainServer(CHECK)

    server.evaluate(b"bob\0bob\0b1")

    assert server.principal.name == "bob"


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"bob\0b1", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0bob\0b1\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0bob\0b1\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0b1", "Authentication failed: username not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"\0bob\0B1", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0b1", "Authentication failed: Invalid username or password"),
        (b"\0b\0p", "Authentication failed: Invalid username or password"),
        (b"\0bob\xff\0b1", "Authentication failed: Invalid username or password"),
        (
            b"alice\0bob\0b1",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_everybody_else_is_told_why_not(token: bytes, problem: str) -> None:
    server = PlainServer(CHECK)

    with pytest.raises(SaslAuthenticationError) as refused:
        server.evaluate(token)

    assert str(refused.value) == problem
    assert not server.is_complete


def test_an_unknown_user_costs_the_same_comparison_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)

    for token in (b"\0bob\0wrong", b"\0nobody\0a rather long password that is wrong too"):
        with pytest.raises(SaslAuthenticationError):
            PlainServer(CHECK).evaluate(token)

    assert compared == [(32, 32), (32, 32)]


def test_options_of_another_module_are_no_users() -> None:
    assert not password_check(jaas_entry("some.other.Module required user_bob=b1;"))("bob", "b1")
