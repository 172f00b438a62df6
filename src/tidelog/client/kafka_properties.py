"""Options under Kafka's own names and as text, as a `client.properties` has them: `security.protocol=SASL_SSL`.

    read = read_properties(ProducerOptions, parse_properties(content))
    Producer(bootstrap_servers=..., **read.settings)

Every key of Kafka's that a client has is its option with underscores. Classes of Java cannot be loaded: where a key names one
that does what the other keys say anyway, it is left out; any other is refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.client.errors import ConfigError
from tidelog.client.option_kinds import declared
from tidelog.client.security_options import SecurityOptions

# Numbers that also have names.
_WORDS = frozenset({"acks"})
_DECIMAL = re.compile(r"\d{1,15}\.\d{1,15}", re.ASCII)

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
# What the Java clients are told to load for what clients here do by themselves, once there is an endpoint.
_UNDERSTOOD_CLASSES = {
    "sasl.login.callback.handler.class": frozenset(
        {
            f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
            f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
            f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
        }
    ),
    "sasl.oauthbearer.jwt.validator.class": frozenset(
        f"{_OAUTH}.{each}" for each in ("DefaultJwtValidator", "ClientJwtValidator")
    ),
    "sasl.login.class": frozenset(),
    "sasl.client.callback.handler.class": frozenset(),
    "ssl.engine.factory.class": frozenset(),
    "security.providers": frozenset(),
}

# Security alone: other options have names of our own among them.
_BY_LENGTH = sorted((each.name for each in dataclasses.fields(SecurityOptions)), key=len, reverse=True)
_NAMES = re.compile("|".join(_BY_LENGTH), re.ASCII)
_KAFKA_NAMES = re.compile("|".join(re.escape(each.replace("_", ".")) for each in _BY_LENGTH), re.ASCII)


class Properties(NamedTuple):
    """What became of some properties."""

    settings: dict[str, Any]
    """Keyword arguments of a client."""
    unknown: tuple[str, ...]
    """Keys that the client does not have."""


def in_python_names(sentence: str) -> str:
    """The other way round."""
    return _KAFKA_NAMES.sub(lambda match: match[0].replace(".", "_"), sentence)


def in_kafka_names(sentence: str) -> str:
    """A sentence about options as a person who writes them in Kafka's way knows them."""
    return _NAMES.sub(lambda match: match[0].replace("_", "."), sentence)


def read_properties(kind: type[SecurityOptions], given: Mapping[str, str]) -> Properties:
    """Keyword arguments for a client of this kind. ConfigError for the first value that cannot be read."""
    fields = {each.name: each for each in dataclasses.fields(kind)}
    settings: dict[str, Any] = {}
    unknown = []
    for key, text in given.items():
        if is_understood_class(key, text):
            continue
        field = fields.get(key.replace(".", "_"))
        if field is None:
            unknown.append(key)
        else:
            settings[field.name] = read_value(key, text, field)
    return Properties(settings, tuple(unknown))


def is_understood_class(key: str, text: str) -> bool:
    """Whether a key names a class of Java whose work is done here without it. ConfigError for another class."""
    known = _UNDERSTOOD_CLASSES.get(key)
    if known is None:
        return False
    if text.strip() and text.strip() not in known:
        instead = ": a Python program can give sasl_oauthbearer_token_callback" if "login.callback" in key else ""
        raise ConfigError(f"{key} names a class of Java, which cannot be loaded here{instead}")
    return True


def read_value(key: str, text: str, field: dataclasses.Field[Any]) -> object:
    """The text as the type that the client's option has, by its declaration where the default is none."""
    if declared(field).is_secret:
        # Blanks may belong to a password.
        return text
    text = text.strip()
    default = field.default
    if isinstance(default, bool) or field.type == "bool | None":
        return _flag(key, text)
    if field.name in _WORDS:
        return text.lower()
    if isinstance(default, int) or field.type == "int | None":
        # linger_ms and its like may have a fraction, whatever their default is.
        return float(text) if field.type == "float" and _DECIMAL.fullmatch(text) else _whole(key, text)
    if isinstance(default, float):
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"{key} is {text!r}; it is a number") from None
    return text


def _whole(key: str, text: str) -> int:
    bare = text.removeprefix("-")
    if not (bare.isascii() and bare.isdigit() and len(bare) <= 19 and -(2**63) <= int(text) < 2**63):
        raise ConfigError(f"{key} is {text!r}; it is a whole number")
    return int(text)


def _flag(key: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ConfigError(f"{key} is {text!r}; it is true or false")
    return text.lower() == "true"
