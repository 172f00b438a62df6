"""The users that a new cluster begins with, as `tidelog format --add-scram` is told them. The words are `kafka-storage`'s:

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]

They go to `bootstrap.checkpoint`, from where the first leader writes them to the metadata log: so brokers can log in to each
other before anybody could have given them a password. What is wrong is said without the value, which may be a password.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from random import Random

from tidelog.controller.metadata_version import METADATA_VERSIONS
from tidelog.model.config import ConfigError
from tidelog.security.sasl.scram_credential import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_of,
    new_salt,
    salted_password,
)
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_security import UserScramCredentialRecord

_KNOWN = frozenset({"name", "password", "salt", "saltedpassword", "iterations"})


def first_users(arguments: Sequence[str], metadata_level: int, random: Random) -> tuple[FramedRecord, ...]:
    """The records of the users. ConfigError, in Kafka's words, for what is none."""
    if not arguments:
        return ()
    if not METADATA_VERSIONS[metadata_level].has_scram:
        oldest = next(version for version in METADATA_VERSIONS.values() if version.has_scram)
        raise ConfigError(f"SCRAM is only supported in metadata.version {oldest.name} or later.")
    return tuple(FramedRecord(_record(argument.strip(), random), 0) for argument in arguments)


def _record(argument: str, random: Random) -> UserScramCredentialRecord:
    name, equals, listed = argument.partition("=")
    if not equals:
        raise ConfigError(
            "Failed to find equals sign in SCRAM argument: expected SCRAM-SHA-256=[name=...,password=...]"
        )
    mechanism = ScramMechanism.named(name)
    if mechanism is None:
        raise ConfigError(f"The add-scram mechanism {name} is not supported.")
    if not listed.startswith("["):
        raise ConfigError("Expected configuration string to start with [")
    if not listed.endswith("]"):
        raise ConfigError("Expected configuration string to end with ]")
    given = _components(listed[1:-1])
    user = given.get("name")
    if not user:
        raise ConfigError("You must supply 'name' to add-scram")
    iterations = _iterations(given.get("iterations"), mechanism)
    salt, salted = _salted(given, mechanism, iterations, random)
    unknown = sorted(given.keys() - _KNOWN)
    if unknown:
        raise ConfigError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    credential = credential_of(mechanism, salt, salted, iterations)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=iterations,
    )


def _components(listed: str) -> dict[str, str]:
    given = {}
    for component in listed.rstrip(",").split(","):
        key, equals, value = component.partition("=")
        if not equals:
            raise ConfigError("No equals sign found in a SCRAM component: a password cannot have a comma here")
        quoted = re.fullmatch('"(.*)"', value, re.DOTALL)
        given[key] = quoted[1] if quoted else value
    return given


def _iterations(text: str | None, mechanism: ScramMechanism) -> int:
    if text is None:
        return ITERATIONS_MIN
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", text):
        raise ConfigError(f"Failed to parse iterations count: {text}")
    iterations = int(text)
    if iterations < ITERATIONS_MIN:
        raise ConfigError(f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {mechanism.name}")
    if iterations > ITERATIONS_MAX:
        raise ConfigError(f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {mechanism.name}")
    return iterations


def _salted(given: dict[str, str], mechanism: ScramMechanism, iterations: int, random: Random) -> tuple[bytes, bytes]:
    """The salt and the salted password, whichever way they are given."""
    salt = None if "salt" not in given else _bytes(given["salt"], "salt")
    password, salted = given.get("password"), given.get("saltedpassword")
    if password is None:
        if salted is None:
            raise ConfigError("You must supply one of 'password' or 'saltedpassword' to add-scram")
        if salt is None:
            raise ConfigError("You must supply 'salt' with 'saltedpassword' to add-scram")
        if not salted:
            raise ConfigError("The 'saltedpassword' of add-scram is empty")
        return salt, _bytes(salted, "saltedPassword")
    if not password:
        raise ConfigError("The 'password' of add-scram is empty")
    salt = new_salt(random) if salt is None else salt
    return salt, salted_password(mechanism, password, salt, iterations)


def _bytes(text: str, what: str) -> bytes:
    # As Java has it: padding may be left out.
    padded = text if "=" in text else text + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"Failed to decode given {what}: it is not base64") from None
