"""A token for OAUTHBEARER as its holder sees it: the text to send, and when it ends.

    token = read_jwt(text)                            # three parts, and `exp`: as Kafka's ClientJwtValidator
    token = unsecured_token(jaas_options, now_ms)     # for tests: a token that nobody has signed

The holder does not check a signature: that is for the broker. Errors are AccessTokenError, and never say what the token is.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# RFC 6750, section 2.1: what may follow `Bearer`, and so what OAUTHBEARER's first message may hold.
_B64TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*", re.ASCII)
# A broker takes 524,288 bytes before a client is known (`sasl.server.max.receive.size`).
TOKEN_CHARS_MAX = 500_000

_UNSECURED = "unsecuredLogin"
_UNSECURED_LIFETIME_S = "3600"
_RESERVED_CLAIMS = frozenset({"iat", "exp"})
_EXTENSION_KEY = re.compile(r"[A-Za-z]+", re.ASCII)
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+", re.ASCII)


class AccessTokenError(Exception):
    """A token that cannot be used, in one sentence."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """`expires_ms` and `starts_ms` are milliseconds since 1970; None where the token does not tell."""

    text: str = field(repr=False)
    expires_ms: int | None = None
    starts_ms: int | None = None


def opaque_token(text: str, expires_ms: int | None = None) -> AccessToken:
    """A token that somebody else vouches for. Where its end is not given and it is a JWT, signed or not, it has its `exp`."""
    _check_text(text)
    parts = text.split(".")
    if expires_ms is None and len(parts) == 3:
        try:
            claims = _claims(parts[1])
            return AccessToken(text, _moment_ms(claims, "exp"), _moment_ms(claims, "iat"))
        except AccessTokenError:
            pass
    return AccessToken(text, expires_ms)


def read_jwt(text: str) -> AccessToken:
    """A JWT of an endpoint or a file: `exp` and a subject are required, as Kafka requires them."""
    text = text.strip()
    _check_text(text)
    parts = text.split(".")
    if len(parts) != 3 or not all(parts):
        raise AccessTokenError("the token is no JWT: it has not three sections (header, payload and signature)")
    claims = _claims(parts[1])
    expires_ms = _moment_ms(claims, "exp")
    if expires_ms is None:
        raise AccessTokenError("the token has no time at which it ends (exp)")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject.strip():
        raise AccessTokenError("the token does not say whose it is (sub)")
    return AccessToken(text, expires_ms, _moment_ms(claims, "iat"))


def unsecured_token(options: Mapping[str, str], now_ms: int) -> AccessToken:
    """The token that Kafka's OAuthBearerUnsecuredLoginCallbackHandler makes of a JAAS configuration's options. A broker takes it
    only if it is told to take anything: it is for tests."""
    lifetime = options.get(f"{_UNSECURED}LifetimeSeconds", _UNSECURED_LIFETIME_S)
    if not re.fullmatch(r"-?\d{1,18}", lifetime, re.ASCII):
        raise AccessTokenError(f"{_UNSECURED}LifetimeSeconds is {lifetime!r}; it is a whole number")
    claims: dict[str, object] = {"exp": now_ms / 1000 + int(lifetime), "iat": now_ms / 1000}
    for name, value in options.items():
        claim, kind = _unsecured_claim(name)
        if claim in _RESERVED_CLAIMS:
            raise AccessTokenError(f"Cannot explicitly set the '{claim}' claim")
        if kind == "String":
            claims[claim] = value
        elif kind == "Number":
            claims[claim] = _number(name, value)
        elif kind == "List":
            claims[claim] = _listed(value)
    principal_claim = options.get(f"{_UNSECURED}PrincipalClaimName", "").strip() or "sub"
    principal = claims.get(principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise AccessTokenError(f"{_UNSECURED}StringClaim_{principal_claim} is missing: it says who this is")
    header = _section({"alg": "none"})
    return AccessToken(f"{header}.{_section(claims)}.", now_ms + int(lifetime) * 1000, now_ms)


def extensions(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The SASL extensions of a JAAS configuration: `extension_<key>`, or `unsecuredLoginExtension_<key>` for unsecured tokens."""
    found = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    for key, value in found.items():
        if not _EXTENSION_KEY.fullmatch(key) or key == "auth":
            raise AccessTokenError(f"{prefix}{key} cannot be sent: an extension's name is letters, and not auth")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise AccessTokenError(f"the value of {prefix}{key} cannot be sent: it is printable ASCII")
    return found


def _check_text(text: str) -> None:
    if len(text) > TOKEN_CHARS_MAX:
        raise AccessTokenError(f"the token has {len(text)} characters, and {TOKEN_CHARS_MAX} at most are sent")
    if not _B64TOKEN.fullmatch(text):
        raise AccessTokenError("the token is empty or has characters that no bearer token has")


def _claims(section: str) -> dict[str, object]:
    try:
        claims = json.loads(base64.urlsafe_b64decode(section + "=" * (-len(section) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise AccessTokenError("the token is no JWT: its payload cannot be read")
    return claims


def _moment_ms(claims: Mapping[str, object], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        raise AccessTokenError(f"the token's {name} is not a time")
    # Whole seconds, as Kafka takes them.
    return int(value) * 1000


def _unsecured_claim(option: str) -> tuple[str, str]:
    for kind in ("String", "Number", "List"):
        prefix = f"{_UNSECURED}{kind}Claim_"
        if option.startswith(prefix) and len(option) > len(prefix):
            return option.removeprefix(prefix), kind
    return "", ""


def _number(option: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise AccessTokenError(f"{option} is {value!r}; it is a number") from None


def _listed(value: str) -> list[str]:
    """`|a|b` is a and b: the first character is what separates. As Kafka does it, with its extra empty word."""
    if len(value) <= 1:
        return []
    delimiter, text = value[0], value[1:]
    elements = text.split(delimiter)
    while elements and not elements[-1]:
        elements.pop()
    if text.startswith(delimiter) or text.endswith(delimiter) or delimiter * 2 in text:
        elements.append("")
    return elements


def _section(value: Mapping[str, object]) -> str:
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(written).rstrip(b"=").decode()
