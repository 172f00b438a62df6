"""TLS of a listener, and of the connections to other nodes: what their streams have in common, and what became of them.

The context may be replaced at any time: connections that come later use the new one, and those that there are go on.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import NamedTuple

from tidelog.model.principal import ANONYMOUS, Principal

# A client that has begun is to end soon: what it has begun costs memory, and it is not known who it is.
HANDSHAKE_MS_MAX = 10_000


class TlsSession(NamedTuple):
    """What the two ends have agreed on."""

    peer_certificate: bytes | None
    """DER. None where the peer was not asked for one, or has none."""
    version: str
    cipher: str


class ServerTls:
    """TLS of one listener."""

    __slots__ = ("_principal_of", "context", "failed_handshakes", "handshake_ms_max", "handshakes")

    def __init__(
        self,
        context: ssl.SSLContext,
        principal_of: Callable[[bytes], Principal] | None = None,
        *,
        handshake_ms_max: int = HANDSHAKE_MS_MAX,
    ) -> None:
        """`principal_of` names the holder of a certificate; its ValueError says why nobody may go by it. Without one nobody is
        named by a certificate, as where a login follows."""
        self.context = context
        self.handshake_ms_max = handshake_ms_max
        self.handshakes = 0
        self.failed_handshakes = 0
        self._principal_of = principal_of

    def new_object(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self.context.wrap_bio(incoming, outgoing, server_side=True)

    def principal(self, session: TlsSession) -> Principal:
        """Who is at the other end."""
        if session.peer_certificate is None or self._principal_of is None:
            return ANONYMOUS
        return self._principal_of(session.peer_certificate)


class ClientTls:
    """TLS of the connections to other nodes. Whether their names are checked is a matter of the context."""

    __slots__ = ("context",)

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context

    def new_object(self, host: str, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self.context.wrap_bio(incoming, outgoing, server_side=False, server_hostname=host)


def session_of(end: ssl.SSLObject) -> TlsSession:
    cipher = end.cipher()
    return TlsSession(end.getpeercert(binary_form=True), end.version() or "", cipher[0] if cipher else "")
