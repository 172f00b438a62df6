"""A token as its holder sees it: what it says of its end, and the unsecured ones that Kafka makes for tests."""

from __future__ import annotations

import base64
import json

import pytest

from tidelog.security.access_token import (
    AccessToken,
    AccessTokenError,
    extensions,
    opaque_token,
    read_jwt,
    unsecured_token,
)

NOW_MS = 1_700_000_000_500


def jwt(claims: object, *, signature: str = "c2ln") -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'RS256'})}.{part(claims)}.{signature}"


def claims_of(token: AccessToken) -> dict[str, object]:
    section = token.text.split(".")[1]
    claims: dict[str, object] = json.loads(base64.urlsafe_b64decode(section + "=" * (-len(section) % 4)))
    return claims


def test_a_jwt_says_when_it_begins_and_ends() -> None:
    token = read_jwt(" " + jwt({"sub": "alice", "exp": 1_700_003_600.9, "iat": 1_700_000_000}) + "\n")

    assert (token.expires_ms, token.starts_ms) == (1_700_003_600_000, 1_700_000_000_000)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the token is empty or has characters that no bearer token has"),
        ("a b", "the token is empty or has characters that no bearer token has"),
        ("abc", "the token is no JWT: it has not three sections (header, payload and signature)"),
        (
            jwt({"sub": "a", "exp": 1}, signature=""),
            "the token is no JWT: it has not three sections (header, payload and signature)",
        ),
        ("a.b.c", "the token is no JWT: its payload cannot be read"),
        (jwt([1]), "the token is no JWT: its payload cannot be read"),
        (jwt({"sub": "alice"}), "the token has no time at which it ends (exp)"),
        (jwt({"sub": "alice", "exp": "soon"}), "the token's exp is not a time"),
        (jwt({"exp": 5}), "the token does not say whose it is (sub)"),
        ("x" * 500_001, "the token has 500001 characters, and 500000 at most are sent"),
    ],
)
def test_what_is_no_jwt_is_one_sentence_without_the_token(text: str, sentence: str) -> None:
    with pytest.raises(AccessTokenError) as caught:
        read_jwt(text)

    assert str(caught.value) == sentence


def test_a_token_of_a_callback_may_be_anything_that_can_be_sent() -> None:
    assert opaque_token("abc").expires_ms is None
    assert opaque_token("abc", 7).expires_ms == 7
    assert opaque_token(jwt({"exp": 9})).expires_ms == 9000
    assert opaque_token(jwt({"exp": 9}, signature="")).expires_ms == 9000
    with pytest.raises(AccessTokenError):
        opaque_token("a\x01b")


def test_a_token_is_not_in_its_repr() -> None:
    assert "abc" not in repr(AccessToken("abc", 1))


def test_an_unsecured_token_has_the_claims_of_the_options() -> None:
    token = unsecured_token(
        {
            "unsecuredLoginStringClaim_sub": 'a"b\\c',
            "unsecuredLoginNumberClaim_level": "3",
            "unsecuredLoginListClaim_scope": "|read|write",
            "unsecuredLoginLifetimeSeconds": "60",
            "unsecuredLoginExtension_traceId": "123",
        },
        NOW_MS,
    )

    assert claims_of(token) == {
        "exp": 1_700_000_060.5,
        "iat": 1_700_000_000.5,
        "sub": 'a"b\\c',
        "level": 3.0,
        "scope": ["read", "write"],
    }
    assert token.text.endswith(".")
    assert (token.expires_ms, token.starts_ms) == (NOW_MS + 60_000, NOW_MS)


@pytest.mark.parametrize(
    ("value", "elements"),
    [("", []), ("|", []), ("|a", ["a"]), (",a,b", ["a", "b"]), ("|a|", ["a", ""]), ("|a||b", ["a", "", "b", ""])],
)
def test_a_list_is_separated_by_its_first_character(value: str, elements: list[str]) -> None:
    token = unsecured_token({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginListClaim_x": value}, NOW_MS)

    assert claims_of(token)["x"] == elements


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "unsecuredLoginStringClaim_sub is missing: it says who this is"),
        ({"unsecuredLoginPrincipalClaimName": "me"}, "unsecuredLoginStringClaim_me is missing: it says who this is"),
        ({"unsecuredLoginStringClaim_exp": "1"}, "Cannot explicitly set the 'exp' claim"),
        ({"unsecuredLoginLifetimeSeconds": "soon"}, "unsecuredLoginLifetimeSeconds is 'soon'; it is a whole number"),
        ({"unsecuredLoginNumberClaim_a": "x"}, "unsecuredLoginNumberClaim_a is 'x'; it is a number"),
    ],
)
def test_options_that_make_no_token_are_one_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(AccessTokenError) as caught:
        unsecured_token(options, NOW_MS)

    assert str(caught.value) == sentence


def test_extensions_are_letters_and_what_can_be_printed() -> None:
    assert extensions({"extension_traceId": "7", "other": "x"}, "extension_") == {"traceId": "7"}
    for wrong in ({"extension_auth": "x"}, {"extension_a1": "x"}, {"extension_a": "\x01"}, {"extension_a": ""}):
        with pytest.raises(AccessTokenError):
            extensions(wrong, "extension_")
