"""Tokens without a signature, which anybody can write: for tests. What Kafka takes where no validator is configured.

`alg` is `none`, the third part is empty, `exp` is there. The options of the login module say which claims count.
"""

from __future__ import annotations

import json
import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.model.config import INT_MAX, LONG_MAX
from tidelog.security.sasl.exchange import UnexpectedTokenError
from tidelog.security.sasl.oauthbearer import BearerToken, TokenRefused, Validated

_PREFIX = "unsecuredValidator"
_LOGIN_PREFIX = "unsecuredLogin"
_SCOPE_ITEM = re.compile(r"[\x23-\x5b\x5d-\x7e\x21]+")
_PARTS = 3


class UnsecuredOptions(NamedTuple):
    """What the login module's options say of tokens."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> UnsecuredOptions:
        """ValueError says in one sentence which option is wrong."""

        def option(name: str) -> str:
            return options.get(_PREFIX + name, "").strip()

        scope = tuple(option("RequiredScope").split())
        for each in scope:
            if not _SCOPE_ITEM.fullmatch(each):
                raise ValueError(f"Invalid scope value: {each}")
        skew = option("AllowableClockSkewMs") or "0"
        if not re.fullmatch(r"\+?[0-9]{1,10}", skew) or int(skew) > INT_MAX:
            raise ValueError(f"{_PREFIX}AllowableClockSkewMs is not a number of milliseconds: {skew}")
        return cls(option("PrincipalClaimName") or "sub", option("ScopeClaimName") or "scope", scope, int(skew))


class _IllegalTokenError(Exception):
    pass


def unsecured_validator(options: UnsecuredOptions, now_ms: Callable[[], int]) -> Callable[[str], Validated]:
    """Takes every token that is well-formed and not expired."""

    def validate(token: str) -> Validated:
        try:
            return _validated(token, options, now_ms())
        except _IllegalTokenError as error:
            return TokenRefused(reason=str(error))

    return validate


def unsecured_token(claims: Mapping[str, object]) -> str:
    """A token that says whatever it is told to."""
    parts = ({"alg": "none"}, claims)
    return ".".join([_base64(json.dumps(each).encode()) for each in parts]) + "."


def unsecured_login(options: Mapping[str, str], now_ms: int) -> str:
    """The token that a login module's options describe, as Kafka's `OAuthBearerUnsecuredLoginCallbackHandler` writes it.

    ValueError says in one sentence what is wrong with them.
    """
    claims: dict[str, object] = {}
    for key, value in options.items():
        kind, _, name = key.removeprefix(_LOGIN_PREFIX).partition("Claim_")
        if not key.startswith(_LOGIN_PREFIX) or not name:
            continue
        if name in ("iat", "exp"):
            raise ValueError(f"{key} names a claim that is set by itself")
        if kind == "String":
            claims[name] = value
        elif kind == "Number":
            claims[name] = float(value)
        elif kind == "List" and value:
            # The first character separates the others.
            claims[name] = value[1:].split(value[0])
    principal = options.get(f"{_LOGIN_PREFIX}PrincipalClaimName", "").strip() or "sub"
    if not claims.get(principal):
        raise ValueError(f"{_LOGIN_PREFIX}StringClaim_{principal} is not set: it is the name of the user")
    lifetime_s = float(options.get(f"{_LOGIN_PREFIX}LifetimeSeconds", "").strip() or 3600)
    return unsecured_token({**claims, "iat": now_ms / 1000, "exp": now_ms / 1000 + lifetime_s})


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _validated(token: str, options: UnsecuredOptions, now_ms: int) -> Validated:
    header, claims = _parts(token)
    if "alg" not in header:
        raise UnexpectedTokenError("JWS header must have an Algorithm value")
    if str(header["alg"]) != "none":
        raise _IllegalTokenError("Unsecured JWS must have 'none' for an algorithm")
    if not token.endswith("."):
        raise _IllegalTokenError("Unsecured JWS must not contain a digital signature")
    scope = _scope(claims.get(options.scope_claim))
    expires_s = _number(claims, "exp")
    if expires_s is None:
        raise _IllegalTokenError("No expiration time in JWT")
    name = claims.get(options.principal_claim)
    if not isinstance(name, str) or not name.strip():
        raise _IllegalTokenError(f"No principal name in JWT claim: {options.principal_claim}")
    issued_s = _number(claims, "iat")
    if issued_s is not None and 1000 * issued_s > now_ms + options.clock_skew_ms:
        raise _IllegalTokenError("The Issued At value was after the indicated time plus allowable clock skew")
    if now_ms - options.clock_skew_ms >= 1000 * expires_s:
        raise _IllegalTokenError("The indicated time minus allowable clock skew was on or after the Expiration Time")
    if issued_s is not None and expires_s <= issued_s:
        raise _IllegalTokenError("The Expiration Time was not after the Issued At time")
    missing = [each for each in options.required_scope if each not in scope]
    if missing:
        return TokenRefused(
            "insufficient_scope", f"[{', '.join(options.required_scope)}]", f"scope {missing[0]} is missing"
        )
    return BearerToken(name, _ms(expires_s), scope)


def _parts(token: str) -> tuple[dict[str, object], dict[str, object]]:
    if ".." in token:
        raise _IllegalTokenError("Malformed compact serialization contains '..'")
    splits = token.removesuffix(".").split(".")
    if token.endswith("."):
        splits.append("")
    if len(splits) != _PARTS:
        raise _IllegalTokenError(
            "Unsecured JWS compact serializations must have 3 dot-separated Base64URL-encoded values"
        )
    return json_object(splits[0]), json_object(splits[1])


def json_object(split: str) -> dict[str, object]:
    """A part of a token, its values as Kafka sees them: lists of texts, numbers, and everything else as a text."""
    if not re.fullmatch(r"[A-Za-z0-9_-]*={0,2}", split):
        raise _IllegalTokenError("malformed Base64 URL encoded value")
    bare = split.rstrip("=")
    try:
        content = urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except Base64Error:
        raise _IllegalTokenError("malformed Base64 URL encoded value") from None
    if not content:
        return {}
    try:
        held = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _IllegalTokenError("malformed JSON") from None
    return {key: _claim(value) for key, value in held.items()} if isinstance(held, dict) else {}


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _claim(value: object) -> object:
    if isinstance(value, list):
        return [_text(each) for each in value]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else _text(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if isinstance(value, (dict, list)) else json.dumps(value)


def _number(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, (int, float)):
        raise _IllegalTokenError(f"The '{name}' claim was not of type Number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _ms(seconds: float) -> int:
    value = seconds * 1000
    return (
        LONG_MAX if value >= LONG_MAX else max(-LONG_MAX, math.floor(value + 0.5)) if value > -LONG_MAX else -LONG_MAX
    )


def _scope(value: object) -> frozenset[str]:
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return frozenset({value.strip()} - {""})
    if not isinstance(value, list):
        raise _IllegalTokenError("The scope claim was not of type List")
    return frozenset(each.strip() for each in value if each.strip())
