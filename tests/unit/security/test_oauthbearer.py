from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable

import pytest

from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.security.sasl.exchange import SaslAuthenticationError, SaslError, UnexpectedTokenError
from tidelog.security.sasl.oauthbearer import (
    BearerToken,
    ClientFirst,
    OAuthBearerClient,
    OAuthBearerServer,
    TokenRefused,
    Validated,
    extensions_problem,
)
from tidelog.security.sasl.unsecured_jws import UnsecuredOptions, unsecured_token, unsecured_validator

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000


def unsecured(options: dict[str, str] | None = None) -> Callable[[str], Validated]:
    return unsecured_validator(UnsecuredOptions.of(options or {}), lambda: NOW_MS)


def server(options: dict[str, str] | None = None) -> OAuthBearerServer:
    return OAuthBearerServer(unsecured(options))


def first(token: str, authzid: str = "", **extensions: str) -> bytes:
    return ClientFirst(token, authzid, extensions).to_bytes()


def good(**claims: object) -> str:
    return unsecured_token({"sub": "alice", "iat": NOW_S - 5, "exp": NOW_S + 60, **claims})


def test_a_good_token_is_taken_with_its_end() -> None:
    peer = server()

    assert peer.evaluate(first(good(), traceId="abc")) == b""

    assert peer.principal == Principal("User", "alice")
    assert peer.session_end_ms == NOW_MS + 60_000


def test_a_bad_token_is_told_in_two_steps() -> None:
    peer = server()

    said = peer.evaluate(first(good(exp=NOW_S - 1)))
    with pytest.raises(SaslAuthenticationError) as refused:
        peer.evaluate(b"\x01")

    assert said == b'{"status":"invalid_token"}'
    assert str(refused.value) == '{"status":"invalid_token"}'
    assert not peer.is_complete


def test_a_second_token_may_follow_a_bad_one() -> None:
    peer = server()
    peer.evaluate(first(good(exp=NOW_S - 1)))

    assert peer.evaluate(first(good())) == b""

    assert peer.is_complete


def test_the_byte_of_a_refused_client_means_nothing_before() -> None:
    with pytest.raises(SaslError, match="Invalid OAUTHBEARER client first message"):
        server().evaluate(b"\x01")


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(SaslAuthenticationError) as refused:
        server().evaluate(first(good(), authzid="root"))

    assert str(refused.value) == (
        "Authentication failed: Client requested an authorization id (root) that is different"
        " from the token's principal name (alice)"
    )
    server().evaluate(first(good(), authzid="alice"))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "Invalid OAUTHBEARER client first message"),
        (b"n,,\x01auth=Bearer x\x01", "Invalid OAUTHBEARER client first message"),
        (b"y,,\x01auth=Bearer x\x01\x01", "Invalid OAUTHBEARER client first message"),
        (b"n,,\x01\x01", "Invalid OAUTHBEARER client first message: 'auth' not specified"),
        (b"n,,\x01a=b\x01\x01", "Invalid OAUTHBEARER client first message: 'auth' not specified"),
        (b"n,,\x01auth=Bearer\x01\x01", "Invalid OAUTHBEARER client first message: invalid 'auth' format"),
        (b"n,,\x01auth=Bearer a b\x01\x01", "Invalid OAUTHBEARER client first message: invalid 'auth' format"),
        (b"n,,\x01auth=Bearer x\x01a1=b\x01\x01", "Invalid OAUTHBEARER client first message"),
        (b"n,,\x01auth=Bearer x\x01a=\xc3\xa4\x01\x01", "Invalid OAUTHBEARER client first message"),
    ],
)
def test_a_first_message_that_is_none(said: bytes, problem: str) -> None:
    with pytest.raises(SaslError) as refused:
        server().evaluate(said)

    assert str(refused.value) == problem


def test_the_scheme_is_bearer_in_any_case() -> None:
    assert ClientFirst.parse(b"n,,\x01auth=bEARER  abc=\x01\x01").token == "abc="

    with pytest.raises(UnexpectedTokenError):
        ClientFirst.parse(b"n,,\x01auth=Basic abc\x01\x01")


def test_extensions_come_through_as_they_were_said() -> None:
    said = ClientFirst("t", "me", {"a": "b=c d", "e": "\t"})

    assert ClientFirst.parse(said.to_bytes()) == said


@pytest.mark.parametrize(
    ("extensions", "problem"),
    [
        ({"a": "b"}, None),
        ({"auth": "b"}, "Extension name auth is invalid"),
        ({"a1": "b"}, "Extension name a1 is invalid"),
        ({"a": "\x01"}, "Extension value (\x01) for extension a is invalid"),
    ],
)
def test_extensions_have_letters_for_names(extensions: dict[str, str], problem: str | None) -> None:
    assert extensions_problem(extensions) == problem


def jws(header: object, claims: object, signature: str = "") -> str:
    parts = [urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in (header, claims)]
    return ".".join([*parts, signature])


NONE = {"alg": "none"}
FINE = {"sub": "alice", "exp": NOW_S + 1}


@pytest.mark.parametrize(
    "token",
    [
        "abc",
        "a..b",
        "a.b",
        jws(NONE, FINE) + "x.",
        jws({"alg": "RS256"}, FINE),
        jws(NONE, FINE, "c2ln"),
        jws(NONE, {"sub": "alice"}),
        jws(NONE, {"sub": "alice", "exp": "tomorrow"}),
        jws(NONE, {"sub": "alice", "exp": None}),
        jws(NONE, {"sub": "alice", "exp": NOW_S}),
        jws(NONE, {"sub": " ", "exp": NOW_S + 1}),
        jws(NONE, {"sub": 5, "exp": NOW_S + 1}),
        jws(NONE, {"exp": NOW_S + 1}),
        jws(NONE, {**FINE, "iat": NOW_S + 1}),
        jws(NONE, {**FINE, "scope": 5}),
        jws(NONE, []),
        "e30." + "W" * 3 + ".",
        jws(NONE, FINE).replace(".", "=.", 1).replace("=.", "+.", 1),
    ],
)
def test_an_unsecured_token_that_is_not_good(token: str) -> None:
    try:
        refused = unsecured()(token)
    except UnexpectedTokenError:
        # No algorithm at all: Kafka closes without a word.
        assert token.startswith("e30.")
    else:
        assert isinstance(refused, TokenRefused)
        assert refused.json == '{"status":"invalid_token"}'


def test_an_unsecured_token_says_who_and_for_how_long() -> None:
    options = {"unsecuredValidatorPrincipalClaimName": "name", "unsecuredValidatorScopeClaimName": "scp"}
    token = jws(NONE, {"name": "x", "exp": NOW_S + 0.5, "scp": ["a ", "", "b"]})

    assert unsecured(options)(token) == BearerToken("x", NOW_MS + 500, frozenset({"a", "b"}))


def test_skew_helps_both_ways() -> None:
    skewed = unsecured({"unsecuredValidatorAllowableClockSkewMs": "2000"})

    assert isinstance(skewed(jws(NONE, {"sub": "x", "exp": NOW_S - 1})), BearerToken)
    assert isinstance(skewed(jws(NONE, {"sub": "x", "exp": NOW_S + 9, "iat": NOW_S + 2})), BearerToken)
    assert isinstance(skewed(jws(NONE, {"sub": "x", "exp": NOW_S - 2})), TokenRefused)


def test_a_missing_scope_is_told() -> None:
    validate = unsecured({"unsecuredValidatorRequiredScope": "read write"})

    refused = validate(good(scope=["read"]))

    assert isinstance(refused, TokenRefused)
    assert refused.json == '{"status":"insufficient_scope", "scope":"[read, write]"}'
    assert isinstance(validate(good(scope=["read", "write", "x"])), BearerToken)


def test_huge_and_odd_numbers_do_no_harm() -> None:
    for exp in ("1e400", "1" * 400, "-1e400", "NaN", "Infinity"):
        payload = urlsafe_b64encode(f'{{"sub":"a","exp":{exp}}}'.encode()).rstrip(b"=").decode()
        outcome = unsecured()(jws(NONE, {}).split(".", maxsplit=1)[0] + f".{payload}.")
        assert isinstance(outcome, BearerToken if exp[0] == "1" else TokenRefused)


@pytest.mark.parametrize(
    "options",
    [{"unsecuredValidatorRequiredScope": 'a"b'}, {"unsecuredValidatorAllowableClockSkewMs": "-1"}],
)
def test_options_are_checked_at_the_start(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"scope value|number of milliseconds"):
        UnsecuredOptions.of(options)


def test_a_validator_may_take_its_time() -> None:
    later: Pending[Validated] = Pending()
    peer = OAuthBearerServer(lambda _token: later)

    outcome = peer.evaluate(first("t"))
    assert isinstance(outcome, Pending)
    assert not peer.is_complete
    later.complete(BearerToken("bob", 5))

    assert outcome.value == b""
    assert peer.principal.name == "bob"


def test_what_comes_later_may_be_a_refusal() -> None:
    later: Pending[Validated] = Pending()
    outcome = OAuthBearerServer(lambda _token: later).evaluate(first("t", authzid="root"))
    assert isinstance(outcome, Pending)

    later.complete(BearerToken("bob", 5))

    assert isinstance(outcome.value, SaslAuthenticationError)


def test_a_client_says_its_token_and_is_done_at_an_empty_answer() -> None:
    client = OAuthBearerClient(lambda: "t", {"a": "b"})

    assert client.evaluate(b"") == b"n,,\x01auth=Bearer t\x01a=b\x01\x01"
    client.evaluate(b"")

    assert client.is_complete


def test_a_client_that_is_refused_asks_why() -> None:
    client = OAuthBearerClient(lambda: "t")
    client.evaluate(b"")

    assert client.evaluate(b'{"status":"invalid_token"}') == b"\x01"
    assert not client.is_complete


def test_a_client_waits_for_its_token() -> None:
    later: Pending[str | SaslError] = Pending()
    outcome = OAuthBearerClient(lambda: later).evaluate(b"")
    assert isinstance(outcome, Pending)

    later.complete("t")

    assert outcome.value == b"n,,\x01auth=Bearer t\x01\x01"
