"""Whatever a client says before it is known, it is let in, refused or closed: nothing else is ever raised."""

from __future__ import annotations

from random import Random

from hypothesis import given, strategies as st

from tidelog.model.pending import Pending
from tidelog.security.jaas import JaasError, parse_jaas
from tidelog.security.sasl.exchange import SaslError, ServerExchange
from tidelog.security.sasl.jwt_validator import JwtRules, jwt_validator
from tidelog.security.sasl.oauthbearer import ClientFirst, OAuthBearerServer
from tidelog.security.sasl.plain import PlainServer
from tidelog.security.sasl.scram import ScramServer
from tidelog.security.sasl.scram_credential import ScramMechanism, derive_credential
from tidelog.security.sasl.unsecured_jws import UnsecuredOptions, unsecured_token, unsecured_validator

MECHANISM = ScramMechanism.SCRAM_SHA_256
USERS = {"alice": derive_credential(MECHANISM, "a", b"salt", 4096)}

# Pieces of real messages, so that more than the first check is reached.
PIECES = st.sampled_from(
    [
        b"n,,",
        b"n=alice",
        b",r=",
        b"abc",
        b",",
        b"=2C",
        b"c=biws",
        b",p=",
        b"AAAA",
        b"\x01",
        b"auth=Bearer ",
        b"\0",
        b"a=",
    ]
)
SAID = st.one_of(st.binary(max_size=64), st.lists(PIECES, max_size=10).map(b"".join))
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
CLAIMS = st.dictionaries(st.sampled_from(["sub", "exp", "iat", "nbf", "aud", "scope", "iss"]), JSON)


def talk(exchange: ServerExchange, tokens: list[bytes]) -> None:
    for token in tokens:
        try:
            outcome = exchange.evaluate(token)
        except SaslError:
            return
        assert isinstance(outcome, (bytes, Pending))
        if exchange.is_complete:
            assert exchange.principal.name
            return


@given(st.lists(SAID, max_size=3))
def test_plain_takes_anything(tokens: list[bytes]) -> None:
    talk(PlainServer(lambda _user, _password: False), tokens)


@given(st.lists(SAID, max_size=3))
def test_scram_takes_anything_and_lets_nobody_in(tokens: list[bytes]) -> None:
    exchange = ScramServer(MECHANISM, USERS.get, lambda _token_id: None, Random(1))
    talk(exchange, [b"n,,n=alice,r=abc", *tokens])
    talk(ScramServer(MECHANISM, USERS.get, lambda _token_id: None, Random(1)), tokens)

    assert not exchange.is_complete


@given(st.lists(SAID, max_size=3))
def test_oauthbearer_takes_anything(tokens: list[bytes]) -> None:
    talk(OAuthBearerServer(unsecured_validator(UnsecuredOptions(), lambda: 0)), tokens)


@given(CLAIMS, st.text(alphabet="abc.=-_", max_size=8))
def test_any_claims_are_good_or_not(claims: dict[str, object], more: str) -> None:
    for token in (unsecured_token(claims), unsecured_token(claims) + more, more):
        said = ClientFirst(token).to_bytes()
        talk(OAuthBearerServer(unsecured_validator(UnsecuredOptions(), lambda: 0)), [said])
        talk(OAuthBearerServer(jwt_validator(JwtRules(), lambda _kid, _algorithm: None, lambda: 0)), [said])


@given(st.text(alphabet="ab =;'\"\\/*.-5\n", max_size=40))
def test_any_jaas_text_is_a_login_or_not(text: str) -> None:
    try:
        assert parse_jaas(text)
    except JaasError:
        return
