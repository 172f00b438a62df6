"""How a connection to another node is made safe: by TLS, by a login, by both or by neither.

    NodeConnection(parts, host, port, security=ConnectionSecurity(tls=ClientTls(context)))

A login speaks through frames of its own before the first request may leave; it does no I/O itself, so that any mechanism goes
over any connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.model.pending import Pending
from tidelog.security.sasl.exchange import SaslError

if TYPE_CHECKING:
    from tidelog.net.address import Address
    from tidelog.net.tls import ClientTls

LoginFrames = list[bytes] | Pending[list[bytes] | SaslError]
"""Each a whole request with its header, without its size. Later, where a key is to be derived or a token to be fetched first."""


class ClientAuthentication(Protocol):
    """The login of one connection, sans I/O. SaslError or AuthenticationError ends it."""

    @property
    def name(self) -> str:
        """By which mechanism, for a sentence about it."""
        ...

    @property
    def is_done(self) -> bool: ...

    @property
    def session_lifetime_ms(self) -> int:
        """After how long the node wants a new login on the same connection; 0: never."""
        ...

    def start(self) -> LoginFrames:
        """The first frames to send."""
        ...

    def received(self, frame: memoryview) -> LoginFrames:
        """What to send next, now that this answer has come."""
        ...


class ConnectionSecurity(NamedTuple):
    """What the connections to one kind of nodes have in common."""

    tls: ClientTls | None = None
    authentication: Callable[[Address], ClientAuthentication] | None = None
    """A new login for a connection to a node."""
