"""One authentication as bytes in and bytes out, whatever the mechanism; and what can go wrong with it.

    exchange = ScramServer(...)                # one for each attempt
    answer = exchange.evaluate(token)          # the next token for the peer, maybe empty; or a Pending of it
    if exchange.is_complete: exchange.principal, exchange.session_end_ms

SaslError                     the exchange is over; what it says is for the log, since it may tell whether a user exists
├── SaslAuthenticationError   the same, and the peer is told the text
└── UnexpectedTokenError      what Kafka's server does not expect: it closes the connection without an answer
"""

from __future__ import annotations

from typing import Protocol

from tidelog.model.pending import Pending
from tidelog.model.principal import Principal


class SaslError(Exception):
    """An authentication that has failed. Java's `SaslException`."""


class SaslAuthenticationError(SaslError):
    """An authentication that has failed for a reason that the peer may know. Kafka's exception of the same name."""


class UnexpectedTokenError(SaslError):
    """A token at which Kafka's code fails with an exception of Java's own."""


Evaluated = bytes | Pending[bytes | SaslError]
"""The next token for the peer; or, where keys are to be fetched first, what it comes to later."""


class ServerExchange(Protocol):
    """The server's side of one attempt."""

    @property
    def is_complete(self) -> bool:
        """Whether the peer is who it says."""
        ...

    @property
    def principal(self) -> Principal:
        """Who it is. Once it is complete."""
        ...

    @property
    def session_end_ms(self) -> int | None:
        """Until when the credential is good, in milliseconds since the epoch; None: for ever."""
        ...

    def evaluate(self, token: bytes) -> Evaluated:
        """Take the peer's token. SaslError if that is the end."""
        ...


class ClientExchange(Protocol):
    """The client's side of one attempt. The first token answers an empty one."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is expected from the server."""
        ...

    def evaluate(self, token: bytes) -> Evaluated:
        """The next token for the server. SaslError if that is the end."""
        ...
