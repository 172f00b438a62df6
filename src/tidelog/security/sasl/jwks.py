"""The keys of whoever issues tokens: a JSON Web Key Set (RFC 7517), read from a file or from http(s), and kept for an hour.

    keys = JwksKeys(partial(fetch_key_set, url), slow_work, now_ms, ...)
    keys.find("key-1", "RS256")          a key, None, or a Pending of either while the set is being fetched

A key that is not in the set may be a new one: the set is fetched again, but not more often than every `EARLY_REFRESH_MS`, since
anybody can make up a key's id.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork

log = logging.getLogger(__name__)

# A provider has a handful of keys, of a few hundred bytes each.
KEY_SET_BYTES_MAX = 1 << 20
KEYS_MAX = 1000
# Whoever logs in waits for it.
FETCH_TIMEOUT_S = 10.0
EARLY_REFRESH_MS = 10_000
_RSA_BITS_MIN = 2048

# What each algorithm is verified with: kty, and the curve where the algorithm names one.
ALGORITHMS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", None),
}


class JwksError(Exception):
    """A key set that cannot be had, in one sentence."""


class VerificationKey(NamedTuple):
    """One key of a set."""

    kid: str | None
    kty: str
    curve: str | None
    algorithm: str | None
    key: object

    def fits(self, algorithm: str) -> bool:
        kty, curve = ALGORITHMS[algorithm]
        return (
            self.kty == kty
            and (curve is None or self.curve == curve)
            and (self.algorithm is None or self.algorithm == algorithm)
        )


def fetch_key_set(url: str) -> tuple[VerificationKey, ...]:
    """The keys behind a URL. Waits for a disk or a server: for slow work. JwksError says what is wrong."""
    parts = urlsplit(url)
    try:
        content = _read_file(unquote(parts.path)) if parts.scheme.lower() == "file" else _read_http(url)
    except (OSError, ValueError) as error:
        raise JwksError(f"the keys at {url} cannot be read: {error}") from None
    if len(content) > KEY_SET_BYTES_MAX:
        raise JwksError(f"the keys at {url} have more than {KEY_SET_BYTES_MAX} bytes")
    return parse_key_set(content, url)


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - a few bytes of it
        return file.read(KEY_SET_BYTES_MAX + 1)


def _read_http(url: str) -> bytes:
    # Only where keys are fetched: a node without them does not load an HTTP client.
    from urllib.request import HTTPRedirectHandler, build_opener  # noqa: PLC0415

    class NoRedirect(HTTPRedirectHandler):
        """The URL was allowed, and no other."""

        def redirect_request(self, *_args: Any) -> None:
            return None

    with build_opener(NoRedirect).open(url, timeout=FETCH_TIMEOUT_S) as answer:
        content: bytes = answer.read(KEY_SET_BYTES_MAX + 1)
        return content


def parse_key_set(content: bytes, where: str) -> tuple[VerificationKey, ...]:
    """The keys of a set that can verify a signature; others are left out."""
    try:
        held = json.loads(content)
        listed = held["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise JwksError(f"what is at {where} is no key set: expected JSON with a list of keys") from None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise JwksError(f"what is at {where} is no key set of at most {KEYS_MAX} keys")
    keys = [key for each in listed if isinstance(each, dict) and (key := _key(each, where)) is not None]
    if not keys:
        raise JwksError(f"the key set at {where} has no key that can verify a signature")
    return tuple(keys)


def _key(jwk: dict[str, Any], where: str) -> VerificationKey | None:
    # PyJWT brings `cryptography` with it, a tenth of a second that only nodes with such tokens wait for.
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm  # noqa: PLC0415
    from jwt.exceptions import PyJWTError  # noqa: PLC0415

    readers: dict[str, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
    kty, kid = jwk.get("kty"), jwk.get("kid")
    if kty not in readers or jwk.get("use", "sig") != "sig" or "d" in jwk:
        # Shared secrets and keys for encryption have no place among keys that everybody may read.
        return None
    try:
        key = readers[kty].from_jwk(jwk)
    except (PyJWTError, ValueError, TypeError, KeyError) as error:
        log.warning("a key at %s is left out: %s", where, error)
        return None
    if kty == "RSA" and key.key_size < _RSA_BITS_MIN:
        log.warning("a key at %s is left out: RSA with %d bits is too weak", where, key.key_size)
        return None
    return VerificationKey(kid if isinstance(kid, str) else None, kty, jwk.get("crv"), jwk.get("alg"), key)


Found = VerificationKey | None


class JwksKeys:
    """The keys as they were fetched last. All methods are called on the owner's thread."""

    def __init__(
        self,
        fetch: Callable[[], Sequence[VerificationKey]],
        slow_work: SlowWork,
        now_ms: Callable[[], int],
        *,
        refresh_ms: int,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
    ) -> None:
        self._fetch = fetch
        self._slow_work = slow_work
        self._now_ms = now_ms
        self._refresh_ms = refresh_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._keys: Sequence[VerificationKey] = ()
        self._is_fetching = False
        self._failures = 0
        # When the set was asked for last, and when it may be asked for again after a failure.
        self._fetched_ms: int | None = None
        self._early_ms: int | None = None
        self._retry_at_ms = 0
        self._waiting: list[tuple[str | None, str, Pending[Found]]] = []

    def find(self, kid: str | None, algorithm: str) -> Found | Pending[Found]:
        """The key of a token's header."""
        now_ms = self._now_ms()
        found = self._held(kid, algorithm)
        if found is not None:
            assert self._fetched_ms is not None
            if now_ms - self._fetched_ms >= self._refresh_ms:
                self._start(now_ms)
            return found
        if not self._is_fetching and not self._may_fetch_early(now_ms):
            return None
        waiting: Pending[Found] = Pending()
        self._waiting.append((kid, algorithm, waiting))
        self._start(now_ms)
        return waiting

    def _held(self, kid: str | None, algorithm: str) -> Found:
        for key in self._keys:
            if (kid is None or key.kid == kid) and key.fits(algorithm):
                return key
        return None

    def _may_fetch_early(self, now_ms: int) -> bool:
        if now_ms < self._retry_at_ms:
            return False
        if self._fetched_ms is not None:
            if self._early_ms is not None and now_ms - self._early_ms < EARLY_REFRESH_MS:
                return False
            self._early_ms = now_ms
        return True

    def _start(self, now_ms: int) -> None:
        if not self._is_fetching and now_ms >= self._retry_at_ms:
            self._is_fetching = True
            self._slow_work.submit(self._fetch, self._fetched)

    def _fetched(self, outcome: Sequence[VerificationKey] | BaseException) -> None:
        self._is_fetching = False
        if isinstance(outcome, BaseException):
            backoff_ms = min(self._retry_backoff_ms << min(self._failures, 30), self._retry_backoff_max_ms)
            self._failures += 1
            self._retry_at_ms = self._now_ms() + backoff_ms
            log.warning("the keys of OAUTHBEARER stay as they are: %s", outcome)
        else:
            self._failures = 0
            self._retry_at_ms = 0
            self._keys = outcome
            self._fetched_ms = self._now_ms()
        waiting, self._waiting = self._waiting, []
        for kid, algorithm, pending in waiting:
            pending.complete(self._held(kid, algorithm))
