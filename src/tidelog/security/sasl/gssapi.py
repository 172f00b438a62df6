"""GSSAPI (RFC 4752): a ticket of Kerberos, and then one message each way in which the two agree on no layer of their own.

    client                                            server
    the first token of a context                ->
                                                <-    its answer, if the client wants one of it; then the client sends nothing
                                                <-    what it offers: 4 bytes, sealed by the context
    what is chosen of it: 4 bytes, sealed       ->

What the messages hold is here; contexts come from `tidelog.security.kerberos_login`. As Java's `GssKrb5Server` and
`GssKrb5Client` do it for Kafka: no layer, since TLS is for that. Whom a client wants to act as counts for nothing: it is who its
ticket says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.model.slow_work import SlowWork
from tidelog.security.kerberos_names import KerberosNameError, ShortNames
from tidelog.security.sasl.exchange import Evaluated, SaslAuthenticationError, SaslError, UnexpectedTokenError

MECHANISM = "GSSAPI"

_NO_LAYER = 1
# Which layers, and how long a message may be in one: none, and so no length.
_OFFER = bytes([_NO_LAYER, 0, 0, 0])
_OFFER_BYTES = len(_OFFER)


class GssError(Exception):
    """What Kerberos says against a token or a credential, in one sentence."""


class GssContext(Protocol):
    """One side's context. Every method raises GssError."""

    @property
    def is_established(self) -> bool: ...

    @property
    def peer_name(self) -> str:
        """Whose ticket it was, once it is established: `alice@EXAMPLE.COM`."""
        ...

    def step(self, token: bytes) -> bytes:
        """The next token for the peer, empty if there is none. Slow: it reads files, and asks for tickets."""
        ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, token: bytes) -> bytes: ...


def _step(slow_work: SlowWork, step: Callable[[], bytes], then: Callable[[bytes], bytes]) -> Evaluated:
    """A step beside the loop, and what is made of its token; whatever goes wrong is a SaslError."""
    evaluated: Pending[bytes | SaslError] = Pending()

    def done(outcome: bytes | BaseException) -> None:
        if not isinstance(outcome, bytes):
            said = str(outcome) if isinstance(outcome, GssError) else repr(outcome)
            evaluated.complete(SaslError(f"GSS initiate failed: {said}"))
            return
        try:
            token = then(outcome)
        except SaslError as error:
            evaluated.complete(error)
        else:
            evaluated.complete(token)

    slow_work.submit(step, done)
    return evaluated


class GssapiServer:
    """The server's side of one attempt."""

    session_end_ms: int | None = None

    def __init__(self, new_context: Callable[[], GssContext], names: ShortNames, slow_work: SlowWork) -> None:
        """`new_context` is called beside the loop, and raises GssError."""
        self._new_context = new_context
        self._names = names
        self._slow_work = slow_work
        self._context: GssContext | None = None
        self._next: Callable[[bytes], Evaluated] = self._accept
        self._username: str | None = None

    @property
    def is_complete(self) -> bool:
        return self._username is not None

    @property
    def principal(self) -> Principal:
        assert self._username is not None
        return Principal("User", self._username)

    def evaluate(self, token: bytes) -> Evaluated:
        return self._next(token)

    def _accept(self, token: bytes) -> Evaluated:
        def step() -> bytes:
            if self._context is None:
                self._context = self._new_context()
            return self._context.step(token)

        return _step(self._slow_work, step, self._accepted)

    def _accepted(self, answer: bytes) -> bytes:
        assert self._context is not None
        if self._context.is_established:
            self._next = self._offer
            if not answer:
                return self._offer(b"")
        return answer

    def _offer(self, token: bytes) -> bytes:
        assert self._context is not None
        if token:
            raise SaslError("Handshake expecting no response data from server")
        self._next = self._choice
        try:
            return self._context.wrap(_OFFER)
        except GssError as error:
            raise SaslError(f"Problem wrapping handshake1: {error}") from None

    def _choice(self, token: bytes) -> bytes:
        context = self._context
        assert context is not None
        try:
            chosen = context.unwrap(token)
            peer = context.peer_name
        except GssError as error:
            raise SaslError(f"Final handshake step failed: {error}") from None
        if len(chosen) < _OFFER_BYTES:
            raise UnexpectedTokenError(f"the client's choice of a layer has {len(chosen)} bytes")
        if chosen[0] != _NO_LAYER:
            raise SaslError(f"Client selected unsupported protection: {chosen[0]}")
        try:
            username = self._names.short_name(peer)
        except KerberosNameError as error:
            # Kafka closes the connection at the next request, without a word.
            raise SaslAuthenticationError(
                f"Failed to set name for '{peer}' based on Kerberos authentication rules: {error}"
            ) from None
        self._username = username
        return b""


class GssapiClient:
    """The client's side of one attempt. Its ticket is fetched by slow work, and the first token is a Pending."""

    def __init__(self, new_context: Callable[[], GssContext], slow_work: SlowWork) -> None:
        """`new_context` is called beside the loop, and raises GssError."""
        self._new_context = new_context
        self._slow_work = slow_work
        self._context: GssContext | None = None
        self._next: Callable[[bytes], Evaluated] = self._initiate
        self.is_complete = False

    def evaluate(self, token: bytes) -> Evaluated:
        return self._next(token)

    def _initiate(self, token: bytes) -> Evaluated:
        def step() -> bytes:
            if self._context is None:
                self._context = self._new_context()
            return self._context.step(token)

        return _step(self._slow_work, step, self._initiated)

    def _initiated(self, token: bytes) -> bytes:
        assert self._context is not None
        if self._context.is_established:
            self._next = self._choose
        return token

    def _choose(self, token: bytes) -> bytes:
        assert self._context is not None
        if not token:
            return b""
        try:
            # What it holds is sealed: only whoever has the key of the service can have made it.
            offered = self._context.unwrap(token)
            if len(offered) < _OFFER_BYTES or not offered[0] & _NO_LAYER:
                raise SaslError("No common protection layer between client and server")
            chosen = self._context.wrap(_OFFER)
        except GssError as error:
            raise SaslError(f"Final handshake failed: {error}") from None
        self._next = self._end
        return chosen

    def _end(self, _token: bytes) -> bytes:
        self.is_complete = True
        return b""
