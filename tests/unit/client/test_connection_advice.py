"""What a client says of a connection that came to nothing: the cause once, and what to set."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.client.connection_advice import is_refusal, may_pass, with_advice, with_guess
from tidelog.client.options import ClientOptions, parse_options


def options(protocol: str) -> ClientOptions:
    login: dict[str, Any] = {"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "b"}
    return parse_options(
        ClientOptions,
        {"bootstrap_servers": "a:1", "security_protocol": protocol, **(login if "SASL" in protocol else {})},
    )


@pytest.mark.parametrize(
    ("problem", "advice"),
    [
        (
            "the certificate of the node is not accepted: unable to get local issuer certificate",
            "ssl_truststore_location says whom to trust",
        ),
        (
            "the certificate of the node is not accepted: Hostname mismatch, certificate is not valid for 'a'.",
            "use a name for the host that its certificate has",
        ),
        (
            "the node does not speak TLS (is its listener one without TLS?)",
            "SSL and SASL_SSL are for listeners with TLS, and security_protocol is SSL",
        ),
        (
            "the node requires a certificate, and none was shown",
            "ssl_keystore_location is for the certificate to show",
        ),
    ],
)
def test_a_cause_that_is_known_comes_with_what_to_set(problem: str, advice: str) -> None:
    assert with_advice(problem, options("SSL")) == f"{problem}; {advice}"


def test_the_words_of_the_cluster_are_left_alone() -> None:
    words = "the login with PLAIN failed: Authentication failed: Invalid username or password"

    assert with_advice(words, options("SASL_SSL")) == words


@pytest.mark.parametrize(
    ("protocol", "is_greeted", "guess"),
    [
        ("PLAINTEXT", False, "; if its listener wants TLS, set security_protocol to SSL or SASL_SSL"),
        ("SASL_PLAINTEXT", False, "; if its listener wants TLS, set security_protocol to SSL or SASL_SSL"),
        (
            "PLAINTEXT",
            True,
            "; if its listener wants a login, set security_protocol to SASL_PLAINTEXT or SASL_SSL, and sasl_mechanism",
        ),
        ("SSL", True, "; if its listener wants a login, set security_protocol to SASL_SSL, and sasl_mechanism"),
        ("SSL", False, ""),
        ("SASL_SSL", True, ""),
        ("SASL_SSL", False, ""),
    ],
)
def test_a_connection_that_a_node_closes_without_a_word_comes_with_a_guess(
    protocol: str, is_greeted: bool, guess: str
) -> None:
    assert with_guess("x", options(protocol), is_greeted=is_greeted) == f"x{guess}"


def test_what_may_be_over_the_next_time_is_told_from_what_is_not() -> None:
    assert may_pass("the node closed the connection during the TLS handshake (is its listener one with TLS?)")
    assert may_pass("the login with PLAIN failed: timed out: no answer within 10 s")
    assert not may_pass("the login with PLAIN failed: Authentication failed: Invalid username or password")
    assert is_refusal("the node refuses our certificate: it has expired")
    assert not is_refusal("closed by the node")
