"""What a user's password is checked against by SCRAM (RFC 5802), and how it is derived from the password.

    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "secret", salt, 4096)      # slow by intent: 4096 hashes
    credential = credential_of(ScramMechanism.SCRAM_SHA_256, salt, salted, 4096)      # three hashes

Neither the password nor the salted one can be told from a credential, but whoever has the credential can try passwords: it is
shown to nobody.
"""

from __future__ import annotations

from enum import IntEnum
from random import Random

import msgspec

# As in Kafka: fewer are guessed too quickly, and more would let anybody keep a broker busy with one attempt to log in.
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384

# Kafka makes 130 random bits of text. As many bits, without the text.
_SALT_BYTES = 17


class ScramMechanism(IntEnum):
    """The mechanisms, with the numbers that requests and records have for them."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """As SASL calls it: SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """As `hashlib` calls its hash."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @classmethod
    def named(cls, name: str) -> ScramMechanism | None:
        """The mechanism that SASL calls so, None for any other name."""
        return _BY_NAME.get(name)


_BY_NAME = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}


class ScramCredential(msgspec.Struct, frozen=True, gc=False):
    """What a user's password is checked against."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential([hidden])"


def new_salt(random: Random) -> bytes:
    """A salt for one credential. Two users with the same password have different credentials."""
    return random.randbytes(_SALT_BYTES)


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's Hi(). Takes milliseconds, so it is done as slow work by whoever serves others meanwhile."""
    import hashlib  # noqa: PLC0415 - most nodes never derive a key, and would wait for it at their start

    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    import hashlib  # noqa: PLC0415 - as above
    import hmac  # noqa: PLC0415 - as above

    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", mechanism.digest), iterations)


def derive_credential(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a password. Slow work, as `salted_password` is."""
    return credential_of(mechanism, salt, salted_password(mechanism, password, salt, iterations), iterations)
