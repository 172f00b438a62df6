"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): a password is proved without being told, by both sides.

    client  n,,n=alice,r=<nonce>                               ClientFirst
    server  r=<nonce><server's nonce>,s=<salt>,i=<iterations>  ServerFirst
    client  c=biws,r=<both>,p=<proof>                          ClientFinal
    server  v=<signature>                                      ServerFinal

The server has keys that were derived from the password (`scram_credential`), never the password, and its part takes microseconds.
The client derives them, which takes milliseconds of slow work.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Protocol

from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.model.slow_work import SlowWork
from tidelog.security.sasl.exchange import Evaluated, SaslAuthenticationError, SaslError, UnexpectedTokenError
from tidelog.security.sasl.scram_credential import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    salted_password,
)
from tidelog.security.sasl.scram_messages import (
    ClientFinal,
    ClientFirst,
    ServerFinal,
    ServerFirst,
    sasl_name,
    username_of,
)

# A client counts as far as it is told to by whoever answers it: a second or so, not hours.
CLIENT_ITERATIONS_MAX = 1 << 20
TOKEN_AUTH = "tokenauth"  # noqa: S105 - the name of an extension

# No channel binding: what the client-final message repeats of the client-first one, always.
_GS2_HEADER = b"n,,"
_NONCE_BITS = 130
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


TokenCredential = tuple[ScramCredential, Principal, int]
"""What a server knows of a delegation token: its credential, its owner, and when it expires."""


class RandomBits(Protocol):
    """Where nonces come from: the system's in a node, a seeded one in the simulator."""

    def getrandbits(self, k: int, /) -> int: ...


def nonce(random: RandomBits) -> str:
    """130 bits to the base of 36, as Kafka's."""
    number = random.getrandbits(_NONCE_BITS)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE36[digit] + digits
    return digits or "0"


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.digest)


def _hash(mechanism: ScramMechanism, message: bytes) -> bytes:
    return hashlib.new(mechanism.digest, message).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))


def _auth_message(first: ClientFirst, server_first: ServerFirst, final: ClientFinal) -> bytes:
    return f"{first.bare},{server_first.text},{final.without_proof}".encode()


class ScramServer:
    """The server's side of one attempt."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credentials: Callable[[str], ScramCredential | None],
        tokens: Callable[[str], TokenCredential | Pending[TokenCredential | None] | None],
        random: RandomBits,
    ) -> None:
        """Both look a name up at the moment of asking; nothing is kept from one attempt to the next. What a token is checked
        against may have to be derived first."""
        self._mechanism = mechanism
        self._credentials = credentials
        self._tokens = tokens
        self._random = random
        self._first: ClientFirst | None = None
        self._server_first: ServerFirst | None = None
        self._credential: ScramCredential | None = None
        self._principal: Principal | None = None
        self._is_over = False
        self.is_complete = False
        self.session_end_ms: int | None = None

    @property
    def principal(self) -> Principal:
        assert self.is_complete
        assert self._principal is not None
        return self._principal

    def evaluate(self, token: bytes) -> Evaluated:
        if self._is_over:
            raise SaslAuthenticationError(f"Unexpected challenge in Sasl server state {self._state()}")
        # Until this step has succeeded.
        self._is_over = True
        if self._server_first is None:
            return self._begin(ClientFirst.parse(token))
        return self._end(ClientFinal.parse(token), self._server_first)

    def _state(self) -> str:
        return "COMPLETE" if self.is_complete else "FAILED"

    def _begin(self, first: ClientFirst) -> Evaluated:
        username = username_of(first.sasl_name)
        if first.extension_values.get(TOKEN_AUTH, "").lower() != "true":
            self._principal = Principal("User", username)
            return self._challenge(first, username, self._credentials(username))
        found = self._tokens(username)
        if not isinstance(found, Pending):
            return self._token_challenge(first, username, found)
        challenged: Pending[bytes | SaslError] = Pending()

        def derived(token: TokenCredential | None) -> None:
            try:
                challenged.complete(self._token_challenge(first, username, token))
            except SaslError as error:
                challenged.complete(error)

        found.then(derived)
        return challenged

    def _token_challenge(self, first: ClientFirst, token_id: str, found: TokenCredential | None) -> bytes:
        if found is None:
            raise SaslError("Token Authentication failed: Invalid tokenId")
        credential, owner, self.session_end_ms = found
        self._principal = owner._replace(token_authenticated=True)
        return self._challenge(first, token_id, credential)

    def _challenge(self, first: ClientFirst, username: str, credential: ScramCredential | None) -> bytes:
        if credential is None:
            raise SaslError("Authentication failed: Invalid user credentials")
        if first.authzid not in ("", username):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential.iterations < ITERATIONS_MIN:
            name = self._mechanism.mechanism_name
            raise SaslError(f"Iterations {credential.iterations} is less than the minimum {ITERATIONS_MIN} for {name}")
        self._first = first
        self._credential = credential
        both = first.nonce + nonce(self._random)
        self._server_first = ServerFirst(both, credential.salt, credential.iterations)
        self._is_over = False
        return self._server_first.text.encode()

    def _end(self, final: ClientFinal, server_first: ServerFirst) -> bytes:
        credential, first, mechanism = self._credential, self._first, self._mechanism
        assert credential is not None
        assert first is not None
        if final.nonce != server_first.nonce:
            raise SaslError("Invalid client nonce in the final client message.")
        message = _auth_message(first, server_first, final)
        client_signature = _hmac(mechanism, credential.stored_key, message)
        if len(final.proof) != len(client_signature):
            raise UnexpectedTokenError("Argument arrays must be of the same length")
        stored_key = _hash(mechanism, _xor(client_signature, final.proof))
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise SaslError("Invalid client credentials")
        signature = _hmac(mechanism, credential.server_key, message)
        self._credential = None
        self.is_complete = True
        return ServerFinal(signature).to_bytes()


class ScramClient:
    """The client's side of one attempt. The password is salted by slow work, and the answer to that is a Pending."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        random: RandomBits,
        slow_work: SlowWork,
        *,
        is_token: bool = False,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._slow_work = slow_work
        self._first = ClientFirst(
            sasl_name(username), nonce(random), extensions=f"{TOKEN_AUTH}=true" if is_token else ""
        )
        self._next: Callable[[bytes], Evaluated] = self._begin
        self._signature = b""
        self.is_complete = False

    def evaluate(self, token: bytes) -> Evaluated:
        return self._next(token)

    def _begin(self, _token: bytes) -> bytes:
        self._next = self._prove
        return self._first.to_bytes()

    def _prove(self, token: bytes) -> Evaluated:
        mechanism = self._mechanism
        said = ServerFirst.parse(token)
        if not said.nonce.startswith(self._first.nonce):
            raise SaslError("Invalid server nonce: does not start with client nonce")
        if said.iterations < ITERATIONS_MIN:
            raise SaslError(
                f"Requested iterations {said.iterations} is less than the minimum {ITERATIONS_MIN}"
                f" for {mechanism.mechanism_name}"
            )
        if said.iterations > CLIENT_ITERATIONS_MAX:
            raise SaslError(f"Requested iterations {said.iterations} is more than {CLIENT_ITERATIONS_MAX}")
        self._next = self._verify
        proved: Pending[bytes | SaslError] = Pending()

        def salted(outcome: bytes | BaseException) -> None:
            if isinstance(outcome, bytes):
                proved.complete(self._final(outcome, said))
            else:
                proved.complete(SaslError(f"the password could not be salted: {outcome!r}"))

        password = self._password
        self._slow_work.submit(lambda: salted_password(mechanism, password, said.salt, said.iterations), salted)
        return proved

    def _final(self, salted: bytes, server_first: ServerFirst) -> bytes:
        mechanism = self._mechanism
        final = ClientFinal(_GS2_HEADER, server_first.nonce)
        message = _auth_message(self._first, server_first, final)
        client_key = _hmac(mechanism, salted, b"Client Key")
        proof = _xor(client_key, _hmac(mechanism, _hash(mechanism, client_key), message))
        self._signature = _hmac(mechanism, _hmac(mechanism, salted, b"Server Key"), message)
        return final._replace(proof=proof).to_bytes()

    def _verify(self, token: bytes) -> bytes:
        """The server knows the password too, or it is another server."""
        said = ServerFinal.parse(token)
        if said.error is not None:
            name = self._mechanism.mechanism_name
            raise SaslError(f"Sasl authentication using {name} failed with error: {said.error}")
        if not hmac.compare_digest(said.signature, self._signature):
            raise SaslError("Invalid server signature in server final message")
        self.is_complete = True
        return b""
