"""Signed tokens, their keys and claims. Keys are made here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tidelog.model.pending import Pending
from tidelog.model.slow_work import InlineSlowWork
from tidelog.security.sasl import jwks
from tidelog.security.sasl.jwks import JwksError, JwksKeys, VerificationKey, fetch_key_set, parse_key_set
from tidelog.security.sasl.jwt_validator import JwtRules, jwt_validator
from tidelog.security.sasl.oauthbearer import BearerToken, TokenRefused, Validated

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000


@cache
def rsa_key(name: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=1024 if name == "weak" else 2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def jwk(name: str, **fields: str) -> dict[str, Any]:
    if name == "ec":
        held = json.loads(ECAlgorithm.to_jwk(ec_key().public_key()))
    else:
        held = json.loads(RSAAlgorithm.to_jwk(rsa_key(name).public_key()))
    return {**held, "kid": name, **fields}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def claims(**changes: object) -> dict[str, object]:
    made = {"sub": "alice", "iat": NOW_S - 100, "exp": NOW_S + 60, **changes}
    return {name: value for name, value in made.items() if value is not None}


def signed(said: dict[str, object], name: str = "one", algorithm: str = "RS256", **headers: object) -> str:
    key: Any = ec_key() if name == "ec" else rsa_key(name)
    return jwt.encode(said, key, algorithm, headers={"kid": name, **headers})


class Provider:
    """Keys behind a place that can be changed, and how often it was asked."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.content: bytes | Exception = key_set(*keys)
        self.asked = 0
        self.now_ms = NOW_MS

    def fetch(self) -> Sequence[VerificationKey]:
        self.asked += 1
        if isinstance(self.content, Exception):
            raise self.content
        return parse_key_set(self.content, "there")

    def keys(self) -> JwksKeys:
        return JwksKeys(
            self.fetch,
            InlineSlowWork(),
            lambda: self.now_ms,
            refresh_ms=3_600_000,
            retry_backoff_ms=100,
            retry_backoff_max_ms=10_000,
        )


def validator(rules: JwtRules | None = None, provider: Provider | None = None) -> Callable[[str], Validated]:
    held = provider or Provider(jwk("one"), jwk("ec"))
    validate = jwt_validator(rules or JwtRules(), held.keys().find, lambda: held.now_ms)

    def settled(token: str) -> Validated:
        outcome = validate(token)
        return outcome.value if isinstance(outcome, Pending) else outcome

    return settled


def refusal(outcome: Validated) -> str:
    assert isinstance(outcome, TokenRefused)
    assert outcome.json == '{"status":"invalid_token"}'
    return outcome.reason


@pytest.mark.parametrize(("name", "algorithm"), [("one", "RS256"), ("one", "PS512"), ("ec", "ES256")])
def test_a_token_that_was_signed_with_a_key_of_the_set_is_good(name: str, algorithm: str) -> None:
    outcome = validator()(signed(claims(scope="read"), name, algorithm))

    assert outcome == BearerToken("alice", NOW_MS + 60_000, frozenset({"read"}))


def test_a_token_of_another_key_is_not() -> None:
    forged = jwt.encode(claims(), rsa_key("two"), "RS256", headers={"kid": "one"})

    assert "signature" in refusal(validator()(forged))


def test_no_algorithm_is_no_signature() -> None:
    header = jwt.encode(claims(), "", "none").split(".")[0]
    body = signed(claims()).split(".")

    assert "algorithm" in refusal(validator()(f"{header}.{body[1]}.{body[2]}"))
    assert "three sections" in refusal(validator()(f"{header}.{body[1]}."))


def test_the_public_key_is_no_secret_to_sign_with() -> None:
    forged = jwt.encode(claims(), jwk("one")["n"], "HS256", headers={"kid": "one"})

    assert "algorithm" in refusal(validator()(forged))


def test_an_algorithm_of_another_kind_of_key_is_refused() -> None:
    forged = jwt.encode(claims(), ec_key(), "ES256", headers={"kid": "one"})

    assert "no key" in refusal(validator()(forged))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"exp": None}, "no exp"),
        ({"iat": None}, "no iat"),
        ({"exp": NOW_S - 30}, "expired"),
        ({"exp": "soon"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": 1e300}, "exp is no time"),
        ({"iat": NOW_S + 100}, "ended before it began"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"aud": "me"}, "set it to yours"),
        ({"sub": None}, "sub is no text"),
        ({"sub": " "}, "sub is no text"),
        ({"sub": 5}, "sub is no text"),
        ({"scope": ["a", "a"]}, "twice"),
        ({"scope": [5]}, "scope is no text"),
        ({"scope": ""}, "scope is no text"),
    ],
)
def test_claims_that_do_not_hold(said: dict[str, object], problem: str) -> None:
    token = jwt.api_jws.PyJWS().encode(json.dumps(claims(**said)).encode(), rsa_key("one"), "RS256", {"kid": "one"})

    assert problem in refusal(validator()(token))


@pytest.mark.parametrize("said", [{"exp": NOW_S - 29}, {"nbf": NOW_S + 30}, {"iat": NOW_S + 20}, {"scope": 5}])
def test_claims_that_hold_with_the_skew_of_clocks(said: dict[str, object]) -> None:
    assert isinstance(validator()(signed(claims(**said))), BearerToken)


@pytest.mark.parametrize(("audience", "is_good"), [("me", True), (["x", "me"], True), ("x", False), (None, False)])
def test_one_of_the_expected_audiences_must_be_there(audience: object, is_good: bool) -> None:
    outcome = validator(JwtRules(audiences=("us", "me")))(signed(claims(aud=audience)))

    assert isinstance(outcome, BearerToken) is is_good


def test_the_expected_issuer_must_be_the_one() -> None:
    validate = validator(JwtRules(issuer="https://idp"))

    assert isinstance(validate(signed(claims(iss="https://idp"))), BearerToken)
    assert "issuer" in refusal(validate(signed(claims(iss="https://other"))))
    assert "issuer" in refusal(validate(signed(claims())))


def test_names_of_claims_can_be_others() -> None:
    validate = validator(JwtRules(sub_claim="client_id", scope_claim="scp"))

    assert validate(signed(claims(client_id="svc", scp=["b", "a"]))) == BearerToken(
        "svc", NOW_MS + 60_000, frozenset({"a", "b"})
    )


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c.d", "a.b.c", "e30.e30.AAAA", "!.!.!"])
def test_what_is_no_token(token: str) -> None:
    refusal(validator()(token))


def test_headers_that_must_be_understood_are_not() -> None:
    assert "understood" in refusal(validator()(signed(claims(), crit=["b64"])))


# Keys.


def test_a_new_key_is_fetched_early_but_not_all_the_time() -> None:
    provider = Provider(jwk("one"))
    validate = validator(provider=provider)
    validate(signed(claims()))
    provider.content = key_set(jwk("one"), jwk("two"))

    assert isinstance(validate(signed(claims(), "two")), BearerToken)
    asked = provider.asked
    for _ in range(5):
        refusal(validate(signed(claims(), "three")))

    assert asked == 2
    assert provider.asked == 2
    provider.now_ms += jwks.EARLY_REFRESH_MS
    refusal(validate(signed(claims(exp=NOW_S + 900), "three")))
    assert provider.asked == 3


def test_the_set_is_fetched_again_after_an_hour_and_the_old_one_serves_meanwhile() -> None:
    provider = Provider(jwk("one"))
    validate = validator(provider=provider)
    validate(signed(claims()))
    provider.now_ms += 3_600_000
    provider.content = OSError("gone")

    assert isinstance(validate(signed(claims(exp=NOW_S + 9000))), BearerToken)

    assert provider.asked == 2


def test_a_provider_that_fails_is_asked_less_and_less_often() -> None:
    provider = Provider()
    provider.content = JwksError("no")
    validate = validator(provider=provider)
    asked = []
    for _ in range(6):
        refusal(validate(signed(claims())))
        asked.append(provider.asked)
        provider.now_ms += 150

    assert asked == [1, 2, 2, 3, 3, 3]
    provider.content = key_set(jwk("one"))
    provider.now_ms += 10_000
    assert isinstance(validate(signed(claims())), BearerToken)


def test_those_who_wait_for_one_fetch_are_all_told() -> None:
    class Later:
        def __init__(self) -> None:
            self.submitted: list[Callable[[], None]] = []

        def submit(self, work: Callable[[], Any], then: Any = None) -> None:
            self.submitted.append(lambda: then(work()))

    provider, later = Provider(jwk("one")), Later()
    keys = JwksKeys(
        provider.fetch,
        later,
        lambda: NOW_MS,
        refresh_ms=1,
        retry_backoff_ms=1,
        retry_backoff_max_ms=1,
    )
    first, second = keys.find("one", "RS256"), keys.find("nobody", "RS256")
    assert isinstance(first, Pending)
    assert isinstance(second, Pending)

    assert len(later.submitted) == 1
    later.submitted[0]()

    assert isinstance(first.value, VerificationKey)
    assert second.value is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"keys": {}}',
        b'{"keys": []}',
        key_set({"kty": "oct", "k": "AAAA", "kid": "one"}),
        key_set({"kty": "RSA", "n": "!", "e": "AQAB"}),
        key_set(jwk("one", use="enc")),
        key_set(jwk("weak")),
        b"[" * 100_000,
    ],
)
def test_a_set_without_a_key_is_none(content: bytes) -> None:
    with pytest.raises(JwksError):
        parse_key_set(content, "there")


def test_a_file_has_keys(tmp_path: Path) -> None:
    file = tmp_path / "my keys.json"
    file.write_bytes(key_set(jwk("one")))

    assert [each.kid for each in fetch_key_set(file.as_uri())] == ["one"]
    with pytest.raises(JwksError, match="cannot be read"):
        fetch_key_set(file.as_uri() + ".not")
    with file.open("ab") as end:
        end.write(b" " * jwks.KEY_SET_BYTES_MAX)
    with pytest.raises(JwksError, match="more than"):
        fetch_key_set(file.as_uri())


@pytest.fixture
def site() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/keys" else 302 if self.path == "/moved" else 404)
            self.send_header("Location", "/keys")
            self.end_headers()
            if self.path == "/keys":
                self.wfile.write(key_set(jwk("one")))

        def log_message(self, *_args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_site_has_keys_and_sends_nobody_elsewhere(site: str) -> None:
    assert [each.kid for each in fetch_key_set(f"{site}/keys")] == ["one"]
    for path in ("/moved", "/nothing"):
        with pytest.raises(JwksError, match="cannot be read"):
            fetch_key_set(site + path)
