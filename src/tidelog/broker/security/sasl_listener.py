"""The frame handler of a SASL listener: gives every connection an authenticator of its own, in front of the ordinary handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tidelog.broker.metrics.authentication_metrics import NO_MECHANISM, AuthenticationCounts, AuthenticationMetrics
from tidelog.broker.security.sasl_authenticator import SaslAuthenticator
from tidelog.broker.security.sasl_mechanisms import Mechanism
from tidelog.broker.security.sasl_session import Authenticated
from tidelog.model.clock import Clock
from tidelog.model.timers import Timers
from tidelog.net.connection import Connection, FrameHandler


class BehindLogin(FrameHandler, Protocol):
    """Who takes the requests of those that have logged in."""

    def answer_api_versions(self, connection: Connection, frame: memoryview) -> None:
        """The one request that it answers to others, too. Whoever calls has read it before."""
        ...


class SaslListener:
    """One for each SASL listener."""

    def __init__(
        self,
        name: str,
        dispatcher: BehindLogin,
        mechanisms: Callable[[], Mapping[str, Mechanism]],
        metrics: AuthenticationMetrics,
        clock: Clock,
        timers: Timers,
        *,
        request_bytes_max: int,
        failure_delay_ms: int,
    ) -> None:
        """`mechanisms` are those that a connection may use which comes now."""
        self.name = name
        self.dispatcher = dispatcher
        self.clock = clock
        self.timers = timers
        self.request_bytes_max = request_bytes_max
        self.failure_delay_ms = failure_delay_ms
        self._mechanisms = mechanisms
        self._metrics = metrics

    @property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        return self._mechanisms()

    def counts(self, mechanism: str | None) -> AuthenticationCounts:
        return self._metrics[self.name, mechanism or NO_MECHANISM]

    def connection_opened(self, connection: Connection) -> None:
        # Which closes it while the node is not ready.
        self.dispatcher.connection_opened(connection)
        if not connection.is_closed:
            self.authenticate(connection)

    def authenticate(self, connection: Connection, previous: Authenticated | None = None) -> None:
        """The next request, and those that follow, are to tell who it is. `previous`: who it was until now."""
        connection.handler = SaslAuthenticator(self, connection, previous)

    def frame(self, connection: Connection, frame: memoryview) -> None:  # noqa: ARG002
        connection.abort()

    def frames_done(self, connection: Connection) -> None: ...

    def connection_closed(self, connection: Connection) -> None: ...
