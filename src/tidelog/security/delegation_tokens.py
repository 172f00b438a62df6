"""Delegation tokens (KIP-48): what is secret about one, and what whoever logs in with it is checked against.

A token's id is no secret. Its HMAC is: it is made of the id and the cluster's secret, told to the owner once, kept nowhere and
computed again. Its text is the password of a SCRAM login under the token's id:

    secret = TokenSecret("the cluster's secret")
    password = token_password(secret.hmac_of(token_id))
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from tidelog.model.clock import Clock
from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.model.slow_work import SlowWork
from tidelog.security.sasl.scram_credential import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    derive_credential,
    new_salt,
)

# Many more than a cluster has: beyond, what was computed longest ago is computed again.
HMACS_MAX = 20_000
CREDENTIALS_MAX = 10_000


class TokenView(Protocol):
    """What is asked of a token in the cluster's metadata."""

    @property
    def owner(self) -> str: ...

    @property
    def max_timestamp_ms(self) -> int: ...

    @property
    def expiration_timestamp_ms(self) -> int: ...


class TokenSecret:
    """The cluster's secret (`delegation.token.secret.key`)."""

    __slots__ = ("_hmacs", "_key")

    def __init__(self, text: str) -> None:
        self._key = text.encode()
        self._hmacs: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return "TokenSecret([hidden])"

    def hmac_of(self, token_id: str) -> bytes:
        """HMAC-SHA512 of a token's id."""
        found = self._hmacs.get(token_id)
        if found is None:
            import hmac  # noqa: PLC0415 - a node without tokens starts without it

            found = hmac.digest(self._key, token_id.encode(), "sha512")
            if len(self._hmacs) >= HMACS_MAX:
                del self._hmacs[next(iter(self._hmacs))]
            self._hmacs[token_id] = found
        return found

    def token_of(self, given: bytes, token_ids: Mapping[str, object]) -> str | None:
        """Which of some tokens has this HMAC. How long it takes does not tell how much of it was right."""
        import hmac  # noqa: PLC0415 - as above

        found = None
        for token_id in token_ids:
            if hmac.compare_digest(self.hmac_of(token_id), given):
                found = token_id
        return found


def token_password(hmac: bytes) -> str:
    """The password of a SCRAM login with a token."""
    return base64.b64encode(hmac).decode()


def is_expired(token: TokenView, now_ms: int) -> bool:
    return token.max_timestamp_ms < now_ms or token.expiration_timestamp_ms < now_ms


class TokenCredentials:
    """What SCRAM logins with tokens are checked against, derived when a token is used first. Each node has salts of its own."""

    def __init__(
        self, secret: TokenSecret | None, tokens: Callable[[], Mapping[str, TokenView]], clock: Clock, random: Random
    ) -> None:
        """`tokens` gives those of the cluster's metadata, by id; another mapping whenever they have changed."""
        self._secret = secret
        self._tokens = tokens
        self._clock = clock
        self._random = random
        self._known: dict[tuple[str, str], ScramCredential] = {}
        self._seen: Mapping[str, TokenView] | None = None

    def __repr__(self) -> str:
        return f"TokenCredentials({len(self._known)} [hidden])"

    def __len__(self) -> int:
        """How many credentials are kept."""
        return len(self._known)

    def credential(self, mechanism: str, token_id: str) -> tuple[ScramCredential, Principal, int] | None:
        """The credential of a token for a mechanism, who logs in with it, and when that ends; None where nobody can.

        The first time takes milliseconds, unless `prepare` was called before.
        """
        token = self._token(token_id)
        if token is None:
            return None
        credential = self._known.get((mechanism, token_id))
        if credential is None:
            derive = self._derivation(mechanism, token_id)
            if derive is None:
                return None
            credential = derive()
            self._keep(mechanism, token_id, credential)
        kind, _, name = token.owner.partition(":")
        return credential, Principal(kind, name, token_authenticated=True), token.expiration_timestamp_ms

    def prepare(self, mechanism: str, token_id: str, slow_work: SlowWork) -> Pending[None]:
        """Derive a credential beside the loop, so that `credential` has it at once. Done at once where it is there."""
        done: Pending[None] = Pending()
        known = self._token(token_id) is None or (mechanism, token_id) in self._known
        derive = None if known else self._derivation(mechanism, token_id)
        if derive is None:
            done.complete(None)
            return done

        def derived(outcome: ScramCredential | BaseException) -> None:
            if isinstance(outcome, ScramCredential) and self._token(token_id) is not None:
                self._keep(mechanism, token_id, outcome)
            done.complete(None)

        slow_work.submit(derive, derived)
        return done

    def _token(self, token_id: str) -> TokenView | None:
        tokens = self._tokens()
        if tokens is not self._seen:
            # What was removed leaves with its credentials; what was renewed keeps them.
            self._seen = tokens
            self._known = {key: credential for key, credential in self._known.items() if key[1] in tokens}
        token = tokens.get(token_id)
        return None if token is None or is_expired(token, self._clock.now_ms()) else token

    def _derivation(self, mechanism: str, token_id: str) -> Callable[[], ScramCredential] | None:
        known = ScramMechanism.named(mechanism)
        if known is None or self._secret is None:
            return None
        password, salt = token_password(self._secret.hmac_of(token_id)), new_salt(self._random)
        return lambda: derive_credential(known, password, salt, ITERATIONS_MIN)

    def _keep(self, mechanism: str, token_id: str, credential: ScramCredential) -> None:
        if len(self._known) >= CREDENTIALS_MAX:
            del self._known[next(iter(self._known))]
        self._known[mechanism, token_id] = credential
