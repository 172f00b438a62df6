"""How a connection to another node is made safe: by TLS, by a login, by both or by neither.

    NodeConnection(parts, host, port, security=ConnectionSecurity(tls=ClientTls(context)))

A login speaks through frames of its own before the first request may leave; it does no I/O itself, so that any mechanism goes
over any connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tidelog.net.address import Address
    from tidelog.net.tls import ClientTls


class ClientAuthentication(Protocol):
    """The login of one connection, sans I/O. AuthenticationError ends it."""

    is_done: bool
    session_lifetime_ms: int
    """After how long the node wants a new login on the same connection; 0: never."""

    def start(self) -> list[bytes]:
        """The first frames to send: each a whole request with its header, without its size."""
        ...

    def received(self, frame: memoryview) -> list[bytes]:
        """What to send next, now that this answer has come."""
        ...


class ConnectionSecurity(NamedTuple):
    """What the connections to one kind of nodes have in common."""

    tls: ClientTls | None = None
    authentication: Callable[[Address], ClientAuthentication] | None = None
    """A new login for a connection to a node."""
