"""Assertions for token endpoints: what is in them, that their signatures are good, and what is refused with Kafka's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tidelog.security.client_assertion import AssertionConfigError, AssertionSettings, ClientAssertion
from tidelog.security.token_endpoint import TokenEndpointError
from tidelog.security.token_request import AssertedClient, JwtBearer

NOW_MS = 1_700_000_000_999
RSA, P256, P384 = (
    rsa.generate_private_key(65537, 2048),
    ec.generate_private_key(ec.SECP256R1()),
    ec.generate_private_key(ec.SECP384R1()),
)


def key_file(directory: Path, key: Any, passphrase: str | None = None) -> str:
    encryption: Any = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase.encode())
    path = directory / "key.pem"
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return str(path)


def assertion(**settings: Any) -> ClientAssertion:
    return ClientAssertion.of(AssertionSettings(**settings), lambda: NOW_MS)


def verified(text: str, key: Any, algorithm: str) -> dict[str, Any]:
    """The claims, once the signature is found good."""
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
    claims: dict[str, Any] = jwt.decode(text, key.public_key(), algorithms=[algorithm], options=options)
    return claims


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (P256, "ES256")])
def test_what_is_signed_has_the_claims_of_the_settings(tmp_path: Path, key: Any, algorithm: str) -> None:
    text = assertion(
        private_key_file=key_file(tmp_path, key),
        algorithm=algorithm,
        claim_aud="https://id.example",
        claim_iss=" orders ",
        claim_sub="orders",
    )()

    assert verified(text, key, algorithm) == {
        "aud": "https://id.example",
        "iss": "orders",
        "sub": "orders",
        "iat": 1_700_000_000,
        "exp": 1_700_000_300,
        "nbf": 1_699_999_940,
    }
    assert jwt.get_unverified_header(text) == {"alg": algorithm, "typ": "JWT"}


def test_a_template_goes_before_the_settings_and_the_moment_before_both(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text(
        json.dumps({"header": {"kid": "7", "alg": "none"}, "payload": {"iss": "t", "roles": ["a"], "exp": 1}})
    )
    made = assertion(
        private_key_file=key_file(tmp_path, RSA),
        template_file=str(template),
        claim_iss="orders",
        claim_sub="orders",
        claim_jti_include=True,
        claim_exp_seconds=10,
        claim_nbf_seconds=0,
    )

    claims, others = verified(made(), RSA, "RS256"), verified(made(), RSA, "RS256")
    assert claims.pop("jti") != others.pop("jti")
    assert claims == others
    assert claims == {
        "iss": "t",
        "sub": "orders",
        "roles": ["a"],
        "iat": 1_700_000_000,
        "exp": 1_700_000_010,
        "nbf": 1_700_000_000,
    }
    assert jwt.get_unverified_header(made()) == {"kid": "7", "alg": "RS256", "typ": "JWT"}


def test_a_key_may_be_encrypted_and_may_be_replaced(tmp_path: Path) -> None:
    made = assertion(private_key_file=key_file(tmp_path, RSA, "hunter2"), private_key_passphrase=" hunter2 ")
    verified(made(), RSA, "RS256")
    other = rsa.generate_private_key(65537, 2048)
    key_file(tmp_path, other, "hunter2")

    verified(made(), other, "RS256")
    assert "hunter2" not in repr(made)


def test_a_whole_assertion_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    first, second = (jwt.encode({"n": each}, RSA, "RS256") for each in (1, 2))
    file.write_text(f" {first}\n")
    made = assertion(file=str(file), private_key_file="/not/looked/at")

    assert made() == first
    file.write_text(second)
    assert made() == second


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "The OAuth configuration option sasl.oauthbearer.assertion.private.key.file value is required"),
        (
            {"private_key_file": "HERE/none"},
            (
                "The OAuth configuration option sasl.oauthbearer.assertion.private.key.file contains a file (HERE/none) that "
                "doesn't exist"
            ),
        ),
        (
            {"private_key_file": "HERE"},
            (
                "The OAuth configuration option sasl.oauthbearer.assertion.private.key.file references a directory (HERE), not a"
                " file"
            ),
        ),
        (
            {"file": "HERE/none"},
            "The OAuth configuration option sasl.oauthbearer.assertion.file contains a file (HERE/none) that doesn't exist",
        ),
        (
            {"private_key_file": "HERE/key.pem", "template_file": "HERE/none"},
            (
                "The OAuth configuration option sasl.oauthbearer.assertion.template.file contains a file (HERE/none) that "
                "doesn't exist"
            ),
        ),
        (
            {"private_key_file": "HERE/key.pem", "private_key_passphrase": " "},
            "The OAuth configuration option sasl.oauthbearer.assertion.private.key.passphrase value is required",
        ),
    ],
)
def test_what_cannot_be_is_told_with_kafkas_words(tmp_path: Path, settings: dict[str, str], told: str) -> None:
    key_file(tmp_path, RSA)
    here = {name: text.replace("HERE", str(tmp_path)) for name, text in settings.items()}

    with pytest.raises(AssertionConfigError) as caught:
        assertion(**here)

    assert str(caught.value) == told.replace("HERE", str(tmp_path))


@pytest.mark.parametrize(
    ("content", "settings", "told"),
    [
        (P256, {}, "generating the OAuth assertion private key from KEY: RS256 takes an RSA key"),
        (
            RSA,
            {"algorithm": "ES256"},
            "generating the OAuth assertion private key from KEY: ES256 takes a key of the curve P-256",
        ),
        (P384, {"algorithm": "ES256"}, "ES256 takes a key of the curve P-256"),
        (RSA, {"private_key_passphrase": "wrong"}, "the key is not encrypted"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", {}, "private key from KEY"),
        (b"\xff", {}, "the assertion's file KEY cannot be read: it is not text"),
        (b"x" * 20_000_000, {}, "the assertion's file KEY has more than"),
        (b"[]", {"template_file": "KEY"}, "An error occurred parsing the OAuth assertion template file from KEY"),
        (
            b'{"payload": 3}',
            {"template_file": "KEY"},
            "An error occurred parsing the OAuth assertion template file from KEY",
        ),
        (
            b"[" * 100_000,
            {"template_file": "KEY"},
            "An error occurred parsing the OAuth assertion template file from KEY",
        ),
        (
            b"a.b",
            {"file": "KEY"},
            "Malformed JWT provided; expected three sections (header, payload, and signature): KEY",
        ),
        (b"e30.W10.x", {"file": "KEY"}, "Malformed JWT provided; header and payload are JSON objects"),
        (b"e30.\xc3\xbc.x", {"file": "KEY"}, "Malformed JWT provided; header and payload are JSON in base64"),
    ],
)
def test_files_that_are_no_good_are_one_sentence(
    tmp_path: Path, content: Any, settings: dict[str, str], told: str
) -> None:
    path = str(tmp_path / "key.pem")
    if isinstance(content, bytes):
        Path(path).write_bytes(content)
    else:
        key_file(tmp_path, content)
    made = assertion(
        **{"private_key_file": path} | {name: text.replace("KEY", path) for name, text in settings.items()}
    )

    with pytest.raises(TokenEndpointError) as caught:
        made()

    assert told.replace("KEY", path) in str(caught.value)
    # Whoever replaces the file is let in by it.
    assert not caught.value.is_final


def test_the_requests_are_kafkas() -> None:
    def text() -> str:
        return "a.b-_.c"

    assert AssertedClient(None, None, text).body() == (
        b"client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=a.b-_.c"
        b"&grant_type=client_credentials"
    )
    assert AssertedClient("o r~*", " read write ", text).body().endswith(b"&client_id=o+r%7E*&scope=read+write")
    assert JwtBearer(" ", text).body() == (
        b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=a.b-_.c"
    )
    assert JwtBearer("kafka", text).body().endswith(b"c&scope=kafka")
    for asked in (AssertedClient("o", None, text), JwtBearer(None, text)):
        assert asked.headers() == {
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
