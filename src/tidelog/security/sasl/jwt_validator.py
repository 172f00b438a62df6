"""Tokens with a signature (JWT, RFC 7519): verified with the issuer's keys, then by their claims, as Kafka's validator does.

- `alg` none is refused; `exp` and `iat` have to be there; `nbf` is obeyed.
- With expected audiences one of them must be in `aud`. Without any, a token that *has* an `aud` is refused: it is another's.
- The principal is in the claim of `sasl.oauthbearer.sub.claim.name`.
"""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.model.pending import Pending
from tidelog.security.sasl.jwks import ALGORITHMS, Found, VerificationKey
from tidelog.security.sasl.oauthbearer import BearerToken, TokenRefused, Validated

log = logging.getLogger(__name__)

_PARTS = 3
# Kafka's limit for an id that it looks for.
KID_CHARS_MAX = 1000


class JwtRules(NamedTuple):
    """What a listener expects of tokens."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    clock_skew_s: int = 30
    sub_claim: str = "sub"
    scope_claim: str = "scope"


class JwtError(Exception):
    """A token that is not good. The sentence is for the log."""


def jwt_validator(
    rules: JwtRules, find: Callable[[str | None, str], Found | Pending[Found]], now_ms: Callable[[], int]
) -> Callable[[str], Validated | Pending[Validated]]:
    """A validator for `oauthbearer`. `find` has the issuer's keys."""

    def finish(token: str, algorithm: str, key: Found) -> Validated:
        try:
            return check_claims(rules, _claims(verified_payload(token, algorithm, key)), now_ms())
        except JwtError as error:
            log.warning("Could not validate the access token: %s", error)
            return TokenRefused(reason=str(error))

    def validate(token: str) -> Validated | Pending[Validated]:
        try:
            kid, algorithm = header_of(token)
        except JwtError as error:
            log.warning("Could not validate the access token: %s", error)
            return TokenRefused(reason=str(error))
        found = find(kid, algorithm)
        if not isinstance(found, Pending):
            return finish(token, algorithm, found)
        validated: Pending[Validated] = Pending()
        found.then(lambda key: validated.complete(finish(token, algorithm, key)))
        return validated

    return validate


def header_of(token: str) -> tuple[str | None, str]:
    """Key id and algorithm, as far as a token that is not verified yet may say."""
    parts = token.strip().split(".")
    if len(parts) != _PARTS or not all(parts):
        raise JwtError("Malformed JWT provided; expected three sections (header, payload, and signature)")
    try:
        header = json.loads(urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except (Base64Error, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise JwtError("its header is no JSON object")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise JwtError("its algorithm is not one with a public key")
    if "crit" in header:
        raise JwtError("its header has extensions that must be understood and are not")
    if kid is not None and (not isinstance(kid, str) or len(kid) > KID_CHARS_MAX):
        raise JwtError("its key id is no text of a sensible length")
    return kid, algorithm


def verified_payload(token: str, algorithm: str, key: VerificationKey | None) -> bytes:
    """What a token says, if it was signed with a key. JwtError if not."""
    from jwt.api_jws import PyJWS  # noqa: PLC0415 - loaded with the keys, where there are any
    from jwt.exceptions import PyJWTError  # noqa: PLC0415

    if key is None:
        raise JwtError("no key for its signature is known")
    if not key.fits(algorithm):
        raise JwtError("its algorithm does not belong to its key")
    try:
        payload: bytes = PyJWS(algorithms=[algorithm]).decode(token.strip(), key=key.key, algorithms=[algorithm])  # type: ignore[arg-type]
    except (PyJWTError, ValueError, TypeError, NotImplementedError) as error:
        raise JwtError(f"its signature is not good: {error}") from None
    return payload


def _claims(payload: bytes) -> Mapping[str, object]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise JwtError("its claims are no JSON object")
    return claims


def check_claims(rules: JwtRules, claims: Mapping[str, object], now_ms: int) -> BearerToken:
    """The token of claims that hold now. JwtError says which does not."""
    expires_ms, issued_ms = _required_time_ms(claims, "exp"), _required_time_ms(claims, "iat")
    not_before_ms = _time_ms(claims, "nbf")
    skew_ms = rules.clock_skew_s * 1000
    if now_ms - skew_ms >= expires_ms:
        raise JwtError("it has expired")
    if expires_ms < issued_ms or (not_before_ms is not None and expires_ms < not_before_ms):
        raise JwtError("it ended before it began")
    if not_before_ms is not None and now_ms + skew_ms < not_before_ms:
        raise JwtError("it is not valid yet")
    _check_audience(rules, claims.get("aud"))
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise JwtError("its issuer is not the expected one")
    scope = _scope(rules.scope_claim, claims.get(rules.scope_claim))
    if expires_ms < 0 or issued_ms < 0:
        raise JwtError("a time of it is negative")
    return BearerToken(_stripped(rules.sub_claim, claims.get(rules.sub_claim)), expires_ms, scope)


def _check_audience(rules: JwtRules, audience: object) -> None:
    if audience is None:
        if rules.audiences:
            raise JwtError("it has no audience")
        return
    audiences = audience if isinstance(audience, list) else [audience]
    if not rules.audiences:
        raise JwtError("it has an audience and sasl.oauthbearer.expected.audience is not set: set it to yours")
    if not any(each in rules.audiences for each in audiences if isinstance(each, str)):
        raise JwtError("its audience is not the expected one")


def _required_time_ms(claims: Mapping[str, object], name: str) -> int:
    value = _time_ms(claims, name)
    if value is None:
        raise JwtError(f"it has no {name}")
    return value


def _time_ms(claims: Mapping[str, object], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1 << 50:
        raise JwtError(f"its {name} is no time")
    # Whole seconds, as the library of Kafka's cuts them.
    return int(value) * 1000


def _scope(name: str, value: object) -> frozenset[str]:
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    scope = [_stripped(name, each) for each in given]
    if len(set(scope)) != len(scope):
        raise JwtError(f"its {name} has an entry twice")
    return frozenset(scope)


def _stripped(name: str, value: object) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise JwtError(f"its {name} is no text or empty")
    return text
