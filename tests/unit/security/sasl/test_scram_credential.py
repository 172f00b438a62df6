"""What passwords are derived to, checked against the examples of RFC 5802's successors and against Kafka's own shape."""

from __future__ import annotations

import base64
from random import Random

import pytest

from tidelog.security.sasl.scram_credential import (
    ScramMechanism,
    credential_of,
    derive_credential,
    new_salt,
    salted_password,
)


def test_the_example_of_rfc_7677_gives_its_server_signature_key() -> None:
    import hashlib
    import hmac

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    bare = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = f"{bare},{first},{final}".encode()

    credential = derive_credential(ScramMechanism.SCRAM_SHA_256, "pencil", salt, 4096)

    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(credential.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == credential.stored_key
    server_signature = base64.b64encode(hmac.digest(credential.server_key, message, "sha256"))
    assert server_signature == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    ("mechanism", "size"), [(ScramMechanism.SCRAM_SHA_256, 32), (ScramMechanism.SCRAM_SHA_512, 64)]
)
def test_a_salted_password_gives_the_credential_of_the_password(mechanism: ScramMechanism, size: int) -> None:
    salt = new_salt(Random(1))

    salted = salted_password(mechanism, "secret", salt, 5000)
    credential = credential_of(mechanism, salt, salted, 5000)

    assert credential == derive_credential(mechanism, "secret", salt, 5000)
    assert (len(salted), len(credential.stored_key), len(credential.server_key)) == (size, size, size)
    assert credential.iterations == 5000


def test_two_salts_differ() -> None:
    random = Random(1)

    assert new_salt(random) != new_salt(random)


def test_a_credential_is_not_shown() -> None:
    credential = derive_credential(ScramMechanism.SCRAM_SHA_256, "secret", b"salt", 4096)

    assert repr(credential) == str(credential) == "ScramCredential([hidden])"


def test_mechanisms_are_known_by_their_sasl_names() -> None:
    assert [each.mechanism_name for each in ScramMechanism] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert ScramMechanism.named("SCRAM-SHA-512") is ScramMechanism.SCRAM_SHA_512
    assert ScramMechanism.named("PLAIN") is None
