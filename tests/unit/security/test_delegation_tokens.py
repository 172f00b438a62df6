"""What is secret about a token, and what logins with it are checked against."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import pytest

from tests.support.log_builder import ManualClock
from tidelog.model.principal import Principal
from tidelog.model.slow_work import InlineSlowWork
from tidelog.security import delegation_tokens
from tidelog.security.delegation_tokens import TokenCredentials, TokenSecret, token_password
from tidelog.security.sasl.scram_credential import ScramMechanism, derive_credential

SHA_256 = "SCRAM-SHA-256"


class Token(NamedTuple):
    owner: str = "User:alice"
    max_timestamp_ms: int = 10**15
    expiration_timestamp_ms: int = 10**15


class World:
    """The tokens of a cluster, which a test changes, and their credentials on one node."""

    def __init__(self, secret: str | None = "secret") -> None:
        self.tokens: Mapping[str, Token] = {"one": Token(), "two": Token("User:bob")}
        self.clock = ManualClock()
        self.credentials = TokenCredentials(
            None if secret is None else TokenSecret(secret), lambda: self.tokens, self.clock, Random(1)
        )


def test_the_hmac_is_of_the_id_under_the_secret() -> None:
    expected = hmac.new(b"s\xc3\xa9cret", b"token-1", hashlib.sha512).digest()

    assert TokenSecret("sécret").hmac_of("token-1") == expected
    assert token_password(expected) == base64.b64encode(expected).decode()


def test_a_token_is_found_by_its_hmac() -> None:
    secret = TokenSecret("secret")
    tokens = dict.fromkeys(("one", "two"))

    assert secret.token_of(secret.hmac_of("two"), tokens) == "two"
    assert secret.token_of(secret.hmac_of("three"), tokens) is None
    assert secret.token_of(b"", tokens) is None


def test_hmacs_beyond_the_limit_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "HMACS_MAX", 2)
    secret = TokenSecret("secret")

    first = secret.hmac_of("one")
    for token_id in ("two", "three"):
        secret.hmac_of(token_id)

    assert secret.hmac_of("one") == first


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_a_login_is_checked_against_the_hmac_text(mechanism: ScramMechanism) -> None:
    world = World()

    found = world.credentials.credential(mechanism.mechanism_name, "one")

    assert found is not None
    credential, principal, expiry_ms = found
    password = token_password(TokenSecret("secret").hmac_of("one"))
    assert credential == derive_credential(mechanism, password, credential.salt, 4096)
    assert principal == Principal("User", "alice", token_authenticated=True)
    assert expiry_ms == 10**15


def test_a_credential_is_derived_once() -> None:
    world = World()

    first = world.credentials.credential(SHA_256, "one")

    assert world.credentials.credential(SHA_256, "one") == first
    assert len(world.credentials) == 1


def test_a_renewed_token_keeps_its_credential_and_tells_its_new_end() -> None:
    world = World()
    first = world.credentials.credential(SHA_256, "one")

    world.tokens = {**world.tokens, "one": Token(expiration_timestamp_ms=10**14)}
    renewed = world.credentials.credential(SHA_256, "one")

    assert first is not None
    assert renewed is not None
    assert (renewed[0], renewed[2]) == (first[0], 10**14)


def test_a_removed_token_leaves_with_its_credentials() -> None:
    world = World()
    for token_id in world.tokens:
        world.credentials.credential(SHA_256, token_id)

    world.tokens = {"two": Token("User:bob")}

    assert world.credentials.credential(SHA_256, "one") is None
    assert len(world.credentials) == 1


@pytest.mark.parametrize("token", [Token(max_timestamp_ms=-1), Token(expiration_timestamp_ms=-1)])
def test_nobody_logs_in_with_an_expired_token(token: Token) -> None:
    world = World()
    world.tokens = {"one": token}

    assert world.credentials.credential(SHA_256, "one") is None


def test_there_are_no_credentials_without_a_secret_or_for_another_mechanism() -> None:
    assert World(secret=None).credentials.credential(SHA_256, "one") is None
    assert World().credentials.credential("PLAIN", "one") is None
    assert World().credentials.credential(SHA_256, "three") is None


def test_a_credential_can_be_derived_beside_the_loop() -> None:
    world = World()

    world.credentials.prepare(SHA_256, "one", InlineSlowWork()).then(lambda _: None)
    absent = world.credentials.prepare(SHA_256, "three", InlineSlowWork())

    assert len(world.credentials) == 1
    assert absent.is_complete
    assert world.credentials.credential(SHA_256, "one") is not None


def test_credentials_beyond_the_limit_are_derived_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "CREDENTIALS_MAX", 1)
    world = World()

    first = world.credentials.credential(SHA_256, "one")
    world.credentials.credential(SHA_256, "two")
    again = world.credentials.credential(SHA_256, "one")

    assert len(world.credentials) == 1
    assert first is not None
    assert again is not None
    assert first[0].salt != again[0].salt


def test_secrets_are_not_shown() -> None:
    world = World("hush")
    world.credentials.credential(SHA_256, "one")

    assert "hush" not in repr(TokenSecret("hush")) + repr(world.credentials)
